// Package storetest holds every implementation of buckets.Store to its contract.
//
// Time is an argument of a store, so the suite needs no clock and does not wait. It tolerates what the contract leaves open:
// any Info.Bytes that is not negative, a Len that counts expired keys, a Scan that visits a key twice, an updater that is
// called several times, and an Atomic that cannot hold everything.
package storetest

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"cellserver/buckets"
)

// Opener returns an empty store whose sliding logs may have MaxLog records. It is called many times; what it opens it
// closes by t.Cleanup.
type Opener func(t testing.TB) buckets.Store

// MaxLog is how many records a sliding log of the stores under test may have.
const MaxLog = 4

const (
	maxLog        = MaxLog
	second  int64 = 1e9
	epoch   int64 = 1790000000 * second
	manyKey       = 500
)

// Test runs the suite. The optional interfaces are tested if the store has them.
func Test(t *testing.T, open Opener) {
	for _, test := range []struct {
		name string
		run  func(t *testing.T, open Opener)
	}{
		{"random batches equal the reference", testRandomBatches},
		{"a key named twice exists twice and is deleted once", testKeyNamedTwice},
		{"an unknown operation fails", testUnknownOperation},
		{"an update that fails changes nothing", testFailedUpdate},
		{"a cancelled context changes nothing", testCancelledContext},
		{"the time of a key does not go back", testTimeOfAKey},
		{"concurrent take-alls admit exactly the limit", testConcurrentTakeAll},
		{"concurrent updates lose nothing", testConcurrentUpdates},
		{"a scan visits every key that stays", testScan},
		{"a random key exists", testRandomKey},
		{"flush deletes every key", testFlush},
		{"Decide equals OpTake", testDecider},
		{"Atomically keeps others out", testAtomically},
		{"random batches within Atomically equal the reference", testRandomBatchesHeld},
		{"what one watches and another changes is not carried out", testWatchedTransactions},
		{"a watch reports changes only", testWatcher},
		{"MeanTTL is within the expiries", testTTLSampler},
		{"databases equal a reference each", testRandomDatabases},
		{"databases are separate, and what there is not is refused", testDatabases},
		{"a watch reports changes of its database only", testWatchesOfDatabases},
		{"Atomically holds the keys in all databases", testAtomicDatabases},
	} {
		t.Run(test.name, func(t *testing.T) { test.run(t, open) })
	}
}

func must(l buckets.Limit, err error) buckets.Limit {
	if err != nil {
		panic(err)
	}
	return l
}

func throttle(burst, count, period int64) buckets.Limit {
	return must(buckets.NewThrottle(burst, count, period))
}
func window(limit, period int64) buckets.Limit { return must(buckets.NewWindow(limit, period)) }
func slide(limit, period int64) buckets.Limit  { return must(buckets.NewSlide(limit, period)) }
func aligned(limit, period, offset int64) buckets.Limit {
	return must(buckets.NewAlignedWindow(limit, period, offset))
}

func applyOne(s buckets.Store, now int64, op *buckets.Op) {
	ops := []buckets.Op{*op}
	s.Apply(context.Background(), now, ops)
	*op = ops[0]
}

func take(t require.TestingT, s buckets.Store, now int64, key string, l buckets.Limit, quantity int64) buckets.Decision {
	op := buckets.Op{Code: buckets.OpTake, Key: []byte(key), Limit: &l, Quantity: quantity}
	applyOne(s, now, &op)
	require.NoError(t, op.Err)
	return op.Decision
}

// count applies an operation that must not fail and returns its N.
func count(t require.TestingT, s buckets.Store, now int64, op buckets.Op) int64 {
	applyOne(s, now, &op)
	require.NoError(t, op.Err)
	return op.N
}

func keysOf(names ...string) (keys [][]byte) {
	for _, name := range names {
		keys = append(keys, []byte(name))
	}
	return keys
}

// scanAll scans to the end.
func scanAll(t require.TestingT, s buckets.Store, now int64, step int) map[string]buckets.Kind {
	visited := make(map[string]buckets.Kind)
	for cursor, calls := uint64(0), 0; ; calls++ {
		require.Less(t, calls, 1<<20, "the scan ends")
		next, err := s.Scan(context.Background(), now, cursor, step, func(key []byte, kind buckets.Kind) { visited[string(key)] = kind })
		require.NoError(t, err)
		if cursor = next; cursor == 0 {
			return visited
		}
	}
}

