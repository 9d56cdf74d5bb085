package transport

import (
	"errors"
	"fmt"
	"net"
)

// errPanicked is why a connection is closed during whose service something panicked.
var errPanicked = errors.New("the server panicked")

// rescue, when deferred, closes the connection over a panic, instead of ending the process.
func (c *Conn) rescue() {
	if p := recover(); p != nil {
		LogPanic(c.srv.config.Log, c.remote, p)
		c.close()
	}
}

// rescueAccepted is rescue for what has been accepted and is no connection yet.
func (s *Server) rescueAccepted(nc net.Conn) {
	if p := recover(); p != nil {
		LogPanic(s.config.Log, fmt.Sprint(nc.RemoteAddr()), p)
		nc.Close()
	}
}
