package buckets

import (
	"encoding"
	"encoding/hex"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var (
	_ encoding.BinaryAppender    = (*State)(nil)
	_ encoding.BinaryUnmarshaler = (*State)(nil)
)

// encodedStates are states and their encodings according to persistence/FORMAT.md.
var encodedStates = []struct {
	name  string
	state State
	bytes string
}{
	{"throttle", Throttled(0x0102030405060708), "01" + "0807060504030201"},
	{"throttle before 1970", Throttled(-1), "01" + "ffffffffffffffff"},
	{"window", Windowed(WindowState{Start: 1, End: 201, Used: 300}), "02" + "0100000000000000" + "c801" + "ac02"},
	{"zslide of ones", Logged(NewAdmissions(1000, Admission{5, 1}, Admission{5, 1}, Admission{133, 1})), "03" + "e807" + "00" + "03" + "0500000000000000" + "00" + "00" + "8001"},
	{"zslide with quantities", Logged(NewAdmissions(1000, Admission{5, 1}, Admission{6, 7})), "03" + "e807" + "01" + "02" + "0500000000000000" + "00" + "01" + "01" + "07"},
}

func TestStatesHaveTheBytesOfTheFormat(t *testing.T) {
	for _, row := range encodedStates {
		t.Run(row.name, func(t *testing.T) {
			b, err := row.state.AppendBinary([]byte("before"))
			require.NoError(t, err)
			assert.Equal(t, row.bytes, hex.EncodeToString(b[len("before"):]))
			var st State
			require.NoError(t, st.UnmarshalBinary(b[len("before"):]))
			requireEqualStates(t, &row.state, &st)
			for n := range len(b) - len("before") {
				require.Error(t, st.UnmarshalBinary(b[len("before"):][:n]), "cut short after %d bytes", n)
				require.Equal(t, State{}, st)
			}
			require.Error(t, st.UnmarshalBinary(append(b[len("before"):], 0)), "bytes after the state")
		})
	}
}

func TestStateThatHoldsNothingHasNoEncoding(t *testing.T) {
	for name, st := range map[string]State{
		"no kind": {}, "a kind that is not known": {Kind: 200}, "no log": {Kind: Slide}, "an empty log": Logged(NewAdmissions(5)),
	} {
		b, err := st.AppendBinary([]byte("before"))
		assert.Error(t, err, name)
		assert.Equal(t, "before", string(b), name)
	}
}

func requireEqualStates(t testing.TB, want, got *State) {
	require.Equal(t, want.Kind, got.Kind)
	require.Equal(t, want.Words, got.Words)
	require.Equal(t, want.FullAt(), got.FullAt())
	require.Equal(t, want.AppendFields(nil, 10), got.AppendFields(nil, 10))
	if want.Log == nil {
		require.Nil(t, got.Log)
		return
	}
	require.Equal(t, want.Log.Period(), got.Log.Period())
	require.Equal(t, want.Log.Len(), got.Log.Len())
	for i := range want.Log.Len() {
		require.Equal(t, want.Log.Time(i), got.Log.Time(i))
		require.Equal(t, want.Log.Before(i+1)-want.Log.Before(i), got.Log.Before(i+1)-got.Log.Before(i))
	}
}

// Bytes that decode to a state encode to the same bytes again, share no memory with the state, and give a state that can
// be used. All other bytes return an error and the zero state.
func FuzzStateBinary(f *testing.F) {
	for _, row := range encodedStates {
		b, err := hex.DecodeString(row.bytes)
		require.NoError(f, err)
		f.Add(b)
	}
	f.Add([]byte{})
	f.Add([]byte{4, 1, 1})
	f.Fuzz(func(t *testing.T, b []byte) {
		var st State
		given := append([]byte(nil), b...)
		if err := st.UnmarshalBinary(given); err != nil {
			require.Equal(t, State{}, st)
			return
		}
		clear(given)
		again, err := st.AppendBinary(nil)
		require.NoError(t, err)
		require.Equal(t, b, again)
		var other State
		require.NoError(t, other.UnmarshalBinary(again))
		requireEqualStates(t, &st, &other)
		l := map[Kind]Limit{Throttle: throttle(t, 5, 3, 1000), Window: window(t, 5, 1000), Slide: slide(t, 5, 1000)}[st.Kind]
		for _, now := range []int64{0, 1 << 40, 1 << 61} {
			var d Decision
			st.Peek(&l, now, 1, &d)
			if other.Ahead(now) {
				other.Clamp(now)
				require.False(t, other.Ahead(now))
			}
			_, err := other.Take(&l, now, 1, 1<<20, &d)
			require.NoError(t, err)
		}
	})
}
