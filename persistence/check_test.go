package persistence_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"math"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"cellserver/buckets"
	"cellserver/persistence"
)

func check(file []byte) (persistence.Report, error) {
	return persistence.Check(bytes.NewReader(file), int64(len(file)), "a file")
}

func repair(file []byte) (repaired []byte, kept, lost int64, err error) {
	var b bytes.Buffer
	kept, lost, err = persistence.Repair(bytes.NewReader(file), int64(len(file)), "a file", &b)
	return b.Bytes(), kept, lost, err
}

func TestCheckCountsWhatAFileHolds(t *testing.T) {
	amends := units{goldenAmends[0]}
	file, offsets := writeFile(t, persistence.JournalFile, goldenBase, append(amends, goldenChanges...))
	want := persistence.Report{
		FileKind: persistence.JournalFile, Version: 3, Created: begun, Generation: fileGeneration, Bytes: int64(len(file)), Sections: 8,
		Sets:    [buckets.KindCount]int64{buckets.Throttle: 4, buckets.Window: 3, buckets.Slide: 4},
		Deletes: 2, Flushes: 2, Amends: 3, Records: 10, Databases: 1,
		Oldest: math64, Newest: 1704067200000000000 + 2*minute,
	}
	// An amendment has dropped the deadline of sms:2, a day, so its log is kept for 146 years.
	want.Newest = 1704067200000000000 + buckets.MaxPeriod
	report, err := check(file)
	require.NoError(t, err)
	assert.Equal(t, want, report)

	last := offsets[len(offsets)-2]
	cut := file[:len(file)-1]
	want.Bytes--
	want.Sections--
	want.Sets[buckets.Slide]--
	want.Records--
	want.Torn = &persistence.TornError{File: "a file", Offset: last, Lost: int64(len(cut)) - last}
	report, err = check(cut)
	require.NoError(t, err, "a journal may be torn")
	assert.Equal(t, want, report)

	want.Torn = nil
	want.Bytes++
	file[len(file)-1] ^= 1
	report, err = check(file)
	assert.Equal(t, corrupt(last, "the checksum of a section is wrong"), err)
	assert.Equal(t, want, report, "what is before")

	_, err = check(nil)
	assert.Error(t, err)
	empty, _ := writeFile(t, persistence.SnapshotFile, nil, nil)
	report, err = check(empty)
	require.NoError(t, err)
	assert.Equal(t, persistence.Report{FileKind: persistence.SnapshotFile, Version: 3, Created: begun, Generation: fileGeneration, Bytes: 64, Sections: 1, Databases: 1}, report)
	malformed, _ := writeFile(t, persistence.SnapshotFile, units{{throttle("a", t0), forget("a")}}, nil)
	report, err = check(malformed)
	assert.Error(t, err)
	assert.Zero(t, report.Sets, "a section counts all or not at all")
}

func TestCheckReportsWhenEntriesExpire(t *testing.T) {
	for _, test := range []struct {
		entry entry
		want  int64
	}{
		{throttle("k", 5), 5},
		{throttle("k", 5).until(4), 4},
		{throttle("k", 5).until(6), 5},
		{window("k", 1, 9, 1), 9},
		{slide("k", 10, []int64{1, 7}, []int64{1, 1}), 17},
		{slide("k", 10, []int64{-7}, []int64{1}), 3},
		{slide("k", 10, []int64{math.MaxInt64 - 3}, []int64{1}), math.MaxInt64},
		{amend("k", 10, 1, 7, nil, nil), 17},
		{amend("k", 10, 1, 7, []int64{9}, []int64{1}), 19},
		{amend("k", 10, 1, 7, []int64{9}, []int64{1}).until(5), 5},
	} {
		file, _ := writeFile(t, persistence.JournalFile, nil, units{{test.entry}})
		report, err := check(file)
		require.NoError(t, err)
		assert.Equal(t, test.want, report.Oldest)
		assert.Equal(t, test.want, report.Newest)
	}
}

