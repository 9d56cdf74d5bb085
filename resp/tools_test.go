package resp_test

import (
	"fmt"
	"math/rand/v2"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"cellserver/internal/testing/testenv"
	"cellserver/resp"
)

// CLUSTER KEYSLOT returns the same slots as in a Redis cluster, for hash tags of any form.
func TestKeySlotsAsRedis(t *testing.T) {
	socket := testenv.Redis(t, "--cluster-enabled", "yes")
	random := rand.New(rand.NewPCG(3, 4))
	var sent []byte
	for range 5000 {
		key := make([]byte, random.IntN(12))
		for i := range key {
			if key[i] = "{}ab"[random.IntN(4)]; random.IntN(8) == 0 {
				key[i] = byte(random.IntN(256))
			}
		}
		sent = append(sent, multibulk("CLUSTER", "KEYSLOT", string(key))...)
	}
	assert.Equal(t, askRedis(t, socket, string(sent)+theEnd), askOurs(string(sent)+theEnd))
}

// CLIENT TRACKING and similar commands have the replies of Redis under RESP3. The pushed messages differ deliberately.
func TestTrackingAsRedis(t *testing.T) {
	socket := testenv.Redis(t)
	after := func(reply string) string {
		_, rest, found := strings.Cut(reply, "+here\r\n")
		require.True(t, found, "%.200q", reply)
		return rest
	}
	for _, lines := range [][]string{
		{"CLIENT TRACKINGINFO", "CLIENT GETREDIR"},
		{"CLIENT TRACKING ON OPTIN", "CLIENT TRACKINGINFO", "CLIENT GETREDIR", "CLIENT TRACKING OFF", "CLIENT TRACKINGINFO", "CLIENT GETREDIR"},
		{"CLIENT TRACKING ON OPTIN", "CLIENT CACHING YES", "CLIENT TRACKINGINFO", "CLIENT ID x", "CLIENT TRACKINGINFO", "PING", "CLIENT TRACKINGINFO"},
		{"CLIENT TRACKING ON OPTIN", "CLIENT CACHING YES", "foo", "CLIENT TRACKINGINFO"},
		{"CLIENT TRACKING ON OPTIN", "CLIENT CACHING YES", "MULTI", "PING", "CLIENT TRACKINGINFO", "EXEC", "CLIENT TRACKINGINFO"},
		{"CLIENT TRACKING ON OPTIN", "MULTI", "CLIENT CACHING YES", "CLIENT TRACKINGINFO", "PING", "CLIENT TRACKINGINFO", "EXEC", "CLIENT TRACKINGINFO"},
		{"CLIENT TRACKING ON OPTIN", "CLIENT CACHING YES", "MULTI", "PING", "DISCARD", "CLIENT TRACKINGINFO"},
		{"CLIENT TRACKING ON OPTIN", "CLIENT CACHING FOO", "CLIENT CACHING NO", "CLIENT TRACKINGINFO"},
		{"CLIENT TRACKING OFF", "CLIENT CACHING YES", "CLIENT CACHING NO", "CLIENT TRACKING OFF OPTIN"},
		{"CLIENT TRACKING ON OPTIN", "RESET", "CLIENT TRACKINGINFO", "CLIENT CACHING YES"},
		{"CLIENT TRACKING ON OPTIN OPTIN", "CLIENT TRACKING ON OPTIN", "CLIENT TRACKINGINFO"},
	} {
		// The marker is a status, which no earlier reply contains.
		sent := words(t, append([]string{"HELLO 3", "CLIENT SETNAME x", "CLIENT REPLY FOO"}, lines...)...) + theEnd
		mark := func(reply string) string {
			return after(strings.Replace(reply, "+OK\r\n-ERR syntax error\r\n", "+here\r\n", 1))
		}
		assert.Equal(t, mark(askRedis(t, socket, sent)), mark(askOurs(sent)), "%s", lines)
	}
}

