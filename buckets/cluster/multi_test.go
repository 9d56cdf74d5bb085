package cluster

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"cellserver/buckets"
	"cellserver/internal/testing/engines"
)

// takeAllOp takes one of each key.
func takeAllOp(limit *buckets.Limit, keys ...string) buckets.Op {
	op := buckets.Op{Code: buckets.OpTakeAll, Answers: make([]buckets.Decision, len(keys))}
	for _, key := range keys {
		op.Checks = append(op.Checks, buckets.Check{Key: []byte(key), Limit: *limit, Quantity: 1})
	}
	return op
}

// inAll runs do in so many goroutines for each store, and waits for them.
func inAll(stores []*Store, goroutines int, do func(s *Store)) {
	var group sync.WaitGroup
	for _, s := range stores {
		for range goroutines {
			group.Go(func() { do(s) })
		}
	}
	group.Wait()
}

// openThree returns stores that share their keys.
func openThree(t testing.TB, addr string, change func(c *Config, r *Rules)) []*Store {
	prefix := fmt.Sprintf("{%d}:", prefixes.Add(1))
	var stores []*Store
	for range 3 {
		stores = append(stores, openAt(t, addr, func(c *Config, r *Rules) {
			c.Prefix = prefix
			if change != nil {
				change(c, r)
			}
		}))
	}
	return stores
}

// Many callers of several stores take from the same two keys, and others from one of them: exactly the limit is admitted, of
// both keys the same, and nobody starves.
func TestTakeAllAdmitsExactlyTheLimit(t *testing.T) {
	for _, version := range []engines.Version{engines.Valkey81, engines.Redis70} {
		t.Run(version.String(), func(t *testing.T) {
			n := engines.Standalone(t, version)
			stores := openThree(t, n.Addr(), nil)
			const limit, callers, calls = 2000, 50, 20
			l := mustLimit(buckets.NewWindow(limit, 3600*second))
			var mu sync.Mutex
			admitted, alone := 0, 0
			var longest time.Duration
			began := time.Now()
			inAll(stores, callers, func(s *Store) {
				for i := range calls {
					before := time.Now()
					op := takeAllOp(l, "a", "b")
					if i%10 == 9 {
						op = takeOp("a", l, 1)
					}
					if op = apply(t, s, op); !assert.NoError(t, op.Err) {
						return
					}
					mu.Lock()
					longest = max(longest, time.Since(before))
					switch {
					case op.Code == buckets.OpTakeAll && op.Which == 0:
						admitted++
					case op.Code == buckets.OpTake && !op.Decision.Limited:
						alone++
					}
					mu.Unlock()
				}
			})
			took := time.Since(began)
			assert.Equal(t, limit, admitted+alone)
			assert.EqualValues(t, limit-admitted, apply(t, stores[0], takeOp("b", l, 0)).Decision.Remaining)
			assert.Zero(t, apply(t, stores[0], takeOp("a", l, 0)).Decision.Remaining)
			assert.Less(t, longest, 4*time.Second, "nobody starves")
			decisions, conflicts := uint64(0), uint64(0)
			for _, s := range stores {
				r := s.Remote()
				decisions, conflicts = decisions+r.Decisions, conflicts+r.Conflicts
			}
			t.Logf("%d of both and %d of one in %v: %.2f conflicts per decision, longest wait %v", admitted, alone, took, float64(conflicts)/float64(decisions), longest)
		})
	}
}

// prefixes makes the prefixes of stores differ.
var prefixes atomic.Int64

// Operations on several keys leave a key alone whose value is not ours.
func TestTogetherLeavesForeignValues(t *testing.T) {
	n := engines.Standalone(t, engines.Valkey81)
	s := openAt(t, n.Addr(), func(c *Config, _ *Rules) { c.Prefix = "p:" })
	l := mustLimit(buckets.NewWindow(5, 3600*second))
	ctx := context.Background()
	require.NoError(t, n.Client().RPush(ctx, "p:list", "x").Err())
	require.NoError(t, n.Client().Set(ctx, "p:text", "hello", 0).Err())
	for _, foreign := range []string{"list", "text"} {
		require.Equal(t, buckets.ErrForeignValue, apply(t, s, takeAllOp(l, "own", foreign)).Err, foreign)
		require.Equal(t, buckets.ErrForeignValue, apply(t, s, takeAllOp(l, foreign)).Err, foreign)
		rename := buckets.Op{Code: buckets.OpRename, Key: []byte("own"), To: []byte(foreign)}
		require.Equal(t, buckets.ErrForeignValue, apply(t, s, rename).Err, foreign)
	}
	require.Equal(t, []string{"x"}, n.Client().LRange(ctx, "p:list", 0, -1).Val())
	require.Equal(t, "hello", n.Client().Get(ctx, "p:text").Val())
	require.EqualValues(t, 5, apply(t, s, takeOp("own", l, 0)).Decision.Remaining, "nothing was taken of a call that failed")
}

