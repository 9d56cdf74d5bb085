package persistence_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"log/slog"
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

// snapshotOf returns a snapshot file of a store.
func snapshotOf(t testing.TB, store *memory.Store, now int64) []byte {
	var b bytes.Buffer
	_, err := persistence.WriteSnapshot(&b, store, now, 0)
	require.NoError(t, err)
	return b.Bytes()
}

// setOf returns a file system with a snapshot of the key s and a journal of the keys j and k. Each key is used once until
// t0 + minute.
func setOf(t *testing.T) (fsys *crashfs.FS, snapshot, journal []byte) {
	one := func(key string) entry { return window(key, t0-minute, t0+minute, 1) }
	fsys = crashfs.New()
	snapshot, _ = writeFile(t, persistence.SnapshotFile, units{{one("s")}}, nil)
	journal, _ = writeFile(t, persistence.JournalFile, units{{one("j")}}, units{{one("gone")}, {one("k"), forget("gone")}})
	fsys.WriteFile(snapshotPath, snapshot)
	fsys.WriteFile(journalPath, journal)
	return fsys, snapshot, journal
}

// keys returns how much is used of each key of a store.
func keys(t *testing.T, k kept, now int64) map[string]int64 {
	all := map[string]int64{}
	require.NoError(t, k.store.Copy(now, func(p *memory.Part) error {
		p.Each(func(e *buckets.Entry) { all[string(e.Key)] = e.Window().Used })
		return nil
	}))
	return all
}

func TestTheFileThatTheRulesAskForIsLoaded(t *testing.T) {
	for _, test := range []struct {
		name   string
		rules  persistence.Rules
		remove string
		want   map[string]int64
	}{
		{"the journal before the snapshot", always, "", map[string]int64{"j": 1, "k": 1}},
		{"the journal alone", everySec, snapshotPath, map[string]int64{"j": 1, "k": 1}},
		{"the snapshot when there is no journal", always, journalPath, map[string]int64{"s": 1}},
		{"the snapshot when no journal is kept", byHand, "", map[string]int64{"s": 1}},
		{"nothing but the journal, when none is kept", byHand, snapshotPath, map[string]int64{}},
		{"the snapshot when nothing is kept", nothing, "", map[string]int64{"s": 1}},
	} {
		t.Run(test.name, func(t *testing.T) {
			fsys, _, _ := setOf(t)
			if test.remove != "" {
				require.NoError(t, fsys.Remove("", test.remove))
			}
			names := fsys.Names(keptIn)
			k, err := newKept(fsys, test.rules, func() int64 { return t0 })
			require.NoError(t, err)
			assert.True(t, k.Loading())
			require.NoError(t, k.Load())
			assert.False(t, k.Loading())
			assert.False(t, k.Status().Loading)
			assert.Zero(t, k.Unsaved())
			assert.Equal(t, names, fsys.Names(keptIn))
			assert.Equal(t, test.want, keys(t, k, t0))
			assert.Equal(t, len(test.want) > 0, k.diary.has("INFO loaded", fmt.Sprintf("keys=%d", len(test.want))))
			require.NoError(t, k.Stop(false))
			if test.rules.Journal { // loading has created one, which loads alike
				again, err := loadAt(t, fsys, test.rules, t0)
				require.NoError(t, err)
				assert.Equal(t, test.want, keys(t, again, t0))
				assert.Contains(t, fsys.Names(keptIn), journalName)
			}
		})
	}
}

// A journal is written from a loaded snapshot as soon as the keeper starts.
func TestAJournalBeginsFromTheSnapshot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		old := crashfs.New()
		k := begin(t, old, byHand)
		k.take(t, "a")
		require.NoError(t, k.Stop(true))
		begin(t, old, everySec)
		tick()
		require.NoError(t, old.Remove("", snapshotPath))
		require.NoError(t, old.SyncDir("", keptIn))
		assert.EqualValues(t, 1, afterCrash(t, old, everySec).taken("a"))
	})
}

