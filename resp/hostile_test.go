package resp_test

// These tests attack a session, or a server on a network in memory. docs/reliability.md lists all attacks, including those on
// the built program.

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"math"
	"math/big"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"cellserver/buckets"
	"cellserver/buckets/memory"
	"cellserver/cmd/cellserver/options"
	"cellserver/internal/testing/memnet"
	"cellserver/resp"
)

// hostileNow is the time in tests that do not set the clock.
const hostileNow = int64(1_700_000_123) * 1e9

// quietConn returns a connection to a new server.
func quietConn(shards int) (*resp.Server, *resp.TestConn) {
	now := hostileNow
	srv := newQuiet(shards, &now)
	return srv, resp.NewTestConn(srv, now)
}

// readAll splits replies into values. The test fails if one is incomplete.
func readAll(t *testing.T, out []byte) (values []value) {
	t.Helper()
	for rest := out; len(rest) > 0; {
		v, after, err := readValue(rest)
		require.NoError(t, err, "%.300q", out)
		values, rest = append(values, v), after
	}
	return values
}

// CVE-2021-41099 and similar ones: a length that overflows an integer of any size is refused, and never truncated to a smaller
// one.
func TestHostileLengthsNeverWrap(t *testing.T) {
	for _, row := range []struct{ name, before, after, refused string }{
		{"a number of arguments", "*", "$4\r\nPING\r\n$4\r\nPING\r\n", "-ERR Protocol error: invalid multibulk length\r\n"},
		{"a length of an argument", "*1\r\n$", "PING\r\nPING\r\n", "-ERR Protocol error: invalid bulk length\r\n"},
	} {
		t.Run(row.name, func(t *testing.T) {
			for _, bits := range []uint{8, 16, 31, 32, 33, 62, 63, 64, 65, 127, 128, 300} {
				for _, add := range []int64{-2, -1, 0, 1, 4, 5} {
					for _, sign := range []int64{1, -1} {
						n := new(big.Int).Lsh(big.NewInt(1), bits)
						n.Add(n, big.NewInt(add)).Mul(n, big.NewInt(sign))
						_, c := quietConn(1)
						in := row.before + n.String() + "\r\n" + row.after
						out := string(c.Feed(hostileNow, []byte(in)))
						switch {
						case n.IsInt64() && n.Sign() <= 0 && row.before == "*": // an empty request; the rest is read as lines
							_, lines := quietConn(1)
							assert.Equal(t, string(lines.Feed(hostileNow, []byte(row.after))), out, "%q", in)
						case n.IsInt64() && n.Sign() > 0 && n.Int64() <= 1<<20:
							assert.NotContains(t, out, "PONG", "%q", in)
						default:
							assert.Equal(t, row.refused, out, "%q", in)
							assert.True(t, c.Closed(), "%q", in)
						}
					}
				}
			}
		})
	}
}

// CVE-2026-27623: an empty request leaves nothing behind. With any empty requests between commands, in pieces of any size, the
// replies are those of the commands alone.
func TestHostileEmptyRequestsLeaveNothingBehind(t *testing.T) {
	var frames [][]byte
	for _, line := range []string{
		"PING", "CL.THROTTLE k 15 30 60", "WATCH k", "MULTI", "CL.WINDOW w 5 60", "ECHO hello", "EXEC", "PING",
		"MULTI", "NOSUCH a", "EXEC", "MULTI", "PING", "DISCARD", "CLIENT REPLY SKIP", "PING", "ECHO after", "HELLO 3", "EXEC",
		"CLIENT GETNAME", "CL.ALL THROTTLE a 1 1 1 1 WINDOW b 1 1 1", "DEL k w a b", "ECHO",
	} {
		frames = append(frames, multibulk(strings.Fields(line)...))
	}
	frames = append(frames, []byte("ECHO \"in a line\"\r\n"), []byte("PING\n"))
	talk := func(t *testing.T, between string, piece int) string {
		_, c := quietConn(4)
		var in []byte
		for _, f := range frames {
			in = append(append(in, between...), f...)
		}
		in = append(in, between...)
		var out []byte
		for part := range slices.Chunk(in, piece) {
			out = append(out, c.Feed(hostileNow, part)...)
		}
		require.False(t, c.Closed())
		readAll(t, out)
		return string(out)
	}
	want := talk(t, "", 1<<20)
	for _, between := range []string{
		"*0\r\n", "*-1\r\n", "*-9223372036854775808\r\n", "\r\n", "\n", " \t \r\n", "\x00\r\n", "\x00PING\r\n", "*0\r\n*0\r\n\r\n*-1\r\n",
	} {
		t.Run(fmt.Sprintf("%q", between), func(t *testing.T) {
			for _, piece := range []int{1, 2, 3, 7, 16, 1 << 20} {
				assert.Equal(t, want, talk(t, between, piece), "in pieces of %d bytes", piece)
			}
		})
	}
}

