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
	"cellserver/resp/counter"
	"cellserver/resp/frame"
	"cellserver/resp/limits"
	"cellserver/resp/script"
	"cellserver/resp/stats"
	"cellserver/resp/transport"
)

// errHTTP closes a connection that sends HTTP. An attacker can have a browser or a proxy send HTTP requests here, and lines of
// them would run as commands.
var errHTTP = errors.New("this is HTTP: possibly an attack through a browser or another server")

// flushAt is the size of output at which run returns to have it sent, so that the replies to a large batch are not all in
// memory at once.
const flushAt = 64 << 10

// session is the protocol state of one connection: it parses the bytes that arrive, runs the commands, and renders the replies.
type session struct {
	srv    *Server
	store  buckets.Store   // that of the selected database; while EXEC runs, one that holds the keys of the transaction
	direct buckets.Decider // store, if it decides without waiting; nil otherwise
	client *client
	in     frame.Reader
	out    frame.Reply
	bounds *Bounds

	replyStart  int    // the offset in out of the reply to the current command
	now         int64  // the decision clock, read once for all commands of a batch
	closing     bool   // no more commands are read; the connection closes when out has been sent
	loading     bool   // whether the store was being loaded when the batch began
	refusal     string // the error for commands that write, if the disk refuses them; "" otherwise
	uncommitted bool   // a command has written since the last commit

	repliesOff bool // CLIENT REPLY OFF
	caching    bool // CLIENT CACHING YES is in force
	tally      stats.Tally[*entry]

	nonBlocking bool // the session runs on an event loop: only non-blocking commands may run
	deferred    bool // the next command may block, and has not been read

	monitorLines []byte // what a monitor is shown of its own commands, sent after the reply
	held         bool   // the next command waits for the end of a pause, and has not been read
	partSent     bool   // a part of the reply to the current command has been sent

	pacer pace.Pacer // paces the current command, if it is timed by itself

	repliesToSkip int // how many replies CLIENT REPLY SKIP still drops, that of the current command included

	last *entry // the row that ran last

	// The row that was looked up last, and its name as the client wrote it: clients repeat themselves. The name is empty if the
	// row has subcommands or is one.
	cachedRow  *entry
	cachedName []byte
	earlier    struct { // the row that was cached before, and its name: programs that count send two commands by turns
		row  *entry
		name []byte
	}

	user         *acl.User // nil before the client has authenticated
	unrestricted bool      // the user may run every command on every key
	keys         [][]byte  // buffer of checkRights

	tx txState

	batch        batch
	errorCounted bool // the reply to the current command has been counted, if it is an error

	asked   limits.Last      // the last limit that was asked
	decided buckets.Decision // the decision on it

	// Buffers of CL.ALL.
	askedAll limits.All
	answers  []buckets.Decision

	op     [1]buckets.Op  // buffer of do
	all    [1]buckets.Op  // buffer of CL.ALL
	change counter.Change // of the command on a counter that runs
	many   counter.Many

	runHeld func(held buckets.Store)

	inScript    bool // the command that runs is called by a script
	scriptRun   script.Run
	lastKnown   *script.Script // the last known script that was called by its SHA-1
	lastSHA1    [40]byte       // as the client wrote it
	scriptText  script.Text    // the last text that was sent, unless it is long
	scriptWords [][]byte       // buffer of the words of a wrapper's command
	scriptReply []byte         // buffer of its reply
	scriptRead  [][]byte       // the keys that commands of wrappers have read to be cached
}

func newSession(srv *Server, c *client) *session {
	c.queued.Store(-1)
	return &session{srv: srv, store: srv.store, direct: srv.direct, client: c, bounds: srv.bounds.Load(),
		tally: stats.Tally[*entry]{Together: srv.remote != nil},
		pacer: pace.Pacer{Work: workFor, Pause: pauseFor, Now: srv.now}}
}

// outSize is the capacity of the pooled buffers for replies. A buffer that grows beyond it is not put back.
const outSize = 16 << 10

var outBuffers = sync.Pool{New: func() any { return new([outSize]byte) }}

