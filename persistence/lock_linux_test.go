package persistence

import (
	"bufio"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestTheHolderOfALockIsFound(t *testing.T) {
	const locks = `1: POSIX  ADVISORY  WRITE 11 08:01:131090 0 EOF
2: FLOCK  ADVISORY  WRITE 12 08:01:131091 0 EOF
2: -> FLOCK  ADVISORY  WRITE 13 08:01:131090 0 EOF
3: FLOCK  ADVISORY  WRITE 14 08:01:131090 0 EOF
4: FLOCK  ADVISORY  WRITE 0 08:01:131092 0 EOF
nonsense
`
	for _, c := range []struct {
		dev, inode uint64
		pid        string
	}{
		{0x801, 131090, "14"},
		{0x801, 131091, "12"},
		{0x801, 131092, ""}, // another container's
		{0x802, 131090, ""},
		{0x801, 13109, ""},
	} {
		assert.Equal(t, c.pid, holderIn(bufio.NewScanner(strings.NewReader(locks)), c.dev, c.inode), "%+v", c)
	}
}
