package storetest

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"cellserver/buckets"
)

// optional returns the store as what it may be, or skips the test.
func optional[T any](t *testing.T, s buckets.Store) T {
	has, ok := s.(T)
	if !ok {
		t.Skipf("the store is no %T", &has)
	}
	return has
}

// testDecider makes the same requests by Decide of one key and by OpTake of another.
func testDecider(t *testing.T, open Opener) {
	optional[buckets.Decider](t, open(t))
	rapid.Check(t, func(rt *rapid.T) {
		s := open(t)
		now := epoch
		for range rapid.IntRange(1, 30).Draw(rt, "requests") {
			now += rapid.SampledFrom([]int64{0, 1, second / 2, 2 * second}).Draw(rt, "later")
			l := rapid.SampledFrom(randomLimits).Draw(rt, "limit")
			op := buckets.Op{
				Code: buckets.OpTake, Key: []byte("by operation"), Limit: &l,
				Quantity: rapid.Int64Range(-2, 6).Draw(rt, "quantity"), Peek: rapid.Bool().Draw(rt, "peek"),
			}
			applyOne(s, now, &op)
			var d buckets.Decision
			err := s.(buckets.Decider).Decide(now, []byte("directly"), &l, op.Quantity, op.Peek, &d)
			require.Equal(rt, op.Err, err)
			if err == nil {
				require.Equal(rt, op.Decision, d)
			}
		}
	})
}

// holdsEverything reports whether Atomically can hold everything. A store that cannot offers nothing about all keys in it.
func holdsEverything(t *testing.T, atomic buckets.Atomic) bool {
	ctx := context.Background()
	err := atomic.Atomically(ctx, epoch, nil, true, func(buckets.Store) {})
	if err == nil {
		return true
	}
	require.ErrorIs(t, err, buckets.ErrNotOffered)
	require.NoError(t, atomic.Atomically(ctx, epoch, keysOf("a"), false, func(held buckets.Store) {
		_, err := held.Len(ctx, epoch)
		assert.ErrorIs(t, err, buckets.ErrNotOffered)
		_, _, err = held.RandomKey(ctx, epoch, nil)
		assert.ErrorIs(t, err, buckets.ErrNotOffered)
		_, err = held.Scan(ctx, epoch, 0, 10, func([]byte, buckets.Kind) { t.Error("visited") })
		assert.ErrorIs(t, err, buckets.ErrNotOffered)
		assert.ErrorIs(t, held.Flush(ctx), buckets.ErrNotOffered)
	}))
	return false
}

func testAtomically(t *testing.T, open Opener) {
	s := open(t)
	atomic := optional[buckets.Atomic](t, s)
	l := window(1000000, second)
	all := holdsEverything(t, atomic)
	inParallel(4, 50, func(g int) {
		keys, everything := keysOf("a", "b"), all && g == 0
		if everything {
			keys = nil
		}
		err := atomic.Atomically(context.Background(), epoch, keys, everything, func(held buckets.Store) {
			a := take(t, held, epoch, "a", l, 1)
			b := take(t, held, epoch, "b", l, 1)
			assert.Equal(t, a, b, "nobody comes between the two")
			again := take(t, held, epoch, "a", l, 0)
			assert.Equal(t, a.Remaining, again.Remaining)
			if everything {
				n, err := held.Len(context.Background(), epoch)
				assert.NoError(t, err)
				assert.EqualValues(t, 2, n)
			}
		})
		assert.NoError(t, err)
	})
	assert.EqualValues(t, 1000000-200, take(t, s, epoch, "a", l, 0).Remaining)
	err := atomic.Atomically(context.Background(), epoch, nil, false, func(held buckets.Store) { held.Apply(context.Background(), epoch, nil) })
	assert.NoError(t, err, "there need not be a key")
}

// testRandomBatchesHeld does what testRandomBatches does, each batch within Atomically, which may run it several times.
func testRandomBatchesHeld(t *testing.T, open Opener) {
	optional[buckets.Atomic](t, open(t))
	rapid.Check(t, func(rt *rapid.T) {
		s := open(t)
		w := &randomBatches{store: &heldBatches{Store: s, t: rt}, reference: newReference(maxLog), now: epoch}
		for range rapid.IntRange(1, 10).Draw(rt, "batches") {
			w.step(rt)
		}
	})
}

// heldBatches is a store that carries out every batch within Atomically, in two halves.
type heldBatches struct {
	buckets.Store
	t require.TestingT
}

// Apply implements buckets.Store.
func (s *heldBatches) Apply(ctx context.Context, now int64, ops []buckets.Op) {
	err := s.Store.(buckets.Atomic).Atomically(ctx, now, randomKeys, false, func(held buckets.Store) {
		held.Apply(ctx, now, ops[:len(ops)/2])
		held.Apply(ctx, now, ops[len(ops)/2:])
	})
	require.NoError(s.t, err)
}

