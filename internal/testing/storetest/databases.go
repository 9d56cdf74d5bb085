package storetest

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"cellserver/buckets"
)

// databasesUnderTest is how many databases the tests use: 0, the last one, and one in between.
const databasesUnderTest = 3

// databasesOf returns three databases of the store, with their numbers, or skips the test if it has no databases.
func databasesOf(t *testing.T, s buckets.Store) (all buckets.Databases, stores []buckets.Store, numbers []int) {
	all = optional[buckets.Databases](t, s)
	n := all.Databases()
	require.GreaterOrEqual(t, n, databasesUnderTest)
	for _, number := range []int{0, n / 2, n - 1} {
		stores, numbers = append(stores, all.Database(number)), append(numbers, number)
	}
	return all, stores, numbers
}

// testRandomDatabases does what testRandomBatches does in several databases, moves keys between them, and flushes and swaps
// them.
func testRandomDatabases(t *testing.T, open Opener) {
	optional[buckets.Databases](t, open(t))
	rapid.Check(t, func(rt *rapid.T) {
		all, stores, numbers := databasesOf(t, open(t))
		worlds := make([]*randomBatches, len(stores))
		for i, s := range stores {
			worlds[i] = &randomBatches{store: s, reference: newReference(maxLog), now: epoch}
		}
		now := epoch
		for range rapid.IntRange(1, 25).Draw(rt, "steps") {
			a, b := rapid.IntRange(0, len(stores)-1).Draw(rt, "database"), rapid.IntRange(0, len(stores)-1).Draw(rt, "another")
			w, other := worlds[a], worlds[b]
			w.now, other.now = now, now
			switch rapid.IntRange(0, 7).Draw(rt, "what") {
			case 0:
				require.NoError(rt, all.Swap(context.Background(), now, numbers[a], numbers[b]))
				w.reference, other.reference = other.reference, w.reference
			case 1:
				require.NoError(rt, w.store.Flush(context.Background()))
				clear(w.reference.keys)
			case 2, 3:
				key := rapid.SampledFrom(randomKeys).Draw(rt, "key")
				k, found := w.reference.get(now, key)
				_, taken := other.reference.get(now, key)
				moves := found && !taken && a != b
				require.Equal(rt, moves, count(rt, w.store, now, buckets.Op{Code: buckets.OpMove, Key: key, DB: numbers[b]}) == 1)
				if moves {
					delete(w.reference.keys, string(key))
					other.reference.put(now, key, k)
				}
			case 4:
				if rapid.IntRange(0, 3).Draw(rt, "all") > 0 {
					break
				}
				require.NoError(rt, all.FlushAll(context.Background()))
				for _, w := range worlds {
					clear(w.reference.keys)
				}
			default:
				w.step(rt)
				now = w.now
			}
			var used []int
			for i, w := range worlds {
				w.now = now
				w.compareKeys(rt)
				if n, err := w.store.Len(context.Background(), now); err == nil && n > 0 {
					used = append(used, numbers[i])
				}
			}
			require.Equal(rt, used, all.Used())
		}
	})
}

func testDatabases(t *testing.T, open Opener) {
	s := open(t)
	all, stores, numbers := databasesOf(t, s)
	ctx := context.Background()
	l := window(9, second)
	for i := range stores {
		assert.EqualValues(t, 8-i, take(t, stores[i], epoch, "k", l, 1+int64(i)).Remaining)
	}
	assert.EqualValues(t, 8, take(t, s, epoch, "k", l, 0).Remaining, "a store begins as its database 0")
	again := stores[1].(buckets.Databases)
	assert.EqualValues(t, 6, take(t, again.Database(numbers[2]), epoch, "k", l, 0).Remaining, "each database gives the others")
	assert.Equal(t, numbers, again.Used())

	n := all.Databases()
	for _, none := range []int{-1, n, n + 1000} {
		assert.True(t, all.Database(none) == nil, "%d", none)
		assert.ErrorIs(t, all.Swap(ctx, epoch, 0, none), buckets.ErrNoDatabase)
		assert.ErrorIs(t, all.Swap(ctx, epoch, none, 0), buckets.ErrNoDatabase)
		op := buckets.Op{Code: buckets.OpMove, Key: []byte("k"), DB: none}
		applyOne(s, epoch, &op)
		assert.ErrorIs(t, op.Err, buckets.ErrNoDatabase)
	}
	ended, cancel := context.WithCancel(ctx)
	cancel()
	assert.ErrorIs(t, all.Swap(ended, epoch, numbers[0], numbers[1]), context.Canceled)
	assert.ErrorIs(t, all.FlushAll(ended), context.Canceled)
	for i := range stores {
		assert.EqualValues(t, 8-i, take(t, stores[i], epoch, "k", l, 0).Remaining, "as it was")
		stats := stores[i].Stats()
		assert.EqualValues(t, 1, stats.Keys)
	}
}

