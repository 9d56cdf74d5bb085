package persistence_test

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"flag"
	"fmt"
	"hash/crc32"
	"io"
	"math"
	"os"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"cellserver/buckets"
	"cellserver/internal/testing/golden"
	"cellserver/persistence"
)

var update = flag.Bool("update", false, "write the example in FORMAT.md anew, and golden files that are missing")

// units are the entries of the sections of a file.
type units [][]entry

// fileGeneration is the generation of test files unless a test sets another.
const fileGeneration = 0x123456789abc

// begun is t0 with the precision of the header of a file.
const begun = t0 / 1e9 * 1e9

// opGeneration marks a unit of one entry that is a generation section; the TAT of the entry is the generation.
const opGeneration persistence.Op = 99

func generation(n int64) []entry { return []entry{{Op: opGeneration, TAT: n}} }

// opPart marks a unit that is a section of a batch; the TAT of its first entry is the type of the section.
const opPart persistence.Op = 98

func part(typ persistence.SectionType, u ...entry) []entry {
	return append([]entry{{Op: opPart, TAT: int64(typ)}}, u...)
}

// writeChanges writes a unit after the base.
func writeChanges(w *persistence.Writer, u []entry) error {
	if len(u) == 1 && u[0].Op == opGeneration {
		return w.Generation(uint64(u[0].TAT))
	}
	if len(u) > 0 && u[0].Op == opPart {
		return w.Part(persistence.SectionType(u[0].TAT), appendAll(u[1:]...), len(u)-1)
	}
	return w.Changes(appendAll(u...), len(u))
}

// writeFile writes a file with a base and changes. It returns the offsets of its sections, and last its size.
func writeFile(t require.TestingT, kind persistence.FileKind, base, changes units) (file []byte, offsets []int64) {
	var b bytes.Buffer
	w, err := persistence.NewWriter(&b, kind, t0, fileGeneration)
	require.NoError(t, err)
	for _, u := range base {
		offsets = append(offsets, w.Offset())
		require.NoError(t, w.Records(appendAll(u...), len(u)))
	}
	offsets = append(offsets, w.Offset())
	require.NoError(t, w.End())
	for _, u := range changes {
		offsets = append(offsets, w.Offset())
		require.NoError(t, writeChanges(w, u))
	}
	require.EqualValues(t, b.Len(), w.Offset())
	return b.Bytes(), append(offsets, w.Offset())
}

// read reads a whole file. An end section is an empty unit.
func read(file []byte) (kind persistence.FileKind, all units, err error) {
	return readFrom(bytes.NewReader(file), int64(len(file)))
}

func readFrom(from io.ReaderAt, size int64) (kind persistence.FileKind, all units, err error) {
	r, err := persistence.NewReader(from, size, "a file")
	if err != nil {
		return 0, nil, err
	}
	var buf []byte
	for {
		s, err := r.Next(buf)
		if err == io.EOF {
			return r.Kind(), all, nil
		}
		if err != nil {
			_, again := r.Next(buf)
			if again != err {
				return r.Kind(), all, errors.New("another error the second time")
			}
			return r.Kind(), all, err
		}
		buf = s.Payload
		var unit []entry
		err = r.Entries(s, func(op persistence.Op, e *buckets.Entry) error {
			unit = append(unit, entryOf(op, e))
			return nil
		})
		if err != nil {
			return r.Kind(), all, err
		}
		if s.Type == persistence.GenerationSection {
			unit = generation(int64(r.Generation()))
		} else if s.Type > persistence.GenerationSection {
			unit = part(s.Type, unit...)
		}
		all = append(all, unit)
	}
}

func corrupt(offset int64, reason string) error {
	return &persistence.CorruptError{File: "a file", Offset: offset, Reason: reason}
}

func torn(offset int64, file []byte) error {
	return &persistence.TornError{File: "a file", Offset: offset, Lost: int64(len(file)) - offset}
}