// testWatchedTransactions has several clients do what WATCH is for: they read a counter, and store the next number if nobody
// has changed it meanwhile. Every number is stored once.
func testWatchedTransactions(t *testing.T, open Opener) {
	s := open(t)
	optional[buckets.Atomic](t, s)
	optional[buckets.Watcher](t, s)
	ctx := context.Background()
	read := func(s buckets.Store) int64 {
		op := buckets.Op{Code: buckets.OpGet, Key: []byte("k")}
		applyOne(s, epoch, &op)
		assert.NoError(t, op.Err)
		return op.Contents.Field("value")
	}
	const goroutines, times = 4, 10
	inParallel(goroutines, times, func(int) {
		for stored := false; !stored; {
			w, err := s.(buckets.Watcher).Watch(ctx, epoch, []byte("k"))
			if !assert.NoError(t, err) {
				return
			}
			next := read(s) + 1
			err = s.(buckets.Atomic).Atomically(ctx, epoch, keysOf("k"), false, func(held buckets.Store) {
				changed, err := held.(buckets.Watcher).Changed(ctx, epoch, w)
				assert.NoError(t, err)
				if stored = !changed && err == nil; !stored {
					return
				}
				op := buckets.Op{Code: buckets.OpUpdate, Keys: keysOf("k"), Update: setCounter(next)}
				applyOne(held, epoch, &op)
				assert.NoError(t, op.Err)
			})
			s.(buckets.Watcher).Unwatch(w)
			if !assert.NoError(t, err) {
				return
			}
		}
	})
	assert.EqualValues(t, goroutines*times, read(s))
}

// setCounter is an updater that stores a number.
type setCounter int64

// Update implements buckets.Updater.
func (n setCounter) Update(_ int64, states []buckets.State) (changed bool, err error) {
	states[0] = buckets.Counted(int64(n), buckets.NoExpiry)
	return true, nil
}

func testWatcher(t *testing.T, open Opener) {
	optional[buckets.Watcher](t, open(t))
	full, l := throttle(0, 1, 10*second), throttle(4, 1, 10*second)
	at := epoch + 5*second
	apply := func(op buckets.Op) func(t *testing.T, s buckets.Store) {
		return func(t *testing.T, s buckets.Store) { applyOne(s, epoch, &op) }
	}
	for _, row := range []struct {
		name    string
		change  func(t *testing.T, s buckets.Store)
		changed bool
	}{
		{"nothing", func(*testing.T, buckets.Store) {}, false},
		{"another key is taken from", apply(buckets.Op{Code: buckets.OpTake, Key: []byte("other"), Limit: &l, Quantity: 1}), false},
		{"taken from", apply(buckets.Op{Code: buckets.OpTake, Key: []byte("k"), Limit: &l, Quantity: 1}), true},
		{"peeked", apply(buckets.Op{Code: buckets.OpTake, Key: []byte("k"), Limit: &l, Quantity: 1, Peek: true}), false},
		{"asked for nothing", apply(buckets.Op{Code: buckets.OpTake, Key: []byte("k"), Limit: &l}), false},
		{"refused", apply(buckets.Op{Code: buckets.OpTake, Key: []byte("k"), Limit: &full, Quantity: 1}), false},
		{"deleted", apply(buckets.Op{Code: buckets.OpDelete, Keys: keysOf("k")}), true},
		{"given a deadline", apply(buckets.Op{Code: buckets.OpExpire, Key: []byte("k"), At: at}), true},
		{"refused a deadline", apply(buckets.Op{Code: buckets.OpExpire, Key: []byte("k"), At: at, Condition: buckets.IfNone}), false},
		{"without a deadline to remove", apply(buckets.Op{Code: buckets.OpPersist, Key: []byte("k")}), false},
		{"renamed", apply(buckets.Op{Code: buckets.OpRename, Key: []byte("k"), To: []byte("to")}), true},
		{"renamed to", apply(buckets.Op{Code: buckets.OpRename, Key: []byte("source"), To: []byte("k")}), true},
		{"updated", apply(buckets.Op{Code: buckets.OpUpdate, Keys: keysOf("k"), Update: &randomUpdate{what: 2}}), true},
		{"updated with others", apply(buckets.Op{Code: buckets.OpUpdate, Keys: keysOf("source", "k"), Update: &randomUpdate{what: 2}}), true},
		{"an update failed", apply(buckets.Op{Code: buckets.OpUpdate, Keys: keysOf("k"), Update: &randomUpdate{what: 4, limit: l}}), false},
		{"an update changed nothing", apply(buckets.Op{Code: buckets.OpUpdate, Keys: keysOf("k"), Update: &randomUpdate{what: 5, limit: l}}), false},
		{"flushed", func(t *testing.T, s buckets.Store) { require.NoError(t, s.Flush(context.Background())) }, true},
	} {
		t.Run(row.name, func(t *testing.T) {
			s := open(t)
			watcher := s.(buckets.Watcher)
			take(t, s, epoch, "k", l, 1)
			take(t, s, epoch, "source", l, 1)
			w, err := watcher.Watch(context.Background(), epoch, []byte("k"))
			require.NoError(t, err)
			defer watcher.Unwatch(w)
			row.change(t, s)
			changed, err := watcher.Changed(context.Background(), epoch, w)
			require.NoError(t, err)
			assert.Equal(t, row.changed, changed)
		})
	}
	t.Run("expired", func(t *testing.T) {
		s := open(t)
		watcher := s.(buckets.Watcher)
		take(t, s, epoch, "k", l, 1)
		w, err := watcher.Watch(context.Background(), epoch, []byte("k"))
		require.NoError(t, err)
		defer watcher.Unwatch(w)
		changed, err := watcher.Changed(context.Background(), epoch+100*second, w)
		require.NoError(t, err)
		assert.True(t, changed)
	})
}

func testTTLSampler(t *testing.T, open Opener) {
	s := open(t)
	sampler := optional[buckets.TTLSampler](t, s)
	assert.Zero(t, sampler.MeanTTL(epoch))
	take(t, s, epoch, "a", throttle(9, 1, second), 2)
	assert.Equal(t, 2*second, sampler.MeanTTL(epoch), "one key")
	take(t, s, epoch, "b", throttle(9, 1, second), 4)
	mean := sampler.MeanTTL(epoch)
	assert.GreaterOrEqual(t, mean, 2*second)
	assert.LessOrEqual(t, mean, 4*second)
}
