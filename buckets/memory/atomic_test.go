package memory

import (
	"bytes"
	"cellserver/buckets"
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// patience bounds waits that normally take a moment, on a machine that may be busy.
const patience = 20 * time.Second

// waitOrFail calls wait and fails with a dump of all goroutines if it does not return.
func waitOrFail(t *testing.T, wait func()) {
	t.Helper()
	done := make(chan struct{})
	go func() {
		defer close(done)
		wait()
	}()
	select {
	case <-done:
	case <-time.After(patience):
		stacks := make([]byte, 1<<20)
		t.Fatalf("it does not end:\n%s", stacks[:runtime.Stack(stacks, true)])
	}
}

// mustTake takes quantity from key, and requires that it is admitted.
func mustTake(t require.TestingT, s *Store, now int64, key string, l buckets.Limit, quantity int64) {
	if d, err := s.Take(now, []byte(key), l, quantity, false); err != nil || d.Limited {
		require.NoError(t, err)
		require.False(t, d.Limited)
	}
}

// takeAll calls TakeAll and returns the answers in whole seconds.
func takeAll(t require.TestingT, s *Store, now int64, peek bool, checks ...buckets.Check) (which int, answers []reply) {
	decisions := make([]buckets.Decision, len(checks))
	which, err := s.TakeAll(now, checks, peek, decisions)
	require.NoError(t, err)
	for _, d := range decisions {
		answers = append(answers, replyOf(d))
	}
	return which, answers
}

func TestTakeAllAnswers(t *testing.T) {
	a := func(quantity int64) buckets.Check {
		return buckets.Check{Key: []byte("a"), Limit: throttle(t, 15, 30, 60*second), Quantity: quantity}
	}
	b := func(quantity int64) buckets.Check {
		return buckets.Check{Key: []byte("b"), Limit: window(t, 5, 60*second), Quantity: quantity}
	}
	z := func(quantity int64) buckets.Check {
		return buckets.Check{Key: []byte("z"), Limit: slide(t, 3, 60*second), Quantity: quantity}
	}
	eachShape(t, func(t *testing.T, s *Store) {
		for _, r := range []struct {
			at     int64
			peek   bool
			checks []buckets.Check
			which  int
			want   []reply
			shows  string
		}{
			{0, true, []buckets.Check{a(1), z(4)}, 2, []reply{{0, 16, 16, -1, 0}, {1, 3, 3, -1, 0}}, "looking at fresh keys"},
			{0, false, []buckets.Check{a(1), b(1), z(1)}, 0, []reply{{0, 16, 15, -1, 2}, {0, 5, 4, -1, 60}, {0, 3, 2, -1, 60}}, "one of each kind"},
			{0, false, []buckets.Check{a(1), z(3)}, 2, []reply{{0, 16, 15, -1, 2}, {1, 3, 2, 60, 60}}, "one refuses for all"},
			{0, false, []buckets.Check{z(3), a(1)}, 1, []reply{{1, 3, 2, 60, 60}, {0, 16, 15, -1, 2}}, "wherever it stands"},
			{0, true, []buckets.Check{a(1), b(1), z(1)}, 0, []reply{{0, 16, 15, -1, 2}, {0, 5, 4, -1, 60}, {0, 3, 2, -1, 60}}, "PEEK takes nothing"},
			{0, true, []buckets.Check{a(-1), b(-9), z(math.MinInt64)}, 0, []reply{{0, 16, 15, -1, 2}, {0, 5, 4, -1, 60}, {0, 3, 2, -1, 60}}, "nor gives anything back"},
			{10, false, []buckets.Check{a(-5), b(3), z(0)}, 0, []reply{{0, 16, 16, -1, 0}, {0, 5, 1, -1, 50}, {0, 3, 2, -1, 50}}, "a refund, an admission, a question"},
			{10, false, []buckets.Check{a(16), b(2), z(3)}, 2, []reply{{0, 16, 16, -1, 0}, {1, 5, 1, 50, 50}, {1, 3, 2, 50, 50}}, "the first of those that refuse equally long"},
			{10, false, []buckets.Check{b(2), z(4), a(17)}, 2, []reply{{1, 5, 1, 50, 50}, {1, 3, 2, -1, 50}, {1, 16, 16, -1, 0}}, "the first that never can be"},
			{60, false, []buckets.Check{z(3), b(5), a(1)}, 0, []reply{{0, 3, 0, -1, 60}, {0, 5, 0, -1, 60}, {0, 16, 15, -1, 2}}, "everything is full again"},
			{61, false, []buckets.Check{b(-5), z(-3), a(-1)}, 0, []reply{{0, 5, 5, -1, 0}, {0, 3, 3, -1, 0}, {0, 16, 16, -1, 0}}, "everything is given back"},
		} {
			which, got := takeAll(t, s, epoch+r.at*second, r.peek, r.checks...)
			assert.Equal(t, r.which, which, r.shows)
			assert.Equal(t, r.want, got, r.shows)
			checkInvariants(t, s)
		}
		assert.Zero(t, s.Stats().Keys, "nothing is left")
	})
}

// The comparison is in nanoseconds: waits that differ may be equal after they are rounded for clients.
func TestTakeAllReportsTheLongestRefusal(t *testing.T) {
	for _, r := range []struct {
		spent []int64 // how long ago each key was emptied, in nanoseconds; 0 means never
		ask   []int64
		want  int
		shows string
	}{
		{[]int64{0, 0, 0}, []int64{1, 1, 1}, 0, "all admitted"},
		{[]int64{5, 5, 5}, []int64{1, 1, 1}, 1, "the first of equals"},
		{[]int64{6, 5, 5}, []int64{1, 1, 1}, 2, "a nanosecond longer"},
		{[]int64{5, 6, 4}, []int64{1, 1, 1}, 3, "a nanosecond longer, at the end"},
		{[]int64{1, 0, 1}, []int64{1, 3, 1}, 2, "what can never be, over all that can"},
		{[]int64{1, 0, 1}, []int64{3, 3, 3}, 1, "the first that can never be"},
		{[]int64{9, 0, 1}, []int64{3, 1, 1}, 1, "what can never be before it comes to the longest"},
		{[]int64{0, 9, 0}, []int64{1, 1, 1}, 2, "the only one"},
	} {
		for _, limits := range [][3]buckets.Limit{
			{slide(t, 2, 60*second), slide(t, 2, 60*second), slide(t, 2, 60*second)},
			{throttle(t, 1, 1, 60*second), window(t, 2, 60*second), slide(t, 2, 60*second)},
		} {
			s := NewStore(8)
			var checks []buckets.Check
			for i, spent := range r.spent {
				key := fmt.Sprint("key ", i)
				if limits[i].Kind() == buckets.Throttle && r.ask[i] == 1 && spent > 0 {
					spent += 60 * second // half of the debt is paid off, so that this key too waits for the rest of a minute
					mustTake(t, s, epoch-spent, key, limits[i], 1)
					mustTake(t, s, epoch-spent, key, limits[i], 1)
					mustTake(t, s, epoch-spent+60*second, key, limits[i], 1)
				} else if spent > 0 {
					mustTake(t, s, epoch-spent, key, limits[i], 2)
				}
				checks = append(checks, buckets.Check{Key: []byte(key), Limit: limits[i], Quantity: r.ask[i]})
			}
			for _, peek := range []bool{true, false} {
				which, _ := takeAll(t, s, epoch, peek, checks...)
				assert.Equal(t, r.want, which, "%s: %s", limits[0].Kind(), r.shows)
			}
		}
	}
}

// twoStores returns two stores for the same requests: one gets them by TakeAll, the other one by one.
func twoStores(shards int) (atOnce, singly *Store) { return seeded(shards), seeded(shards) }

// TakeAll of any checks gives the results of single calls of Take, whichever records it moves.
func TestTakeAllEqualsSingleTakes(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		atOnce, singly := twoStores(rapid.SampledFrom([]int{1, 1, 8}).Draw(rt, "shards"))
		limits := []buckets.Limit{throttle(t, 9, 1, second), window(t, 10, second), slide(t, 10, second)}
		now := epoch
		wish := func(n int) buckets.Check {
			quantity := rapid.SampledFrom([]int64{1, 1, 2, 11, 0, -1, -10, -10}).Draw(rt, "quantity")
			return buckets.Check{Key: fmt.Appendf(nil, "%*d", 1+n%7, n), Limit: limits[n%3], Quantity: quantity}
		}
		for range rapid.IntRange(1, 12).Draw(rt, "times") {
			now += rapid.SampledFrom([]int64{0, 0, 1, second / 2, 10 * second}).Draw(rt, "step")
			chosen := rapid.SliceOfNDistinct(rapid.IntRange(0, 80), 1, buckets.MaxChecks, rapid.ID).Draw(rt, "keys")
			var checks []buckets.Check
			for _, n := range chosen {
				checks = append(checks, wish(n))
			}
			refused := 0
			var want []buckets.Decision
			for _, c := range checks {
				d, err := singly.Take(now, c.Key, c.Limit, c.Quantity, true)
				require.NoError(rt, err)
				if d.Limited {
					refused++
				}
				want = append(want, d)
			}
			if refused == 0 {
				for i, c := range checks {
					d, err := singly.Take(now, c.Key, c.Limit, c.Quantity, false)
					require.NoError(rt, err)
					want[i] = d
				}
			}
			for _, c := range checks {
				atOnce.Stat(now, c.Key) // removes an expired key, which TakeAll may have left
			}
			before := dump(atOnce, now)
			got := make([]buckets.Decision, len(checks))
			which, err := atOnce.TakeAll(now, checks, false, got)
			require.NoError(rt, err)
			require.Equal(rt, refused > 0, which > 0)
			require.Equal(rt, want, got)
			if refused > 0 {
				require.Equal(rt, before, dump(atOnce, now))
			}
			for n := range 81 {
				key := fmt.Appendf(nil, "%*d", 1+n%7, n)
				want, _ := singly.Get(now, key)
				got, _ := atOnce.Get(now, key)
				want.Bytes, got.Bytes = 0, 0 // logs may have grown in different steps
				require.Equal(rt, want, got)
			}
			checkInvariants(t, atOnce)
		}
	})
}