var (
	baseOfOne  = units{{throttle("a", t0), window("b", t0, t0+minute, 3)}, {slide("c", minute, []int64{t0, t0 + 9}, []int64{1, 2}).until(t0 + 5)}}
	changesOne = units{{throttle("a", t0+1), forget("b")}, generation(fileGeneration + 1), {flush, throttle("d", t0)}, {forget("zeros\x00\x00")}}
)

func TestFilesRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		base := rapid.SliceOfN(rapid.SliceOfN(anySet(), 1, 5), 0, 3).Draw(t, "base")
		changes := rapid.SliceOfN(rapid.SliceOfN(anyChange(), 1, 5), 0, 3).Draw(t, "changes")
		kind := rapid.SampledFrom([]persistence.FileKind{persistence.SnapshotFile, persistence.JournalFile}).Draw(t, "kind")
		if kind == persistence.SnapshotFile {
			changes = nil
		}
		for i := range changes {
			if rapid.IntRange(0, 3).Draw(t, "another generation") == 0 {
				changes[i] = generation(fileGeneration + 1 + int64(i))
			}
		}
		file, offsets := writeFile(t, kind, base, changes)
		got, back, err := read(file)
		require.NoError(t, err)
		require.Equal(t, kind, got)
		want := append(append(append(units{}, base...), nil), changes...)
		require.Len(t, back, len(want))
		for i := range want {
			require.Equal(t, unbased(want[i]), back[i])
		}

		r, err := persistence.NewReader(bytes.NewReader(file), int64(len(file)), "a file")
		require.NoError(t, err)
		require.EqualValues(t, 3, r.Version())
		require.EqualValues(t, int64(fileGeneration), r.Generation())
		require.EqualValues(t, begun, r.Created())
		for i, offset := range offsets {
			require.Equal(t, offset, r.Offset())
			s, err := r.Next(make([]byte, 0, 40))
			if i == len(offsets)-1 {
				require.Equal(t, io.EOF, err)
				break
			}
			require.NoError(t, err)
			require.Equal(t, offset, s.Offset)
			if s.Type != persistence.GenerationSection {
				require.Len(t, want[i], s.Count)
			}
		}
	})
}

// A flipped bit is detected wherever it is, and never taken for a torn tail.
func TestEveryBitFlipIsNoticed(t *testing.T) {
	long := append(append(units{}, changesOne...), repeated(40), repeated(30)) // longer than a sector
	for name, write := range map[string]func() ([]byte, []int64){
		"snapshot":            func() ([]byte, []int64) { return writeFile(t, persistence.SnapshotFile, baseOfOne, nil) },
		"journal":             func() ([]byte, []int64) { return writeFile(t, persistence.JournalFile, baseOfOne, changesOne) },
		"journal and no base": func() ([]byte, []int64) { return writeFile(t, persistence.JournalFile, nil, changesOne) },
		"longer journal":      func() ([]byte, []int64) { return writeFile(t, persistence.JournalFile, nil, long) },
	} {
		t.Run(name, func(t *testing.T) {
			file, offsets := write()
			_, whole, err := read(file)
			require.NoError(t, err)
			for bit := range 8 * len(file) {
				file[bit/8] ^= 1 << (bit % 8)
				var all units
				used := allocated(func() { _, all, err = read(file) })
				var damage *persistence.CorruptError
				require.ErrorAs(t, err, &damage, "bit %d", bit)
				before := 0 // number of sections before the bit
				for before < len(whole) && offsets[before+1] <= int64(bit/8) {
					before++
				}
				if bit/8 < 28 {
					require.Zero(t, damage.Offset)
				} else {
					require.Equal(t, offsets[before], damage.Offset, "bit %d", bit)
				}
				require.Equal(t, whole[:before], append(units{}, all...), "what is before bit %d", bit)
				require.Less(t, used, uint64(40<<10+10*len(file)), "bit %d", bit)
				file[bit/8] ^= 1 << (bit % 8)
			}
		})
	}
}

// repeated returns a unit of n entries of 12 bytes.
func repeated(n int) (unit []entry) {
	for i := range n {
		unit = append(unit, throttle(fmt.Sprintf("%02d", i), t0))
	}
	return unit
}

