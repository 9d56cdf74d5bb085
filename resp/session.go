package resp

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"runtime/debug"
	"strings"
	"sync"
	"time"

	"cellserver/buckets"
	"cellserver/internal/acl"
	"cellserver/internal/pace"
	"cellserver/resp/command"
	"cellserver/resp/frame"
	"cellserver/resp/limits"
	"cellserver/resp/stats"
	"cellserver/resp/transport"
)

// errHTTP is why a connection is closed that speaks HTTP: some page or proxy has been made to send us requests whose
// lines we would take for commands.
var errHTTP = errors.New("this is HTTP: possibly an attack through a browser or another server")

// flushAt is the size of output at which a session pauses to have it written, so that a long batch of large replies is
// not held whole.
const flushAt = 64 << 10

// session is one client's conversation: bytes in, bytes out.
type session struct {
	srv    *Server
	store  buckets.Store   // the server's, or while EXEC runs the one that holds what it needs
	direct buckets.Decider // store, if it decides at once; nil otherwise
	client *client
	in     frame.Reader
	out    frame.Reply
	bounds *Bounds

	mark    int    // where the reply begins to what is being answered
	now     int64  // the clock, read once for all commands of one read
	closing bool   // nothing more is read or answered
	loading bool   // the store is, and the disk as it was when this batch was read
	refusal string // why nothing may be changed
	wrote   bool   // something was, since the last time that it was committed

	muted   bool // CLIENT REPLY OFF
	caching bool // CLIENT CACHING YES is in force
	tally   stats.Tally[*entry]

	nonBlocking bool // only what takes no time, and waits for nobody, is run
	deferred    bool // the next command does not, and is left where it is

	shown  []byte // what a monitor is to be shown of its own commands, behind the reply
	held   bool   // the next command waits for the end of a pause
	pushed bool   // a part of the reply to the command that runs has been sent

	pacer pace.Pacer // of the command that runs, if it is timed by itself

	skipping int // replies that CLIENT REPLY SKIP leaves out, this command's included

	last  *entry // the row that ran last
	seen  *entry
	typed []byte // how seen was written, when one word says all: most commands are the one before

	user   *acl.User // as whom the connection speaks; nil before it has said so
	free   bool      // its user may do everything
	judged [][]byte  // the keys that a command names, while it is judged

	tx transaction

	batch     batch
	accounted bool // whether the reply to the command that runs is an error has been counted

	asked   limits.Last      // the latest request of a limit
	decided buckets.Decision // and its answer

	// Memory that CL.ALL uses again.
	askedAll limits.All
	answers  []buckets.Decision

	op      [1]buckets.Op // room for do
	all     [1]buckets.Op // for CL.ALL
	runHeld func(held buckets.Store)
}

func newSession(srv *Server, c *client) *session {
	c.queued.Store(-1)
	return &session{srv: srv, store: srv.store, direct: srv.direct, client: c, bounds: srv.bounds.Load(),
		pacer: pace.Pacer{Work: workFor, Pause: pauseFor, Now: srv.now}}
}

// outSize is the room for replies that a session has while it answers. What needs more gets it for one batch.
const outSize = 16 << 10

var outs = sync.Pool{New: func() any { return new([outSize]byte) }}

// run answers the commands that have fully arrived. It reports whether it stopped before the last of them because much
// output is waiting; the caller then takes the output and calls it again.
func (s *session) run(now int64) (more bool) {
	defer s.rescue()
	s.now, s.deferred, s.held, s.mark = now, false, false, len(s.out.Bytes)
	if s.out.Bytes == nil {
		s.out.Bytes = outs.Get().(*[outSize]byte)[:0]
	}
	s.bounds = s.srv.bounds.Load()
	s.client.active.Store(now)
	if !s.identify() {
		s.closing = true // its user is gone, and it with it
		return false
	}
	s.loading, s.refusal = s.srv.disk.Loading(), s.srv.disk.Refusal()
	s.tally.Begin(now, s.srv.now)
	s.batch.begin(s.srv)
	defer func() {
		if s.tally.Pending() {
			s.settle(s.srv.now())
		}
	}()
	for !s.closing {
		if len(s.out.Bytes) >= flushAt {
			s.decide()
			return true
		}
		s.mark = len(s.out.Bytes)
		words, err := s.in.Next(&s.bounds.Limits)
		if err != nil {
			s.decide()
			s.refuse(err)
			break
		}
		if words == nil {
			break
		}
		s.answer(words)
		if s.deferred || s.held {
			s.in.Unread()
			break
		}
	}
	s.decide()
	s.mark = len(s.out.Bytes)
	s.client.query.Store(int64(s.in.Buffered()))
	return false
}

