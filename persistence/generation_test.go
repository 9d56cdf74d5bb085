package persistence_test

import (
	"fmt"
	"math/rand/v2"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"cellserver/buckets"
	"cellserver/internal/testing/crashfs"
	"cellserver/persistence"
)

// The journal was turned off, so later changes are only in the snapshot. The snapshot is loaded, whatever the clock says.
func TestASnapshotNewerThanTheJournalIsLoaded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fsys := crashfs.New()
		k := begin(t, fsys, everySec)
		k.take(t, "a")
		tick()
		require.NoError(t, k.SetRules(nothing))
		k.take(t, "a")
		require.NoError(t, k.Stop(true))

		k, err := newKept(fsys, always, func() int64 { return wallClock() - 5*int64(time.Second) })
		require.NoError(t, err)
		k.begin(t)
		assert.EqualValues(t, 2, k.taken("a"))
		assert.True(t, k.diary.has("WARN the snapshot is loaded, and not the journal, because its generation is higher",
			"journal=/data/a.journal journal_generation=1", "snapshot=/data/a.snapshot snapshot_generation=2"))
		k.take(t, "a")
		require.NoError(t, k.Commit())
		require.NoError(t, k.Stop(true))
		k = begin(t, fsys, always)
		assert.EqualValues(t, 3, k.taken("a"))
		assert.True(t, k.diary.has("INFO the journal is loaded, and not the snapshot, because its generation is not lower",
			"journal_generation=3", "snapshot_generation=3"))
		require.NoError(t, k.Stop(false))

		k = begin(t, fsys, nothing)
		assert.False(t, k.diary.complains(), "the snapshot is as new as the journal")
		require.NoError(t, k.Stop(false))
		k = begin(t, fsys, always)
		require.NoError(t, k.RewriteInBackground())
		synctest.Wait()
		require.NoError(t, k.Stop(false))
		k = begin(t, fsys, nothing)
		assert.True(t, k.diary.has("WARN the journal is newer than the snapshot and is not loaded, because appendonly is no",
			"journal_generation=4", "snapshot_generation=3"))
	})
}

// Files of version 1 have no generation. Of two such files the journal is loaded; against a file of version 2 they have
// generation 0.
func TestFilesOfVersion1HaveTheLowestGeneration(t *testing.T) {
	in := func(n int64) units { return units{{window("a", t0, t0+hour, n)}} }
	for _, test := range []struct {
		snapshot, journal uint32 // versions
		want              int64
	}{{1, 1, 2}, {1, 2, 2}, {2, 1, 1}, {2, 2, 2}} {
		fsys := crashfs.New()
		for _, f := range []struct {
			path    string
			kind    persistence.FileKind
			n       int64
			version uint32
		}{{snapshotPath, persistence.SnapshotFile, 1, test.snapshot}, {journalPath, persistence.JournalFile, 2, test.journal}} {
			file, _ := writeFile(t, f.kind, in(f.n), nil)
			if f.version == 1 {
				file = asVersion1(file, t0)
			}
			fsys.WriteFile(f.path, file)
		}
		k, err := loadAt(t, fsys, always, t0)
		require.NoError(t, err)
		assert.Equal(t, map[string]int64{"a": test.want}, keys(t, k, t0), "%+v", test)
		require.NoError(t, k.Stop(false))
	}
}

// A snapshot without bytes is not newer than a journal.
func TestAnEmptySnapshotDoesNotHideAJournal(t *testing.T) {
	fsys, _, _ := setOf(t)
	fsys.WriteFile(snapshotPath, nil)
	k, err := loadAt(t, fsys, always, t0)
	require.NoError(t, err)
	assert.True(t, k.diary.has("WARN the snapshot is empty, and the journal is loaded", snapshotPath))
	require.NoError(t, k.Stop(false))
}

