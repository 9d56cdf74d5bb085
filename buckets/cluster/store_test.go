package cluster

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"cellserver/buckets"
	"cellserver/buckets/memory"
	"cellserver/internal/testing/engines"
)

const second = int64(time.Second)

func localClock() int64 { return time.Now().UnixNano() }

// openAt returns a store whose engine is at an address.
func openAt(t testing.TB, addr string, change func(c *Config, r *Rules)) *Store {
	c := Config{Addrs: []string{addr}, Local: localClock, Slack: time.Hour, Prefix: fmt.Sprintf("%d:", localClock())}
	r := Rules{Timeout: 5 * time.Second}
	if change != nil {
		change(&c, &r)
	}
	s, err := New(c, r)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, s.Close()) })
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	require.NoError(t, s.Ready(ctx))
	return s
}

func mustLimit(l buckets.Limit, err error) *buckets.Limit {
	if err != nil {
		panic(err)
	}
	return &l
}

func takeOp(key string, l *buckets.Limit, quantity int64) buckets.Op {
	return buckets.Op{Code: buckets.OpTake, Key: []byte(key), Limit: l, Quantity: quantity}
}

func apply(t testing.TB, s *Store, op buckets.Op) buckets.Op {
	ops := []buckets.Op{op}
	s.Apply(context.Background(), s.Now(), ops)
	return ops[0]
}

// Many callers of several stores share keys: of each limit exactly as much is admitted as it allows.
func TestExactlyTheLimitIsAdmitted(t *testing.T) {
	n := engines.Standalone(t, engines.Valkey81)
	prefix := func(c *Config, r *Rules) { c.Prefix = "p:" }
	stores := []*Store{openAt(t, n.Addr(), prefix), openAt(t, n.Addr(), prefix), openAt(t, n.Addr(), prefix)}
	limits := map[string]*buckets.Limit{
		"throttle": mustLimit(buckets.NewThrottle(499, 1, 3600*second)),
		"window":   mustLimit(buckets.NewWindow(500, 3600*second)),
		"slide":    mustLimit(buckets.NewSlide(500, 3600*second)),
	}
	for name, l := range limits {
		var group sync.WaitGroup
		var mu sync.Mutex
		admitted := 0
		for _, s := range stores {
			for range 20 {
				group.Go(func() {
					for range 50 {
						op := apply(t, s, takeOp(name, l, 1))
						if !assert.NoError(t, op.Err) {
							return
						}
						if !op.Decision.Limited {
							mu.Lock()
							admitted++
							mu.Unlock()
						}
					}
				})
			}
		}
		group.Wait()
		assert.Equal(t, 500, admitted, name)
	}
	for _, s := range stores {
		t.Logf("%+v", s.Remote())
	}
}

// Many callers of one key in several stores: nobody waits for long, as those who wait together are decided together, and a store that
// lost a race goes on from what the other has written.
func TestManyCallersOfOneKey(t *testing.T) {
	n := engines.Standalone(t, engines.Valkey81)
	same := func(c *Config, r *Rules) { c.Prefix, r.Timeout = "same:", time.Second }
	stores := []*Store{openAt(t, n.Addr(), same), openAt(t, n.Addr(), same), openAt(t, n.Addr(), same)}
	l := mustLimit(buckets.NewWindow(1000000, 3600*second))
	var group sync.WaitGroup
	var longest atomic.Int64
	began := time.Now()
	const callers, each = 400, 50
	for i := range callers {
		group.Go(func() {
			for range each {
				asked := time.Now()
				if !assert.NoError(t, apply(t, stores[i%3], takeOp("k", l, 1)).Err) {
					return
				}
				for took := int64(time.Since(asked)); ; {
					if before := longest.Load(); took <= before || longest.CompareAndSwap(before, took) {
						break
					}
				}
			}
		})
	}
	group.Wait()
	took := time.Since(began)
	assert.EqualValues(t, 1000000-callers*each, apply(t, stores[0], takeOp("k", l, 0)).Decision.Remaining)
	var decisions, conflicts uint64
	for _, s := range stores {
		r := s.Remote()
		decisions, conflicts = decisions+r.Decisions, conflicts+r.Conflicts
	}
	t.Logf("%.0f decisions/s, longest wait %v, %.3f conflicts per decision", callers*each/took.Seconds(),
		time.Duration(longest.Load()), float64(conflicts)/float64(decisions))
	assert.Less(t, conflicts, decisions*3/10)
}