// The offsets of the sections of the file that the test below damages: a journal with two sections of records and four of
// changes.
func TestRepairKeepsEveryWholeSection(t *testing.T) {
	whole, at := writeFile(t, persistence.JournalFile, goldenBase, goldenChanges)
	all := append(append(append(units{}, goldenBase...), nil), goldenChanges...)
	const end = 2 // index of the end section
	for _, test := range []struct {
		damage func(file []byte) []byte
		gone   []int // the sections that the repaired file lacks
		lost   int64
		shows  string
	}{
		{func(f []byte) []byte { return f }, nil, 0, "a sound file is copied"},
		{func(f []byte) []byte { f[at[1]+25]++; return f }, []int{1}, 1, "records that are damaged"},
		{func(f []byte) []byte { f[at[1]+3]++; return f }, []int{1}, 1, "a length that is damaged"},
		{func(f []byte) []byte { f[at[0]]++; f[at[1]+25]++; return f }, []int{0, 1}, 1, "two in a row, as one stretch"},
		{func(f []byte) []byte { f[at[0]+25]++; f[at[1]+25]++; return f }, []int{0, 1}, 2, "two in a row, told apart"},
		{func(f []byte) []byte { f[at[4]+20]++; return f }, []int{4}, 1, "changes in the middle"},
		{func(f []byte) []byte { f[at[6]+20]++; return f }, []int{6}, 1, "the last changes"},
		{func(f []byte) []byte { return f[:at[6]+19] }, []int{6}, 1, "torn in a header"},
		{func(f []byte) []byte { return f[:at[6]+30] }, []int{6}, 1, "torn in a payload"},
		{func(f []byte) []byte { return append(f, make([]byte, 1000)...) }, nil, 1, "zeros behind the end"},
		{func(f []byte) []byte { f[at[end]+20]++; return f }, nil, 0, "an end that is damaged is made anew"},
		{func(f []byte) []byte { f[at[end]+16]++; return f }, nil, 1, "it cannot be told what was there"},
		{func(f []byte) []byte { return append(f[:at[2]], f[at[3]:]...) }, nil, 0, "an end that is missing"},
		{func(f []byte) []byte { return append(f[:at[3]+5], f[at[4]+7:]...) }, []int{3, 4}, 1, "bytes that are missing"},
		{func(f []byte) []byte {
			return append(f[:at[4]:at[4]], append([]byte("some bytes too many"), f[at[4]:]...)...)
		}, nil, 1, "bytes too many"},
		{func(f []byte) []byte { return append(f, f[at[0]:at[1]]...) }, nil, 1, "records where none may be"},
		{func(f []byte) []byte { f[0] = 0; return f }, nil, 0, "what says that this is one of our files"},
		{func(f []byte) []byte { f[12] = 1; return f }, nil, 0, "a journal that says it is a snapshot, because it has changes"},
		{func(f []byte) []byte { f[12] = 77; return f }, nil, 0, "a kind that there is not"},
	} {
		t.Run(test.shows, func(t *testing.T) {
			var want units
			for i, u := range all {
				if len(test.gone) == 0 || i < test.gone[0] || i > test.gone[len(test.gone)-1] {
					want = append(want, u)
				}
			}
			repaired, kept, lost, err := repair(test.damage(bytes.Clone(whole)))
			require.NoError(t, err)
			kind, got, err := read(repaired)
			require.NoError(t, err, "it is sound")
			assert.Equal(t, persistence.JournalFile, kind)
			assert.Equal(t, want, got)
			assert.EqualValues(t, len(want)-1, kept)
			assert.Equal(t, test.lost, lost)
		})
	}
}

// After a flip of any bit, Repair loses at most the section with that bit and writes a sound file.
func TestRepairAfterAnyBitFlipGivesASoundFile(t *testing.T) {
	for _, kind := range []persistence.FileKind{persistence.SnapshotFile, persistence.JournalFile} {
		changes := changesOne
		if kind == persistence.SnapshotFile {
			changes = nil
		}
		file, offsets := writeFile(t, kind, baseOfOne, changes)
		_, all, err := read(file)
		require.NoError(t, err)
		for bit := range 8 * len(file) {
			file[bit/8] ^= 1 << (bit % 8)
			hit := -1 // index of the section with the bit
			for hit+1 < len(all) && offsets[hit+1] <= int64(bit/8) {
				hit++
			}
			var want units
			for i, u := range all {
				if i != hit || i == len(baseOfOne) {
					want = append(want, u)
				}
			}
			repaired, _, _, err := repair(file)
			file[bit/8] ^= 1 << (bit % 8)
			require.NoError(t, err)
			got, left, err := read(repaired)
			require.NoError(t, err, "bit %d", bit)
			require.Equal(t, want, left, "bit %d", bit)
			if kind == persistence.JournalFile || bit/8 != 12 {
				require.Equal(t, kind, got, "bit %d", bit)
			}
		}
	}
}

