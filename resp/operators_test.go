package resp_test

import (
	"context"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"cellserver/buckets"
	"cellserver/buckets/memory"
)

func TestMonitorShowsCommandsButNoSecrets(t *testing.T) {
	bubble(t, "shows commands, and no secrets", func(t *testing.T) {
		l := newSubject(t, nil).inMemory(t)
		m, p := connect(t, l.Dial), connect(t, l.Dial)
		greeting := repliesOfHello(p)
		m.ask("MONITOR", "+OK\r\n")
		m.ask("MONITOR", "+OK\r\n")
		p.ask("PING", "+PONG\r\n")
		p.ask(`ECHO "a\r\n\"\x00\xff b"`, "$8\r\na\r\n\"\x00\xff b\r\n")
		p.ask("CONFIG SET maxclients 9000", "+OK\r\n") // a command for operators
		p.ask("HELLO 2 SETNAME x AUTH default secret", greeting)
		p.ask("MULTI", "+OK\r\n")
		p.ask("ECHO x", "+QUEUED\r\n")
		p.ask("EXEC", "*1\r\n$1\r\nx\r\n")
		for _, want := range []string{
			`"PING"`, `"ECHO" "a\r\n\"\x00\xff b"`,
			`"HELLO" "2" "SETNAME" "x" "AUTH" "(redacted)" "(redacted)"`, `"MULTI"`, `"ECHO" "x"`, `"EXEC"`,
		} {
			line, err := m.r.ReadString('\n')
			require.NoError(t, err)
			assert.Regexp(t, `^\+\d+\.\d{6} \[0 pipe\] `, line)
			assert.True(t, strings.HasSuffix(line, "] "+want+"\r\n"), line)
		}
		p.ask("QUIT", "+OK\r\n")
		m.send("CLIENT INFO\r\n")
		var info strings.Builder
		for !strings.Contains(info.String(), "lib-ver") {
			line, err := m.r.ReadString('\n')
			require.NoError(t, err)
			info.WriteString(line)
		}
		assert.Contains(t, info.String(), "flags=O ")
	})
	bubble(t, "one who does not read is dropped, and the others go on", func(t *testing.T) {
		l := newSubject(t, nil, "client-output-buffer-limit normal 100000 0 0").inMemory(t)
		m, p := connect(t, l.Dial), connect(t, l.Dial)
		m.ask("MONITOR", "+OK\r\n")
		long := strings.Repeat("x", 50_000)
		for range 10 {
			p.ask("ECHO "+long, "$50000\r\n"+long+"\r\n")
		}
		synctest.Wait()
		p.send("CLIENT LIST\r\n")
		p.expect("$")
		_, err := p.r.ReadString('\n')
		require.NoError(t, err)
		line, err := p.r.ReadString('\n')
		require.NoError(t, err)
		assert.Contains(t, line, "cmd=client|list", "only this one is left")
	})
}

// repliesOfHello returns the reply to HELLO, so that a later one can be compared.
func repliesOfHello(p *peer) string {
	p.send("HELLO 2\r\n")
	p.send("ECHO end\r\n")
	var b strings.Builder
	for !strings.HasSuffix(b.String(), "$3\r\nend\r\n") {
		c, err := p.r.ReadByte()
		require.NoError(p.t, err)
		b.WriteByte(c)
	}
	return strings.TrimSuffix(b.String(), "$3\r\nend\r\n")
}

func TestClientPauseHoldsCommandsUntilItEnds(t *testing.T) {
	bubble(t, "writes wait, what comes before them is sent", func(t *testing.T) {
		l := newSubject(t, nil).inMemory(t)
		o, p := connect(t, l.Dial), connect(t, l.Dial)
		o.ask("CLIENT PAUSE 5000 WRITE", "+OK\r\n")
		began := time.Now()
		p.ask("PING", "+PONG\r\n")
		p.send("PING\r\nCL.THROTTLE k 15 30 60\r\nPING\r\n")
		p.expect("+PONG\r\n")
		assert.Zero(t, time.Since(began))
		p.expect("*5\r\n:0\r\n:16\r\n:15\r\n:-1\r\n:2\r\n+PONG\r\n")
		assert.Equal(t, 5*time.Second, time.Since(began))
	})
	bubble(t, "until it is ended, from a connection that is held itself", func(t *testing.T) {
		l := newSubject(t, nil).inMemory(t)
		o, p := connect(t, l.Dial), connect(t, l.Dial)
		o.ask("CLIENT PAUSE 60000", "+OK\r\n")
		o.ask("CLIENT PAUSE 1", "+OK\r\n")
		p.send("PING\r\n")
		synctest.Wait()
		time.Sleep(10 * time.Second)
		began := time.Now()
		o.ask("CLIENT UNPAUSE", "+OK\r\n")
		p.expect("+PONG\r\n")
		assert.Zero(t, time.Since(began), "the longer of two pauses counts, and its end")
	})
	bubble(t, "it does not keep the server from stopping", func(t *testing.T) {
		s := newSubject(t, nil)
		l := s.inMemory(t)
		o, p := connect(t, l.Dial), connect(t, l.Dial)
		o.ask("CLIENT PAUSE 60000", "+OK\r\n")
		p.send("PING\r\n")
		synctest.Wait()
		began := time.Now()
		stopped := make(chan error)
		go func() { stopped <- s.Shutdown(t.Context()) }()
		p.expect("+PONG\r\n")
		require.NoError(t, <-stopped)
		assert.Less(t, time.Since(began), 10*time.Second)
	})
}

