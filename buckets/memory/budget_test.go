package memory

import (
	"bytes"
	"cellserver/buckets"
	"fmt"
	"math/rand/v2"
	"os"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A flood of new keys stays within the limit by evicting keys of the flood, and not the bucket that was exhausted before
// it.
func TestFloodOfNewKeysEvictsOnlyNewKeys(t *testing.T) {
	for _, kind := range []buckets.Limit{throttle(t, 9, 1, 3600*second), window(t, 10, 3600*second), slide(t, 10, 3600*second)} {
		t.Run(kind.Kind().String(), func(t *testing.T) {
			// With few shards each has some hundreds of buckets: a shard with very few keys samples all of them.
			for _, shards := range []int{1, 4} {
				s := NewStore(shards)
				const limit = 256 << 10
				s.SetMemory(limit, true)
				l := throttle(t, 9, 1, 3600*second)
				d, err := s.Take(epoch, []byte("exhausted"), l, 10, false)
				require.NoError(t, err)
				require.False(t, d.Limited)
				for i := range 20000 {
					if _, err := s.Take(epoch+int64(i), fmt.Appendf(nil, "flood:%d:%d", i, rand.Int64()), kind, 1, false); err != nil {
						require.NoError(t, err)
					}
				}
				st := s.Stats()
				assert.Positive(t, st.Evicted)
				assert.LessOrEqual(t, st.Bytes, int64(limit+limit/20), "what is really held")
				for range 5 {
					sweepAll(s, epoch+20000)
				}
				assert.LessOrEqual(t, s.Bytes(), int64(limit), "and what one request could not make room for, the sweep has")
				assert.GreaterOrEqual(t, st.Peak, st.Bytes)
				d, err = s.Take(epoch+20000, []byte("exhausted"), l, 1, false)
				require.NoError(t, err)
				assert.True(t, d.Limited, "still exhausted")
				checkInvariants(t, s)
			}
		})
	}
}

// The same holds for the smallest stores, whose shards have some dozens of keys: the sweep and the flood evict keys of
// the flood, and no bucket that is exhausted for hours.
func TestExhaustedBucketsAreEvictedLast(t *testing.T) {
	key := map[string]func(dst []byte, i int) []byte{
		"keys alike":  func(dst []byte, i int) []byte { return fmt.Appendf(dst, "flood:%07d", i) },
		"longer keys": func(dst []byte, i int) []byte { return fmt.Appendf(dst, "flood:%d:%d", i, rand.Int64()) },
		"any length":  func(dst []byte, i int) []byte { return fmt.Appendf(dst, "%0*d", 7+rand.IntN(100), i) },
	}
	const exhausted, hours = 3000, 7200 * second
	full, most := throttle(t, 9, 10, hours), int64(10)
	for name, key := range key {
		for _, limit := range []int64{4 << 20, 16 << 20} {
			for _, flood := range []buckets.Limit{throttle(t, 9, 10, 60*second), window(t, 10, 60*second), slide(t, 10, 60*second)} {
				usual := name == "longer keys" || flood.Kind() == buckets.Throttle
				if os.Getenv("CELLSERVER_SOAK") != "1" && (limit > 4<<20 || !usual) {
					continue // the smallest stores are the hardest case: they have the fewest keys to choose from
				}
				t.Run(fmt.Sprintf("%s in %d bytes, %s", name, limit, flood.Kind()), func(t *testing.T) {
					s := NewStore(DefaultShards)
					s.SetMemory(limit, true)
					var k []byte
					for i := range exhausted {
						k = fmt.Appendf(k[:0], "exhausted:%d", i)
						mustTake(t, s, epoch, string(k), full, most)
					}
					for i := 0; s.Stats().Evicted < 20_000; i++ {
						for range 1000 {
							k = key(k[:0], i)
							i++
							if _, err := s.Take(epoch+int64(i), k, flood, 1, false); err != nil {
								require.NoError(t, err)
							}
							if i%10 == 0 {
								s.Sweep(epoch + int64(i))
							}
						}
					}
					lost := 0
					for i := range exhausted {
						k = fmt.Appendf(k[:0], "exhausted:%d", i)
						if d, err := s.Take(epoch, k, full, 1, true); err == nil && !d.Limited {
							lost++
						}
					}
					require.Zero(t, lost, "of what was exhausted")
					require.LessOrEqual(t, s.Stats().Peak, limit+limit/8)
					for n := 0; n < 20 && s.Bytes() > limit; n++ {
						sweepAll(s, epoch)
					}
					require.LessOrEqual(t, s.Bytes(), limit)
					checkInvariants(t, s)
				})
			}
		}
	}
}

// Without eviction, exactly the requests that need memory are refused, and they change nothing.
func TestNoEvictionRefusesNewKeysAtTheLimit(t *testing.T) {
	eachShape(t, func(t *testing.T, s *Store) {
		l := throttle(t, 9, 1, second)
		_, err := s.Take(epoch, []byte("here"), l, 1, false)
		require.NoError(t, err)
		s.SetMemory(32<<10, false)
		for i := 0; err == nil; i++ {
			_, err = s.Take(epoch, fmt.Appendf(nil, "%0200d", i), l, 1, false)
		}
		require.ErrorIs(t, err, buckets.ErrNoMemory)
		s.SetMemory(1, false)
		before := s.Stats()
		fresh := bytes.Repeat([]byte{'f'}, 5000)
		for _, l := range []buckets.Limit{l, window(t, 5, second), slide(t, 5, second)} {
			_, err = s.Take(epoch, fresh, l, 1, false)
			require.ErrorIs(t, err, buckets.ErrNoMemory)
			_, err = s.Take(epoch, fresh, l, 0, false)
			require.NoError(t, err, "asking needs none")
			_, err = s.Take(epoch, fresh, l, 11, false)
			require.NoError(t, err, "nor does a refusal")
			_, err = s.TakeAll(epoch, []buckets.Check{{Key: []byte("other"), Limit: l, Quantity: 0}, {Key: fresh, Limit: l, Quantity: 1}},
				false, make([]buckets.Decision, 2))
			require.ErrorIs(t, err, buckets.ErrNoMemory)
		}
		assert.Equal(t, before.Bytes, s.Stats().Bytes)
		d, err := s.Take(epoch, []byte("here"), l, 1, false)
		require.NoError(t, err)
		assert.EqualValues(t, 8, d.Remaining, "one was taken before, and one now")
	})
}

// A log grows within the existing blocks. When it needs another block, the request is refused and the log stays
// unchanged.
func TestNoEvictionRefusesAGrowingLogAtTheLimit(t *testing.T) {
	eachShape(t, func(t *testing.T, s *Store) {
		l := slide(t, 1_000_000, 3600*second)
		_, err := s.Take(epoch, []byte("log"), l, 1, false)
		require.NoError(t, err)
		s.SetMemory(s.Bytes()+4096, false)
		admitted := int64(1)
		for ; err == nil; admitted++ {
			_, err = s.Take(epoch+admitted, []byte("log"), l, 1, false)
		}
		require.ErrorIs(t, err, buckets.ErrNoMemory)
		require.Greater(t, admitted, int64(100))
		d, err := s.Take(epoch+admitted, []byte("log"), l, 0, false)
		require.NoError(t, err)
		require.Equal(t, 1_000_000-(admitted-1), d.Remaining)
		require.LessOrEqual(t, s.Bytes(), s.Stats().Limit)
	})
}

// After the limit is lowered, sweeps evict until the store is within it.
func TestSweepEvictsDownToALoweredLimit(t *testing.T) {
	eachShape(t, func(t *testing.T, s *Store) {
		l := throttle(t, 9, 1, 3600*second)
		for i := range 20000 {
			_, err := s.Take(epoch, fmt.Appendf(nil, "key:%d", i), l, 1, false)
			require.NoError(t, err)
		}
		limit := s.Stats().Bytes / 2
		s.SetMemory(limit, true)
		for range 20 {
			sweepAll(s, epoch)
		}
		assert.LessOrEqual(t, s.Stats().Bytes, limit)
		assert.Positive(t, s.Live(epoch))
	})
}

// A sliding log takes this many bytes for each admission of 1.
func TestLogRecordTakesFewBytes(t *testing.T) {
	for name, row := range map[string]struct {
		period int64
		most   float64 // bytes
	}{
		"a minute": {60 * second, 6.5}, "a day": {86400 * second, 7.8}, "a year": {365 * 86400 * second, 9},
	} {
		t.Run(name, func(t *testing.T) {
			s := NewStore(1)
			const n = 100000
			l := slide(t, n, row.period)
			for i := range int64(n) {
				_, err := s.Take(epoch+i*1000, []byte("k"), l, 1, false)
				require.NoError(t, err)
			}
			checkInvariants(t, s)
			info, ok := s.Stat(epoch+n*1000, []byte("k"))
			require.True(t, ok)
			assert.LessOrEqual(t, float64(info.Bytes)/n, row.most)
		})
	}
}

// Each store has its own seed, so keys that share a shard in one store do not share one in another.
func TestStoresHashWithDifferentSeeds(t *testing.T) {
	a, b := NewStore(256), NewStore(256)
	same := 0
	for i := range 1000 {
		key := fmt.Appendf(nil, "key:%d", i)
		_, p := a.locate(key)
		_, q := b.locate(key)
		if p == q {
			same++
		}
	}
	assert.Less(t, same, 50, "some 4 of 1000 by chance")
}

// The memory of a flood is freed when its keys have expired, although some keys of each shard remain. No step of the
// sweep examines more than a few blocks.
func TestSweepGivesBackMemoryAfterAFlood(t *testing.T) {
	for g, keys := range map[geometry]int{tiny: 20_000, usual: 200_000} {
		s := newStore(4, g, seed)
		lasting, short := throttle(t, 0, 1, 3600*second), throttle(t, 0, 1, second)
		for i := range keys {
			l := short
			if i%(keys/100) == 0 {
				l = lasting
			}
			if _, err := s.Take(epoch, fmt.Appendf(nil, "key:%d", i), l, 1, false); err != nil {
				require.NoError(t, err) // guarded, because NoError is slow: it walks the stack
			}
		}
		flooded := s.Bytes()
		for round := 0; round < 2; {
			did := s.Sweep(epoch + 2*second)
			if most := stepWork + s.shards[0].table.blockBytes()/12; did.Looked > most {
				require.LessOrEqual(t, did.Looked, most, "in one step")
			}
			if did.Round {
				round++
			}
		}
		st := s.Stats()
		assert.EqualValues(t, 100, st.Keys)
		assert.EqualValues(t, keys-100, st.Expired)
		assert.Less(t, st.Bytes, flooded/20)
		checkInvariants(t, s)
	}
}

// A record that fits no piece is alone in the open block, which is the emptiest block but not worth evacuating. The sweep
// ends nevertheless.
func TestSweepEndsWhenTheLimitCannotBeMet(t *testing.T) {
	s := newStore(1, usual, seed)
	l := throttle(t, 0, 1, 3600*second)
	// Blocks of four records each, of which every second one is removed.
	key := func(i, size int) []byte { return fmt.Appendf(nil, "%0*d", size, i) }
	for i := range 80 {
		mustTake(t, s, epoch, string(key(i, 1000-i%2*100)), l, 1)
	}
	mustTake(t, s, epoch, string(bytes.Repeat([]byte{'x'}, 1500)), l, 1)
	for i := range 80 {
		if i%2 == 0 {
			s.Delete(epoch, key(i, 1000))
		}
	}
	checkInvariants(t, s)
	for steps := 0; !s.Sweep(epoch).Round; steps++ {
		require.Less(t, steps, 1000)
	}
	require.False(t, s.shards[0].table.wasteful())
	checkInvariants(t, s)
}

// A log whose records get running sums or wider times needs more memory although its ring has room. Such a request is
// refused too.
func TestNoEvictionRefusesALogWhoseRecordsWiden(t *testing.T) {
	for name, grow := range map[string]struct {
		period, later, quantity int64
	}{
		"a quantity":       {60 * second, 1, 2},
		"the same instant": {60 * second, 0, 1},
		"a longer period":  {86400 * second, 1, 1},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStore(1, usual, seed)
			now := epoch
			l := slide(t, 1_000_000, 60*second)
			for range 10_000 {
				now++
				mustTake(t, s, now, "log", l, 1)
			}
			before := s.Bytes()
			s.SetMemory(before, false)
			_, err := s.Take(now+grow.later, []byte("log"), slide(t, 1_000_000, grow.period), grow.quantity, false)
			require.ErrorIs(t, err, buckets.ErrNoMemory)
			require.Equal(t, before, s.Bytes())
		})
	}
}

