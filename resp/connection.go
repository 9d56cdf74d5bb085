package resp

import (
	"errors"

	"cellserver/resp/transport"
)

var _ transport.Session = (*session)(nil)

// openSession returns the session of a new connection.
func (s *Server) openSession(conn *transport.Conn) transport.Session {
	now := s.now()
	c := &client{conn: conn, addr: conn.RemoteAddr(), laddr: conn.LocalAddr(), unix: conn.IsUnix(), created: now}
	c.active.Store(now)
	c.held.Wake = conn.Wake
	s.register(c)
	return newSession(s, c)
}

// register assigns an ID to a client, and lists it for other clients.
func (s *Server) register(c *client) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lastID++
	c.id = s.lastID
	s.peers[c.id] = c
}

// Space returns the free part of the input buffer.
func (s *session) Space() []byte { return s.in.Space() }

// Arrived notes that n bytes of Space have been filled.
func (s *session) Arrived(n int) { s.in.Advance(n) }

// Run runs the commands that have fully arrived. If nonBlocking, it stops before the first that may take long or wait.
func (s *session) Run(now int64, nonBlocking bool) transport.Next {
	s.nonBlocking = nonBlocking
	more := s.run(now)
	switch {
	case more:
		return transport.Again
	case s.closing:
		return transport.Close
	case s.deferred:
		return transport.Block
	case s.held:
		return transport.Hold
	}
	return transport.Read
}

// Output returns the replies to send.
func (s *session) Output() transport.Output {
	return transport.Output{Bytes: s.out.Bytes, Limit: &s.bounds.Output, Uncommitted: s.uncommitted}
}

// Sent empties the output, which has been sent.
func (s *session) Sent() { s.out.Bytes, s.uncommitted = s.out.Bytes[:0], false }

// errHeldTooMuch closes a connection whose input exceeds client-query-buffer-limit while a command waits for the end of a
// pause. As in Redis there is no reply.
var errHeldTooMuch = errors.New("what came in during CLIENT PAUSE outgrew client-query-buffer-limit")

// Held reports whether the next command waits for the end of a pause. It returns an error if the input exceeds
// client-query-buffer-limit.
func (s *session) Held() (bool, error) {
	if !s.client.held.Waits() {
		return false, nil
	}
	buffered := int64(s.in.Buffered())
	s.client.query.Store(buffered)
	if buffered > s.bounds.QueryBuffer {
		s.srv.pause.Leave(&s.client.held)
		s.srv.log.Warn("closing a connection", "client", s.client.addr, "reason", errHeldTooMuch)
		return true, errHeldTooMuch
	}
	return true, nil
}

// IgnoresTimeout reports whether the option timeout does not apply: as in Redis it does not close monitors.
func (s *session) IgnoresTimeout() bool { return s.client.monitors.Load() }

// Idle puts empty buffers back into their pools. An idle connection has none, and connections that are served one after the
// other share buffers that are in the processor's cache.
func (s *session) Idle() {
	s.in.Idle()
	if len(s.out.Bytes) > 0 {
		return
	}
	if cap(s.out.Bytes) == outSize {
		outBuffers.Put((*[outSize]byte)(s.out.Bytes[:outSize]))
	}
	s.out.Bytes = nil
}

// End releases what the session holds: its place in a pause, its transaction, and its entry in the list of clients.
func (s *session) End() {
	defer s.srv.unregister(s.client)
	defer func() {
		if p := recover(); p != nil {
			transport.LogPanic(s.srv.log, s.client.addr, p)
		}
	}()
	s.srv.pause.Leave(&s.client.held)
	s.discardTransaction()
}
