package resp

import (
	"errors"
	"runtime/debug"

	"cellserver/resp/transport"
)

// errPanicked is why a connection is closed during whose service something panicked.
var errPanicked = errors.New("the server panicked")

// rescue, when deferred, ends the conversation over a panic, instead of the process. A handler's own panic costs its reply
// only, and is recovered where the handler is called.
func (s *session) rescue() {
	p := recover()
	if p == nil {
		return
	}
	transport.LogPanic(s.srv.log, s.client.addr, p)
	s.closing, s.deferred, s.held = true, false, false
	s.abandon(s.mark)
	if s.muted || s.skipping > 0 {
		s.out.Bytes = s.out.Bytes[:min(s.mark, len(s.out.Bytes))]
	}
}

// abandon replaces what has been written of a reply by an error. If some of it has been sent, nothing that follows could be
// understood, and the conversation ends.
func (s *session) abandon(mark int) {
	if s.pushed {
		s.out.Bytes, s.closing = s.out.Bytes[:0], true
		return
	}
	s.out.Bytes = s.out.Bytes[:min(mark, len(s.out.Bytes))]
	s.out.Error(errInternal)
}

// commit makes durable what has been decided. A panic is an error of those whose replies wait for it.
func (s *Server) commit() (err error) {
	defer func() {
		if p := recover(); p != nil {
			s.log.Error("making changes durable panicked", "panic", p, "stack", string(debug.Stack()))
			err = errPanicked
		}
	}()
	return s.disk.Commit()
}
