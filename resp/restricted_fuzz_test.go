package resp_test

import (
	"bytes"
	"log/slog"
	"math/rand/v2"
	"regexp"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"cellserver/cmd/cellserver/options"
	"cellserver/resp"
)

// script makes choices from the bytes of a fuzzer. Without bytes left, it makes the first choice.
type script []byte

func (s *script) choose(n int) int {
	if len(*s) < 2 || n == 0 {
		return 0
	}
	b := *s
	*s = b[2:]
	return (int(b[0])<<8 | int(b[1])) % n
}

func pick[T any](s *script, from []T) T { return from[s.choose(len(from))] }

var (
	allRows        = resp.Rows()
	literal        = regexp.MustCompile(`[A-Z][A-Z-]+`)
	someLengths    = []int{0, 1, 2, 15, 16, 31, 32, 33, 40, 63, 64, 65, 66, 127, 128, 129, 130, 300, 4096, 4097, 20000}
	someBeginnings = []string{"", "rl:", "rw:", "r:", "x", "\x00\r\n", "rl:*"}
	someNumbers    = []string{"0", "1", "-1", "2", "3", "5", "60", "+1", "01", "0.25", "100", "1000000", "9223372036854775807",
		"-9223372036854775808", "9223372036854775808", "4611686018", "4611686019", "1e3", "nan", "", "0x1"}
	someValues = []string{"0", "1", "2", "16", "32", "63", "64", "65", "100", "1024", "1mb", "100%", "1gb", "yes", "no", "-1", "",
		"4096", "9223372036854775807", "normal 0 0 0", "normal 1kb 1 1", "everysec", "always", "noeviction", "300 1", "debug"}
	someRules = []string{"+@all", "-@all", "~*", "~rl:*", "%R~r:*", "%W~rw:*", "%RW~x*", "resetkeys", "allkeys", "+@throttle", "-@admin",
		"-@dangerous", "+config", "-refund", "+@read", "-@write", "+@connection", "+client|list", "-client|kill", "nopass", "on", "off",
		"+acl", "+exec", "-exec", "+multi", "&*", "reset", "-cl.throttle", "+cl.all"}
)

// word draws an argument: a key, a number, a keyword, or a text that looks like a key.
func (s *script) word(row resp.Row) string {
	switch s.choose(5) {
	case 0, 1:
		key := pick(s, someBeginnings)
		return key + strings.Repeat("k", max(0, pick(s, someLengths)-len(key)))
	case 2:
		return pick(s, someNumbers)
	case 3:
		if known := literal.FindAllString(row.Syntax, -1); len(known) > 0 {
			return pick(s, known)
		}
	}
	return pick(s, []string{"THROTTLE", "WINDOW", "ZSLIDE", "PEEK", "MS", "*", "[", "u", "default", "0", "u"})
}

// command draws a row of the table, with a valid or an invalid number of words.
func (s *script) command() []string {
	row := pick(s, allRows)
	words := append([]string(nil), row.Words...)
	n := row.Arity
	if n < 0 {
		n = -n + s.choose(9)
	}
	if s.choose(8) == 0 {
		n += s.choose(5) - 2
	}
	switch name := row.Name; {
	case name == "cl.all" && s.choose(2) == 0: // random words are seldom valid for it
		for range 1 + s.choose(4) {
			words = append(words, pick(s, []string{"THROTTLE", "WINDOW", "ZSLIDE"}), s.word(row), "1", "5", "60")
		}
		return words
	case row.Group == "limit" && s.choose(2) == 0:
		return append(words, s.word(row), "1", "5", "60", pick(s, someNumbers))[:max(2, min(n, len(words)+5))]
	case row.Group == "string" && s.choose(2) == 0: // a counter, and numbers and options behind it
		for words = append(words, s.word(row)); len(words) < n; {
			if known := literal.FindAllString(row.Syntax, -1); len(known) > 1 && s.choose(3) == 0 {
				words = append(words, pick(s, known[1:]))
			} else {
				words = append(words, pick(s, someNumbers))
			}
		}
		return words
	case name == "command|docs" || name == "command": // their replies without arguments are large
		return append(words, "get")
	}
	for len(words) < n {
		words = append(words, s.word(row))
	}
	return words
}

// For any commands of a restricted user, under any options, neither the handlers nor the checks before them panic.
func FuzzRestrictedUser(f *testing.F) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 12 {
		seed := make([]byte, 8000)
		for i := range seed {
			seed[i] = byte(r.Uint32())
		}
		f.Add(seed)
	}
	var mutable []string
	for _, o := range options.Table {
		if o.Mutable {
			mutable = append(mutable, o.Name)
		}
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		var clock atomic.Int64 // a snapshot in the background reads it too
		clock.Store(int64(1_700_000_123) * 1e9)
		s, log := script(in), new(logged)
		srv := newLogged(4, clock.Load, slog.NewTextHandler(log, nil))
		operator, user := resp.NewTestConn(srv, clock.Load()), resp.NewTestConn(srv, clock.Load())
		ask := func(c *resp.TestConn, words ...string) {
			out := c.Feed(clock.Add(int64(s.choose(3))*1e8), multibulk(words...))
			if c.Closed() || bytes.Contains(out, []byte("internal error")) {
				require.NotContains(t, log.String(), "panic", "%.200q", words)
			}
			for len(out) > 0 {
				var err error
				_, out, err = readValue(out)
				require.NoError(t, err, "%.200q", words)
			}
		}
		setUser := func() {
			ask(operator, "ACL", "SETUSER", "u", "on", "nopass", "+auth", pick(&s, someRules), pick(&s, someRules), pick(&s, someRules))
		}
		ask(operator, "ACL", "SETUSER", "u", "on", "nopass", "~rl:*", "+@all")
		ask(user, "AUTH", "u", "x")
		for step := 0; len(s) >= 2 && step < 2000; step++ {
			switch choice := s.choose(16); {
			case operator.Closed() || user.Closed():
				operator, user = resp.NewTestConn(srv, clock.Load()), resp.NewTestConn(srv, clock.Load())
				ask(operator, "ACL", "SETUSER", "u", "on", "nopass", "resetkeys", "~rl:*", "+@all")
				ask(user, "AUTH", "u", "x")
			case choice == 0:
				setUser()
			case choice == 1:
				ask(operator, "CONFIG", "SET", pick(&s, mutable), pick(&s, someValues))
			case choice == 2:
				ask(operator, "CONFIG", "SET", "max-key-bytes", strconv.Itoa(1+s.choose(200)))
			case choice == 3:
				ask(operator, "ACL", "SETUSER", "u", "on", "nopass", "resetkeys", "~rl:*", "+@all")
			default:
				ask(user, s.command()...)
			}
		}
		require.NotContains(t, log.String(), "panic")
	})
}