// A snapshot is taken while the journal cannot be written, and the journal is repaired before or after the snapshot is
// complete. The journal then has the changes after the snapshot, and is loaded.
func TestASnapshotNewerThanAFailedJournalIsLoaded(t *testing.T) {
	for _, during := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			fsys := &watchedFS{FS: crashfs.New()}
			k := begin(t, fsys, everySec)
			k.takeAndCommit(t, 50)
			tick()
			fsys.FailLabel("journal: write", calls(fsys.FS, "journal: write")+1, syscall.ENOSPC)
			fsys.FailLabel("journal: write", calls(fsys.FS, "journal: write")+2, syscall.ENOSPC)
			k.take(t, "a")
			tick()
			require.ErrorIs(t, k.Refusal(), syscall.ENOSPC)
			if during {
				fsys.before(once("snapshot: sync", func() {
					pass(3 * time.Second)
					require.NoError(t, k.Refusal())
				}))
			}
			require.NoError(t, k.Save())
			if !during {
				assert.EqualValues(t, 1, afterCrash(t, fsys.FS, everySec).taken("a"), "it is only in the snapshot")
				pass(3 * time.Second)
				require.NoError(t, k.Refusal())
			}
			k.take(t, "a")
			tick()
			require.Equal(t, 1, calls(fsys.FS, "journal rewrite"), "that which began it")
			found := afterCrash(t, fsys.FS, everySec)
			assert.EqualValues(t, 2, found.taken("a"))
		})
	}
}

// A snapshot that begins while the journal is complete, and ends when it is not, is loaded.
func TestAJournalThatEndsDuringASnapshotIsNotLoaded(t *testing.T) {
	for name, end := range map[string]func(fsys *crashfs.FS, k kept){
		"it is turned off": func(_ *crashfs.FS, k kept) { assert.NoError(t, k.SetRules(nothing)) },
		"the disk is full": func(fsys *crashfs.FS, k kept) {
			for n := range 100 {
				fsys.FailLabel("journal: write", calls(fsys, "journal: write")+1+n, syscall.ENOSPC)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				fsys := &watchedFS{FS: crashfs.New()}
				k := begin(t, fsys, everySec)
				tick()
				k.take(t, "a")
				fsys.before(once("snapshot: sync", func() { end(fsys.FS, k) }))
				require.NoError(t, k.Save())
				assert.EqualValues(t, 1, afterCrash(t, fsys.FS, everySec).taken("a"), "Save said that it is durable")
			})
		})
	}
}

// Whatever was turned on and off, saved, rewritten or refused by the disk, and however the clock was set: a start loads
// what the store held when a Stop that saved returned without an error.
func TestTheNewestFileIsLoaded(t *testing.T) {
	for seed := range uint64(60) {
		synctest.Test(t, func(t *testing.T) {
			slow := limit(buckets.NewThrottle(99, 1, 1000*hour)) // no key expires during the test
			random := rand.New(rand.NewPCG(seed, 0))
			someRules := func() persistence.Rules {
				all := []persistence.Rules{always, everySec, neverSync, nothing, byHand, saving(rewriting(everySec))}
				return all[random.IntN(len(all))]
			}
			fsys := crashfs.New()
			offset := int64(0)
			now := func() int64 { return wallClock() + offset }
			want := ""
			for round := range 12 {
				offset = (random.Int64N(3) - 1) * random.Int64N(hour)
				rules := someRules()
				k, err := newKept(fsys, rules, now)
				require.NoError(t, err)
				require.NoError(t, k.Load())
				all, _ := stateOf(t, k.store, now())
				require.Equal(t, want, all.every(), "seed %d, round %d", seed, round)
				k.Start()
				for range random.IntN(20) {
					switch random.IntN(9) {
					case 0:
						require.NoError(t, k.SetRules(someRules()))
					case 1:
						_ = k.Save()
					case 2:
						_ = k.RewriteInBackground()
					case 3:
						fsys.Limit(fsys.Used() + random.IntN(100))
					case 4:
						fsys.Limit(-1)
					case 5:
						k.store.Delete(now(), fmt.Append(nil, random.IntN(20)))
					default:
						_, err := k.store.Take(now(), fmt.Append(nil, random.IntN(20)), slow, 1, false)
						require.NoError(t, err)
						_ = k.Commit()
					}
					pass(time.Duration(random.Int64N(int64(2 * time.Second))))
				}
				fsys.Limit(-1)
				require.NoError(t, k.Stop(true))
				all, _ = stateOf(t, k.store, now())
				want = all.every()
			}
		})
	}
}

// every returns the encoding of all keys of a state, whenever they expire.
func (s state) every() string { return s.at(math64) }
