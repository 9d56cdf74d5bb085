package persistence_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"cellserver/buckets"
	"cellserver/buckets/memory"
	"cellserver/internal/testing/crashfs"
	"cellserver/persistence"
)

// ruleSets are the rules under which scripts run.
var ruleSets = []struct {
	name  string
	rules persistence.Rules
}{
	{"always", rewriting(always)},
	{"everysec", rewriting(everySec)},
	{"no", rewriting(neverSync)},
	{"snapshots", persistence.Rules{StopWrites: true, SavePoints: []persistence.SavePoint{{After: 3 * time.Second, Changes: 2}}}},
	{"snapshots by hand", byHand},
	{"both", saving(rewriting(everySec))},
}

func rewriting(r persistence.Rules) persistence.Rules {
	r.RewritePercent, r.RewriteMin = 100, 1500
	return r
}

func saving(r persistence.Rules) persistence.Rules {
	r.SavePoints = []persistence.SavePoint{{After: 3 * time.Second, Changes: 2}}
	return r
}

// crash is fsys.Crash for a disk that writes whole sectors: zeros in place of written bytes begin at the start of a
// sector, or at the first byte that was not synced.
func crash(t testing.TB, fsys *crashfs.FS, o crashfs.Outcome) *crashfs.FS {
	found := fsys.Crash(o)
	if o.Bytes != crashfs.BytesZeros {
		return found
	}
	lost, kept := o, o
	lost.Bytes, kept.Bytes = crashfs.BytesLost, crashfs.BytesKept
	synced, whole := fsys.Crash(lost), fsys.Crash(kept) // both have the same files
	random := rand.New(rand.NewPCG(o.Seed, 1))
	for _, name := range found.Names(keptIn) {
		path := keptIn + "/" + name
		old, err := synced.ReadFile(path)
		require.NoError(t, err)
		all, err := whole.ReadFile(path)
		require.NoError(t, err)
		if !bytes.HasPrefix(all, old) {
			continue // the file was truncated
		}
		from := len(old) + random.IntN(len(all)-len(old)+1)
		clear(all[max(len(old), from/512*512):])
		found.WriteFile(path, all)
	}
	return found
}

// found is one possible content of the disk after a crash, and the states that it may represent.
type found struct {
	fsys *crashfs.FS
	may  []finding
}

// finding is a crash that left this content. The content must be one of history[first:last+1].
type finding struct {
	first, last int
	how         string
}

// findings are the distinct contents of the disk after crashes.
type findings map[string]*found

func (f findings) add(fsys *crashfs.FS, may finding) {
	var id bytes.Buffer
	for _, name := range fsys.Names(keptIn) {
		file, _ := fsys.ReadFile(keptIn + "/" + name)
		id.WriteString(name)
		id.Write(binary.AppendUvarint(nil, uint64(len(file))))
		id.Write(file)
	}
	at := f[id.String()]
	if at == nil {
		at = &found{fsys: fsys}
		f[id.String()] = at
	}
	for _, m := range at.may {
		if m.first == may.first && m.last == may.last {
			return
		}
	}
	at.may = append(at.may, may)
}

// check loads every content and requires one of its permitted states. Then it continues from there and loads again.
func (f findings) check(t *testing.T, rules persistence.Rules, history []state, now int64) {
	t.Helper()
	states := make([]string, len(history))
	for i, s := range history {
		states[i] = s.at(now)
	}
	stepped := 0
	for _, at := range f {
		k, err := loadAt(t, at.fsys, rules, now)
		require.NoError(t, err, "%+v", at.may)
		all, sum := stateOf(t, k.store, now)
		if sum != 0 {
			require.EqualValues(t, pairSum, sum, "%+v", at.may)
		}
		got := all.at(now)
	may:
		for _, m := range at.may {
			for _, s := range states[m.first : m.last+1] {
				if s == got {
					continue may
				}
			}
			for i, s := range states {
				if s == got {
					require.FailNow(t, "an older state, or a newer one", "number %d: %+v", i, m)
				}
			}
			require.FailNow(t, "a state that never was", "%+v\n%q", m, got)
		}
		_, err = k.store.Take(now, []byte("afterwards"), windowed, 1, false)
		require.NoError(t, err)
		want, _ := stateOf(t, k.store, now)
		require.NoError(t, k.Stop(!rules.Journal), "%+v", at.may)
		again, err := loadAt(t, at.fsys, rules, now)
		require.NoError(t, err, "%+v", at.may)
		all, _ = stateOf(t, again.store, now)
		require.Equal(t, want.at(now), all.at(now), "%+v", at.may)
		require.NoError(t, again.Stop(false))
		if stepped++; stepped%8 == 1 {
			restartEarlier(t, at.fsys, rules, now)
		}
	}
}

