package transport

import "syscall"

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