// refuse ends the conversation over something that is not a command.
func (s *session) refuse(err error) {
	s.closing = true
	var bad frame.ProtocolError
	if errors.As(err, &bad) {
		if !s.muted && s.skipping == 0 {
			s.out.Error(string(bad))
		}
		s.srv.stats.Error(string(bad))
	}
	level := slog.LevelInfo
	if errors.Is(err, errHTTP) || errors.Is(err, transport.ErrOutputLimit) {
		level = slog.LevelWarn
	}
	s.srv.log.Log(context.Background(), level, "closing a connection", "client", s.client.addr, "reason", err)
}

// answer takes one command through the gates, and runs it, queues it for EXEC, or leaves it where it is.
func (s *session) answer(words [][]byte) {
	c, found := s.seen, true
	if len(s.typed) == 0 || !bytes.Equal(words[0], s.typed) {
		c, found = s.find(words)
	}
	asked := c
	if !found { // an unknown subcommand is none
		asked = nil
	}
	if s.client.command.Load() != asked { // a load costs less than a store
		s.client.command.Store(asked)
	}
	if s.batch.n > 0 && (c == nil || !c.collects()) {
		s.decide()
	}
	mark := len(s.out.Bytes)
	switch refused := s.gate(c, found, words); {
	case refused != "":
		s.decide()
		if !found { // an unknown subcommand counts for no row
			c = nil
		}
		s.reject(c, words, refused)
	case s.closing:
	case s.tx.open && c.Flags&command.Unqueued == 0:
		s.queue(c, words)
	case s.nonBlocking && !s.mayRunOnLoop(c, words):
		s.deferred = true
		return
	case !s.nonBlocking && s.waits(c):
		return
	default:
		s.execute(c, words)
	}
	if s.caching {
		s.endCaching(c, words)
	}
	if s.muted || s.skipping > 0 {
		s.mute(mark)
	}
}

// gate returns why a command is refused before it is run or queued, or "". A command that only an HTTP client sends closes the
// conversation. found is false for an unknown subcommand of c.
func (s *session) gate(c *entry, found bool, words [][]byte) (refused string) {
	if c == nil {
		if frame.Is(words[0], "POST") || frame.Is(words[0], "HOST:") {
			s.refuse(errHTTP)
			return ""
		}
		return unknownCommand(words)
	}
	if !found {
		return sprintf(errUnknownSub, cString(words[1]), strings.ToUpper(c.Name))
	}
	if !c.Takes(len(words)) {
		return sprintf(errArity, c.FullName())
	}
	if s.user == nil && c.Flags&command.NoAuth == 0 {
		return errNoAuth
	}
	if !s.free && s.user != nil {
		if why := s.forbidden(c, words); why != "" {
			return why
		}
	}
	if s.loading && c.Flags&command.Loading == 0 {
		return errLoading
	}
	if s.refusal != "" && c.Flags&command.Write != 0 {
		return s.refusal
	}
	if c.Flags&command.Debugging != 0 && !s.mayDebug() {
		return errNoDebug
	}
	if s.tx.open && c.Flags&command.NoMulti != 0 {
		return errNotInMulti
	}
	return ""
}

// collects reports whether the command is a limit command that may be decided together with others: see batch.
func (c *entry) collects() bool {
	return c.Flags&(command.Decides|command.Fast) == command.Decides|command.Fast
}

// nonBlockingWords is the most words of a command that takes no time.
const nonBlockingWords = 500

// mayRunOnLoop reports whether a command takes no time, and has to wait for nobody.
func (s *session) mayRunOnLoop(c *entry, words [][]byte) bool {
	return c.Flags&command.NonBlocking != 0 && len(words) <= nonBlockingWords && !s.srv.pause.Active()
}

// waits reports whether a command has to wait for the end of a pause; what waits is then left where it is. What CLIENT says
// of connections does not wait, so that a pause can be ended, and neither does what it takes to be allowed that.
func (s *session) waits(c *entry) bool {
	p := &s.srv.pause
	if !p.Active() || c.Flags&command.NoAuth != 0 || c.Parent != nil && c.Parent.Name == "client" {
		return false
	}
	s.held = p.Hold(&s.client.held, c.Flags&command.Write != 0 || c.Name == "exec")
	return s.held
}

// find finds the row of a command, and remembers it.
func (s *session) find(words [][]byte) (c *entry, found bool) {
	c, found = s.srv.commands.find(words)
	s.seen, s.typed = c, s.typed[:0]
	if c != nil && len(c.Subs) == 0 && c.Parent == nil {
		s.typed = append(s.typed, words[0]...)
	}
	return c, found
}