func testKeyNamedTwice(t *testing.T, open Opener) {
	s := open(t)
	take(t, s, epoch, "a", throttle(4, 1, second), 1)
	take(t, s, epoch, "b", window(4, second), 1)
	keys := keysOf("a", "none", "a", "b")
	assert.EqualValues(t, 3, count(t, s, epoch, buckets.Op{Code: buckets.OpExists, Keys: keys}))
	assert.EqualValues(t, 2, count(t, s, epoch, buckets.Op{Code: buckets.OpDelete, Keys: keys}))
	assert.EqualValues(t, 0, count(t, s, epoch, buckets.Op{Code: buckets.OpExists, Keys: keys}))
}

func testUnknownOperation(t *testing.T, open Opener) {
	op := buckets.Op{Code: 255}
	applyOne(open(t), epoch, &op)
	require.ErrorIs(t, op.Err, buckets.ErrUnknownOp)
}

// testFailedUpdate has an updater take from the states before it fails, or reports no change.
func testFailedUpdate(t *testing.T, open Opener) {
	for name, l := range map[string]buckets.Limit{"throttle": throttle(9, 1, second), "window": window(9, second), "zslide": slide(9, second)} {
		for _, what := range []int{4, 5} {
			for _, keys := range [][]string{{"a"}, {"a", "b"}} {
				s := open(t)
				for _, key := range keys {
					take(t, s, epoch, key, l, 1)
					take(t, s, epoch+1, key, l, 2)
				}
				want := take(t, s, epoch+1, "a", l, 0)
				op := buckets.Op{Code: buckets.OpUpdate, Keys: keysOf(keys...), Update: &randomUpdate{what: what, limit: l}}
				applyOne(s, epoch+1, &op)
				assert.Equal(t, what == 4, op.Err != nil)
				assert.Equal(t, want, take(t, s, epoch+1, "a", l, 0), name)
			}
		}
	}
}

func testCancelledContext(t *testing.T, open Opener) {
	s := open(t)
	l := throttle(4, 1, second)
	take(t, s, epoch, "a", l, 1)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	ops := []buckets.Op{
		{Code: buckets.OpTake, Key: []byte("a"), Limit: &l, Quantity: 1},
		{Code: buckets.OpDelete, Keys: keysOf("a")},
		{Code: buckets.OpUpdate, Keys: keysOf("a"), Update: &randomUpdate{what: 2}},
	}
	s.Apply(ctx, epoch, ops)
	for i := range ops {
		require.ErrorIs(t, ops[i].Err, context.Canceled)
	}
	_, err := s.Scan(ctx, epoch, 0, 10, func([]byte, buckets.Kind) { t.Error("visited") })
	require.ErrorIs(t, err, context.Canceled)
	_, _, err = s.RandomKey(ctx, epoch, nil)
	require.ErrorIs(t, err, context.Canceled)
	_, err = s.Len(ctx, epoch)
	require.ErrorIs(t, err, context.Canceled)
	require.ErrorIs(t, s.Flush(ctx), context.Canceled)
	if atomic, ok := s.(buckets.Atomic); ok {
		err := atomic.Atomically(ctx, epoch, keysOf("a"), false, func(buckets.Store) { t.Error("called") })
		require.ErrorIs(t, err, context.Canceled)
	}
	if watcher, ok := s.(buckets.Watcher); ok {
		_, err := watcher.Watch(ctx, epoch, []byte("a"))
		require.ErrorIs(t, err, context.Canceled)
	}
	assert.EqualValues(t, 3, take(t, s, epoch, "a", l, 1).Remaining, "one was taken before, and one now")
}

func testTimeOfAKey(t *testing.T, open Opener) {
	s := open(t)
	for name, l := range map[string]buckets.Limit{"throttle": throttle(4, 1, second), "window": window(5, second), "zslide": slide(5, second)} {
		first := take(t, s, epoch+second, name, l, 1)
		second := take(t, s, epoch, name, l, 0)
		first.RetryAfter, second.RetryAfter = 0, 0
		assert.Equal(t, first, second, "%s: a request with an earlier clock is decided at the time of the one before", name)
	}
}

// inParallel calls run in several goroutines, so many times in each.
func inParallel(goroutines, times int, run func(goroutine int)) {
	var wg sync.WaitGroup
	for g := range goroutines {
		wg.Go(func() {
			for range times {
				run(g)
			}
		})
	}
	wg.Wait()
}

