package resp_test

import (
	"crypto/sha1"
	"encoding/hex"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"cellserver/buckets/memory"
	"cellserver/cmd/cellserver/options"
	"cellserver/internal/testing/scripttext"
	"cellserver/internal/testing/testenv"
	"cellserver/resp"
	known "cellserver/resp/script"
)

// SHA-1s of known scripts.
const (
	sha1Ulule     = "f74233f556d3f99c50b61169cf8aa8d5deb63fb2"
	sha1UlulePeek = "566f5c6a17e5fddb9a10bf389f754edd0d899c61"
	sha1Reset     = "f2994557f1daca13bfef97c2a31ca4b174e031ca"
)

func sha1Of(text string) string {
	sum := sha1.Sum([]byte(text))
	return hex.EncodeToString(sum[:])
}

// asker sends commands to a server of ours at one time, and returns the replies.
func asker(srv *resp.Server, now int64) func(words ...string) string {
	c := resp.NewTestConn(srv, now)
	return func(words ...string) string { return string(c.Feed(now, multibulk(words...))) }
}

// The script that deletes all keys of a pattern deletes those that it deletes on a real Redis, and answers their number.
func TestResetScriptAsOnRedis(t *testing.T) {
	text := scripttext.Of(t, sha1Reset)
	p := newPipe(t)
	random := rand.New(rand.NewPCG(3, 4))
	var conversation []byte
	add := func(words ...string) { conversation = append(conversation, multibulk(words...)...) }
	word := func(alphabet string, n int) string {
		b := make([]byte, random.IntN(n))
		for i := range b {
			b[i] = alphabet[random.IntN(len(alphabet))]
		}
		return string(b)
	}
	for range 300 {
		for range random.IntN(8) {
			add("SET", "k"+word("abc", 5), "1")
		}
		add("EVAL", text, "1", "k"+word("abc*?[]", 5))
		add("DBSIZE")
		add("MULTI")
		add("EVALSHA", sha1Reset, "1", "k"+word("abc*", 4))
		add("INCR", "a")
		add("EXEC")
		if random.IntN(20) == 0 {
			add("EVALSHA", sha1Reset, "0")
		}
	}
	for i := range 300 { // more than one step of a scan
		add("SET", fmt.Sprint("many", i), "1")
	}
	add("EVALSHA_RO", sha1Reset, "1", "none*")
	add("EVALSHA_RO", sha1Reset, "1", "many*")
	add("EVALSHA", sha1Reset, "1", "many*")
	add("DBSIZE")
	assert.Equal(t, p.ask(t, string(conversation)), askOurs(string(conversation)))
}

// However many clients send a script of a limit at once, it admits exactly the limit.
func TestScriptsOfLimitsAdmitExactlyTheLimit(t *testing.T) {
	const clients, calls, limit = 64, 40, 100
	for _, one := range []struct {
		name     string
		request  []byte
		admitted func(reply string) bool
	}{
		{"fixed window", multibulk("EVALSHA", sha1Ulule, "1", "k", "1", "60000"), func(reply string) bool {
			var n int
			_, err := fmt.Sscanf(reply, "*2\r\n:%d", &n)
			return err == nil && n <= limit
		}},
		{"GCRA", multibulk("EVALSHA", "f52a5b566060d79fd321d695df55bc918339c4aa", "1", "k", "100", "1", "60", "1"),
			func(reply string) bool { return strings.HasPrefix(reply, "*4\r\n:1") }},
		{"token bucket on two keys", multibulk("EVALSHA", "b7bb2fcc82b9c8fc49850e9223e78667a5387dbc", "2", "k", "l", "1", "100", "1700000000", "1"),
			func(reply string) bool { return reply == ":1\r\n" }},
		{"sliding window on two keys", multibulk("EVALSHA", "e8ac2a60cb040b0dbb56815a1e9c6fd032ce62e7", "2", "k", "l", "100", "60", "1"),
			func(reply string) bool { return reply == ":1\r\n" }},
		{"one call", multibulk("EVAL", "return redis.call('CL.WINDOW', KEYS[1], ARGV[1], ARGV[2])[1]", "1", "k", "100", "60"),
			func(reply string) bool { return reply == ":0\r\n" }},
	} {
		t.Run(one.name, func(t *testing.T) {
			now := int64(1_700_000_123) * 1e9
			srv := newQuiet(8, &now)
			var wait sync.WaitGroup
			admitted := make([]int, clients)
			for i := range clients {
				c := resp.NewTestConn(srv, now)
				wait.Go(func() {
					for range calls {
						if one.admitted(string(c.Feed(now, one.request))) {
							admitted[i]++
						}
					}
				})
			}
			wait.Wait()
			sum := 0
			for _, n := range admitted {
				sum += n
			}
			assert.Equal(t, limit, sum)
		})
	}
}