// CVE-2025-67733: no error contains a line end from an argument, so no client can forge a reply. The test sends every command
// with such arguments in every place.
func TestHostileErrorsAreOneLine(t *testing.T) {
	evil := []string{"\r\n", "\n", "\r", "a\r\n-ERR b\r\n", "\r\n+OK\r\n", "\r\n$2\r\nhi\r\n", "\x00\r\n:1\r\n", "'\r\n'", "%s\r\n%d"}
	const marker = "$6\r\nmarker\r\n"
	ask := func(t *testing.T, srv *resp.Server, words []string) {
		for _, before := range [][]string{nil, {"HELLO", "3"}, {"MULTI"}} {
			c := resp.NewTestConn(srv, hostileNow)
			expected := 1
			var in []byte
			if before != nil {
				in = multibulk(before...)
				expected++
			}
			in = append(in, multibulk(words...)...)
			if before != nil && before[0] == "MULTI" {
				in = append(in, multibulk("EXEC")...)
				expected++
			}
			in = append(in, multibulk("ECHO", "marker")...)
			out := slices.Clone(c.Feed(hostileNow, in))
			values := readAll(t, out)
			require.NotContains(t, string(out), "internal error", "%q", words)
			if c.Closed() {
				continue // after QUIT, POST and Host:
			}
			c.Feed(hostileNow, multibulk("QUIT")) // otherwise CLIENT LIST would grow
			if strings.EqualFold(words[0], "multi") || strings.EqualFold(words[0], "client") && len(words) > 1 && strings.EqualFold(words[1], "reply") {
				continue // the marker is queued or gets no reply
			}
			require.True(t, bytes.HasSuffix(out, []byte(marker)), "%q: %.300q", words, out)
			require.Len(t, values, expected+1, "%q: %.300q", words, out)
			require.NoError(t, checkErrors(values))
		}
	}
	for _, row := range resp.Rows() {
		if row.Name == "monitor" || row.Name == "shutdown" {
			continue // MONITOR needs a connection and SHUTDOWN ends the server; neither has text in its errors
		}
		t.Run(row.Name, func(t *testing.T) {
			now := hostileNow
			srv := newQuiet(2, &now)
			for _, e := range evil {
				for n := range 5 {
					all := slices.Clone(row.Words)
					for range n {
						all = append(all, e)
					}
					ask(t, srv, all)
					for at := range n {
						for _, other := range []string{"1", "k"} {
							one := slices.Clone(row.Words)
							for i := range n {
								if i == at {
									one = append(one, e)
								} else {
									one = append(one, other)
								}
							}
							ask(t, srv, one)
						}
					}
				}
			}
		})
	}
	t.Run("words of their own", func(t *testing.T) {
		now := hostileNow
		srv := newQuiet(2, &now)
		for _, e := range evil {
			for _, words := range [][]string{
				{e}, {e, e, e}, {"NOSUCH" + e, e}, {"EVAL", e, e}, {"CLIENT", e}, {"CLIENT", "LIST", "TYPE", e}, {"CLIENT", "LIST", "ID", e},
				{"CLIENT", "KILL", "TYPE", e}, {"CLIENT", "KILL", "USER", e}, {"CLIENT", "KILL", "ADDR", e, "ID", e},
				{"CLIENT", "SETNAME", e}, {"CLIENT", "SETINFO", "LIB-NAME", e}, {"CLIENT", "SETINFO", e, "x"}, {"CLIENT", "PAUSE", "1", e},
				{"HELLO", "3", e}, {"HELLO", "2", "SETNAME", e}, {"HELLO", "3", "AUTH", e, e}, {"EXPIRE", "k", "1", e},
				{"CONFIG", "SET", e, e}, {"CONFIG", "SET", "timeout", e}, {"CONFIG", "SET", "save", e}, {"CONFIG", "SET", "loglevel", e},
				{"CONFIG", "SET", "client-output-buffer-limit", e}, {"CONFIG", "SET", "client-output-buffer-limit", e + " 1 1 1"},
				{"CONFIG", "SET", "maxmemory", e}, {"CONFIG", "SET", "port", e}, {"CONFIG", "SET", "dir", e}, {"CONFIG", "GET", e},
				{"COMMAND", "DOCS", e}, {"COMMAND", "INFO", e}, {"COMMAND", "GETKEYS", e, e}, {"COMMAND", "LIST", "FILTERBY", "PATTERN", e},
				{"COMMAND", "LIST", "FILTERBY", e, e}, {"INFO", e}, {"OBJECT", e, e}, {"SCAN", "0", "TYPE", e}, {"SCAN", "0", "MATCH", e},
				{"SCAN", "0", e, "1"}, {"LATENCY", "HISTORY", e}, {"LATENCY", "RESET", e}, {"SLOWLOG", "GET", e}, {"MEMORY", "USAGE", "k", e, "1"},
				{"CL.ALL", e, "k", "1", "1", "1", "1"}, {"CL.ALL", "THROTTLE", e, "1", "1", "1", "1"}, {"CL.WINDOW", "k", "1", "1", "1", "ALIGN", e},
				{"FLUSHALL", e}, {"LOLWUT", "VERSION", e}, {"WAIT", e, e}, {"SELECT", e}, {"BGSAVE", e},
			} {
				ask(t, srv, words)
			}
		}
	})
	t.Run("what ends the connection", func(t *testing.T) {
		for c := range 256 {
			_, conn := quietConn(1)
			out := conn.Feed(hostileNow, []byte("*1\r\n"+string([]byte{byte(c)})+"4\r\nPING\r\n"))
			values := readAll(t, out)
			require.Len(t, values, 1)
			require.NoError(t, checkErrors(values))
		}
	})
}

