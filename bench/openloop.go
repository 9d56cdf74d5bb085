package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"runtime"
	"sync/atomic"
	"syscall"
	"time"
)

// openLoop sends commands at a fixed rate over its connections in turn, whether or not earlier commands have been answered.
// It measures latency from the time at which a command is due. It runs in one thread, which spins if it has a core that the
// server does not need: waking up takes longer than many replies.
type openLoop struct {
	addr    string
	conns   int
	rate    float64       // commands per second, of all connections together
	length  time.Duration // how long commands are sent; 0: until over is set
	warm    time.Duration // commands due earlier are sent but not recorded
	spin    bool
	command func([]byte, *rand.Rand) []byte
	warmed  chan struct{} // closed when recording begins; may be nil

	over atomic.Bool
}

// openResult is the result of an openLoop.
type openResult struct {
	seen *histogram // latency, from due to answered
	late *histogram // from due to sent: the share of the load generator in seen
	owed int64      // commands without a reply, recorded as if answered when the wait for it ended
	busy float64    // the server's share of a core during the load, in percent, if measured
}

// drainTime is how long run waits for replies after the last command.
const drainTime = 2 * time.Second

// flow is a connection of an openLoop.
type flow struct {
	file *os.File
	fd   int
	out  []byte          // to be written
	in   []byte          // the beginning of an incomplete reply
	due  []time.Duration // due times of the commands without a reply, oldest first
	head int             // index in due of the oldest command
}

func (f *flow) waiting() int { return len(f.due) - f.head }

// answered removes the oldest command and returns its due time.
func (f *flow) answered() time.Duration {
	due := f.due[f.head]
	if f.head++; f.head == len(f.due) {
		f.due, f.head = f.due[:0], 0
	}
	return due
}