// testWatchesOfDatabases changes databases while the key k is watched in database 0. The key is there and in the last one.
func testWatchesOfDatabases(t *testing.T, open Opener) {
	optional[buckets.Watcher](t, open(t))
	ctx := context.Background()
	l := throttle(4, 1, 10*second)
	for _, row := range []struct {
		name    string
		key     string
		change  func(t *testing.T, all buckets.Databases, stores []buckets.Store, numbers []int)
		changed bool
	}{
		{"taken from in another", "k", func(t *testing.T, _ buckets.Databases, stores []buckets.Store, _ []int) {
			take(t, stores[1], epoch, "k", l, 1)
		}, false},
		{"another is flushed", "k", func(t *testing.T, _ buckets.Databases, stores []buckets.Store, _ []int) {
			require.NoError(t, stores[2].Flush(ctx))
		}, false},
		{"all are flushed", "k", func(t *testing.T, all buckets.Databases, _ []buckets.Store, _ []int) {
			require.NoError(t, all.FlushAll(ctx))
		}, true},
		{"moved away", "k", func(t *testing.T, _ buckets.Databases, stores []buckets.Store, numbers []int) {
			require.EqualValues(t, 1, count(t, stores[0], epoch, buckets.Op{Code: buckets.OpMove, Key: []byte("k"), DB: numbers[1]}))
		}, true},
		{"not moved, as it is there", "k", func(t *testing.T, _ buckets.Databases, stores []buckets.Store, numbers []int) {
			require.EqualValues(t, 0, count(t, stores[0], epoch, buckets.Op{Code: buckets.OpMove, Key: []byte("k"), DB: numbers[2]}))
		}, false},
		{"not moved here", "k", func(t *testing.T, _ buckets.Databases, stores []buckets.Store, numbers []int) {
			require.EqualValues(t, 0, count(t, stores[2], epoch, buckets.Op{Code: buckets.OpMove, Key: []byte("k"), DB: numbers[0]}))
		}, false},
		{"moved here", "none", func(t *testing.T, _ buckets.Databases, stores []buckets.Store, numbers []int) {
			take(t, stores[2], epoch, "none", l, 1)
			require.EqualValues(t, 1, count(t, stores[2], epoch, buckets.Op{Code: buckets.OpMove, Key: []byte("none"), DB: numbers[0]}))
		}, true},
		{"swapped with an empty database", "k", func(t *testing.T, all buckets.Databases, _ []buckets.Store, numbers []int) {
			require.NoError(t, all.Swap(ctx, epoch, numbers[1], numbers[0]))
		}, true},
		{"swapped twice", "k", func(t *testing.T, all buckets.Databases, _ []buckets.Store, numbers []int) {
			require.NoError(t, all.Swap(ctx, epoch, numbers[0], numbers[1]))
			require.NoError(t, all.Swap(ctx, epoch, numbers[0], numbers[1]))
		}, true},
		{"swapped with itself", "k", func(t *testing.T, all buckets.Databases, _ []buckets.Store, numbers []int) {
			require.NoError(t, all.Swap(ctx, epoch, numbers[0], numbers[0]))
		}, false},
		{"two others are swapped", "k", func(t *testing.T, all buckets.Databases, _ []buckets.Store, numbers []int) {
			require.NoError(t, all.Swap(ctx, epoch, numbers[1], numbers[2]))
		}, false},
		{"a key that is in neither, and a swap", "none", func(t *testing.T, all buckets.Databases, _ []buckets.Store, numbers []int) {
			require.NoError(t, all.Swap(ctx, epoch, numbers[0], numbers[2]))
		}, false},
		{"a key that is in neither, a swap, and then it is stored", "none", func(t *testing.T, all buckets.Databases, stores []buckets.Store, numbers []int) {
			require.NoError(t, all.Swap(ctx, epoch, numbers[0], numbers[2]))
			take(t, stores[0], epoch, "none", l, 1)
		}, true},
		{"a key that is in neither, a swap, and then it is stored in the other", "none", func(t *testing.T, all buckets.Databases, stores []buckets.Store, numbers []int) {
			require.NoError(t, all.Swap(ctx, epoch, numbers[0], numbers[2]))
			take(t, stores[2], epoch, "none", l, 1)
		}, false},
		{"a key that is in the other only, and a swap", "other", func(t *testing.T, all buckets.Databases, _ []buckets.Store, numbers []int) {
			require.NoError(t, all.Swap(ctx, epoch, numbers[0], numbers[2]))
		}, true},
		{"a key that has expired in the other, and a swap", "expired", func(t *testing.T, all buckets.Databases, _ []buckets.Store, numbers []int) {
			require.NoError(t, all.Swap(ctx, epoch, numbers[0], numbers[2]))
		}, false},
	} {
		t.Run(row.name, func(t *testing.T) {
			s := open(t)
			all, stores, numbers := databasesOf(t, s)
			take(t, stores[2], epoch-second, "expired", throttle(4, 1, second), 1)
			for _, key := range []string{"k", "other"} {
				take(t, stores[2], epoch, key, l, 1)
			}
			take(t, stores[0], epoch, "k", l, 1)
			watcher := s.(buckets.Watcher)
			w, err := watcher.Watch(ctx, epoch, []byte(row.key))
			require.NoError(t, err)
			row.change(t, all, stores, numbers)
			changed, err := stores[1].(buckets.Watcher).Changed(ctx, epoch, w)
			require.NoError(t, err)
			assert.Equal(t, row.changed, changed, "whichever database is asked")
			watcher.Unwatch(w)
		})
	}
}

