package cluster

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"cellserver/buckets"
	"cellserver/internal/hashslot"
	"cellserver/internal/testing/engines"
)

// layout is which server has which slot, as a test has read it. It stays as it is until it is read again.
type layout struct {
	t       testing.TB
	any     redis.UniversalClient
	mu      sync.Mutex
	known   map[string]*node
	slots   [hashslot.Count]*node
	cluster bool
	asked   int // calls of refresh
}

func newLayout(t testing.TB, any redis.UniversalClient, addrs ...string) *layout {
	l := &layout{t: t, any: any, known: make(map[string]*node)}
	_, l.cluster = any.(*redis.ClusterClient)
	if !l.cluster {
		for slot := range l.slots {
			l.slots[slot] = l.at(addrs[0])
		}
		return l
	}
	l.read()
	return l
}

func (l *layout) at(addr string) *node {
	if l.known[addr] == nil {
		client := redis.NewClient(&redis.Options{Addr: addr, Protocol: 2, MaxRetries: -1, DialerRetries: 1, ContextTimeoutEnabled: true, PoolSize: 4})
		l.t.Cleanup(func() { _ = client.Close() })
		n := &node{addr: addr, client: client, engine: &engine{config: &Config{OwnTime: true}}}
		n.clock.read(1, 2, testNow) // it is ready
		l.known[addr] = n
	}
	return l.known[addr]
}

// read reads who has which slot.
func (l *layout) read() {
	ranges, err := l.any.ClusterSlots(context.Background()).Result()
	require.NoError(l.t, err)
	for _, r := range ranges {
		for slot := r.Start; slot <= r.End; slot++ {
			l.slots[slot] = l.at(r.Nodes[0].Addr)
		}
	}
}

func (l *layout) node(slot uint16) *node { return l.slots[slot] }
func (l *layout) clustered() bool        { return l.cluster }
func (l *layout) why() string            { return "" }
func (l *layout) refresh() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.asked++
}

// apply carries out OpStat and OpDelete through the client of the test, which follows keys.
func (l *layout) apply(prefix string) func(context.Context, int64, []buckets.Op) {
	return func(ctx context.Context, now int64, ops []buckets.Op) {
		for i := range ops {
			switch op := &ops[i]; op.Code {
			case buckets.OpStat:
				value, err := l.any.Get(ctx, prefix+string(op.Key)).Bytes()
				if redis.HasErrorPrefix(err, "WRONGTYPE") {
					err = buckets.ErrForeignValue
				}
				if err != nil && !errors.Is(err, redis.Nil) {
					op.Err = err
					continue
				}
				var r record
				if op.Err = r.parse(value); op.Err == nil {
					r.load(now)
					op.Contents.Kind = r.state.Kind
				}
			case buckets.OpDelete:
				op.N, op.Err = l.any.Del(ctx, prefix+string(op.Keys[0])).Result()
			}
		}
	}
}

const testNow = int64(1790000000e9)

// keySpaceOf returns the keys with a prefix, and counts how often all keys were forgotten.
func keySpaceOf(l *layout, prefix string) (k *keySpace, forgotten *int) {
	forgotten = new(int)
	local := func() int64 { return time.Now().UnixNano() }
	return newKeySpace(l, prefix, local, l.apply(prefix), func() { *forgotten++ }), forgotten
}

// valueOf returns the value of a bucket that expires so long after testNow.
func valueOf(t testing.TB, kind buckets.Kind, expires time.Duration) []byte {
	t.Helper()
	var l buckets.Limit
	var err error
	switch kind {
	case buckets.Throttle:
		l, err = buckets.NewThrottle(4, 1, int64(expires))
	case buckets.Slide:
		l, err = buckets.NewSlide(4, int64(expires))
	default:
		l, err = buckets.NewWindow(4, int64(expires))
	}
	require.NoError(t, err)
	var d buckets.Decision
	r := record{}
	_, err = r.take(&l, testNow, 1, false, 10, &d)
	require.NoError(t, err)
	value := r.appendValue(nil, testNow)
	require.NotEmpty(t, value)
	return value
}

