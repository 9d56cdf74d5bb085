package test

import (
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"cellserver/internal/testing/engines"
	"cellserver/internal/testing/testcert"
)

// answer sends an inline command and returns the first line of the reply.
func (c *raw) answer(line string) string {
	c.t.Helper()
	_, err := fmt.Fprintf(c, "%s\r\n", line)
	require.NoError(c.t, err)
	got, err := c.r.ReadString('\n')
	require.NoError(c.t, err)
	return got
}

// Any number of servers share the keys of an engine, and lose nothing when they stop. The engine comes and goes.
func TestServersShareAnEngine(t *testing.T) {
	const password = "OpenSesame"
	authority := testcert.NewAuthority(t, "engines")
	n := engines.Standalone(t, engines.Valkey81, engines.Password(password), engines.TLS(authority))
	dir := t.TempDir()
	ca, secret, conf := filepath.Join(dir, "ca.pem"), filepath.Join(dir, "password"), filepath.Join(dir, "cell.conf")
	require.NoError(t, os.WriteFile(ca, authority.PEM, 0o600))
	require.NoError(t, os.WriteFile(secret, []byte(password+"\n"), 0o600))
	url := "valkeys://" + n.Addr()
	require.NoError(t, os.WriteFile(conf, []byte("store "+url+"\nstore-tls-ca-cert-file "+ca+"\nstore-password-file "+secret+"\nstore-timeout 2000\n"), 0o600))

	a := start(t, conf, "--slowlog-log-slower-than", "0")
	b := start(t, "--store", url, "--store-tls-ca-cert-file", ca, "--store-password", password, "--store-timeout", "2000")
	assert.Regexp(t, ` is ready" .*store=`+url+` engine="valkey 8\.1\.\d+" topology=standalone mechanism=ifeq nodes=1 `, a.log.String())
	first, second := a.raw(t), b.raw(t)
	for i := range 5 {
		c := []*raw{first, second}[i%2]
		c.ask("CL.WINDOW k 5 3600", fmt.Sprintf("*5\r\n:0\r\n:5\r\n:%d\r\n:-1\r\n:3600\r\n", 4-i))
	}
	assert.Equal(t, "*5\r\n", first.answer("CL.WINDOW k 5 3600"))
	require.Equal(t, ":1\r\n", first.answerRest(5))
	first.ask("SELECT 1", "-ERR SELECT is not allowed in cluster mode\r\n")
	first.ask("SAVE", "-ERR this server keeps nothing on disk\r\n")
	first.ask("CONFIG SET appendonly yes", "-ERR CONFIG SET failed (possibly related to argument 'appendonly') - "+
		"appendonly is for keys in memory: with store, the engine keeps them, and writes its own journal (set appendonly no)\r\n")
	first.ask("CONFIG SET store-failure refuse", "+OK\r\n")
	first.ask("CONFIG SET store "+url, "-ERR CONFIG SET failed (possibly related to argument 'store') - can't set immutable config\r\n")

	// One that stops loses nothing.
	a.signal(syscall.SIGTERM)
	assert.Zero(t, a.exit())
	assert.Contains(t, a.log.String(), "msg=stopped")
	first.Close()
	a = start(t, conf)
	first = a.raw(t)
	first.ask("CL.WINDOW k 5 3600 1 PEEK", "*5\r\n:1\r\n")
	first.answerRest(4)

	// The engine goes away, and comes back.
	first.ask("CONFIG SET store-timeout 100", "+OK\r\n")
	n.Stop()
	assert.Regexp(t, `^-CLUSTERDOWN `, first.answer("CL.WINDOW l 5 3600"))
	first.ask("CONFIG SET store-failure admit", "+OK\r\n")
	first.ask("CL.WINDOW l 5 3600", "*5\r\n:0\r\n:5\r\n:4\r\n:-1\r\n:3600\r\n")
	first.ask("CONFIG SET store-failure refuse", "+OK\r\n")
	first.ask("CL.WINDOW l 5 3600 1 MS", "*5\r\n:1\r\n:5\r\n:0\r\n:1000\r\n")
	first.answerRest(1)
	assert.Regexp(t, `^-CLUSTERDOWN `, first.answer("INCR n"))
	first.ask("CONFIG SET store-failure error store-timeout 2000", "+OK\r\n")
	n.Start()
	require.Eventually(t, func() bool { return first.answer("INCR n") == ":1\r\n" }, patience, 10*time.Millisecond)

	// The password is nowhere.
	c := a.client(t)
	shown := fmt.Sprint(c.ConfigGet(t.Context(), "*").Val(), c.Info(t.Context(), "everything").Val(), c.SlowLogGet(t.Context(), -1).Val())
	other := b.client(t)
	shown += fmt.Sprint(other.ConfigGet(t.Context(), "*").Val(), other.Info(t.Context(), "everything").Val())
	assert.Contains(t, shown, url)
	assert.Contains(t, shown, "store_engine:valkey")
	require.NoError(t, c.ConfigRewrite(t.Context()).Err())
	rewritten, err := os.ReadFile(conf)
	require.NoError(t, err)
	assert.Contains(t, string(rewritten), "store-password-file "+secret+"\n")
	for _, text := range []string{shown, string(rewritten), a.log.String(), b.log.String()} {
		assert.NotContains(t, text, password)
	}
}

// answerRest reads so many lines and returns the first.
func (c *raw) answerRest(n int) (first string) {
	c.t.Helper()
	for i := range n {
		line, err := c.r.ReadString('\n')
		require.NoError(c.t, err)
		if i == 0 {
			first = line
		}
	}
	return first
}