func TestEveryTruncationIsNoticed(t *testing.T) {
	snapshot, _ := writeFile(t, persistence.SnapshotFile, baseOfOne, nil)
	journal, offsets := writeFile(t, persistence.JournalFile, baseOfOne, changesOne)
	ended := offsets[len(baseOfOne)+1] // offset of the end of the base
	_, whole, err := read(journal)
	require.NoError(t, err)
	var damage *persistence.CorruptError
	for n := range snapshot {
		_, _, err := read(snapshot[:n])
		require.ErrorAs(t, err, &damage, "%d bytes", n)
	}
	for n := range journal {
		_, all, err := read(journal[:n])
		if int64(n) < ended {
			require.ErrorAs(t, err, &damage, "%d bytes", n)
			continue
		}
		last := len(offsets) - 1
		for offsets[last] > int64(n) {
			last--
		}
		require.Equal(t, whole[:last], all, "%d bytes", n)
		if offsets[last] == int64(n) {
			require.NoError(t, err, "between two sections is a clean end")
		} else {
			require.Equal(t, torn(offsets[last], journal[:n]), err, "%d bytes", n)
		}
	}
}

// A file whose size reached the disk before its data ends with zeros, which begin at a sector.
func TestATailOfZeroSectorsIsTorn(t *testing.T) {
	zeroed := func(file []byte, from int64, more int) []byte {
		file = append(bytes.Clone(file), make([]byte, more)...)
		clear(file[from:])
		return file
	}
	big := append(append(units{}, changesOne...), repeated(200))
	file, offsets := writeFile(t, persistence.JournalFile, baseOfOne, big)
	last := offsets[len(offsets)-2]
	for from := (last/512 + 1) * 512; from < int64(len(file)); from += 512 {
		_, all, err := read(zeroed(file, from, 0))
		require.Equal(t, torn(last, file), err, "zeros from %d on", from)
		require.Len(t, all, len(offsets)-2, "all before it")
	}
	for _, more := range []int{1, 19, 20, 21, 5000} {
		longer := zeroed(file, last, more)
		_, _, err := read(longer)
		require.Equal(t, torn(last, longer), err, "nothing of the section, and %d more", more)
		longer = zeroed(file, (last/512+2)*512, more)
		_, _, err = read(longer)
		require.Equal(t, torn(last, longer), err, "a part of the section, and nothing of another %d bytes", more)
	}

	pad := func(n int) []byte { // returns a journal whose last section begins n bytes before a sector
		first := unitOf(1024 - n - 28 - 36 - 20)
		file, offsets := writeFile(t, persistence.JournalFile, nil, units{first, repeated(100)})
		require.EqualValues(t, 1024-n, offsets[2])
		return file
	}
	for n := range 20 {
		file := zeroed(pad(n), 1024, 0)
		_, _, err := read(file)
		require.Equal(t, torn(int64(1024-n), file), err, "of the header %d bytes", n)
	}

	var damage *persistence.CorruptError
	but := zeroed(file, (last/512+2)*512, 0)
	but[len(but)-1] = 1
	_, _, err := read(but)
	require.ErrorAs(t, err, &damage, "zeros, but for one byte")
	clear(but[len(but)/512*512+1:])
	but[len(but)/512*512] = 1
	_, _, err = read(but)
	require.ErrorAs(t, err, &damage, "zeros, but not from a sector on")
	file[len(file)-1], file[len(file)-600] = 0, 0
	_, _, err = read(file)
	require.ErrorAs(t, err, &damage, "zeros in the middle")
	base, _ := writeFile(t, persistence.JournalFile, units{repeated(200)}, nil)
	_, _, err = read(zeroed(base, 512, 0))
	require.ErrorAs(t, err, &damage, "a base is never torn: a journal is put in place when its base is on disk")
	snapshot, _ := writeFile(t, persistence.SnapshotFile, units{repeated(200)}, nil)
	_, _, err = read(zeroed(snapshot, 512, 0))
	require.ErrorAs(t, err, &damage, "neither is a snapshot")
}

// unitOf returns a unit of n bytes: one entry whose key has a length of two bytes. It requires that n is at least 132.
func unitOf(n int) []entry { return []entry{forget(strings.Repeat("x", n-3))} }