// The checks fill the index of one shard, so that insertions and removals move records that other checks have found.
func TestTakeAllFindsRecordsThatInsertsMove(t *testing.T) {
	l := slide(t, 5, 60*second)
	for start := range 40 {
		s := NewStore(1)
		for n := range start {
			mustTake(t, s, epoch, fmt.Sprint("other ", n), throttle(t, 5, 1, second), 1)
		}
		var come, leave, mixed []buckets.Check
		for n := range buckets.MaxChecks {
			key := fmt.Appendf(nil, "key %d", n)
			come = append(come, buckets.Check{Key: key, Limit: l, Quantity: 1 + int64(n%4)})
			leave = append(leave, buckets.Check{Key: key, Limit: l, Quantity: -5})
			mixed = append(mixed, buckets.Check{Key: key, Limit: l, Quantity: int64(1 - 6*(n%2))})
		}
		var answers [buckets.MaxChecks]buckets.Decision
		for _, round := range []struct {
			checks []buckets.Check
			keys   int
			want   func(n int) int64 // the expected Remaining
		}{
			{come, buckets.MaxChecks, func(n int) int64 { return 4 - int64(n%4) }},
			{leave, 0, func(int) int64 { return 5 }},
			{mixed, buckets.MaxChecks / 2, func(n int) int64 { return 4 + int64(n%2) }},
			{mixed, buckets.MaxChecks / 2, func(n int) int64 { return 3 + 2*int64(n%2) }},
			{leave, 0, func(int) int64 { return 5 }},
		} {
			which, err := s.TakeAll(epoch, round.checks, false, answers[:])
			require.NoError(t, err)
			require.Zero(t, which)
			for n, d := range answers {
				require.Equal(t, round.want(n), d.Remaining, "key %d", n)
			}
			require.EqualValues(t, start+round.keys, s.Stats().Keys)
			checkInvariants(t, s)
		}
	}
}

