package resp_test

// This fuzzer draws conversations and holds each with this server and with a real Redis: commands that both have, valid and
// damaged, over several connections, in RESP2 and RESP3, in pieces of any length. Every byte of the replies must be the same,
// except for the differences that deliberate lists and for values that differ between any two servers.

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"math"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"cellserver/internal/testing/fuzz"
	"cellserver/internal/testing/testenv"
	"cellserver/resp/frame"
)

// The lines of a script are
//
//	0 EXPIRE k 10        connection 0, of three, sends a command; its words are quoted as in an inline command
//	0+ EXPIRE k 10       ... without waiting for the reply before the next line of this connection
//	0| 3 EXPIRE k 10     ... in pieces of 3 bytes
//	0! "*1\r\n$4\r\n"    bytes, quoted as a word; then the client closes its side of the connection
//
// CL.WINDOW creates a key. Redis gets a script that does the same, and also one for PERSIST, which restores the expiry at which
// the bucket is full: this server has no keys without expiry.
func TestFuzzBesideRedis(t *testing.T) {
	p := newPair(t)
	fuzz.Run(t, fuzz.Target{Draw: drawConversation, Play: p.play, Fixed: 150, Fresh: 2 * time.Second})
}

// pairOfServers is a Redis and a cellserver.
type pairOfServers struct {
	redis, ours string          // sockets
	missing     map[string]bool // commands that only Redis has, in lower case

	// State of the current script:
	switchedOff bool // a user may have been switched off
	reset       bool // a connection may have sent RESET
	late        bool // a key may have got a deadline after the time at which its bucket is full
	lost        int  // upper bound of the MONITOR lines that a killed connection did not get
}

func newPair(t *testing.T) *pairOfServers {
	t.Helper()
	l, err := net.Listen("unix", filepath.Join(t.TempDir(), "s"))
	require.NoError(t, err)
	newSubject(t, nil).serve(t, l)
	p := &pairOfServers{redis: testenv.Redis(t), ours: l.Addr().String(), missing: map[string]bool{}}
	names := func(socket string) (all []string) {
		list, _, err := readValue([]byte(askRedis(t, socket, words(t, "COMMAND LIST")+theEnd)))
		require.NoError(t, err)
		for _, item := range list.items {
			all = append(all, strings.ToLower(strings.TrimSpace(string(item.text))))
		}
		require.NotEmpty(t, all)
		return all
	}
	here := names(p.ours)
	for _, name := range names(p.redis) {
		p.missing[name] = !slices.Contains(here, name)
	}
	return p
}

var unknown = regexp.MustCompile(`\A-ERR (?:unknown command|Command) '([^']+)'`)

// lacks reports whether our reply is the error for a command that only Redis has.
func (p *pairOfServers) lacks(ours string) bool {
	match := unknown.FindStringSubmatch(ours)
	return match != nil && p.missing[strings.ToLower(match[1])]
}

const sides = 3 // connections of a script

// side is one connection to both servers.
type side struct {
	redis, ours   net.Conn
	fromRedis     *bufio.Reader
	fromOurs      *bufio.Reader
	toRedis, toUs []byte   // bytes to be sent
	lines         []string // lines in those bytes
	queue         []string // lines since MULTI
	multi         bool
	monitors      bool
	closed        bool
	another       bool // it may have another user
	pair          *pairOfServers
}

// dial connects to both servers and waits until both have accepted: before that, CLIENT KILL does not find the connection.
func (p *pairOfServers) dial() (*side, error) {
	redis, err := net.Dial("unix", p.redis)
	if err != nil {
		return nil, err
	}
	ours, err := net.Dial("unix", p.ours)
	if err != nil {
		return nil, errors.Join(err, redis.Close())
	}
	s := &side{redis: redis, ours: ours, fromRedis: bufio.NewReader(redis), fromOurs: bufio.NewReader(ours), pair: p}
	return s, s.ask("PING", 0)
}

func (s *side) close() {
	s.closed = true
	_ = s.redis.Close()
	_ = s.ours.Close()
}