// Two stores that share an engine and a store in memory get the same random operations on single keys, and give the same results.
// Each of the two sees half of them, so that what it has seen is often old.
func TestRandomOperationsEqualTheMemoryStore(t *testing.T) {
	n := engines.Standalone(t, engines.Valkey81)
	const epoch = 1790000000 * second
	prefix := 0
	var stores []*Store
	for range 2 {
		stores = append(stores, openAt(t, n.Addr(), func(c *Config, _ *Rules) { c.OwnTime, c.Prefix = true, "" }))
	}
	limits := []*buckets.Limit{
		mustLimit(buckets.NewThrottle(4, 1, second)), mustLimit(buckets.NewThrottle(0, 3, 2*second)), mustLimit(buckets.NewWindow(3, 2*second)),
		mustLimit(buckets.NewAlignedWindow(2, second, second/2)), mustLimit(buckets.NewSlide(3, 2*second)), mustLimit(buckets.NewSlide(100, 50*second)),
	}
	now := epoch
	rapid.Check(t, func(rt *rapid.T) {
		prefix++
		now += 1000 * second
		reference := memory.NewStore(4)
		names := []string{"a", "b", strings.Repeat("long", 60)}
		for range rapid.IntRange(1, 20).Draw(rt, "batches") {
			now += rapid.SampledFrom([]int64{0, 1, second / 3, second, 2 * second, 100 * second, 2 * 3600 * second}).Draw(rt, "later")
			var ops, want []buckets.Op
			for range rapid.IntRange(1, 8).Draw(rt, "ops") {
				key := fmt.Appendf(nil, "%d:%s", prefix, rapid.SampledFrom(names).Draw(rt, "key"))
				op := buckets.Op{Key: key, Keys: [][]byte{key}, Limit: rapid.SampledFrom(limits).Draw(rt, "limit")}
				op.Code = rapid.SampledFrom([]buckets.OpCode{
					buckets.OpTake, buckets.OpTake, buckets.OpTake, buckets.OpTake, buckets.OpGet, buckets.OpStat, buckets.OpExists, buckets.OpDelete,
					buckets.OpExpire, buckets.OpPersist,
				}).Draw(rt, "code")
				op.Quantity = rapid.SampledFrom([]int64{1, 1, 1, 0, 2, 3, 5, -1, -2, 101}).Draw(rt, "quantity")
				op.Peek = rapid.IntRange(0, 3).Draw(rt, "peek") == 0
				op.At = now + rapid.SampledFrom([]int64{-second, 0, 1, second / 2, second, 3 * second, 1000 * second}).Draw(rt, "in")
				ops = append(ops, op)
			}
			want = slices.Clone(ops)
			reference.Apply(context.Background(), now, want)
			rapid.SampledFrom(stores).Draw(rt, "store").Apply(context.Background(), now, ops)
			for i := range ops {
				ops[i].Contents.Bytes, want[i].Contents.Bytes = 0, 0
				if want[i].Err != nil {
					want[i].Decision = ops[i].Decision
				}
				require.Equal(rt, want[i], ops[i])
			}
		}
	})
	t.Logf("%+v", stores[0].Remote())
}