// checkErrors checks that every error, at any depth, is one line.
func checkErrors(values []value) error {
	for _, v := range values {
		if line := bytes.TrimSuffix(v.head, []byte("\r\n")); v.mark == '-' && bytes.ContainsAny(line, "\r\n") {
			return fmt.Errorf("an error of several lines: %q", v.head)
		}
		if err := checkErrors(v.items); err != nil {
			return err
		}
	}
	return nil
}

// extremes are numbers at the limits of the integer types and of the arguments.
var extremes = []string{
	"0", "1", "-1", "2", "2147483647", "2147483648", "4294967295", "4611686018", "4611686018427387904", "9223372036854775806",
	"9223372036854775807", "9223372036854775808", "-9223372036854775807", "-9223372036854775808", "-9223372036854775809",
	"18446744073709551615", "18446744073709551617", "0.000000001", "4611686018.427387904", "1e18", "",
}

// Every limit command, with extremes in all of its numbers, gets an error that says what is wrong or five consistent
// integers.
func TestHostileNumbersGetAnErrorOrAConsistentReply(t *testing.T) {
	key := 0
	srv, c := quietConn(8)
	ask := func(t *testing.T, check func(*testing.T, value), words ...string) {
		in := multibulk(words...)
		for range 2 {
			out := c.Feed(hostileNow, in)
			v, rest, err := readValue(out)
			require.NoError(t, err, "%q: %q", words, out)
			require.Empty(t, rest, "%q", words)
			require.False(t, c.Closed(), "%q", words)
			if v.mark == '-' {
				require.NotContains(t, string(out), "internal error", "%q", words)
				require.True(t, strings.HasPrefix(string(out), "-ERR ") || strings.HasPrefix(string(out), "-WRONGTYPE "), "%q: %q", words, out)
				continue
			}
			check(t, v)
			if t.Failed() {
				require.FailNow(t, fmt.Sprintf("%q", words))
			}
		}
	}
	for _, command := range []string{"CL.THROTTLE", "CL.WINDOW", "CL.ZSLIDE"} {
		t.Run(command, func(t *testing.T) {
			for _, a := range extremes {
				for _, b := range extremes {
					for _, d := range extremes {
						key++
						k := strconv.Itoa(key % 5000) // the same keys repeatedly, with other numbers
						if command == "CL.THROTTLE" {
							ask(t, checkDecision, command, k+"t", a, b, d)
							ask(t, checkDecision, command, k+"t", a, "30", b, d, "MS")
							ask(t, checkDecision, command, k+"t", "15", a, b, d, "PEEK")
							continue
						}
						ask(t, checkDecision, command, k+command, a, b, d)
						ask(t, checkDecision, command, k+command, a, b, d, "PEEK", "MS")
						if command == "CL.WINDOW" {
							ask(t, checkDecision, command, k+"a", a, "60", b, "ALIGN", d)
							ask(t, checkDecision, command, k+"a", "5", a, b, "ALIGN", d, "MS")
						}
					}
				}
			}
			ask(t, func(*testing.T, value) {}, "FLUSHALL")
		})
	}
	t.Run("CL.ALL", func(t *testing.T) {
		for _, a := range extremes {
			for _, b := range extremes {
				ask(t, checkAll, "CL.ALL", "THROTTLE", "t", a, b, "60", "1", "WINDOW", "w", "5", a, b, "ZSLIDE", "z", b, "60", a)
				ask(t, checkAll, "CL.ALL", "WINDOW", "a", "5", "60", a, "ALIGN", b, "ZSLIDE", "z", "5", a, b, "MS")
			}
		}
	})
	t.Run("deadlines", func(t *testing.T) {
		for _, command := range []string{"EXPIRE", "PEXPIRE", "EXPIREAT", "PEXPIREAT"} {
			for _, a := range extremes {
				ask(t, checkDecision, "CL.WINDOW", "d", "5", "60")
				ask(t, func(t *testing.T, v value) { assert.Contains(t, []int64{0, 1}, integer(t, v)) }, command, "d", a)
			}
		}
		for _, a := range extremes {
			for _, words := range [][]string{
				{"SCAN", a, "COUNT", "1"}, {"SCAN", "0", "COUNT", a}, {"SLOWLOG", "GET", a}, {"CLIENT", "LIST", "ID", a}, {"SELECT", a},
				{"WAIT", a, a}, {"MEMORY", "USAGE", "d", "SAMPLES", a}, {"HELLO", a}, {"CLIENT", "KILL", "ID", a, "MAXAGE", a},
			} {
				in := multibulk(words...)
				other := resp.NewTestConn(srv, hostileNow)
				require.Len(t, readAll(t, other.Feed(hostileNow, in)), 1, "%q", words)
			}
		}
	})
	t.Run("answers that are known", func(t *testing.T) {
		most := strconv.FormatInt(math.MaxInt64, 10)
		_, c := quietConn(1)
		for _, row := range []struct{ line, want string }{
			{"CL.WINDOW a " + most + " 60", "*5\r\n:0\r\n:" + most + "\r\n:9223372036854775806\r\n:-1\r\n:60\r\n"},
			{"CL.WINDOW a " + most + " 60 " + most, "*5\r\n:1\r\n:" + most + "\r\n:9223372036854775806\r\n:60\r\n:60\r\n"},
			{"CL.WINDOW a " + most + " 60 -9223372036854775808", "*5\r\n:0\r\n:" + most + "\r\n:" + most + "\r\n:-1\r\n:0\r\n"},
			{"CL.ZSLIDE b " + most + " 60 " + most, "*5\r\n:0\r\n:" + most + "\r\n:0\r\n:-1\r\n:60\r\n"},
			{"CL.ZSLIDE b " + most + " 60 1", "*5\r\n:1\r\n:" + most + "\r\n:0\r\n:60\r\n:60\r\n"},
			{"CL.THROTTLE c " + most + " 1 1", "-ERR " + string(buckets.ErrBurstRange) + "\r\n"},
			{"CL.WINDOW d 9223372036854775808 60", "-ERR value is not an integer or out of range\r\n"},
			{"CL.WINDOW d 5 4611686019", "-ERR " + string(buckets.ErrPeriodRange) + "\r\n"},
			{"EXPIRE a " + most, "-ERR invalid expire time in 'expire' command\r\n"},
		} {
			assert.Equal(t, row.want, string(c.Feed(hostileNow, []byte(row.line+"\r\n"))), row.line)
		}
	})
}

