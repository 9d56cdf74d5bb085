package resp_test

// Transcripts are conversations, byte for byte: testdata/transcripts/*.txt. A line is one of
//
//	# a comment
//	@ unix 1700000123                 when the conversation starts; the first line that is no comment
//	@ 2.5s                            the time from here on, since the start
//	> CL.THROTTLE k 15 30 60          send a command as a multibulk, its words quoted as for inline commands
//	>> *1\r\n$4\r\nPING\r\n           send bytes, escaped as in a Go string
//	c2> PING                          ... from another connection to the same server; so is c2>>
//	< +PONG\r\n                       the expected reply, escaped; several lines are joined
//	<* *2\r\n$1\r\na\r\n$1\r\nb\r\n   ... where the bulks of an array may come in any order
//	<~ :\d+\r\n                       ... which varies: a regular expression for the whole reply
//	< (nothing)                       nothing comes back
//	< (closed)                        the connection is closed, after any reply
//
// {x*4096} stands for 4096 times x, in commands and in replies. Each command gets its reply before the next one is sent, so
// every command is followed by its reply.
//
//	go test ./resp -run TestTranscripts -update
//
// rewrites the replies that differ from the transcript, except regular expressions. Read the diff before you commit it.

import (
	"bytes"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"cellserver/buckets"
	"cellserver/buckets/memory"
	"cellserver/cmd/cellserver/options"
	"cellserver/internal/disk"
	"cellserver/internal/testing/crashfs"
	"cellserver/internal/testing/latestore"
	"cellserver/persistence"
	"cellserver/resp"
	"cellserver/resp/frame"
)

var update = flag.Bool("update", false, "write the answers of the transcripts that are no longer given anew")

// newQuiet returns a server with a number of shards, the default options, and a clock that the test sets.
func newQuiet(shards int, now *int64) *resp.Server {
	return newLogged(shards, func() int64 { return *now }, slog.DiscardHandler)
}

// newLogged is newQuiet with a log.
func newLogged(shards int, now func() int64, log slog.Handler) *resp.Server {
	return newWrapped(shards, now, log, func(s *memory.Store) buckets.Store { return s })
}

// newWrapped is newLogged with the store that wrap returns.
func newWrapped(shards int, now func() int64, log slog.Handler, wrap func(*memory.Store) buckets.Store) *resp.Server {
	srv, _ := newWithKeeper(shards, now, log, wrap)
	return srv
}

// newWithKeeper is newWrapped, and also returns the keeper of the server's files.
func newWithKeeper(shards int, now func() int64, log slog.Handler, wrap func(*memory.Store) buckets.Store) (*resp.Server, *persistence.Keeper) {
	store := memory.NewStore(shards)
	var srv *resp.Server
	// The keeper is real, on a file system in memory. Its loop does not run, so it writes only on request.
	keeper, err := persistence.New(persistence.Config{
		FS: crashfs.New(), Dir: "/", Snapshot: "dump.cell", Journal: "appendonly.cell",
		Store: store, Now: now, Log: slog.New(slog.DiscardHandler),
	}, persistence.Rules{})
	if err != nil {
		panic(err)
	}
	if err := keeper.Load(); err != nil {
		panic(err)
	}
	live := options.NewLive(options.Defaults(), func(s options.Settings) error {
		s.Bound(store)
		srv.SetBounds(s.Wire)
		srv.SetPassword(s.Password)
		return keeper.SetRules(s.Disk)
	})
	srv = resp.NewServer(resp.Config{
		Store: wrap(store), Now: now, Log: slog.New(log), Version: "0.1.0",
		Options: live, Bounds: live.Settings().Wire, Disk: disk.Of(keeper), Memory: 16 << 30,
	})
	return srv, keeper
}

// step is a command and its expected reply.
type step struct {
	line int // line number of the command, for messages
	at   time.Duration
	from string // name of the connection
	send []byte
	// words are the words of the command, if the step sends exactly one.
	words []string

	mark   string // of the reply: <, <* or <~
	want   string // the expected reply: bytes, or a regular expression
	closed bool
	// first and last are the range of lines of the reply; last is exclusive.
	first, last int
}

type transcript struct {
	path  string
	lines []string
	start int64 // nanoseconds of Unix time
	steps []step
}