// A server that hangs costs an Apply the timeout and no more, and what it says later touches no operation of the past.
func TestTimeout(t *testing.T) {
	n := engines.Standalone(t, engines.Valkey81)
	proxy := engines.StartProxy(t, n.Addr())
	s := openAt(t, proxy.Addr(), func(_ *Config, r *Rules) { r.Timeout = 50 * time.Millisecond })
	l := mustLimit(buckets.NewWindow(1000000, 3600*second))
	require.NoError(t, apply(t, s, takeOp("a", l, 1)).Err)
	proxy.Hang()
	var group sync.WaitGroup
	for i := range 8 {
		group.Go(func() {
			ops := []buckets.Op{takeOp("a", l, 1), takeOp(fmt.Sprint(i), l, 1), takeOp("c", l, 1)}
			for range 4 {
				began := time.Now()
				s.Apply(context.Background(), s.Now(), ops)
				assert.Less(t, time.Since(began), time.Second)
				for i := range ops {
					var away *buckets.Unavailable
					if !assert.ErrorAs(t, ops[i].Err, &away) {
						return
					}
				}
				ops = []buckets.Op{takeOp("a", l, 1), takeOp(fmt.Sprint(i), l, 1), takeOp("c", l, 1)}
			}
		})
	}
	group.Wait()
	assert.EqualValues(t, 8*4*3, s.Remote().Timeouts)
	assert.EqualValues(t, 8*4*3, s.Remote().Failures)
	proxy.Pass()
	require.Eventually(t, func() bool { return apply(t, s, takeOp("a", l, 1)).Err == nil }, 10*time.Second, time.Millisecond)
	used := apply(t, s, takeOp("a", l, 0))
	require.NoError(t, used.Err)
	assert.GreaterOrEqual(t, 1000000-used.Decision.Remaining, int64(2), "what was admitted")
	assert.LessOrEqual(t, 1000000-used.Decision.Remaining, int64(2+8*4))
}

// A request that was written to a connection that then breaks is not sent again: it counts once or not at all.
func TestUnknownOutcomeIsNotTriedAgain(t *testing.T) {
	n := engines.Standalone(t, engines.Valkey81)
	proxy := engines.StartProxy(t, n.Addr())
	s := openAt(t, proxy.Addr(), nil)
	direct := openAt(t, n.Addr(), func(c *Config, _ *Rules) { c.Prefix = s.config.Prefix })
	l := mustLimit(buckets.NewWindow(1000000, 3600*second))
	require.NoError(t, apply(t, s, takeOp("a", l, 1)).Err)
	admitted, unknown := int64(1), int64(0)
	for range 20 {
		proxy.Delay(0, 20*time.Millisecond) // the reply is late, so that the connection breaks while it is under way
		done := make(chan buckets.Op)
		before := s.Remote().Commands
		go func() { done <- apply(t, s, takeOp("a", l, 1)) }()
		used := func() int64 { return 1000000 - apply(t, direct, takeOp("a", l, 0)).Decision.Remaining }
		require.Eventually(t, func() bool { return used() > admitted+unknown }, 5*time.Second, time.Millisecond)
		proxy.Cut()
		op := <-done
		proxy.Delay(0, 0)
		proxy.Pass()
		if op.Err == nil {
			admitted++
			require.Greater(t, s.Remote().Commands, before)
		} else {
			var away *buckets.Unavailable
			require.ErrorAs(t, op.Err, &away)
			require.True(t, away.Unknown, away.Reason)
			unknown++
		}
		require.Equal(t, admitted+unknown, used(), "it was done once")
	}
	assert.Positive(t, unknown)
}

// What has not been written when a connection breaks, and what only reads, is tried again within the timeout.
func TestBrokenConnectionIsReplaced(t *testing.T) {
	n := engines.Standalone(t, engines.Valkey81)
	proxy := engines.StartProxy(t, n.Addr())
	s := openAt(t, proxy.Addr(), nil)
	l := mustLimit(buckets.NewWindow(1000000, 3600*second))
	require.NoError(t, apply(t, s, takeOp("a", l, 1)).Err)
	for range 5 {
		proxy.Delay(0, 20*time.Millisecond)
		done := make(chan buckets.Op)
		go func() { done <- apply(t, s, takeOp("a", l, 0)) }()
		path := &s.engine.node(0).hot
		require.Eventually(t, func() bool { return path.requests.Load() > 0 }, time.Second, time.Microsecond)
		proxy.Cut()
		proxy.Delay(0, 0)
		proxy.Pass()
		op := <-done
		require.NoError(t, op.Err)
		require.EqualValues(t, 1000000-1, op.Decision.Remaining)
	}
}

