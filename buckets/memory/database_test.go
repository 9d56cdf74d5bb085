package memory

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"cellserver/buckets"
)

// withDatabases is a store of n databases.
func withDatabases(s *Store, n int) *Store {
	s.SetDatabases(n)
	return s
}

// in returns database n of a store.
func in(s *Store, n int) *Store { return s.Database(n).(*Store) }

func set(t require.TestingT, s *Store, now int64, key string, value, expiry int64) {
	require.NoError(t, s.Update(now, keyBytes(key), putStates(buckets.Counted(value, expiry))))
}

// databasesModel is what the databases hold, key by key: a value and an expiry.
type databasesModel struct {
	s    *Store
	now  int64
	held []map[string][2]int64
}

func (m *databasesModel) drop() {
	for _, of := range m.held {
		maps.DeleteFunc(of, func(_ string, is [2]int64) bool { return is[1] <= m.now })
	}
}

func (m *databasesModel) compare(t *rapid.T) {
	for n, of := range m.held {
		got := make(map[string][2]int64)
		for cursor, first := uint64(0), true; first || cursor != 0; first = false {
			var visited []string
			cursor = in(m.s, n).scan(m.now, cursor, 3, func(key []byte, _ buckets.Kind) { visited = append(visited, string(key)) })
			for _, key := range visited {
				c, found := in(m.s, n).Get(m.now, []byte(key))
				require.True(t, found)
				if c.Kind == buckets.Window { // a window that ends is as good as a counter that expires
					got[key] = [2]int64{c.Field("used"), c.Expiry}
				} else {
					got[key] = [2]int64{c.Field("value"), c.Expiry}
				}
			}
		}
		require.Equal(t, of, got, "database %d", n)
		require.EqualValues(t, len(of), in(m.s, n).Live(m.now))
		require.GreaterOrEqual(t, in(m.s, n).Keys(), int64(len(of)))
		key, found := in(m.s, n).randomKey(m.now, nil)
		require.Equal(t, len(of) > 0, found)
		if found {
			require.Contains(t, of, string(key))
		}
	}
}

func (m *databasesModel) step(t *rapid.T) {
	m.now += rapid.SampledFrom([]int64{0, 0, 1, second, 3 * second}).Draw(t, "later")
	m.drop()
	db := rapid.IntRange(0, len(m.held)-1).Draw(t, "database")
	other := rapid.IntRange(0, len(m.held)-1).Draw(t, "another")
	name := rapid.SampledFrom([]string{"a", "b", "c", "d"})
	key := name.Draw(t, "key")
	s, of := in(m.s, db), m.held[db]
	is, exists := of[key]
	expiry := m.now + rapid.SampledFrom([]int64{1, second, 5 * second, 1000 * second}).Draw(t, "expires in")
	if rapid.IntRange(0, 3).Draw(t, "lasts") == 0 {
		expiry = buckets.NoExpiry
	}
	switch what := rapid.IntRange(0, 10).Draw(t, "what"); what {
	case 0, 1, 2:
		set(t, s, m.now, key, int64(what), expiry)
		of[key] = [2]int64{int64(what), expiry}
	case 3:
		w := buckets.Windowed(buckets.WindowState{Start: m.now, End: min(expiry, m.now+500*second), Used: 7})
		require.NoError(t, s.Update(m.now, keyBytes(key), putStates(w)))
		of[key] = [2]int64{7, min(expiry, m.now+500*second)}
	case 4:
		require.Equal(t, exists, s.Delete(m.now, []byte(key)))
		delete(of, key)
	case 5:
		if is[1] == buckets.NoExpiry || rapid.Bool().Draw(t, "persist") {
			if c, _ := s.Get(m.now, []byte(key)); c.Kind == buckets.Counter {
				require.Equal(t, is[1] != buckets.NoExpiry, s.Persist(m.now, []byte(key)))
				of[key] = [2]int64{is[0], buckets.NoExpiry}
			}
			return
		}
		require.Equal(t, exists, s.ExpireAt(m.now, []byte(key), expiry, 0))
		if c, found := s.Get(m.now, []byte(key)); found {
			of[key] = [2]int64{is[0], c.Expiry}
		}
	case 6:
		to := name.Draw(t, "to")
		renamed, err := s.Rename(m.now, []byte(key), []byte(to), false)
		require.Equal(t, exists, renamed)
		require.Equal(t, !exists, err == buckets.ErrNoKey)
		if exists {
			delete(of, key)
			of[to] = is
		}
	case 7:
		moved, err := s.Move(m.now, []byte(key), other)
		require.NoError(t, err)
		_, taken := m.held[other][key]
		require.Equal(t, exists && !taken, moved)
		if moved {
			delete(of, key)
			m.held[other][key] = is
		}
	case 8:
		require.NoError(t, s.Swap(context.Background(), m.now, db, other))
		m.held[db], m.held[other] = m.held[other], m.held[db]
	case 9:
		if rapid.IntRange(0, 5).Draw(t, "all") == 0 {
			require.NoError(t, s.FlushAll(context.Background()))
			for _, of := range m.held {
				clear(of)
			}
			return
		}
		require.NoError(t, s.Flush(context.Background()))
		clear(of)
	case 10:
		sweepAll(m.s, m.now)
	}
}

