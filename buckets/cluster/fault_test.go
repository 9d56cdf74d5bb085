package cluster

import (
	"crypto/tls"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"cellserver/buckets"
	"cellserver/internal/testing/engines"
	"cellserver/internal/testing/testcert"
)

// A replica takes over from a master that is killed: its address gets the slots, and the old one leaves.
func TestEngineFollowsAFailover(t *testing.T) {
	t.Parallel()
	c := engines.StartCluster(t, engines.Valkey81)
	e := connect(t, Config{Addrs: c.Addrs()})
	e.awaitReady(t)
	const key = "a key"
	old := e.node(e.slot([]byte(key)))
	require.Equal(t, c.Master(key).Addr(), old.addr)
	others := e.masters()

	killed := c.KillMaster(key)
	require.Equal(t, old.addr, killed.Addr())
	require.Eventually(t, old.away, within, soon)
	var n *node
	require.Eventually(t, func() bool {
		n = e.node(e.slot([]byte(key)))
		return n != old && n.ready() && !n.away()
	}, within, soon, "%s", &e.log)
	require.NoError(t, n.client.Set(t.Context(), key, "x", 0).Err())
	require.Eventually(t, e.ready, within, soon)
	assert.Equal(t, []string{old.addr}, e.left())
	assert.NotContains(t, e.masters(), old)
	require.ErrorIs(t, old.client.Ping(t.Context()).Err(), redis.ErrClosed)
	for _, n := range others {
		assert.Equal(t, n != old, contains(e.masters(), n), "the others are the same nodes")
	}
	assert.InDelta(t, 0, n.shift(), float64(100*time.Millisecond), "the servers are on one machine, which may be busy")

	// The one that was killed comes back as a replica, and is no master.
	killed.Start()
	c.WaitOK()
	assert.Same(t, n, e.node(e.slot([]byte(key))))
}

func contains(nodes []*node, n *node) bool {
	for _, other := range nodes {
		if other == n {
			return true
		}
	}
	return false
}

// A slot moves to another master: MOVED and ASK lead to it, and so does the next reading of the topology.
func TestEngineFollowsASlot(t *testing.T) {
	t.Parallel()
	c := engines.StartCluster(t, engines.Valkey81)
	e := connect(t, Config{Addrs: c.Addrs()})
	e.awaitReady(t)
	const key = "a key"
	slot := e.slot([]byte(key))
	from := e.node(slot)
	var to *node
	for _, n := range e.masters() {
		if n != from {
			to = n
		}
	}
	assert.Same(t, to, e.at(from, to.addr))
	assert.Nil(t, e.at(from, "nonsense"))
	assert.Nil(t, e.moved(from, 1<<14, to.addr))

	// It has not moved: the reading that follows puts it right.
	assert.Same(t, to, e.moved(from, slot, to.addr))
	require.Eventually(t, func() bool { return e.node(slot) == from }, within, soon)

	var target *engines.Node
	for _, n := range c.Nodes() {
		if n.Addr() == to.addr {
			target = n
		}
	}
	c.MigrateSlot(int(slot), target)
	err := from.client.Get(t.Context(), key).Err()
	require.Error(t, err)
	words := strings.Fields(err.Error())
	require.Equal(t, "MOVED", words[0])
	assert.Same(t, to, e.moved(from, slot, words[2]))
	assert.Same(t, to, e.node(slot))
	require.Never(t, func() bool { return e.node(slot) != to }, time.Second, soon, "the views of all servers agree")

	// A server that nobody else speaks of is forgotten again.
	stranger := engines.Standalone(t, engines.Valkey81)
	n := e.at(from, stranger.Addr())
	require.NotNil(t, n)
	require.Eventually(t, n.ready, within, soon)
	n.wanted.Store(0)
	e.refresh()
	require.Eventually(t, func() bool { return len(e.left()) == 1 }, within, soon)
	assert.Equal(t, []string{stranger.Addr()}, e.left())
}

func TestEngineOfAClusterWithTLS(t *testing.T) {
	t.Parallel()
	authority := testcert.NewAuthority(t, "ours")
	c := engines.StartCluster(t, engines.Valkey81, engines.TLS(authority), engines.Password("a secret"))
	e := connect(t, Config{Addrs: c.Addrs()[:1], Password: "a secret", TLS: &tls.Config{RootCAs: authority.Trust()}})
	e.awaitReady(t)
	assert.Len(t, e.masters(), 3)
	for _, n := range e.masters() {
		ping(t, n)
	}
}