func TestTakeAllRefusedOrFailedChangesNothing(t *testing.T) {
	eachShape(t, func(t *testing.T, s *Store) {
		s.SetMaxLog(2)
		throttled, windowed, slid := throttle(t, 1, 1, 60*second), window(t, 2, 60*second), slide(t, 9, 60*second)
		for i := range int64(2) {
			mustTake(t, s, epoch+i*second, "full", slid, 1)
			mustTake(t, s, epoch+i*second, "t", throttled, 1)
		}
		mustTake(t, s, epoch, "w", windowed, 1)
		s.ExpireAt(epoch, []byte("w"), epoch+30*second, 0)
		now := epoch + 2*second
		on := func(key string, l buckets.Limit, quantity int64) buckets.Check {
			return buckets.Check{Key: []byte(key), Limit: l, Quantity: quantity}
		}
		fresh := on("fresh", windowed, 1)
		for _, r := range []struct {
			checks []buckets.Check
			peek   bool
			err    error
			shows  string
		}{
			{[]buckets.Check{fresh, on("w", windowed, -1), on("t", throttled, 1)}, false, nil, "refused at the end"},
			{[]buckets.Check{on("t", throttled, 1), fresh, on("w", windowed, 1)}, false, nil, "refused at the beginning"},
			{[]buckets.Check{fresh, on("w", windowed, 3)}, false, nil, "what can never be"},
			{[]buckets.Check{fresh, on("w", windowed, 1), on("full", slid, 1)}, false, buckets.ErrLogFull, "a full log"},
			{[]buckets.Check{on("full", slid, 1), fresh}, false, buckets.ErrLogFull, "a full log at the beginning"},
			{[]buckets.Check{on("full", slid, 1), fresh, on("t", throttled, 1)}, false, nil, "a full log does not matter to what is refused"},
			{[]buckets.Check{on("full", slid, 1), fresh}, true, nil, "nor to PEEK"},
			{[]buckets.Check{fresh, on("w", throttled, 1)}, false, buckets.ErrWrongKind, "another kind"},
			{[]buckets.Check{on("w", slid, 0), fresh}, false, buckets.ErrWrongKind, "another kind, though nothing is taken"},
			{[]buckets.Check{fresh, on("full", windowed, 1), on("t", throttled, 5)}, true, buckets.ErrWrongKind, "another kind, though nothing is taken and another refuses"},
			{[]buckets.Check{fresh, on("w", windowed, 1)}, true, nil, "PEEK"},
			{[]buckets.Check{on("fresh", windowed, 0), on("w", windowed, 0), on("t", throttled, 0), on("full", slid, 0)}, false, nil, "nothing is asked for"},
			{[]buckets.Check{on("fresh", windowed, -1), on("new", slid, -3), on("other", throttled, math.MinInt64)}, false, nil, "nothing to give back"},
		} {
			before := dump(s, now)
			_, err := s.TakeAll(now, r.checks, r.peek, make([]buckets.Decision, len(r.checks)))
			assert.Equal(t, r.err, err, r.shows)
			assert.Equal(t, before, dump(s, now), r.shows)
		}
		which, _ := takeAll(t, s, epoch+61*second, false, on("full", slid, 1), fresh)
		assert.Zero(t, which, "a record has left, so there is room for another")
	})
}

// A key that has expired does not exist, whatever its kind.
func TestTakeAllRemovesExpiredKeys(t *testing.T) {
	eachShape(t, func(t *testing.T, s *Store) {
		var old, next []buckets.Check
		limits := []buckets.Limit{throttle(t, 4, 1, second), window(t, 5, 5*second), slide(t, 5, 5*second)}
		for n := range 30 {
			key := fmt.Appendf(nil, "key %d", n)
			old = append(old, buckets.Check{Key: key, Limit: limits[n%3], Quantity: 5})
			next = append(next, buckets.Check{Key: key, Limit: limits[(n+1)%3], Quantity: 1})
		}
		which, _ := takeAll(t, s, epoch, false, old...)
		require.Zero(t, which)
		_, err := s.TakeAll(epoch+5*second-1, next, false, make([]buckets.Decision, len(next)))
		require.Equal(t, buckets.ErrWrongKind, err)
		which, answers := takeAll(t, s, epoch+5*second, false, next...)
		require.Zero(t, which)
		for _, a := range answers {
			assert.Equal(t, int64(4), a[2])
		}
		assert.EqualValues(t, 30, s.Stats().Expired)
	})
}

// keysOfDifferentShards returns n keys that are in n different shards.
func keysOfDifferentShards(s *Store, n int) (keys []string) {
	seen := make(map[int]bool)
	for i := 0; len(keys) < n; i++ {
		key := fmt.Sprint("key ", i)
		if _, shard := s.locate([]byte(key)); !seen[shard] {
			seen[shard] = true
			keys = append(keys, key)
		}
	}
	return keys
}