// Whatever happens in several databases, each holds what it should, also on a held store, and the changes that are told of,
// replayed, come to the same.
func TestDatabasesEqualTheirModel(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		m := &databasesModel{s: withDatabases(seeded(rapid.SampledFrom([]int{1, 4}).Draw(rt, "shards")), 4), now: epoch}
		whole := m.s
		for range 4 {
			m.held = append(m.held, make(map[string][2]int64))
		}
		m.s.Track(textEncoder{})
		told := make(map[string]string)
		for range rapid.IntRange(1, 40).Draw(rt, "steps") {
			if rapid.IntRange(0, 3).Draw(rt, "held") == 0 {
				h := whole.Hold(m.now, nil, true)
				m.s = &h.Store
				m.step(rt)
				m.step(rt)
				m.compare(rt)
				h.Release()
				m.s = whole
			} else {
				m.step(rt)
			}
			m.drop()
			m.compare(rt)
			if rapid.IntRange(0, 3).Draw(rt, "gather") == 0 {
				changes, _ := whole.Changes(nil)
				replay(t, told, changes)
				for shown := range told { // those that have expired are not told of
					db, key := databaseOf(t, shown)
					if _, live := m.held[db][key[1:len(key)-1]]; !live {
						delete(told, shown)
					}
				}
				require.Equal(rt, copyAsText(t, whole, m.now), told)
			}
			checkInvariants(t, whole)
		}
	})
}