// run sends the commands, and returns when all are answered or drainTime is over.
func (o *openLoop) run(ctx context.Context) (result openResult, err error) {
	if o.rate <= 0 {
		return result, errors.New("a load without a rate")
	}
	result.seen, result.late = new(histogram), new(histogram)
	flows := make([]flow, o.conns)
	defer func() {
		for i := range flows {
			if flows[i].file != nil {
				_ = flows[i].file.Close()
			}
		}
	}()
	poll, err := syscall.EpollCreate1(syscall.EPOLL_CLOEXEC)
	if err != nil {
		return result, err
	}
	defer func() { _ = syscall.Close(poll) }()
	for i := range flows {
		if err := flows[i].dial(o.addr); err != nil {
			return result, err
		}
		event := syscall.EpollEvent{Events: syscall.EPOLLIN, Fd: int32(i)}
		if err := syscall.EpollCtl(poll, syscall.EPOLL_CTL_ADD, flows[i].fd, &event); err != nil {
			return result, err
		}
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	setTimerSlack(1)
	defer setTimerSlack(0)

	var (
		random      = rand.New(rand.NewPCG(11, 11))
		events      = make([]syscall.EpollEvent, o.conns)
		unwritten   = make([]int, 0, o.conns)
		buffer      = make([]byte, 64<<10)
		start       = time.Now()
		sent        int64
		outstanding int64
		end         time.Duration // when waiting ends; 0 while commands are sent
	)
	due := func() time.Duration { return time.Duration(float64(sent) * float64(time.Second) / o.rate) }
	record := func(f *flow, now time.Duration) {
		if at := f.answered(); at >= o.warm {
			result.seen.record(now - at)
		}
		outstanding--
	}
	for round := 0; ; round++ {
		if round%256 == 0 && ctx.Err() != nil {
			return result, ctx.Err()
		}
		now := time.Since(start)
		if warmed := o.warmed; warmed != nil && now >= o.warm {
			o.warmed = nil
			close(warmed)
		}
		if end == 0 && (o.over.Load() || o.length > 0 && due() >= o.length) {
			end = now + drainTime
		}
		for next := due(); end == 0 && next <= now && (o.length == 0 || next < o.length); next = due() {
			i := int(sent % int64(o.conns))
			f := &flows[i]
			if len(f.out) == 0 {
				unwritten = append(unwritten, i)
			}
			f.out = o.command(f.out, random)
			f.due = append(f.due, next)
			if next >= o.warm {
				result.late.record(now - next)
			}
			sent++
			outstanding++
		}
		left := unwritten[:0]
		for _, i := range unwritten {
			if err := flows[i].write(); err != nil {
				return result, err
			}
			if len(flows[i].out) > 0 {
				left = append(left, i)
			}
		}
		unwritten = left
		if end > 0 && outstanding == 0 {
			return result, nil
		}
		if end > 0 && now > end {
			result.owed = outstanding
			for i := range flows {
				for flows[i].waiting() > 0 {
					record(&flows[i], now)
				}
			}
			return result, nil
		}
		if !o.spin {
			sleepUntil(start.Add(min(max(due(), now), now+50*time.Microsecond)))
		}
		n, err := syscall.EpollWait(poll, events, 0)
		if err != nil && err != syscall.EINTR {
			return result, err
		}
		for _, event := range events[:max(n, 0)] {
			f := &flows[event.Fd]
			replies, err := f.read(buffer)
			if err != nil {
				return result, fmt.Errorf("at a fixed rate: %w", err)
			}
			for now := time.Since(start); replies > 0; replies-- {
				record(f, now)
			}
		}
	}
}

// dial connects with a non-blocking socket.
func (f *flow) dial(addr string) error {
	c, err := net.DialTimeout("tcp", addr, time.Second)
	if err != nil {
		return err
	}
	defer c.Close()
	if f.file, err = c.(*net.TCPConn).File(); err != nil {
		return err
	}
	f.fd = int(f.file.Fd())
	return syscall.SetNonblock(f.fd, true)
}

// write writes as much of out as the socket accepts.
func (f *flow) write() error {
	n, err := syscall.Write(f.fd, f.out)
	if err != nil && err != syscall.EAGAIN && err != syscall.EINTR {
		return err
	}
	f.out = f.out[:copy(f.out, f.out[max(n, 0):])]
	return nil
}

// read reads the available bytes and returns the number of replies that they complete.
func (f *flow) read(buffer []byte) (replies int, err error) {
	n, err := syscall.Read(f.fd, buffer)
	switch {
	case err == syscall.EAGAIN || err == syscall.EINTR:
		return 0, nil
	case err != nil:
		return 0, err
	case n == 0:
		return 0, io.EOF
	}
	b := buffer[:n]
	if len(f.in) > 0 {
		f.in = append(f.in, b...)
		b = f.in
	}
	for len(b) > 0 {
		n, err := replyLength(b)
		if err != nil {
			return replies, err
		}
		if n == 0 {
			break
		}
		if replies++; replies > f.waiting() {
			return replies, fmt.Errorf("a reply that nobody waits for: %q", b[:n])
		}
		b = b[n:]
	}
	f.in = append(f.in[:0], b...)
	return replies, nil
}

// replyLength returns the length of the RESP2 reply at the start of b, 0 if it is incomplete.
func replyLength(b []byte) (int, error) {
	at := bytes.IndexByte(b, '\n')
	if at < 0 {
		return 0, nil
	}
	if at < 2 {
		return 0, fmt.Errorf("not a reply: %q", b[:at+1])
	}
	length := at + 1
	switch b[0] {
	case '+', ':':
		return length, nil
	case '-':
		return 0, replyError(b[1 : at-1])
	case '$', '*':
	default:
		return 0, fmt.Errorf("not a reply: %q", b[:at+1])
	}
	n, err := parseInt(b[1 : at-1])
	if err != nil {
		return 0, fmt.Errorf("not a reply: %q", b[:at+1])
	}
	if b[0] == '$' {
		if n >= 0 {
			length += int(n) + 2
		}
		if length > len(b) {
			return 0, nil
		}
		return length, nil
	}
	for range n {
		part, err := replyLength(b[length:])
		if part == 0 || err != nil {
			return 0, err
		}
		length += part
	}
	return length, nil
}