func TestExpiredKeysAreNotLoaded(t *testing.T) {
	base := units{{
		throttle("gone", t0), throttle("there", t0+1), throttle("until", t0+hour).until(t0), throttle("later", t0+hour).until(t0 + 1),
		window("gone too", t0-minute, t0, 1), slide("gone as well", minute, []int64{t0 - minute}, []int64{1}),
		slide("there, too", minute, []int64{t0 - 2*minute, t0 - minute + 1}, []int64{1, 1}),
	}}
	changes := units{{throttle("gone again", t0+1)}, {throttle("gone again", t0), throttle("back", t0+2)}}
	fsys := crashfs.New()
	file, _ := writeFile(t, persistence.JournalFile, base, changes)
	fsys.WriteFile(journalPath, file)
	k, err := loadAt(t, fsys, always, t0)
	require.NoError(t, err)
	assert.EqualValues(t, 4, k.store.Stats().Keys)
	assert.Equal(t, map[string]int64{"there": 0, "later": 0, "there, too": 0, "back": 0}, keys(t, k, t0))
	require.NoError(t, k.Stop(false))
}

func TestTemporaryFilesAreRemovedAtTheStart(t *testing.T) {
	for _, rules := range []persistence.Rules{always, byHand} {
		fsys, _, _ := setOf(t)
		fsys.WriteFile(snapshotPath+".tmp", []byte("half"))
		fsys.WriteFile(journalPath+".tmp", []byte("half"))
		fsys.WriteFile(keptIn+"/other.tmp", []byte("whose?"))
		_, err := loadAt(t, fsys, rules, t0)
		require.NoError(t, err)
		assert.Equal(t, []string{journalName, snapshotName, "other.tmp"}, fsys.Names(keptIn))
	}
	fsys, _, _ := setOf(t)
	fsys.WriteFile(snapshotPath+".tmp", []byte("half"))
	_, err := loadAt(t, fsys, nothing, t0)
	require.NoError(t, err)
	assert.Contains(t, fsys.Names(keptIn), snapshotName+".tmp", "it may be that of a process which has the directory")
}

// Files that cannot be loaded, or were not loaded, stay unchanged, also after Stop.
func TestFilesThatCannotBeLoadedStayAsTheyAre(t *testing.T) {
	for _, test := range []struct {
		name  string
		rules persistence.Rules
		path  string
		spoil func(file []byte) []byte
		want  string // END stands for the size of the file
	}{
		{"a flip in a journal's base", always, journalPath, flipped(60),
			"/data/a.journal is corrupt at byte 28: the checksum of a section is wrong; run: cellserver check /data/a.journal"},
		{"a flip in its changes", everySec, journalPath, flipped(-1),
			"/data/a.journal is corrupt at byte 143: the checksum of a section is wrong; run: cellserver check /data/a.journal"},
		{"a flip in a snapshot", byHand, snapshotPath, flipped(60),
			"/data/a.snapshot is corrupt at byte 28: the checksum of a section is wrong; run: cellserver check /data/a.snapshot"},
		{"a torn snapshot", byHand, snapshotPath, func(file []byte) []byte { return file[:len(file)-1] },
			"/data/a.snapshot is corrupt at byte 66: the file ends within a section of its base; run: cellserver check /data/a.snapshot"},
		{"an empty journal", always, journalPath, func([]byte) []byte { return nil },
			"/data/a.journal is empty" + hopeless + "/data/a.journal (/data/a.snapshot is loaded then)"},
		{"a journal of which there is half a header", always, journalPath, func(file []byte) []byte { return file[:14] },
			"/data/a.journal is shorter than the header of a file" + hopeless + "/data/a.journal (/data/a.snapshot is loaded then)"},
		{"an empty snapshot", byHand, snapshotPath, func([]byte) []byte { return nil },
			"/data/a.snapshot is empty" + hopeless + "/data/a.snapshot"},
		{"a damaged header of a snapshot beside a journal", always, snapshotPath, flipped(20),
			"whether the snapshot is newer than the journal is not known: /data/a.snapshot is corrupt at byte 0: " +
				"the checksum of the file's header is wrong; run: cellserver check /data/a.snapshot"},
		{"a newer snapshot beside a journal", always, snapshotPath, newer,
			"whether the snapshot is newer than the journal is not known: " +
				"/data/a.snapshot has format version 4, and this program reads up to 3: run a newer cellserver"},
		{"a newer journal", always, journalPath, newer,
			"/data/a.journal has format version 4, and this program reads up to 3: run a newer cellserver"},
		{"a newer snapshot", nothing, snapshotPath, newer,
			"/data/a.snapshot has format version 4, and this program reads up to 3: run a newer cellserver"},
		{"a snapshot where a journal should be", always, journalPath, func([]byte) []byte {
			file, _ := writeFile(t, persistence.SnapshotFile, units{{throttle("a", t0+minute)}}, nil)
			return file
		}, "/data/a.journal is a snapshot, and not a journal"},
		{"a journal where a snapshot should be", nothing, snapshotPath, func([]byte) []byte {
			file, _ := writeFile(t, persistence.JournalFile, units{{throttle("a", t0+minute)}}, units{{throttle("b", t0+minute)}})
			return file[:len(file)-1] // a torn tail, which Load must not cut off
		}, "/data/a.snapshot is a journal, and not a snapshot"},
		{"a malformed entry under right checksums", always, journalPath, func([]byte) []byte {
			file, _ := writeFile(t, persistence.JournalFile, units{{throttle("a", t0+minute)}}, units{{throttle("b", t0), flush}})
			return file
		}, "/data/a.journal is corrupt at byte 126: entry 1 of its section: a flush of all databases that is not the first entry; run: cellserver check /data/a.journal"},
		{"a database that there is not", nothing, snapshotPath, func([]byte) []byte {
			file, _ := writeFile(t, persistence.SnapshotFile, units{{throttle("a", t0+minute).in(16)}}, nil)
			return file
		}, "/data/a.snapshot has keys of database 16, and there are only 16 databases: start with databases 17, or more"},
		{"a swap with a database that there is not", always, journalPath, func([]byte) []byte {
			file, _ := writeFile(t, persistence.JournalFile, nil, units{{throttle("a", t0+minute), swap(1, 20)}})
			return file
		}, "/data/a.journal has keys of database 20, and there are only 16 databases: start with databases 21, or more"},
	} {
		t.Run(test.name, func(t *testing.T) {
			fsys, snapshot, journal := setOf(t)
			whole := map[string][]byte{snapshotPath: snapshot, journalPath: journal}
			spoilt := test.spoil(bytes.Clone(whole[test.path]))
			fsys.WriteFile(test.path, spoilt)
			whole[test.path] = spoilt
			k, err := loadAt(t, fsys, test.rules, t0)
			require.EqualError(t, err, test.want)
			assert.True(t, k.Loading(), "nobody is to use half of it")
			require.NoError(t, k.Stop(true))
			for path, want := range whole {
				file, err := fsys.ReadFile(path)
				require.NoError(t, err)
				assert.Equal(t, want, file)
			}
			again, err := newKept(fsys, test.rules, wallClock)
			require.NoError(t, err, "the directory is free")
			require.NoError(t, again.Stop(true), "before anything is loaded")
			file, err := fsys.ReadFile(test.path)
			require.NoError(t, err)
			assert.Equal(t, spoilt, file)
		})
	}
}

