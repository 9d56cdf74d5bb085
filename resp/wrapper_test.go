package resp_test

// Wrappers, scripts that are one call of a command, are recognised by their form and answered as a real Redis answers the same
// script.

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"cellserver/internal/testing/testenv"
	"cellserver/resp"
	known "cellserver/resp/script"
)

// wrappersCall are the commands that wrappers of the comparison call: both servers have them, and answer alike.
var wrappersCall = map[string]bool{"get": true, "set": true, "incr": true, "incrby": true, "decr": true, "decrby": true, "ping": true, "ttl": true,
	"pttl": true, "echo": true, "type": true, "exists": true, "del": true, "mget": true, "mset": true, "strlen": true, "getset": true,
	"getdel": true, "setnx": true, "setex": true, "expire": true, "persist": true, "unlink": true, "touch": true, "rename": true, "config": true,
	"multi": true, "dbsize": true, "keys": true}

// assigns are those of them whose value may be a text in Redis.
var assigns = map[string]bool{"set": true, "setnx": true, "setex": true, "getset": true, "mset": true}

// pipe is a connection to a real Redis on which conversations follow each other.
type pipe struct {
	conn net.Conn
	in   *bufio.Reader
	ours func(conversation string) string // asks a server of ours
}

func newPipe(t testing.TB) *pipe {
	conn, err := net.Dial("unix", testenv.Redis(t))
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, conn.Close()) })
	now := int64(1_700_000_123) * 1e9
	c := resp.NewTestConn(newQuiet(8, &now), now)
	return &pipe{conn, bufio.NewReader(conn), func(conversation string) string { return string(c.Feed(now, []byte(conversation))) }}
}

// end is how a conversation ends that is not known to have a certain number of replies.
const end = "*2\r\n$4\r\nECHO\r\n$12\r\nthat was all\r\n"

// ask sends a conversation, and returns the replies.
func (p *pipe) ask(t require.TestingT, conversation string) string {
	require.NoError(t, p.conn.SetDeadline(time.Now().Add(patience)))
	_, err := io.WriteString(p.conn, conversation+end)
	require.NoError(t, err)
	var got strings.Builder
	for !strings.HasSuffix(got.String(), "$12\r\nthat was all\r\n") {
		b, err := p.in.ReadByte()
		require.NoError(t, err)
		got.WriteByte(b)
	}
	return strings.TrimSuffix(got.String(), "$12\r\nthat was all\r\n")
}

// around is a conversation in which a script runs twice, as text and by its SHA-1, between looks at the keys.
func around(text string) string {
	var b []byte
	for _, words := range [][]string{{"FLUSHALL"}, {"SCRIPT", "FLUSH"}, {"SET", "k", "5"}, {"SET", "l", "-7", "EX", "1000"},
		{"EVAL", text, "2", "k", "l", "3", "some text", "k"}, {"GET", "k"}, {"GET", "l"}, {"EXISTS", "k", "l", "m", "3", "some text"},
		{"EVAL_RO", text, "0", "3"}, {"GET", "k"}} {
		b = append(b, multibulk(words...)...)
	}
	return string(b)
}

var quotedOption = regexp.MustCompile(`(?m)^(-ERR Unsupported option) ?.*?( script: [0-9a-f]{40}, on @user_script:1\.)?\r$`)

// withoutQuoted leaves out what EXPIRE quotes in its error: Redis quotes up to a NUL and trims line ends off, and here a word is all of
// its bytes.
func withoutQuoted(replies string) string { return quotedOption.ReplaceAllString(replies, "$1$2\r") }

// wrapperDiffers returns how a wrapper is answered otherwise than by Redis, or "". Its script may be one that is no wrapper.
func wrapperDiffers(t require.TestingT, p *pipe, text string) (difference string) {
	w, ok := known.ParseWrapper([]byte(text))
	ours := p.ours(around(text))
	if !ok {
		if !strings.Contains(ours, "-ERR unknown script ") {
			return fmt.Sprintf("%q is no wrapper: %q", text, ours)
		}
		return ""
	}
	if !wrappersCall[strings.ToLower(string(w.Command))] {
		return ""
	}
	theirs := p.ask(t, around(text))
	ours, theirs = withoutQuoted(ours), withoutQuoted(theirs)
	if ours == theirs || strings.Contains(ours, "keeps counters and limits, not data") || assigns[strings.ToLower(string(w.Command))] {
		return "" // Redis keeps texts, too
	}
	return fmt.Sprintf("%q:\n ours   %q\n theirs %q", text, ours, theirs)
}