var (
	sendLine   = regexp.MustCompile(`^(c\d+)?(>>?) (.*)$`)
	answerLine = regexp.MustCompile(`^(<[*~]?) (.*)$`)
	repeated   = regexp.MustCompile(`\{([^{}*]+)\*(\d+)\}`)
)

// repeat expands {x*3} to xxx.
func repeat(text string) string {
	return repeated.ReplaceAllStringFunc(text, func(match string) string {
		parts := repeated.FindStringSubmatch(match)
		n, err := strconv.Atoi(parts[2])
		if err != nil {
			return match
		}
		return strings.Repeat(parts[1], n)
	})
}

// unescape replaces the escapes of a Go string. Quotes need no escape.
func unescape(text string) (string, error) {
	var b strings.Builder
	for text = repeat(text); len(text) > 0; {
		r, wide, rest, err := strconv.UnquoteChar(text, 0)
		if err != nil {
			return "", fmt.Errorf("%q: %w", text, err)
		}
		if wide {
			b.WriteRune(r)
		} else {
			b.WriteByte(byte(r))
		}
		text = rest
	}
	return b.String(), nil
}

var bulkHeader = regexp.MustCompile(`^[$=]\d+\r\n$`)

// escape is the inverse of unescape. It splits a long reply into several lines.
func escape(reply []byte) (lines []string) {
	const width = 100
	line, unit := "", ""
	for _, part := range bytes.SplitAfter(reply, []byte("\r\n")) {
		unit += escapeLine(part)
		if bulkHeader.Match(part) {
			continue // a header stays in one line with its content
		}
		if line != "" && len(line)+len(unit) > width {
			lines = append(lines, line)
			line = ""
		}
		line, unit = line+unit, ""
	}
	if line += unit; line != "" {
		lines = append(lines, line)
	}
	return lines
}

func escapeLine(part []byte) string {
	const long = 64
	var b strings.Builder
	for i := 0; i < len(part); i++ {
		c := part[i]
		run := len(part[i:]) - len(bytes.TrimLeft(part[i:], string(rune(c))))
		switch {
		case run >= long && ('a' <= c && c <= 'z' || '0' <= c && c <= '9'):
			fmt.Fprintf(&b, "{%c*%d}", c, run)
			i += run - 1
		case c == '\\':
			b.WriteString(`\\`)
		case c == '\r':
			b.WriteString(`\r`)
		case c == '\n':
			b.WriteString(`\n`)
		case c < ' ' || c > '~':
			fmt.Fprintf(&b, `\x%02x`, c)
		default:
			b.WriteByte(c)
		}
	}
	return b.String()
}

// multibulk encodes a command as clients send it.
func multibulk(words ...string) []byte {
	b := fmt.Appendf(nil, "*%d\r\n", len(words))
	for _, w := range words {
		b = fmt.Appendf(b, "$%d\r\n%s\r\n", len(w), w)
	}
	return b
}

func readTranscript(path string) (*transcript, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	s := &transcript{path: path, lines: strings.Split(strings.TrimSuffix(string(text), "\n"), "\n"), start: -1}
	at := time.Duration(0)
	for i, line := range s.lines {
		if err := s.read(i, line, &at); err != nil {
			return nil, fmt.Errorf("%s:%d: %w", path, i+1, err)
		}
	}
	return s, nil
}

func (s *transcript) read(i int, line string, at *time.Duration) error {
	if line == "" || line[0] == '#' {
		return nil
	}
	if unix, ok := strings.CutPrefix(line, "@ unix "); ok {
		seconds, err := strconv.ParseInt(unix, 10, 64)
		s.start = seconds * int64(time.Second)
		return err
	}
	if s.start < 0 {
		return fmt.Errorf("when does it start?")
	}
	if text, ok := strings.CutPrefix(line, "@ "); ok {
		var err error
		*at, err = time.ParseDuration(text)
		return err
	}
	if m := sendLine.FindStringSubmatch(line); m != nil {
		next := step{line: i + 1, at: *at, from: m[1], first: i + 1, last: i + 1}
		if m[2] == ">>" {
			text, err := unescape(m[3])
			next.send = []byte(text)
			s.steps = append(s.steps, next)
			return err
		}
		words, ok := frame.SplitArgs(m[3])
		if !ok || len(words) == 0 {
			return fmt.Errorf("no words: %s", line)
		}
		for i := range words {
			words[i] = repeat(words[i])
		}
		next.words, next.send = words, multibulk(words...)
		s.steps = append(s.steps, next)
		return nil
	}
	if m := answerLine.FindStringSubmatch(line); m != nil && len(s.steps) > 0 {
		return s.steps[len(s.steps)-1].read(i, m[1], m[2])
	}
	return fmt.Errorf("not understood: %s", line)
}