// flipped flips a bit of the byte at an offset, which counts from the end if it is negative.
func flipped(at int) func([]byte) []byte {
	return func(file []byte) []byte {
		file[(at+len(file))%len(file)] ^= 4
		return file
	}
}

func newer(file []byte) []byte {
	binary.LittleEndian.PutUint32(file[8:], 4)
	sum(file[:28])
	return file
}

// A torn journal is truncated and appended to; the next load finds the appended changes.
func TestATornJournalIsCutOff(t *testing.T) {
	whole, offsets := writeFile(t, persistence.JournalFile, units{{window("a", t0, t0+minute, 1)}},
		units{{window("b", t0, t0+minute, 1)}, {window("c", t0, t0+minute, 1)}})
	last := int(offsets[len(offsets)-2])
	zeros := append(bytes.Clone(whole[:last]), make([]byte, 3000)...)
	for name, file := range map[string][]byte{"a byte": whole[:last+1], "all but one": whole[:len(whole)-1], "zeros": zeros} {
		t.Run(name, func(t *testing.T) {
			fsys := crashfs.New()
			fsys.WriteFile(journalPath, file)
			k, err := loadAt(t, fsys, always, t0)
			require.NoError(t, err)
			assert.Equal(t, map[string]int64{"a": 1, "b": 1}, keys(t, k, t0))
			assert.True(t, k.diary.has("WARN the journal ends in the middle of a write", "file="+journalPath,
				fmt.Sprintf("offset=%d bytes=%d", last, len(file)-last)))
			cut := fsys.Crash(crashfs.Outcome{})
			left, err := cut.ReadFile(journalPath)
			require.NoError(t, err)
			assert.Equal(t, whole[:last], left, "that is durable")
			_, err = k.store.Take(t0, []byte("d"), windowed, 1, false)
			require.NoError(t, err)
			require.NoError(t, k.Stop(false))
			again, err := loadAt(t, fsys, always, t0)
			require.NoError(t, err)
			assert.Equal(t, map[string]int64{"a": 1, "b": 1, "d": 1}, keys(t, again, t0))
			assert.False(t, again.diary.complains())
		})
	}
}