// In a cluster only keys of one slot can be changed together.
func TestTogetherInACluster(t *testing.T) {
	cluster := engines.SharedCluster(t, engines.Valkey81)
	s := openAt(t, cluster.Addrs()[0], nil)
	l := mustLimit(buckets.NewWindow(5, 3600*second))
	require.NoError(t, apply(t, s, takeAllOp(l, "{t}a", "{t}b")).Err)
	for _, op := range []buckets.Op{takeAllOp(l, "{t}a", "{u}b"), {Code: buckets.OpRename, Key: []byte("{t}a"), To: []byte("{u}b")}} {
		require.Equal(t, buckets.ErrCrossSlot, apply(t, s, op).Err)
	}
	ctx := context.Background()
	none := func(buckets.Store) { t.Error("called") }
	require.Equal(t, buckets.ErrCrossSlot, s.Atomically(ctx, s.Now(), [][]byte{[]byte("{t}a"), []byte("{u}b")}, false, none))
	require.Equal(t, buckets.ErrNotOffered, s.Atomically(ctx, s.Now(), nil, true, none))
	require.EqualValues(t, 4, apply(t, s, takeOp("{t}a", l, 0)).Decision.Remaining)
}

// When the engine is away, an operation on several keys ends in time, and so do those that wait for it.
func TestTogetherEndsInTime(t *testing.T) {
	n := engines.Standalone(t, engines.Valkey81)
	s := openAt(t, n.Addr(), func(_ *Config, r *Rules) { r.Timeout = 200 * time.Millisecond })
	l := mustLimit(buckets.NewWindow(1000, 3600*second))
	require.NoError(t, apply(t, s, takeAllOp(l, "a", "b")).Err)
	n.Pause()
	var mu sync.Mutex
	var longest time.Duration
	inAll([]*Store{s}, 20, func(s *Store) {
		before := time.Now()
		op := apply(t, s, takeAllOp(l, "a", "b"))
		var away *buckets.Unavailable
		assert.ErrorAs(t, op.Err, &away)
		mu.Lock()
		defer mu.Unlock()
		longest = max(longest, time.Since(before))
	})
	assert.Less(t, longest, time.Second)
	assert.Empty(t, s.together.groups)
	assert.Empty(t, s.together.locks.all)
	n.Resume()
	require.Eventually(t, func() bool { return apply(t, s, takeAllOp(l, "a", "b")).Err == nil }, 10*time.Second, 10*time.Millisecond)
}

// panics is an updater that does.
type panics struct{}

func (panics) Update(int64, []buckets.State) (bool, error) { panic("an updater") }

// A panic of an updater is that of its caller, whoever decides for it.
func TestTogetherPanics(t *testing.T) {
	n := engines.Standalone(t, engines.Valkey81)
	s := openAt(t, n.Addr(), nil)
	inAll([]*Store{s}, 10, func(s *Store) {
		op := buckets.Op{Code: buckets.OpUpdate, Keys: [][]byte{[]byte("a"), []byte("b")}, Update: panics{}}
		assert.PanicsWithValue(t, "an updater", func() { apply(t, s, op) })
	})
	l := mustLimit(buckets.NewWindow(1000, 3600*second))
	require.NoError(t, apply(t, s, takeAllOp(l, "a", "b")).Err)
}

