package cluster

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"cellserver/buckets/cluster"
	"cellserver/cmd/cellserver/options"
	"cellserver/internal/clock"
	"cellserver/internal/testing/engines"
	"cellserver/resp"
)

// patience bounds every wait. It is far longer than needed on a busy machine.
const patience = time.Minute

// timeout is the store-timeout of tests that are not about it: nothing times out because the machine is busy.
const timeout = 20 * time.Second

// slack is how much longer than needed the engine keeps keys.
const slack = time.Second

// times returns n, or many times as much when the tests are to be long.
func times(n int) int {
	if os.Getenv("CELLSERVER_SOAK") == "1" {
		return 20 * n
	}
	return n
}

// place is where servers keep their keys.
type place struct {
	cluster *engines.Cluster
	prefix  string
}

// places counts the places: a test that runs again has another one.
var places atomic.Int64

// shared returns a place for the keys of one test, in the cluster that the tests have in common.
func shared(t testing.TB, version engines.Version) place {
	return place{cluster: engines.SharedCluster(t, version), prefix: fmt.Sprintf("%s %d:", t.Name(), places.Add(1))}
}

// system is the clock of this machine.
var system = clock.New().Now

// cellserver is one server: put together as the program does it, on a port of its own.
type cellserver struct {
	t      testing.TB
	config cluster.Config
	rules  cluster.Rules
	addr   atomic.Pointer[string]

	store    *cluster.Store
	server   *resp.Server
	listener net.Listener
	served   chan error
}

// serve starts a server whose clock is off by skew. It ends with the test.
func serve(t testing.TB, at place, skew time.Duration, rules cluster.Rules) *cellserver {
	t.Helper()
	if rules.Timeout == 0 {
		rules.Timeout = timeout
	}
	s := &cellserver{t: t, rules: rules, config: cluster.Config{
		Addrs: at.cluster.Addrs(), Prefix: at.prefix, Slack: slack,
		Local: func() int64 { return system() + int64(skew) },
	}}
	s.start()
	t.Cleanup(s.stop)
	return s
}

// skews are how far the clocks of three servers are off.
var skews = []time.Duration{0, time.Hour, -time.Hour}

// three starts the three servers of most tests: one has the right time, one is an hour ahead, and one is an hour behind.
func three(t testing.TB, at place, rules cluster.Rules) (servers []*cellserver) {
	t.Helper()
	for _, skew := range skews {
		servers = append(servers, serve(t, at, skew, rules))
	}
	return servers
}

// start starts the server, at an address that its clients find out when they connect.
func (s *cellserver) start() {
	s.t.Helper()
	var err error
	s.store, err = cluster.New(s.config, s.rules)
	require.NoError(s.t, err)
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if !assert.NoError(s.t, s.store.Ready(ctx)) {
		_ = s.store.Close()
		s.t.FailNow()
	}
	live := options.NewLive(options.Defaults(), func(options.Settings) error { return nil })
	s.server = resp.NewServer(resp.Config{
		Store: s.store, Now: s.store.Now, Log: slog.New(slog.DiscardHandler), Version: "test",
		Options: live, Bounds: live.Settings().Wire,
	})
	s.listener, err = net.Listen("tcp", "127.0.0.1:0")
	require.NoError(s.t, err)
	addr := s.listener.Addr().String()
	s.addr.Store(&addr)
	s.served = make(chan error, 1)
	go func(server *resp.Server, l net.Listener, served chan error) { served <- server.Serve(l) }(s.server, s.listener, s.served)
}

// stop ends the server as SIGTERM does.
func (s *cellserver) stop() {
	if s.server == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	assert.NoError(s.t, s.server.Shutdown(ctx))
	assert.NoError(s.t, <-s.served)
	assert.NoError(s.t, s.store.Close())
	s.server = nil
}

// kill ends the server in the midst of its work: nobody waits for what is under way, and no client gets its reply. The connections to
// the engine break before those of the clients, or after them.
func (s *cellserver) kill(engineFirst bool) {
	over, cancel := context.WithCancel(context.Background())
	cancel()
	if engineFirst {
		assert.NoError(s.t, s.store.Close())
	}
	_ = s.server.Shutdown(over) // says that connections were open
	assert.NoError(s.t, <-s.served)
	assert.NoError(s.t, s.store.Close())
	s.server = nil
}

// manyConns is more than a test has. A pool of go-redis that has seen as many errors starts a goroutine that outlives it.
const manyConns = 10000

// client returns a client of the server, through its restarts. A request whose reply is lost may have been decided, so nothing is asked
// twice.
func (s *cellserver) client() *redis.Client {
	dialer := net.Dialer{Timeout: patience}
	c := redis.NewClient(&redis.Options{
		Dialer: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return dialer.DialContext(ctx, "tcp", *s.addr.Load())
		},
		Protocol: 2, PoolSize: manyConns, ReadTimeout: patience, WriteTimeout: patience, MaxRetries: -1, DialerRetries: 1,
		DisableIdentity: true, MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	})
	s.t.Cleanup(func() { assert.NoError(s.t, c.Close()) })
	return c
}

// decision is the reply to a limit command.
type decision struct {
	limited                        bool
	limit, remaining, retry, reset int64
}

// parseDecision reads five integers.
func parseDecision(reply any) (d decision, err error) {
	list, _ := reply.([]any)
	if len(list) != 5 {
		return d, fmt.Errorf("the reply is no decision: %v", reply)
	}
	var n [5]int64
	for i := range list {
		var is bool
		if n[i], is = list[i].(int64); !is {
			return d, fmt.Errorf("the reply is no decision: %v", reply)
		}
	}
	return decision{n[0] == 1, n[1], n[2], n[3], n[4]}, nil
}

// words makes the arguments of a command of its text.
func words(text string) (args []any) {
	for _, w := range strings.Fields(text) {
		args = append(args, w)
	}
	return args
}

// doer is a client or one of its connections.
type doer interface {
	Do(ctx context.Context, args ...any) *redis.Cmd
}

// ask sends a limit command and returns the decision.
func ask(c doer, command string) (decision, error) {
	reply, err := c.Do(context.Background(), words(command)...).Result()
	if err != nil {
		return decision{}, err
	}
	return parseDecision(reply)
}

// mustAsk is ask in the goroutine of the test.
func mustAsk(t testing.TB, c doer, command string) decision {
	t.Helper()
	d, err := ask(c, command)
	require.NoError(t, err, command)
	return d
}

// crowd runs many clients of each server at once until all of them have ended. Each calls its turn until that returns false.
func crowd(servers []*cellserver, each int, newTurn func(c *redis.Client) (turn func() (more bool))) {
	var clients sync.WaitGroup
	begin := make(chan struct{})
	for _, s := range servers {
		c := s.client()
		for range each {
			turn := newTurn(c)
			clients.Go(func() {
				<-begin
				for turn() {
				}
			})
		}
	}
	close(begin)
	clients.Wait()
}

// maximum keeps the largest of some numbers.
type maximum struct{ atomic.Int64 }

func (m *maximum) note(n int64) {
	for old := m.Load(); n > old && !m.CompareAndSwap(old, n); old = m.Load() {
	}
}