// A key may contain any bytes, which the server stores unchanged. A key with another kind of bucket gets WRONGTYPE.
func TestHostileKeysKeepEveryByte(t *testing.T) {
	keys := []string{"", "\r\n", "\x00", "\xff\xfe", "\xc3\x28", "\xed\xa0\x80", "\xf5\x80\x80\x80", "a\x00b", "*0\r\n", "é", "[*?\\", strings.Repeat("\xff", 4096)}
	for c := range 256 {
		keys = append(keys, string([]byte{byte(c)}), string([]byte{'k', byte(c), 'k'}))
	}
	slices.Sort(keys)
	keys = slices.Compact(keys)
	_, c := quietConn(4)
	ask := func(words ...string) string { return string(c.Feed(hostileNow, multibulk(words...))) }
	kinds := []string{"CL.THROTTLE", "CL.WINDOW", "CL.ZSLIDE"}
	numbers := map[string][]string{"CL.THROTTLE": {"4", "5", "60"}, "CL.WINDOW": {"5", "60"}, "CL.ZSLIDE": {"5", "60"}}
	for i, key := range keys {
		mine := kinds[i%3]
		require.True(t, strings.HasPrefix(ask(append([]string{mine, key}, numbers[mine]...)...), "*5\r\n:0\r\n:5\r\n:4\r\n:-1\r\n"), "%q", key)
		for _, kind := range kinds {
			if kind != mine {
				require.Equal(t, "-WRONGTYPE Operation against a key holding the wrong kind of value\r\n",
					ask(append([]string{kind, key}, numbers[kind]...)...), "%q", key)
				require.Equal(t, "-WRONGTYPE Operation against a key holding the wrong kind of value\r\n",
					ask(append(append([]string{"CL.ALL", kind[3:], key}, numbers[kind]...), "1", "WINDOW", "another", "1", "1", "1")...), "%q", key)
			}
		}
		require.Equal(t, ":0\r\n", ask("EXISTS", "another"), "what is refused as a whole takes nothing")
	}
	require.Equal(t, fmt.Sprintf(":%d\r\n", len(keys)), ask("DBSIZE"))
	listed := func(out string) (names []string) {
		values := readAll(t, []byte(out))
		require.Len(t, values, 1)
		items := values[0].items
		for _, v := range items {
			names = append(names, string(v.text[:len(v.text)-2]))
		}
		slices.Sort(names)
		return names
	}
	require.Equal(t, keys, listed(ask("KEYS", "*")))
	for _, key := range keys {
		require.Equal(t, ":1\r\n", ask("EXISTS", key), "%q", key)
		require.Equal(t, "+OK\r\n", ask("RENAME", key, "\x00\r\nelsewhere"), "%q", key)
		require.Equal(t, "+OK\r\n", ask("RENAME", "\x00\r\nelsewhere", key), "%q", key)
		require.Equal(t, ":1\r\n", ask("DEL", key), "%q", key)
	}
	require.Equal(t, ":0\r\n", ask("DBSIZE"))
	require.False(t, c.Closed())
}

