package persistence_test

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"cellserver/buckets"
	"cellserver/buckets/memory"
	"cellserver/internal/testing/crashfs"
	"cellserver/persistence"
)

// unitRings are rings of keys between which units are moved, so that the sum of each ring is constant. With enough rings
// and shards, a scan visits the keys of some rings in every order without being made to visit them early.
type unitRings struct {
	store *memory.Store
	n     int
}

const (
	ringKeys = 3
	ringSum  = 300000 // large enough that no key reaches 0
)

func ringKey(ring, i int) []byte { return fmt.Appendf(nil, "ring:%d:%d", ring, i%ringKeys) }

func (c unitRings) fill(t testing.TB, now int64) {
	for ring := range c.n {
		for i := range ringKeys {
			_, err := c.store.Take(now, ringKey(ring, i), windowed, ringSum/ringKeys, false)
			require.NoError(t, err)
		}
	}
}

// move moves units from one key of a ring to the next, in a transaction or by one TakeAll.
func (c unitRings) move(t testing.TB, now int64, ring, from int, n int64, held bool) {
	a, b := ringKey(ring, from), ringKey(ring, from+1)
	if held {
		h := c.store.Hold(now, [][]byte{a, b}, false)
		defer h.Release()
		if at, there := h.Get(now, a); there && at.Field("used") > n {
			_, err := h.Take(now, a, windowed, -n, false)
			assert.NoError(t, err)
			_, err = h.Take(now, b, windowed, n, false)
			assert.NoError(t, err)
		}
		return
	}
	_, err := c.store.TakeAll(now, []buckets.Check{{Key: a, Limit: windowed, Quantity: -n}, {Key: b, Limit: windowed, Quantity: n}},
		false, make([]buckets.Decision, 2))
	assert.NoError(t, err)
}

// sums checks that no ring has gained or lost units.
func (c unitRings) sums(t testing.TB, now int64) {
	t.Helper()
	for ring := range c.n {
		sum := int64(0)
		for i := range ringKeys {
			if at, there := c.store.Get(now, ringKey(ring, i)); there {
				sum += at.Field("used")
			}
		}
		require.EqualValues(t, ringSum, sum, "ring %d", ring)
	}
}

// padding makes a store so large that writing a copy of it begins before the copy is complete.
func padding(t testing.TB, store *memory.Store, now int64) {
	for i := range 40000 {
		_, err := store.Take(now, fmt.Appendf(nil, "padding:%08d", i), throttled, 1, false)
		require.NoError(t, err)
	}
}

// An operation during a snapshot is in the snapshot entirely or not at all.
func TestASnapshotHasWholeOperations(t *testing.T) {
	for _, held := range []bool{false, true} {
		t.Run(fmt.Sprintf("held %v", held), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				fsys := &watchedFS{FS: crashfs.New()}
				k := begin(t, fsys, byHand)
				c := unitRings{k.store, 200}
				c.fill(t, wallClock())
				padding(t, k.store, wallClock())
				writes := 0
				fsys.before(func(label string) {
					if label == "snapshot: write" {
						writes++
						for ring := range c.n {
							c.move(t, wallClock(), ring, writes, 1, held)
						}
					}
				})
				require.NoError(t, k.Save())
				require.Greater(t, writes, 3)
				found := afterCrash(t, fsys.FS, byHand)
				unitRings{found.store, c.n}.sums(t, wallClock())
			})
		})
	}
}

// A rewritten journal holds the state of one moment, although its base was copied over some time: changes that the base
// has seen in part are written after it before the new file replaces the old one.
func TestARewrittenJournalHoldsOneMoment(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fsys := &watchedFS{FS: crashfs.New()}
		k, err := keeperOf(memory.NewStore(1024), fsys, always, wallClock)
		require.NoError(t, err)
		k.begin(t)
		c := unitRings{k.store, 40}
		c.fill(t, wallClock())
		padding(t, k.store, wallClock())
		require.NoError(t, k.Commit())
		synctest.Wait()
		var left *crashfs.FS
		var once sync.Once
		fsys.after = func(label string) {
			if label == "journal rewrite: sync dir" && left == nil {
				left = fsys.Crash(crashfs.Outcome{})
			}
		}
		fsys.before(func(label string) {
			if label == "journal rewrite: write" {
				once.Do(func() {
					for ring := range c.n {
						c.move(t, wallClock(), ring, 0, 10, false) // from the first key to the second
					}
					assert.NoError(t, k.Commit())
					for ring := range c.n {
						c.move(t, wallClock(), ring, 1, 20, true) // from the second key to the third
					}
				})
			}
		})
		require.NoError(t, k.RewriteInBackground())
		synctest.Wait()
		require.NotNil(t, left)
		found, err := loadAt(t, left, always, wallClock())
		require.NoError(t, err)
		unitRings{found.store, c.n}.sums(t, wallClock())
	})
}