// fill stores keys of which those that it returns live a second after testNow.
func fill(t testing.TB, c redis.UniversalClient, prefix string, n int) map[string]buckets.Kind {
	t.Helper()
	live := make(map[string]buckets.Kind)
	values := map[buckets.Kind][]byte{}
	for _, kind := range []buckets.Kind{buckets.Throttle, buckets.Window, buckets.Slide} {
		values[kind] = valueOf(t, kind, time.Minute)
	}
	expired, kinds := valueOf(t, buckets.Window, time.Second/2), []buckets.Kind{buckets.Throttle, buckets.Window, buckets.Slide}
	_, err := c.Pipelined(context.Background(), func(pipe redis.Pipeliner) error {
		for i := range n {
			name, kind := fmt.Sprint("key ", i), kinds[i%3]
			live[name] = kind
			pipe.Set(context.Background(), prefix+name, values[kind], 0)
			pipe.Set(context.Background(), prefix+fmt.Sprint("expired ", i), expired, 0)
			pipe.Set(context.Background(), prefix+fmt.Sprint("deleted ", i), "", time.Hour)
			pipe.Set(context.Background(), prefix+fmt.Sprint("foreign ", i), "hello", 0)
			pipe.RPush(context.Background(), prefix+fmt.Sprint("list ", i), "hello")
		}
		return nil
	})
	require.NoError(t, err)
	return live
}

// walkAll scans to the end, and calls between after each call.
func walkAll(t testing.TB, k *keySpace, now int64, count int, between func(call int)) map[string]buckets.Kind {
	t.Helper()
	visited := make(map[string]buckets.Kind)
	for cursor, calls := uint64(0), 0; ; calls++ {
		require.Less(t, calls, 10000, "the scan ends")
		next, err := k.Scan(t.Context(), now, cursor, count, func(key []byte, kind buckets.Kind) { visited[string(key)] = kind })
		require.NoError(t, err)
		if cursor = next; cursor == 0 {
			return visited
		}
		require.Less(t, cursor, uint64(1)<<53, "a cursor survives a client that stores it in a float")
		if between != nil {
			between(calls)
		}
	}
}

// onEngines runs tests on a server and on a cluster of each release, which are empty before each.
func onEngines(t *testing.T, tests map[string]func(t *testing.T, l *layout, c redis.UniversalClient)) {
	for _, version := range engines.Versions() {
		t.Run(version.String(), func(t *testing.T) {
			t.Parallel()
			n := engines.Standalone(t, version)
			c := clusterClient(t, engines.StartCluster(t, version))
			for name, run := range tests {
				t.Run("standalone "+name, func(t *testing.T) {
					require.NoError(t, n.Client().FlushAll(t.Context()).Err())
					run(t, newLayout(t, n.Client(), n.Addr()), n.Client())
				})
				t.Run("cluster "+name, func(t *testing.T) {
					require.NoError(t, c.ForEachMaster(t.Context(), func(ctx context.Context, c *redis.Client) error { return c.FlushAll(ctx).Err() }))
					run(t, newLayout(t, c), c)
				})
			}
		})
	}
}

func TestKeySpace(t *testing.T) {
	t.Parallel()
	onEngines(t, map[string]func(t *testing.T, l *layout, c redis.UniversalClient){
		"whole": testWholeKeySpace, "keys of others": testKeysAmongThoseOfOthers, "foreign cursors": testForeignCursors,
	})
}

// A cluster changes while its keys are scanned.
func TestScanOfAClusterThatChanges(t *testing.T) {
	t.Parallel()
	for _, version := range []engines.Version{engines.Valkey91, engines.Redis70} {
		t.Run(version.String(), func(t *testing.T) {
			t.Parallel()
			of := engines.StartCluster(t, version)
			c := clusterClient(t, of)
			t.Run("slots move", func(t *testing.T) { testScanWhileSlotsMove(t, version, of, c) })
			t.Run("a slot is on its way", func(t *testing.T) { testScanOfASlotOnItsWay(t, of, c) })
			t.Run("a replica takes over", func(t *testing.T) { testScanWhileAReplicaTakesOver(t, of, c) })
		})
	}
}

func clusterClient(t testing.TB, c *engines.Cluster) *redis.ClusterClient {
	client := redis.NewClusterClient(&redis.ClusterOptions{Addrs: c.Addrs(), Protocol: 2})
	t.Cleanup(func() { _ = client.Close() })
	return client
}

