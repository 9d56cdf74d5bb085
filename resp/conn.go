package resp

import (
	"errors"
	"io"
	"net"
	"os"
	"syscall"
	"time"
)

const (
	// patience is how long a connection that is to be closed may go without reading any of what it is still owed.
	patience = 5 * time.Second
	// lingerFor is how long it may take to close its own side then. Closing at once would make the kernel throw away
	// replies that are on their way when bytes remain unread.
	lingerFor = 2 * time.Second
	// lingerBytes is how much is read and thrown away meanwhile.
	lingerBytes = 64 << 20
	// keepOut is the largest output buffer that a connection keeps for its next batch.
	keepOut = 64 << 10
)

// past is a deadline that has passed.
var past = time.Unix(1, 0)

// conn moves the bytes of one connection: read, answer all that has arrived, write, in one goroutine. A write that would
// block is left to a second goroutine for as long as that takes (outbox), so that reading goes on: a client may send
// everything before it reads anything.
type conn struct {
	srv     *Server
	nc      net.Conn
	client  *client
	session *session
	out     outbox

	raw     syscall.RawConn // nil where the connection is no socket of the kernel's
	readNow func(fd uintptr) bool
	readErr error
	timed   bool // a read deadline is set
}

func newConn(s *Server, nc net.Conn, c *client) *conn {
	conn := &conn{srv: s, nc: nc, client: c, session: newSession(s, c)}
	conn.raw = rawOf(nc)
	conn.readNow = conn.tryRead // bound once: a bound method allocates
	conn.out.init(nc, conn.raw, c, &s.stats)
	return conn
}

func (c *conn) keepAlive(every time.Duration) {
	if tcp, ok := c.nc.(*net.TCPConn); ok {
		// A connection without probes is no reason to refuse it.
		_ = tcp.SetKeepAliveConfig(net.KeepAliveConfig{Enable: every > 0, Idle: every, Interval: every / 3, Count: 3})
	}
}

// wake ends a wait for bytes, so that serve sees that the server is draining.
func (c *conn) wake() { c.nc.SetReadDeadline(past) }

func (c *conn) serve() {
	defer c.nc.Close()
	err := c.converse()
	switch {
	case errors.Is(err, errOutputLimit):
		c.srv.stats.dropped.Add(1)
		c.srv.log.Warn("closing a connection that does not read its replies", "client", c.client.addr,
			"unread_bytes", c.client.unread.Load())
		return
	case err == nil, errors.Is(err, io.EOF), c.srv.isDraining():
	default:
		return // the connection is broken, or has been silent for too long
	}
	// A client that closed its side, or has been silent for a while, has nothing on its way that closing could harm.
	silent := c.srv.now()-c.client.active.Load() > int64(lingerFor)
	if c.out.wait(patience) && !errors.Is(err, io.EOF) && !silent {
		c.linger()
	}
}

// converse reads and answers until the conversation ends: nil when it was the session that ended it.
func (c *conn) converse() error {
	s := c.session
	for {
		if err := c.fill(); err != nil {
			return err
		}
		now := c.srv.now()
		for more := true; more; {
			more = s.run(now)
			if err := c.out.send(s.out.b, &s.limits.Output); err != nil {
				return err
			}
			s.out.b = s.out.b[:0]
		}
		if s.closing {
			return nil
		}
		if cap(s.out.b) > keepOut {
			s.out.b = nil
		}
	}
}

// fill waits for bytes.
func (c *conn) fill() error {
	if timeout := c.session.limits.Timeout; timeout > 0 || c.timed {
		c.timed = timeout > 0
		deadline := time.Time{}
		if c.timed {
			deadline = time.Now().Add(timeout)
		}
		c.nc.SetReadDeadline(deadline)
		if c.srv.isDraining() {
			return os.ErrDeadlineExceeded // the deadline of wake may have been overwritten
		}
	}
	in := &c.session.in
	if c.raw == nil {
		n, err := c.nc.Read(in.space())
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
	c.session.in.advance(n)
	c.srv.stats.read.Add(uint64(n))
}

// linger closes our side and reads until the client has closed its own.
func (c *conn) linger() {
	half, ok := c.nc.(interface{ CloseWrite() error })
	if !ok || half.CloseWrite() != nil {
		return
	}
	c.nc.SetReadDeadline(time.Now().Add(lingerFor))
	_, _ = io.Copy(io.Discard, io.LimitReader(c.nc, lingerBytes))
}