// Whoever copies and gathers changes while databases are swapped, flushed and written sees each of that whole: each number is
// in one database, and none is lost.
func TestConsistentScansSeeSwapsAndMovesWhole(t *testing.T) {
	const keys, rounds = 60, 400
	s := withDatabases(newStore(64, usual, seed), 4)
	key := func(i int) string { return fmt.Sprint("key:", i) }
	for i := range keys {
		set(t, in(s, i%4), epoch, key(i), int64(i), buckets.NoExpiry)
	}
	s.Track(textEncoder{})
	numbers := func(all map[string]string) (found []string) {
		for shown := range all {
			_, key := databaseOf(t, shown)
			found = append(found, key)
		}
		slices.Sort(found)
		return found
	}
	want := numbers(copyAsText(t, s, epoch))
	require.Len(t, want, keys)

	stop := make(chan struct{})
	var others sync.WaitGroup
	for g := range 3 {
		others.Go(func() {
			random := rand.New(rand.NewPCG(uint64(g), 3))
			for {
				select {
				case <-stop:
					return
				default:
				}
				a, b := random.IntN(4), random.IntN(4)
				if random.IntN(20) == 0 {
					_ = s.Swap(context.Background(), epoch, a, b)
					continue
				}
				_, _ = in(s, a).Move(epoch, []byte(key(random.IntN(keys))), b)
			}
		})
	}
	// As the journal does when it is rewritten: what is told of before the copy is discarded.
	base := func() map[string]string {
		for {
			swaps := s.Swaps()
			_, _ = s.Changes(nil)
			all := make(map[string]string)
			err := s.CopySince(epoch, swaps, func(p *Part) error {
				p.Each(func(e *buckets.Entry) { all[shownKey(e.Database, e.Key)] = shownEntry(e) })
				return nil
			})
			if err == nil {
				return all
			}
			require.Equal(t, ErrSwapped, err)
		}
	}
	for range 5 {
		told := base()
		assert.Equal(t, want, numbers(told), "a copy")
		for range rounds / 5 {
			changes, _ := s.Changes(nil)
			replay(t, told, changes)
			require.Equal(t, want, numbers(told), "what is told of")
		}
	}
	close(stop)
	others.Wait()
	checkInvariants(t, s)
	told := base()
	require.NoError(t, s.Swap(context.Background(), epoch, 0, 3))
	require.NoError(t, in(s, 2).Flush(context.Background()))
	require.NoError(t, s.Swap(context.Background(), epoch, 2, 3))
	set(t, in(s, 2), epoch, "new", 1, epoch+second)
	changes, _ := s.Changes(nil)
	replay(t, told, changes)
	assert.Equal(t, copyAsText(t, s, epoch), told)
}

// A swap between what is told of and the copy is noticed.
func TestCopySinceNoticesSwaps(t *testing.T) {
	s := NewStore(4)
	swaps := s.Swaps()
	require.NoError(t, s.Swap(context.Background(), epoch, 1, 1))
	require.NoError(t, s.CopySince(epoch, swaps, func(*Part) error { return nil }), "a database swapped with itself is not swapped")
	require.NoError(t, s.Swap(context.Background(), epoch, 1, 2))
	assert.Equal(t, ErrSwapped, s.CopySince(epoch, swaps, func(*Part) error { t.Error("visited"); return nil }))
	require.NoError(t, s.CopySince(epoch, s.Swaps(), func(*Part) error { return nil }))
}

func TestSwapsAndFlushesAreToldOfBeforeKeys(t *testing.T) {
	s := withDatabases(NewStore(4), 3)
	s.Track(textEncoder{})
	ctx := context.Background()
	told := func() string {
		changes, _ := s.Changes(nil)
		return string(changes)
	}
	for i := range 1000 { // as many as one likes come to few
		require.NoError(t, s.Swap(ctx, epoch, i%3, (i+1)%3))
	}
	assert.LessOrEqual(t, len(told()), 2*len("swap 0 1\n"))
	require.NoError(t, s.Swap(ctx, epoch, 0, 1))
	require.NoError(t, s.Swap(ctx, epoch, 1, 0))
	assert.Empty(t, told(), "as it was")
	require.NoError(t, s.Flush(ctx))
	require.NoError(t, s.Swap(ctx, epoch, 0, 2))
	set(t, in(s, 2), epoch, "k", 5, buckets.NoExpiry)
	assert.Equal(t, fmt.Sprintf("flush 0\nswap 0 2\n2:\"k\"=%d,0,[5 %d 0]\n", buckets.Counter, buckets.NoExpiry), told())
	for n := range 3 {
		require.NoError(t, in(s, n).Flush(ctx))
	}
	assert.Equal(t, "flush all\n", told())
	require.NoError(t, s.FlushAll(ctx))
	assert.Equal(t, "flush all\n", told())
	assert.Empty(t, told())
}