// cursed is a store that panics in every operation on one key, also while locks are held.
type cursed struct {
	*memory.Store
	holds *atomic.Int64 // number of holds that are not released
}

func (s cursed) curse(keys ...[]byte) {
	for _, key := range keys {
		if string(key) == "cursed" {
			panic("the curse")
		}
	}
}

func (s cursed) Decide(now int64, key []byte, l *buckets.Limit, quantity int64, peek bool, d *buckets.Decision) error {
	s.curse(key)
	return s.Store.Decide(now, key, l, quantity, peek, d)
}

func (s cursed) Apply(ctx context.Context, now int64, ops []buckets.Op) {
	for _, op := range ops {
		s.curse(op.Key)
		s.curse(op.Keys...)
		for _, c := range op.Checks {
			s.curse(c.Key)
		}
	}
	s.Store.Apply(ctx, now, ops)
}

// Scan panics in visit, which the store calls with a shard locked.
func (s cursed) Scan(ctx context.Context, now int64, cursor uint64, count int, visit func(key []byte, kind buckets.Kind)) (uint64, error) {
	return s.Store.Scan(ctx, now, cursor, count, func(key []byte, kind buckets.Kind) {
		if string(key) == "scanned" {
			panic("the curse, under a lock")
		}
		visit(key, kind)
	})
}