func TestLoadingLogsItsProgress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := begin(t, crashfs.New(), nothing)
		k.takeKeys(t, 50000)
		file := snapshotOf(t, k.store, wallClock())
		fsys := &watchedFS{FS: crashfs.New()}
		fsys.WriteFile(snapshotPath, file)
		k, err := newKept(fsys, nothing, wallClock)
		require.NoError(t, err)
		var seen []persistence.Status
		fsys.before(func(label string) {
			if label == "load: read" {
				assert.True(t, k.Loading())
				seen = append(seen, k.Status())
				time.Sleep(1500 * time.Millisecond)
			}
		})
		began := wallClock()
		require.NoError(t, k.Load())
		require.Greater(t, len(seen), 2)
		for i, s := range seen {
			assert.True(t, s.Loading)
			assert.EqualValues(t, len(file), s.LoadTotal)
			assert.Equal(t, began, s.LoadStarted)
			assert.GreaterOrEqual(t, s.LoadDone, seen[max(0, i-1)].LoadDone)
			assert.LessOrEqual(t, s.LoadDone, int64(len(file)))
		}
		assert.Positive(t, seen[len(seen)-1].LoadDone)
		assert.True(t, k.diary.has("INFO loading", "file="+snapshotName, "percent=", "left="))
		assert.True(t, k.diary.has("INFO loaded", "keys=50000"))
		assert.False(t, k.Status().Loading)
	})
}

// SetRules may be called while the files are loaded.
func TestRulesSetWhileLoadingTakeEffect(t *testing.T) {
	for _, to := range []persistence.Rules{always, nothing} {
		synctest.Test(t, func(t *testing.T) {
			from := nothing
			if !to.Journal {
				from = always
			}
			old := crashfs.New()
			k := begin(t, old, from)
			k.take(t, "a")
			require.NoError(t, k.Stop(true))
			fsys := &watchedFS{FS: old}
			k, err := newKept(fsys, from, wallClock)
			require.NoError(t, err)
			t.Cleanup(func() { _ = k.Stop(false) })
			fsys.before(once("load: size", func() { assert.NoError(t, k.SetRules(to)) }))
			require.NoError(t, k.Load())
			require.Zero(t, k.Status().JournalSize, "it is not kept, or not begun")
			k.Start()
			require.EqualValues(t, 1, k.taken("a"))
			k.take(t, "a")
			require.NoError(t, k.Commit())
			require.NoError(t, k.SetRules(always))
			k.take(t, "b")
			require.NoError(t, k.Commit())
			found := afterCrash(t, old, always)
			require.EqualValues(t, 2, found.taken("a"))
			require.EqualValues(t, 1, found.taken("b"))
		})
	}
}