// A client may choose a key with the bytes of a section. Repair searches for sections only in a damaged stretch, and does
// not trust the length of such a section there.
func TestRepairIgnoresKeysThatLookLikeSections(t *testing.T) {
	other, offsets := writeFile(t, persistence.JournalFile, nil, units{repeated(3)})
	header := bytes.Clone(other[offsets[1] : offsets[1]+20])
	binary.LittleEndian.PutUint32(header, 60) // a length beyond the key
	sum(header)
	changes := units{{throttle(string(header), t0)}, {throttle("b", t0)}, {throttle("c", t0)}}
	file, offsets := writeFile(t, persistence.JournalFile, nil, changes)
	file[offsets[1]]++
	repaired, kept, lost, err := repair(file)
	require.NoError(t, err)
	_, all, err := read(repaired)
	require.NoError(t, err)
	assert.Equal(t, units{nil, changes[1], changes[2]}, all)
	assert.EqualValues(t, 2, kept)
	assert.EqualValues(t, 1, lost)
}

// The search reads the file in pieces; a header may span two of them.
func TestRepairFindsASectionFarAway(t *testing.T) {
	whole, at := writeFile(t, persistence.JournalFile, goldenBase, goldenChanges)
	for _, gap := range []int{64<<10 - 40, 64<<10 - 20, 64<<10 - 5, 64 << 10, 200_000} {
		for shift := range 21 {
			file := append(append(bytes.Clone(whole[:at[5]]), bytes.Repeat([]byte{1}, gap+shift)...), whole[at[5]:]...)
			repaired, kept, lost, err := repair(file)
			require.NoError(t, err)
			assert.Equal(t, whole, repaired, "%d bytes", gap+shift)
			assert.EqualValues(t, 6, kept)
			assert.EqualValues(t, 1, lost)
		}
	}
}

const hopeless = ", as when the disk was full; nothing in it can be repaired: put a copy of the file in its place, " +
	"or start without it after: rm "

func TestRepairRefusesWhatItCannotRead(t *testing.T) {
	whole, _ := writeFile(t, persistence.SnapshotFile, goldenBase, nil)
	newer := bytes.Clone(whole)
	newer[8] = 4
	sum(newer[:28])
	for _, test := range []struct {
		file  []byte
		err   string
		shows string
	}{
		{nil, "a file is empty" + hopeless + "a file", "nothing"},
		{whole[:27], "a file is shorter than the header of a file" + hopeless + "a file", "half a header"},
		{bytes.Repeat([]byte("no file of ours"), 100), "a file is corrupt at byte 0: it does not begin as a file of cellserver does; run: cellserver check a file", "another file"},
		{newer, "a file has format version 4, and this program reads up to 3: run a newer cellserver", "a newer file"},
	} {
		t.Run(test.shows, func(t *testing.T) {
			repaired, kept, lost, err := repair(test.file)
			assert.EqualError(t, err, test.err)
			assert.Empty(t, repaired)
			assert.Zero(t, kept+lost)
		})
	}

	failing := errors.New("input/output error")
	_, _, err := persistence.Repair(failingReaderAt{failing}, 100, "a file", io.Discard)
	assert.ErrorIs(t, err, failing)
	_, _, err = persistence.Repair(bytes.NewReader(whole), int64(len(whole)), "a file", &writes{fail: failing})
	assert.ErrorIs(t, err, failing)
	_, _, err = persistence.Repair(bytes.NewReader(whole), int64(len(whole)+100), "a file", io.Discard)
	assert.ErrorIs(t, err, io.ErrUnexpectedEOF)
}
