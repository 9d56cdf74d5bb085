//go:build unix

package resp

import (
	"io"
	"net"
	"syscall"
)

// rawOf returns the way to a connection's file descriptor, by which a write can be tried without waiting, and a read
// waited for without holding a buffer. Encrypted and in-memory connections have none.
func rawOf(nc net.Conn) syscall.RawConn {
	switch nc.(type) {
	case *net.TCPConn, *net.UnixConn:
		if raw, err := nc.(syscall.Conn).SyscallConn(); err == nil {
			return raw
		}
	}
	return nil
}

// tryRead reads what has arrived; false makes the runtime wait for more and call it again.
func (c *conn) tryRead(fd uintptr) bool {
	in := &c.session.in
	for {
		n, err := syscall.Read(int(fd), in.space())
		switch {
		case err == syscall.EINTR:
			continue
		case err == syscall.EAGAIN:
			in.idle()
			return false
		case err != nil:
			c.readErr = err
		case n == 0:
			c.readErr = io.EOF
		default:
			c.readErr = nil
			c.took(n)
		}
		return true
	}
}

// tryWrite writes what the kernel takes without waiting, and never asks to be called again.
func (o *outbox) tryWrite(fd uintptr) bool {
	o.sysErr = nil
	for len(o.unsent) > 0 {
		n, err := syscall.Write(int(fd), o.unsent)
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