// An operation on several shards decides at the latest of their times and raises all of them to it.
func TestMultiShardOperationUsesLatestShardTime(t *testing.T) {
	l := throttle(t, 1, 1, 10*second)
	for name, run := range map[string]func(t *testing.T, s *Store, early, late string){
		"TakeAll": func(t *testing.T, s *Store, early, late string) {
			_, answers := takeAll(t, s, epoch, false, buckets.Check{Key: []byte(early), Limit: l, Quantity: 1}, buckets.Check{Key: []byte(late), Limit: l, Quantity: 1})
			assert.Equal(t, []reply{{0, 2, 1, -1, 10}, {0, 2, 1, -1, 10}}, answers)
		},
		"Rename": func(t *testing.T, s *Store, early, late string) {
			_, err := s.Rename(epoch, []byte(early), []byte(late), false)
			assert.Equal(t, buckets.ErrNoKey, err)
		},
		"Hold": func(t *testing.T, s *Store, early, late string) {
			h := s.Hold(epoch, [][]byte{[]byte(late), []byte(early), []byte(late)}, false)
			defer h.Release()
			for _, key := range []string{early, late} {
				mustTake(t, &h.Store, epoch, key, l, 1)
				info, ok := h.Stat(0, []byte(key))
				assert.True(t, ok)
				assert.Equal(t, epoch+5*second, info.Now)
				assert.Equal(t, epoch+15*second, info.Expiry)
			}
		},
		"Hold everything": func(t *testing.T, s *Store, early, late string) {
			h := s.Hold(epoch, nil, true)
			defer h.Release()
			for n := range h.shards {
				assert.Equal(t, epoch+5*second, h.shards[n].latest)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := NewStore(8)
			keys := keysOfDifferentShards(s, 2)
			s.Stat(epoch+5*second, []byte(keys[1]))
			run(t, s, keys[0], keys[1])
			for _, key := range keys {
				_, n := s.locate([]byte(key))
				assert.Equal(t, epoch+5*second, s.shards[n].latest)
			}
			checkInvariants(t, s)
		})
	}
}

// Operations on a held key wait until it is released and see no intermediate state.
func TestHeldKeysMakeOtherGoroutinesWait(t *testing.T) {
	l := window(t, 2, 60*second)
	for _, everything := range []bool{false, true} {
		t.Run(fmt.Sprint("everything ", everything), func(t *testing.T) {
			s := NewStore(8)
			keys := keysOfDifferentShards(s, 3)
			names := [][]byte{[]byte(keys[2]), []byte(keys[0]), []byte(keys[1])}
			for range 300 {
				var others sync.WaitGroup
				h := s.Hold(epoch, names, everything)
				for _, name := range names {
					others.Go(func() {
						d, err := s.Take(epoch, name, l, 2, true)
						assert.NoError(t, err)
						assert.False(t, d.Limited, "it came in between")
					})
					others.Go(func() {
						_, answers := takeAll(t, s, epoch, true, buckets.Check{Key: names[2], Limit: l, Quantity: 2}, buckets.Check{Key: names[0], Limit: l, Quantity: 2})
						assert.Equal(t, []reply{{0, 2, 2, -1, 0}, {0, 2, 2, -1, 0}}, answers)
					})
				}
				for _, name := range names {
					mustTake(t, &h.Store, epoch, string(name), l, 1)
					_, n := s.locate(name)
					require.False(t, s.shards[n].mu.TryLock(), "it is locked")
				}
				for _, name := range names {
					require.True(t, h.Delete(epoch, name))
				}
				h.Release()
				waitOrFail(t, others.Wait)
			}
			checkInvariants(t, s)
		})
	}
}

func TestHoldLocksOnlyTheShardsOfItsKeys(t *testing.T) {
	s := NewStore(8)
	keys := keysOfDifferentShards(s, 8)
	h := s.Hold(epoch, [][]byte{[]byte(keys[5]), []byte(keys[1]), []byte(keys[5])}, false)
	for i, key := range keys {
		_, n := s.locate([]byte(key))
		free := s.shards[n].mu.TryLock()
		assert.Equal(t, i != 5 && i != 1, free)
		if free {
			s.shards[n].mu.Unlock()
		}
	}

	// All operations of a store work on a held store, by the same rules.
	l := slide(t, 3, 60*second)
	held, other := keys[5], keys[1]
	mustTake(t, &h.Store, epoch, held, l, 2)
	which, answers := takeAll(t, &h.Store, epoch, false,
		buckets.Check{Key: []byte(held), Limit: l, Quantity: 1}, buckets.Check{Key: []byte(other), Limit: l, Quantity: 1})
	assert.Zero(t, which)
	assert.Equal(t, []reply{{0, 3, 0, -1, 60}, {0, 3, 2, -1, 60}}, answers)
	assert.True(t, h.ExpireAt(epoch, []byte(other), epoch+second, 0))
	assert.True(t, h.Persist(epoch, []byte(other)))
	renamed, err := h.Rename(epoch, []byte(held), []byte(other), false)
	assert.NoError(t, err)
	assert.True(t, renamed)
	w := h.watch(epoch, []byte(other))
	assert.True(t, h.Delete(epoch, []byte(other)))
	assert.True(t, h.changed(epoch, w))
	h.unwatch(w)
	h.Release()
	requireUnlocked(t, s)
	checkInvariants(t, s)

	h = s.Hold(epoch, nil, true)
	mustTake(t, &h.Store, epoch, held, l, 2)
	assert.EqualValues(t, 1, h.Live(epoch))
	assert.EqualValues(t, 1, h.Stats().Keys)
	random, ok := h.randomKey(epoch, nil)
	assert.True(t, ok)
	assert.Equal(t, held, string(random))
	h.scan(epoch, 0, 100, func(key []byte, kind buckets.Kind) { assert.Equal(t, held, string(key)) })
	sweepAll(&h.Store, epoch+60*second)
	assert.Zero(t, h.Stats().Keys)
	h.flush()
	h.Release()
	requireUnlocked(t, s)
}

