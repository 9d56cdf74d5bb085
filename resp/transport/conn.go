package transport

import (
	"crypto/tls"
	"errors"
	"io"
	"net"
	"os"
	"sync/atomic"
	"syscall"
	"time"

	"cellserver/internal/nonblock"
)

// past is a deadline that has passed.
var past = time.Unix(1, 0)

// Conn is one connection. It reads, has the session answer all that has arrived, and writes, in one goroutine at a time:
// see [owner]. A write that would block is left to a second goroutine for as long as that takes (outbox), so that reading
// goes on: a client may send everything before it reads anything.
//
// An encrypted connection has a tls.Conn between the session and all that: it takes what arrives through wire, and what
// it writes goes into the outbox.
type Conn struct {
	srv           *Server
	nc            net.Conn // what was accepted, encrypted or not
	remote, local string
	unix          bool
	session       Session
	owner         ownership
	out           outbox
	ran           int64 // when something last arrived, in nanoseconds of Unix time
	unkept        error // why what was answered cannot be made durable

	tls  *tls.Conn // nil when nothing is encrypted
	wire wire      // what tls has for a connection

	raw     syscall.RawConn // nil where the connection is no socket of the kernel's
	readNow func(fd uintptr) bool
	readErr error
	filled  bool          // the last read took as much as there was room for
	ends    bool          // the peer's end follows what has been read, and no event will tell of it again
	left    time.Duration // until the read deadline, when it was set; 0 when there is none
	woken   atomic.Bool   // Wake was called, and its reason has not been looked for

	handoff
}

// newConn makes a connection, which is to be encrypted as config says unless that is nil. It requires that s.mu is held.
func newConn(s *Server, nc net.Conn, config *tls.Config) *Conn {
	c := &Conn{srv: s, nc: nc, raw: nonblock.Raw(nc), ran: s.config.Now()}
	c.remote, c.local, c.unix = addresses(nc)
	c.readNow = c.tryRead // bound once: a bound method allocates
	c.out.init(c)
	if config != nil {
		c.encrypt(config)
	}
	c.joinLoop()
	c.session = s.config.Open(c)
	return c
}

// addresses returns a connection's two ends. Those of a Unix socket are both its path, with the port 0, as Redis has it:
// whoever dials such a socket seldom has an address.
func addresses(nc net.Conn) (remote, local string, unix bool) {
	if a, ok := nc.LocalAddr().(*net.UnixAddr); ok {
		return a.Name + ":0", a.Name + ":0", true
	}
	return nc.RemoteAddr().String(), nc.LocalAddr().String(), false
}

// RemoteAddr returns the address of the peer; for a Unix socket that is its path, with the port 0.
func (c *Conn) RemoteAddr() string { return c.remote }

// LocalAddr returns the address of this side; for a Unix socket that is its path, with the port 0.
func (c *Conn) LocalAddr() string { return c.local }

// IsUnix reports whether the connection came through a Unix socket.
func (c *Conn) IsUnix() bool { return c.unix }

// Unread returns how many bytes wait here for the client to read those before.
func (c *Conn) Unread() int64 { return c.out.unread.Load() }

// Deliver sends b, which is no reply of the session's. It waits for nobody.
func (c *Conn) Deliver(b []byte) {
	defer c.rescue()
	if c.send(b, &c.srv.limits.Load().Output) != nil && !c.owner.is(ending) {
		c.close()
	}
}

// HangUp closes the connection, and frees its place even before its goroutine has noticed.
func (c *Conn) HangUp() {
	c.srv.forget(c)
	c.goodbye()
	c.close()
}

// Wake ends a wait for bytes, so that the connection looks again at what it waits for: Limits.Timeout, Session.Held and
// whether the server is draining. A TLS handshake is not disturbed, as it could not go on afterwards; what follows it looks.
func (c *Conn) Wake() {
	c.woken.Store(true)
	if !c.owner.is(handshaking) {
		c.nc.SetReadDeadline(past)
	}
	c.reclaim()
}

// Flush sends what the session has answered so far. Only Session.Run may call it, and only when it may block.
func (c *Conn) Flush() error { return c.flush(c.session.Output()) }

// flush sends what the session has answered, once that is as durable as it promises.
func (c *Conn) flush(o Output) error {
	if o.Uncommitted && c.unkept == nil {
		if err := c.srv.config.Commit(); err != nil {
			return c.lose(err)
		}
	}
	return c.sendOutput(o)
}

// sendOutput sends what the session has answered, which has been committed if it has to be.
func (c *Conn) sendOutput(o Output) error {
	if c.unkept != nil {
		return c.unkept
	}
	if err := c.send(o.Bytes, o.Limit); err != nil {
		return err
	}
	c.session.Sent()
	return nil
}

// lose ends the connection because its replies cannot be made durable: none of them may be sent any more.
func (c *Conn) lose(err error) error {
	c.unkept = err
	c.srv.config.Log.Warn("closing a connection whose replies cannot be made durable", "client", c.remote, "error", err)
	return err
}

// send sends b, or keeps a copy of it until the client reads. It waits for nobody, and anybody may call it.
func (c *Conn) send(b []byte, limit *OutputLimit) error {
	if len(b) == 0 {
		return nil
	}
	c.srv.Counts.Written.Add(uint64(len(b)))
	if c.tls != nil {
		c.wire.limit.Store(limit)
		_, err := c.tls.Write(b)
		return err
	}
	return c.out.send(b, limit)
}

// close closes the connection, whoever waits for it.
func (c *Conn) close() {
	c.nc.Close()
	c.reclaim()
}

