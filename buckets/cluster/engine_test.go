package cluster

import (
	"context"
	"crypto/tls"
	"log/slog"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"cellserver/internal/hashslot"
	"cellserver/internal/testing/engines"
	"cellserver/internal/testing/testcert"
)

// within bounds every wait for an engine, and soon is how often it is looked at.
const within, soon = 20 * time.Second, 5 * time.Millisecond

// logbook keeps what is logged.
type logbook struct {
	mu  sync.Mutex
	out strings.Builder
}

func (b *logbook) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.out.Write(p)
}

func (b *logbook) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.out.String()
}

// watched is an engine, and what it has told.
type watched struct {
	*engine
	log logbook

	mu   sync.Mutex
	gone []string
}

func (w *watched) left() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return append([]string(nil), w.gone...)
}

// connect returns an engine that is closed with the test.
func connect(t *testing.T, c Config) *watched {
	t.Helper()
	w := new(watched)
	c.Log = slog.New(slog.NewTextHandler(&w.log, nil))
	if c.Local == nil {
		c.Local = localTime(0)
	}
	w.engine = newEngine(&c, events{left: func(n *node) {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.gone = append(w.gone, n.addr)
	}})
	t.Cleanup(w.close)
	return w
}

// localTime returns a clock that is ahead of the system's.
func localTime(ahead time.Duration) func() int64 {
	start := time.Now()
	return func() int64 { return start.UnixNano() + int64(time.Since(start)) + int64(ahead) }
}

func (w *watched) awaitReady(t *testing.T) {
	t.Helper()
	require.Eventually(t, w.ready, within, soon, "%s", &w.log)
}

// ping asks a server something through each of the ways to it.
func ping(t *testing.T, n *node) {
	t.Helper()
	ctx := t.Context()
	require.NoError(t, n.client.Ping(ctx).Err())
	conn, err := n.dial(ctx)
	require.NoError(t, err)
	l := newLink(conn)
	defer l.close()
	replies, err := l.ask(ctx, []string{"PING"}, []string{"CLIENT", "GETNAME"})
	require.NoError(t, err)
	assert.Equal(t, []any{"PONG", "cellserver"}, replies)
}

func TestEngineOfOneServer(t *testing.T) {
	for _, version := range engines.Versions() {
		t.Run(version.String(), func(t *testing.T) {
			server := engines.Standalone(t, version)
			e := connect(t, Config{Addrs: []string{server.Addr()}})
			e.awaitReady(t)

			assert.False(t, e.clustered())
			assert.Equal(t, "standalone", e.topology())
			key := "valkey_version"
			name := "valkey"
			if version == engines.Redis70 {
				key, name = "redis_version", "redis"
			}
			assert.Equal(t, name+" "+server.Info("server", key), e.name())
			has, known := e.hasIFEQ()
			assert.True(t, known)
			assert.Equal(t, version.IFEQ(), has)
			assert.Equal(t, !has, strings.Contains(e.log.String(), "no SET with IFEQ"))
			size, err := server.Client().DBSize(t.Context()).Result()
			require.NoError(t, err)
			assert.Zero(t, size, "nothing was set to find out")

			n := e.node(e.slot([]byte("any key")))
			require.NotNil(t, n)
			assert.Equal(t, []*node{n}, e.masters())
			assert.Equal(t, server.Addr(), n.addr)
			assert.Same(t, n, e.node(12345), "the slot does not matter")
			ping(t, n)
			assert.Zero(t, n.shift(), "one clock is the reference")
			assert.Empty(t, e.why())
			assert.False(t, n.away())
		})
	}
}

func TestEngineOfACluster(t *testing.T) {
	t.Parallel()
	for _, version := range []engines.Version{engines.Valkey81, engines.Redis70} {
		t.Run(version.String(), func(t *testing.T) {
			t.Parallel()
			c := engines.SharedCluster(t, version)
			e := connect(t, Config{Addrs: c.Addrs()[len(c.Addrs())-1:]}) // a replica is enough
			e.awaitReady(t)
			assert.True(t, e.clustered())
			assert.Equal(t, "cluster", e.topology())
			assert.Len(t, e.masters(), 3)
			for i := range 100 {
				key := []byte("key " + strconv.Itoa(i))
				slot := e.slot(key)
				assert.Equal(t, hashslot.Of(key), slot)
				n := e.node(slot)
				require.NotNil(t, n)
				require.ErrorIs(t, n.client.Get(t.Context(), string(key)).Err(), redis.Nil, "not MOVED")
			}
			for _, n := range e.masters() {
				ping(t, n)
			}
			has, known := e.hasIFEQ()
			assert.True(t, known)
			assert.Equal(t, version.IFEQ(), has)

			// A second one whose keys are all in one slot.
			tagged := connect(t, Config{Addrs: c.Addrs(), Prefix: "{x}:", Cluster: true})
			tagged.awaitReady(t)
			has, known = tagged.hasIFEQ()
			assert.True(t, known)
			assert.Equal(t, version.IFEQ(), has)
		})
	}
}