var wrapperSeeds = []string{
	`return redis.call('get', KEYS[1])`, `return redis.call("SET",KEYS[1],ARGV[1])`, "return redis.pcall ( 'incr' , KEYS [ 1 ] ) ;",
	"\nreturn\n redis\n.call\t('incrby', KEYS[2], 0x10)\n", `return {redis.call('ttl', 'l')}`, `return redis.call('mget', KEYS[1], KEYS[2], 'x')[2]`,
	`return {redis.pcall('get')}`, `return redis.call('echo', '\65\'\"\\\n\x')`, `return redis.call('type', KEYS[1])[1]`, `return redis.call('ttl','l')[1]`,
	`return redis.call('get', 'k')[1]`, `return redis.call('get', 'none')[1]`, `return redis.call('incrby', 'k', 1.5)`, `return redis.call('echo', -3)`,
	`return redis.call('echo', 1e17) -- a comment`, "-- first\nreturn redis.call('ping') --[[no]]", `return redis.call('ping');;`, `return redis.call 'ping'`,
	`return redis.call('config', 'get', 'port')`, `return redis.call('multi')`, `return redis.call('set', KEYS[3], 1)`, `return redis.pcall('set', ARGV[9], 1)`,
	`return redis.call('incr', 'k', 'l')`, `return redis.call('keys', '*')[0]`, `return redis.call('echo', .5)`, `return redis.call('echo', 5.)`,
	`return redis.call('echo', 3x)`, `return redis.call('echo', "a` + "\\\n" + `b")`, "return redis.call('echo', 'a\x00b')", `return redis.call('echo', -0)`,
	`return redis.call('incrby', 'k', 9007199254740993)`, `return redis.call('set', 'k', '9223372036854775807')`, `return redis['call']('ping')`,
	"return redis.call\n('ping')", `return redis.call('echo', [[x]])`, `return (redis.call('ping'))`, `return redis.call('echo', '\300')`, `return {redis.call('ttl','l')[1]}`,
	"return redis.call('ttl','l')\r\n[1\n\r]\r", "return redis.call('get', KEYS[01])", "return redis.call('get', KEYS[0])", `#!lua
return redis.call('ping')`, "return redis.call('mget', 'k', 'x', 'l')[2]",
	`return redis.pcall('expire', 'k', '5', '\n')`, `return redis.call('expire', 'k', '5', 'a \r')`,
}

// FuzzWrapper holds what is recognised as a wrapper to what Redis answers to the same script.
func FuzzWrapper(f *testing.F) {
	for _, text := range wrapperSeeds {
		f.Add(text)
	}
	p := newPipe(f)
	f.Fuzz(func(t *testing.T, text string) {
		if difference := wrapperDiffers(t, p, text); difference != "" {
			t.Error(difference)
		}
	})
}

var (
	numerals = rapid.OneOf(rapid.StringMatching(`-?[0-9]{1,4}`), rapid.StringMatching(`-?[0-9]{0,2}\.[0-9]{0,3}(e[+-]?[0-9]{1,2})?`),
		rapid.SampledFrom([]string{"0x1F", "1e3", "1e17", "0xg", "- 4"}))
	literals = rapid.StringMatching(`([a-z0-9 %;,()\[\]{}-]|\\[abfnrtvqx\\"']|\\[0-9]{1,3}|\\\n){0,6}`)
)

// drawWrapper draws a wrapper in some spelling, or something close to one.
func drawWrapper(t *rapid.T) string {
	space := rapid.SampledFrom([]string{"", "", "", " ", "\n", "\t ", "\r\n", " --x\n"})
	quote := func(s string) string {
		q := rapid.SampledFrom([]string{`"`, `'`}).Draw(t, "quote")
		return q + s + q
	}
	commands := []string{"get", "SET", "incr", "incrBy", "PING", "ttl", "echo", "type", "exists", "mget", "del", "setnx", "expire", "nosuch", "config"}
	var b strings.Builder
	put := func(word string) { b.WriteString(space.Draw(t, "space") + word) }
	put("return ")
	braced := rapid.IntRange(0, 4).Draw(t, "braces") == 0
	if braced {
		put("{")
	}
	put("redis")
	put(".")
	put(rapid.SampledFrom([]string{"call", "call", "pcall"}).Draw(t, "call"))
	b.WriteString(rapid.SampledFrom([]string{"", " "}).Draw(t, "space") + "(")
	put(quote(rapid.SampledFrom(commands).Draw(t, "command")))
	for range rapid.IntRange(0, 4).Draw(t, "arguments") {
		put(",")
		switch rapid.IntRange(0, 5).Draw(t, "argument") {
		case 0, 1:
			put("KEYS")
			put("[")
			put(rapid.SampledFrom([]string{"1", "2", "3", "0"}).Draw(t, "n"))
			put("]")
		case 2, 3:
			put("ARGV[" + rapid.SampledFrom([]string{"1", "2", "3", "4"}).Draw(t, "n") + "]")
		case 4:
			put(numerals.Draw(t, "number"))
		default:
			put(quote(literals.Draw(t, "text")))
		}
	}
	put(")")
	if rapid.IntRange(0, 3).Draw(t, "index") == 0 {
		put("[")
		put(rapid.SampledFrom([]string{"1", "2", "0", "99", "x"}).Draw(t, "n"))
		put("]")
	}
	if braced {
		put("}")
	}
	if rapid.IntRange(0, 3).Draw(t, "semicolon") == 0 {
		put(";")
	}
	put("")
	return b.String()
}