// Using a key that was not passed to Hold is a programming error. It panics instead of causing a data race.
func TestHeldStorePanicsOnOtherShards(t *testing.T) {
	s := NewStore(8)
	keys := keysOfDifferentShards(s, 2)
	h := s.Hold(epoch, [][]byte{[]byte(keys[0])}, false)
	defer h.Release()
	assert.Panics(t, func() { h.Stat(epoch, []byte(keys[1])) })
	_, n := s.locate([]byte(keys[1]))
	s.shards[n].mu.Unlock() // the panic left the shard locked
}

// change is something that may happen to the key k.
type change struct {
	name    string
	before  func(s *Store) // called before the watch begins
	do      func(s *Store)
	changes bool
	later   int64 // nanoseconds from the change to the call of changed
}

func TestWatchReportsChangesOnly(t *testing.T) {
	const k = "k"
	throttled, slid := throttle(t, 1, 1, 10*second), slide(t, 2, 10*second)
	exists := func(l buckets.Limit) func(s *Store) {
		return func(s *Store) { mustTake(t, s, epoch, k, l, 1) }
	}
	missing := func(*Store) {}
	take := func(l buckets.Limit, quantity int64, peek bool) func(s *Store) {
		return func(s *Store) {
			_, err := s.Take(epoch, []byte(k), l, quantity, peek)
			require.NoError(t, err)
		}
	}
	all := func(peek bool, checks ...buckets.Check) func(s *Store) {
		return func(s *Store) { takeAll(t, s, epoch, peek, checks...) }
	}
	on := func(key string, l buckets.Limit, quantity int64) buckets.Check {
		return buckets.Check{Key: []byte(key), Limit: l, Quantity: quantity}
	}
	changes := []change{
		{"a rename to it", func(s *Store) { mustTake(t, s, epoch, "x", slid, 1) }, func(s *Store) { s.Rename(epoch, []byte("x"), []byte(k), false) }, true, 0},
		{"a refund of nothing", missing, take(throttled, -1, false), false, 0},
		{"a question about nothing", missing, take(slid, 0, false), false, 0},
		{"a refusal of nothing", missing, take(slid, 3, false), false, 0},
		{"PEEK at nothing", missing, take(slid, 1, true), false, 0},
		{"a delete of nothing", missing, func(s *Store) { s.Delete(epoch, []byte(k)) }, false, 0},
		{"a deadline of nothing", missing, func(s *Store) { s.ExpireAt(epoch, []byte(k), epoch+second, 0) }, false, 0},
		{"a rename of nothing", missing, func(s *Store) { s.Rename(epoch, []byte(k), []byte("x"), false) }, false, 0},
		{"a flush of nothing", missing, func(s *Store) { s.flush() }, false, 0},
		{"another key", missing, func(s *Store) { mustTake(t, s, epoch, "x", slid, 1) }, false, 0},
		{"time, without a key", missing, func(s *Store) { s.Stat(epoch+3600*second, []byte(k)) }, false, 0},
		{"coming and going", missing, func(s *Store) {
			mustTake(t, s, epoch, k, slid, 1)
			s.Delete(epoch, []byte(k))
		}, true, 0},
		{"what had expired before it was watched", func(s *Store) {
			mustTake(t, s, epoch-10*second, k, slid, 1)
		}, func(s *Store) { sweepAll(s, epoch) }, false, 0},
	}
	for kind, l := range map[string]buckets.Limit{"throttle": throttled, "window": window(t, 2, 10*second), "zslide": slid} {
		add := func(name string, do func(s *Store), yes bool) {
			changes = append(changes, change{kind + ": " + name, exists(l), do, yes, 0})
		}
		changes = append(changes, change{kind + ": the first admission", missing, exists(l), true, 0})
		later := func(name string, do func(s *Store)) {
			changes = append(changes, change{kind + ": its time has come" + name, exists(l), do, true, 10 * second})
		}
		add("an admission", take(l, 1, false), true)
		add("a refund", take(l, -1, false), true)
		add("a refusal", take(l, 2, false), false)
		add("a refusal for ever", take(l, 3, false), false)
		add("PEEK", take(l, 1, true), false)
		add("a question", take(l, 0, false), false)
		add("another kind", func(s *Store) {
			_, err := s.Take(epoch, []byte(k), otherKind(t, l), 1, false)
			require.Equal(t, buckets.ErrWrongKind, err)
		}, false)
		add("one of several", all(false, on("x", slid, 1), on(k, l, 1)), true)
		add("one of several that are refused", all(false, on("x", slid, 3), on(k, l, 1)), false)
		add("one of several that are looked at", all(true, on("x", slid, 1), on(k, l, 1)), false)
		add("one of several that asks for nothing", all(false, on("x", slid, 1), on(k, l, 0)), false)
		add("a delete", func(s *Store) { s.Delete(epoch, []byte(k)) }, true)
		add("a flush", func(s *Store) { s.flush() }, true)
		add("a rename", func(s *Store) { s.Rename(epoch, []byte(k), []byte("x"), false) }, true)
		add("a rename that finds its place taken", func(s *Store) {
			mustTake(t, s, epoch, "x", slid, 1)
			s.Rename(epoch, []byte("x"), []byte(k), true)
		}, false)
		add("a rename over it", func(s *Store) {
			mustTake(t, s, epoch, "x", slid, 1)
			s.Rename(epoch, []byte("x"), []byte(k), false)
		}, true)
		add("a deadline", func(s *Store) { s.ExpireAt(epoch, []byte(k), epoch+second, 0) }, true)
		add("a deadline in the past", func(s *Store) { s.ExpireAt(epoch, []byte(k), epoch, 0) }, true)
		add("a deadline that its condition forbids", func(s *Store) { s.ExpireAt(epoch, []byte(k), epoch+second, buckets.IfNone) }, false)
		add("no deadline to remove", func(s *Store) { s.Persist(epoch, []byte(k)) }, false)
		changes = append(changes, change{kind + ": the end of a deadline", func(s *Store) {
			mustTake(t, s, epoch, k, l, 1)
			s.ExpireAt(epoch, []byte(k), epoch+second, 0)
		}, func(s *Store) { s.Persist(epoch, []byte(k)) }, true, 0})
		add("reads", func(s *Store) {
			s.Stat(epoch, []byte(k))
			s.Get(epoch, []byte(k))
			s.Live(epoch)
			s.randomKey(epoch, nil)
			s.scan(epoch, 0, 100, func([]byte, buckets.Kind) {})
			s.Stats()
		}, false)
		add("time passing", func(s *Store) { sweepAll(s, epoch+10*second-1) }, false)
		later("", func(s *Store) { s.Stat(epoch+10*second, []byte(k)) })
		later(", unseen", missing)
		later(", and it was swept away", func(s *Store) { sweepAll(s, epoch+10*second) })
		later(", and another has taken its place", func(s *Store) { mustTake(t, s, epoch+10*second, k, slid, 1) })
		add("its deadline has come", func(s *Store) {
			s.ExpireAt(epoch, []byte(k), epoch+second, 0)
			s.Stat(epoch+second, []byte(k))
		}, true)
	}
	for _, c := range changes {
		t.Run(c.name, func(t *testing.T) {
			for _, shards := range []int{1, 8} {
				s := NewStore(shards)
				c.before(s)
				w, other := s.watch(epoch, []byte(k)), s.watch(epoch, []byte("nobody's"))
				again := s.watch(epoch, []byte(k))
				s.unwatch(again)
				assert.False(t, s.changed(epoch, w), "nothing has happened yet")
				c.do(s)
				now := epoch + c.later
				assert.Equal(t, c.changes, s.changed(now, w))
				assert.Equal(t, c.changes, s.changed(now, w), "and stays so")
				assert.False(t, s.changed(now, other))
				late := s.watch(now, []byte(k))
				assert.False(t, s.changed(now, late), "what happened before it was watched")
				for _, w := range []*watch{w, other, late} {
					s.unwatch(w)
				}
				requireNoWatches(t, s)
				checkInvariants(t, s)
			}
		})
	}
}