// read adds a line of the reply to a step.
func (s *step) read(i int, mark, text string) error {
	if s.last != i || s.mark != "" && s.mark != mark {
		return fmt.Errorf("an answer to nothing: %s", text)
	}
	s.mark, s.last = mark, i+1
	switch {
	case text == "(nothing)":
	case text == "(closed)":
		s.closed = true
	case mark == "<~":
		s.want += repeat(text)
	default:
		bytes, err := unescape(text)
		s.want += bytes
		return err
	}
	return nil
}

// answered reports whether a reply is the expected one.
func (s *step) answered(reply []byte, closed bool) bool {
	if closed != s.closed {
		return false
	}
	switch s.mark {
	case "<~":
		whole, err := regexp.Compile(`(?s)\A(?:` + s.want + `)\z`)
		return err == nil && whole.Match(reply)
	case "<*":
		return string(inOrder(reply)) == string(inOrder([]byte(s.want)))
	}
	return string(reply) == s.want
}

// answer formats a reply as in a transcript.
func (s *step) answer(reply []byte, closed bool) (lines []string) {
	mark := "< "
	if s.mark == "<*" {
		mark, reply = "<* ", inOrder(reply)
	}
	for _, line := range escape(reply) {
		lines = append(lines, mark+line)
	}
	switch {
	case closed:
		lines = append(lines, mark+"(closed)")
	case len(reply) == 0:
		lines = append(lines, mark+"(nothing)")
	}
	return lines
}

// run plays the transcript against a new server and calls check with the reply to every step. The commands arrive in pieces of
// at most piece bytes.
func (s *transcript) run(shards, piece int, check func(s *step, reply []byte, closed bool)) {
	s.runOn(shards, piece, func(s *memory.Store) buckets.Store { return s }, check)
}

// runOn is run with the store that wrap returns.
func (s *transcript) runOn(shards, piece int, wrap func(*memory.Store) buckets.Store, check func(s *step, reply []byte, closed bool)) {
	var clock atomic.Int64 // a snapshot in the background reads it too
	clock.Store(s.start)
	srv, keeper := newWithKeeper(shards, clock.Load, slog.DiscardHandler, wrap)
	conns := make(map[string]*resp.TestConn)
	for i := range s.steps {
		step := &s.steps[i]
		now := s.start + int64(step.at)
		clock.Store(now)
		c := conns[step.from]
		if c == nil {
			c = resp.NewTestConn(srv, now)
			conns[step.from] = c
		}
		var reply []byte
		for part := range slices.Chunk(step.send, piece) {
			reply = append(reply, c.Feed(now, part)...)
		}
		check(step, reply, c.Closed())
		for st := keeper.Status(); st.Saving || st.Rewriting; st = keeper.Status() {
			runtime.Gosched() // let background work of this step finish before the next one
		}
	}
}

func transcripts(t *testing.T) (all []*transcript) {
	paths, err := filepath.Glob("testdata/transcripts/*.txt")
	require.NoError(t, err)
	require.NotEmpty(t, paths)
	for _, path := range paths {
		s, err := readTranscript(path)
		require.NoError(t, err)
		all = append(all, s)
	}
	return all
}