// Within the refusal cache, a request that is refused costs no round trip, and its times are exact. Everything else asks.
func TestRefusalsWithoutARoundTrip(t *testing.T) {
	n := engines.Standalone(t, engines.Valkey81)
	now := 1790000000 * second
	s := openAt(t, n.Addr(), func(c *Config, r *Rules) { c.OwnTime, r.RefusalCache = true, time.Hour })
	decide := func(l *buckets.Limit, quantity int64, peek bool) (d buckets.Decision, trips uint64) {
		op := takeOp("k", l, quantity)
		op.Peek = peek
		before := s.Remote().Commands
		ops := []buckets.Op{op}
		s.Apply(context.Background(), now, ops)
		require.NoError(t, ops[0].Err)
		return ops[0].Decision, s.Remote().Commands - before
	}
	l, tighter := mustLimit(buckets.NewThrottle(0, 1, 10*second)), mustLimit(buckets.NewThrottle(0, 1, 2*second))
	_, trips := decide(l, 1, false)
	assert.EqualValues(t, 1, trips)
	for _, row := range []struct {
		what     string
		later    int64
		limit    *buckets.Limit
		quantity int64
		peek     bool
		limited  bool
		wait     int64
		trips    uint64
	}{
		{"refused", second, l, 1, false, true, 9 * second, 0},
		{"refused later", second, l, 1, false, true, 8 * second, 0},
		{"more than the limit", 0, l, 2, false, true, buckets.Never, 0},
		{"a peek asks", 0, l, 1, true, true, 8 * second, 1},
		{"nothing asks", 0, l, 0, false, false, buckets.Never, 1},
		{"a limit that cuts the state asks", 0, tighter, 1, false, true, 2 * second, 1},
		{"refused by what was cut", second, tighter, 1, false, true, second, 0},
		{"admitted again", second, tighter, 1, false, false, buckets.Never, 1},
	} {
		now += row.later
		d, trips := decide(row.limit, row.quantity, row.peek)
		assert.Equal(t, row.limited, d.Limited, row.what)
		assert.Equal(t, row.wait, d.RetryAfter, row.what)
		assert.Equal(t, row.trips, trips, row.what)
	}
	assert.EqualValues(t, 4, s.Remote().Local)
	s.SetRules(Rules{Timeout: 5 * time.Second})
	_, trips = decide(tighter, 1, false)
	assert.EqualValues(t, 1, trips, "without the cache")
}

// What was under way while a transaction of the same store changed the key is older than that, and refuses nobody later.
func TestTransactionOvertakesWhatIsUnderWay(t *testing.T) {
	n := engines.Standalone(t, engines.Valkey81)
	proxy := engines.StartProxy(t, n.Addr())
	s := openAt(t, proxy.Addr(), func(_ *Config, r *Rules) { r.RefusalCache = time.Hour })
	l := mustLimit(buckets.NewWindow(1, 3600*second))
	for name, change := range map[string]func(key []byte){
		"learn":     func(key []byte) { s.learn(key, nil, localClock()) },
		"forget":    s.forget,
		"forgetAll": func([]byte) { s.forgetAll() },
	} {
		t.Run(name, func(t *testing.T) {
			require.False(t, apply(t, s, takeOp(name, l, 1)).Decision.Limited)
			require.True(t, apply(t, s, takeOp(name, l, 1)).Decision.Limited)
			read := func() string { return n.Info("commandstats", "cmdstat_get") }
			before := read()
			proxy.Delay(0, 200*time.Millisecond)
			answered := make(chan buckets.Op)
			go func() {
				op := takeOp(name, l, 1)
				op.Peek = true
				answered <- apply(t, s, op)
			}()
			require.Eventually(t, func() bool { return read() != before }, 5*time.Second, time.Millisecond)
			key := s.engineKey(nil, []byte(name))
			require.NoError(t, n.Client().Del(t.Context(), string(key)).Err())
			change(key)
			proxy.Delay(0, 0)
			assert.True(t, (<-answered).Decision.Limited, "it was read before")
			assert.False(t, apply(t, s, takeOp(name, l, 1)).Decision.Limited, "it was deleted")
		})
	}
}

