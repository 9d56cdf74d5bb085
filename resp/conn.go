package resp

import (
	"crypto/tls"
	"errors"
	"io"
	"net"
	"os"
	"sync/atomic"
	"syscall"
	"time"

	"cellserver/resp/frame"
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

// past is a deadline that has passed.
var past = time.Unix(1, 0)

// conn moves the bytes of one connection: read, answer all that has arrived, write, in one goroutine. A write that would
// block is left to a second goroutine for as long as that takes (outbox), so that reading goes on: a client may send
// everything before it reads anything.
//
// An encrypted connection has a tls.Conn between the session and all that: it takes what arrives through wire, and what
// it writes goes into the outbox.
type conn struct {
	srv     *Server
	nc      net.Conn // what was accepted, encrypted or not
	client  *client
	session *session
	out     outbox
	unkept  error // why what was answered cannot be made durable

	tls     *tls.Conn   // nil when nothing is encrypted
	wire    wire        // what tls has for a connection
	shaking atomic.Bool // the handshake is going on
	leaving atomic.Bool // the peer is told that nothing follows

	raw     syscall.RawConn // nil where the connection is no socket of the kernel's
	readNow func(fd uintptr) bool
	readErr error
	ends    bool          // an end follows what has been read, of which nobody will tell
	timed   bool          // a read deadline is set
	left    time.Duration // until then
	woken   atomic.Bool   // wake has set one that has passed

	lane
}

// newConn makes a connection, which is to be encrypted as config says unless that is nil.
func newConn(s *Server, nc net.Conn, c *client, config *tls.Config) *conn {
	conn := &conn{srv: s, nc: nc, client: c, session: newSession(s, c)}
	conn.raw = rawOf(nc)
	conn.readNow = conn.tryRead // bound once: a bound method allocates
	conn.out.init(conn)
	if config != nil {
		conn.encrypt(config)
	}
	conn.enterLane()
	conn.session.push = func() { _ = conn.flush() } // what fails here fails again
	c.held.wake = conn.wake
	c.deliver = func(line []byte) {
		defer conn.rescue()
		if conn.send(line, &s.bounds.Load().Output) != nil && !conn.leaving.Load() {
			conn.close()
		}
	}
	c.hangUp = func() {
		s.forget(conn) // as in Redis nobody sees it any more, even before its goroutine has noticed
		conn.goodbye()
		conn.close()
	}
	return conn
}

// commit makes what has been decided as durable as a reply promises.
func (c *conn) commit() error {
	if c.session.wrote && c.unkept == nil {
		c.session.wrote = false
		if err := c.srv.commit(); err != nil {
			return c.lost(err)
		}
	}
	return c.unkept
}

// lost says that a connection ends because its replies cannot be made durable: none of them may be sent any more.
func (c *conn) lost(err error) error {
	c.unkept = err
	c.srv.log.Warn("closing a connection whose replies cannot be made durable", "client", c.client.addr, "error", err)
	return err
}

// close closes the connection, whoever waits for it.
func (c *conn) close() {
	c.nc.Close()
	c.recall()
}

func (c *conn) keepAlive(every time.Duration) {
	if tcp, ok := c.nc.(*net.TCPConn); ok {
		// A connection without probes is no reason to refuse it.
		_ = tcp.SetKeepAliveConfig(net.KeepAliveConfig{Enable: every > 0, Idle: every, Interval: every / 3, Count: 3})
	}
}

// wake ends a wait for bytes, so that the connection looks again at what it waits for. A TLS handshake is not disturbed,
// as it could not go on afterwards; what follows it looks.
func (c *conn) wake() {
	c.woken.Store(true)
	if !c.shaking.Load() {
		c.nc.SetReadDeadline(past)
	}
	c.recall()
}

// drain makes the connection end after what it has read. One that has not finished its handshake has read nothing.
func (c *conn) drain() {
	c.wake()
	if c.shaking.Load() {
		c.close()
	}
}

func (c *conn) serve() {
	defer c.rescue()
	defer c.nc.Close()
	c.talk()
	c.srv.forget(c) // after a panic that comes when it has been logged
}

// talk is serve up to the end of what the client gets.
func (c *conn) talk() {
	defer c.session.end()
	if c.tls != nil && !c.shake() {
		return
	}
	var err error
	if c.srv.denies(c.nc.RemoteAddr()) {
		c.srv.stats.rejected.Add(1)
		err = c.send([]byte("-"+errProtected+"\r\n"), &c.srv.bounds.Load().Output)
	} else {
		err = c.converse()
	}
	if c.out.dropped() {
		err = errOutputLimit // that is why the connection was closed
	}
	switch {
	case errors.Is(err, errOutputLimit):
		c.srv.stats.dropped.Add(1)
		c.srv.log.Warn("closing a connection that does not read its replies", "client", c.client.addr,
			"unread_bytes", c.client.unread.Load())
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF): // the latter within a TLS record
		c.out.wait(patience)
		c.depart()
		c.srv.forget(c)
		c.goodbye()
		c.out.wait(patience)
	case err == nil, c.srv.isDraining():
		c.end()
	case errors.Is(err, os.ErrDeadlineExceeded):
		c.depart()
		c.srv.forget(c)
		c.goodbye() // it has been silent for too long
	}
	// Otherwise the connection is broken.
}

// depart comes before the client can learn that the conversation is over. As in Redis it is listed no more then.
func (c *conn) depart() {
	c.session.end()
	c.srv.hide(c.client)
}

// goodbye tells the peer of an encrypted connection that nothing follows, so that it can tell the end from a cut.
func (c *conn) goodbye() {
	if c.tls != nil {
		c.leaving.Store(true)
		_ = c.tls.CloseWrite() // of the encryption only; it is queued behind what waits, or the connection is broken
	}
}