func (c *Conn) keepAlive(every time.Duration) {
	if tcp, ok := c.nc.(*net.TCPConn); ok {
		// A connection without probes is no reason to refuse it.
		_ = tcp.SetKeepAliveConfig(net.KeepAliveConfig{Enable: every > 0, Idle: every, Interval: every / 3, Count: 3})
	}
}

// drain makes the connection end after what it has read. One that has not finished its handshake has read nothing.
func (c *Conn) drain() {
	c.Wake()
	if c.owner.is(handshaking) {
		c.close()
	}
}

// serve serves the connection until it is closed.
func (c *Conn) serve() {
	defer c.rescue()
	defer c.nc.Close()
	defer c.leave()
	defer c.rescue() // and leaves after that
	if c.tls != nil && !c.shake() {
		return
	}
	var err error
	if refusal := c.srv.config.Refusal(c.nc.RemoteAddr()); refusal != "" {
		c.srv.Counts.Rejected.Add(1)
		err = c.send([]byte(refusal), &c.srv.limits.Load().Output)
	} else {
		err = c.converse()
	}
	if c.out.dropped() {
		err = ErrOutputLimit // that is why the connection was closed
	}
	switch {
	case errors.Is(err, ErrOutputLimit):
		c.srv.Counts.Dropped.Add(1)
		c.srv.config.Log.Warn("closing a connection that does not read its replies", "client", c.remote, "unread_bytes", c.Unread())
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF): // the latter within a TLS record
		c.out.wait(patience)
		c.leave()
		c.goodbye()
		c.out.wait(patience)
	case err == nil, c.srv.Draining():
		c.end()
	case errors.Is(err, os.ErrDeadlineExceeded):
		c.leave()
		c.goodbye() // it has been silent for too long
	}
	// Otherwise the connection is broken.
}

// converse reads and answers until the conversation ends: nil when it was the session that ended it.
func (c *Conn) converse() error {
	for {
		next, err := c.fill()
		for err == nil && next != Read {
			if next == Close {
				return nil
			}
			next, err = c.answer()
		}
		if err != nil {
			return err
		}
	}
}

// answer has the session answer all that has arrived, and sends its output. It waits while the session does.
func (c *Conn) answer() (Next, error) {
	now := c.srv.config.Now()
	for {
		next := c.run(now, false)
		if err := c.Flush(); err != nil {
			return Close, err
		}
		switch next {
		case Again:
		case Hold:
			if err := c.waitWhileHeld(); err != nil {
				return Close, err
			}
			now = c.srv.config.Now()
		default:
			return next, nil
		}
	}
}

func (c *Conn) run(now int64, nonBlocking bool) Next {
	c.ran = now
	return c.session.Run(now, nonBlocking)
}

// waitWhileHeld waits until the session is held no more. It reads meanwhile, and returns the error of a client that leaves
// or is killed: what it asked is not answered then.
func (c *Conn) waitWhileHeld() error {
	for {
		silent := c.setDeadline(0)
		held, err := c.session.Held() // after the deadline, which may have undone a Wake
		if err != nil {
			return err
		}
		if !held {
			c.woken.Store(true) // what else there is to notice, the next wait for bytes looks at
			return nil
		}
		if silent == nil {
			err = c.readHere()
		}
		if err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
			return err
		}
	}
}

// fill waits for bytes, for as long as the timeout allows, and returns what to do then. What the loop has done meanwhile
// is done.
func (c *Conn) fill() (Next, error) {
	for {
		if err := c.setDeadline(c.timeout()); err != nil {
			return Close, err
		}
		if next, err := c.read(); !errors.Is(err, os.ErrDeadlineExceeded) {
			return next, err
		}
	}
}

// timeout returns how long the connection may be silent; 0 is for ever.
func (c *Conn) timeout() time.Duration {
	timeout := c.srv.limits.Load().Timeout
	if timeout > 0 && c.session.IgnoresTimeout() {
		return 0
	}
	return timeout
}

// setDeadline sets when a wait for bytes ends, or says that it is over already.
func (c *Conn) setDeadline(timeout time.Duration) error {
	if timeout == 0 && c.left == 0 && !c.woken.Load() {
		return nil
	}
	c.woken.Store(false)
	c.left = 0
	deadline := time.Time{}
	if timeout > 0 {
		// Reading replies is a sign of life too.
		silent := time.Duration(c.srv.config.Now() - max(c.ran, c.out.wrote.Load()))
		if silent >= timeout {
			return os.ErrDeadlineExceeded
		}
		c.left = timeout - silent
		deadline = time.Now().Add(c.left)
	}
	c.nc.SetReadDeadline(deadline)
	switch {
	case c.srv.Draining():
		return os.ErrDeadlineExceeded // the deadline that Wake set may have been overwritten
	case c.woken.Load():
		c.Wake() // likewise
	}
	return nil
}

// read reads what has arrived, or waits for something to arrive.
func (c *Conn) read() (Next, error) {
	if c.raw != nil {
		if served, next, err := c.lend(); served {
			return next, err
		}
	}
	return Again, c.readHere()
}

// readHere is read in the connection's own goroutine.
func (c *Conn) readHere() error {
	if c.raw == nil {
		var from io.Reader = c.nc
		if c.tls != nil {
			from = c.tls
		}
		n, err := from.Read(c.session.Space())
		c.arrived(n)
		if n > 0 {
			return nil
		}
		return err
	}
	if err := c.raw.Read(c.readNow); err != nil {
		return err
	}
	return c.readErr
}

func (c *Conn) arrived(n int) {
	c.session.Arrived(n)
	c.srv.Counts.Read.Add(uint64(n))
}