// Requests for one key are decided in the order in which they were made, whatever else goes on.
func TestOrderWithinAKey(t *testing.T) {
	n := engines.Standalone(t, engines.Valkey81)
	s := openAt(t, n.Addr(), nil)
	l := mustLimit(buckets.NewWindow(1000000, 3600*second))
	var group sync.WaitGroup
	for g := range 8 {
		group.Go(func() {
			own := fmt.Sprint("own", g)
			for i := range int64(50) {
				ops := []buckets.Op{takeOp(own, l, 1), takeOp("shared", l, 1), takeOp(own, l, 2), takeOp(own, l, -3), takeOp("shared", l, 1), takeOp(own, l, 1)}
				s.Apply(context.Background(), s.Now(), ops)
				var left []int64
				for _, op := range ops {
					if !assert.NoError(t, op.Err) {
						return
					}
					left = append(left, 1000000-op.Decision.Remaining-i)
				}
				assert.Equal(t, []int64{1, 3, 0, 1}, []int64{left[0], left[2], left[3], left[5]})
				assert.Less(t, left[1], left[4])
			}
		})
	}
	group.Wait()
	assert.EqualValues(t, 1000000-8*50*2, apply(t, s, takeOp("shared", l, 0)).Decision.Remaining)
}

// A context that ends takes its requests out of the queue, and touches no others.
func TestContextEnds(t *testing.T) {
	n := engines.Standalone(t, engines.Valkey81)
	proxy := engines.StartProxy(t, n.Addr())
	s := openAt(t, proxy.Addr(), nil)
	l := mustLimit(buckets.NewWindow(1000000, 3600*second))
	require.NoError(t, apply(t, s, takeOp("a", l, 1)).Err)
	proxy.Hang()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan []buckets.Op)
	go func() {
		ops := []buckets.Op{takeOp("a", l, 1), takeOp("b", l, 1)}
		s.Apply(ctx, s.Now(), ops)
		done <- ops
	}()
	path := &s.engine.node(0).hot
	require.Eventually(t, func() bool { return path.requests.Load() == 2 }, 5*time.Second, time.Millisecond)
	later := make(chan buckets.Op)
	go func() { later <- apply(t, s, takeOp("b", l, 5)) }()
	require.Eventually(t, func() bool { return path.requests.Load() == 3 }, 5*time.Second, time.Millisecond)
	cancel()
	for _, op := range <-done {
		assert.ErrorIs(t, op.Err, context.Canceled)
	}
	proxy.Pass()
	assert.NoError(t, (<-later).Err)
	assert.Zero(t, path.requests.Load())
}