// end closes a connection that the client may still be writing to. What it is owed is sent first, and what it sends
// meanwhile is taken and thrown away, up to a bound: a client that writes all before it reads would wait for ever, and bytes
// left unread make the kernel throw away replies that are on their way.
func (c *conn) end() {
	heard, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		defer c.rescue()
		if c.discard(lingerBytes) {
			close(heard)
		}
	}()
	// A client that has been silent for a while has nothing on its way that closing could harm.
	silent := c.srv.now()-c.client.active.Load() > int64(lingerFor)
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

// discard takes what the client sends until it ends, and reports whether it did, or until it was so many bytes. Then they
// are left where they are, and the client has to wait.
func (c *conn) discard(most int) (ended bool) {
	room := frame.Buffer()
	defer frame.Release(room)
	c.nc.SetReadDeadline(time.Time{})
	for most > 0 {
		n, err := c.nc.Read(room[:])
		most -= n
		switch {
		case errors.Is(err, os.ErrDeadlineExceeded):
			c.nc.SetReadDeadline(time.Time{}) // wake came late
		case err != nil:
			return true
		}
	}
	return false
}

// converse reads and answers until the conversation ends: nil when it was the session that ended it.
func (c *conn) converse() error {
	s := c.session
	for {
		if err := c.fill(); err != nil {
			return err
		}
		if s.closing {
			return nil
		}
		now := c.srv.now()
		for more := true; more; {
			more = s.run(now)
			if err := c.flush(); err != nil {
				return err
			}
			if s.held {
				if err := c.waitForPause(); err != nil {
					return err
				}
				now, more = c.srv.now(), true
			}
		}
		if s.closing {
			return nil
		}
	}
}

// errHeldTooMuch is returned when what has arrived behind a command that waits for the end of a pause outgrows
// client-query-buffer-limit. As in Redis the client gets no reply.
var errHeldTooMuch = errors.New("what came in during CLIENT PAUSE outgrew client-query-buffer-limit")

// waitForPause waits for the end of the pause that holds the next command. It reads meanwhile, and returns the error of a
// client that leaves or is killed: its command is not run then.
func (c *conn) waitForPause() error {
	s, w := c.session, &c.client.held
	defer c.srv.pause.leave(w)
	for {
		err := c.setDeadline()
		if !w.waits.Load() { // which comes before the wake that the deadline may have undone
			c.woken.Store(true) // what else there is to notice, the next wait for bytes looks at
			return nil
		}
		if err == nil {
			err = c.readHere()
		}
		if err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
			return err
		}
		s.client.query.Store(int64(s.in.Buffered()))
		if int64(s.in.Buffered()) > s.bounds.QueryBuffer {
			c.srv.log.Warn("closing a connection", "client", c.client.addr, "reason", errHeldTooMuch)
			return errHeldTooMuch
		}
	}
}

// flush sends what has been answered.
func (c *conn) flush() error {
	s := c.session
	if err := c.commit(); err != nil {
		return err
	}
	if err := c.send(s.out.Bytes, &s.bounds.Output); err != nil {
		return err
	}
	s.out.Bytes = s.out.Bytes[:0]
	return nil
}

// send sends replies, or keeps a copy of them for the client to read. It waits for nobody, and anybody may call it.
func (c *conn) send(b []byte, limit *OutputLimit) error {
	if len(b) == 0 {
		return nil
	}
	c.srv.stats.written.Add(uint64(len(b)))
	if c.tls != nil {
		c.wire.limit.Store(limit)
		_, err := c.tls.Write(b)
		return err
	}
	return c.out.send(b, limit)
}

// fill waits for bytes, for as long as the option timeout allows.
func (c *conn) fill() error {
	for {
		if err := c.setDeadline(); err != nil {
			return err
		}
		if err := c.read(); !errors.Is(err, os.ErrDeadlineExceeded) {
			return err
		}
	}
}

// timeout returns how long the connection may be silent; 0 is for ever. As in Redis it does not end one that is shown every
// command, or waits for the end of a pause.
func (c *conn) timeout() time.Duration {
	if c.client.monitors.Load() || c.client.held.waits.Load() {
		return 0
	}
	return c.srv.bounds.Load().Timeout
}

// setDeadline sets when a wait for bytes ends, or says that it is over already.
func (c *conn) setDeadline() error {
	timeout := c.timeout()
	if timeout == 0 && !c.timed && !c.woken.Load() {
		return nil
	}
	c.woken.Store(false)
	c.timed = timeout > 0
	deadline := time.Time{}
	if c.timed {
		// Reading replies is a sign of life too.
		silent := time.Duration(c.srv.now() - max(c.client.active.Load(), c.out.wrote.Load()))
		if silent >= timeout {
			return os.ErrDeadlineExceeded
		}
		c.left = timeout - silent
		deadline = time.Now().Add(c.left)
	}
	c.nc.SetReadDeadline(deadline)
	switch {
	case c.srv.isDraining():
		return os.ErrDeadlineExceeded // the deadline that wake set may have been overwritten
	case c.woken.Load():
		c.wake() // likewise
	}
	return nil
}

// read reads what has arrived, or waits for something to arrive.
func (c *conn) read() error {
	if c.raw != nil {
		if served, err := c.visit(); served {
			return err
		}
	}
	return c.readHere()
}

// readHere is read in the connection's own goroutine.
func (c *conn) readHere() error {
	if c.raw == nil {
		var from io.Reader = c.nc
		if c.tls != nil {
			from = c.tls
		}
		n, err := from.Read(c.session.in.Space())
		c.took(n)
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

func (c *conn) took(n int) {
	c.session.in.Advance(n)
	c.srv.stats.read.Add(uint64(n))
}