func TestCursors(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := position{
			slot: uint16(rapid.IntRange(0, slotMask).Draw(t, "slot")), whole: rapid.Bool().Draw(t, "whole"),
			print: uint16(rapid.IntRange(0, printMask).Draw(t, "print")), rest: rapid.Uint64Range(0, maxRest).Draw(t, "rest"),
		}
		require.Equal(t, p, positionOf(p.cursor()))
		require.Equal(t, p == position{}, p.cursor() == 0)
		any := rapid.Uint64().Draw(t, "cursor")
		require.Equal(t, any, positionOf(any).cursor())
	})
}

func TestReleasesWithSlottedCursors(t *testing.T) {
	for _, row := range []struct {
		info string
		want bool
	}{
		{"redis_version:7.0.15\r\n", false},
		{"redis_version:7.2.4\r\n", false},
		{"redis_version:7.4.0\r\n", true},
		{"redis_version:8.0.1\r\n", true},
		{"redis_version:7.2.4\r\nserver_name:valkey\r\nvalkey_version:7.2.5\r\n", false},
		{"redis_version:7.2.4\r\nserver_name:valkey\r\nvalkey_version:8.1.1\r\n", true},
		{"redis_version:7.2.4\r\nserver_name:valkey\r\nvalkey_version:10.0.0\r\n", true},
		{"", false},
		{"redis_version:seven\r\n", false},
	} {
		assert.Equal(t, row.want, hasSlottedCursors(row.info), row.info)
	}
}

// The keys of the store are visited, counted, drawn and flushed, whatever prefix they have, and the keys of others stay.
func testWholeKeySpace(t *testing.T, l *layout, c redis.UniversalClient) {
	prefixes := []string{"app:", `a*p?[x]\:`, "{tag}:", "{}none:", "ends{", `{t*g}:`}
	live, held := make(map[string]map[string]buckets.Kind), 200
	for _, prefix := range prefixes {
		live[prefix] = fill(t, c, prefix, held)
	}
	fill(t, c, "app", held) // not the prefix: the keys lack the colon
	now := testNow + int64(time.Second)
	for _, prefix := range prefixes {
		t.Run(prefix, func(t *testing.T) {
			k, forgotten := keySpaceOf(l, prefix)
			want := live[prefix]
			assert.Equal(t, want, walkAll(t, k, now, 7, nil))
			assert.Equal(t, want, walkAll(t, k, now, 100000, nil))
			n, err := k.Len(t.Context(), now)
			require.NoError(t, err)
			assert.EqualValues(t, 5*held, n, "no key is counted twice, and those that have expired count")
			for range 20 {
				key, found, err := k.RandomKey(t.Context(), now, []byte("before "))
				require.NoError(t, err)
				require.True(t, found)
				assert.Contains(t, want, string(key[len("before "):]))
			}
			require.NoError(t, k.Flush(t.Context()))
			assert.Equal(t, 1, *forgotten)
			assert.Empty(t, walkAll(t, k, now, 10, nil))
			n, err = k.Len(t.Context(), now)
			require.NoError(t, err)
			assert.Zero(t, n)
			_, found, err := k.RandomKey(t.Context(), now, nil)
			require.NoError(t, err)
			assert.False(t, found)
		})
	}
	t.Run("no prefix", func(t *testing.T) {
		k, _ := keySpaceOf(l, "")
		n, err := k.Len(t.Context(), now)
		require.NoError(t, err)
		assert.EqualValues(t, 5*held, n, "the other prefixes stayed")
		visited := walkAll(t, k, now, 10, nil)
		assert.Len(t, visited, held)
		assert.Contains(t, visited, "appkey 7")
		require.NoError(t, k.Flush(t.Context()))
		assert.Empty(t, walkAll(t, k, now, 10, nil))
		n, err = k.Len(t.Context(), now)
		require.NoError(t, err)
		assert.EqualValues(t, 2*held, n, "without a prefix, values of others stay")
	})
}