// errExcused ends a script after a deliberate difference, from which on the two servers may have different states.
var errExcused = errors.New("a deliberate difference")

func (p *pairOfServers) play(script []string) error {
	first, err := p.dial()
	if err != nil {
		return err
	}
	defer first.close()
	// The state and the connections that the previous script left may differ.
	if err := first.last("FLUSHALL\r\nACL DELUSER u\r\nCLIENT KILL TYPE normal\r\nPING\r\nQUIT\r\n"); err != nil && !strings.Contains(err.Error(), "PONG") {
		return fmt.Errorf("beginning: %w", err)
	}
	all := make([]*side, sides)
	for i := range all {
		s, err := p.dial()
		if err != nil {
			return err
		}
		defer s.close()
		all[i] = s
	}
	p.switchedOff, p.reset, p.late, p.lost = false, false, false, 0
	err = func() error {
		for _, line := range script {
			p.switchedOff = p.switchedOff || switchesOff.MatchString(line)
			p.reset = p.reset || resets.MatchString(line)
			p.late = p.late || setsLate.MatchString(line)
			if err := playLine(all, line); err != nil {
				return err
			}
		}
		for _, s := range all {
			if err := s.end(); err != nil {
				return err
			}
		}
		return nil
	}()
	if errors.Is(err, errExcused) {
		return nil
	}
	return err
}

var (
	switchesOff    = regexp.MustCompile(`(?i)ACL SETUSER .*\b(off|reset)\b`)
	resets         = regexp.MustCompile(`(?i)\bRESET\s*\z`)
	evictable      = regexp.MustCompile(`(?m)( flags=[A-Za-df-z]*)e`)
	asksForClients = regexp.MustCompile(`(?i)\ACLIENT (LIST|INFO)`)
	setsLate       = regexp.MustCompile(`(?i)EXPIRE(AT)? \S+ \d{10,}`)
)

// onlyOursClosed is returned if our server has closed a connection and Redis has not: our server ends the connections of a user
// that is switched off or deleted, and Redis only those of a deleted one.
func (s *side) onlyOursClosed(line, theirs, ours string) error {
	if s.another && s.pair.switchedOff {
		return errExcused
	}
	return fmt.Errorf("answers to %s\n  Redis %q\n  ours  %q, and has closed", line, theirs, ours)
}

func playLine(all []*side, line string) error {
	if len(line) < 3 || line[0] < '0' || line[0] >= '0'+sides {
		return nil
	}
	s := all[line[0]-'0']
	for _, other := range all {
		if other != s {
			if err := other.flush(0); err != nil {
				return err
			}
		}
	}
	if s.closed || s.monitors {
		return nil
	}
	switch rest := line[1:]; rest[0] {
	case '+':
		s.add(strings.TrimSpace(rest[1:]))
		return nil
	case '|':
		n, command, _ := strings.Cut(strings.TrimSpace(rest[1:]), " ")
		piece, err := strconv.Atoi(n)
		if err != nil {
			return nil
		}
		return s.ask(command, piece)
	case '!':
		text, err := strconv.Unquote(strings.TrimSpace(rest[1:]))
		if err != nil {
			return nil
		}
		if err := s.flush(0); err != nil || s.closed {
			return err
		}
		return s.last(text)
	default:
		return s.ask(strings.TrimSpace(rest), 0)
	}
}

// add appends a command to the bytes to be sent.
func (s *side) add(line string) {
	words, ok := frame.SplitArgs(line)
	if !ok || len(words) == 0 {
		return
	}
	for i := range words {
		words[i] = repeat(words[i])
	}
	s.toUs = append(s.toUs, multibulk(words...)...)
	s.toRedis = append(s.toRedis, multibulk(inRedis(words)...)...)
	s.lines = append(s.lines, line)
	s.another = s.another || asksToBeAnother.MatchString(line)
}

func (s *side) ask(line string, piece int) error {
	s.add(line)
	return s.flush(piece)
}

