package transport

import (
	"errors"
	"os"
	"sync"
	"time"
)

const (
	// patience is how long a connection that is to be closed may go without reading any of what it is still owed.
	patience = 5 * time.Second
	// lingerFor is how long it may take to close its own side then.
	lingerFor = time.Second
	// lingerBytes is how much a client may send after the end of its conversation before its bytes are left unread. To take
	// them serves to bring replies to a client that reads none before it has sent everything, and must not make work without
	// end.
	lingerBytes = 80 << 20
)

// depart ends the session. It comes before the client can learn that the conversation is over.
func (c *Conn) depart() {
	if c.owner.finish() {
		c.session.End()
	}
}

// leave frees the place of the connection, and departs.
func (c *Conn) leave() {
	c.srv.forget(c)
	c.depart()
}

// goodbye tells the peer of an encrypted connection that nothing follows, so that it can tell the end from a cut.
func (c *Conn) goodbye() {
	if c.tls != nil {
		_ = c.tls.CloseWrite() // of the encryption only; it is queued behind what waits, or the connection is broken
	}
}

// end closes a connection that the client may still be writing to. What it is owed is sent first, and what it sends
// meanwhile is taken and thrown away, up to a bound: a client that writes all before it reads would wait for ever, and bytes
// left unread make the kernel throw away replies that are on their way.
func (c *Conn) end() {
	heard, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		defer c.rescue()
		if c.discard(lingerBytes) {
			close(heard)
		}
	}()
	// A client that has been silent for a while has nothing on its way that closing could harm.
	silent := c.srv.config.Now()-c.ran > int64(lingerFor)
	half, ok := c.nc.(interface{ CloseWrite() error })
	told := c.out.wait(patience)
	c.depart()
	c.goodbye()
	told = told && c.out.wait(patience)
	if told && !silent && ok && half.CloseWrite() == nil {
		timer := time.NewTimer(lingerFor)
		defer timer.Stop()
		select {
		case <-heard:
		case <-timer.C:
		}
	}
	c.nc.Close()
	<-done
}

// discardSize is the room for what is thrown away.
const discardSize = 16 << 10

var discarded = sync.Pool{New: func() any { return new([discardSize]byte) }}

// discard takes what the client sends until it ends, and reports whether it did, or until it was so many bytes. Then they
// are left where they are, and the client has to wait.
func (c *Conn) discard(most int) (ended bool) {
	room := discarded.Get().(*[discardSize]byte)
	defer discarded.Put(room)
	c.nc.SetReadDeadline(time.Time{})
	for most > 0 {
		n, err := c.nc.Read(room[:])
		most -= n
		switch {
		case errors.Is(err, os.ErrDeadlineExceeded):
			c.nc.SetReadDeadline(time.Time{}) // Wake came late
		case err != nil:
			return true
		}
	}
	return false
}
