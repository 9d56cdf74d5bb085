package cluster

import (
	"fmt"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"cellserver/buckets"
	"cellserver/internal/testing/engines"
)

func TestFrames(t *testing.T) {
	key, old, value := []byte("k"), []byte("old"), []byte("a\r\n")
	for _, row := range []struct {
		swap  swap
		frame string
	}{
		{swap{key: key}, "*2|$3|GET|$1|k|"},
		{swap{key: key, mode: create, new: value, ttl: 1500}, "*7|$3|SET|$1|k|$3|a\r\n|$2|NX|$3|GET|$2|PX|$4|1500|"},
		{swap{key: key, mode: create, new: value}, "*5|$3|SET|$1|k|$3|a\r\n|$2|NX|$3|GET|"},
		{swap{key: key, mode: replace, old: old, new: value, ttl: 1}, "*8|$3|SET|$1|k|$3|a\r\n|$4|IFEQ|$3|old|$3|GET|$2|PX|$1|1|"},
		{swap{key: []byte{}, mode: replace, old: []byte{}, new: []byte{}}, "*6|$3|SET|$0||$0||$4|IFEQ|$0||$3|GET|"},
	} {
		assert.Equal(t, strings.ReplaceAll(row.frame, "|", "\r\n"), string(appendFrame(nil, &row.swap)))
	}
	assert.Equal(t, "*3\r\n$4\r\nWAIT\r\n$1\r\n2\r\n$2\r\n25\r\n", string(appendWait(nil, 2, 25)))
}

func TestRepliesOfTheHotPath(t *testing.T) {
	for _, row := range []struct {
		bytes string
		reply reply
		size  int // of what is parsed, or needed
		err   error
	}{
		{"$3\r\nabc\r\nrest", reply{kind: '$', text: []byte("abc")}, 9, nil},
		{"$0\r\n\r\n", reply{kind: '$', text: []byte{}}, 6, nil},
		{"$-1\r\n", reply{kind: '$', null: true}, 5, nil},
		{"-OOM no\r\n", reply{kind: '-', text: []byte("OOM no")}, 9, nil},
		{"+OK\r\n", reply{kind: '+', text: []byte("OK")}, 5, nil},
		{":12\r\n", reply{kind: ':', n: 12}, 5, nil},
		{"", reply{}, 1, nil},
		{"$", reply{}, 2, nil},
		{"$3\r", reply{}, 4, nil},
		{"$10\r\nabc", reply{}, 17, nil},
		{"$536870912\r\n", reply{}, 12 + 1<<29 + 2, nil},
		{"-OOM", reply{}, 5, nil},
		{"$536870913\r\n", reply{}, 0, errReplyLarge},
		{"$9223372036854775807\r\n", reply{}, 0, errProtocol},
		{"$-2\r\n", reply{}, 0, errProtocol},
		{"$+1\r\n", reply{}, 0, errProtocol},
		{"$\r\n", reply{}, 0, errProtocol},
		{"$1 \r\n", reply{}, 0, errProtocol},
		{"$3\nabc", reply{}, 0, errProtocol},
		{"$3\r\nabcde", reply{}, 0, errProtocol},
		{":-1\r\n", reply{}, 0, errProtocol},
		{"\n", reply{}, 0, errProtocol},
		{"-\n", reply{}, 0, errProtocol},
		{"*1\r\n", reply{}, 0, errProtocol},
		{"_\r\n", reply{}, 0, errProtocol},
		{">3\r\n", reply{}, 0, errProtocol},
		{"HTTP/1.1 400 Bad Request\r\n", reply{}, 0, errProtocol},
		{"-" + strings.Repeat("x", maxReplyLine), reply{}, 0, errReplyLarge},
	} {
		r, size, err := parseReply([]byte(row.bytes))
		about := row.bytes[:min(len(row.bytes), 30)]
		assert.Equal(t, row.err, err, about)
		assert.Equal(t, row.reply, r, about)
		assert.Equal(t, row.size, size, about)
	}
}