// sum writes the CRC of the other bytes into the last four bytes of b.
func sum(b []byte) {
	binary.LittleEndian.PutUint32(b[len(b)-4:], crc32.Checksum(b[:len(b)-4], crc32.MakeTable(crc32.Castagnoli)))
}

// Files that no Writer writes, although every checksum is right.
func TestWrongFilesWithRightChecksumsAreRefused(t *testing.T) {
	for _, test := range []struct {
		at     int // offset in a header, whose checksum is then corrected
		to     byte
		of     int64 // offset of the header
		offset int64
		reason string
	}{
		{0, 0, 0, 0, "it does not begin as a file of cellserver does"},
		{8, 0, 0, 0, "there is no version 0"},
		{12, 0, 0, 0, "it is neither a snapshot nor a journal"},
		{12, 3, 0, 0, "it is neither a snapshot nor a journal"},
		{17, 0x80, 0, 0, "a time beyond 64 bits"},
		{4, 0, 28, 28, "a section of an unknown type"},
		{4, 0xff, 28, 28, "a section of an unknown type"},
		{4, 4, 28, 28, "a generation of another length"},
		{4, 2, 28, 28, "a section of changes where none may be"},
		{4, 3, 28, 28, "an end of another length"},
		{7, 1, 28, 28, "bytes of a section header that have to be 0 are not"},
		{3, 0x80, 28, 28, "a section is longer than a section may be"},
		{3, 0x40, 28, 28, "a section is longer than a section may be"},
		{3, 0x20, 28, 28, "the file ends within a section of its base"},
		{8, 0, 28, 28, "a section has no entries, or more than it has bytes"},
		{8, 12, 28, 28, "a section has no entries, or more than it has bytes"},
		{8, 2, 28, 28 + 20 + 11, "entry 1 of its section: the section ends within the entry"},
		{12, 1, 28, 28, "the checksum of a section is wrong"},
		{8, 1, 28 + 31, 28 + 31, "an end of another length"},
		{4, 1, 28 + 67, 28 + 67, "a section of records where none may be"},
		{4, 3, 28 + 67, 28 + 67, "an end of another length"},
		{3, 0x41, 28 + 67, 28 + 67, "a section is longer than a section may be"},
	} {
		file, _ := writeFile(t, persistence.JournalFile, units{{throttle("a", t0)}}, units{{forget("a")}})
		header := file[test.of : test.of+20]
		if test.of == 0 {
			header = file[:28]
		}
		header[test.at] = test.to
		sum(header)
		_, _, err := read(file)
		assert.Equal(t, corrupt(test.offset, test.reason), err)
	}

	file, _ := writeFile(t, persistence.JournalFile, units{{throttle("a", t0)}}, units{{forget("a")}})
	file[28+67] = 0xff
	sum(file[28+67 : 28+67+20])
	_, _, err := read(file)
	assert.Equal(t, torn(28+67, file), err, "the length is right and the file is not")

	file = asVersion1(file, t0)
	file[14] = 1
	sum(file[:28])
	_, _, err = read(file)
	assert.Equal(t, corrupt(0, "bytes of the file's header that have to be 0 are not"), err)

	file, _ = writeFile(t, persistence.SnapshotFile, units{{forget("a")}}, nil)
	_, _, err = read(file)
	assert.Equal(t, corrupt(48, "entry 0 of its section: a change among records"), err)

	one, _ := writeFile(t, persistence.SnapshotFile, units{{throttle("a", t0)}}, nil)
	two, _ := writeFile(t, persistence.SnapshotFile, units{{throttle("a", t0)}, {throttle("b", t0)}}, nil)
	_, _, err = read(append(one[:len(one)-36:len(one)-36], two[len(two)-36:]...))
	assert.Equal(t, corrupt(28+31, "its base has 1 entries in 1 sections, and says 2 in 2"), err)
	_, _, err = read(append(one, 0))
	assert.Equal(t, corrupt(int64(len(one)), "a snapshot goes on behind its end"), err)
	_, _, err = read(one[:27])
	assert.Equal(t, corrupt(0, "is shorter than the header of a file"), err)

	one[8] = 4
	_, _, err = read(one)
	assert.Equal(t, corrupt(0, "the checksum of the file's header is wrong"), err, "a flip is not a newer version")
	one[12] = 200 // a field that a newer version may define
	sum(one[:28])
	_, _, err = read(one)
	assert.EqualError(t, err, "a file has format version 4, and this program reads up to 3: run a newer cellserver")
}

