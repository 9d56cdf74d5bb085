package transport

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync/atomic"
	"time"
)

// wire is the connection that a tls.Conn has. Beneath it is the socket for reading and the outbox for writing, so that
// neither a read nor a write of the tls.Conn's ever waits where a plain connection's would not: an encrypted client too
// may send everything before it reads anything, and what it leaves unread is bounded as it is for others.
type wire struct {
	net.Conn // what was accepted
	conn     *Conn
	limit    atomic.Pointer[OutputLimit] // nil before the handshake is over

	// While polls is set, Read takes what has arrived on fd, and waits for nothing.
	polls bool
	fd    uintptr
	dry   bool // the last read took all that was there
}

// nothingYet is the error of a read that would have to wait. It is a net.Error that is temporary: what a tls.Conn has
// read of a record by then, it keeps.
type nothingYet struct{}

func (nothingYet) Error() string   { return "nothing has arrived yet" }
func (nothingYet) Timeout() bool   { return true }
func (nothingYet) Temporary() bool { return true }

func (w *wire) Read(b []byte) (int, error) {
	if w.polls {
		return w.poll(b)
	}
	return w.Conn.Read(b)
}

// Write queues b, which the outbox sends: it does not wait for the peer.
func (w *wire) Write(b []byte) (int, error) {
	limit := w.limit.Load()
	if limit == nil {
		limit = &w.conn.srv.limits.Load().Output
	}
	if err := w.conn.out.send(b, limit); err != nil {
		return 0, err
	}
	return len(b), nil
}

// SetWriteDeadline does nothing: no write waits. A tls.Conn that is closed sets one that has passed, which would also
// forbid what is still queued.
func (w *wire) SetWriteDeadline(time.Time) error { return nil }

// encrypt puts a tls.Conn between the session and the socket.
func (c *Conn) encrypt(config *tls.Config) {
	c.wire.Conn, c.wire.conn = c.nc, c
	c.tls = tls.Server(&c.wire, config)
	c.owner.handshake()
	c.readNow = c.tryDecrypt
}

var errHandshakeTimeout = errors.New("the handshake was not finished within tls-handshake-timeout")

// shake does the TLS handshake, and reports whether it was done. Until then the connection has a place among maxclients,
// and tls-handshake-timeout to finish.
func (c *Conn) shake() bool {
	c.left = c.srv.limits.Load().Handshake // which setDeadline takes away afterwards
	c.nc.SetReadDeadline(time.Now().Add(c.left))
	err := c.tls.Handshake()
	if err == nil {
		c.acknowledge()
		c.owner.shaken()
		return true
	}
	var plain tls.RecordHeaderError
	switch {
	case c.srv.Draining(), errors.Is(err, net.ErrClosed): // it was this side that ended it
	case errors.Is(err, io.EOF): // a probe of whether somebody listens, or a client that thought better of it
		c.srv.config.Log.Debug("a connection ended before its TLS handshake", "client", c.remote)
	case errors.Is(err, os.ErrDeadlineExceeded):
		c.logFailure(errHandshakeTimeout)
	case errors.As(err, &plain):
		c.logFailure(fmt.Errorf("%w: does the client speak TLS?", err))
	default:
		c.logFailure(err)
		c.end() // so that the client learns why
	}
	return false
}

// logFailure logs that the TLS handshake failed.
func (c *Conn) logFailure(err error) {
	c.srv.failures.Add("last_client", c.remote, "last_error", err)
}
