package load

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestRepetitionAcceptsItsTextInAnyPieces(t *testing.T) {
	const text = "+OK\r\n"
	const copies = 40_000 // more than the repetition keeps
	for _, size := range []int{1, 3, 5, 7, 64 << 10, len(text) * copies} {
		r := newRepetition(text)
		for rest := strings.Repeat(text, copies); rest != ""; {
			piece := rest[:min(size, len(rest))]
			n, err := r.Write([]byte(piece))
			require.NoError(t, err)
			require.Equal(t, len(piece), n)
			rest = rest[n:]
		}
		assert.EqualValues(t, copies*len(text), r.bytes.Load())
	}
}

func TestRepetitionRefusesAnotherText(t *testing.T) {
	for _, wrong := range []string{"+KO\r\n", "OK\r\n", "+OK\r\n\r\n", "+OK\r\n+OK\n"} {
		_, err := newRepetition("+OK\r\n").Write([]byte(wrong))
		assert.Error(t, err, "%q", wrong)
	}
}