// The generation of a journal only rises, and only after its base.
func TestGenerationsOnlyRise(t *testing.T) {
	wrong := func(base units, changes ...[]entry) error {
		file, _ := writeFile(t, persistence.JournalFile, base, changes)
		_, _, err := read(file)
		return err
	}
	var damage *persistence.CorruptError
	assert.NoError(t, wrong(nil, generation(fileGeneration+1), generation(persistence.MaxGeneration)))
	assert.ErrorAs(t, wrong(nil, generation(fileGeneration)), &damage, "the same again")
	assert.ErrorAs(t, wrong(nil, generation(fileGeneration+2), generation(fileGeneration+1)), &damage, "a lower one")

	file, offsets := writeFile(t, persistence.JournalFile, nil, units{generation(fileGeneration + 1)})
	_, _, err := read(append(bytes.Clone(file[:28]), file[offsets[1]:]...))
	assert.Equal(t, corrupt(28, "a section of generation where none may be"), err, "in the base")
	_, _, err = read(asVersion1(file, t0))
	assert.Equal(t, corrupt(offsets[1], "a section of an unknown type"), err, "in version 1")

	var to bytes.Buffer
	w, err := persistence.NewWriter(&to, persistence.JournalFile, t0, 1)
	require.NoError(t, err)
	assert.Error(t, w.Generation(2), "the base has not ended")
	require.NoError(t, w.End())
	assert.Error(t, w.Generation(persistence.MaxGeneration+1))
	w, err = persistence.NewWriter(&to, persistence.SnapshotFile, t0, 1)
	require.NoError(t, err)
	require.NoError(t, w.End())
	assert.Error(t, w.Generation(2), "a snapshot has one")

	repaired, kept, lost, err := repair(append(file, file[offsets[1]:]...))
	require.NoError(t, err)
	assert.Equal(t, file, repaired, "a generation that is not higher is left out")
	assert.EqualValues(t, 1, kept)
	assert.EqualValues(t, 1, lost)
}

func TestErrorTexts(t *testing.T) {
	assert.EqualError(t, corrupt(59, "the checksum of a section is wrong"),
		"a file is corrupt at byte 59: the checksum of a section is wrong; run: cellserver check a file")
	assert.EqualError(t, torn(3, make([]byte, 10)), "a file is torn at byte 3: the last 7 bytes were not written whole")
}

func TestErrorsOfReadingAreReturned(t *testing.T) {
	file, _ := writeFile(t, persistence.JournalFile, baseOfOne, changesOne)
	_, _, err := readFrom(bytes.NewReader(file), int64(len(file)+100))
	assert.ErrorIs(t, err, io.ErrUnexpectedEOF, "a file that has become shorter is not torn")
	failing := errors.New("input/output error")
	_, _, err = readFrom(failingReaderAt{failing}, 100)
	assert.ErrorIs(t, err, failing)
}

type failingReaderAt struct{ err error }

func (r failingReaderAt) ReadAt([]byte, int64) (int, error) { return 0, r.err }

// writes records the calls of Write.
type writes struct {
	sizes     []int
	fail      error
	failAfter int // number of writes before an error; 0 means no error
	bytes.Buffer
}

func (w *writes) Write(b []byte) (int, error) {
	if w.fail != nil {
		return 0, w.fail
	}
	if w.failAfter > 0 {
		if w.failAfter--; w.failAfter == 0 {
			return 0, errBroken
		}
	}
	w.sizes = append(w.sizes, len(b))
	return w.Buffer.Write(b)
}

