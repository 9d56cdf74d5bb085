package persistence_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"cellserver/internal/testing/crashfs"
	"cellserver/persistence"
)

// takeKeys takes 1 from each of n keys that no other call has used.
func (k kept) takeKeys(t *testing.T, n int) {
	t.Helper()
	for i := range n {
		k.take(t, fmt.Sprintf("key:%d:%d", wallClock(), i))
	}
}

func TestSavePointsMakeSnapshotsDue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fsys := crashfs.New()
		k := begin(t, fsys, savePoints)
		began := wallClock()
		saved := func() int { return calls(fsys, "snapshot") }
		pass(time.Hour)
		assert.Zero(t, saved(), "nothing has changed")
		assert.Equal(t, persistence.Status{LastSave: began, SaveTook: -1, RewriteTook: -1}, k.Status())

		k.take(t, "a")
		tick()
		assert.Equal(t, 1, saved(), "the last one is longer ago than 300 s")
		s := k.Status()
		assert.Equal(t, wallClock(), s.LastSave)
		assert.Zero(t, s.SaveTook)
		assert.Zero(t, k.Unsaved())
		assert.True(t, k.diary.has("INFO saved", "keys=1"))

		k.take(t, "a")
		pass(299 * time.Second)
		assert.Equal(t, 1, saved())
		assert.EqualValues(t, 1, k.Unsaved())
		tick()
		assert.Equal(t, 2, saved(), "300 1")

		k.takeKeys(t, 999)
		pass(100 * time.Second)
		assert.Equal(t, 2, saved())
		k.take(t, "a")
		tick()
		assert.Equal(t, 3, saved(), "60 1000")
		k.takeKeys(t, 2000)
		pass(59 * time.Second)
		assert.Equal(t, 3, saved())
		tick()
		assert.Equal(t, 4, saved(), "60 1000")

		require.NoError(t, k.SetRules(nothing))
		k.takeKeys(t, 2000)
		pass(time.Hour)
		assert.Equal(t, 4, saved())
		require.NoError(t, k.SetRules(savePoints))
		tick()
		assert.Equal(t, 5, saved())
		assert.EqualValues(t, 5000, afterCrash(t, fsys, savePoints).store.Live(wallClock()))
	})
}

// A failed save is retried every 5 s until it succeeds. Meanwhile requests are refused.
func TestFailedSaveIsRetried(t *testing.T) {
	for _, label := range []string{
		"snapshot", "snapshot: write", "snapshot: sync", "snapshot: close", "snapshot: rename", "snapshot: sync dir",
	} {
		t.Run(label, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				fsys := crashfs.New()
				k := begin(t, fsys, savePoints)
				for n := range 3 {
					fsys.FailLabel(label, n+1, errBroken)
				}
				k.take(t, "a")
				pass(299 * time.Second)
				require.NoError(t, k.Refusal())
				for n := range 3 {
					tick()
					require.Equal(t, n+1, calls(fsys, label))
					require.ErrorIs(t, k.Refusal(), persistence.ErrSaveFailed)
					require.True(t, k.Status().SaveFailed)
					require.EqualValues(t, 1, k.Unsaved())
					pass(4 * time.Second)
					require.Equal(t, n+1, calls(fsys, label))
				}
				require.True(t, k.diary.has("ERROR the snapshot could not be written", "the disk is broken"))
				lenient := savePoints
				lenient.StopWrites = false
				require.NoError(t, k.SetRules(lenient))
				require.NoError(t, k.Refusal())
				require.NoError(t, k.SetRules(savePoints))
				tick()
				require.NoError(t, k.Refusal())
				require.False(t, k.Status().SaveFailed)
				require.Zero(t, k.Unsaved())
				require.Equal(t, []string{snapshotName}, fsys.Names(keptIn))
				require.EqualValues(t, 1, afterCrash(t, fsys, savePoints).taken("a"))
			})
		})
	}
}

// A failed save that was requested is retried as well if there are save points: while requests are refused, no changes
// would make one due.
func TestARequestedSaveThatFailsIsRetried(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fsys := crashfs.New()
		k := begin(t, fsys, byHand)
		fsys.FailLabel("snapshot: sync", 1, errBroken)
		require.ErrorIs(t, k.Save(), errBroken)
		require.ErrorIs(t, k.Refusal(), persistence.ErrSaveFailed)
		pass(10 * time.Second)
		require.NoError(t, k.Refusal())
		assert.Equal(t, 2, calls(fsys, "snapshot: sync"))
		pass(time.Hour)
		assert.Equal(t, 2, calls(fsys, "snapshot: sync"), "and not again")
	})
}