func (s cursed) Atomically(ctx context.Context, now int64, keys [][]byte, everything bool, run func(buckets.Store)) error {
	return s.Store.Atomically(ctx, now, keys, everything, func(held buckets.Store) {
		s.holds.Add(1)
		defer s.holds.Add(-1)
		run(cursed{held.(*memory.Store), s.holds})
	})
}

func TestHostilePanicsLeaveNoKeyLocked(t *testing.T) {
	const abandoned = "-ERR internal error: this command was abandoned, see the server's log\r\n"
	const taken = "*5\r\n:0\r\n:5\r\n:4\r\n:-1\r\n:60\r\n"
	for _, row := range []struct{ name, lines, want string }{
		{"a limit", "CL.WINDOW cursed 5 60", abandoned},
		{"several limits", "CL.ALL WINDOW a 5 60 1 WINDOW cursed 5 60 1", abandoned},
		{"what is held for several keys", "DEL a cursed b", abandoned},
		{"what is held to be counted", "EXISTS a b cursed", abandoned},
		{"a new name", "RENAME cursed b", abandoned},
		{"a look", "CL.GET cursed", abandoned},
		{"all keys, while they are locked", "CL.WINDOW scanned 5 60\r\nKEYS *\r\nSCAN 0 COUNT 1000", taken + abandoned + abandoned},
		{"a transaction", "MULTI\r\nCL.WINDOW a 5 60\r\nCL.WINDOW cursed 5 60\r\nDEL b cursed\r\nCL.WINDOW c 5 60\r\nEXEC",
			"+OK\r\n+QUEUED\r\n+QUEUED\r\n+QUEUED\r\n+QUEUED\r\n*4\r\n" + taken + abandoned + abandoned + taken},
		{"a transaction over all keys", "CL.WINDOW scanned 5 60\r\nMULTI\r\nKEYS *\r\nDBSIZE\r\nEXEC",
			taken + "+OK\r\n+QUEUED\r\n+QUEUED\r\n*2\r\n" + abandoned + ":1\r\n"},
		{"several limits in a transaction", "MULTI\r\nCL.ALL WINDOW a 5 60 1 WINDOW cursed 5 60 1\r\nPING\r\nEXEC",
			"+OK\r\n+QUEUED\r\n+QUEUED\r\n*2\r\n" + abandoned + "+PONG\r\n"},
	} {
		for _, shards := range []int{1, 8} {
			bubble(t, fmt.Sprint(row.name, ", shards: ", shards), func(t *testing.T) {
				store := cursed{memory.NewStore(shards), new(atomic.Int64)}
				s := newSubject(t, store)
				l := s.inMemory(t)
				p := connect(t, l.Dial)
				p.ask(row.lines, row.want)
				p.ask("PING", "+PONG\r\n")
				assert.Zero(t, store.holds.Load(), "held")
				assert.Equal(t, strings.Count(row.want, abandoned), strings.Count(s.log.String(), "a command panicked"))
				// No shard is locked: other commands reach each shard and all shards together. If one were locked, they would wait
				// forever, and synctest would report the deadlock.
				q := connect(t, l.Dial)
				for i := range 50 {
					q.ask(fmt.Sprintf("CL.WINDOW q%d 5 60", i), taken)
				}
				q.ask("DEL scanned", fmt.Sprintf(":%d\r\n", strings.Count(row.lines, "WINDOW scanned")))
				q.ask("MULTI\r\nFLUSHALL\r\nDBSIZE\r\nEXEC", "+OK\r\n+QUEUED\r\n+QUEUED\r\n*2\r\n+OK\r\n:0\r\n")
				p.ask("MULTI\r\nPING\r\nEXEC", "+OK\r\n+QUEUED\r\n*1\r\n+PONG\r\n")
			})
		}
	}
}