func TestWriterRefusesSectionsInAWrongOrder(t *testing.T) {
	a := appendAll(throttle("a", t0))
	large := bytes.Repeat(a, 10_000)
	var to writes
	_, err := persistence.NewWriter(&to, 3, t0, 0)
	assert.Error(t, err, "no such kind")
	_, err = persistence.NewWriter(&to, persistence.JournalFile, t0, 1<<48)
	assert.Error(t, err, "no room for the generation")
	w, err := persistence.NewWriter(&to, persistence.JournalFile, t0, 0)
	require.NoError(t, err)
	assert.Error(t, w.Changes(a, 1), "before the base has ended")
	assert.NoError(t, w.Records(nil, 0))
	assert.Error(t, w.Records(a, 0), "bytes and no entry")
	assert.Error(t, w.Records(nil, 1), "an entry and no bytes")
	assert.Error(t, w.Records(a, len(a)+1), "more entries than bytes")
	assert.Error(t, w.Records(make([]byte, persistence.MaxPayload+1), 1), "too long")
	require.NoError(t, w.Records(a, 1))
	require.NoError(t, w.Records(large, 10_000))
	require.NoError(t, w.End())
	assert.Error(t, w.Records(a, 1), "after the base has ended")
	assert.Error(t, w.End(), "a second time")
	assert.NoError(t, w.Changes(nil, 0))
	require.NoError(t, w.Changes(a, 1))
	assert.Equal(t, []int{28, 20 + 11, 20, len(large), 36, 20 + 11}, to.sizes, "a write for each section, two for a large one")
	assert.EqualValues(t, to.Len(), w.Offset())

	resumed := persistence.ResumeJournal(&to, int64(to.Len()))
	assert.Error(t, resumed.Records(a, 1))
	require.NoError(t, resumed.Changes(a, 1))
	assert.EqualValues(t, to.Len(), resumed.Offset())
	_, all, err := read(to.Bytes())
	require.NoError(t, err)
	assert.Len(t, all, 5)

	to.fail = errors.New("no space left on device")
	assert.Equal(t, to.fail, resumed.Changes(a, 1))
	failed := to.fail
	to.fail = nil
	assert.Equal(t, failed, resumed.Changes(a, 1), "for ever: there may be a part of a section in the file")
	assert.Equal(t, failed, resumed.Changes(nil, 0))
	assert.EqualValues(t, to.Len(), resumed.Offset(), "where the whole part ends")

	snapshot, err := persistence.NewWriter(io.Discard, persistence.SnapshotFile, t0, 0)
	require.NoError(t, err)
	require.NoError(t, snapshot.End())
	assert.Error(t, snapshot.Changes(a, 1), "a snapshot has none")
	_, err = persistence.NewWriter(iotest.TruncateWriter(io.Discard, 3), persistence.SnapshotFile, t0, 0)
	assert.NoError(t, err, "that one claims to have written all")
	_, err = persistence.NewWriter(shortWriter{}, persistence.SnapshotFile, t0, 0)
	assert.Equal(t, io.ErrShortWrite, err)
}

type shortWriter struct{}

func (shortWriter) Write(b []byte) (int, error) { return len(b) - 1, nil }

// asVersion1 gives a file the header of version 1.
func asVersion1(file []byte, created int64) []byte {
	file = bytes.Clone(file)
	binary.LittleEndian.PutUint32(file[8:], 1)
	clear(file[13:16])
	binary.LittleEndian.PutUint64(file[16:], uint64(created))
	sum(file[:28])
	return file
}

// asVersion2 makes a file one of version 2. It requires that it has nothing that version 2 has not.
func asVersion2(file []byte) []byte {
	file = bytes.Clone(file)
	binary.LittleEndian.PutUint32(file[8:], 2)
	sum(file[:28])
	return file
}

