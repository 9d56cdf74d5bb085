package resp

import (
	"errors"
	"os"
	"runtime"
	"time"
)

// errNothing is what a read says that found nothing.
var errNothing = errors.New("nothing has arrived")

// lanes are the loops of a server, one for each processor. They are started with the first connection.
type lanes struct {
	started bool
	loops   []*loop
}

// of returns the loop for a connection, or nil. The server's mu is held.
func (a *lanes) of(c *conn) *loop {
	if !a.started {
		a.started = true
		for range min(runtime.GOMAXPROCS(0), runtime.NumCPU()) {
			if l := newLoop(c.srv); l != nil {
				a.loops = append(a.loops, l)
			}
		}
	}
	if len(a.loops) == 0 {
		return nil
	}
	return a.loops[c.client.id%int64(len(a.loops))]
}

// stop ends the loops.
func (a *lanes) stop() {
	for _, l := range a.loops {
		l.stop()
	}
	a.loops = nil
}

// lane is what a connection has for its loop.
type lane struct {
	loop     *loop // nil where there is none
	slot     int32 // in it, of which its mutex decides; 0 while its goroutine has it
	visits   int32 // tells apart the events of this visit and of those before
	back     chan error
	readOnce func(fd uintptr) bool

	due    bool  // it is among those of the turn
	more   bool  // it has more to answer, as soon as the replies so far are written
	failed error // to read, or to make durable
}

// enterLane gives the connection a loop, if it can have one.
func (c *conn) enterLane() {
	if c.raw != nil {
		c.loop = c.srv.lanes.of(c)
	}
	if c.loop == nil {
		return
	}
	c.back = make(chan error, 1)
	c.readOnce = func(fd uintptr) bool {
		if !c.readNow(fd) {
			c.readErr = errNothing
		}
		return true
	}
}

// visit has the loop serve the connection until its goroutine has to go on. It reports whether it did, and returns what a
// read would have.
func (c *conn) visit() (served bool, err error) {
	if c.loop == nil {
		return false, nil
	}
	if err := c.tryOnce(); err != errNothing {
		return true, err
	}
	if !c.loop.adopt(c) {
		return false, nil
	}
	if c.woken.Load() {
		c.recall() // it was not there yet when it was to be woken
	}
	if c.timed {
		timer := time.AfterFunc(c.left, c.recall)
		defer timer.Stop()
	}
	if err := <-c.back; err != nil || c.session.closing || c.session.deferred {
		return true, err
	}
	return true, os.ErrDeadlineExceeded // there was another reason, which is to be found
}

// tryOnce reads what has arrived, and waits for nothing.
func (c *conn) tryOnce() error {
	if err := c.raw.Read(c.readOnce); err != nil {
		return err
	}
	return c.readErr
}

// recall has the connection's own goroutine look at what has changed.
func (c *conn) recall() {
	if c.loop != nil {
		c.loop.want(c)
	}
}