// troubled is a listener whose Accept fails a given number of times.
type troubled struct {
	*memnet.Listener
	errors chan error
	asked  chan time.Time
}

func (l *troubled) Accept() (net.Conn, error) {
	l.asked <- time.Now()
	select {
	case err := <-l.errors:
		return nil, err
	default:
		return l.Listener.Accept()
	}
}

// A failing Accept is retried after 5 ms, 10 ms, and so on up to one second. The server serves its connections meanwhile.
func TestHostileAcceptErrorsAreRetriedWithLongerDelays(t *testing.T) {
	for _, errno := range []syscall.Errno{syscall.EMFILE, syscall.ENFILE} {
		bubble(t, errno.Error(), func(t *testing.T) {
			const failures = 20
			l := &troubled{memnet.Listen(), make(chan error, failures), make(chan time.Time, 2*failures+10)}
			s := newSubject(t, nil)
			s.serve(t, l)
			p := connect(t, l.Dial)
			p.ask("PING", "+PONG\r\n")
			synctest.Wait() // until the next Accept waits
			for len(l.asked) > 0 {
				<-l.asked
			}
			fail := func() {
				for range failures {
					l.errors <- &net.OpError{Op: "accept", Net: "tcp", Err: os.NewSyscallError("accept4", errno)}
				}
				began := time.Now()
				q := connect(t, l.Dial) // takes the pending Accept
				q.ask("PING", "+PONG\r\n")
				p.ask("CL.WINDOW k 5 60 0", "*5\r\n:0\r\n:5\r\n:5\r\n:-1\r\n:0\r\n")
				assert.Zero(t, time.Since(began), "nobody who is connected waits")
				r := connect(t, l.Dial) // is accepted after the failures
				r.ask("PING", "+PONG\r\n")
				synctest.Wait()
				require.Len(t, l.asked, failures+2, "failures, the one that works, and the one that waits")
				last, pause := <-l.asked, 5*time.Millisecond
				for i := range failures {
					next := <-l.asked
					require.Equal(t, pause, next.Sub(last), "pause %d", i)
					last, pause = next, min(2*pause, time.Second)
				}
				<-l.asked
				q.Close()
				r.Close()
			}
			fail()
			fail() // the delays begin with 5 ms again
			assert.Equal(t, 2*failures, strings.Count(s.log.String(), "cannot accept connections for the moment"))
		})
	}
	bubble(t, "one that is closed meanwhile", func(t *testing.T) {
		l := &troubled{memnet.Listen(), make(chan error, 100), make(chan time.Time, 200)}
		for range 100 {
			l.errors <- os.NewSyscallError("accept4", syscall.EMFILE)
		}
		s := newSubject(t, nil)
		s.serve(t, l)
		time.Sleep(10 * time.Second)
		began := time.Now()
		require.NoError(t, s.Shutdown(t.Context()))
		assert.Zero(t, time.Since(began))
	})
}

