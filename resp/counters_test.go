package resp_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"cellserver/buckets/memory"
	"cellserver/resp"
)

const outOfMemory = "-OOM command not allowed when used memory > 'maxmemory'.\r\n"

// Without memory, a command that would make a counter is refused and has changed nothing. What a counter that exists is asked
// for needs no memory.
func TestCountersWhenMemoryIsFull(t *testing.T) {
	store := memory.NewStore(1)
	now := int64(1_700_000_123) * 1e9
	s := newSubject(t, store)
	c := resp.NewTestConn(s.Server, now)
	ask := func(line string) string { return string(c.Feed(now, []byte(words(t, line)))) }
	require.Equal(t, "+OK\r\n", ask("MSET a 1 b 2"))
	require.Equal(t, "+OK\r\n", ask("SET expires 3 EX 100"))
	store.SetMemory(1, false)
	last := 0
	for reply := "+OK\r\n"; reply != outOfMemory; last++ { // what is allocated is filled first
		reply = ask(fmt.Sprintf("SET k:%03d 1", last))
		require.Less(t, last, 1000)
	}
	require.Equal(t, outOfMemory, ask("SET new 1"))
	for _, line := range []string{"SET new 1", "SET new 1 NX EX 10", "SET new 1 GET", "SETEX new 10 1", "PSETEX new 10000 1", "SETNX new 1", "GETSET new 1", "INCR new", "DECR new",
		"INCRBY new 5", "DECRBY new 5", "INCREX new EX 10", "MSET a 7 new 1", "MSET new 1 a 7"} {
		require.Equal(t, outOfMemory, ask(line), line)
	}
	assert.Equal(t, "*3\r\n$1\r\n1\r\n$-1\r\n$1\r\n2\r\n", ask("MGET a new b"), "nothing was changed")
	for _, one := range [][2]string{
		{"INCR a", ":2\r\n"}, {"SET a 9", "+OK\r\n"}, {"SET a 10 EX 50", "+OK\r\n"}, {"EXPIRE b 50", ":1\r\n"}, {"PERSIST b", ":1\r\n"}, {"INCREX a UBOUND 11", "*2\r\n:11\r\n:1\r\n"},
		{"GETEX expires PERSIST", "$1\r\n3\r\n"}, {"MSET a 1 b 2", "+OK\r\n"}, {"SET new 1 XX", "$-1\r\n"}, {"SET a 1 NX", "$-1\r\n"}, {"SETNX a 1", ":0\r\n"},
		{"GETDEL expires", "$1\r\n3\r\n"}, {"DECRBY a 5", ":-4\r\n"},
	} {
		assert.Equal(t, one[1], ask(one[0]), one[0])
	}
}

// Of the keys that are looked at to evict one, a counter that never expires is the last to go: those that expire are forgotten
// first, however far away their expiry is.
func TestCountersWithoutExpiryAreEvictedLast(t *testing.T) {
	store := memory.NewStore(1)
	now := int64(1_700_000_123) * 1e9
	c := resp.NewTestConn(newSubject(t, store).Server, now)
	ask := func(line string) string { return string(c.Feed(now, []byte(words(t, line)))) }
	const lasting, limit = 40, 64 << 10
	for i := range lasting {
		require.Equal(t, "+OK\r\n", ask(fmt.Sprintf("SET lasting:%d %d", i, i)))
	}
	store.SetMemory(limit, true)
	for i := range 20_000 {
		require.Equal(t, "+OK\r\n", ask(fmt.Sprintf("SET k:%d 1 EX %d", i, 1_000_000+i)))
	}
	require.Greater(t, store.Stats().Evicted, uint64(10_000))
	require.LessOrEqual(t, store.Bytes(), int64(limit+limit/8))
	left := 0
	for i := range lasting {
		left += strings.Count(ask(fmt.Sprintf("EXISTS lasting:%d", i)), ":1")
	}
	assert.Equal(t, lasting, left)
}