// Few of the keys are ours.
func testKeysAmongThoseOfOthers(t *testing.T, l *layout, c redis.UniversalClient) {
	_, err := c.Pipelined(t.Context(), func(pipe redis.Pipeliner) error {
		for i := range 20000 {
			pipe.Set(t.Context(), fmt.Sprint("theirs ", i), "x", 0)
		}
		pipe.Set(t.Context(), "ours:a", valueOf(t, buckets.Window, time.Minute), 0)
		pipe.Set(t.Context(), "ours:b", valueOf(t, buckets.Slide, time.Minute), 0)
		return nil
	})
	require.NoError(t, err)
	k, _ := keySpaceOf(l, "ours:")
	drawn := make(map[string]int)
	for range 60 {
		key, found, err := k.RandomKey(t.Context(), testNow, nil)
		require.NoError(t, err)
		require.True(t, found)
		drawn[string(key)]++
	}
	assert.Len(t, drawn, 2, "%v", drawn)
	assert.Equal(t, map[string]buckets.Kind{"a": buckets.Window, "b": buckets.Slide}, walkAll(t, k, testNow, 10, nil))
}

// A cursor that Scan did not return is harmless.
func testForeignCursors(t *testing.T, l *layout, c redis.UniversalClient) {
	cursors := 40
	if os.Getenv("CELLSERVER_SOAK") == "1" {
		cursors = 1000
	}
	for _, prefix := range []string{"app:", "{tag}:"} {
		live := fill(t, c, prefix, 50)
		k, _ := keySpaceOf(l, prefix)
		for i := range cursors {
			cursor := rand.Uint64() >> rand.IntN(64)
			if i == 0 {
				cursor = math.MaxUint64
			}
			calls := 0
			for ; ; calls++ {
				require.Less(t, calls, 1000, "the scan ends")
				var err error
				cursor, err = k.Scan(t.Context(), testNow, cursor, 10, func(key []byte, kind buckets.Kind) {
					if live[string(key)] == buckets.None {
						assert.Contains(t, string(key), "expired", "it has not expired yet")
					}
				})
				require.NoError(t, err)
				if cursor == 0 {
					break
				}
			}
		}
	}
}

// Slots move while a scan goes on. A key that does not move is visited. In releases whose cursors have the slot, so is one whose slot moves
// between two calls.
func testScanWhileSlotsMove(t *testing.T, version engines.Version, of *engines.Cluster, c *redis.ClusterClient) {
	l := newLayout(t, c)
	live := fill(t, c, "app:", 1000)
	moved := make(map[uint16]bool)
	k, _ := keySpaceOf(l, "app:")
	visited := walkAll(t, k, testNow+int64(time.Second), 50, func(call int) {
		if call >= 8 {
			return
		}
		// From the first slots to the last server, and the other way round.
		first, last := uint16(call/2), uint16(hashslot.Count-1-call/2)
		slot := first
		if call%2 == 1 {
			slot = last
		}
		to := l.slots[hashslot.Count/2] // which has the slots in the middle
		if call >= 4 {
			to = l.slots[map[bool]int{true: hashslot.Count - 100, false: 100}[slot == first]]
		}
		for _, n := range of.Nodes() {
			if n.Addr() == to.addr {
				of.MigrateSlot(int(slot), n)
			}
		}
		moved[slot] = true
		of.WaitOK()
		l.read()
	})
	require.NotEmpty(t, moved)
	for name := range live {
		if slot := hashslot.Of([]byte("app:" + name)); version.IFEQ() || !moved[slot] {
			assert.Contains(t, visited, name, "slot %d", slot)
		}
	}
}

// A slot is on its way while it is scanned: keys that have gone are asked for where they are.
func testScanOfASlotOnItsWay(t *testing.T, of *engines.Cluster, c *redis.ClusterClient) {
	l := newLayout(t, c)
	live := fill(t, c, "{tag}:", 100)
	k, _ := keySpaceOf(l, "{tag}:")
	p, err := k.step(t.Context(), position{}, largePage)
	require.NoError(t, err)
	require.NotEmpty(t, p.keys)
	migration := of.BeginMigration(int(k.slot), of.Master("somewhere else"))
	if migration.From().Addr() == of.Master("somewhere else").Addr() {
		t.Fatal("the key must be elsewhere")
	}
	require.Equal(t, 200, migration.Step(200))
	visited := make(map[string]buckets.Kind)
	require.NoError(t, k.visit(t.Context(), testNow+int64(time.Second), p, func(key string, kind buckets.Kind) bool {
		visited[key] = kind
		return true
	}))
	for _, name := range p.keys {
		assert.Equal(t, live[name], visited[name], name)
	}
	assert.Positive(t, l.asked, "the topology is read again")
	require.NoError(t, k.unlink(t.Context(), p))
	for _, name := range p.keys {
		require.Zero(t, c.Exists(t.Context(), "{tag}:"+name).Val(), name)
	}
	migration.Finish()
}

