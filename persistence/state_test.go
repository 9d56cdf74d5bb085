package persistence_test

import (
	"bytes"
	"os"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"cellserver/buckets"
	"cellserver/persistence"
)

// The states of the golden files encode to bytes that are in the files, and decode from these bytes.
func TestStatesOfGoldenFilesRoundTrip(t *testing.T) {
	for _, name := range []string{"testdata/golden-v1.snapshot", "testdata/golden-v2.snapshot", "testdata/golden-v2.journal", "testdata/golden-v3.snapshot", "testdata/golden-v3.journal"} {
		t.Run(name, func(t *testing.T) {
			data, err := os.ReadFile(name)
			require.NoError(t, err)
			f, err := persistence.NewReader(bytes.NewReader(data), int64(len(data)), name)
			require.NoError(t, err)
			kinds := make(map[buckets.Kind]int)
			for buf := []byte(nil); ; {
				s, err := f.Next(buf)
				if err != nil {
					break // the end section, which other tests cover
				}
				require.NoError(t, f.Entries(s, func(op persistence.Op, e *buckets.Entry) error {
					if op != persistence.OpSet {
						return nil
					}
					kinds[e.Kind]++
					b, err := e.AppendBinary(nil)
					require.NoError(t, err)
					assert.True(t, bytes.Contains(data, b[1:]), "the file has the bytes of %q without their code", e.Key)
					var st buckets.State
					require.NoError(t, st.UnmarshalBinary(b))
					again, err := st.AppendBinary(nil)
					require.NoError(t, err)
					assert.Equal(t, b, again)
					return nil
				}))
			}
			for _, kind := range buckets.Kinds() {
				if !kind.KeepsExpiry() || f.Version() >= 3 {
					assert.Positive(t, kinds[kind], "the file has a %s", kind)
				}
			}
		})
	}
}
