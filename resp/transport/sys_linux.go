package transport

import (
	"syscall"
	"unsafe"
)

// acknowledge has the kernel acknowledge at once what has arrived. The last message of a TLS handshake is the client's,
// and not answered: a client that lets small writes wait for the acknowledgement of those before, as many do, would else
// begin 40 ms late, when the kernel gives up waiting for a reply to send it along with.
func (c *Conn) acknowledge() {
	if c.raw != nil {
		// It is only for speed.
		_ = c.raw.Control(func(fd uintptr) {
			_ = syscall.SetsockoptInt(int(fd), syscall.IPPROTO_TCP, syscall.TCP_QUICKACK, 1)
		})
	}
}

// readNow and writeNow, in sysio_linux.go and sysio_socketcall.go, are read and write of a descriptor that never blocks. They do
// not tell the runtime that a system call is made, which would have it watch for one that takes long, from another thread, at a
// tenth of the processor.

// ioNow is given b, which is not empty.
func ioNow(call, fd uintptr, b []byte, flags uintptr) (int, error) {
	n, _, errno := syscall.RawSyscall6(call, fd, uintptr(unsafe.Pointer(&b[0])), uintptr(len(b)), flags, 0, 0)
	if errno != 0 {
		return 0, errno
	}
	return int(n), nil
}