// Several goroutines move units while the journal is written and rewritten and snapshots are taken, with many losses of
// power. No operation is ever found in part, and no committed operation is missing.
func TestFilesOfConcurrentOperationsHaveThemWhole(t *testing.T) {
	const movers, rounds = 4, 100
	fsys := crashfs.New()
	rules := always
	rules.RewritePercent, rules.RewriteMin = 100, 20000
	now := time.Now().UnixNano()
	k, err := keeperOf(memory.NewStore(256), fsys, rules, func() int64 { return now })
	require.NoError(t, err)
	require.NoError(t, k.Load())
	k.Start()
	c := unitRings{k.store, 30}
	c.fill(t, now)
	require.NoError(t, k.Commit())
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	stopped := make(chan struct{})
	var running sync.WaitGroup
	stop := sync.OnceFunc(func() {
		close(stopped)
		running.Wait()
	})
	defer func() {
		stop()
		_ = k.Stop(false)
	}()
	for m := range movers {
		running.Go(func() {
			random := rand.New(rand.NewPCG(seed, uint64(m)))
			own := fmt.Appendf(nil, "own:%d", m)
			for n := 1; ; n++ {
				select {
				case <-stopped:
					return
				default:
				}
				c.move(t, now, random.IntN(c.n), random.IntN(ringKeys), 1, random.IntN(2) == 0)
				_, err := k.store.Take(now, own, windowed, 1, false)
				assert.NoError(t, err)
				if n%5 == 0 && !assert.NoError(t, k.Commit()) {
					return
				}
			}
		})
	}
	own := func(store *memory.Store) (n [movers]int64) {
		for m := range movers {
			if at, there := store.Get(now, fmt.Appendf(nil, "own:%d", m)); there {
				n[m] = at.Field("used")
			}
		}
		return n
	}
	random := rand.New(rand.NewPCG(seed, movers))
	for round := range rounds {
		if round%10 == 5 {
			_ = k.RewriteInBackground() // may return ErrBusy
		}
		if round%10 == 0 {
			if err := k.Save(); err == nil {
				found, err := loadAt(t, fsys.Crash(crashfs.Outcome{}), byHand, now)
				require.NoError(t, err)
				unitRings{found.store, c.n}.sums(t, now)
			}
		}
		atLeast := own(k.store)
		require.NoError(t, k.Commit())
		o := crashfs.Outcome{
			Bytes: []crashfs.Bytes{crashfs.BytesLost, crashfs.BytesPrefix, crashfs.BytesKept}[random.IntN(3)],
			Names: crashfs.Names(random.IntN(3)), Seed: random.Uint64(),
		}
		found, err := loadAt(t, fsys.Crash(o), rules, now)
		require.NoError(t, err, "%+v", o)
		unitRings{found.store, c.n}.sums(t, now)
		got, most := own(found.store), own(k.store)
		for m := range movers {
			require.GreaterOrEqual(t, got[m], atLeast[m], "%+v", o)
			require.LessOrEqual(t, got[m], most[m], "%+v", o)
		}
	}
	stop()
	require.NoError(t, k.Stop(true))
	require.False(t, k.diary.complains())
	for _, rules := range []persistence.Rules{rules, byHand} {
		found, err := loadAt(t, fsys.Crash(crashfs.Outcome{}), rules, now)
		require.NoError(t, err)
		unitRings{found.store, c.n}.sums(t, now)
		require.Equal(t, own(k.store), own(found.store))
	}
}
