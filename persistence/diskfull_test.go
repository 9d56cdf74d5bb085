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

	"cellserver/internal/testing/crashfs"
	"cellserver/persistence"
)

// takeAndCommit takes 1 from this many keys, so that the section is larger than one write, and commits that.
func (k kept) takeAndCommit(t *testing.T, keys int) {
	t.Helper()
	for i := range keys {
		k.take(t, fmt.Sprintf("key:%d", i))
	}
	require.NoError(t, k.Commit())
}

// The disk is full after each byte of a write. When it has room for that write, though not for a second journal, the
// journal recovers completely. Until then nothing is acknowledged, and nothing acknowledged is lost.
func TestADiskThatFillsUpAtAnyByteLosesNothing(t *testing.T) {
	for _, rules := range []persistence.Rules{always, everySec, neverSync} {
		section, tried := 0, 0 // bytes of the two writes, and bytes of the first one that fit
		for full := true; full; tried++ {
			room := tried
			synctest.Test(t, func(t *testing.T) {
				fsys := crashfs.New()
				k := begin(t, fsys, rules)
				k.takeAndCommit(t, 50)
				tick()
				size, rewrites := fsys.Used(), calls(fsys, "journal rewrite")
				fsys.Limit(size + room)
				for _, key := range []string{"a", "b", "c"} {
					k.take(t, key)
				}
				err := k.Commit()
				tick()
				if full = k.Refusal() != nil; !full {
					require.NoError(t, err)
					return
				}
				if rules.Sync == persistence.SyncAlways {
					require.ErrorIs(t, err, syscall.ENOSPC)
				}
				require.ErrorIs(t, k.Refusal(), syscall.ENOSPC)
				require.Equal(t, size, fsys.Used(), "what was written of it is cut off")
				k.take(t, "a") // a request that was under way
				for range 3 {
					tick()
					require.ErrorIs(t, k.Refusal(), syscall.ENOSPC)
				}
				for _, o := range crashfs.Outcomes(3) {
					if rules.Sync == persistence.SyncNever && o.Bytes != crashfs.BytesKept {
						continue
					}
					found, err := loadAt(t, crash(t, fsys, o), rules, wallClock())
					require.NoError(t, err)
					require.EqualValues(t, 1, found.taken("key:49"), "%+v", o)
					require.Contains(t, []int64{0, 1}, found.taken("a"))
				}

				if section == 0 {
					fsys.Limit(-1)
					tick()
					require.NoError(t, k.Refusal())
					section = fsys.Used() - size
					fsys.Limit(fsys.Used())
				} else {
					fsys.Limit(size + section)
					tick()
					require.NoError(t, k.Refusal())
				}
				require.Equal(t, rewrites, calls(fsys, "journal rewrite"))
				require.Less(t, section, size, "a second journal would not have had room")
				require.NoError(t, k.Stop(false))
				found := afterCrash(t, fsys, rules)
				for key, want := range map[string]int64{"key:0": 1, "key:49": 1, "a": 2, "b": 1, "c": 1} {
					require.Equal(t, want, found.taken(key), "%s after %d bytes", key, room)
				}
			})
			if t.Failed() {
				return
			}
		}
		assert.Greater(t, tried, 60)
	}
}

