package resp

import (
	"errors"

	"cellserver/resp/transport"
)

// A session is what a connection of the transport serves.
var _ transport.Session = (*session)(nil)

// openSession makes the session of a connection that has been accepted.
func (s *Server) openSession(conn *transport.Conn) transport.Session {
	now := s.now()
	c := &client{conn: conn, addr: conn.RemoteAddr(), laddr: conn.LocalAddr(), unix: conn.IsUnix(), created: now}
	c.active.Store(now)
	c.held.Wake = conn.Wake
	s.register(c)
	return newSession(s, c)
}

// register gives a client its id, and makes it visible to others.
func (s *Server) register(c *client) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lastID++
	c.id = s.lastID
	s.peers[c.id] = c
}

// Space returns room for what arrives next.
func (s *session) Space() []byte { return s.in.Space() }

// Arrived says that n bytes of the room have been filled.
func (s *session) Arrived(n int) { s.in.Advance(n) }

// Run answers the commands that have fully arrived. With nonBlocking it stops before the first that may take long or has
// to wait.
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

// Output returns the replies that are to be sent.
func (s *session) Output() transport.Output {
	return transport.Output{Bytes: s.out.Bytes, Limit: &s.bounds.Output, Uncommitted: s.wrote}
}

// Sent forgets the replies, which have been sent.
func (s *session) Sent() { s.out.Bytes, s.wrote = s.out.Bytes[:0], false }

// errHeldTooMuch is returned when what has arrived behind a command that waits for the end of a pause outgrows
// client-query-buffer-limit. As in Redis the client gets no reply.
var errHeldTooMuch = errors.New("what came in during CLIENT PAUSE outgrew client-query-buffer-limit")

// Held reports whether a pause holds the next command, and fails when too much has arrived behind that.
func (s *session) Held() (bool, error) {
	if !s.client.held.Waits() {
		return false, nil
	}
	waiting := int64(s.in.Buffered())
	s.client.query.Store(waiting)
	if waiting > s.bounds.QueryBuffer {
		s.srv.pause.Leave(&s.client.held)
		s.srv.log.Warn("closing a connection", "client", s.client.addr, "reason", errHeldTooMuch)
		return true, errHeldTooMuch
	}
	return true, nil
}

// IgnoresTimeout reports whether the option timeout leaves the connection alone. As in Redis it does not end one that is
// shown every command.
func (s *session) IgnoresTimeout() bool { return s.client.monitors.Load() }

// Idle gives the buffers back, as far as nothing is in them, while nothing arrives: a silent connection holds none, and
// those that are served one after the other use the same, which are in the processor's cache.
func (s *session) Idle() {
	s.in.Idle()
	if len(s.out.Bytes) > 0 {
		return
	}
	if cap(s.out.Bytes) == outSize {
		outs.Put((*[outSize]byte)(s.out.Bytes[:outSize]))
	}
	s.out.Bytes = nil
}

// End lets go of what the session holds beyond itself. Nobody sees its client any more.
func (s *session) End() {
	defer s.srv.hide(s.client)
	defer func() {
		if p := recover(); p != nil {
			transport.LogPanic(s.srv.log, s.client.addr, p)
		}
	}()
	s.srv.pause.Leave(&s.client.held)
	s.discardTransaction()
}