// flush sends the waiting bytes, in pieces if a length is given, and compares the replies.
func (s *side) flush(piece int) error {
	if len(s.lines) == 0 || s.closed {
		return nil
	}
	lines, toRedis, toUs := s.lines, s.toRedis, s.toUs
	s.lines, s.toRedis, s.toUs = nil, nil, nil
	if slices.ContainsFunc(append(slices.Clone(lines), s.queue...), asksToKill.MatchString) {
		s.pair.lost = max(s.pair.lost, len(lines)+len(s.queue))
	}
	s.patience()
	for _, err := range []error{write(s.redis, toRedis, piece), write(s.ours, toUs, piece)} {
		if err != nil && !errors.Is(err, syscall.EPIPE) { // reading shows whether the connection was killed
			return fmt.Errorf("writing: %w", err)
		}
	}
	for _, line := range lines {
		theirs, theirErr := fuzz.ReadReply(s.fromRedis)
		ours, err := fuzz.ReadReply(s.fromOurs)
		if errors.Is(theirErr, os.ErrDeadlineExceeded) || errors.Is(err, os.ErrDeadlineExceeded) {
			return fmt.Errorf("answers to %s\n  Redis %q, %w\n  ours  %q, %w", line, theirs, theirErr, ours, err)
		}
		if theirErr == nil && err != nil {
			return s.onlyOursClosed(line, theirs, ours)
		}
		if (theirErr == nil) != (err == nil) {
			return fmt.Errorf("answers to %s\n  Redis %q, %w\n  ours  %q, %w", line, theirs, theirErr, ours, err)
		}
		if err != nil { // both have closed
			s.close()
			return nil
		}
		if err := s.compare(line, theirs, ours); err != nil {
			return err
		}
	}
	return nil
}

var asksToKill = regexp.MustCompile(`(?i)CLIENT KILL`)

func (s *side) patience() {
	until := time.Now().Add(patience)
	_ = s.redis.SetDeadline(until)
	_ = s.ours.SetDeadline(until)
}

func write(to net.Conn, b []byte, piece int) error {
	if piece <= 0 {
		piece = len(b)
	}
	for part := range slices.Chunk(b, max(piece, len(b)/100+1)) {
		if _, err := to.Write(part); err != nil {
			return err
		}
	}
	return nil
}

// compare compares the replies to one line or to a transaction.
func (s *side) compare(line, theirs, ours string) error {
	words, _ := frame.SplitArgs(line)
	name := ""
	if len(words) > 0 {
		name = strings.ToUpper(words[0])
	}
	queued := s.queue
	switch {
	case name == "MONITOR" && ours == "+OK\r\n":
		s.monitors = true
	case name == "MULTI" && ours == "+OK\r\n":
		s.multi, s.queue = true, nil
	case s.multi && ours == "+QUEUED\r\n":
		s.queue = append(s.queue, line)
	case s.multi && (name == "EXEC" || name == "DISCARD" || name == "RESET" || name == "QUIT"):
		s.multi, s.queue = false, nil
	}
	if theirs == ours {
		return nil
	}
	if name == "EXEC" {
		r, _, err1 := readValue([]byte(theirs))
		o, _, err2 := readValue([]byte(ours))
		if err1 == nil && err2 == nil && r.mark == '*' && o.mark == '*' && len(r.items) == len(o.items) && len(r.items) == len(queued) {
			for i, line := range queued {
				if err := s.compare(line, string(r.items[i].appendTo(nil)), string(o.items[i].appendTo(nil))); err != nil {
					return err
				}
			}
			return nil
		}
	}
	if theirs, ours = alikeInKind(words, theirs, ours); theirs == ours {
		return nil
	}
	if s.pair.switchedOff && strings.HasPrefix(strings.ToUpper(line), "CLIENT LIST") && withoutU(theirs) == withoutU(ours) {
		return nil // our server ends the connections of a user that is switched off
	}
	if s.pair.reset && asksForClients.MatchString(line) && evictable.ReplaceAllString(theirs, "$1") == evictable.ReplaceAllString(ours, "$1") {
		return nil // since Redis 7.2, RESET clears NO-EVICT
	}
	if s.pair.late {
		if sameButForTimes(line, atMost(full, words, theirs), ours) || sameButForTimes(line, atMost(time.Until(latest), words, theirs), ours) {
			return nil
		}
		if judgesDeadline.MatchString(line) && len(theirs) == len(":1\r\n") && len(ours) == len(":1\r\n") {
			return errExcused // our server ignores a deadline after the time at which the bucket is full, also in GT and LT
		}
	}
	if s.pair.lacks(ours) {
		return errExcused
	}
	for _, d := range deliberate {
		switch {
		case !d.allows(line, theirs, ours):
		case strings.HasPrefix(theirs, "-") && strings.HasPrefix(ours, "-"): // both have refused
			return nil
		default:
			return errExcused
		}
	}
	return fmt.Errorf("answers to %s\n  Redis %q\n  ours  %q", line, theirs, ours)
}

