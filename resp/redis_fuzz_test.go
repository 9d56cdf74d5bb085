package resp_test

// Conversations drawn at random, with this server and with a real Redis at once: commands that both have, whole and broken,
// over several connections, in RESP2 and RESP3, in pieces of any length. Every byte that comes back must be the same, but
// for what deliberate lists and what no two servers could say alike.

import (
	"bufio"
	"errors"
	"fmt"
	"io"
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
//	0 EXPIRE k 10        what connection 0 asks, of three; the words are quoted as in an inline command
//	0+ EXPIRE k 10       ... without waiting for the answer before the next line of this connection
//	0| 3 EXPIRE k 10     ... in pieces of 3 bytes
//	0! "*1\r\n$4\r\n"    bytes, quoted as a word, upon which our side of the connection is closed
//
// CL.WINDOW makes a key. A Redis is asked for a script that does the same. So it is for PERSIST, which brings back the expiry
// that the key was made with, as a key that never expires is none of ours.
func TestFuzzBesideRedis(t *testing.T) {
	p := newPair(t)
	fuzz.Run(t, fuzz.Target{Draw: drawConversation, Play: p.play, Fixed: 150, Fresh: 2 * time.Second})
}

// pairOfServers is a Redis and a server of ours.
type pairOfServers struct {
	redis, ours string          // sockets
	missing     map[string]bool // commands that only Redis has, in lower case

	// Of the script that is played:
	switchedOff bool // a user may have been
	reset       bool // a connection may have been
	late        bool // a key may have been given a deadline that is later than full
	lost        int  // the most lines of MONITOR that a connection has not been sent because it was killed
}

func newPair(t *testing.T) *pairOfServers {
	t.Helper()
	l, err := net.Listen("unix", filepath.Join(t.TempDir(), "s"))
	require.NoError(t, err)
	newSubject(t, nil).serve(t, l)
	p := &pairOfServers{redis: testenv.Redis(t, "--databases", "1"), ours: l.Addr().String(), missing: map[string]bool{}}
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

// lacks reports whether an answer of ours says that it does not know a command that is not offered.
func (p *pairOfServers) lacks(ours string) bool {
	match := unknown.FindStringSubmatch(ours)
	return match != nil && p.missing[strings.ToLower(match[1])]
}

const sides = 3 // the connections of a script

// side is one connection to both servers.
type side struct {
	redis, ours   net.Conn
	fromRedis     *bufio.Reader
	fromOurs      *bufio.Reader
	toRedis, toUs []byte   // what waits to be sent
	lines         []string // that are in it
	queue         []string // lines since MULTI
	multi         bool
	monitors      bool
	closed        bool
	another       bool // it may speak as another user
	pair          *pairOfServers
}

// dial connects to both servers, and waits until both have accepted it: until then CLIENT KILL does not find it.
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

// errExcused ends a script: the two have come apart, and are meant to.
var errExcused = errors.New("a deliberate difference")

func (p *pairOfServers) play(script []string) error {
	first, err := p.dial()
	if err != nil {
		return err
	}
	defer first.close()
	// What the script before has left behind may differ, and those whom it left may still be listed.
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

// onlyOursClosed is returned where our server has closed a connection and Redis has not. A user that is switched off or
// deleted loses its connections, in Redis only when it is deleted.
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

// add puts a command behind what waits to be sent.
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

// flush sends what waits, in pieces if there is a length, and compares the answers.
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
		if err != nil && !errors.Is(err, syscall.EPIPE) { // who was killed is found out by reading
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

// compare compares the answers to one line, or to those of a transaction.
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
		return nil // a user that is switched off loses its connections here
	}
	if s.pair.reset && asksForClients.MatchString(line) && evictable.ReplaceAllString(theirs, "$1") == evictable.ReplaceAllString(ours, "$1") {
		return nil // RESET takes NO-EVICT back since Redis 7.2
	}
	if s.pair.late {
		if sameButForTimes(line, atMostFull(words, theirs), ours) {
			return nil
		}
		if judgesDeadline.MatchString(line) && len(theirs) == len(":1\r\n") && len(ours) == len(":1\r\n") {
			return errExcused // a deadline later than full is none, and is not what GT and LT compare with
		}
	}
	if s.pair.lacks(ours) {
		return errExcused
	}
	for _, d := range deliberate {
		switch {
		case !d.allows(line, theirs, ours):
		case strings.HasPrefix(theirs, "-") && strings.HasPrefix(ours, "-"): // both have done nothing
			return nil
		default:
			return errExcused
		}
	}
	return fmt.Errorf("answers to %s\n  Redis %q\n  ours  %q", line, theirs, ours)
}

// end says goodbye. What comes back is the same, and nothing but that.
func (s *side) end() error {
	if err := s.flush(0); err != nil || s.closed {
		return err
	}
	return s.last("*1\r\n$5\r\nRESET\r\n*1\r\n$4\r\nQUIT\r\n")
}

// last sends bytes, closes our side, and compares everything that comes back until the servers close theirs.
func (s *side) last(text string) error {
	s.patience()
	ask := func(c net.Conn, r *bufio.Reader) (string, error) {
		if _, err := io.WriteString(c, text); err != nil && !errors.Is(err, syscall.EPIPE) {
			return "", err
		}
		_ = c.(*net.UnixConn).CloseWrite() // it may have been closed by the other side
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
		theirs, ours = monitored.ReplaceAllString(theirs, "+"), monitored.ReplaceAllString(ours, "+")
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
		return nil // who is killed is not sent any more what was sent together with CLIENT KILL: ours may have been
	}
	if n, stricter := strictly(text); stricter {
		// What follows is no longer understood alike.
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

// firstReplies returns so many replies, or all of them.
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

// firstDifference returns the first reply of ours that is not that of Redis.
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

// strictly reads frames as both servers do, up to where ours is stricter on purpose. It returns how many commands stand
// before that, and whether it comes to it.
func strictly(text string) (commands int, stricter bool) {
	line := func() (string, bool) {
		at := strings.IndexByte(text, '\n')
		if at < 0 {
			// Redis waits for the end of a line before it says what is wrong with it.
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
				return commands, true // ours says so before the line has ended
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

// makes is what CL.WINDOW key limit period does, for a Redis: the value is what is used and when the key was to expire.
const makes = `local v = redis.call('GET', KEYS[1])
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
local used, full = 0, string.format('%.0f', now + ARGV[2] * 1000)
if v then used, full = string.match(v, '(%d+):(%d+)') end
local limit, wait = tonumber(ARGV[1]), math.ceil((full - now) / 1000)
if used + 1 > limit then return {1, limit, math.max(0, limit - used), limit < 1 and -1 or wait, wait} end
redis.call('SET', KEYS[1], (used + 1) .. ':' .. full, 'PXAT', full)
return {0, limit, limit - used - 1, -1, wait}`

// persists is PERSIST of such a key.
const persists = `local v = redis.call('GET', KEYS[1])
if not v then return 0 end
local full = string.match(v, ':(%d+)')
if redis.call('PEXPIRETIME', KEYS[1]) >= tonumber(full) then return 0 end
return redis.call('PEXPIREAT', KEYS[1], full)`

// inRedis is what a Redis is asked instead of words.
func inRedis(words []string) []string {
	switch name := strings.ToUpper(words[0]); {
	case name == "CL.WINDOW" && len(words) == 4:
		return append([]string{"EVAL", makes, "1"}, words[1:]...)
	case name == "PERSIST" && len(words) == 2:
		return []string{"EVAL", persists, "1", words[1]}
	}
	return words
}

// inShape are commands of which only the type of the answer is compared: what they say is each server's own, or comes from
// its own chance.
var inShape = regexp.MustCompile(`(?i)\A(HELLO|INFO|TIME|LASTSAVE|RANDOMKEY|SCAN|LOLWUT|MEMORY (USAGE|STATS|DOCTOR|MALLOC-STATS)|CLIENT ID|` +
	`COMMAND( (COUNT|DOCS|INFO|LIST)|\z)|CONFIG GET|SLOWLOG (GET|LEN)|CLIENT KILL USER|MODULE LIST|ACL (GENPASS|CAT|GETUSER|LIST|LOG)|.* HELP)\b`)

// alikeInKind takes away what no two servers can say alike.
func alikeInKind(words []string, theirs, ours string) (string, string) {
	theirs, ours = mannersOf72(theirs), mannersOf72(ours)
	line := strings.ToUpper(strings.Join(words, " "))
	for here, there := range map[string]string{"+string\r\n": "+window\r\n", "$6\r\nembstr\r\n": "$7\r\ncounter\r\n", "$3\r\nraw\r\n": "$7\r\ncounter\r\n"} {
		if strings.HasPrefix(line, "TYPE") || strings.HasPrefix(line, "OBJECT") {
			theirs = strings.ReplaceAll(theirs, here, there)
		}
	}
	switch {
	case strings.HasPrefix(line, "CLIENT LIST") || strings.HasPrefix(line, "CLIENT INFO"):
		return clients(theirs), clients(ours)
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

var someNumber = regexp.MustCompile(`(?m)^:\d{3,}\r$`)

// inMilliseconds are commands that answer times in milliseconds.
var inMilliseconds = regexp.MustCompile(`(?i)\AP(TTL|EXPIRETIME)\b`)

// sameButForTimes reports whether two answers to a line differ only in numbers that tell times, which pass between the two:
// by a minute at most, and less than a tenth.
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

// withoutU leaves the connections of user u out of what clients shows.
func withoutU(clients string) string {
	lines := strings.Split(clients, "\n")
	return strings.Join(slices.DeleteFunc(lines, func(l string) bool { return l == "" || strings.Contains(l, " user=u ") }), "\n")
}

var judgesDeadline = regexp.MustCompile(`(?i)\AP?EXPIRE(AT)? .* (GT|LT)\z`)

// atMostFull is an answer to TTL and its kin, of a Redis, without a deadline that is later than that at which a bucket is
// full, which ours has forgotten by then. All buckets are full 1000000 seconds after they were made, which was just now.
func atMostFull(words []string, reply string) string {
	n, err := strconv.ParseInt(strings.Trim(reply, ":\r\n"), 10, 64)
	if err != nil || len(words) != 2 {
		return reply
	}
	full := time.Duration(1000000) * time.Second
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

// askedOtherwise is the last command of a connection where a Redis may have been asked for a script: see inRedis.
var askedOtherwise = regexp.MustCompile(` cmd=(cl\.window|persist)\b`)

var clientField = regexp.MustCompile(` (name|db|multi|user|resp|flags|cmd)=(\S*)`)

var (
	noCommandIn70 = regexp.MustCompile(`NOPERM this user has no permissions to run the `)
	noCommandIn72 = regexp.MustCompile(`NOPERM User \S+ has no permissions to run the `)
	noKeyIn70     = regexp.MustCompile(`NOPERM this user has no permissions to access one of the keys used as arguments`)
)

// mannersOf72 says denials as Redis 7.2 does, but for the name of the user, which 7.0 does not tell.
func mannersOf72(reply string) string {
	reply = noCommandIn70.ReplaceAllString(reply, "NOPERM User has no permissions to run the ")
	reply = noCommandIn72.ReplaceAllString(reply, "NOPERM User has no permissions to run the ")
	return noKeyIn70.ReplaceAllString(reply, "NOPERM No permissions to access a key")
}

// monitored is how MONITOR begins a line: when, and who.
var monitored = regexp.MustCompile(`(?m)^\+\d+\.\d+ \[0 [^\]]*\] `)

// shownOtherwise is what MONITOR shows of commands that may carry a password, as ours hides more of their words, and of
// COMMAND GETKEYS, which takes fewer words since Redis 7.2.
var shownOtherwise = regexp.MustCompile(`(?mi)^\+"(auth|hello|acl" "setuser|command" "getkeys)".*\n`)

// onlyShown is what MONITOR shows, and nothing else, after monitored.
var onlyShown = regexp.MustCompile(`\A(\+".*"\r\n)*\z`)

// clients are the connections of the script that have a name, with what both servers say of them. That a watched key has
// been changed, Redis's flag d, is not shown here: EXEC looks, and nobody does before.
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

// difference is an answer that is not Redis's, and why it is not.
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

// deliberate lists them. A script ends at one that is not an error for both: the two servers may hold different things from
// then on.
var deliberate = []difference{
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