// DEBUG SLEEP delays its own connection and no other, and works only for clients that enable-debug-command allows.
func TestDebugSleepDelaysOnlyItsOwnConnection(t *testing.T) {
	limits := func(s *subject, debug string) {
		l := resp.DefaultBounds()
		l.Debug = debug
		s.SetBounds(l)
	}
	bubble(t, "yes", func(t *testing.T) {
		s := newSubject(t, nil)
		limits(s, resp.DebugAnybody)
		l := s.inMemory(t)
		p, q := connect(t, l.Dial), connect(t, l.Dial)
		began := time.Now()
		p.send("DEBUG SLEEP 2.5\r\nMULTI\r\nCL.WINDOW k 5 60\r\nDEBUG SLEEP 1\r\nEXEC\r\n")
		synctest.Wait()
		q.ask("CL.WINDOW k 5 60", "*5\r\n:0\r\n:5\r\n:4\r\n:-1\r\n:60\r\n")
		assert.Zero(t, time.Since(began), "others are answered at once")
		p.expect("+OK\r\n+OK\r\n+QUEUED\r\n+QUEUED\r\n*2\r\n*5\r\n:0\r\n:5\r\n:3\r\n:-1\r\n:58\r\n+OK\r\n")
		assert.Equal(t, 3500*time.Millisecond, time.Since(began))
		for _, wrong := range []string{"x", `""`, "1x", "nan", "0x1p3", "1_0"} {
			p.ask("DEBUG SLEEP "+wrong, "-ERR value is not a valid float\r\n")
		}
		for _, wrong := range []string{"-1", "inf", "1e300"} {
			p.ask("DEBUG SLEEP "+wrong, "-ERR value is out of range, must be between 0 and 31536000\r\n")
		}
		p.ask("DEBUG FOO", "-ERR unknown subcommand or wrong number of arguments for 'FOO'. Try DEBUG HELP.\r\n")
		p.ask("DEBUG SLEEP", "-ERR unknown subcommand or wrong number of arguments for 'SLEEP'. Try DEBUG HELP.\r\n")
		p.ask("DEBUG SLEEP 0", "+OK\r\n")
		p.ask("debug help", "*5\r\n+DEBUG <subcommand> [<arg> [value] [opt] ...]. Subcommands are:\r\n+SLEEP <seconds>\r\n"+
			"+    Answer after so many seconds, decimals allowed. Only this connection waits.\r\n+HELP\r\n+    Print this help.\r\n")
	})
	bubble(t, "a sleep ends when the server stops", func(t *testing.T) {
		s := newSubject(t, nil)
		limits(s, resp.DebugAnybody)
		p := connect(t, s.inMemory(t).Dial)
		p.send("DEBUG SLEEP 1e6\r\n")
		synctest.Wait()
	})
	for addr, may := range map[string]bool{"127.0.0.1:5": true, "127.8.8.8:5": true, "[::1]:5": true, "10.0.0.1:5": false, "[fe80::1%eth0]:5": false, "": false} {
		assert.Equal(t, may, resp.IsLocal(addr), "%q", addr)
	}
}

// LATENCY GRAPH draws the same graph as Redis.
func TestLatencyGraphAsRedis(t *testing.T) {
	socket := testenv.Redis(t, "--latency-monitor-threshold", "1", "--enable-debug-command", "yes")
	graphs := 0
	for range 10 {
		// The samples and the graph must belong to the same second. Redis draws with time(), whose seconds begin some
		// milliseconds later than those of TIME.
		sent := words(t, "DEBUG SLEEP 0.003", "TIME", "LATENCY HISTORY command", "LATENCY GRAPH command", "TIME")
		var replies []value
		for rest := []byte(askRedis(t, socket, sent+theEnd)); len(rest) > 0; {
			v, after, err := readValue(rest)
			require.NoError(t, err)
			replies, rest = append(replies, v), after
		}
		var second, micros, again, at, took int64
		number := func(v value, to *int64) {
			_, err := fmt.Sscan(regexp.MustCompile(`\d+\r\n\z`).FindString(string(v.appendTo(nil))), to)
			require.NoError(t, err)
		}
		number(replies[1].items[0], &second)
		number(replies[1].items[1], &micros)
		number(replies[4].items[0], &again)
		if second != again || micros < 20_000 {
			continue
		}
		var samples [][2]int64
		for _, sample := range replies[2].items {
			number(sample.items[0], &at)
			number(sample.items[1], &took)
			samples = append(samples, [2]int64{at, took})
		}
		_, text, _ := strings.Cut(string(replies[3].appendTo(nil)), "\r\n")
		require.Equal(t, strings.TrimSuffix(text, "\r\n"), resp.DrawLatencies("command", samples, second))
		graphs++
	}
	assert.NotZero(t, graphs)

	// Several spikes and their ages.
	now := int64(1_700_000_000)
	samples := [][2]int64{{now - 90000, 10}, {now - 7300, 20}, {now - 130, 55}, {now - 59, 100}, {now, 10}}
	assert.Equal(t, []string{
		"command - high 100 ms, low 10 ms (all time high 100 ms)",
		strings.Repeat("-", 80),
		"   # ",
		"  _| ",
		"  || ",
		"_o||_",
		"     ",
		"12250",
		"dhm9s",
		"   s ",
		"",
	}, strings.Split(resp.DrawLatencies("command", samples, now), "\n"))
}