// A refused call cuts the state of each of its limits, so that a client that waits as long as it was told is admitted. A
// call that only peeks, or fails, cuts nothing.
func TestRefusedRequestsCutTheTAT(t *testing.T) {
	long, short := throttle(t, 0, 1, 10_000*second), throttle(t, 0, 1, 2*second)
	on := func(key string, l buckets.Limit, quantity int64) buckets.Check {
		return buckets.Check{Key: []byte(key), Limit: l, Quantity: quantity}
	}
	for name, row := range map[string]struct {
		checks []buckets.Check
		peek   bool
		err    error
		cut    []string // the keys that are cut, of those that exist
	}{
		"the one that refuses":            {checks: []buckets.Check{on("a", short, 1)}, cut: []string{"a"}},
		"others, which would admit":       {checks: []buckets.Check{on("a", short, 1), on("b", short, 0), on("c", short, -1)}, cut: []string{"a", "b", "c"}},
		"more than there can ever be":     {checks: []buckets.Check{on("a", short, 2)}, cut: []string{"a"}},
		"another kind refuses":            {checks: []buckets.Check{on("b", short, 0), on("x", slide(t, 1, second), 2)}, cut: []string{"b"}},
		"a limit that it is not beyond":   {checks: []buckets.Check{on("a", long, 1), on("b", short, 1)}, cut: []string{"b"}},
		"all are admitted, for nothing":   {checks: []buckets.Check{on("b", short, 0), on("x", slide(t, 1, second), 1)}, cut: []string{"b"}},
		"PEEK":                            {checks: []buckets.Check{on("a", short, 1), on("b", short, 0)}, peek: true},
		"the key of another is a counter": {checks: []buckets.Check{on("a", short, 1), on("log", short, 1)}, err: buckets.ErrWrongKind},
		"a log that is full":              {checks: []buckets.Check{on("b", short, 0), on("log", slide(t, 9, 10_000*second), 1)}, err: buckets.ErrLogFull},
	} {
		t.Run(name, func(t *testing.T) {
			eachShape(t, func(t *testing.T, s *Store) {
				for _, key := range []string{"a", "b", "c"} {
					mustTake(t, s, epoch, key, long, 1)
					require.True(t, s.ExpireAt(epoch, []byte(key), epoch+second, 0))
				}
				require.True(t, s.ExpireAt(epoch, []byte("a"), epoch+4000*second, 0))
				mustTake(t, s, epoch, "log", slide(t, 9, 10_000*second), 1)
				s.SetMaxLog(1)
				s.Track(textEncoder{})
				w := s.watch(epoch, []byte("b"))
				answers := make([]buckets.Decision, len(row.checks))
				_, err := s.TakeAll(epoch+1, row.checks, row.peek, answers)
				require.ErrorIs(t, err, row.err)
				require.False(t, s.changed(epoch+1, w), "a cut is no change to those who watch")
				s.unwatch(w)
				out, _ := s.Changes(nil)
				for i, key := range []string{"a", "b", "c"} {
					was := []int64{4000 * second, second, second}[i]
					info, ok := s.Get(epoch+1, []byte(key))
					require.True(t, ok)
					if !slices.Contains(row.cut, key) {
						require.Equal(t, epoch+10_000*second, info.Field("tat"), key)
						require.Equal(t, epoch+was, info.Deadline, key)
						require.NotContains(t, string(out), `"`+key+`"=`, "the journal")
						continue
					}
					require.Equal(t, epoch+1+2*second, info.Field("tat"), key)
					require.Contains(t, string(out), `"`+key+`"=`, "the journal")
					if key == "a" {
						require.Zero(t, info.Deadline, "it has been overtaken")
					} else {
						require.Equal(t, epoch+was, info.Deadline, "it has not been overtaken")
					}
				}
				for i, c := range row.checks {
					cut := err == nil && slices.Contains(row.cut, string(c.Key))
					require.Equal(t, cut, answers[i].Cut && err == nil, string(c.Key))
				}
			})
		})
	}
}