// A replica takes over in the middle of a scan. It hashes its keys in another order.
func testScanWhileAReplicaTakesOver(t *testing.T, of *engines.Cluster, c *redis.ClusterClient) {
	l := newLayout(t, c)
	k, _ := keySpaceOf(l, "{tag}:")
	want := fill(t, c, "{tag}:", 500)
	require.Eventually(t, func() bool {
		master, replica := of.Master("{tag}:"), of.Replica("{tag}:")
		return replica != nil && master.Client().DBSize(t.Context()).Val() == replica.Client().DBSize(t.Context()).Val()
	}, 10*time.Second, 10*time.Millisecond)
	visited := walkAll(t, k, testNow+int64(time.Second), 100, func(call int) {
		if call != 1 {
			return
		}
		of.KillMaster("{tag}:")
		_, err := k.Scan(t.Context(), testNow, 0, 10, func([]byte, buckets.Kind) {})
		var unavailable *buckets.Unavailable
		require.ErrorAs(t, err, &unavailable)
		of.WaitOK()
		c.ReloadState(t.Context())
		master := of.Master("{tag}:")
		require.Eventually(t, func() bool {
			l.read()
			return l.slots[k.slot].addr == master.Addr()
		}, 10*time.Second, 50*time.Millisecond)
	})
	assert.Equal(t, want, visited)
}

// A server that has loaded its keys again is another process.
func TestScanWhileAServerStartsAnew(t *testing.T) {
	t.Parallel()
	for _, version := range engines.Versions() {
		t.Run(version.String(), func(t *testing.T) {
			t.Parallel()
			n := engines.Standalone(t, version, engines.Args("--appendonly", "yes", "--appendfsync", "always"))
			l := newLayout(t, n.Client(), n.Addr())
			want := fill(t, n.Client(), "app:", 1000)
			k, _ := keySpaceOf(l, "app:")
			visited := walkAll(t, k, testNow+int64(time.Second), 100, func(call int) {
				if call != 1 && call != 3 {
					return
				}
				n.Stop()
				n.Start()
				require.Eventually(t, func() bool { return n.Client().Ping(t.Context()).Err() == nil }, 10*time.Second, 10*time.Millisecond)
			})
			assert.Equal(t, want, visited)
		})
	}
}

// A count that takes long is made in several calls, and holds for a while.
func TestCountThatTakesLong(t *testing.T) {
	n := engines.Standalone(t, engines.Redis70)
	l := newLayout(t, n.Client(), n.Addr())
	fill(t, n.Client(), "app:", 1000) // 5000 keys, which are five pages or more
	k, _ := keySpaceOf(l, "app:")
	clock := int64(0)
	k.local = func() int64 { clock += int64(600 * time.Millisecond); return clock }

	var unavailable *buckets.Unavailable
	calls := 0
	for ; ; calls++ {
		size, err := k.Len(t.Context(), testNow)
		if err == nil {
			assert.EqualValues(t, 5000, size)
			break
		}
		require.ErrorAs(t, err, &unavailable)
		require.Less(t, calls, 100)
	}
	assert.Positive(t, calls, "the first call has not finished")

	require.NoError(t, n.Client().Set(t.Context(), "app:another", "x", 0).Err())
	size, err := k.Len(t.Context(), testNow)
	require.NoError(t, err)
	assert.EqualValues(t, 5000, size, "the count holds")
	clock += int64(countPause) * k.count.took
	for calls = 0; size == 5000; calls++ {
		require.Less(t, calls, 100)
		size, err = k.Len(t.Context(), testNow)
		require.NoError(t, err, "the count before holds while the next is made")
	}
	assert.EqualValues(t, 5001, size)
	assert.Positive(t, calls)

	require.NoError(t, k.Flush(t.Context()))
	k.local = func() int64 { clock += int64(200 * time.Millisecond); return clock }
	for want := range int64(3) {
		size, err = k.Len(t.Context(), testNow)
		require.NoError(t, err)
		assert.Equal(t, want, size, "few keys are counted each time, however far the engine is")
		require.NoError(t, n.Client().Set(t.Context(), fmt.Sprint("app:", want), "x", 0).Err())
	}
}

