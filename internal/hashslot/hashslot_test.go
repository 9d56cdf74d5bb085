package hashslot_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"cellserver/internal/hashslot"
)

// The first slot is the check value of the specification: CRC-16/XMODEM of "123456789" is 0x31C3. The others are what
// CLUSTER KEYSLOT of Redis 7.0 answers.
func TestSlots(t *testing.T) {
	for _, row := range []struct {
		key  string
		slot int
	}{
		{"123456789", 0x31c3},
		{"", 0},
		{"foo", 12182},
		{"{foo}.following", 12182},
		{"foo{}{bar}", 8363},
		{"foo{{bar}}zap", 4015},
		{"foo{bar}{zap}", 5061},
	} {
		assert.EqualValues(t, row.slot, hashslot.Of([]byte(row.key)), row.key)
	}
}