// Of scripts that are one call, the last 1000 are remembered; what is always known is not forgotten.
func TestTheLast1000WrappersAreRemembered(t *testing.T) {
	now := int64(1_700_000_123) * 1e9
	ask := asker(newQuiet(1, &now), now)
	text := func(i int) string { return fmt.Sprintf("return redis.call('echo', %d)", i) }
	cached := func() (n int) {
		info := ask("INFO", "memory")
		_, err := fmt.Sscanf(info[strings.Index(info, "number_of_cached_scripts"):], "number_of_cached_scripts:%d", &n)
		require.NoError(t, err)
		return n - known.Count()
	}
	assert.Zero(t, cached())
	for i := range 1000 {
		ask("SCRIPT", "LOAD", text(i))
	}
	assert.Equal(t, 1000, cached())
	ask("SCRIPT", "LOAD", text(5)) // it is known already, and makes no room
	exists := []string{"SCRIPT", "EXISTS", sha1Of(text(0)), sha1Of(text(999)), sha1Ulule}
	assert.Equal(t, "*3\r\n:1\r\n:1\r\n:1\r\n", ask(exists...))
	assert.Equal(t, "$4\r\n1000\r\n", ask("EVAL", text(1000), "0"))
	assert.Equal(t, "*3\r\n:0\r\n:1\r\n:1\r\n", ask(exists...), "the oldest is forgotten")
	assert.Equal(t, "-NOSCRIPT No matching script. Please use EVAL.\r\n", ask("EVALSHA", sha1Of(text(0)), "0"))
	assert.Equal(t, "$1\r\n1\r\n", ask("EVALSHA", sha1Of(text(1)), "0"))
	assert.Equal(t, 1000, cached())
	ask("SCRIPT", "FLUSH")
	assert.Zero(t, cached())
	assert.Equal(t, "*2\r\n:0\r\n:1\r\n", ask("SCRIPT", "EXISTS", sha1Of(text(1)), sha1Ulule))
}

// A script that is not known is counted, and logged once a minute, with who has sent it.
func TestUnknownScriptsAreLoggedOnceAMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := new(logged)
		began := time.Now()
		now := func() int64 { return time.Now().UnixNano() }
		srv := newLogged(1, now, slog.NewTextHandler(log, nil))
		ask := asker(srv, now())
		ask("CLIENT", "SETNAME", "the-shop")
		for range 3 {
			ask("EVAL", "return 1", "0")
		}
		assert.Contains(t, ask("SCRIPT", "LOAD", "return 2"), "unknown script "+sha1Of("return 2"))
		ask("EVALSHA", strings.Repeat("0", 40), "0") // after which clients send the text
		ask("EVALSHA", sha1UlulePeek, "1", "k")
		assert.Contains(t, ask("INFO", "stats"), "\r\nunknown_scripts:4\r\n")
		lines := func() []string { return strings.Split(strings.TrimSpace(log.String()), "\n") }
		require.Len(t, lines(), 1)
		for _, want := range []string{"level=WARN", "scripts=1", "sha1=" + sha1Of("return 1"), "client=192.0.2.1:50000", "name=the-shop"} {
			assert.Contains(t, lines()[0], want)
		}
		time.Sleep(time.Minute - time.Nanosecond - time.Since(began))
		synctest.Wait()
		assert.Len(t, lines(), 1)
		time.Sleep(time.Nanosecond)
		synctest.Wait()
		require.Len(t, lines(), 2)
		assert.Contains(t, lines()[1], "scripts=3")
		assert.Contains(t, lines()[1], "sha1="+sha1Of("return 2"))
		assert.NoError(t, srv.Shutdown(t.Context()))
	})
}

// refusing is a disk that refuses commands that write.
type refusing struct{ ledger }

func (*refusing) Refusal() string { return "MISCONF the disk is full" }

// While the disk refuses writes, a script runs until it writes.
func TestScriptsWriteNothingWhileTheDiskRefuses(t *testing.T) {
	now := int64(1_700_000_123) * 1e9
	store := memory.NewStore(1)
	srv := resp.NewServer(resp.Config{
		Store: store, Now: func() int64 { return now }, Log: slog.New(slog.DiscardHandler),
		Options: options.NewLive(options.Defaults(), func(options.Settings) error { return nil }), Bounds: options.Defaults().Wire, Disk: new(refusing),
	})
	ask := asker(srv, now)
	place := func(sha1 string, line int) string {
		return fmt.Sprintf(" script: %s, on @user_script:%d.\r\n", sha1, line)
	}
	assert.Equal(t, "-MISCONF the disk is full"+place(sha1Ulule, 5), ask("EVALSHA", sha1Ulule, "1", "k", "1", "60000"))
	assert.Equal(t, "*2\r\n:0\r\n:0\r\n", ask("EVALSHA", sha1UlulePeek, "1", "k"))
	incr := "return redis.call('incr', KEYS[1])"
	assert.Equal(t, "-MISCONF the disk is full"+place(sha1Of(incr), 1), ask("EVAL", incr, "1", "k"))
	assert.Equal(t, "$-1\r\n", ask("EVAL", "return redis.call('get', KEYS[1])", "1", "k"))
	assert.Zero(t, store.Keys())
}