// requireNoWatches requires that the store has no watches.
func requireNoWatches(t *testing.T, s *Store) {
	t.Helper()
	for n := range s.shards {
		for _, of := range s.shards[n].eachDatabase() {
			assert.Nil(t, of.watches)
		}
	}
}

func TestUnwatchEndsOneWatchOfSeveral(t *testing.T) {
	s := NewStore(8)
	rng := rand.New(rand.NewPCG(1, 2))
	l := window(t, 1000, second)
	changed := make(map[*watch]bool)
	keys := make(map[*watch]string)
	for range 2000 {
		key := fmt.Sprint(rng.IntN(10))
		switch rng.IntN(3) {
		case 0:
			w := s.watch(epoch, []byte(key))
			changed[w], keys[w] = false, key
		case 1:
			mustTake(t, s, epoch, key, l, 1)
			for w := range keys {
				changed[w] = changed[w] || keys[w] == key
			}
		default:
			for w, was := range changed { // in random order
				require.Equal(t, was, s.changed(epoch, w))
				s.unwatch(w)
				delete(changed, w)
				delete(keys, w)
				break
			}
		}
	}
	for w, was := range changed {
		require.Equal(t, was, s.changed(epoch, w))
		s.unwatch(w)
	}
	requireNoWatches(t, s)
}

// admittedAtOnce makes many goroutines ask at one time and counts the admissions.
func admittedAtOnce(t *testing.T, askers, each int, ask func(asker int) (admitted bool)) int64 {
	var admitted atomic.Int64
	var all sync.WaitGroup
	start := make(chan struct{})
	for n := range askers {
		all.Go(func() {
			<-start
			for range each {
				if ask(n) {
					admitted.Add(1)
				}
			}
		})
	}
	close(start)
	waitOrFail(t, all.Wait)
	return admitted.Load()
}

// Any number of goroutines that take at one time are admitted exactly as often as the limit allows.
func TestConcurrentTakesAdmitExactlyTheLimit(t *testing.T) {
	const askers, each, limit = 16, 200, 1000
	for kind, l := range map[string]buckets.Limit{
		"throttle": throttle(t, limit-1, 1, second), "window": window(t, limit, second),
		"aligned": aligned(t, limit, 3600*second, 0), "zslide": slide(t, limit, second),
	} {
		t.Run(kind, func(t *testing.T) {
			eachShape(t, func(t *testing.T, s *Store) {
				assert.EqualValues(t, limit, admittedAtOnce(t, askers, each, func(int) bool {
					d, err := s.Take(epoch, []byte("k"), l, 1, false)
					assert.NoError(t, err)
					return !d.Limited
				}))
			})
		})
	}
}

// Goroutines take several limits at one time, each with the keys in another order. None of them deadlocks, exactly the
// tightest limit is admitted, and a refused call takes nothing from any key.
func TestConcurrentTakeAllAdmitsExactlyTheTightestLimit(t *testing.T) {
	const askers, each, limit = 16, 200, 500
	eachShape(t, func(t *testing.T, s *Store) {
		names := []string{"throttle", "window", "zslide", "wide window", "wide zslide"}
		limits := []buckets.Limit{
			throttle(t, limit+9, 1, second), window(t, limit, 60*second), slide(t, limit+100, 60*second),
			window(t, 10*limit, 60*second), slide(t, 10*limit, 60*second),
		}
		admitted := admittedAtOnce(t, askers, each, func(asker int) bool {
			checks := make([]buckets.Check, len(names))
			for i := range names {
				n := (asker + i) % len(names)
				if asker%2 == 0 {
					n = (asker + len(names) - i) % len(names)
				}
				checks[i] = buckets.Check{Key: []byte(names[n]), Limit: limits[n], Quantity: 1}
			}
			which, err := s.TakeAll(epoch, checks, false, make([]buckets.Decision, len(checks)))
			assert.NoError(t, err)
			return which == 0
		})
		assert.EqualValues(t, limit, admitted)
		for i, name := range names {
			d, err := s.Take(epoch, []byte(name), limits[i], 0, true)
			require.NoError(t, err)
			assert.Equal(t, limits[i].Max()-limit, d.Remaining, name)
		}
	})
}