// Atomically runs again if another program has changed a key that it has read, and what it did before is not carried out.
func TestAtomicallyRunsAgain(t *testing.T) {
	n := engines.Standalone(t, engines.Valkey81)
	stores := openThree(t, n.Addr(), nil)
	s, other := stores[0], stores[1]
	l := mustLimit(buckets.NewWindow(100, 3600*second))
	ctx := context.Background()
	keys := [][]byte{[]byte("a"), []byte("b")}
	runs := 0
	require.NoError(t, s.Atomically(ctx, s.Now(), keys, false, func(held buckets.Store) {
		runs++
		ops := []buckets.Op{takeOp("a", l, 1), takeOp("b", l, 1), takeOp("c", l, 1)}
		held.Apply(ctx, s.Now(), ops)
		assert.NoError(t, ops[0].Err)
		assert.EqualValues(t, 100-runs, ops[0].Decision.Remaining, "what the others have taken, and one")
		assert.EqualValues(t, 99, ops[1].Decision.Remaining)
		assert.Equal(t, buckets.ErrNotOffered, ops[2].Err, "a key that is not held")
		if runs < 3 {
			assert.NoError(t, apply(t, other, takeOp("a", l, 1)).Err)
		}
	}))
	assert.Equal(t, 3, runs)
	assert.EqualValues(t, 97, apply(t, s, takeOp("a", l, 0)).Decision.Remaining)
	assert.EqualValues(t, 99, apply(t, other, takeOp("b", l, 0)).Decision.Remaining)

	// It gives up when the time is up.
	s.SetRules(Rules{Timeout: 100 * time.Millisecond})
	err := s.Atomically(ctx, s.Now(), keys, false, func(held buckets.Store) {
		held.Apply(ctx, s.Now(), []buckets.Op{takeOp("b", l, 1)})
		assert.NoError(t, apply(t, other, takeOp("a", l, 1)).Err)
		apply(t, other, takeOp("a", l, -1))
	})
	var away *buckets.Unavailable
	require.ErrorAs(t, err, &away)
	assert.False(t, away.Unknown)
	assert.EqualValues(t, 99, apply(t, other, takeOp("b", l, 0)).Decision.Remaining)
}

// While the slot of its keys moves to another server, an operation on several keys waits or goes where they are: nothing is lost, taken
// twice or taken of one key only. Clients' watches report no more than the move itself.
func TestTogetherWhileTheSlotMoves(t *testing.T) {
	t.Parallel()
	cluster := engines.StartCluster(t, engines.Valkey81)
	s := openAt(t, cluster.Addrs()[0], func(c *Config, _ *Rules) { c.Prefix = "{moves}:" })
	l := mustLimit(buckets.NewWindow(1<<40, 3600*second))
	const others = 5
	for i := range others {
		require.NoError(t, apply(t, s, takeOp(fmt.Sprint("other ", i), l, 1)).Err)
	}
	var taken atomic.Int64
	var stop atomic.Bool
	done := make(chan struct{})
	go func() {
		defer close(done)
		inAll([]*Store{s}, 4, func(s *Store) {
			for !stop.Load() {
				if op := apply(t, s, takeAllOp(l, "a", "b")); !assert.NoError(t, op.Err) {
					return
				}
				taken.Add(1)
			}
		})
	}()
	more := func() {
		before := taken.Load()
		require.Eventually(t, func() bool { return taken.Load() > before+10 }, 10*time.Second, time.Millisecond)
	}
	more()
	w, err := s.Watch(context.Background(), s.Now(), []byte("other 0"))
	require.NoError(t, err)
	defer s.Unwatch(w)
	slot := cluster.Slot("{moves}:")
	var to *engines.Node
	for _, key := range []string{"x", "y", "z", "xx", "yy", "zz", "xxx"} {
		if to = cluster.Master(key); to != cluster.Master("{moves}:") {
			break
		}
	}
	m := cluster.BeginMigration(slot, to)
	for range others + 2 {
		require.Equal(t, 1, m.Step(1))
	}
	more() // all keys are at the new server, and the old one still owns the slot
	m.Finish()
	more()
	changed, err := s.Changed(context.Background(), s.Now(), w)
	require.NoError(t, err)
	assert.True(t, changed, "nobody knows what happened between the servers")
	stop.Store(true)
	<-done
	for _, key := range []string{"a", "b"} {
		assert.Equal(t, 1<<40-taken.Load(), apply(t, s, takeOp(key, l, 0)).Decision.Remaining, key)
	}
	assert.EqualValues(t, 1<<40-1, apply(t, s, takeOp("other 0", l, 0)).Decision.Remaining)
}

// A change of several keys that too few replicas confirm is made, and its caller is told.
func TestTogetherWaitsForReplicas(t *testing.T) {
	n := engines.Standalone(t, engines.Redis70)
	s := openAt(t, n.Addr(), func(_ *Config, r *Rules) { r.MinReplicas, r.Timeout = 1, 300*time.Millisecond })
	l := mustLimit(buckets.NewWindow(5, 3600*second))
	assert.Equal(t, buckets.ErrTooFewReplicas, apply(t, s, takeAllOp(l, "a", "b")).Err)
	assert.Equal(t, buckets.ErrTooFewReplicas, apply(t, s, takeOp("a", l, 1)).Err, "by WATCH, too")
	assert.EqualValues(t, 3, apply(t, s, takeOp("a", l, 0)).Decision.Remaining)
	assert.EqualValues(t, 4, apply(t, s, takeOp("b", l, 0)).Decision.Remaining)
}