func TestTranscripts(t *testing.T) {
	for _, s := range transcripts(t) {
		t.Run(strings.TrimSuffix(filepath.Base(s.path), ".txt"), func(t *testing.T) {
			if *update {
				s.update(t)
			}
			check := func(t *testing.T) func(step *step, reply []byte, closed bool) {
				return func(step *step, reply []byte, closed bool) {
					if step.mark == "" || !step.answered(reply, closed) {
						t.Errorf("%s:%d: %s\nwant:\n%s\ngot:\n%s", s.path, step.line, s.lines[step.line-1],
							strings.Join(s.lines[step.first:step.last], "\n"),
							strings.Join(step.answer(reply, closed), "\n"))
					}
				}
			}
			for _, shards := range []int{1, 8, 256} {
				for name, piece := range map[string]int{"whole": 1 << 30, "byte by byte": 1} {
					t.Run(fmt.Sprintf("%d shards, %s", shards, name), func(t *testing.T) {
						s.run(shards, piece, check(t))
					})
				}
			}
			t.Run("a store that answers late and in any order", func(t *testing.T) {
				s.runOn(8, 1<<30, func(s *memory.Store) buckets.Store { return latestore.New(s) }, check(t))
			})
			t.Run("a store that decides a pipeline as a batch", func(t *testing.T) {
				s.runOn(8, 1<<30, func(s *memory.Store) buckets.Store { return batching{s} }, check(t))
			})
		})
	}
}

// batching is a store in memory that always asks for batches.
type batching struct{ *memory.Store }

func (batching) Batches() bool { return true }

// update rewrites the transcript with the replies of one run, and reads it again.
func (s *transcript) update(t *testing.T) {
	var lines []string
	done := 0
	s.run(1, 1<<30, func(step *step, reply []byte, closed bool) {
		lines = append(lines, s.lines[done:step.first]...)
		if step.mark == "<~" || step.mark != "" && step.answered(reply, closed) {
			lines = append(lines, s.lines[step.first:step.last]...)
		} else {
			lines = append(lines, step.answer(reply, closed)...)
		}
		done = step.last
	})
	lines = append(lines, s.lines[done:]...)
	require.NoError(t, os.WriteFile(s.path, []byte(strings.Join(lines, "\n")+"\n"), 0o644))
	again, err := readTranscript(s.path)
	require.NoError(t, err)
	*s = *again
}

// Every row of the command table has its descriptions, refuses a wrong number of words, and is in a transcript.
func TestEveryCommandRowIsDescribedCheckedAndShown(t *testing.T) {
	shown := make(map[string]bool)
	for _, s := range transcripts(t) {
		for _, step := range s.steps {
			if step.words != nil {
				shown[resp.RowOf(step.words)] = true
			}
		}
	}
	for _, row := range resp.Rows() {
		t.Run(row.Name, func(t *testing.T) {
			assert.NotEmpty(t, row.Summary, "a row has a summary")
			assert.NotEmpty(t, row.Cost, "a row has a complexity")
			assert.NotEmpty(t, row.Group, "a row has a group")
			assert.NotZero(t, row.Arity, "a row has an arity")
			if !row.Container {
				assert.True(t, shown[row.Name], "a row has a line in testdata/transcripts")
			}
			least := row.Arity
			if least < 0 {
				least = -least
			}
			assert.GreaterOrEqual(t, least, len(row.Words), "the arity counts the name")
			// A container without the name of a subcommand has the arity of the container.
			if least > len(row.Words) {
				refusesArity(t, row, least-1)
			}
			if row.Arity > 0 {
				refusesArity(t, row, least+1)
			}
		})
	}
}

// refusesArity sends a row's command with n words.
func refusesArity(t *testing.T, row resp.Row, n int) {
	t.Helper()
	words := slices.Clone(row.Words)
	for len(words) < n {
		words = append(words, "1")
	}
	now := int64(0)
	c := resp.NewTestConn(newQuiet(1, &now), now)
	want := "-ERR wrong number of arguments for '" + row.Name + "' command\r\n"
	if row.Name == "exec" { // as in Redis, it ends the transaction even then
		want = strings.Replace(want, "ERR", "EXECABORT Transaction discarded because of:", 1)
	}
	assert.Equal(t, want, string(c.Feed(now, multibulk(words...))), "%d words", n)
}

// COMMAND COUNT and LIST agree with the table.
func TestCommandNamesEveryRow(t *testing.T) {
	now := int64(0)
	c := resp.NewTestConn(newQuiet(1, &now), now)
	var names []string
	commands := 0
	for _, row := range resp.Rows() {
		names = append(names, row.Name)
		if len(row.Words) == 1 {
			commands++
		}
	}
	assert.Equal(t, fmt.Sprintf(":%d\r\n", commands), string(c.Feed(now, multibulk("COMMAND", "COUNT"))))
	assert.Equal(t, string(multibulk(names...)), string(c.Feed(now, multibulk("COMMAND", "LIST"))))
}