// end sends QUIT and compares everything that comes back.
func (s *side) end() error {
	if err := s.flush(0); err != nil || s.closed {
		return err
	}
	return s.last("*1\r\n$5\r\nRESET\r\n*1\r\n$4\r\nQUIT\r\n")
}

// last sends bytes, closes the sending side, and compares everything until the servers close theirs.
func (s *side) last(text string) error {
	s.patience()
	ask := func(c net.Conn, r *bufio.Reader) (string, error) {
		if _, err := io.WriteString(c, text); err != nil && !errors.Is(err, syscall.EPIPE) {
			return "", err
		}
		_ = c.(*net.UnixConn).CloseWrite() // the server may have closed it
		reply, err := io.ReadAll(r)
		if errors.Is(err, syscall.ECONNRESET) { // closed while there was more to read
			err = nil
		}
		return string(reply), err
	}
	theirs, err1 := ask(s.redis, s.fromRedis)
	ours, err2 := ask(s.ours, s.fromOurs)
	theirs, ours = mannersOf72(theirs), mannersOf72(ours)
	if s.monitors {
		theirs, ours = monitored.ReplaceAllString(theirs, "+$1 "), monitored.ReplaceAllString(ours, "+$1 ")
		theirs, ours = shownOtherwise.ReplaceAllString(theirs, ""), shownOtherwise.ReplaceAllString(ours, "")
	}
	s.close()
	if err := errors.Join(err1, err2); err != nil {
		return fmt.Errorf("answers to %.300q: %w", text, err)
	}
	if theirs == ours {
		return nil
	}
	if more, ok := strings.CutPrefix(ours, theirs); ok && s.monitors && onlyShown.MatchString(more) && strings.Count(more, "\n") <= s.pair.lost {
		return nil // Redis drops the pending replies of a killed client; our server may have sent them
	}
	if n, stricter := strictly(text); stricter {
		// From here on the servers read the bytes differently.
		theirs, ours = firstReplies(theirs, n), firstReplies(ours, n)
	}
	if s.pair.lacks(firstDifference(theirs, ours)) {
		return errExcused
	}
	if ours == "" && theirs != "" {
		return s.onlyOursClosed(fmt.Sprintf("%.300q", text), theirs, ours)
	}
	if theirs != ours && !sameButForTimes("", theirs, ours) {
		return fmt.Errorf("answers to %.300q\n  Redis %q\n  ours  %q", text, theirs, ours)
	}
	return nil
}

// firstReplies returns the first n replies, or all if there are fewer.
func firstReplies(text string, n int) string {
	r := bufio.NewReader(strings.NewReader(text))
	first := ""
	for range n {
		reply, err := fuzz.ReadReply(r)
		if err != nil {
			break
		}
		first += reply
	}
	return first
}