// A failed snapshot does not delay a rewrite, nor a failed rewrite a snapshot.
func TestSavesAndRewritesAreRetriedIndependently(t *testing.T) {
	rules := everySec
	rules.SavePoints = []persistence.SavePoint{{After: time.Second, Changes: 1}}
	t.Run("the journal", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			fsys := crashfs.New()
			for n := range 100 {
				fsys.FailLabel("journal rewrite", n+1, errBroken)
			}
			k := begin(t, fsys, rules)
			for range 20 {
				k.take(t, "a")
				tick()
			}
			require.Error(t, k.Refusal())
			assert.GreaterOrEqual(t, afterCrash(t, fsys, byHand).taken("a"), int64(19))
			assert.LessOrEqual(t, calls(fsys, "journal rewrite"), 5)
		})
	})
	t.Run("the snapshot", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			fsys := crashfs.New()
			for n := range 100 {
				fsys.FailLabel("snapshot", n+1, errBroken)
			}
			rules := rules
			rules.Journal = false
			k := begin(t, fsys, rules)
			k.take(t, "a")
			tick()
			require.Error(t, k.Refusal())
			rules.Journal = true
			require.NoError(t, k.SetRules(rules))
			synctest.Wait()
			assert.EqualValues(t, 1, afterCrash(t, fsys, rules).taken("a"))
			pass(19 * time.Second)
			assert.LessOrEqual(t, calls(fsys, "snapshot"), 4)
		})
	})
}

func TestOneSaveOrRewriteAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fsys := &watchedFS{FS: crashfs.New()}
		k := begin(t, fsys, everySec)
		tick()
		refused := func() {
			t.Helper()
			require.ErrorIs(t, k.Save(), persistence.ErrBusy)
			require.ErrorIs(t, k.SaveInBackground(), persistence.ErrBusy)
			require.ErrorIs(t, k.RewriteInBackground(), persistence.ErrBusy)
		}
		watch, open := gate("snapshot: write")
		fsys.before(watch)
		require.NoError(t, k.SaveInBackground())
		assert.True(t, k.Status().Saving)
		began := wallClock()
		pass(3 * time.Second)
		refused()
		assert.Equal(t, began, k.Status().SaveBegan)
		open()
		synctest.Wait()
		s := k.Status()
		assert.False(t, s.Saving)
		assert.Equal(t, 3*time.Second, s.SaveTook)
		assert.Equal(t, began, s.LastSave, "of that moment it is")

		watch, open = gate("journal rewrite: sync")
		fsys.before(watch)
		require.NoError(t, k.RewriteInBackground())
		assert.True(t, k.Status().Rewriting)
		pass(2 * time.Second)
		refused()
		open()
		synctest.Wait()
		s = k.Status()
		assert.False(t, s.Rewriting)
		assert.False(t, s.RewriteBad)
		assert.Equal(t, 2*time.Second, s.RewriteTook)
		require.NoError(t, k.Save())
		require.NoError(t, k.Stop(true))
	})
}

func TestTheJournalIsRewrittenWhenItHasDoubled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fsys := crashfs.New()
		rules := everySec
		rules.RewritePercent, rules.RewriteMin = 100, 4096
		k := begin(t, fsys, rules)
		rewrites := func() int { return calls(fsys, "journal rewrite") }
		tick()
		require.Equal(t, 1, rewrites(), "the first one")
		base := k.Status().JournalBase
		require.EqualValues(t, 28+36, base)
		for k.Status().JournalSize+60 < 4096 {
			k.take(t, "a")
			tick()
			require.Equal(t, 1, rewrites())
			require.Equal(t, base, k.Status().JournalBase)
		}
		k.takeKeys(t, 10)
		tick()
		synctest.Wait()
		require.Equal(t, 2, rewrites(), "it has the minimum, and has long doubled")
		base = k.Status().JournalBase
		require.Equal(t, base, k.Status().JournalSize)
		require.Less(t, base, int64(600))

		k.takeKeys(t, 1000)
		tick()
		require.NoError(t, k.RewriteInBackground())
		synctest.Wait()
		require.Equal(t, 4, rewrites())
		base = k.Status().JournalBase
		require.Greater(t, base, int64(10000))
		size := base
		for rewrites() == 4 {
			require.Less(t, size, 2*base)
			size = k.Status().JournalSize
			k.takeKeys(t, 10)
			tick()
		}
		require.Greater(t, size+10*50, 2*base, "it has doubled, and not before")
		require.Equal(t, 5, rewrites())
		require.Greater(t, k.Status().JournalBase, base)
		assert.True(t, k.diary.has("INFO rewrote the journal"))

		rules.RewritePercent = 0
		require.NoError(t, k.SetRules(rules))
		for k.Status().JournalSize < 5*k.Status().JournalBase {
			k.takeKeys(t, 200)
			tick()
		}
		require.Equal(t, 5, rewrites(), "0 is never")
		k.take(t, "a")
		tick()
		want := k.store.Live(wallClock())
		assert.Equal(t, want, afterCrash(t, fsys, rules).store.Live(wallClock()))
	})
}