func TestEngineOfSentinels(t *testing.T) {
	t.Parallel()
	s := engines.StartSentinels(t, engines.Valkey81)
	c := Config{Addrs: s.Addrs(), Sentinel: engines.MasterName}
	e := connect(t, c)
	e.awaitReady(t)
	assert.Equal(t, "sentinel", e.topology())
	assert.False(t, e.clustered())
	old := e.node(0)
	assert.Equal(t, s.Servers()[0].Addr(), old.addr)
	ping(t, old)

	s.Servers()[0].Kill()
	s.Nodes()[0].Kill() // one of those that are asked, too
	require.Eventually(t, func() bool {
		n := e.node(0)
		return n != old && n.ready() && !n.away() && e.ready()
	}, within, soon, "%s", &e.log)
	n := e.node(0)
	assert.Equal(t, s.Servers()[1].Addr(), n.addr)
	assert.Equal(t, []*node{n}, e.masters())
	require.NoError(t, n.client.Set(t.Context(), "a key", "x", 0).Err())
	require.Eventually(t, func() bool { return len(e.left()) == 1 }, within, soon)
	require.Eventually(t, func() bool { return e.why() == "" }, within, soon)

	c.Sentinel = "nobody"
	other := connect(t, c)
	require.Eventually(t, func() bool { return strings.Contains(other.why(), `knows no master "nobody"`) }, within, soon, "%s", &other.log)
}

// rights are what docs/cluster.md says that the user of the engine needs.
const rights = "+client|setname +info +time +cluster|info +cluster|slots " +
	"+get +mget +set +del +unlink +exists +type +watch +unwatch +multi +exec +scan +randomkey +dbsize +wait +asking"

func TestEngineOfAUserWithFewRights(t *testing.T) {
	t.Parallel()
	for _, version := range engines.Versions() {
		t.Run(version.String(), func(t *testing.T) {
			t.Parallel()
			server := engines.Standalone(t, version)
			args := []any{"ACL", "SETUSER", "limits", "on", ">secret", "~cell:*"}
			for _, right := range strings.Fields(rights) {
				args = append(args, right)
			}
			require.NoError(t, server.Client().Do(t.Context(), args...).Err())
			c := Config{Addrs: []string{server.Addr()}, Username: "limits", Password: "secret", Prefix: "cell:"}
			e := connect(t, c)
			e.awaitReady(t)
			require.NoError(t, e.node(0).client.Set(t.Context(), "cell:x", "1", 0).Err())
			assert.Empty(t, e.why())
			log, err := server.Client().Do(t.Context(), "ACL", "LOG").Slice()
			require.NoError(t, err)
			assert.Empty(t, log, "nothing else was tried")

			// What it needs and does not have, it says.
			for right, reason := range map[string]string{"-time": "TIME is refused: NOPERM", "-cluster|info": "CLUSTER INFO is refused: NOPERM",
				"-set": "SET is refused: NOPERM"} {
				require.NoError(t, server.Client().Do(t.Context(), "ACL", "SETUSER", "limits", right).Err())
				e := connect(t, c)
				require.Eventually(t, func() bool { return strings.Contains(e.why(), reason) }, within, soon, "%s: %s", right, &e.log)
				assert.False(t, e.ready())
				require.NoError(t, server.Client().Do(t.Context(), "ACL", "SETUSER", "limits", "+"+right[1:]).Err())
				e.awaitReady(t)
				require.Eventually(t, func() bool { return e.why() == "" }, within, soon)
			}
			// And what it can do without.
			require.NoError(t, server.Client().Do(t.Context(), "ACL", "SETUSER", "limits", "-info", "-client|setname").Err())
			e = connect(t, c)
			e.awaitReady(t)
			assert.Empty(t, e.name())
		})
	}
}