// Wrappers in many spellings are answered as by Redis.
func TestWrappersAsOnRedis(t *testing.T) {
	p := newPipe(t)
	recognised := 0
	rapid.Check(t, func(t *rapid.T) {
		for range 10 {
			text := drawWrapper(t)
			if _, ok := known.ParseWrapper([]byte(text)); ok {
				recognised++
			}
			if difference := wrapperDiffers(t, p, text); difference != "" {
				t.Fatal(difference)
			}
		}
	})
	assert.Greater(t, recognised, 100)
}

// Every row that scripts can call can be called without a reply that differs in form: an array, a map or a null that RESP3 has
// becomes what RESP2 has of it.
func TestWrappersOfEveryCommandAnswerInRESP2(t *testing.T) {
	now := int64(1_700_000_123) * 1e9
	for _, row := range resp.Rows() {
		if row.Container || strings.HasPrefix(row.Name, "shutdown") || row.Name == "lolwut" {
			continue
		}
		words := "'" + strings.Join(row.Words, "', '") + "'"
		for n := len(row.Words); n < max(row.Arity, -row.Arity); n++ {
			words += ", '1'"
		}
		c := resp.NewTestConn(newQuiet(8, &now), now)
		c.Feed(now, multibulk("HELLO", "3"))
		got := string(c.Feed(now, multibulk("EVAL", "return redis.call("+words+")", "0")))
		v, rest, err := readValue([]byte(got))
		require.NoError(t, err, "%s: %q", row.Name, got)
		assert.Empty(t, rest, row.Name)
		assert.NotContains(t, "%~,=#>(", v.head[:1], "%s: %q", row.Name, got)
		assert.NotContains(t, got, "internal error", row.Name)
		assert.Equal(t, "+PONG\r\n", string(c.Feed(now, multibulk("PING"))), "after %s", row.Name)
		got = string(c.Feed(now, multibulk("HELLO")))
		assert.True(t, strings.HasPrefix(got, "%"), "still RESP3 after %s: %q", row.Name, got)
	}
}

// What a wrapper reads to be cached is invalidated as if its command had been sent, though EVAL does not name the keys: else a client
// would keep what nobody tells it to forget.
func TestKeysThatWrappersReadAreInvalidated(t *testing.T) {
	now := int64(1_700_000_123) * 1e9
	const push = ">2\r\n$10\r\ninvalidate\r\n"
	pushed := func(commands ...[]byte) string {
		c := resp.NewTestConn(newQuiet(8, &now), now)
		c.Feed(now, slices.Concat(multibulk("HELLO", "3"), multibulk("CLIENT", "TRACKING", "ON", "OPTIN")))
		got := string(c.Feed(now, slices.Concat(append([][]byte{multibulk("CLIENT", "CACHING", "YES")}, commands...)...)))
		_, keys, found := strings.Cut(got, push)
		if !found || strings.Contains(got, "not allowed from script") {
			return ""
		}
		return keys
	}
	some := 0
	for _, row := range resp.Rows() {
		if row.Container || strings.HasPrefix(row.Name, "eval") {
			continue
		}
		words := slices.Clone(row.Words)
		for len(words) < max(row.Arity, -row.Arity) {
			words = append(words, "1")
		}
		sent := multibulk(words...)
		called := multibulk("EVAL", "return redis.pcall('"+strings.Join(words, "', '")+"')", "0")
		if want := pushed(sent); want != "" {
			some++
			assert.Equal(t, want, pushed(called), row.Name)
			assert.Equal(t, want, pushed(multibulk("MULTI"), called, multibulk("EXEC")), "%s in a transaction", row.Name)
		}
	}
	assert.Greater(t, some, 15)
}