// firstDifference returns the first reply of ours that differs from that of Redis.
func firstDifference(theirs, ours string) string {
	r, o := bufio.NewReader(strings.NewReader(theirs)), bufio.NewReader(strings.NewReader(ours))
	for {
		a, err1 := fuzz.ReadReply(r)
		b, err2 := fuzz.ReadReply(o)
		if a != b || err1 != nil || err2 != nil {
			return b
		}
	}
}

// strictly parses frames as both servers do, up to the point where ours is deliberately stricter. It returns the number of
// commands before that point, and whether there is one.
func strictly(text string) (commands int, stricter bool) {
	line := func() (string, bool) {
		at := strings.IndexByte(text, '\n')
		if at < 0 {
			// Redis reports an error in a line only after the end of the line.
			stricter = text != ""
			return "", false
		}
		l := text[:at]
		text = text[at+1:]
		return l, true
	}
	for text != "" {
		inline := text[0] != '*'
		l, ok := line()
		if !ok {
			return commands, stricter
		}
		if strings.ContainsRune(l, 0) {
			return commands, true
		}
		if inline {
			if words, ok := frame.SplitArgs(strings.TrimSuffix(l, "\r")); ok && len(words) > 0 {
				commands++
			}
			continue
		}
		if !strings.HasSuffix(l, "\r") || strings.Count(l, "\r") > 1 {
			return commands, true
		}
		n, err := strconv.ParseInt(l[1:len(l)-1], 10, 64)
		if err != nil {
			return commands, n > 1<<20
		}
		if n > 1<<20 {
			return commands, true
		}
		for range n {
			if text != "" && text[0] != '$' {
				return commands, true // ours reports it before the end of the line
			}
			l, ok := line()
			if !ok {
				return commands, stricter
			}
			if !strings.HasSuffix(l, "\r") || strings.Count(l, "\r") > 1 || strings.ContainsRune(l, 0) {
				return commands, true
			}
			size, err := strconv.ParseInt(l[1:len(l)-1], 10, 64)
			if err != nil || size < 0 || size > 512<<20 {
				return commands, false
			}
			if size > 1<<20 {
				return commands, true
			}
			if int64(len(text)) < size+2 {
				return commands, int64(len(text)) > size && text[size] != '\r'
			}
			if text[size:size+2] != "\r\n" {
				return commands, true
			}
			text = text[size+2:]
		}
		if n > 0 {
			commands++
		}
	}
	return commands, false
}

// makes is a script for Redis that does what CL.WINDOW key limit period does. The value is the used quantity and the expiry.
const makes = `local v = redis.call('GET', KEYS[1])
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
local used, full = 0, string.format('%.0f', now + ARGV[2] * 1000)
if v then used, full = string.match(v, '(%d+):(%d+)') end
if not full then return redis.error_reply('WRONGTYPE Operation against a key holding the wrong kind of value') end
local limit, wait = tonumber(ARGV[1]), math.ceil((full - now) / 1000)
if used + 1 > limit then return {1, limit, math.max(0, limit - used), limit < 1 and -1 or wait, wait} end
redis.call('SET', KEYS[1], (used + 1) .. ':' .. full, 'PXAT', full)
return {0, limit, limit - used - 1, -1, wait}`

// persists is a script for PERSIST of such a key, or of a counter.
const persists = `local v = redis.call('GET', KEYS[1])
if not v then return 0 end
if not string.find(v, ':') then return redis.call('PERSIST', KEYS[1]) end
local full = string.match(v, ':(%d+)')
if redis.call('PEXPIRETIME', KEYS[1]) >= tonumber(full) then return 0 end
return redis.call('PEXPIREAT', KEYS[1], full)`

// inRedis returns the command for Redis that replaces words.
func inRedis(words []string) []string {
	switch name := strings.ToUpper(words[0]); {
	case name == "CL.WINDOW" && len(words) == 4:
		return append([]string{"EVAL", makes, "1"}, words[1:]...)
	case name == "PERSIST" && len(words) == 2:
		return []string{"EVAL", persists, "1", words[1]}
	}
	return words
}