// A shard keeps nothing for databases that are only read, and nothing for those that are empty again.
func TestEmptyDatabasesTakeNoMemory(t *testing.T) {
	s := withDatabases(seeded(8), 16)
	for n := range 16 {
		for i := range 50 {
			_, found := in(s, n).Get(epoch, fmt.Append(nil, i))
			require.False(t, found)
		}
	}
	checkInvariants(t, s)
	assert.Zero(t, s.Bytes())
	assert.Empty(t, s.Used())
	for i := range 50 {
		set(t, in(s, 3), epoch, fmt.Sprint(i), 1, epoch+second)
		set(t, in(s, 9), epoch, fmt.Sprint(i), 1, epoch+second)
	}
	assert.Positive(t, s.Bytes())
	assert.Equal(t, []int{3, 9}, s.Used())
	require.NoError(t, in(s, 9).Flush(context.Background()))
	sweepAll(in(s, 3), epoch+second) // as the database that is selected goes
	checkInvariants(t, s)
	assert.Zero(t, s.Bytes())
	for i := range 50 { // of what is gone nothing is left that could be used
		set(t, in(s, 3), epoch+second, fmt.Sprint(i), 1, epoch+9*second)
	}
	assert.EqualValues(t, 50, in(s, 3).Keys())
	checkInvariants(t, s)
}

// The keys of all databases share the memory: those that are full soonest go first, whichever they are in.
func TestEvictionLooksAtAllDatabases(t *testing.T) {
	s := withDatabases(newStore(1, usual, seed), 3)
	for i := range 40 {
		set(t, in(s, 1), epoch, fmt.Sprint("soon:", i), 1, epoch+second+int64(i))
	}
	s.SetMemory(s.Bytes()+5000, true)
	for i := range 300 {
		set(t, in(s, i%3), epoch, fmt.Sprint("late:", i), 1, epoch+1000*second+int64(i))
		require.LessOrEqual(t, s.Bytes(), s.budget.limit.Load()*17/16+4096)
	}
	soon := int64(0)
	in(s, 1).eachShard(func(sh *shard) {
		sh.table.each(func(place uint32, _ []byte) {
			if sh.expiry(place, sh.load(place)) < epoch+2*second {
				soon++
			}
		})
	})
	assert.Less(t, soon, int64(5))
	assert.Positive(t, s.Stats().Evicted)
	s.SetMemory(2000, true)
	sweepAll(s, epoch)
	for range 100 {
		sweepAll(s, epoch)
	}
	assert.LessOrEqual(t, s.Bytes(), int64(2000+4096))
	checkInvariants(t, s)
}

// Without eviction, a write that needs memory fails in every database.
func TestMemoryIsBoundedInAllDatabases(t *testing.T) {
	s := withDatabases(newStore(1, usual, seed), 16)
	s.SetMemory(4000, false)
	failed := 0
	for i := range 400 {
		err := in(s, i%16).Update(epoch, keyBytes(fmt.Sprint(i)), putStates(buckets.Counted(1, buckets.NoExpiry)))
		if err != nil {
			require.Equal(t, buckets.ErrNoMemory, err)
			failed++
		}
		require.LessOrEqual(t, s.Bytes(), int64(4000))
	}
	assert.Positive(t, failed)
	checkInvariants(t, s)
}

// A swap leaves no empty databases behind, and a flush none at all: what they take would count against the limit on memory until a
// sweep comes by, and keys would be evicted, or refused, for nothing.
func TestSwapsAndFlushesLeaveNoEmptyDatabases(t *testing.T) {
	s := withDatabases(seeded(64), 16)
	ctx := context.Background()
	for n := range 16 {
		set(t, in(s, n), epoch, "key", 1, epoch+second)
	}
	before := s.Bytes()
	for range 3 {
		for n := range 15 {
			require.NoError(t, s.Swap(ctx, epoch, n, n+1))
			assert.LessOrEqual(t, s.Bytes(), before)
			checkInvariants(t, s)
		}
	}
	for n := range 15 {
		require.NoError(t, in(s, n).Flush(ctx))
		checkInvariants(t, s)
	}
	assert.Less(t, s.Bytes(), before/8)
	set(t, in(s, 3), epoch, "key", 1, epoch+second)
	require.NoError(t, in(s, 3).FlushAll(ctx))
	checkInvariants(t, s)
	assert.Zero(t, s.Bytes())
	set(t, in(s, 3), epoch, "key", 1, epoch+second)
	assert.EqualValues(t, 1, in(s, 3).Keys())
}