// run runs the commands that have fully arrived. It returns true if it stopped before the last of them because out has reached
// flushAt: the caller sends the output, and calls run again.
func (s *session) run(now int64) (more bool) {
	defer s.recoverPanic()
	s.now, s.deferred, s.held, s.replyStart = now, false, false, len(s.out.Bytes)
	if s.out.Bytes == nil {
		s.out.Bytes = outBuffers.Get().(*[outSize]byte)[:0]
	}
	s.bounds = s.srv.bounds.Load()
	s.client.active.Store(now)
	if !s.refreshUser() {
		s.closing = true // the user has been deleted or disabled
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
		s.replyStart = len(s.out.Bytes)
		words, err := s.in.Next(&s.bounds.Limits)
		if err != nil {
			s.decide()
			s.closeWithError(err)
			break
		}
		if words == nil {
			break
		}
		if s.srv.remote != nil && s.batch.n == 0 {
			s.now = s.srv.now() // the commands before this one may have waited
		}
		s.answer(words)
		if s.deferred || s.held {
			s.in.Unread()
			break
		}
	}
	s.decide()
	s.replyStart = len(s.out.Bytes)
	s.client.query.Store(int64(s.in.Buffered()))
	return false
}

// closeWithError closes the connection because of an error, and logs it. If it is a protocol error, it is the last reply.
func (s *session) closeWithError(err error) {
	s.closing = true
	var bad frame.ProtocolError
	if errors.As(err, &bad) {
		if !s.silenced() {
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

// answer passes one command through the gates. Then it runs it or queues it for EXEC, or sets deferred or held if the command
// has to stay in the input.
func (s *session) answer(words [][]byte) {
	c, found := s.cachedRow, true
	if len(s.cachedName) == 0 || !bytes.Equal(words[0], s.cachedName) {
		c, found = s.lookUp(words)
	}
	if !found { // an unknown subcommand is no command
		s.client.command.Store(nil)
	} else if s.client.command.Load() != c { // an atomic load costs less than a store
		s.client.command.Store(c)
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
	if s.silenced() {
		s.dropReply(mark)
	}
}

// gate returns the error that refuses a command before it is run or queued, or "". A command that only an HTTP client sends
// closes the connection. found is false for an unknown subcommand of c.
func (s *session) gate(c *entry, found bool, words [][]byte) (refused string) {
	if c == nil {
		if frame.Is(words[0], "POST") || frame.Is(words[0], "HOST:") {
			s.closeWithError(errHTTP)
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
	if !s.unrestricted && s.user != nil {
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

// collects reports whether the command is a limit command that may be decided in a batch with others.
func (c *entry) collects() bool {
	return c.Flags&(command.Decides|command.Fast) == command.Decides|command.Fast
}

// maxNonBlockingWords is the most words that a non-blocking command may have: the time of DEL and its kin grows with them.
const maxNonBlockingWords = 500

// mayRunOnLoop reports whether a command is short and waits for nothing, so that it may run on an event loop.
func (s *session) mayRunOnLoop(c *entry, words [][]byte) bool {
	return c.Flags&command.NonBlocking != 0 && len(words) <= maxNonBlockingWords && !s.srv.pause.Active() &&
		(c.Flags&command.Scripts == 0 || s.scriptRunsOnLoop(c, words))
}

// waits reports whether a command has to wait for the end of a pause, and sets held then. The subcommands of CLIENT do not
// wait, so that a pause can be ended, and neither do AUTH and the others that need no authentication.
func (s *session) waits(c *entry) bool {
	p := &s.srv.pause
	if !p.Active() || c.Flags&command.NoAuth != 0 || c.Parent != nil && c.Parent.Name == "client" {
		return false
	}
	writes := c.Flags&command.Write != 0 || c.Name == "exec" || c.Flags&(command.Scripts|command.ReadOnly) == command.Scripts
	s.held = p.Hold(&s.client.held, writes)
	return s.held
}

// lookUp returns the row of a command, and caches it.
func (s *session) lookUp(words [][]byte) (c *entry, found bool) {
	last := s.earlier
	s.earlier.row, s.earlier.name = s.cachedRow, s.cachedName
	s.cachedRow, s.cachedName = last.row, last.name
	if len(last.name) > 0 && bytes.Equal(words[0], last.name) {
		return last.row, true
	}
	c, found = s.srv.commands.find(words)
	s.cachedRow, s.cachedName = c, s.cachedName[:0]
	if c != nil && len(c.Subs) == 0 && c.Parent == nil {
		s.cachedName = append(s.cachedName, words[0]...)
	}
	return c, found
}

// execute runs one command, which appends its reply to out. If its handler panics, the reply is an error, and the next command
// runs.
func (s *session) execute(c *entry, words [][]byte) {
	mark := len(s.out.Bytes)
	s.errorCounted = false
	defer func() {
		if p := recover(); p != nil {
			s.replaceByError(mark)
			s.srv.log.Error("a command panicked", "command", c.FullName(), "client", s.client.addr,
				"panic", p, "stack", string(debug.Stack()))
		}
		if !s.partSent && !s.errorCounted && len(s.out.Bytes) > mark && s.out.Bytes[mark] == '-' {
			c.Failed.Add(1)
			s.srv.stats.Error(string(s.out.Bytes[mark+1:]))
		}
		s.partSent = false
		if monitors := s.srv.monitors.Load(); monitors != nil {
			s.showMonitors(*monitors, c, words)
		}
	}()
	s.last = c
	s.uncommitted = s.uncommitted || c.Flags&(command.Write|command.Decides) == command.Write
	if c.Flags&command.NonBlocking != 0 && (c.Flags&(command.Fast|command.Short) != 0 || c.Flags&command.Scripts != 0 && s.nonBlocking) &&
		(s.srv.remote == nil || c.collects() && s.mayCollect()) {
		if !s.tally.Repeat(c) {
			s.count(c)
		}
		c.run(s, words)
		return
	}
	s.runTimed(c, words)
}

// runTimed runs a command, and records how long it took.
func (s *session) runTimed(c *entry, words [][]byte) {
	began := s.srv.now()
	s.settle(began)
	s.pacer.ResumeAt(began)
	defer func() {
		ended := s.srv.now()
		s.settle(ended) // the commands that EXEC has run
		took := max(0, ended-began)
		c.Add(1, took)
		s.recordDuration(c, words, took)
	}()
	c.run(s, words)
}

// A long command pauses for pauseFor after workFor of work, so that requests of other clients go first.
const (
	workFor  = 100 * time.Microsecond
	pauseFor = 50 * time.Microsecond
)

// yieldIfLong lets other clients go first if the command has worked for long. Within EXEC it does nothing, because other
// clients may wait for the end of the transaction.
func (s *session) yieldIfLong() {
	if !s.tx.running {
		s.pacer.YieldIfLong()
	}
}

// sendPart sends the part of a long reply that is ready, if it may be sent before the rest, and lets other clients go first.
func (s *session) sendPart() {
	// The replies of a monitor are sent whole, because another connection may write to it at any time.
	if s.client.conn != nil && !s.tx.running && !s.inScript && !s.silenced() && !s.client.monitors.Load() {
		_ = s.client.conn.Flush() // what fails here fails again
		s.partSent = true
	}
	s.yieldIfLong()
}

// reject answers a command that is neither run nor queued. Within MULTI it makes EXEC fail. An EXEC that is rejected discards
// the transaction, whatever the reason, and is shown to monitors.
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
			s.showMonitors(*monitors, c, words) // they have been shown MULTI
		}
	}
}

// silenced reports whether CLIENT REPLY OFF or SKIP is in force.
func (s *session) silenced() bool { return s.repliesOff || s.repliesToSkip > 0 }

// dropReply removes the reply that begins at mark, if CLIENT REPLY says so.
func (s *session) dropReply(mark int) {
	if s.repliesOff || s.repliesToSkip == 1 {
		s.out.Bytes = s.out.Bytes[:mark]
	}
	if s.repliesToSkip > 0 {
		s.repliesToSkip--
	}
}

// cString returns what Redis prints of b in an error: the bytes before the first NUL, 128 at most.
func cString(b []byte) []byte {
	if nul := bytes.IndexByte(b, 0); nul >= 0 {
		b = b[:nul]
	}
	return b[:min(len(b), 128)]
}

// unknownCommand returns the error for an unknown command in Redis's words, which clients recognise.
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
	for _, script := range []string{"FUNCTION", "FCALL", "FCALL_RO"} {
		if frame.Is(words[0], script) {
			return text + errScripts
		}
	}
	return text
}