// Whatever arrives, a reply lies within it, what is missing is more than what is there, and less of the same is not another reply.
func FuzzParseReply(f *testing.F) {
	for _, seed := range []string{"$3\r\nabc\r\n", "$-1\r\n", "-ERR no\r\n", "+OK\r\n", ":1\r\n", "$99999999999\r\n", "*1\r\n$1\r\na\r\n"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		r, size, err := parseReply(b)
		switch {
		case err != nil:
			require.Zero(t, r)
			require.Zero(t, size)
		case r.kind == 0:
			require.Greater(t, size, len(b))
			require.LessOrEqual(t, size, maxReplyBulk+maxReplyLine)
		default:
			require.LessOrEqual(t, size, len(b))
			for short := range size {
				part, needed, err := parseReply(b[:short])
				require.NoError(t, err)
				require.Zero(t, part)
				require.Greater(t, needed, short)
			}
		}
	})
}

func TestEngineErrorsAreOneLine(t *testing.T) {
	assert.Equal(t, engineError("ERR a?b?c"), newEngineError([]byte("ERR a\nb\xffc")))
	assert.Len(t, newEngineError([]byte(strings.Repeat("x", 5000))), maxErrorText)
}

// liar passes connections on to a server, and puts other bytes in the place of the replies to SET while it is told to.
type liar struct {
	listener net.Listener
	to       string
	lie      atomic.Pointer[string]
	group    sync.WaitGroup
}

func startLiar(t *testing.T, to string) *liar {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	l := &liar{listener: listener, to: to}
	l.group.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			l.group.Go(func() { l.serve(conn) })
		}
	})
	t.Cleanup(func() {
		_ = listener.Close()
		l.group.Wait()
	})
	return l
}

func (l *liar) serve(client net.Conn) {
	defer client.Close()
	server, err := net.Dial("tcp", l.to)
	if err != nil {
		return
	}
	defer server.Close()
	var set atomic.Bool
	done := make(chan struct{})
	go func() {
		defer close(done)
		buf := make([]byte, 64<<10)
		for {
			n, err := client.Read(buf)
			set.Store(strings.Contains(string(buf[:n]), "SET\r\n") && !strings.Contains(string(buf[:n]), "SETNAME"))
			if err != nil {
				_ = server.Close()
				return
			}
			_, _ = server.Write(buf[:n])
		}
	}()
	buf := make([]byte, 64<<10)
	for {
		n, err := server.Read(buf)
		if err != nil {
			break
		}
		out := buf[:n]
		if lie := l.lie.Load(); lie != nil && set.Load() {
			out = []byte(*lie)
		}
		if _, err := client.Write(out); err != nil {
			break
		}
	}
	_ = client.Close()
	<-done
}

// A server that sends what is no reply costs the requests that are under way, and no more.
func TestMalformedReplies(t *testing.T) {
	n := engines.Standalone(t, engines.Valkey81)
	liar := startLiar(t, n.Addr())
	s := openAt(t, liar.listener.Addr().String(), nil)
	l := mustLimit(buckets.NewWindow(1000000, 3600*second))
	require.NoError(t, apply(t, s, takeOp("a", l, 1)).Err)
	for i, lie := range []string{"\x00\x00", "*1\r\n$1\r\na\r\n", "$9999999999999\r\n", ":1\r\n", "+OK\r\n", "$-1\r\n$-1\r\n$-1\r\n", "-" + strings.Repeat("x", 100000)} {
		liar.lie.Store(&lie)
		op := apply(t, s, takeOp("a", l, 1))
		if lie[0] != '$' || lie[1] != '-' {
			var away *buckets.Unavailable
			require.ErrorAs(t, op.Err, &away, "%q", lie)
			require.True(t, away.Unknown)
		}
		liar.lie.Store(nil)
		require.Eventually(t, func() bool { return apply(t, s, takeOp(fmt.Sprint(i), l, 1)).Err == nil }, 10*time.Second, time.Millisecond)
	}
	// What was lied about was done once or not at all.
	direct := openAt(t, n.Addr(), func(c *Config, _ *Rules) { c.Prefix = s.config.Prefix })
	used := 1000000 - apply(t, direct, takeOp("a", l, 0)).Decision.Remaining
	assert.LessOrEqual(t, used, int64(8))
	assert.Positive(t, used)
}