func TestEngineWithPassword(t *testing.T) {
	server := engines.Standalone(t, engines.Valkey81, engines.Password("a secret"))
	for name, row := range map[string]struct {
		config Config
		reason string
	}{
		"the right one": {config: Config{Password: "a secret"}},
		"with its user": {config: Config{Username: "default", Password: "a secret"}},
		"none":          {reason: "a login is needed: NOAUTH"},
		"a wrong one":   {config: Config{Password: "xyzzy"}, reason: "the login is refused: WRONGPASS"},
		"a wrong user":  {config: Config{Username: "nobody", Password: "xyzzy"}, reason: "the login is refused: WRONGPASS"},
		"asked for":     {config: Config{Credentials: func() (string, string, error) { return "", "a secret", nil }}},
		"asked for in vain": {config: Config{Credentials: func() (string, string, error) { return "", "", assert.AnError }},
			reason: "the password cannot be read: " + assert.AnError.Error()},
	} {
		t.Run(name, func(t *testing.T) {
			row.config.Addrs = []string{server.Addr()}
			e := connect(t, row.config)
			if row.reason == "" {
				e.awaitReady(t)
				ping(t, e.node(0))
				assert.NotContains(t, e.log.String(), "secret")
				return
			}
			require.Eventually(t, func() bool { return e.why() != "" }, within, soon)
			assert.Contains(t, e.why(), server.Addr()+": "+row.reason)
			assert.NotContains(t, e.why(), "xyzzy")
			assert.False(t, e.ready())
		})
	}
}

func TestEngineWithTLS(t *testing.T) {
	authority := testcert.NewAuthority(t, "ours")
	server := engines.Standalone(t, engines.Valkey81, engines.TLS(authority), engines.Password("a secret"))
	e := connect(t, Config{Addrs: []string{server.Addr()}, Password: "a secret", TLS: &tls.Config{RootCAs: authority.Trust()}})
	e.awaitReady(t)
	ping(t, e.node(0))

	strict := &tls.Config{RootCAs: testcert.NewAuthority(t, "another").Trust()}
	e = connect(t, Config{Addrs: []string{server.Addr()}, Password: "a secret", TLS: strict})
	require.Eventually(t, func() bool { return strings.Contains(e.why(), "certificate") }, within, soon)

	e = connect(t, Config{Addrs: []string{server.Addr()}, Password: "a secret"})
	require.Eventually(t, func() bool { return e.why() != "" }, within, soon)
}

// An engine that goes away and comes back is found again, and each change is said once.
func TestEngineComesBack(t *testing.T) {
	server := engines.Standalone(t, engines.Valkey81)
	server.Kill()
	e := connect(t, Config{Addrs: []string{server.Addr()}})
	require.Eventually(t, func() bool { return e.why() != "" }, within, soon)
	assert.Equal(t, server.Addr()+": connection refused", e.why())
	assert.Nil(t, e.node(0))
	assert.Equal(t, "", e.topology())
	server.Start()
	e.awaitReady(t)
	require.Eventually(t, func() bool { return e.why() == "" }, within, soon)
	assert.Equal(t, 1, strings.Count(e.log.String(), "cannot be reached"))

	n := e.node(0)
	server.Kill()
	require.Eventually(t, func() bool { return n.away() && strings.Contains(e.why(), "refused") }, within, soon)
	assert.Error(t, n.client.Ping(t.Context()).Err())
	require.Never(t, func() bool { return strings.Count(e.log.String(), "connection refused") > 2 }, time.Second, 10*soon)
	assert.True(t, n.ready(), "its time goes on")
	server.Start()
	require.Eventually(t, func() bool { return !n.away() && e.why() == "" }, within, soon)
	assert.Same(t, n, e.node(0))
	ping(t, n)
	assert.LessOrEqual(t, strings.Count(e.log.String(), "does not do its part"), 2, "%s", &e.log)
}

func TestEngineOfSeveralThatAreNoCluster(t *testing.T) {
	a, b := engines.Standalone(t, engines.Valkey81), engines.Standalone(t, engines.Valkey81)
	e := connect(t, Config{Addrs: []string{a.Addr(), b.Addr()}})
	require.Eventually(t, func() bool { return strings.Contains(e.why(), "several addresses") }, within, soon)
	assert.Nil(t, e.node(0))
	e = connect(t, Config{Addrs: []string{a.Addr()}, Cluster: true})
	require.Eventually(t, func() bool { return strings.Contains(e.why(), "not part of a cluster") }, within, soon)
	assert.Nil(t, e.node(0))
}

// Close does not wait for servers that do not answer.
func TestEngineClosesWhileServersHang(t *testing.T) {
	server := engines.Standalone(t, engines.Valkey81)
	proxy := engines.StartProxy(t, server.Addr())
	e := connect(t, Config{Addrs: []string{proxy.Addr()}})
	e.awaitReady(t)
	n := e.node(0)
	proxy.Hang()
	began := time.Now()
	e.close()
	assert.Less(t, time.Since(began), 500*time.Millisecond)
	_, err := n.dial(context.Background())
	assert.Error(t, err)
	assert.Nil(t, e.at(n, "127.0.0.1:1"))

	proxy.Pass()
	e = connect(t, Config{Addrs: []string{proxy.Addr()}})
	e.awaitReady(t)
	proxy.Hang()
	require.Eventually(t, func() bool { return strings.Contains(e.why(), "does not answer in time") }, within, soon)
	proxy.Pass()
	require.Eventually(t, func() bool { return e.why() == "" }, within, soon)
}
