package resp

import (
	"errors"

	"cellserver/resp/frame"
)

// save is SAVE. Only this connection waits until the snapshot is written.
func save(s *session, _ [][]byte) { s.replyDisk(s.srv.disk.Save(), "OK") }

// bgSave is BGSAVE [SCHEDULE].
func bgSave(s *session, words [][]byte) {
	schedule := len(words) == 2 && frame.Is(words[1], "SCHEDULE")
	if len(words) > 1 && !schedule {
		s.out.Error(errSyntax)
		return
	}
	err := s.srv.disk.SaveInBackground()
	if schedule && errors.Is(err, ErrRewriteBusy) {
		s.out.Error(errScheduled)
		return
	}
	s.replyDisk(err, s.startedStatus("Background saving"))
}

// bgRewrite is BGREWRITEAOF.
func bgRewrite(s *session, _ [][]byte) {
	s.replyDisk(s.srv.disk.RewriteInBackground(), s.startedStatus("Background append only file rewriting"))
}

// startedStatus returns the status reply for a background task that has started. Within EXEC it is "scheduled", as in Redis.
func (s *session) startedStatus(what string) string {
	if s.tx.running {
		return what + " scheduled"
	}
	return what + " started"
}

// replyDisk answers with the status done, or with the error of a Disk.
func (s *session) replyDisk(err error, done string) {
	switch {
	case err == nil:
		s.out.Status(done)
	case errors.Is(err, ErrDiskBusy), errors.Is(err, ErrRewriteBusy), errors.Is(err, errNoDisk):
		s.out.Error("ERR " + err.Error())
	default:
		s.out.Error("ERR " + oneLine(err.Error()))
	}
}

// oneLine replaces the control characters of text by spaces, so that it can be part of an error reply.
func oneLine(text string) string {
	line := []byte(text) // bytes and not runes, because text may not be UTF-8
	for i, c := range line {
		if c < ' ' {
			line[i] = ' '
		}
	}
	return string(line)
}

func lastSave(s *session, _ [][]byte) { s.out.Int(s.srv.disk.Status().LastSave / second) }

// shutdown is SHUTDOWN [NOSAVE|SAVE] [NOW] [FORCE] [ABORT]. If it succeeds, there is no reply, and the connection closes.
func shutdown(s *session, words [][]byte) {
	ending, force, abort := EndAsConfigured, false, false
	for _, w := range words[1:] {
		switch {
		case frame.Is(w, "SAVE") && ending == EndAsConfigured:
			ending = EndSaving
		case frame.Is(w, "NOSAVE") && ending == EndAsConfigured:
			ending = EndNotSaving
		case frame.Is(w, "NOW"):
		case frame.Is(w, "FORCE"):
			force = true
		case frame.Is(w, "ABORT"):
			abort = true
		default:
			s.out.Error(errSyntax)
			return
		}
	}
	switch {
	case abort && len(words) > 2:
		s.out.Error(errSyntax)
		return
	case abort:
		s.out.Error(errNoShutdown)
		return
	}
	// The snapshot is written before the server stops, so that an error of it cancels SHUTDOWN.
	if ending == EndSaving || ending == EndAsConfigured && s.srv.disk.Status().SavesAtEnd {
		if err := s.srv.disk.Save(); err != nil && !force && !errors.Is(err, ErrDiskBusy) {
			s.srv.log.Error("SHUTDOWN was asked for, but the snapshot could not be written", "client", s.client.addr, "error", err)
			s.out.Error(errShutdown)
			return
		}
	}
	s.srv.log.Info("SHUTDOWN was asked for", "client", s.client.addr)
	s.closing = true
	s.srv.stop(ending)
}