// A script that needs memory beyond maxmemory is refused, and nothing of it is stored.
func TestScriptsBeyondMaxmemoryStoreNothing(t *testing.T) {
	now := int64(1_700_000_123) * 1e9
	ask := asker(newQuiet(1, &now), now)
	require.Equal(t, "+OK\r\n", ask("CONFIG", "SET", "maxmemory", "1mb", "maxmemory-policy", "noeviction"))
	for i := 0; ; i++ {
		reply := ask("EVALSHA", sha1Ulule, "1", fmt.Sprint(strings.Repeat("k", 4000), i), "1", "60000")
		if strings.HasPrefix(reply, "-OOM") {
			assert.Equal(t, ":0\r\n", ask("EXISTS", fmt.Sprint(strings.Repeat("k", 4000), i)))
			break
		}
		require.Equal(t, "*2\r\n:1\r\n:60000\r\n", reply)
		require.Less(t, i, 1000)
	}
	assert.Equal(t, "*2\r\n:2\r\n:60000\r\n", ask("EVALSHA", sha1Ulule, "1", strings.Repeat("k", 4000)+"0", "1", "60000"), "what is there is counted")
}

// A key that is longer than keys may be is refused before a script runs.
func TestScriptsRefuseKeysThatAreTooLong(t *testing.T) {
	now := int64(1_700_000_123) * 1e9
	ask := asker(newQuiet(1, &now), now)
	long := strings.Repeat("k", 4097)
	const refused = "-ERR key is longer than max-key-bytes (4096)\r\n"
	assert.Equal(t, refused, ask("EVALSHA", sha1Ulule, "1", long, "1", "60000"))
	assert.Equal(t, "*2\r\n:1\r\n:60000\r\n", ask("EVALSHA", sha1Ulule, "2", "k", long, "1", "60000"), "a key that the script does not use")
	incr := "return redis.pcall('incr', KEYS[1])"
	assert.Equal(t, refused, ask("EVAL", incr, "1", long))
}

// ACL LOG says of what a script was denied that it was denied in a script, as in Redis.
func TestDenialsInScriptsAreLoggedAsOnRedis(t *testing.T) {
	conversation := words(t, "ACL LOG RESET", "ACL SETUSER bob on >x +eval +get ~k ~l", "AUTH bob x", `EVAL "return redis.call('set', 'k', 1)" 0`,
		`EVAL "return redis.call('get', 'm')" 0`, "AUTH default y", "ACL LOG")
	theirs := askRedis(t, testenv.Redis(t), words(t, "CONFIG SET requirepass y", "AUTH y")+conversation+theEnd)
	ours := askOurs(words(t, "CONFIG SET requirepass y", "AUTH y") + conversation + theEnd)
	reasons := func(log string) (found []string) {
		fields := strings.Split(log, "\r\n")
		for i, f := range fields {
			if slices.Contains([]string{"reason", "context", "object"}, f) && i+2 < len(fields) {
				found = append(found, f+"="+fields[i+2])
			}
		}
		return found
	}
	require.NotEmpty(t, reasons(theirs))
	assert.Equal(t, reasons(theirs), reasons(ours))
	assert.Contains(t, reasons(ours), "context=lua")
}

// CLIENT PAUSE WRITE holds scripts that may write, and no others.
func TestPauseOfWritesHoldsScriptsThatMayWrite(t *testing.T) {
	s := newSubject(t, nil)
	dial := s.onSocket(t)
	operator, writer, reader := connect(t, dial), connect(t, dial), connect(t, dial)
	writer.ask("CLIENT SETNAME writer", "+OK\r\n")
	operator.ask("CLIENT PAUSE 3600000 WRITE", "+OK\r\n")
	writer.send("EVALSHA " + sha1Ulule + " 1 k 1 60000\r\n")
	operator.eventually(1, " name=writer .* flags=[a-zA-Z]*b")
	reader.ask("EVALSHA_RO "+sha1UlulePeek+" 1 k", "*2\r\n:0\r\n:0\r\n")
	operator.ask("CLIENT UNPAUSE", "+OK\r\n")
	writer.expect("*2\r\n:1\r\n:60000\r\n")
}

// A script that fails on a limit's key leaves that key its deadline, though it has changed another.
func TestScriptThatFailsOnALimitLeavesItsDeadline(t *testing.T) {
	now := int64(1_700_000_123) * 1e9
	for _, limit := range [][]string{{"CL.THROTTLE", "b", "15", "1", "60", "5"}, {"CL.WINDOW", "b", "5", "60"}, {"CL.ZSLIDE", "b", "5", "60"}} {
		ask := asker(newQuiet(8, &now), now)
		ask(limit...)
		require.Equal(t, ":1\r\n", ask("EXPIRE", "b", "10"))
		reply := ask("EVALSHA", "f1e0da9c495676ab6904eb80db1f2811d5347f58", "2", "a", "b", "name", "60000", "2", "30000")
		assert.True(t, strings.HasPrefix(reply, "-WRONGTYPE"), reply)
		assert.Equal(t, "$1\r\n1\r\n", ask("GET", "a"), "what it has written before stays")
		assert.Equal(t, ":10\r\n", ask("TTL", "b"), "%s", limit)
	}
}
