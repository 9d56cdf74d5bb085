package resp

import (
	"errors"
	"runtime/debug"

	"cellserver/resp/transport"
)

// errPanicked is the error of changes whose commit panicked. Their connections are closed.
var errPanicked = errors.New("the server panicked")

// recoverPanic must be deferred. After a panic it closes the connection, so that the process goes on. It does not see panics of
// handlers, which execute recovers.
func (s *session) recoverPanic() {
	p := recover()
	if p == nil {
		return
	}
	transport.LogPanic(s.srv.log, s.client.addr, p)
	s.closing, s.deferred, s.held = true, false, false
	s.replaceByError(s.replyStart)
	if s.silenced() {
		s.out.Bytes = s.out.Bytes[:min(s.replyStart, len(s.out.Bytes))]
	}
}

// replaceByError replaces the reply that begins at mark by an error. If a part of the reply has been sent, the client could
// not parse anything that follows, so the connection is closed instead.
func (s *session) replaceByError(mark int) {
	if s.partSent {
		s.out.Bytes, s.closing = s.out.Bytes[:0], true
		return
	}
	s.out.Bytes = s.out.Bytes[:min(mark, len(s.out.Bytes))]
	s.out.Error(errInternal)
}

// commit makes all earlier changes as durable as appendfsync promises. After a panic it returns an error.
func (s *Server) commit() (err error) {
	defer func() {
		if p := recover(); p != nil {
			s.log.Error("making changes durable panicked", "panic", p, "stack", string(debug.Stack()))
			err = errPanicked
		}
	}()
	return s.disk.Commit()
}