// The calls that repair the journal fail too, in each way. The repair is retried, and a crash at any time loses nothing
// that was acknowledged.
func TestARepairThatFailsIsTriedAgain(t *testing.T) {
	for _, first := range []string{"journal: write", "journal: sync"} {
		for _, second := range []string{"journal: write", "journal: sync", "journal: truncate"} {
			for n := 1; n <= 3; n++ {
				t.Run(fmt.Sprintf("%s, then %s for %d times", first, second, n), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) {
						fsys := crashfs.New()
						k := begin(t, fsys, always)
						k.takeAndCommit(t, 50)
						fsys.FailLabel(first, calls(fsys, first)+1, errBroken)
						after := 1
						if first == second {
							after = 2
						}
						for i := range n {
							fsys.FailLabel(second, calls(fsys, second)+after+i, errBroken)
						}
						k.take(t, "a")
						require.ErrorIs(t, k.Commit(), errBroken)
						for range 4 {
							for _, o := range crashfs.Outcomes(4) {
								found, err := loadAt(t, crash(t, fsys, o), always, wallClock())
								require.NoError(t, err, "%+v", o)
								require.EqualValues(t, 1, found.taken("key:49"), "%+v", o)
							}
							tick()
						}
						require.NoError(t, k.Refusal())
						require.Equal(t, 1, calls(fsys, "journal rewrite"), "that which began it")
						k.take(t, "a")
						require.NoError(t, k.Commit())
						assert.EqualValues(t, 2, afterCrash(t, fsys, always).taken("a"))
					})
				})
			}
		}
	}
}

// A rewrite and the repair of the journal do not lose each other's changes, in any interleaving.
func TestARepairDuringARewriteLosesNothing(t *testing.T) {
	for _, label := range []string{"journal rewrite", "journal rewrite: write", "journal rewrite: sync", "journal rewrite: rename"} {
		for _, fails := range []bool{false, true} {
			t.Run(fmt.Sprint(label, fails), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					fsys := &watchedFS{FS: crashfs.New()}
					k := begin(t, fsys, everySec)
					k.takeAndCommit(t, 50)
					tick()
					fsys.Limit(fsys.Used())
					k.take(t, "a")
					tick()
					require.ErrorIs(t, k.Refusal(), syscall.ENOSPC)
					if fails {
						fsys.FailLabel(label, calls(fsys.FS, label)+1, errBroken)
					}
					fsys.before(once(label, func() {
						if label == "journal rewrite: rename" { // called while other goroutines are locked out
							return
						}
						k.take(t, "b")
						pass(1500 * time.Millisecond) // the journal is repaired
						k.take(t, "c")
						pass(1500 * time.Millisecond)
					}))
					if label == "journal rewrite: rename" {
						k.take(t, "b") // only the rewrite gets this change
						k.take(t, "c")
					}
					fsys.Limit(-1)
					require.NoError(t, k.RewriteInBackground())
					pass(10 * time.Second)
					require.NoError(t, k.Refusal())
					k.take(t, "d")
					tick()
					found := afterCrash(t, fsys.FS, everySec)
					for _, key := range []string{"key:49", "a", "b", "c", "d"} {
						assert.EqualValues(t, 1, found.taken(key), key)
					}
				})
			})
		}
	}
}

// A disk of every size. The run continues, reports the error, and recovers when there is room. The files before and after
// are as good as after a crash.
func TestADiskOfAnySizeLosesNothingAcknowledged(t *testing.T) {
	for _, way := range ruleSets {
		for _, from := range starts {
			t.Run(way.name+", from "+from.name, func(t *testing.T) {
				t.Parallel()
				random := rand.New(rand.NewPCG(1, 2))
				full := 0
				for bytes := 0; bytes < 8000; bytes += 1 + random.IntN(500) {
					left := findings{}
					var s *script
					var end int64
					synctest.Test(t, func(t *testing.T) {
						s = newScript(t, from, way.rules)
						s.fsys.Limit(s.fsys.Used() + bytes)
						s.recovers = 1
						look := func(when string) {
							for _, o := range crashfs.Outcomes(1) {
								o.Seed = uint64(bytes)
								may := finding{s.promised, len(s.history) - 1, fmt.Sprintf("%d bytes, %s: %+v", bytes, when, o)}
								left.add(crash(t, s.fsys.FS, o), may)
							}
						}
						s.mend = func() {
							look("full")
							s.fsys.Limit(-1)
						}
						stopped, err := s.play()
						require.NoError(t, err)
						require.NoError(t, stopped)
						look("at the end")
						end = wallClock()
					})
					if s.reported {
						full++
					}
					left.check(t, way.rules, s.history, end)
				}
				assert.Positive(t, full)
			})
		}
	}
}