// The server reads the clock once a batch and accepts any time. A clock that steps by a day, as that of the program
// (internal/clock) never does, refills buckets or delays them accordingly, and nothing breaks.
func TestHostileClockStepsBreakNothing(t *testing.T) {
	var now atomic.Int64
	now.Store(hostileNow)
	kept := memory.NewStore(4)
	live := options.NewLive(options.Defaults(), func(options.Settings) error { return nil })
	srv := resp.NewServer(resp.Config{Store: kept, Now: now.Load, Log: slog.New(slog.DiscardHandler), Version: "test",
		Options: live, Bounds: live.Settings().Wire})
	l := memnet.Listen()
	(&subject{Server: srv, log: new(logged), now: now.Load}).serve(t, l)
	p := connect(t, l.Dial)
	p.ask("CL.WINDOW k 5 86400 5", "*5\r\n:0\r\n:5\r\n:0\r\n:-1\r\n:86400\r\n")
	for range 3 { // back: the time of a key never goes back, so nobody waits longer
		now.Add(-int64(24 * time.Hour))
		p.ask("CL.WINDOW k 5 86400", "*5\r\n:1\r\n:5\r\n:0\r\n:86400\r\n:86400\r\n")
		q := connect(t, l.Dial)
		q.ask("PING", "+PONG\r\n")
		q.Close()
	}
	now.Store(hostileNow + int64(24*time.Hour))
	p.ask("CL.WINDOW k 5 86400", "*5\r\n:0\r\n:5\r\n:4\r\n:-1\r\n:86400\r\n")
}

// An incomplete command holds the bytes that have arrived, plus a share of them for the positions of its arguments, up to the
// query limit: CVE-2025-46686.
func TestHostileCommandBeyondTheQueryLimitIsRefused(t *testing.T) {
	for _, row := range []struct {
		name string
		head string
		part string
	}{
		{"one long argument", "*2\r\n$4\r\nECHO\r\n$1048576\r\n", strings.Repeat("x", 1000)},
		{"many arguments", "*1048576\r\n", strings.Repeat("$1\r\nx\r\n", 100)},
		{"many empty arguments", "*1048576\r\n", strings.Repeat("$0\r\n\r\n", 100)},
		{"many long arguments", "*1048576\r\n", "$1000\r\n" + strings.Repeat("x", 1000) + "\r\n"},
		{"a queue of commands", "*1\r\n$5\r\nMULTI\r\n", strings.Repeat("*2\r\n$4\r\nECHO\r\n$100\r\n"+strings.Repeat("x", 100)+"\r\n", 10)},
		{"a queue of small commands", "*1\r\n$5\r\nMULTI\r\n", strings.Repeat("*1\r\n$4\r\nPING\r\n", 100)},
	} {
		bubble(t, row.name, func(t *testing.T) {
			s := newSubject(t, nil, "client-query-buffer-limit 1mb", "proto-max-bulk-len 2mb", "multi-max-commands 1000000")
			p := connect(t, s.inMemory(t).Dial)
			go io.Copy(io.Discard, p)
			head := row.head
			if row.name == "one long argument" {
				head = strings.Replace(head, "1048576", "2097152", 1)
			}
			p.send(head)
			// The server handles each part before the next one is sent. After the limit it discards the input while it sends the
			// last replies.
			complained := func() bool { return strings.Contains(s.log.String(), "client-query-buffer-limit") }
			for sent := 0; !complained(); synctest.Wait() {
				require.Less(t, sent, 3<<20, "the server takes it all")
				n, err := io.WriteString(p, row.part)
				require.NoError(t, err)
				sent += n
			}
		})
	}
	t.Run("and below it is answered", func(t *testing.T) {
		s := newSubject(t, nil)
		p := connect(t, s.inMemory(t).Dial)
		go func() { io.WriteString(p, "*1048576\r\n$6\r\nEXISTS\r\n"+strings.Repeat("$1\r\nx\r\n", 1<<20-1)) }()
		p.expect(":0\r\n")
	})
}

// The server waits a bounded time for clients that do not read the last replies.
func TestHostileShutdownIsBounded(t *testing.T) {
	bubble(t, "with clients of every bad kind", func(t *testing.T) {
		s := newSubject(t, nil)
		l := s.inMemory(t)
		for range 10 {
			silent, half, deaf := connect(t, l.Dial), connect(t, l.Dial), connect(t, l.Dial)
			_ = silent
			half.send("*2\r\n$4\r\nECHO\r\n$10\r\nhal")
			deaf.send(strings.Repeat("PING\r\n", 100))
		}
		synctest.Wait()
		began := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		require.NoError(t, s.Shutdown(ctx))
		assert.LessOrEqual(t, time.Since(began), 10*time.Second)
	})
}