// execute runs one command and leaves its reply in out. A handler that panics costs this command only.
func (s *session) execute(c *entry, words [][]byte) {
	mark := len(s.out.Bytes)
	s.accounted = false
	defer func() {
		if p := recover(); p != nil {
			s.abandon(mark)
			s.srv.log.Error("a command panicked", "command", c.FullName(), "client", s.client.addr,
				"panic", p, "stack", string(debug.Stack()))
		}
		if !s.pushed && !s.accounted && len(s.out.Bytes) > mark && s.out.Bytes[mark] == '-' {
			c.Failed.Add(1)
			s.srv.stats.Error(string(s.out.Bytes[mark+1:]))
		}
		s.pushed = false
		if monitors := s.srv.monitors.Load(); monitors != nil {
			s.show(*monitors, c, words)
		}
	}()
	s.last = c
	s.wrote = s.wrote || c.Flags&(command.Write|command.Decides) == command.Write
	if c.Flags&(command.Fast|command.NonBlocking) == command.Fast|command.NonBlocking {
		s.count(c)
		c.run(s, words)
		return
	}
	s.runTimed(c, words)
}

// runTimed runs a command that is timed by itself.
func (s *session) runTimed(c *entry, words [][]byte) {
	began := s.srv.now()
	s.settle(began)
	s.pacer.ResumeAt(began)
	defer func() {
		ended := s.srv.now()
		s.settle(ended) // what EXEC has run
		took := max(0, ended-began)
		c.Add(1, took)
		s.timed(c, words, took)
	}()
	c.run(s, words)
}

// A long command pauses for pauseFor after workFor of work, so that requests of other clients go first.
const (
	workFor  = 100 * time.Microsecond
	pauseFor = 50 * time.Microsecond
)

// yieldIfLong lets other clients go first if the command has worked for long. Within EXEC it does nothing, because other clients
// may wait for the end of the transaction.
func (s *session) yieldIfLong() {
	if !s.tx.running {
		s.pacer.YieldIfLong()
	}
}

// sendPart sends the part of a long reply that is ready, if it may be sent before the rest, and lets other clients go first.
func (s *session) sendPart() {
	// The replies of a monitor are sent whole, because another connection may write to it at any time.
	if s.client.conn != nil && !s.tx.running && !s.muted && s.skipping == 0 && !s.client.monitors.Load() {
		_ = s.client.conn.Flush() // what fails here fails again
		s.pushed = true
	}
	s.yieldIfLong()
}

// reject answers a command that is not run at all, and spoils the transaction it was meant for. An EXEC that is not run ends
// it, whatever the reason, and is shown to those who monitor.
func (s *session) reject(c *entry, words [][]byte, text string) {
	if c != nil {
		c.Rejected.Add(1)
		if c.Name == "exec" {
			s.discardTransaction()
			text = sprintf(errExecRejected, strings.TrimPrefix(text, "ERR "))
		}
	}
	s.tx.broken = s.tx.open
	s.srv.stats.Error(text)
	s.out.Error(text)
	if c != nil && c.Name == "exec" {
		if monitors := s.srv.monitors.Load(); monitors != nil {
			s.show(*monitors, c, words) // they have been shown MULTI
		}
	}
}

// mute takes back the reply of a command whose client wants none.
func (s *session) mute(mark int) {
	if s.muted || s.skipping == 1 {
		s.out.Bytes = s.out.Bytes[:mark]
	}
	if s.skipping > 0 {
		s.skipping--
	}
}

// cString is b as Redis prints it into an error: up to a NUL, 128 bytes at most.
func cString(b []byte) []byte {
	if nul := bytes.IndexByte(b, 0); nul >= 0 {
		b = b[:nul]
	}
	return b[:min(len(b), 128)]
}

// unknownCommand spells the error as Redis does: clients recognise it and fall back.
func unknownCommand(words [][]byte) string {
	var args []byte
	for _, w := range words[1:] {
		if len(args) >= 128 {
			break
		}
		w = cString(w)
		args = append(append(append(args, '\''), w[:min(len(w), 128-len(args))]...), "' "...)
	}
	text := sprintf(errUnknown, cString(words[0]), args)
	for _, script := range []string{"EVAL", "EVALSHA", "EVAL_RO", "EVALSHA_RO", "FUNCTION", "SCRIPT", "FCALL", "FCALL_RO"} {
		if frame.Is(words[0], script) {
			return text + errScripts
		}
	}
	return text
}
