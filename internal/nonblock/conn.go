// Package nonblock reads and writes sockets by system calls that do not wait. It does not tell the Go runtime of them: that would have
// the runtime watch, from another thread, for a call that takes long, at a tenth of the processor.
package nonblock

import (
	"io"
	"net"
	"os"
	"syscall"
)

// Raw returns the way to the file descriptor of a connection of the kernel's, which [Read] and [Write] take. It returns nil for other
// connections, such as encrypted ones and those in memory.
func Raw(nc net.Conn) syscall.RawConn {
	switch nc.(type) {
	case *net.TCPConn, *net.UnixConn:
		if raw, err := nc.(syscall.Conn).SyscallConn(); err == nil && offered {
			return raw
		}
	}
	return nil
}

// Conn reads and writes like the connection that it is made of, waiting as that does. It is used by one reader and one writer at a time.
type Conn struct {
	net.Conn
	raw         syscall.RawConn // nil where only the connection's own calls will do
	read, write request
}

// request is a Read or a Write under way.
type request struct {
	try func(fd uintptr) bool // bound once: a bound method allocates
	b   []byte
	n   int
	err error
}

// NewConn returns a connection around another one.
func NewConn(nc net.Conn) *Conn {
	c := &Conn{Conn: nc, raw: Raw(nc)}
	c.read.try, c.write.try = c.read.tryRead, c.write.tryWrite
	return c
}

// tryRead reads what has arrived; false makes the runtime wait for more and call it again.
func (r *request) tryRead(fd uintptr) bool {
	for {
		r.n, r.err = Read(fd, r.b)
		switch r.err {
		case syscall.EINTR:
		case syscall.EAGAIN:
			return false
		default:
			return true
		}
	}
}

// tryWrite writes what the kernel takes; false makes the runtime wait until it takes more, and call it again.
func (r *request) tryWrite(fd uintptr) bool {
	for r.n < len(r.b) {
		n, err := Write(fd, r.b[r.n:])
		switch err {
		case nil:
			r.n += n
		case syscall.EINTR:
		case syscall.EAGAIN:
			return false
		default:
			r.err = err
			return true
		}
	}
	return true
}

// Read is that of net.Conn.
func (c *Conn) Read(b []byte) (int, error) {
	if c.raw == nil || len(b) == 0 {
		return c.Conn.Read(b)
	}
	r := &c.read
	r.b, r.n, r.err = b, 0, nil
	if err := c.raw.Read(r.try); err != nil {
		return 0, err
	}
	r.b = nil
	switch {
	case r.err != nil:
		return 0, c.failed("read", r.err)
	case r.n == 0:
		return 0, io.EOF
	}
	return r.n, nil
}

// Write is that of net.Conn.
func (c *Conn) Write(b []byte) (int, error) {
	if c.raw == nil || len(b) == 0 {
		return c.Conn.Write(b)
	}
	r := &c.write
	r.b, r.n, r.err = b, 0, nil
	if err := c.raw.Write(r.try); err != nil {
		return r.n, err
	}
	r.b = nil
	if r.err != nil {
		return r.n, c.failed("write", r.err)
	}
	return r.n, nil
}

// failed returns the error as the net package has it.
func (c *Conn) failed(op string, err error) error {
	addr := c.RemoteAddr()
	return &net.OpError{Op: op, Net: addr.Network(), Source: c.LocalAddr(), Addr: addr, Err: os.NewSyscallError(op, err)}
}