// inShape are commands of which only the type of the reply is compared, because the value is specific to the server or
// random.
var inShape = regexp.MustCompile(`(?i)\A(HELLO|INFO|TIME|LASTSAVE|RANDOMKEY|SCAN|LOLWUT|MEMORY (USAGE|STATS|DOCTOR|MALLOC-STATS)|CLIENT ID|` +
	`OBJECT REFCOUNT|COMMAND( (COUNT|DOCS|INFO|LIST)|\z)|CONFIG GET|SLOWLOG (GET|LEN)|CLIENT KILL USER|MODULE LIST|ACL (GENPASS|CAT|GETUSER|LIST|LOG)|.* HELP)\b`)

// alikeInKind removes values that differ between any two servers.
func alikeInKind(words []string, theirs, ours string) (string, string) {
	theirs, ours = mannersOf72(theirs), mannersOf72(ours)
	line := strings.ToUpper(strings.Join(words, " "))
	for here, there := range map[string]string{"$6\r\nembstr\r\n": "$7\r\ncounter\r\n", "$3\r\nraw\r\n": "$7\r\ncounter\r\n"} {
		if strings.HasPrefix(line, "TYPE") || strings.HasPrefix(line, "OBJECT") {
			theirs = strings.ReplaceAll(theirs, here, there)
		}
	}
	if strings.HasPrefix(line, "TYPE") {
		ours = strings.ReplaceAll(ours, "+window\r\n", "+string\r\n")
	}
	switch {
	case strings.HasPrefix(line, "CLIENT LIST") || strings.HasPrefix(line, "CLIENT INFO"):
		return clients(theirs), clients(ours)
	case line == "INFO KEYSPACE" && theirs[0] == ours[0] && ours[0] != '-':
		return strings.Join(keysOfDatabase.FindAllString(theirs, -1), " "), strings.Join(keysOfDatabase.FindAllString(ours, -1), " ")
	case inShape.MatchString(line) && theirs[0] == ours[0] && ours[0] != '-':
		return "", ""
	case strings.HasPrefix(line, "KEYS"):
		return string(inOrder([]byte(theirs))), string(inOrder([]byte(ours)))
	}
	if sameButForTimes(line, theirs, ours) {
		return "", ""
	}
	return theirs, ours
}

// keysOfDatabase matches a line of INFO keyspace but for the mean time to live.
var keysOfDatabase = regexp.MustCompile(`db\d+:keys=\d+,expires=\d+`)

var someNumber = regexp.MustCompile(`(?m)^:\d{3,}\r$`)

// inMilliseconds are commands whose replies are times in milliseconds.
var inMilliseconds = regexp.MustCompile(`(?i)\AP(TTL|EXPIRETIME)\b`)

// sameButForTimes reports whether two replies differ only in times, because time passes between the two: by at most a minute,
// and by less than a tenth.
func sameButForTimes(line, theirs, ours string) bool {
	most := big.NewInt(60)
	if inMilliseconds.MatchString(line) {
		most.SetInt64(60000)
	}
	a, b := someNumber.FindAllString(theirs, -1), someNumber.FindAllString(ours, -1)
	if len(a) != len(b) || someNumber.ReplaceAllString(theirs, ":") != someNumber.ReplaceAllString(ours, ":") {
		return false
	}
	for i := range a {
		x, _ := new(big.Int).SetString(strings.Trim(a[i], ":\r"), 10)
		y, _ := new(big.Int).SetString(strings.Trim(b[i], ":\r"), 10)
		gap := new(big.Int).Sub(x, y)
		gap.Abs(gap)
		if x.Cmp(big.NewInt(900)) < 0 || gap.Cmp(most) > 0 || gap.Mul(gap, big.NewInt(10)).Cmp(x) > 0 {
			return false
		}
	}
	return true
}

// withoutU removes the connections of the user u from clients.
func withoutU(clients string) string {
	lines := strings.Split(clients, "\n")
	return strings.Join(slices.DeleteFunc(lines, func(l string) bool { return l == "" || strings.Contains(l, " user=u ") }), "\n")
}

