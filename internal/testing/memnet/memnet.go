// Package memnet is a network in memory, for tests: what net.Listen and net.Dial are, without the kernel. Its
// connections are net.Pipe's, which buffer nothing, so that they work under the fake clock of testing/synctest.
package memnet

import (
	"net"
	"sync"
)

// Listener is a net.Listener whose connections come from its own Dial.
type Listener struct {
	dialled chan net.Conn
	closed  chan struct{}
	close   sync.Once
}

// Listen makes a listener. Inside a synctest bubble it must be made there.
func Listen() *Listener {
	return &Listener{dialled: make(chan net.Conn), closed: make(chan struct{})}
}

// Dial returns the client's end of a connection, once Accept has returned the other. It fails with net.ErrClosed when
// the listener is closed.
func (l *Listener) Dial() (net.Conn, error) {
	client, server := net.Pipe()
	select {
	case l.dialled <- server:
		return client, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

// Accept returns the server's end of the next connection, or net.ErrClosed when the listener is closed.
func (l *Listener) Accept() (net.Conn, error) {
	select {
	case c := <-l.dialled:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

// Close ends Accept and Dial, those under way included. Connections that were made live on.
func (l *Listener) Close() error {
	l.close.Do(func() { close(l.closed) })
	return nil
}

// Addr returns an address that says where the listener is: nowhere but in memory.
func (l *Listener) Addr() net.Addr { return addr{} }

type addr struct{}

func (addr) Network() string { return "memory" }
func (addr) String() string  { return "memory" }