// A first block that has no room for a record, and would be too large with it, stays unchanged. The record goes to a
// second block.
func TestGrowthOfAFullFirstBlockIsPredicted(t *testing.T) {
	l := throttle(t, 9, 1, second)
	for first := 100; first < 4000; first += 100 {
		for size := 100; size < 4000; size += 100 {
			s := newStore(1, usual, seed)
			mustTake(t, s, epoch, fmt.Sprintf("%0*d", first, 0), l, 1)
			before := s.Bytes()
			units := recordUnits(size, 8)
			grown := s.shards[0].table.growth(units, true)
			mustTake(t, s, epoch, fmt.Sprintf("%0*d", size, 1), l, 1)
			require.LessOrEqual(t, s.Bytes(), before+int64(grown), "%d beside %d", size, first)
		}
	}
}

// The last loaded state of a shard does not keep a removed log from being garbage collected.
func TestRemovedLogIsNotReferenced(t *testing.T) {
	for name, forget := range map[string]func(s *Store){
		"swept":   func(s *Store) { sweepAll(s, epoch+3600*second) },
		"deleted": func(s *Store) { s.Delete(epoch, []byte("log")) },
	} {
		t.Run(name, func(t *testing.T) {
			s := newStore(1, usual, seed)
			mustTake(t, s, epoch, "log", slide(t, 1, second), 1)
			forget(s)
			require.Zero(t, s.Bytes())
			require.Nil(t, s.shards[0].found.ring.memory)
		})
	}
}
