package transport

import (
	"errors"
	"os"
	"runtime"
	"time"
)

// errNothing is returned by a read that found nothing.
var errNothing = errors.New("nothing has arrived")

// loops are the event loops of a server, one for each processor. They are started with the first connection.
type loops struct {
	started bool
	list    []*loop
}

// next returns the loop for the connection that is being accepted, or nil. It requires that s.mu is held.
func (a *loops) next(s *Server) *loop {
	if !a.started {
		a.started = true
		for range min(runtime.GOMAXPROCS(0), runtime.NumCPU()) {
			if l := newLoop(s); l != nil {
				a.list = append(a.list, l)
			}
		}
	}
	if len(a.list) == 0 {
		return nil
	}
	return a.list[s.served%uint64(len(a.list))]
}

// stop ends the loops.
func (a *loops) stop() {
	for _, l := range a.list {
		l.stop()
	}
	a.list = nil
}

// handoff is what a connection needs to be lent to its loop.
type handoff struct {
	loop     *loop  // nil if there is none
	slot     int32  // of the loop, while it has the connection; guarded by its mu
	loan     int32  // the number of this loan: events of earlier ones carry another
	turn     uint64 // the last turn of the loop that the connection was part of
	back     chan handback
	readOnce func(fd uintptr) bool
}

// handback is why a loop gives a connection back: an error, or something that the loop does not do. With neither, somebody
// has reclaimed it.
type handback struct {
	next Next
	err  error
}

// joinLoop gives the connection a loop, if it can have one.
func (c *Conn) joinLoop() {
	if c.raw != nil && !c.srv.config.MayWait {
		c.loop = c.srv.loops.next(c.srv)
	}
	if c.loop == nil {
		return
	}
	c.back = make(chan handback, 1)
	c.readOnce = func(fd uintptr) bool {
		if !c.readNow(fd) {
			c.readErr = errNothing
		}
		return true
	}
}

// lend lends the connection to its loop, and returns when the loop hands it back. It reports whether the connection was
// served, by the loop or because something had arrived already, and returns what a read would have.
func (c *Conn) lend() (served bool, next Next, err error) {
	if c.loop == nil {
		return false, Read, nil
	}
	if err := c.tryOnce(); err != errNothing {
		return true, Again, err
	}
	if !c.loop.adopt(c) {
		return false, Read, nil
	}
	if c.woken.Load() {
		c.reclaim() // Wake was called before the loop had it
	}
	if c.left > 0 {
		timer := time.AfterFunc(c.left, c.reclaim)
		defer timer.Stop()
	}
	b := <-c.back
	if b.err == nil && b.next == Read {
		b.err = os.ErrDeadlineExceeded // somebody has reclaimed it: the caller looks for the reason
	}
	return true, b.next, b.err
}

// tryOnce reads what has arrived, and waits for nothing.
func (c *Conn) tryOnce() error {
	if err := c.raw.Read(c.readOnce); err != nil {
		return err
	}
	return c.readErr
}

// reclaim makes the loop give the connection back, so that its own goroutine looks at what has changed. It does nothing
// while the loop does not have it.
func (c *Conn) reclaim() {
	if c.loop != nil {
		c.loop.reclaim(c)
	}
}
