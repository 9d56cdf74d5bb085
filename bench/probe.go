package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"runtime"
	"sync"
	"syscall"
	"time"
)

// probe sends one command after another at a fixed rate, and measures latency from the time at which a command is due: if a
// server stops for a second, every command that was due in that second is slow, not only one.
//
// It uses its own thread and blocking system calls. The timers and the network poller of Go's runtime are late by up to a
// millisecond, or more during a load, and that delay would count as the server's.
type probe struct {
	quit    chan struct{}
	stopped func() (*histogram, error)
}

// startProbe starts a probe with rate commands per second. The caller must stop it.
func startProbe(addr string, rate int, command func(b []byte, r *rand.Rand) []byte) (*probe, error) {
	file, err := dialBlocking(addr)
	if err != nil {
		return nil, err
	}
	p := &probe{quit: make(chan struct{})}
	h, done := new(histogram), make(chan error, 1)
	go func() {
		defer func() { _ = file.Close() }()
		done <- p.run(int(file.Fd()), time.Second/time.Duration(rate), command, h)
	}()
	p.stopped = sync.OnceValues(func() (*histogram, error) {
		close(p.quit)
		err := <-done
		return h, err
	})
	return p, nil
}

// stop ends the probe and returns the latencies. It may be called again.
func (p *probe) stop() (*histogram, error) { return p.stopped() }

// probeFor runs a probe until wait returns.
func probeFor(addr string, rate int, command func([]byte, *rand.Rand) []byte, wait func() error) (*histogram, error) {
	p, err := startProbe(addr, rate, command)
	if err != nil {
		return nil, err
	}
	waited := wait()
	h, err := p.stop()
	return h, errors.Join(waited, err)
}

// dialBlocking returns a connection whose reads and writes block the thread. Reads time out after 100 ms, so that the caller
// can check whether to stop.
func dialBlocking(addr string) (*os.File, error) {
	c, err := net.DialTimeout("tcp", addr, time.Second)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	file, err := c.(*net.TCPConn).File()
	if err != nil {
		return nil, err
	}
	fd := int(file.Fd())
	if err := syscall.SetNonblock(fd, false); err != nil {
		_ = file.Close()
		return nil, err
	}
	patience := syscall.NsecToTimeval((100 * time.Millisecond).Nanoseconds())
	if err := syscall.SetsockoptTimeval(fd, syscall.SOL_SOCKET, syscall.SO_RCVTIMEO, &patience); err != nil {
		_ = file.Close()
		return nil, err
	}
	return file, nil
}

// run probes until quit is closed.
func (p *probe) run(fd int, every time.Duration, command func([]byte, *rand.Rand) []byte, h *histogram) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	// Wake up on time, and take precedence over the load. Both are best effort: the second needs privileges. Both are undone
	// at the end, because the thread outlives the probe.
	setTimerSlack(1)
	defer setTimerSlack(0)
	if syscall.Setpriority(syscall.PRIO_PROCESS, 0, -20) == nil {
		defer func() { _ = syscall.Setpriority(syscall.PRIO_PROCESS, 0, 0) }()
	}

	r := bufio.NewReader(&blockingReader{fd, p.quit})
	random := rand.New(rand.NewPCG(7, 7))
	var b []byte
	due := time.Now().Add(every)
	for {
		select {
		case <-p.quit:
			return nil
		default:
		}
		sleepUntil(due)
		// Send every command that became due while the previous one waited.
		n, now := 0, time.Now()
		for b = b[:0]; !due.Add(time.Duration(n) * every).After(now); n++ {
			b = command(b, random)
		}
		if err := writeAll(fd, b); err != nil {
			return err
		}
		for ; n > 0; n-- {
			_, err := readReply(r, nil)
			if err != nil && err != errQuit {
				return fmt.Errorf("probe: %w", err)
			}
			h.record(time.Since(due)) // after errQuit the reply is missing: this is a lower bound
			due = due.Add(every)
		}
	}
}

// sleepUntil sleeps with a system call: time.Sleep is up to a millisecond late in an otherwise idle process.
func sleepUntil(t time.Time) {
	for left := time.Until(t); left > 0; left = time.Until(t) { // signals end a sleep early
		ts := syscall.NsecToTimespec(left.Nanoseconds())
		_ = syscall.Nanosleep(&ts, nil)
	}
}

// setTimerSlack sets how many nanoseconds late the kernel may wake this thread. 0 means the default, 50000.
func setTimerSlack(ns uintptr) {
	const prSetTimerSlack = 29
	_, _, _ = syscall.RawSyscall(syscall.SYS_PRCTL, prSetTimerSlack, ns, 0)
}

func writeAll(fd int, b []byte) error {
	for len(b) > 0 {
		n, err := syscall.Write(fd, b)
		if err != nil && err != syscall.EINTR {
			return fmt.Errorf("probe: %w", err)
		}
		b = b[max(n, 0):]
	}
	return nil
}

var errQuit = errors.New("the probe was stopped")

// blockingReader reads from a socket of dialBlocking until quit is closed.
type blockingReader struct {
	fd   int
	quit <-chan struct{}
}

func (r *blockingReader) Read(b []byte) (int, error) {
	for {
		n, err := syscall.Read(r.fd, b)
		switch {
		case err == syscall.EAGAIN || err == syscall.EINTR:
			select {
			case <-r.quit:
				return 0, errQuit
			default:
				continue
			}
		case err != nil:
			return 0, err
		case n == 0:
			return 0, io.EOF
		}
		return n, nil
	}
}
