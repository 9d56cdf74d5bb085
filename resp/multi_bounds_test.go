package resp_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"cellserver/resp"
)

// boundsAt is the time of these tests.
const boundsAt = int64(1_700_000_123) * 1e9

// filled returns a connection to a new server with the given number of keys.
func filled(t *testing.T, keys int) (*resp.Server, *resp.TestConn) {
	t.Helper()
	now := boundsAt
	srv := newQuiet(8, &now)
	c := resp.NewTestConn(srv, now)
	var b []byte
	for n := range keys {
		b = append(b, multibulk("CL.WINDOW", fmt.Sprint("key:", n), "5", "60")...)
	}
	c.Feed(now, b)
	require.Equal(t, fmt.Sprintf(":%d\r\n", keys), string(c.Feed(now, multibulk("DBSIZE"))))
	return srv, c
}

// transact runs lines as a transaction and returns the replies.
func transact(t *testing.T, c *resp.TestConn, lines ...string) []value {
	t.Helper()
	reply := string(c.Feed(boundsAt, []byte(words(t, append(append([]string{"MULTI"}, lines...), "EXEC")...))))
	_, replies, found := strings.Cut(reply, strings.Repeat("+QUEUED\r\n", len(lines)))
	require.True(t, found, "%.200q", reply)
	v, rest, err := readValue([]byte(replies))
	require.NoError(t, err)
	require.Empty(t, rest)
	require.Len(t, v.items, len(lines))
	return v.items
}

const tooManyKeys = "-ERR KEYS and SCAN may visit at most 1000 keys in one transaction (multi-max-commands)\r\n"

// All clients wait while a transaction runs, so the commands of a transaction visit a bounded number of keys together, however
// they are divided.
func TestScansInTransactionsAreBounded(t *testing.T) {
	_, c := filled(t, 5000)
	c.Feed(boundsAt, multibulk("CONFIG", "SET", "multi-max-commands", "1000"))
	text := func(v value) string { return string(v.appendTo(nil)) }

	for _, line := range []string{"KEYS *", "KEYS nothing"} {
		got := transact(t, c, "CL.WINDOW key:0 5 60", line, "PING", line)
		assert.Equal(t, "*5\r\n:0\r\n:5\r\n", text(got[0])[:len("*5\r\n:0\r\n:5\r\n")], "what stands beside it goes on")
		assert.Equal(t, tooManyKeys, text(got[1]), line)
		assert.Equal(t, "+PONG\r\n", text(got[2]))
		assert.Equal(t, tooManyKeys, text(got[3]), line)
	}

	got := transact(t, c, "SCAN 0 COUNT 1000000", "SCAN 0 COUNT 10", "KEYS *", "DBSIZE", "RANDOMKEY")
	cursor := got[0].items[0]
	assert.NotEqual(t, "$1\r\n0\r\n", text(cursor), "it is not through")
	assert.InDelta(t, 1000, len(got[0].items[1].items), 200)
	assert.Equal(t, tooManyKeys, text(got[1]))
	assert.Equal(t, tooManyKeys, text(got[2]))
	assert.Equal(t, ":5000\r\n", text(got[3]))
	assert.Contains(t, text(got[4]), "key:")

	many := make([]string, 1000)
	for i := range many {
		many[i] = "SCAN 0 COUNT 10"
	}
	seen := 0
	for _, v := range transact(t, c, many...) {
		if text(v) != tooManyKeys {
			seen += len(v.items[1].items)
		}
	}
	assert.InDelta(t, 1000, seen, 200, "all of them together")

	// Outside of a transaction, and with fewer keys, every key is found, and a scan that continues over transactions ends.
	reply := c.Feed(boundsAt, multibulk("KEYS", "*"))
	assert.True(t, strings.HasPrefix(string(reply), "*5000\r\n"))
	found := make(map[string]bool)
	for at := "0"; ; {
		scanned := transact(t, c, "SCAN "+at+" COUNT 5000")[0]
		for _, key := range scanned.items[1].items {
			found[text(key)] = true
		}
		_, at, _ = strings.Cut(strings.TrimSuffix(text(scanned.items[0]), "\r\n"), "\r\n")
		if at == "0" {
			break
		}
	}
	assert.Len(t, found, 5000)
	_, small := filled(t, 1000)
	small.Feed(boundsAt, multibulk("CONFIG", "SET", "multi-max-commands", "1000"))
	assert.Len(t, transact(t, small, "KEYS *")[0].items, 1000, "as many as may be visited")
}

// A CONFIG SET that starts a journal waits for the keys that a transaction holds. A command that waits for that CONFIG SET must
// not run before the transaction has released its keys.
func TestTransactionsNeverDeadlockWithConfigSet(t *testing.T) {
	now := boundsAt
	srv := newQuiet(8, &now)
	var wait sync.WaitGroup
	say := func(lines ...string) {
		c := resp.NewTestConn(srv, now)
		sent := []byte(words(t, lines...))
		wait.Go(func() {
			for range 300 {
				c.Feed(now, sent)
			}
		})
	}
	say("CONFIG SET appendonly yes", "CONFIG SET appendonly no")
	say("MULTI", "CL.WINDOW a 5 60", "CONFIG GET *", "FLUSHALL", "CONFIG RESETSTAT", "EXEC")
	say("MULTI", "CL.WINDOW b 5 60", "CONFIG SET appendonly yes", "KEYS *", "CONFIG SET appendonly no", "INFO", "EXEC")
	say("MULTI", "CL.WINDOW c 5 60", "BGSAVE", "BGREWRITEAOF", "CONFIG REWRITE", "DBSIZE", "EXEC")
	done := make(chan struct{})
	go func() { wait.Wait(); close(done) }()
	select {
	case <-done:
	case <-time.After(patience):
		t.Fatal("they wait for each other")
	}
}

// Clients send COMMAND and COMMAND DOCS when they connect, so the server builds the replies once for each protocol.
func TestCommandRepliesAreBuiltOncePerProtocol(t *testing.T) {
	now := boundsAt
	srv := newQuiet(1, &now)
	for _, hello := range []string{"2", "3"} {
		for _, line := range [][]string{{"COMMAND"}, {"COMMAND", "DOCS"}, {"COMMAND", "INFO"}} {
			c := resp.NewTestConn(srv, now)
			c.Feed(now, multibulk("HELLO", hello))
			sent := multibulk(line...)
			first := string(c.Feed(now, sent))
			assert.Equal(t, first, string(c.Feed(now, sent)), "%s", line)
			fresh := resp.NewTestConn(newQuiet(1, &now), now)
			fresh.Feed(now, multibulk("HELLO", hello))
			assert.Equal(t, string(fresh.Feed(now, sent)), first, "%s in RESP%s", line, hello)
			if !raceDetector {
				assert.Less(t, testing.AllocsPerRun(10, func() { c.Feed(now, sent) }), 50.0, "%s", line)
			}
		}
	}
}