// The contents of a store that is loaded at another time than it was saved.
func TestLoadingWithASteppedClockDelaysAtMostOnePeriod(t *testing.T) {
	byTheHour := limit(buckets.NewWindow(10, hour))
	slidByTheHour := limit(buckets.NewSlide(10, hour))
	before := memory.NewStore(8)
	for _, use := range []struct {
		key   string
		limit buckets.Limit
		n     int64
	}{{"throttle", throttled, 100}, {"window", byTheHour, 10}, {"slide", slidByTheHour, 10}} {
		d, err := before.Take(t0, []byte(use.key), use.limit, use.n, false)
		require.NoError(t, err)
		require.Zero(t, d.Remaining)
	}
	day := 24 * hour
	for _, test := range []struct {
		later int64
		want  [3]buckets.Decision // the decisions on a request of 1
	}{
		{0, [3]buckets.Decision{
			{Limited: true, Limit: 100, RetryAfter: 6 * minute, ResetAfter: 10 * hour},
			{Limited: true, Limit: 10, RetryAfter: hour, ResetAfter: hour},
			{Limited: true, Limit: 10, RetryAfter: hour, ResetAfter: hour}}},
		{hour - 1, [3]buckets.Decision{
			{Limit: 100, Remaining: 9 - 1, RetryAfter: buckets.Never, ResetAfter: 9*hour + 1 + 6*minute},
			{Limited: true, Limit: 10, RetryAfter: 1, ResetAfter: 1},
			{Limited: true, Limit: 10, RetryAfter: 1, ResetAfter: 1}}},
		{hour, [3]buckets.Decision{
			{Limit: 100, Remaining: 10 - 1, RetryAfter: buckets.Never, ResetAfter: 9*hour + 6*minute},
			{Limit: 10, Remaining: 10 - 1, RetryAfter: buckets.Never, ResetAfter: hour},
			{Limit: 10, Remaining: 10 - 1, RetryAfter: buckets.Never, ResetAfter: hour}}},
		{-day, [3]buckets.Decision{
			{Limited: true, Limit: 100, RetryAfter: 6 * minute, ResetAfter: 10 * hour, Cut: true},
			{Limited: true, Limit: 10, RetryAfter: hour, ResetAfter: hour},
			{Limited: true, Limit: 10, RetryAfter: hour, ResetAfter: hour}}},
	} {
		for _, rules := range []persistence.Rules{byHand, always} {
			t.Run(fmt.Sprint(time.Duration(test.later), rules.Journal), func(t *testing.T) {
				fsys := crashfs.New()
				fsys.WriteFile(snapshotPath, snapshotOf(t, before, t0))
				if rules.Journal { // makes the snapshot a journal
					k, err := loadAt(t, fsys, rules, t0)
					require.NoError(t, err)
					require.NoError(t, k.Stop(false))
				}
				now := t0 + test.later
				k, err := loadAt(t, fsys, rules, now)
				require.NoError(t, err)
				for i, l := range []buckets.Limit{throttled, byTheHour, slidByTheHour} {
					key := []byte([]string{"throttle", "window", "slide"}[i])
					d, err := k.store.Take(now, key, l, 1, false)
					require.NoError(t, err)
					assert.Equal(t, test.want[i], d, "%s", key)
				}
			})
		}
	}
}

func TestASnapshotFromAnotherSourceIsOfOneDatabase(t *testing.T) {
	for _, db := range []int{0, 3} {
		fsys := crashfs.New()
		sink, err := persistence.CreateSnapshot(fsys, "/data", "a.snapshot", t0, db)
		require.NoError(t, err)
		require.NoError(t, sink.Set([]byte("k"), t0+minute))
		require.NoError(t, sink.Close())
		k, err := loadAt(t, fsys, nothing, t0)
		require.NoError(t, err)
		assert.Equal(t, []int{db}, k.store.Used())
		_, found := k.store.Database(db).(*memory.Store).Get(t0, []byte("k"))
		assert.True(t, found)
	}
}

// Counters that have expired are left out, also those that replace one that has not. A clock that was set back does not touch
// counters, and reaches the limits in every database.
func TestLoadingDropsExpiredCountersAndMovesNone(t *testing.T) {
	base := []entry{
		counter("lasts", 1, buckets.NoExpiry), counter("expires", 2, t0+minute), float("half", 0.5, t0+hour),
		counter("lasts", 3, t0+minute).in(5), counter("expires", 4, buckets.NoExpiry).in(5), window("w", t0, t0+minute, 1).in(5),
	}
	changes := []entry{counter("lasts", 7, t0+minute), counter("new", 8, t0+2*minute).in(5)}
	since := func(at int64) string { return fmt.Sprint(at - t0) }
	for _, test := range []struct {
		now     int64
		journal bool
		want    map[string]string
	}{
		{t0, false, map[string]string{
			"lasts": "1 for ever", "expires": "2 " + since(t0+minute), "half": "0.5 " + since(t0+hour),
			"5:lasts": "3 " + since(t0+minute), "5:expires": "4 for ever",
		}},
		{t0 + minute, false, map[string]string{"lasts": "1 for ever", "half": "0.5 " + since(t0+hour), "5:expires": "4 for ever"}},
		{t0 + minute, true, map[string]string{"half": "0.5 " + since(t0+hour), "5:expires": "4 for ever", "5:new": "8 " + since(t0+2*minute)}},
		{t0 - 24*hour, false, map[string]string{
			"lasts": "1 for ever", "expires": "2 " + since(t0+minute), "half": "0.5 " + since(t0+hour),
			"5:lasts": "3 " + since(t0+minute), "5:expires": "4 for ever",
		}},
	} {
		t.Run(fmt.Sprint(time.Duration(test.now-t0), test.journal), func(t *testing.T) {
			fsys := crashfs.New()
			kind, path, rules, after := persistence.SnapshotFile, snapshotPath, byHand, units(nil)
			if test.journal {
				kind, path, rules, after = persistence.JournalFile, journalPath, always, units{changes}
			}
			file, _ := writeFile(t, kind, units{base}, after)
			fsys.WriteFile(path, file)
			k, err := loadAt(t, fsys, rules, test.now)
			require.NoError(t, err)
			got := make(map[string]string)
			for _, db := range k.store.Used() {
				of := k.store.Database(db).(*memory.Store)
				for _, key := range []string{"lasts", "expires", "half", "new", "w"} {
					c, found := of.Get(test.now, []byte(key))
					if !found {
						continue
					}
					if c.Kind == buckets.Window {
						assert.LessOrEqual(t, c.Expiry, test.now+minute, "a window that the clock has been set back before")
						continue
					}
					value := c.Fields[0].Text
					if value == "" {
						value = fmt.Sprint(c.Fields[0].Value)
					}
					until := " for ever"
					if c.Expiry != buckets.NoExpiry {
						until = " " + since(c.Expiry)
					}
					if db != 0 {
						key = fmt.Sprint(db, ":", key)
					}
					got[key] = value + until
				}
			}
			assert.Equal(t, test.want, got)
		})
	}
}