// The contents of the golden files. Those of version 1 were written by version 1 and are never written again.
var goldenBase = units{
	{
		throttle("user:1", 1704067260000000000),
		throttle("user:2", 1704067261500000000).until(1704067200123456789),
		throttle("", math64),
		window("login:alice", 1704067200000000000, 1704067260000000000, 5),
		window("quota\x00\xff", -1, 1, 1<<62).until(-5),
	},
	{
		slide("sms:1", minute, []int64{1704067200000000000, 1704067200000000001, 1704067201000000000}, []int64{1, 1, 1}),
		slide("sms:2", buckets.MaxPeriod, []int64{1704067200000000000, 1704067200000000000}, []int64{300, 1}).until(1704153600000000000),
		slide(strings.Repeat("k", 200), 1, []int64{-9}, []int64{1}),
	},
}

const math64 = int64(-1 << 63)

var goldenChanges = units{
	{throttle("user:1", 1704067262000000000), forget("login:alice")},
	{flush},
	{flush, window("login:alice", 1704067205000000000, 1704067265000000000, 1), forget("nobody")},
	{slide("sms:1", 2*minute, []int64{1704067200000000000}, []int64{7})},
}

// goldenAmends are amendments, which version 1 did not have.
var goldenAmends = units{
	{
		amend("sms:1", minute, 1704067200000000000, 1704067200000000000, []int64{1704067200000000001, 1704067203000000000}, []int64{1, 1}),
		amend("sms:1", minute, 1704067200000000001, 1704067203000000000, []int64{1704067204000000000}, []int64{300}).until(1704067264000000000),
		amend("sms:2", buckets.MaxPeriod, -5, 1704067200000000000, nil, nil),
	},
	part(persistence.FirstSection, flush, throttle("user:1", 1704067262000000000)),
	part(persistence.MoreSection, throttle("user:2", 1704067262000000000)),
	part(persistence.MoreSection, forget("user:1")),
	part(persistence.LastSection, throttle("user:3", 1704067262000000000)),
}

// goldenRecords3 and goldenChanges3 are what version 2 did not have.
var (
	goldenRecords3 = []entry{
		counter("hits:1", 42, 1704067260000000000),
		counter("hits:2", -1<<63, buckets.NoExpiry),
		float("rate\x00", -0.1, 1704067260000000001),
		float("inf", math.Inf(1), buckets.NoExpiry),
		throttle("user:1", 1704067260000000000).in(1),
		slide("sms:1", minute, []int64{1704067200000000000}, []int64{1}).until(1704067230000000000).in(300),
		counter("hits:1", 43, 1704067260000000000).in(15),
	}
	goldenChanges3 = units{
		{swap(0, 1), flushOf(15), flushOf(0), counter("hits:1", 1, 1704067262000000000), forget("user:1").in(1)},
		{
			counter("hits:3", 0, buckets.NoExpiry).in(1), swap(1, 300), flushOf(300), float("rate", 1e300, 1704067262000000000).in(300),
			amend("sms:1", minute, 1704067200000000000, 1704067200000000000, []int64{1704067201000000000}, []int64{1}).in(1),
		},
	}
)

func TestGoldenFilesAreReadAndWritten(t *testing.T) {
	for _, test := range []struct {
		name    string
		kind    persistence.FileKind
		changes units
		version uint32
	}{
		{"testdata/golden-v1.snapshot", persistence.SnapshotFile, nil, 1},
		{"testdata/golden-v1.journal", persistence.JournalFile, goldenChanges, 1},
		{"testdata/golden-v2.snapshot", persistence.SnapshotFile, nil, 2},
		{"testdata/golden-v2.journal", persistence.JournalFile, goldenChanges, 2},
		{"testdata/golden-v3.snapshot", persistence.SnapshotFile, nil, 3},
		{"testdata/golden-v3.journal", persistence.JournalFile, goldenChanges, 3},
	} {
		t.Run(test.name, func(t *testing.T) {
			base := goldenBase
			if test.version >= 2 && test.kind == persistence.JournalFile {
				test.changes = append(test.changes[:1:1], append(units{generation(fileGeneration + 5)}, test.changes[1:]...)...)
				test.changes = append(test.changes, goldenAmends...)
			}
			if test.version >= 3 {
				base = append(base[:len(base):len(base)], goldenRecords3)
				if test.kind == persistence.JournalFile {
					test.changes = append(test.changes, goldenChanges3...)
				}
			}
			made, _ := writeFile(t, test.kind, base, test.changes)
			switch test.version {
			case 1:
				made = asVersion1(made, t0)
			case 2:
				made = asVersion2(made)
			}
			if _, err := os.Stat(test.name); *update && os.IsNotExist(err) {
				require.NoError(t, os.WriteFile(test.name, made, 0o644))
			}
			file, err := os.ReadFile(test.name)
			require.NoError(t, err)
			kind, all, err := read(file)
			require.NoError(t, err)
			assert.Equal(t, test.kind, kind)
			assert.Equal(t, append(append(append(units{}, base...), nil), test.changes...), all)
			assert.Equal(t, hex.Dump(file), hex.Dump(made), "this version is written as it ever was")
		})
	}
}