var onTheCalendar = limit(buckets.NewAlignedWindow(1e6, 24*hour, 5*hour))

// restartEarlier fills buckets of every kind and restarts repeatedly with the clock set back, further each time. No
// request is refused for longer than a full period, or again after the wait that it was told.
func restartEarlier(t *testing.T, fsys *crashfs.FS, rules persistence.Rules, now int64) {
	t.Helper()
	limits := map[string]buckets.Limit{"throttle": throttled, "window": windowed, "calendar": onTheCalendar, "zslide": slid}
	k, err := loadAt(t, fsys, rules, now)
	require.NoError(t, err)
	for name, l := range limits {
		for _, key := range []string{name + " exhausted", name + " begun"} {
			_, err := k.store.Take(now, []byte(key), l, 1, false)
			require.NoError(t, err)
		}
		_, err = k.store.Take(now, []byte(name+" exhausted"), l, l.Max()-1, false)
		require.NoError(t, err)
	}
	require.NoError(t, k.Stop(!rules.Journal))
	for range 3 {
		now -= rand.Int64N(48 * hour)
		k, err := loadAt(t, fsys, rules, now)
		require.NoError(t, err)
		want, _ := stateOf(t, k.store, now)
		require.NoError(t, k.Stop(!rules.Journal))
		again, err := loadAt(t, fsys, rules, now+hour/2)
		require.NoError(t, err)
		all, _ := stateOf(t, again.store, now+hour/2)
		require.Equal(t, want.at(now+hour/2), all.at(now+hour/2), "what was moved when it was loaded has been kept")
		asked := memory.NewStore(1) // requests are decided on a copy
		require.NoError(t, again.store.Copy(now+hour/2, func(p *memory.Part) error {
			p.Each(func(e *buckets.Entry) { asked.Restore(now+hour/2, e) })
			return nil
		}))
		waits := make(map[int64]string)
		for name, l := range limits {
			d, err := asked.Take(now+hour/2, []byte(name+" exhausted"), l, 1, false)
			require.NoError(t, err)
			if !d.Limited {
				require.Contains(t, []string{"calendar", "throttle"}, name, "its window may have ended, or some come back")
				continue
			}
			require.LessOrEqual(t, d.RetryAfter, 24*hour, name)
			waits[d.RetryAfter] += name + " "
		}
		for _, wait := range slices.Sorted(maps.Keys(waits)) { // shortest wait first
			for name := range strings.FieldsSeq(waits[wait]) {
				d, err := asked.Take(now+hour/2+wait, []byte(name+" exhausted"), limits[name], 1, false)
				require.NoError(t, err)
				require.False(t, d.Limited, name)
			}
		}
		require.NoError(t, again.Stop(false))
	}
}