func testConcurrentTakeAll(t *testing.T, open Opener) {
	s := open(t)
	tight, wide := window(50, second), throttle(999, 1, second)
	var mu sync.Mutex
	admitted := 0
	inParallel(4, 40, func(int) {
		op := buckets.Op{Code: buckets.OpTakeAll, Answers: make([]buckets.Decision, 2), Checks: []buckets.Check{
			{Key: []byte("wide"), Limit: wide, Quantity: 1}, {Key: []byte("tight"), Limit: tight, Quantity: 1},
		}}
		applyOne(s, epoch, &op)
		assert.NoError(t, op.Err)
		if op.Which == 0 {
			mu.Lock()
			defer mu.Unlock()
			admitted++
		}
	})
	assert.Equal(t, 50, admitted)
	assert.EqualValues(t, 950, take(t, s, epoch, "wide", wide, 0).Remaining, "a call that was refused took nothing of either")
}

// transfer moves one from the first window to the second.
type transfer struct{}

func (transfer) Update(now int64, states []buckets.State) (bool, error) {
	from, to := states[0].Window(), states[1].Window()
	if from.Used == 0 {
		return false, nil
	}
	end := epoch + second
	states[0] = buckets.Windowed(buckets.WindowState{Start: epoch, End: end, Used: from.Used - 1})
	if from.Used == 1 {
		states[0] = buckets.State{}
	}
	states[1] = buckets.Windowed(buckets.WindowState{Start: epoch, End: end, Used: to.Used + 1})
	return true, nil
}

func testConcurrentUpdates(t *testing.T, open Opener) {
	s := open(t)
	l := window(1000, second)
	names := []string{"a", "b", "c", "d"}
	for _, name := range names {
		take(t, s, epoch, name, l, 10)
	}
	inParallel(4, 50, func(g int) {
		op := buckets.Op{Code: buckets.OpUpdate, Keys: keysOf(names[g], names[(g+1)%4]), Update: transfer{}}
		applyOne(s, epoch, &op)
		assert.NoError(t, op.Err)
	})
	sum := int64(0)
	for _, name := range names {
		sum += 1000 - take(t, s, epoch, name, l, 0).Remaining
	}
	assert.EqualValues(t, 40, sum, "what is moved is neither lost nor doubled")
}

func testScan(t *testing.T, open Opener) {
	s := open(t)
	l := throttle(4, 1, second)
	for i := range manyKey {
		take(t, s, epoch, fmt.Sprint("stays ", i), l, 2)
		take(t, s, epoch, fmt.Sprint("goes ", i), l, 2)
		take(t, s, epoch, fmt.Sprint("expires ", i), l, 1)
	}
	now := epoch + second
	visited := make(map[string]buckets.Kind)
	for cursor, calls := uint64(0), 0; ; calls++ {
		require.Less(t, calls, 100*manyKey, "the scan ends")
		next, err := s.Scan(context.Background(), now, cursor, 7, func(key []byte, kind buckets.Kind) { visited[string(key)] = kind })
		require.NoError(t, err)
		if cursor = next; cursor == 0 {
			break
		}
		count(t, s, now, buckets.Op{Code: buckets.OpDelete, Keys: keysOf(fmt.Sprint("goes ", calls))})
		take(t, s, now, fmt.Sprint("comes ", calls), l, 2)
	}
	for i := range manyKey {
		assert.Equal(t, buckets.Throttle, visited[fmt.Sprint("stays ", i)])
		assert.NotContains(t, visited, fmt.Sprint("expires ", i))
	}
	assert.Empty(t, scanAll(t, s, epoch+100*second, 7), "all have expired")
}

func testRandomKey(t *testing.T, open Opener) {
	s := open(t)
	_, found, err := s.RandomKey(context.Background(), epoch, nil)
	require.NoError(t, err)
	assert.False(t, found)
	for i := range 20 {
		take(t, s, epoch, fmt.Sprint(i), throttle(4, 1, second), 1+int64(i%2))
	}
	for range 50 {
		key, found, err := s.RandomKey(context.Background(), epoch+second, []byte("before "))
		require.NoError(t, err)
		require.True(t, found)
		var n int
		_, err = fmt.Sscanf(string(key), "before %d", &n)
		require.NoError(t, err, "%q", key)
		assert.Equal(t, 1, n%2, "%d has expired", n)
	}
}

func testFlush(t *testing.T, open Opener) {
	s := open(t)
	for i := range 100 {
		take(t, s, epoch, fmt.Sprint(i), slide(4, second), 1)
	}
	require.NoError(t, s.Flush(context.Background()))
	n, err := s.Len(context.Background(), epoch)
	require.NoError(t, err)
	assert.Zero(t, n)
	assert.Empty(t, scanAll(t, s, epoch, 10))
	assert.EqualValues(t, 3, take(t, s, epoch, "1", slide(4, second), 1).Remaining)
}
