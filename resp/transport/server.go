package transport

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"cellserver/internal/ratelog"
)

// Server accepts connections and serves them.
type Server struct {
	Counts Counts

	config   Config
	limits   atomic.Pointer[Limits]
	failures *ratelog.Warning // of TLS handshakes

	mu        sync.Mutex
	draining  bool
	listeners []net.Listener
	tlsPort   int // of the first TCP listener that is served with TLS
	conns     map[*Conn]struct{}
	served    uint64         // connections, those that have ended among them
	serving   sync.WaitGroup // one for each connection
	loops     loops
}

// NewServer makes a server that serves nobody until Serve is called.
func NewServer(c Config, l Limits) *Server {
	s := &Server{config: c, conns: make(map[*Conn]struct{}), failures: ratelog.New(c.Log, "TLS handshakes failed", "count")}
	s.SetLimits(l)
	return s
}

// SetLimits changes what connections may cost, from now on.
func (s *Server) SetLimits(l Limits) {
	before := s.limits.Swap(&l)
	if before == nil || before.Timeout == l.Timeout {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.conns {
		c.Wake() // it waits by the old timeout
	}
}

// Serve accepts connections from l until Shutdown closes it, and returns nil then. It may be called for several
// listeners. config is nil for plain connections; otherwise they are encrypted, and it is called for each of them, so that
// certificates can be renewed while the server runs. It must not return nil.
func (s *Server) Serve(l net.Listener, config func() *tls.Config) error {
	s.mu.Lock()
	if s.draining {
		s.mu.Unlock()
		return l.Close()
	}
	if config != nil && s.tlsPort == 0 {
		s.tlsPort = portOf(l)
	}
	s.listeners = append(s.listeners, l)
	s.mu.Unlock()
	const shortest, longest = 5 * time.Millisecond, time.Second
	pause := shortest
	for {
		nc, err := l.Accept()
		switch {
		case err == nil:
			pause = shortest
			s.accept(nc, config)
		case errors.Is(err, net.ErrClosed):
			return nil
		case isTemporary(err):
			// Out of file descriptors, most likely: those that are served go on, and some will end.
			s.config.Log.Warn("cannot accept connections for the moment", "error", err, "retry_after", pause)
			time.Sleep(pause)
			pause = min(2*pause, longest)
		default:
			return err
		}
	}
}

func isTemporary(err error) bool {
	var t interface{ Temporary() bool }
	return errors.As(err, &t) && t.Temporary()
}

// accept starts to serve a connection, if there is a place for it. It waits for nothing that the client does.
func (s *Server) accept(nc net.Conn, config func() *tls.Config) {
	defer s.rescueAccepted(nc)
	l := s.limits.Load()
	s.Counts.Accepted.Add(1)
	var encryption *tls.Config
	if config != nil {
		encryption = config()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.draining:
		nc.Close()
		return
	case int64(len(s.conns)) >= l.Conns:
		s.Counts.Rejected.Add(1)
		if config != nil {
			nc.Close() // a handshake to say why would cost more
			return
		}
		s.serving.Add(1)
		go func() {
			defer s.serving.Done()
			defer s.rescueAccepted(nc)
			s.refuse(nc)
		}()
		return
	}
	s.served++
	c := newConn(s, nc, encryption)
	c.keepAlive(l.KeepAlive)
	s.conns[c] = struct{}{}
	s.serving.Add(1)
	go func() {
		defer s.serving.Done()
		c.serve()
	}()
}

// refuse tells a client that there is no place for it, if it listens.
func (s *Server) refuse(nc net.Conn) {
	nc.SetWriteDeadline(time.Now().Add(time.Second))
	_, _ = nc.Write([]byte(s.config.Full))
	nc.Close()
}

// forget frees the place of a connection.
func (s *Server) forget(c *Conn) {
	s.mu.Lock()
	delete(s.conns, c)
	s.mu.Unlock()
}

// Draining reports whether Shutdown has been called.
func (s *Server) Draining() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.draining
}

// Port returns the TCP port served, that for TLS when there is no other, or 0.
func (s *Server) Port() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, l := range s.listeners {
		if port := portOf(l); port != 0 && port != s.tlsPort {
			return port
		}
	}
	return s.tlsPort
}

// portOf returns a listener's TCP port, or 0.
func portOf(l net.Listener) int {
	if addr, ok := l.Addr().(*net.TCPAddr); ok {
		return addr.Port
	}
	return 0
}

// Shutdown accepts nobody any more, has what has been read answered and sent, and closes every connection. When ctx ends
// before that, the rest is closed as it is, and the context's error returned.
func (s *Server) Shutdown(ctx context.Context) error {
	s.mu.Lock()
	s.draining = true
	for _, l := range s.listeners {
		l.Close()
	}
	for c := range s.conns {
		c.drain()
	}
	s.mu.Unlock()
	defer s.failures.Close()
	defer s.loops.stop()

	done := make(chan struct{})
	go func() {
		s.serving.Wait()
		close(done)
	}()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
	}
	s.mu.Lock()
	for c := range s.conns {
		c.close()
	}
	s.mu.Unlock()
	timer := time.NewTimer(lingerFor)
	defer timer.Stop()
	select {
	case <-done:
	case <-timer.C: // a session that takes long does not keep the process from ending
	}
	return ctx.Err()
}
