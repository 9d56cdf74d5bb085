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

// openLoop sends commands at a fixed rate, over its connections in turn, whether or not those before have been answered,
// and measures how long each takes from the moment at which it was due. It is one thread that never sleeps where it has
// a core that the server does not need: waking up takes longer than many replies.
type openLoop struct {
	addr    string
	conns   int
	rate    float64       // commands per second, of all connections together
	length  time.Duration // how long commands are due; 0 for until over is set
	warm    time.Duration // what is due before that is sent and not recorded
	spin    bool
	command func([]byte, *rand.Rand) []byte
	warmed  chan struct{} // closed when what is sent is recorded from then on, unless it is nil

	over atomic.Bool
}

// openResult is what an openLoop has seen.
type openResult struct {
	seen *histogram // from due to answered
	late *histogram // from due to sent: what the generator itself, and whatever disturbed it, adds to seen
	owed int64      // commands that were given up on, and recorded as if they had been answered then
	busy float64    // the server's share of a core meanwhile, in percent, if somebody has looked
}

// drainTime is how long replies are waited for when all commands have been sent.
const drainTime = 2 * time.Second

// flow is a connection of an openLoop.
type flow struct {
	file *os.File
	fd   int
	out  []byte          // not written yet
	in   []byte          // read, and not a whole reply yet
	due  []time.Duration // of the commands that are not answered, oldest first
	head int             // where due begins
}

func (f *flow) waiting() int { return len(f.due) - f.head }

// answered returns when the oldest command was due, and forgets it.
func (f *flow) answered() time.Duration {
	due := f.due[f.head]
	if f.head++; f.head == len(f.due) {
		f.due, f.head = f.due[:0], 0
	}
	return due
}

// run sends, and returns when all is answered or given up on.
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

// dial connects, to a socket that never blocks.
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

// write writes what the socket takes.
func (f *flow) write() error {
	n, err := syscall.Write(f.fd, f.out)
	if err != nil && err != syscall.EAGAIN && err != syscall.EINTR {
		return err
	}
	f.out = f.out[:copy(f.out, f.out[max(n, 0):])]
	return nil
}

// read reads what there is, and returns how many replies it completes.
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

// replyLength returns the length of the reply of RESP2 that b begins with, 0 while it is not all there.
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