// A server that is loading, read-only or out of memory is not asked for more than it gives, and is used when it is well.
func TestEngineThatRefuses(t *testing.T) {
	t.Parallel()
	server := engines.Standalone(t, engines.Valkey81, engines.Args("--maxmemory", "1"))
	e := connect(t, Config{Addrs: []string{server.Addr()}})
	require.Eventually(t, func() bool { return strings.Contains(e.why(), "OOM") }, within, soon)
	assert.False(t, e.ready())
	require.NoError(t, server.Client().ConfigSet(t.Context(), "maxmemory", "0").Err())
	e.awaitReady(t)

	require.NoError(t, server.Client().Do(t.Context(), "REPLICAOF", "127.0.0.1", "1").Err())
	e = connect(t, Config{Addrs: []string{server.Addr()}})
	require.Eventually(t, func() bool { return strings.Contains(e.why(), "READONLY") }, within, soon)
	require.Never(t, func() bool {
		return !strings.Contains(e.why(), "READONLY") || strings.Count(e.log.String(), "READONLY") > 1
	},
		2*longestPause, soon, "it is said once, although it is tried again")
	require.NoError(t, server.Client().Do(t.Context(), "REPLICAOF", "NO", "ONE").Err())
	e.awaitReady(t)
	require.Eventually(t, func() bool { return e.why() == "" }, within, soon)
}

// A store whose user has no other rights does everything, on the engines with IFEQ and on that without.
func TestStoreOfAUserWithFewRights(t *testing.T) {
	t.Parallel()
	for _, version := range []engines.Version{engines.Valkey81, engines.Redis70} {
		t.Run(version.String(), func(t *testing.T) {
			t.Parallel()
			server := engines.Standalone(t, version)
			args := []any{"ACL", "SETUSER", "limits", "on", ">secret", "~cell:*"}
			for _, right := range strings.Fields(rights) {
				args = append(args, right)
			}
			require.NoError(t, server.Client().Do(t.Context(), args...).Err())
			s := openAt(t, server.Addr(), func(c *Config, r *Rules) {
				c.Username, c.Password, c.Prefix = "limits", "secret", "cell:"
			})
			keys := [][]byte{[]byte("a"), []byte("b")}
			limit := mustLimit(buckets.NewThrottle(9, 1, second))
			everything(t, s, keys, limit)
			rules := *s.rules.Load()
			rules.MinReplicas = 1
			s.SetRules(rules)
			op := apply(t, s, takeOp("a", limit, 1))
			require.ErrorIs(t, op.Err, buckets.ErrTooFewReplicas)
			require.NoError(t, s.Flush(t.Context()))
			log, err := server.Client().Do(t.Context(), "ACL", "LOG").Slice()
			require.NoError(t, err)
			assert.Empty(t, log, "nothing else was tried")
		})
	}
}

// everything calls all that a store offers.
func everything(t *testing.T, s *Store, keys [][]byte, limit *buckets.Limit) {
	ctx := t.Context()
	for i := range 3 {
		op := apply(t, s, takeOp("a", limit, int64(i)))
		require.NoError(t, op.Err)
	}
	checks := []buckets.Check{{Key: keys[0], Limit: *limit, Quantity: 1}, {Key: keys[1], Limit: *limit, Quantity: 1}}
	ops := []buckets.Op{
		{Code: buckets.OpTakeAll, Checks: checks, Answers: make([]buckets.Decision, 2)},
		{Code: buckets.OpStat, Key: keys[0]}, {Code: buckets.OpGet, Key: keys[0]}, {Code: buckets.OpExists, Keys: keys},
		{Code: buckets.OpExpire, Key: keys[0], At: s.Now() + second}, {Code: buckets.OpPersist, Key: keys[0]},
		{Code: buckets.OpRename, Key: keys[0], To: []byte("c")}, {Code: buckets.OpDelete, Keys: keys},
	}
	s.Apply(ctx, s.Now(), ops)
	for i := range ops {
		require.NoError(t, ops[i].Err, "%d", ops[i].Code)
	}
	require.NoError(t, s.Atomically(ctx, s.Now(), keys, false, func(held buckets.Store) {
		ops := []buckets.Op{takeOp("a", limit, 1), takeOp("b", limit, 1)}
		held.Apply(ctx, s.Now(), ops)
		assert.NoError(t, ops[0].Err)
	}))
	w, err := s.Watch(ctx, s.Now(), keys[0])
	require.NoError(t, err)
	_, err = s.Changed(ctx, s.Now(), w)
	require.NoError(t, err)
	s.Unwatch(w)
	_, err = s.Len(ctx, s.Now())
	require.NoError(t, err)
	_, _, err = s.RandomKey(ctx, s.Now(), nil)
	require.NoError(t, err)
	for cursor, first := uint64(0), true; first || cursor != 0; first = false {
		cursor, err = s.Scan(ctx, s.Now(), cursor, 10, func([]byte, buckets.Kind) {})
		require.NoError(t, err)
	}
	require.NoError(t, s.Flush(ctx))
}
