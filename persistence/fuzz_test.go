package persistence_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"cellserver/persistence"
)

const fileHeaderBytes = 28

// mend corrects the checksums of a file as far as its lengths lead, so that mutated input gets past them.
func mend(file []byte) {
	if len(file) < 28 {
		return
	}
	sum(file[:28])
	for rest := file[28:]; len(rest) >= 20; {
		length := int(binary.LittleEndian.Uint32(rest))
		whole := length <= len(rest)-20
		if whole {
			payload := rest[20 : 20+length]
			binary.LittleEndian.PutUint32(rest[12:], crc32.Checksum(payload, crc32.MakeTable(crc32.Castagnoli)))
		}
		sum(rest[:20])
		if !whole {
			return
		}
		rest = rest[20+length:]
	}
}

// Any bytes as a file: what the Reader accepts is written again as the same bytes, and what Repair writes can be read.
func FuzzReader(f *testing.F) {
	for _, name := range []string{"testdata/golden-v1.snapshot", "testdata/golden-v1.journal", "testdata/golden-v2.snapshot", "testdata/golden-v2.journal",
		"testdata/golden-v3.snapshot", "testdata/golden-v3.journal"} {
		file, err := os.ReadFile(name)
		require.NoError(f, err)
		f.Add(file, false)
		f.Add(file[:len(file)-7], true)
		f.Add(append(file, make([]byte, 600)...), true)
	}
	small, _ := writeFile(f, persistence.JournalFile, baseOfOne, changesOne)
	f.Add(small, true)
	none, _ := writeFile(f, persistence.SnapshotFile, nil, nil)
	f.Add(none, true)
	f.Fuzz(func(t *testing.T, file []byte, mended bool) {
		if mended {
			file = bytes.Clone(file)
			mend(file)
		}
		kind, all, err := read(file)
		whole := len(file)
		var tail *persistence.TornError
		if errors.As(err, &tail) {
			require.Equal(t, persistence.JournalFile, kind)
			require.EqualValues(t, len(file), tail.Offset+tail.Lost)
			require.Positive(t, tail.Lost)
			whole = int(tail.Offset)
		}
		sound := err == nil || tail != nil
		if sound {
			require.Equal(t, file[:whole], again(t, file, kind, all))
		}
		var report persistence.Report
		var checkErr error
		used := allocated(func() { report, checkErr = check(file) })
		require.Less(t, used, uint64(256<<10+12*len(file)))
		require.Equal(t, err == nil || tail != nil, checkErr == nil)
		require.Equal(t, tail, report.Torn)

		repaired, _, lost, err := repair(file)
		if err != nil {
			require.False(t, sound)
			require.Empty(t, repaired)
			return
		}
		after, err := check(repaired)
		require.NoError(t, err)
		require.Nil(t, after.Torn)
		if sound {
			from := 0
			if report.Version < 3 { // Repair writes the current version
				from = fileHeaderBytes
			}
			require.Equal(t, file[from:whole], repaired[from:min(whole, len(repaired))])
			require.Equal(t, tail != nil, lost > 0)
		}
	})
}

// again writes the contents of a file that was read.
func again(t *testing.T, file []byte, kind persistence.FileKind, all units) []byte {
	var b bytes.Buffer
	r, err := persistence.NewReader(bytes.NewReader(file), int64(len(file)), "a file")
	require.NoError(t, err)
	w, err := persistence.NewWriter(&b, kind, r.Created(), r.Generation())
	require.NoError(t, err)
	ended := false
	for _, u := range all {
		switch {
		case ended:
			err = writeChanges(w, u)
		case len(u) == 0:
			ended = true
			err = w.End()
		default:
			err = w.Records(appendAll(u...), len(u))
		}
		require.NoError(t, err)
	}
	switch r.Version() {
	case 1:
		return asVersion1(b.Bytes(), r.Created())
	case 2:
		return asVersion2(b.Bytes())
	}
	return b.Bytes()
}

// Any bytes as a payload: the decoded entries encode to the same bytes.
func FuzzEntries(f *testing.F) {
	for _, u := range append(append(append(units{}, goldenBase...), goldenChanges...), goldenAmends[0], goldenRecords3, goldenChanges3[1]) {
		f.Add(appendAll(u...), len(u))
		f.Add(appendAll(u...), len(u)+1)
	}
	f.Add([]byte{}, 0)
	f.Fuzz(func(t *testing.T, payload []byte, count int) {
		var entries []entry
		var err error
		used := allocated(func() { err = persistence.DecodeEntries(payload, count, ignore) })
		require.Less(t, used, uint64(64<<10+10*len(payload)))
		entries, err2 := decode(payload, count)
		require.Equal(t, err, err2)
		back := appendAll(entries...)
		require.True(t, bytes.HasPrefix(payload, back))
		if err == nil {
			require.Len(t, back, len(payload))
			require.Len(t, entries, max(count, 0))
		}
	})
}