func TestClientKillEndsOtherConnections(t *testing.T) {
	bubble(t, "ends others", func(t *testing.T) {
		l := newSubject(t, nil).inMemory(t)
		p, q := connect(t, l.Dial), connect(t, l.Dial)
		p.ask("CLIENT ID", ":1\r\n")
		q.ask("CLIENT KILL ID 1", ":1\r\n")
		p.expectEOF()
		synctest.Wait()
		q.ask("CLIENT KILL ID 1", ":0\r\n")
	})
	t.Run("a client connects anew", func(t *testing.T) {
		dial := newSubject(t, nil).onSocket(t)
		c := redis.NewClient(&redis.Options{Dialer: func(context.Context, string, string) (net.Conn, error) { return dial() }})
		t.Cleanup(func() { assert.NoError(t, c.Close()) })
		id, err := c.ClientID(t.Context()).Result()
		require.NoError(t, err)
		connect(t, dial).ask("CLIENT KILL TYPE normal", ":1\r\n")
		require.NoError(t, c.Ping(t.Context()).Err())
		again, err := c.ClientID(t.Context()).Result()
		require.NoError(t, err)
		assert.Greater(t, again, id)
	})
}

// late is a store whose decisions take time.
type late struct {
	*memory.Store
	takes time.Duration
}

func (s late) Len(ctx context.Context, now int64) (int64, error) {
	time.Sleep(s.takes)
	return s.Store.Len(ctx, now)
}

func (s late) Atomically(ctx context.Context, now int64, keys [][]byte, everything bool, run func(buckets.Store)) error {
	return s.Store.Atomically(ctx, now, keys, everything, func(held buckets.Store) {
		run(late{held.(*memory.Store), s.takes})
	})
}

func (s late) Decide(now int64, key []byte, l *buckets.Limit, quantity int64, peek bool, d *buckets.Decision) error {
	time.Sleep(s.takes)
	return s.Store.Decide(now, key, l, quantity, peek, d)
}

func TestSlowCommandsAreInTheSlowLog(t *testing.T) {
	bubble(t, "slowlog and latency", func(t *testing.T) {
		store := late{memory.NewStore(1), 20 * time.Millisecond}
		l := newSubject(t, store, "latency-monitor-threshold 15", "slowlog-max-len 2").inMemory(t)
		p := connect(t, l.Dial)
		p.ask("CLIENT SETNAME me", "+OK\r\n")
		p.ask("DBSIZE", ":0\r\n")
		at := time.Now().Unix()
		p.ask("CL.THROTTLE k 15 30 60", "*5\r\n:0\r\n:16\r\n:15\r\n:-1\r\n:2\r\n")
		c := newClient(t, l, nil)
		logs, err := c.SlowLogGet(t.Context(), -1).Result()
		require.NoError(t, err)
		require.Len(t, logs, 2)
		assert.Equal(t, []string{"CL.THROTTLE", "(on average, in a pipeline)"}, logs[0].Args)
		assert.Equal(t, []string{"DBSIZE"}, logs[1].Args)
		assert.Equal(t, "me", logs[1].ClientName)
		assert.Equal(t, 20*time.Millisecond, logs[0].Duration)
		assert.Equal(t, 20*time.Millisecond, logs[1].Duration)
		assert.Equal(t, at, logs[1].Time.Unix())
		p.ask("DBSIZE", ":1\r\n")
		p.ask("SLOWLOG LEN", ":2\r\n")
		latest, err := c.Do(t.Context(), "LATENCY", "LATEST").Slice()
		require.NoError(t, err)
		assert.Equal(t, []any{
			[]any{"command", at, int64(20), int64(20)}, []any{"fast-command", at, int64(20), int64(20)},
		}, latest)
		p.ask("LATENCY RESET command", ":1\r\n")
		p.ask("LATENCY HISTORY command", "*0\r\n")
	})
}