// A journal of an older version is loaded, and made anew before anything is appended: its header says that there is nothing
// newer behind it.
func TestAJournalOfAnOlderVersionIsRewritten(t *testing.T) {
	for name, older := range map[string]func([]byte) []byte{
		"version 1": func(file []byte) []byte { return asVersion1(file, t0) }, "version 2": asVersion2,
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				fsys := crashfs.New()
				file, _ := writeFile(t, persistence.JournalFile, units{{window("a", wallClock(), wallClock()+24*hour, 1)}}, nil)
				fsys.WriteFile(journalPath, older(file))
				k := begin(t, fsys, always)
				k.take(t, "a")
				require.NoError(t, k.Commit())
				assert.EqualValues(t, 2, afterCrash(t, fsys, always).taken("a"))
				file, err := fsys.ReadFile(journalPath)
				require.NoError(t, err)
				report, err := check(file)
				require.NoError(t, err)
				assert.EqualValues(t, 3, report.Version)
				assert.False(t, k.diary.complains())
			})
		})
	}
}

// benchmarkKeys is the number of keys in the benchmarks of files.
const benchmarkKeys = 1_000_000

// million returns a store of benchmarkKeys THROTTLE keys of 13 bytes, and a snapshot of it.
func million(b *testing.B, now int64) (*memory.Store, []byte) {
	store := memory.NewStore(memory.DefaultShards)
	for i := range benchmarkKeys {
		_, err := store.Take(now, fmt.Appendf(nil, "user:%08d", i), throttled, 1, false)
		require.NoError(b, err)
	}
	return store, snapshotOf(b, store, now)
}

func report(b *testing.B, file []byte) {
	b.ReportMetric(float64(benchmarkKeys)*float64(b.N)/b.Elapsed().Seconds(), "keys/s")
	b.ReportMetric(float64(len(file))/benchmarkKeys, "bytes/key")
}

func BenchmarkSave(b *testing.B) {
	store, file := million(b, t0)
	for b.Loop() {
		_, err := persistence.WriteSnapshot(io.Discard, store, t0, 0)
		require.NoError(b, err)
	}
	report(b, file)
}

// oneFile is a file system of one file, which can only be read.
type oneFile struct {
	persistence.FS
	data []byte
}

func (f oneFile) Open(string, string) (persistence.File, error) {
	return &opened{Reader: bytes.NewReader(f.data)}, nil
}

type opened struct {
	persistence.File
	*bytes.Reader
}

func (o *opened) ReadAt(b []byte, off int64) (int, error) { return o.Reader.ReadAt(b, off) }
func (o *opened) Size(string) (int64, error)              { return o.Reader.Size(), nil }
func (o *opened) Close(string) error                      { return nil }
func (o *opened) Write([]byte) (int, error)               { return 0, io.ErrClosedPipe }

func BenchmarkLoad(b *testing.B) {
	_, file := million(b, t0)
	for b.Loop() {
		store := memory.NewStore(memory.DefaultShards)
		k, err := persistence.New(persistence.Config{
			FS: oneFile{data: file}, Dir: keptIn, Snapshot: snapshotName, Journal: journalName, Store: store,
			Now: func() int64 { return t0 }, Log: slog.New(slog.DiscardHandler),
		}, nothing)
		require.NoError(b, err)
		require.NoError(b, k.Load())
		require.EqualValues(b, benchmarkKeys, store.Stats().Keys)
	}
	report(b, file)
}
