package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
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

// run sends the commands, and returns when all are answered or drainTime is over.
func (o *openLoop) run(ctx context.Context) (openResult, error) {
	if o.rate <= 0 {
		return openResult{}, errors.New("a load without a rate")
	}
	r, err := newOpenRun(o)
	defer r.close()
	if err != nil {
		return r.result, err
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	setTimerSlack(1)
	defer setTimerSlack(0)
	r.start = time.Now()
	for round := 0; ; round++ {
		if round%256 == 0 && ctx.Err() != nil {
			return r.result, ctx.Err()
		}
		now := time.Since(r.start)
		r.queue(now)
		if err := r.write(); err != nil {
			return r.result, err
		}
		if r.drained(now) {
			return r.result, nil
		}
		if !o.spin {
			sleepUntil(r.start.Add(min(max(r.due(), now), now+50*time.Microsecond)))
		}
		if err := r.read(); err != nil {
			return r.result, err
		}
	}
}

// openRun is the state of a run of an openLoop. Times are since start.
type openRun struct {
	*openLoop
	result      openResult
	flows       []flow
	unwritten   []int // indexes of the flows with commands to be written
	poll        int   // the epoll instance of all flows, -1 before it exists
	events      []syscall.EpollEvent
	buffer      []byte
	random      *rand.Rand
	start       time.Time
	sent        int64
	outstanding int64         // commands without a reply
	end         time.Duration // when waiting for replies ends; 0 while commands are sent
}

// newOpenRun connects. The caller must close the run, also after an error.
func newOpenRun(o *openLoop) (r *openRun, err error) {
	r = &openRun{
		openLoop:  o,
		result:    openResult{seen: new(histogram), late: new(histogram)},
		flows:     make([]flow, o.conns),
		unwritten: make([]int, 0, o.conns),
		poll:      -1,
		events:    make([]syscall.EpollEvent, o.conns),
		buffer:    make([]byte, 64<<10),
		random:    rand.New(rand.NewPCG(11, 11)),
	}
	if r.poll, err = syscall.EpollCreate1(syscall.EPOLL_CLOEXEC); err != nil {
		return r, err
	}
	for i := range r.flows {
		if err := r.flows[i].dial(o.addr); err != nil {
			return r, err
		}
		event := syscall.EpollEvent{Events: syscall.EPOLLIN, Fd: int32(i)}
		if err := syscall.EpollCtl(r.poll, syscall.EPOLL_CTL_ADD, r.flows[i].fd, &event); err != nil {
			return r, err
		}
	}
	return r, nil
}

func (r *openRun) close() {
	if r.poll >= 0 {
		_ = syscall.Close(r.poll)
	}
	for i := range r.flows {
		if r.flows[i].file != nil {
			_ = r.flows[i].file.Close()
		}
	}
}

// due returns when the next command is due.
func (r *openRun) due() time.Duration {
	return time.Duration(float64(r.sent) * float64(time.Second) / r.rate)
}

// queue appends the commands that are due to the output of their flows, or ends the sending if it is time.
func (r *openRun) queue(now time.Duration) {
	if warmed := r.warmed; warmed != nil && now >= r.warm {
		r.warmed = nil
		close(warmed)
	}
	if r.end == 0 && (r.over.Load() || r.length > 0 && r.due() >= r.length) {
		r.end = now + drainTime
	}
	for next := r.due(); r.end == 0 && next <= now && (r.length == 0 || next < r.length); next = r.due() {
		i := int(r.sent % int64(r.conns))
		f := &r.flows[i]
		if len(f.out) == 0 {
			r.unwritten = append(r.unwritten, i)
		}
		f.out = r.command(f.out, r.random)
		f.due = append(f.due, next)
		if next >= r.warm {
			r.result.late.record(now - next)
		}
		r.sent++
		r.outstanding++
	}
}

// write writes as much of the queued commands as the sockets accept.
func (r *openRun) write() error {
	left := r.unwritten[:0]
	for _, i := range r.unwritten {
		if err := r.flows[i].write(); err != nil {
			return err
		}
		if len(r.flows[i].out) > 0 {
			left = append(left, i)
		}
	}
	r.unwritten = left
	return nil
}

// drained reports whether sending has ended and no reply is outstanding. When drainTime is over, it records the outstanding
// commands as answered now.
func (r *openRun) drained(now time.Duration) bool {
	if r.end == 0 {
		return false
	}
	if r.outstanding > 0 && now > r.end {
		r.result.owed = r.outstanding
		for i := range r.flows {
			for r.flows[i].waiting() > 0 {
				r.record(&r.flows[i], now)
			}
		}
	}
	return r.outstanding == 0
}

// read records the replies that have arrived.
func (r *openRun) read() error {
	n, err := syscall.EpollWait(r.poll, r.events, 0)
	if err != nil && err != syscall.EINTR {
		return err
	}
	for _, event := range r.events[:max(n, 0)] {
		f := &r.flows[event.Fd]
		replies, err := f.read(r.buffer)
		if err != nil {
			return fmt.Errorf("at a fixed rate: %w", err)
		}
		for now := time.Since(r.start); replies > 0; replies-- {
			r.record(f, now)
		}
	}
	return nil
}

// record records that the oldest command of a flow is answered now.
func (r *openRun) record(f *flow, now time.Duration) {
	if at := f.answered(); at >= r.warm {
		r.result.seen.record(now - at)
	}
	r.outstanding--
}