var judgesDeadline = regexp.MustCompile(`(?i)\AP?EXPIRE(AT)? .* (GT|LT)\z`)

// full is how long it takes until our server removes the key of a bucket, which was created just now.
const full = 1000000 * time.Second

// latest is the latest time at which a key of our server expires.
var latest = time.Unix(0, math.MaxInt64)

// atMost limits a reply of Redis to TTL and similar commands to a time from now.
func atMost(full time.Duration, words []string, reply string) string {
	n, err := strconv.ParseInt(strings.Trim(reply, ":\r\n"), 10, 64)
	if err != nil || len(words) != 2 {
		return reply
	}
	switch name := strings.ToUpper(words[0]); name {
	case "TTL":
		n = min(n, int64(full/time.Second))
	case "PTTL":
		n = min(n, full.Milliseconds())
	case "EXPIRETIME":
		n = min(n, time.Now().Add(full).Unix())
	case "PEXPIRETIME":
		n = min(n, time.Now().Add(full).UnixMilli())
	}
	return fmt.Sprintf(":%d\r\n", n)
}

// askedOtherwise matches the last command of a connection, which may be a script in Redis: see inRedis.
var askedOtherwise = regexp.MustCompile(` cmd=(cl\.window|persist)\b`)

var clientField = regexp.MustCompile(` (name|db|multi|user|resp|flags|cmd)=(\S*)`)

var (
	noCommandIn70 = regexp.MustCompile(`NOPERM this user has no permissions to run the `)
	noCommandIn72 = regexp.MustCompile(`NOPERM User \S+ has no permissions to run the `)
	noKeyIn70     = regexp.MustCompile(`NOPERM this user has no permissions to access one of the keys used as arguments`)
)

// mannersOf72 rewrites denials in the words of Redis 7.2, without the name of the user, which Redis 7.0 omits.
func mannersOf72(reply string) string {
	reply = noCommandIn70.ReplaceAllString(reply, "NOPERM User has no permissions to run the ")
	reply = noCommandIn72.ReplaceAllString(reply, "NOPERM User has no permissions to run the ")
	return noKeyIn70.ReplaceAllString(reply, "NOPERM No permissions to access a key")
}

// monitored matches the beginning of a line of MONITOR: the time, the database and the client.
var monitored = regexp.MustCompile(`(?m)^\+\d+\.\d+ \[(\d+) [^\]]*\] `)

// shownOtherwise matches lines of MONITOR about commands that may contain a password, of which our server redacts more words,
// and about COMMAND GETKEYS, which takes fewer words since Redis 7.2.
var shownOtherwise = regexp.MustCompile(`(?mi)^\+\d+ "(auth|hello|acl" "setuser|command" "getkeys)".*\n`)

// onlyShown matches the rest of a line of MONITOR after monitored.
var onlyShown = regexp.MustCompile(`\A(\+\d+ ".*"\r\n)*\z`)

// clients returns the named connections of the script with the fields that both servers show. Our server does not show Redis's
// flag d, a changed watched key, because only EXEC checks that.
func clients(reply string) string {
	if reply[0] != '$' && reply[0] != '=' {
		return reply
	}
	var all []string
	for line := range strings.Lines(reply) {
		if !strings.Contains(line, " name=") || strings.Contains(line, " name= ") {
			continue
		}
		said := strings.Replace(strings.Join(clientField.FindAllString(line, -1), " "), " flags=d", " flags=", 1)
		all = append(all, askedOtherwise.ReplaceAllString(said, " cmd=eval"))
	}
	slices.Sort(all)
	return strings.Join(all, "\n")
}

// difference is a reply that deliberately differs from that of Redis, and why.
type difference struct {
	why               string
	line, redis, ours string // regular expressions
}

func (d *difference) allows(line, theirs, ours string) bool {
	return matchesWhole(d.line, line) && matchesWhole(d.redis, theirs) && matchesWhole(d.ours, ours)
}