// Operations that lock several shards run concurrently and in every order. All of them end, and no unit is lost or
// duplicated.
func TestConcurrentMultiKeyOperationsDoNotDeadlock(t *testing.T) {
	eachShape(t, func(t *testing.T, s *Store) {
		l := slide(t, math.MaxInt64, 60*second)
		names := []string{"a", "b", "c", "d", "e", "f"}
		for _, name := range names {
			mustTake(t, s, epoch, name, l, 1)
		}
		admittedAtOnce(t, 8, 100, func(asker int) bool {
			rng := rand.New(rand.NewPCG(uint64(asker), 0))
			order := rng.Perm(len(names))
			x, y := []byte(names[order[0]]), []byte(names[order[1]])
			switch asker % 4 {
			case 0:
				checks := make([]buckets.Check, len(order))
				for i, n := range order {
					checks[i] = buckets.Check{Key: []byte(names[n]), Limit: l, Quantity: 1 - 2*int64(i%2)}
				}
				_, err := s.TakeAll(epoch, checks, false, make([]buckets.Decision, len(checks)))
				assert.NoError(t, err)
			case 1:
				_, err := s.Rename(epoch, x, y, false)
				assert.True(t, err == nil || err == buckets.ErrNoKey)
			case 2:
				h := s.Hold(epoch, [][]byte{x, y}, rng.IntN(4) == 0)
				defer h.Release()
				_, err := h.Rename(epoch, x, y, true)
				assert.True(t, err == nil || err == buckets.ErrNoKey)
			default:
				w := s.watch(epoch, x)
				mustTake(t, s, epoch, string(y), l, 1)
				s.changed(epoch, w)
				s.unwatch(w)
				sweepAll(s, epoch)
			}
			return true
		})
		requireNoWatches(t, s)
	})
}

// Shards are locked in the order of their numbers, whatever the order of the keys: while another goroutine holds the
// first one, none of the others is locked.
func TestLocksAreTakenInShardOrder(t *testing.T) {
	l := slide(t, 3, 60*second)
	for name, run := range map[string]func(s *Store, x, y []byte){
		"TakeAll": func(s *Store, x, y []byte) {
			takeAll(t, s, epoch, false, buckets.Check{Key: x, Limit: l, Quantity: 1}, buckets.Check{Key: y, Limit: l, Quantity: 1})
		},
		"Hold":            func(s *Store, x, y []byte) { s.Hold(epoch, [][]byte{x, y, x}, false).Release() },
		"Hold everything": func(s *Store, _, _ []byte) { s.Hold(epoch, nil, true).Release() },
		"Rename": func(s *Store, x, y []byte) {
			_, err := s.Rename(epoch, x, y, false)
			assert.Equal(t, buckets.ErrNoKey, err)
		},
		"Flush": func(s *Store, _, _ []byte) { s.flush() },
	} {
		t.Run(name, func(t *testing.T) {
			s := NewStore(8)
			keys := keysOfDifferentShards(s, 8)
			slices.SortFunc(keys, func(a, b string) int {
				_, x := s.locate([]byte(a))
				_, y := s.locate([]byte(b))
				return x - y
			})
			for n, x := range keys {
				for higher, y := range keys[n+1:] {
					higher += n + 1
					for _, named := range [][2]string{{x, y}, {y, x}} {
						s.shards[n].mu.Lock()
						var op sync.WaitGroup
						op.Go(func() { run(s, []byte(named[0]), []byte(named[1])) })
						waitOrFail(t, func() {
							for !goroutineWaitsForLock() {
								runtime.Gosched()
							}
						})
						free := s.shards[higher].mu.TryLock()
						if free {
							s.shards[higher].mu.Unlock()
						}
						s.shards[n].mu.Unlock()
						waitOrFail(t, op.Wait)
						require.True(t, free, "shard %d was locked before shard %d", higher, n)
					}
				}
			}
			requireUnlocked(t, s)
		})
	}
}

// goroutineWaitsForLock reports whether a goroutine waits for the lock of a shard.
func goroutineWaitsForLock() bool {
	stacks := make([]byte, 1<<20)
	for stack := range bytes.SplitSeq(stacks[:runtime.Stack(stacks, true)], []byte("\n\n")) {
		if bytes.Contains(stack, []byte("[sync.Mutex.Lock")) && bytes.Contains(stack, []byte("(*Store).lockShard(")) {
			return true
		}
	}
	return false
}

// requireUnlocked requires that no shard is locked.
func requireUnlocked(t *testing.T, s *Store) {
	t.Helper()
	for n := range s.shards {
		require.True(t, s.shards[n].mu.TryLock(), "shard %d is still locked", n)
		s.shards[n].mu.Unlock()
	}
}

// otherKind returns a limit of another kind than l.
func otherKind(t testing.TB, l buckets.Limit) buckets.Limit {
	if l.Kind() == buckets.Throttle {
		return window(t, 1, second)
	}
	return throttle(t, 0, 1, second)
}

// Others wait while a store is held, so RandomKey examines only a bounded number of expired keys.
func TestRandomKeyOfAHeldStoreIsBounded(t *testing.T) {
	s := NewStore(8)
	short, err := buckets.NewWindow(5, 1e9)
	require.NoError(t, err)
	for n := range 20_000 {
		_, err := s.Take(epoch, fmt.Appendf(nil, "key:%d", n), short, 1, false)
		require.NoError(t, err)
	}
	h := s.Hold(epoch+2e9, nil, true)
	_, found := h.randomKey(epoch+2e9, nil)
	left := h.Keys()
	h.Release()
	require.False(t, found)
	require.EqualValues(t, 20_000-1000, left, "those that it looked at are forgotten, and no others")

	_, err = s.Take(epoch+2e9, []byte("alive"), short, 1, false)
	require.NoError(t, err)
	key, found := s.randomKey(epoch+2e9, nil)
	require.True(t, found)
	require.Equal(t, "alive", string(key), "otherwise it does")
}