// However many requests wait, there is a bound, and what is beyond it fails at once.
func TestQueueIsBounded(t *testing.T) {
	n := engines.Standalone(t, engines.Valkey81)
	proxy := engines.StartProxy(t, n.Addr())
	s := openAt(t, proxy.Addr(), func(_ *Config, r *Rules) { r.Timeout = time.Minute })
	l := mustLimit(buckets.NewWindow(1000000, 3600*second))
	require.NoError(t, apply(t, s, takeOp("a", l, 1)).Err)
	proxy.Hang()
	path := &s.engine.node(0).hot
	const each = 1000
	batch := func(caller int) []buckets.Op {
		ops := make([]buckets.Op, each)
		for i := range ops {
			ops[i] = takeOp(fmt.Sprint(caller, i), l, 1)
		}
		return ops
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	var group sync.WaitGroup
	for c := range maxWaiting / each {
		group.Go(func() {
			ops := batch(c)
			s.Apply(ctx, s.Now(), ops)
			for i := range ops {
				assert.ErrorIs(t, ops[i].Err, context.Canceled)
			}
		})
	}
	require.Eventually(t, func() bool { return path.requests.Load() == maxWaiting }, 30*time.Second, time.Millisecond)
	ops := batch(0)
	s.Apply(context.Background(), s.Now(), ops) // waits for nothing
	for i := range ops {
		require.ErrorIs(t, ops[i].Err, errTooMany)
	}
	cancel()
	group.Wait()
	assert.Zero(t, path.requests.Load())
	queued := func() int {
		path.mu.Lock()
		defer path.mu.Unlock()
		return len(path.queue) - path.next
	}
	require.Eventually(t, func() bool { return queued() <= 1024 }, 5*time.Second, time.Millisecond, "lines that nobody waits for are forgotten")
	proxy.Pass()
	require.Eventually(t, func() bool { return apply(t, s, takeOp("a", l, 1)).Err == nil }, 10*time.Second, time.Millisecond)
}

// The panic of an updater is that of the caller.
func TestPanicOfAnUpdater(t *testing.T) {
	n := engines.Standalone(t, engines.Valkey81)
	s := openAt(t, n.Addr(), nil)
	assert.PanicsWithValue(t, "updater", func() {
		apply(t, s, buckets.Op{Code: buckets.OpUpdate, Keys: [][]byte{[]byte("k")}, Update: panicking{}})
	})
	l := mustLimit(buckets.NewWindow(10, second))
	assert.NoError(t, apply(t, s, takeOp("k", l, 1)).Err)
}

type panicking struct{}

func (panicking) Update(int64, []buckets.State) (bool, error) { panic("updater") }

// A value that the store has not written is left alone.
func TestForeignValuesAreLeftAlone(t *testing.T) {
	n := engines.Standalone(t, engines.Valkey81)
	s := openAt(t, n.Addr(), nil)
	l := mustLimit(buckets.NewWindow(10, second))
	client, ctx := n.Client(), context.Background()
	require.NoError(t, client.Set(ctx, s.config.Prefix+"string", "hello", 0).Err())
	require.NoError(t, client.LPush(ctx, s.config.Prefix+"list", "hello").Err())
	for _, key := range []string{"string", "list"} {
		for range 2 {
			for _, op := range []buckets.Op{
				takeOp(key, l, 1), takeOp(key, l, 0), {Code: buckets.OpGet, Key: []byte(key)}, {Code: buckets.OpDelete, Keys: [][]byte{[]byte(key)}},
			} {
				assert.ErrorIs(t, apply(t, s, op).Err, buckets.ErrForeignValue, key)
			}
		}
	}
	assert.Equal(t, "hello", client.Get(ctx, s.config.Prefix+"string").Val())
	require.NoError(t, client.Del(ctx, s.config.Prefix+"string", s.config.Prefix+"list").Err())
	for _, key := range []string{"string", "list"} {
		assert.NoError(t, apply(t, s, takeOp(key, l, 1)).Err, key)
	}
}

// What the engine refuses is said, and answered as the rules say.
func TestEngineRefuses(t *testing.T) {
	n := engines.Standalone(t, engines.Valkey81)
	s := openAt(t, n.Addr(), nil)
	l := mustLimit(buckets.NewWindow(10, 60*second))
	require.NoError(t, apply(t, s, takeOp("k", l, 3)).Err)
	require.NoError(t, n.Client().ConfigSet(context.Background(), "maxmemory", "1").Err())
	op := apply(t, s, takeOp("k", l, 1))
	var away *buckets.Unavailable
	require.ErrorAs(t, op.Err, &away)
	assert.False(t, away.Unknown)
	assert.Contains(t, away.Reason, "out of memory: OOM")

	s.SetRules(Rules{Failure: FailAdmit})
	op = apply(t, s, takeOp("k", l, 1))
	assert.NoError(t, op.Err)
	assert.Equal(t, buckets.Decision{Limit: 10, Remaining: 9, RetryAfter: buckets.Never, ResetAfter: 60 * second}, op.Decision)
	s.SetRules(Rules{Failure: FailRefuse})
	op = apply(t, s, takeOp("k", l, 1))
	assert.NoError(t, op.Err)
	assert.Equal(t, buckets.Decision{Limited: true, Limit: 10, RetryAfter: second, ResetAfter: second}, op.Decision)
	op = apply(t, s, takeOp("new", l, 1))
	assert.True(t, op.Decision.Limited)
	assert.Equal(t, buckets.Never, apply(t, s, takeOp("k", l, 11)).Decision.RetryAfter, "the engine can be asked")
	op = apply(t, s, buckets.Op{Code: buckets.OpDelete, Keys: [][]byte{[]byte("k")}})
	assert.Error(t, op.Err, "only limits are answered without the engine")
	r := s.Remote()
	assert.Equal(t, []uint64{5, 1, 2}, []uint64{r.Failures, r.Admitted, r.Refused})

	require.NoError(t, n.Client().ConfigSet(context.Background(), "maxmemory", "0").Err())
	assert.EqualValues(t, 6, apply(t, s, takeOp("k", l, 1)).Decision.Remaining, "what was refused has changed nothing")
}

// What was seen is bounded in bytes.
func TestCacheIsBounded(t *testing.T) {
	n := engines.Standalone(t, engines.Valkey81)
	const limit = 100 << 10
	s := openAt(t, n.Addr(), func(_ *Config, r *Rules) { r.CacheBytes = limit })
	l, long := mustLimit(buckets.NewWindow(10, 60*second)), mustLimit(buckets.NewSlide(1000000, 60*second))
	for i := range 2000 {
		require.NoError(t, apply(t, s, takeOp(fmt.Sprint("key", i), l, 1)).Err)
		require.NoError(t, apply(t, s, takeOp("long", long, 1)).Err)
		require.Eventually(t, func() bool { return s.table.bytes.Load() <= limit }, 5*time.Second, time.Microsecond)
	}
	assert.Greater(t, s.table.known.Load(), int64(10))
	s.forgetAll()
	assert.Zero(t, s.table.known.Load())
	assert.Zero(t, s.table.bytes.Load())
	for i := range 2000 {
		require.EqualValues(t, 8, apply(t, s, takeOp(fmt.Sprint("key", i), l, 1)).Decision.Remaining)
	}
}

// What a transaction has set is not remembered if the key was seen after the transaction was sent: which of the two is older is unknown.
func TestOldNewsOfATransactionRefuseNobody(t *testing.T) {
	s := openAt(t, engines.Standalone(t, engines.Valkey81).Addr(), func(_ *Config, r *Rules) { r.RefusalCache = time.Hour })
	l := mustLimit(buckets.NewWindow(1, 3600*second))
	sent := localClock()
	require.False(t, apply(t, s, takeOp("k", l, 1)).Decision.Limited)
	key := s.engineKey(nil, []byte("k"))
	hash, sh := s.table.shard(key)
	exhausted := slices.Clone(sh.find(hash, key).value)
	require.EqualValues(t, 1, apply(t, s, buckets.Op{Code: buckets.OpDelete, Keys: [][]byte{[]byte("k")}}).N)
	s.learn(key, exhausted, sent)
	assert.False(t, apply(t, s, takeOp("k", l, 1)).Decision.Limited, "the key was deleted")
	s.learn(key, exhausted, localClock())
	before := s.Remote().Commands
	assert.True(t, apply(t, s, takeOp("k", l, 1)).Decision.Limited)
	assert.Equal(t, before, s.Remote().Commands, "what was set after the key was seen is news")
}