func testAtomicDatabases(t *testing.T, open Opener) {
	s := open(t)
	optional[buckets.Atomic](t, s)
	_, stores, numbers := databasesOf(t, s)
	l := window(1000000, second)
	inParallel(4, 50, func(g int) {
		keys, everything := keysOf("a", "b"), g == 0
		if everything {
			keys = nil
		}
		err := stores[g%2].(buckets.Atomic).Atomically(context.Background(), epoch, keys, everything, func(held buckets.Store) {
			in := func(n int) buckets.Store { return held.(buckets.Databases).Database(numbers[n]) }
			a := take(t, in(0), epoch, "a", l, 1)
			b := take(t, in(2), epoch, "b", l, 1)
			assert.Equal(t, a, b, "nobody comes between the two")
			testHeldDatabase(t, in(0), in(1))
			if everything {
				ctx := context.Background()
				assert.NoError(t, held.(buckets.Databases).Swap(ctx, epoch, numbers[0], numbers[2]))
				assert.EqualValues(t, 0, count(t, in(0), epoch, buckets.Op{Code: buckets.OpExists, Keys: keysOf("a")}))
				assert.NoError(t, held.(buckets.Databases).Swap(ctx, epoch, numbers[2], numbers[0]))
				assert.NoError(t, in(1).Flush(ctx))
			}
			moved := count(t, in(0), epoch, buckets.Op{Code: buckets.OpMove, Key: []byte("a"), DB: numbers[1]})
			moved += count(t, in(1), epoch, buckets.Op{Code: buckets.OpMove, Key: []byte("a"), DB: numbers[0]})
			assert.EqualValues(t, 2, moved)
		})
		assert.NoError(t, err)
	})
	assert.EqualValues(t, 1000000-200, take(t, stores[0], epoch, "a", l, 0).Remaining)
	assert.EqualValues(t, 1000000-200, take(t, stores[2], epoch, "b", l, 0).Remaining)
	assert.Empty(t, scanAll(t, stores[1], epoch, 10))
}

// testHeldDatabase carries out operations on several keys in a database, each after one on another database. The first has the
// key a, and the second is empty before and after.
func testHeldDatabase(t *testing.T, first, then buckets.Store) {
	keys, l := keysOf("a", "b"), window(10, 10*second)
	other := func() { take(t, first, epoch, "a", window(1000000, second), 0) }
	other()
	all := buckets.Op{Code: buckets.OpTakeAll, Answers: make([]buckets.Decision, 2), Checks: []buckets.Check{
		{Key: keys[0], Limit: l, Quantity: 1}, {Key: keys[1], Limit: l, Quantity: 1},
	}}
	applyOne(then, epoch, &all)
	assert.NoError(t, all.Err)
	assert.EqualValues(t, 9, all.Answers[0].Remaining)
	other()
	update := buckets.Op{Code: buckets.OpUpdate, Keys: keys, Update: &randomUpdate{what: 6}}
	applyOne(then, epoch, &update)
	assert.NoError(t, update.Err)
	other()
	get := buckets.Op{Code: buckets.OpGet, Key: keys[0]}
	applyOne(then, epoch, &get)
	assert.Equal(t, buckets.Counter, get.Contents.Kind)
	other()
	assert.EqualValues(t, 2, count(t, then, epoch, buckets.Op{Code: buckets.OpExists, Keys: keys}))
	other()
	assert.EqualValues(t, 1, count(t, then, epoch, buckets.Op{Code: buckets.OpRename, Key: keys[0], To: keys[1]}))
	other()
	assert.EqualValues(t, 1, count(t, then, epoch, buckets.Op{Code: buckets.OpDelete, Keys: keys}))
}
