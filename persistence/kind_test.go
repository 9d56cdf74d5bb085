package persistence_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"cellserver/buckets"
)

// FORMAT.md gives 4, 14 and 15 to the entries that are no states, and 0 to nothing.
func TestKindsHaveCodesThatNoOtherEntryHas(t *testing.T) {
	taken := map[byte]string{0: "nothing", 4: "amend", 14: "delete", 15: "flush"}
	for _, kind := range buckets.Kinds() {
		code := kind.Code()
		assert.Empty(t, taken[code], "the code %d of %s", code, kind)
		assert.LessOrEqual(t, code, byte(buckets.CodeBits), "the code of %s", kind)
		assert.Equal(t, kind, buckets.KindOfCode(code))
		taken[code] = kind.String()
	}
}