func matchesWhole(expression, text string) bool {
	return regexp.MustCompile(`(?is)\A(?:` + expression + `)\z`).MatchString(text)
}

const (
	anyError = `-.*`
	anything = `.*`
)

// deliberate lists the differences. Unless both replies are errors, a script ends at a difference, because the two servers may
// have different states afterwards.
var deliberate = []difference{
	{"in a transaction CONFIG GET runs last, and so behind a HELLO that follows it",
		`CONFIG GET .*`, `[*%].*`, `[*%].*`},
	{"a key of CL.WINDOW is a string in Redis",
		`(GET|GETDEL|GETEX|GETSET|SET|SETEX|PSETEX|STRLEN|MSET|INCR|INCRBY|DECR|DECRBY)\b.*`, anything, `-WRONGTYPE .*`},
	{"the manners are those of other commands: a wrong number of words is told before SLOWLOG looks at them",
		`SLOWLOG GET .*`, anyError, `-ERR wrong number of arguments .*`},
	{"a key of CL.WINDOW is a string in Redis",
		`MGET .*`, `\*.*:.*`, `\*.*`},
	{"a counter is an integer",
		`(SET|SETEX|PSETEX|SETNX|GETSET|MSET) .*`, anything, `-ERR value is not an integer or out of range \(cellserver .*`},
	{"a value is looked at before the key is",
		`(SET|SETEX|PSETEX|SETNX|GETSET|MSET) .*`, anything, `-ERR value is not an integer or out of range \(cellserver .*`},
	{"a word is all of its bytes: Redis reads and prints many of them up to a NUL",
		`.*\\x00.*`, anyError, anyError},
	{"Go's allocator has no report, of which a Redis without jemalloc says the same",
		`MEMORY MALLOC-STATS`, `=.*`, `\$45\r\nStats not supported.*`},
	{"a cursor is digits; in Redis it is whatever C's strtoul takes",
		`SCAN .*`, anything, `-ERR invalid cursor\r\n`},
	{"stars match nothing, too, however many: an empty key, for one",
		`(KEYS|SCAN) .*\*.*`, `\*.*`, `\*.*\$0.*`},
	{"stars match an empty key when rights are judged, too",
		`.*"".*`, `-NOPERM No permissions to access a key\r\n`, anything},
	{"stars match an empty key when rights are judged, too",
		`ACL DRYRUN .*"".*`, anything, `\+OK\r\n`},
	{"selectors are not supported",
		`ACL SETUSER .*\(.*`, anything, `-ERR Error in ACL SETUSER modifier '\(.*': Selectors are not supported\r\n`},
	{"selectors are not supported, nor looked for before the other rules are",
		`ACL SETUSER .*\(.*`, `-ERR Unmatched parenthesis .*`, anyError},
	{"the manners are those of 7.2: ACL DRYRUN names the user",
		`ACL DRYRUN .*`, `\$\d+\r\nThis user has no permissions to .*`, `\$\d+\r\nUser \S* has no permissions to .*`},
	{"rights are judged before DEBUG is looked at",
		`DEBUG.*`, `-ERR DEBUG command not allowed.*`, `-NOPERM .*`},
	{"a command of Redis that is not here has no keys to ask for",
		`COMMAND GETKEYS.*`, anyError, `-ERR Invalid command specified\r\n`},
	{"a slot is known without a cluster",
		`CLUSTER KEYSLOT .*`, `-ERR This instance has cluster support disabled\r\n`, `:\d+\r\n`},
	{"tracking is only accepted in the form that keeps its word",
		`CLIENT TRACKING .*`, `\+OK\r\n|-ERR (PREFIX|Prefix|OPTIN|You can't) .*`, `-ERR (cellserver accepts only )?CLIENT TRACKING .*`},
	{"the manners are those of 7.2, where COMMAND GETKEYS looks at the command before it counts",
		`COMMAND GETKEYS .*`, `-ERR wrong number of arguments for 'command\|getkeys' command\r\n`, `-.*|\+QUEUED\r\n`},
}
