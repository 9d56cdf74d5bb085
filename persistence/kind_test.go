package persistence_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"cellserver/buckets"
	"cellserver/persistence"
)

// otherCodes are the codes that FORMAT.md gives to entries that are not states.
var otherCodes = map[byte]string{4: "amend", 12: "swap", 13: "flush of a database", 14: "delete", 15: "flush"}

func TestKindsHaveCodesThatNoOtherEntryHas(t *testing.T) {
	taken := map[byte]string{0: "nothing"}
	for code, name := range otherCodes {
		taken[code] = name
	}
	for _, kind := range buckets.Kinds() {
		code := kind.Code()
		assert.Empty(t, taken[code], "the code %d of %s", code, kind)
		assert.LessOrEqual(t, code, byte(buckets.CodeBits), "the code of %s", kind)
		assert.Equal(t, kind, buckets.KindOfCode(code))
		taken[code] = kind.String()
	}
}

func TestUnknownEntryCodesAreRefused(t *testing.T) {
	for op := range 256 {
		code := byte(op) &^ (0x80 | 0x40)
		if otherCodes[code] != "" || buckets.KindOfCode(code) != buckets.None {
			continue
		}
		err := persistence.DecodeEntries([]byte{byte(op), 1}, 1, ignore)
		assert.Equal(t, &persistence.EntryError{Reason: fmt.Sprintf("unknown op byte 0x%02x", op)}, err)
	}
}

// A program that does not know a kind must report a file with that kind as one of a newer version, and not as corrupt. So
// a new kind needs a new version of the format, and golden files of that version.
func TestANewKindNeedsANewVersionOfTheFormat(t *testing.T) {
	kindsOf := map[uint32][]buckets.Kind{3: {buckets.Throttle, buckets.Window, buckets.Slide, buckets.Counter, buckets.Float}}
	file, _ := writeFile(t, persistence.SnapshotFile, nil, nil)
	report, err := check(file)
	require.NoError(t, err)
	assert.Equal(t, kindsOf[report.Version], buckets.Kinds(), "the kinds of version %d", report.Version)
	for _, kind := range []persistence.FileKind{persistence.SnapshotFile, persistence.JournalFile} {
		assert.FileExists(t, fmt.Sprintf("testdata/golden-v%d.%s", report.Version, kind))
	}
}