// The percentage is exact for a small base and for a large percentage.
func TestTheJournalIsRewrittenAtItsPercentage(t *testing.T) {
	for _, percent := range []int64{1, 100, 1 << 62} {
		t.Run(fmt.Sprint(percent), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				fsys := crashfs.New()
				rules := everySec
				rules.RewritePercent, rules.RewriteMin = percent, 0
				begin(t, fsys, rules)
				pass(10 * time.Second)
				assert.Equal(t, 1, calls(fsys, "journal rewrite"), "it has not grown")
			})
		})
	}
}

// A failed rewrite keeps the journal, unless the new file has already taken its name.
func TestAFailedRewriteIsRetriedAndKeepsTheJournal(t *testing.T) {
	for label, sound := range map[string]bool{
		"journal rewrite": true, "journal rewrite: write": true, "journal rewrite: sync": true, "journal rewrite: close": true,
		"journal rewrite: rename": true, "journal: read": true, "journal rewrite: sync dir": false, "journal": false,
	} {
		t.Run(label, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				fsys := &watchedFS{FS: crashfs.New()}
				k := begin(t, fsys, always)
				k.take(t, "a")
				require.NoError(t, k.Commit())
				synctest.Wait()
				fsys.FailLabel(label, calls(fsys.FS, label)+1, errBroken)
				fsys.before(once("journal rewrite: write", func() { // changes that the new file gets from the old one
					k.take(t, "a")
					assert.NoError(t, k.Commit())
				}))
				require.NoError(t, k.RewriteInBackground())
				synctest.Wait()
				s := k.Status()
				assert.True(t, s.RewriteBad)
				assert.True(t, k.diary.has("ERROR the journal could not be rewritten", "the disk is broken"))
				if sound {
					require.NoError(t, s.JournalFault)
					require.NoError(t, k.Refusal())
				} else {
					require.ErrorIs(t, s.JournalFault, errBroken)
					var fault *persistence.JournalFault
					require.ErrorAs(t, k.Refusal(), &fault)
				}
				k.take(t, "a")
				if sound {
					require.NoError(t, k.Commit())
					require.Equal(t, k.taken("a"), afterCrash(t, fsys.FS, always).taken("a"))
				} else {
					require.ErrorIs(t, k.Commit(), errBroken)
					require.GreaterOrEqual(t, afterCrash(t, fsys.FS, always).taken("a"), int64(1))
				}
				pass(10 * time.Second)
				require.NoError(t, k.Commit())
				require.NoError(t, k.Refusal())
				require.Equal(t, k.taken("a"), afterCrash(t, fsys.FS, always).taken("a"))
				require.Equal(t, []string{journalName}, fsys.Names(keptIn))
			})
		})
	}
}

// Changes at any time during a rewrite are in the new file.
func TestChangesDuringARewriteAreKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fsys := &watchedFS{FS: crashfs.New()}
		k := begin(t, fsys, always)
		k.take(t, "before")
		require.NoError(t, k.Commit())
		synctest.Wait()
		seen := map[string]bool{}
		fsys.before(func(label string) {
			again := seen[label]
			switch seen[label] = true; {
			case label == "journal rewrite: close":
				k.take(t, "at the end")
			case again: // also at the end, when only the changes that the new file still needs are written
			case label == "journal rewrite", label == "journal rewrite: write", label == "journal rewrite: sync":
				k.take(t, label)
				assert.NoError(t, k.Commit())
				k.take(t, "not written before the end")
			}
		})
		require.NoError(t, k.RewriteInBackground())
		synctest.Wait()
		found := afterCrash(t, fsys.FS, always)
		for _, key := range []string{"before", "journal rewrite", "journal rewrite: write", "journal rewrite: sync"} {
			assert.EqualValues(t, 1, found.taken(key), key)
		}
		assert.EqualValues(t, 3, found.taken("not written before the end"))
		require.NoError(t, k.Commit())
		assert.EqualValues(t, 1, afterCrash(t, fsys.FS, always).taken("at the end"))
	})
}

// Changes while the first journal is written are in it, because no other file could have them.
func TestChangesDuringTheFirstRewriteAreKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fsys := &watchedFS{FS: crashfs.New()}
		k, err := newKept(fsys, always, wallClock)
		require.NoError(t, err)
		seen := map[string]bool{}
		fsys.before(func(label string) {
			if !seen[label] {
				seen[label] = true
				k.take(t, label)
			}
		})
		k.begin(t)
		k.take(t, "before")
		require.NoError(t, k.Commit())
		synctest.Wait()
		found := afterCrash(t, fsys.FS, always)
		for _, key := range []string{"before", "journal rewrite", "journal rewrite: write", "journal rewrite: sync"} {
			assert.EqualValues(t, 1, found.taken(key), key)
		}
		require.NoError(t, k.Commit())
		assert.EqualValues(t, 1, afterCrash(t, fsys.FS, always).taken("journal rewrite: rename"))
	})
}