// A server that starts while the engine is away serves nevertheless, and finds the engine by itself. SIGTERM ends the wait.
func TestStartWhileTheEngineIsAway(t *testing.T) {
	port := freePort(t)
	own := freePort(t)
	p := launch(t, nil, "--port", own, "--store", "valkey://127.0.0.1:"+port)
	p.says("the engine of the store cannot be reached")
	require.Eventually(t, func() bool { // it answers from when on it catches signals
		c, err := net.Dial("tcp", "127.0.0.1:"+own)
		if err != nil {
			return false
		}
		defer c.Close()
		_, err = io.WriteString(c, "PING\r\n")
		require.NoError(t, err)
		n, err := c.Read(make([]byte, 1))
		return n == 1 && err == nil
	}, 10*time.Second, time.Millisecond)
	p.signal(syscall.SIGTERM)
	assert.Zero(t, p.exit())
	assert.Contains(t, p.log.String(), "stopped while waiting for the engine")

	n := engines.Standalone(t, engines.Valkey81)
	n.Stop()
	s := start(t, "--store", "valkey://"+n.Addr())
	assert.Contains(t, s.log.String(), `msg="the engine is away: requests fail until it is back" store=valkey://`+n.Addr()+` error="`+n.Addr()+`: connection refused`)
	c := s.raw(t)
	assert.Regexp(t, `^-CLUSTERDOWN `, c.answer("CL.WINDOW k 5 3600"))
	n.Start()
	s.says("the engine was reached")
	c.ask("CONFIG SET store-timeout 2000", "+OK\r\n")
	c.ask("CL.WINDOW k 5 3600", "*5\r\n:0\r\n:5\r\n:4\r\n:-1\r\n:3600\r\n")
}

func TestWrongSettingsOfTheStoreStopTheStart(t *testing.T) {
	missing := filepath.Join(t.TempDir(), "missing")
	for _, row := range []struct {
		args []string
		want string
	}{
		{[]string{"--store", "valkey://u:OpenSesame@h/1"}, "--store: only database 0 is possible"},
		{[]string{"--store", "valkey://h", "--save", "60 1"}, "save is for keys in memory"},
		{[]string{"--store-password", "OpenSesame"}, "store-password is set, but store is not"},
		{[]string{"--store", "valkey://h", "--store-password-file", missing}, "store-password-file: open " + missing},
		{[]string{"--store", "valkeys://h", "--store-tls-ca-cert-file", missing}, "store-tls-ca-cert-file: open " + missing},
		{[]string{"--store", "valkeys://h", "--store-tls-cert-file", missing, "--store-tls-key-file", missing}, "store-tls-cert-file: open " + missing},
	} {
		stdout, stderr, code := run(t, nil, append(row.args, "--port", "0", "--unixsocket", filepath.Join(t.TempDir(), "s"))...)
		assert.Equal(t, 1, code)
		assert.Empty(t, stdout)
		assert.Contains(t, stderr, row.want)
		assert.NotContains(t, stderr, "OpenSesame")
	}
}

// A user moves from one cellserver with a snapshot to three on a cluster.
func TestMoveFromASnapshotToACluster(t *testing.T) {
	dir := t.TempDir()
	alone := start(t, "--dir", dir, "--save", "3600 1")
	c := alone.raw(t)
	c.ask("CL.THROTTLE user 15 30 3600 10", "*5\r\n:0\r\n:16\r\n:6\r\n:-1\r\n:1200\r\n")
	c.ask("CL.ZSLIDE log 5 3600 2", "*5\r\n:0\r\n:5\r\n:3\r\n:-1\r\n:3600\r\n")
	c.ask("SET n 41", "+OK\r\n")
	c.ask("CL.WINDOW w 5 3600 5", "*5\r\n:0\r\n:5\r\n:0\r\n:-1\r\n:3600\r\n")
	c.ask("EXPIRE w 1800", ":1\r\n")
	alone.signal(syscall.SIGTERM)
	require.Zero(t, alone.exit())

	cluster := engines.StartCluster(t, engines.Valkey91)
	to := "valkey://" + strings.Join(cluster.Addrs()[:2], ",")
	for _, want := range []string{"4 taken into " + to + "\n0 skipped\n", "0 taken into " + to + "\n4 skipped\n  4 exist in the target\n"} {
		stdout, stderr, code := run(t, nil, "import", filepath.Join(dir, "dump.cell"), "--to", to)
		assert.Zero(t, code, stderr)
		assert.Contains(t, stdout, want)
	}

	var clients []*redis.Client
	for range 3 {
		s := start(t, "--store", to, "--store-timeout", "2000")
		assert.Contains(t, s.log.String(), "topology=cluster mechanism=ifeq nodes=3")
		clients = append(clients, s.client(t))
	}
	for i, c := range clients {
		got, err := c.Do(t.Context(), "CL.THROTTLE", "user", 15, 30, 3600, 1).Int64Slice()
		require.NoError(t, err)
		assert.Equal(t, []int64{0, 16, int64(5 - i)}, got[:3])
		ttl, err := c.TTL(t.Context(), "w").Result()
		require.NoError(t, err)
		assert.InDelta(t, 1800, ttl.Seconds(), 60)
		n, err := c.Incr(t.Context(), "n").Result()
		require.NoError(t, err)
		assert.EqualValues(t, 42+i, n)
	}
	assert.EqualValues(t, 4, clients[0].DBSize(t.Context()).Val())
	values, err := clients[1].MGet(t.Context(), "n", "nosuch", "user").Result()
	require.NoError(t, err)
	assert.Equal(t, []any{"44", nil, nil}, values)
	require.ErrorContains(t, clients[2].MSet(t.Context(), "a", 1, "b", 2, "c", 3).Err(), "CROSSSLOT")
	gone, err := clients[2].Del(t.Context(), "user", "log", "n", "nosuch").Result()
	require.NoError(t, err)
	assert.EqualValues(t, 3, gone)
}
