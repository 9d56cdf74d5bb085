package persistence_test

import (
	"bytes"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"cellserver/buckets/memory"
	"cellserver/internal/testing/crashfs"
	"cellserver/persistence"
)

// Changes that are one batch of three sections.
var oneOfThree = units{
	part(persistence.FirstSection, throttle("a", t0+hour), forget("b")),
	part(persistence.MoreSection, throttle("c", t0+hour), throttle("d", t0+hour), forget(string(make([]byte, 1500)))),
	part(persistence.LastSection, throttle("e", t0+hour)),
}

// fileOfParts returns a journal with changes before and after oneOfThree, and the offsets of its sections: the batch
// begins at at[3] and ends at at[6].
func fileOfParts(t *testing.T) (file []byte, at []int64) {
	changes := append(append(units{{throttle("before", t0+hour)}}, oneOfThree...), []entry{throttle("behind", t0+hour)})
	return writeFile(t, persistence.JournalFile, units{{throttle("b", t0+hour)}}, changes)
}

// keysOf returns the sorted keys of a store that has loaded a file.
func keysOf(t *testing.T, file []byte) (keys []string, err error) {
	store := memory.NewStore(2)
	err = persistence.Load(bytes.NewReader(file), int64(len(file)), store, t0)
	for key := range contents(t, store, t0) {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	return keys, err
}

// A batch is loaded entirely or not at all, wherever the file ends.
func TestABatchLoadsAllOrNone(t *testing.T) {
	file, at := fileOfParts(t)
	start, behind := at[3], at[6]
	keys, err := keysOf(t, file)
	require.NoError(t, err)
	require.Equal(t, []string{"a", "before", "behind", "c", "d", "e"}, keys)
	for end := start; end <= behind; end++ {
		for _, zeros := range []int{0, 1, 20, 700} {
			if zeros > 0 && end%512 != 0 && !slices.Contains(at, end) {
				continue // a disk writes whole sectors
			}
			cut := append(bytes.Clone(file[:end]), make([]byte, zeros)...)
			keys, err := keysOf(t, cut)
			switch {
			case end < behind:
				require.Equal(t, []string{"b", "before"}, keys, "%d bytes and %d zeros", end, zeros)
				if end == start && zeros == 0 {
					require.NoError(t, err)
				} else {
					var tail *persistence.TornError
					require.ErrorAs(t, err, &tail)
					require.Equal(t, torn(start, cut), tail, "%d bytes and %d zeros", end, zeros)
				}
			default:
				require.Equal(t, []string{"a", "before", "c", "d", "e"}, keys)
			}
			report, err := check(cut)
			require.NoError(t, err)
			if end < behind {
				require.EqualValues(t, 3, report.Sections)
			} else {
				require.EqualValues(t, 6, report.Sections)
			}
		}
	}
}

// A damaged batch is detected before its first section is applied, and Repair leaves all of it out.
func TestADamagedBatchIsLeftOut(t *testing.T) {
	file, at := fileOfParts(t)
	for bit := 8 * at[3]; bit < 8*at[6]; bit += 1 + bit%7 {
		file[bit/8] ^= 1 << (bit % 8)
		keys, err := keysOf(t, file)
		var damage *persistence.CorruptError
		require.ErrorAs(t, err, &damage)
		require.Equal(t, []string{"b", "before"}, keys, "bit %d", bit)
		repaired, _, lost, err := repair(file)
		require.NoError(t, err)
		require.Positive(t, lost)
		keys, err = keysOf(t, repaired)
		require.NoError(t, err)
		require.Equal(t, []string{"b", "before", "behind"}, keys, "bit %d", bit)
		file[bit/8] ^= 1 << (bit % 8)
	}
	repaired, kept, lost, err := repair(file)
	require.NoError(t, err)
	assert.Equal(t, file, repaired)
	assert.EqualValues(t, 6, kept)
	assert.Zero(t, lost)
}

// Sections of a batch in positions that the format does not allow.
func TestSectionsOfABatchOutOfOrderAreRefused(t *testing.T) {
	first, more, last := oneOfThree[0], oneOfThree[1], oneOfThree[2]
	for _, test := range []struct {
		changes units
		at      int // the section that is in the wrong position
		reason  string
		kept    int
	}{
		{units{more, last}, 0, "a section of more changes where none may be", 0},
		{units{last}, 0, "a section of last changes where none may be", 0},
		{units{first, {forget("b")}, last}, 1, "a section of changes where none may be", 1},
		{units{first, generation(fileGeneration + 1), last}, 1, "a section of generation where none may be", 1},
		{units{first, first, last}, 1, "a section of first changes where none may be", 2},
		{units{first, last, last}, 2, "a section of last changes where none may be", 2},
		{units{first, last, more}, 2, "a section of more changes where none may be", 2},
	} {
		file, at := writeFile(t, persistence.JournalFile, nil, test.changes)
		_, _, err := read(file)
		assert.Equal(t, corrupt(at[1+test.at], test.reason), err)
		repaired, kept, lost, err := repair(file)
		require.NoError(t, err)
		_, _, err = read(repaired)
		require.NoError(t, err)
		assert.EqualValues(t, test.kept, kept, test.reason)
		assert.EqualValues(t, len(test.changes)-test.kept, lost, test.reason)
	}
	file, at := writeFile(t, persistence.JournalFile, nil, units{first, part(persistence.LastSection, flush)})
	_, _, err := read(file)
	assert.Equal(t, corrupt(at[2]+20, "entry 0 of its section: a flush of all databases that is not the first entry"), err)
	file, at = writeFile(t, persistence.JournalFile, nil, oneOfThree)
	_, _, err = read(asVersion1(file, t0))
	assert.Equal(t, corrupt(at[1], "a section of an unknown type"), err)
	file, at = writeFile(t, persistence.JournalFile, units{{amend("a", 1, 2, 3, nil, nil)}}, nil)
	_, _, err = read(file)
	assert.Equal(t, corrupt(at[0]+20, "entry 0 of its section: a change among records"), err)
	file, at = writeFile(t, persistence.JournalFile, nil, units{{amend("a", 1, 2, 3, nil, nil)}})
	_, _, err = read(asVersion1(file, t0))
	assert.Equal(t, corrupt(at[1]+20, "entry 0 of its section: unknown op byte 0x04"), err)
}

// Version 3 is the first with counters and databases.
func TestOlderVersionsHaveNeitherCountersNorDatabases(t *testing.T) {
	for _, e := range []entry{
		counter("c", 1, t0), float("f", 0.5, t0), throttle("k", t0).in(1), forget("k").in(1), flushOf(0), flushOf(1), swap(0, 1), swap(1, 2),
		throttle("k", t0).until(t0).in(1), amend("s", 1, 2, 3, nil, nil).in(1),
	} {
		file, at := writeFile(t, persistence.JournalFile, nil, units{{e}})
		_, all, err := read(file)
		require.NoError(t, err)
		require.Equal(t, units{nil, {e}}, all)
		want := corrupt(at[1]+20, fmt.Sprintf("entry 0 of its section: unknown op byte 0x%02x", e.append(nil)[0]))
		for _, old := range [][]byte{asVersion1(file, t0), asVersion2(file)} {
			_, _, err = read(old)
			assert.Equal(t, want, err)
		}
	}
}

// largeChanges returns entries of every kind that do not fit one section.
func largeChanges(t *testing.T) (payload []byte, all []entry) {
	long := string(make([]byte, 100_000))
	all = append(all, flush)
	for i := 0; len(payload) < 2*persistence.PartBytes+persistence.PartBytes/2; i++ {
		key := fmt.Sprint(i, long)
		quantities := []int64{1, 1 + int64(i%3)*200}
		e := []entry{
			throttle(key, t0+hour), throttle(key, t0+hour).until(t0 + minute), window(key, t0, t0+hour, 1<<40),
			slide(key, minute, []int64{t0, t0 + 5}, quantities), amend(key, minute, t0, t0+5, []int64{t0 + 1e6, t0 + 9e6}, quantities),
			amend(key, minute, t0, t0+5, nil, nil).until(t0 + 9), forget(key), counter(key, int64(i), t0).in(i % 3), swap(i, i+1), flushOf(i),
		}[i%10]
		all = append(all, e)
		payload = e.append(payload)
	}
	return append(persistence.AppendFlushAll(nil), payload...), all
}

// Changes that are too large for one section are written as several, split at the boundaries of entries.
func TestLargeChangesAreWrittenAsABatch(t *testing.T) {
	payload, all := largeChanges(t)
	var file writes
	w, err := persistence.NewWriter(&file, persistence.JournalFile, t0, 1)
	require.NoError(t, err)
	require.NoError(t, w.End())
	require.NoError(t, w.Changes(payload, len(all)))
	require.EqualValues(t, file.Len(), w.Offset())
	require.NoError(t, w.Changes(appendAll(forget("behind")), 1))
	_, back, err := read(file.Bytes())
	require.NoError(t, err)
	require.Len(t, back, 5)
	var got []entry
	for i, u := range back[1:4] {
		require.Equal(t, opPart, u[0].Op)
		require.Equal(t, []persistence.SectionType{persistence.FirstSection, persistence.MoreSection, persistence.LastSection}[i],
			persistence.SectionType(u[0].TAT))
		require.LessOrEqual(t, len(appendAll(u[1:]...)), persistence.PartBytes)
		got = append(got, u[1:]...)
	}
	require.True(t, slices.EqualFunc(all, got, func(a, b entry) bool { return bytes.Equal(appendAll(a), appendAll(b)) }))
	require.Equal(t, []entry{forget("behind")}, back[4])

	file.Reset()
	huge := throttle(string(make([]byte, persistence.PartBytes)), t0)
	w, err = persistence.NewWriter(&file, persistence.JournalFile, t0, 1)
	require.NoError(t, err)
	require.NoError(t, w.End())
	require.NoError(t, w.Changes(appendAll(huge), 1))
	require.NoError(t, w.Changes(appendAll(huge, forget("b")), 2))
	_, back, err = read(file.Bytes())
	require.NoError(t, err)
	require.Len(t, back, 4, "a single entry is one section of changes, and two are two of several")

	at := w.Offset()
	file.failAfter = 2
	require.ErrorIs(t, w.Changes(payload, len(all)), errBroken)
	assert.Equal(t, at, w.Offset(), "where the whole part ends: before the first of them")
}

// The changes of one second may be larger than a section. Whatever is lost in a crash, either all of them survive or
// none.
func TestLargeChangesSurviveACrashEntirelyOrNotAtAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fsys := crashfs.New()
		k := begin(t, fsys, neverSync)
		k.take(t, "before")
		tick()
		size := k.Status().JournalSize
		long := make([]byte, 1<<20)
		for i := range 2*persistence.PartBytes>>20 + 1 {
			k.take(t, fmt.Sprint(i, string(long)))
		}
		want := contents(t, k.store, wallClock())
		tick()
		require.Greater(t, k.Status().JournalSize-size, int64(2*persistence.PartBytes))
		file, err := fsys.ReadFile(journalPath)
		require.NoError(t, err)
		before, err := check(file[:size])
		require.NoError(t, err)
		report, err := check(file)
		require.NoError(t, err)
		require.EqualValues(t, 3, report.Sections-before.Sections)
		for _, cut := range []int64{size, size + 1, size + 9<<20, int64(len(file)) - 1, int64(len(file))} {
			fsys := crashfs.New()
			fsys.WriteFile(journalPath, file[:cut])
			found, err := loadAt(t, fsys, neverSync, wallClock())
			require.NoError(t, err)
			if cut == int64(len(file)) {
				require.Equal(t, want, contents(t, found.store, wallClock()))
			} else {
				require.Len(t, contents(t, found.store, wallClock()), 1)
			}
			require.NoError(t, found.Stop(false))
		}
	})
}