// The fields of the example in FORMAT.md with their meaning. Their bytes together are the file that the example
// describes.
func TestTheExampleOfTheFormatIsRight(t *testing.T) {
	created := int64(1704067200000000000)
	var b bytes.Buffer
	w, err := persistence.NewWriter(&b, persistence.JournalFile, created, 7)
	require.NoError(t, err)
	base := []entry{throttle("user123", created+2e9), window("w", created, created+minute, 5).until(created + 3e9)}
	require.NoError(t, w.Records(appendAll(base...), len(base)))
	require.NoError(t, w.End())
	changes := []entry{slide("login", minute, []int64{created, created + 5e8}, []int64{1, 2}), forget("user123")}
	require.NoError(t, w.Changes(appendAll(changes...), len(changes)))

	var text strings.Builder
	at := 0
	for _, field := range []struct {
		bytes int // 0 for a line without bytes
		says  string
	}{
		{0, "the file"},
		{8, `magic: \x89 "CELL" CR LF \x1a`}, {4, "version 3"}, {1, "a journal"},
		{5, "created: 1704067200 s, 2024-01-01 00:00:00 UTC"}, {6, "generation 7"}, {4, "CRC32C of the 24 bytes before"},
		{0, "its base: one section of records"},
		{4, "43 bytes of payload"}, {1, "records"}, {3, "zeros"}, {4, "2 entries"}, {4, "CRC32C of the payload"}, {4, "CRC32C of the 16 bytes before"},
		{1, "throttle, no deadline"}, {8, `key: 7 bytes, "user123"`}, {8, "TAT: created + 2 s"},
		{1, "window, with a deadline"}, {2, `key: 1 byte, "w"`}, {8, "deadline: created + 3 s"},
		{8, "start: created"}, {6, "end - start: 60000000000 ns"}, {1, "used: 5"},
		{0, "the end of the base"},
		{4, "16 bytes of payload"}, {1, "end"}, {3, "zeros"}, {4, "no entries"}, {4, "CRC32C of the payload"}, {4, "CRC32C of the 16 bytes before"},
		{8, "2 entries in all"}, {8, "1 section of records"},
		{0, "the changes of one moment"},
		{4, "40 bytes of payload"}, {1, "changes"}, {3, "zeros"}, {4, "2 entries"}, {4, "CRC32C of the payload"}, {4, "CRC32C of the 16 bytes before"},
		{1, "slide, no deadline"}, {6, `key: 5 bytes, "login"`}, {6, "period: 60000000000 ns"}, {1, "flag: quantities are written down"},
		{1, "2 records"}, {8, "first time: created"}, {2, "at the first time, 1"}, {6, "500000000 ns later, 2"},
		{1, "delete"}, {8, `key: 7 bytes, "user123"`},
	} {
		if field.bytes == 0 {
			fmt.Fprintf(&text, "    # %s\n", field.says)
			continue
		}
		require.LessOrEqual(t, at+field.bytes, b.Len())
		fmt.Fprintf(&text, "    %04x  %-24s %s\n", at, fmt.Sprintf("% x", b.Bytes()[at:at+field.bytes]), field.says)
		at += field.bytes
	}
	require.Equal(t, b.Len(), at, "each byte is explained")
	golden.Section(t, "FORMAT.md", "example", "\n"+text.String()+"\n", *update)
}