func TestFaultsOfAWalk(t *testing.T) {
	n := engines.Standalone(t, engines.Valkey81)
	proxy := engines.StartProxy(t, n.Addr())
	l := newLayout(t, n.Client(), proxy.Addr())
	want := fill(t, n.Client(), "app:", 20)
	k, forgotten := keySpaceOf(l, "app:")
	all := func(ctx context.Context) (errs []error) {
		_, err := k.Scan(ctx, testNow, 0, 10, func([]byte, buckets.Kind) { t.Error("visited") })
		errs = append(errs, err)
		_, _, err = k.RandomKey(ctx, testNow, nil)
		errs = append(errs, err)
		_, err = k.Len(ctx, testNow)
		return append(errs, err, k.Flush(ctx))
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for _, err := range all(ended) {
		require.ErrorIs(t, err, context.Canceled)
	}
	require.Zero(t, *forgotten)
	proxy.Hang()
	soon, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	for _, err := range all(soon) {
		require.ErrorIs(t, err, context.DeadlineExceeded)
	}
	proxy.Pass()
	proxy.Cut()
	for _, err := range all(t.Context()) {
		var unavailable *buckets.Unavailable
		require.ErrorAs(t, err, &unavailable)
		require.Contains(t, err.Error(), proxy.Addr())
	}
	assert.Positive(t, l.asked, "the topology is read again")
	proxy.Pass()
	assert.Equal(t, want, walkAll(t, k, testNow+int64(time.Second), 10, nil), "service returns by itself")

	// A user without INFO is served, too.
	admin := n.Client()
	require.NoError(t, admin.Do(t.Context(), "ACL", "SETUSER", "default", "-info").Err())
	assert.Equal(t, want, walkAll(t, k, testNow+int64(time.Second), 10, nil))
}

// A server that has become a replica is not asked for keys.
func TestReplicaIsNotScanned(t *testing.T) {
	of := engines.SharedCluster(t, engines.Valkey81)
	replica := of.Replica("x")
	require.NotNil(t, replica)
	l := newLayout(t, replica.Client(), replica.Addr())
	k, _ := keySpaceOf(l, "app:")
	_, err := k.Scan(t.Context(), testNow, 0, 10, func([]byte, buckets.Kind) {})
	var unavailable *buckets.Unavailable
	require.ErrorAs(t, err, &unavailable)
	assert.Positive(t, l.asked)
}

// A store forgets what it knew of keys that it has flushed, and visits what it holds.
func TestStoreOfAnEmptiedKeySpace(t *testing.T) {
	of := engines.SharedCluster(t, engines.Valkey81)
	s := openAt(t, of.Addrs()[0], func(_ *Config, r *Rules) { r.RefusalCache = time.Hour })
	l := mustLimit(buckets.NewWindow(1, 3600*second))
	for i := range 50 {
		op := apply(t, s, takeOp(fmt.Sprint(i), l, 1))
		require.NoError(t, op.Err)
		require.False(t, op.Decision.Limited)
	}
	op := apply(t, s, takeOp("7", l, 1))
	require.NoError(t, op.Err)
	require.True(t, op.Decision.Limited)
	n, err := s.Len(t.Context(), s.Now())
	require.NoError(t, err)
	assert.EqualValues(t, 50, n)
	_, found, err := s.RandomKey(t.Context(), s.Now(), nil)
	require.NoError(t, err)
	assert.True(t, found)

	require.NoError(t, s.Flush(t.Context()))
	op = apply(t, s, takeOp("7", l, 1))
	require.NoError(t, op.Err)
	assert.False(t, op.Decision.Limited, "the refusal that was seen before does not count any more")
	visited := make(map[string]buckets.Kind)
	for cursor := uint64(0); ; {
		cursor, err = s.Scan(t.Context(), s.Now(), cursor, 10, func(key []byte, kind buckets.Kind) { visited[string(key)] = kind })
		require.NoError(t, err)
		if cursor == 0 {
			break
		}
	}
	assert.Equal(t, map[string]buckets.Kind{"7": buckets.Window}, visited)
}