// The power is lost after every call of a run, with every outcome. The remaining files can be loaded, and give a state of
// the run that is not older than the last one that the rules promise.
func TestCrashAfterAnyCallLosesNothingPromised(t *testing.T) {
	for _, way := range ruleSets {
		for _, from := range starts {
			t.Run(way.name+", from "+from.name, func(t *testing.T) {
				t.Parallel()
				left := findings{}
				var s *script
				var end int64
				synctest.Test(t, func(t *testing.T) {
					s = newScript(t, from, way.rules)
					s.fsys.after = func(label string) {
						s.mu.Lock()
						defer s.mu.Unlock()
						n := s.fsys.Calls()
						for _, o := range crashfs.Outcomes(5) {
							o.Seed += uint64(1000 * n)
							may := finding{s.promised, len(s.history) - 1, fmt.Sprintf("call %d, %s: %+v", n, label, o)}
							left.add(crash(t, s.fsys.FS, o), may)
						}
					}
					stopped, err := s.play()
					require.NoError(t, err)
					require.NoError(t, stopped)
					require.Equal(t, len(s.history)-1, s.promised)
					require.False(t, s.reported)
					end = wallClock()
				})
				t.Logf("%d calls, %d states, %d findings", s.fsys.Calls(), len(s.history), len(left))
				left.check(t, way.rules, s.history, end)
			})
		}
	}
}

// harmful reports whether the failure of a call must be reported. The purpose of other calls is already durable, was only
// to read, or is to remove a file that is removed later anyway.
func harmful(label string) bool {
	return label != "journal: close" && label != "load: close" && label != "look: close" && !strings.HasSuffix(label, ": remove")
}

// Every call of a run fails: alone, together with the following calls for a while, or with all that follow. The run
// continues, reports the error, and recovers. The remaining files are as good as after a crash.
func TestFailureOfAnyCallLosesNothingPromised(t *testing.T) {
	kinds := []struct {
		name string
		n    int // number of calls that fail
	}{{"once", 1}, {"for a while", 12}, {"from then on", 1e9}}
	for i, way := range ruleSets {
		for j, from := range starts {
			for k, kind := range kinds {
				most := 1 << 30 // the largest number of calls to fail one by one
				if j != (i+k)%len(starts) {
					most = 20 // the initial files do not matter for later calls
				}
				t.Run(way.name+", from "+from.name+", "+kind.name, func(t *testing.T) {
					t.Parallel()
					last := 0 // the largest number of calls in a run
					synctest.Test(t, func(t *testing.T) {
						s := newScript(t, from, way.rules)
						_, err := s.play()
						require.NoError(t, err)
						last = s.fsys.Calls()
					})
					for n := 1; n <= min(last, most); n++ {
						left := findings{}
						var s *script
						var end int64
						synctest.Test(t, func(t *testing.T) {
							s = newScript(t, from, way.rules)
							s.recovers = n + kind.n
							if s.fsys.Fail(n, errBroken); kind.n > 1000 {
								s.fsys.FailFrom(n, errBroken)
							} else {
								for i := range kind.n {
									s.fsys.Fail(n+i, errBroken)
								}
							}
							defer func() {
								if t.Failed() {
									t.Logf("call %d fails, which is %s", n, s.fsys.Labels()[n-1])
								}
							}()
							stopped, err := s.play()
							calls := s.fsys.Calls()
							if last = max(last, calls); n > calls {
								return
							}
							failed := s.fsys.Labels()[n-1 : min(n-1+kind.n, calls)]
							if slices.ContainsFunc(failed, harmful) {
								require.True(t, err != nil || s.diary.complains(), "the log says nothing")
							}
							if beforeStop := failed[:min(len(failed), max(0, s.stoppedAt-n+1))]; slices.ContainsFunc(beforeStop, harmful) {
								require.True(t, s.reported)
							}
							if err == nil && s.recovers <= s.stoppedAt {
								require.NoError(t, stopped)
							}
							label := failed[0]
							for _, o := range []crashfs.Outcome{
								{}, {Names: crashfs.NamesKept},
								{Bytes: crashfs.BytesPrefix, Names: crashfs.NamesSome, Seed: uint64(n)},
								{Bytes: crashfs.BytesZeros, Names: crashfs.NamesKept, Seed: uint64(n)},
								{Bytes: crashfs.BytesKept, Names: crashfs.NamesKept},
							} {
								may := finding{s.promised, len(s.history) - 1, fmt.Sprintf("call %d, %s: %+v", n, label, o)}
								left.add(crash(t, s.fsys.FS, o), may)
							}
							end = wallClock()
						})
						left.check(t, way.rules, s.history, end)
					}
					t.Logf("%d calls", last)
				})
			}
		}
	}
}
