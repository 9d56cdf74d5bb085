//go:build unix

package transport

import (
	"io"
	"syscall"

	"cellserver/internal/nonblock"
)

// tryRead reads what has arrived; false makes the runtime wait for more and call it again.
func (c *Conn) tryRead(fd uintptr) bool {
	for {
		room := c.session.Space()
		n, err := nonblock.Read(fd, room)
		switch {
		case err == syscall.EINTR:
			continue
		case err == syscall.EAGAIN:
			c.session.Idle()
			return false
		case err != nil:
			c.readErr = err
		case n == 0:
			c.readErr = io.EOF
		default:
			c.readErr, c.filled = nil, n == len(room)
			c.arrived(n)
		}
		return true
	}
}

// tryWrite writes what the kernel takes without waiting, and never asks to be called again.
func (o *outbox) tryWrite(fd uintptr) bool {
	o.sysErr = nil
	for len(o.unsent) > 0 {
		n, err := nonblock.Write(fd, o.unsent)
		switch {
		case err == syscall.EINTR:
		case err == syscall.EAGAIN:
			return true
		case err != nil:
			o.sysErr = err
			return true
		default:
			o.unsent = o.unsent[n:]
		}
	}
	return true
}

// tryDecrypt is tryRead for an encrypted connection. It takes all records that have arrived, as far as there is room, so
// that commands which were sent one by one are answered together.
func (c *Conn) tryDecrypt(fd uintptr) bool {
	w, room, n := &c.wire, c.session.Space(), 0
	w.polls, w.fd, w.dry = true, fd, false
	defer func() { w.polls = false }()
	for n < len(room) {
		m, err := c.tls.Read(room[n:])
		n += m
		switch {
		case err == nil:
		case n > 0: // an error comes again
			c.ends = c.ends || err != error(nothingYet{})
			c.readErr, c.filled = nil, false
			c.arrived(n)
			return true
		case err != error(nothingYet{}):
			c.readErr = err
			return true
		case w.dry:
			w.dry = false // the runtime tells only what arrives from now on: be sure that there is nothing
		default:
			c.session.Idle()
			return false
		}
	}
	c.readErr, c.filled = nil, true
	c.arrived(n)
	return true
}

// poll reads from the socket what has arrived. It does not ask again when the last read took less than it could have.
func (w *wire) poll(b []byte) (int, error) {
	for !w.dry {
		n, err := nonblock.Read(w.fd, b)
		switch {
		case err == syscall.EINTR:
		case err == syscall.EAGAIN:
			return 0, nothingYet{}
		case err != nil:
			return 0, err
		case n == 0:
			return 0, io.EOF
		default:
			w.dry = n < len(b)
			return n, nil
		}
	}
	return 0, nothingYet{}
}
