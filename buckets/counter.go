package buckets

import (
	"encoding/binary"
	"math"
	"strconv"
)

// A counter is a number that requests set and change: what Redis keeps as a string. No limit decides on it.
//
// The state is the number and the time at which the key expires. A Counter is a signed integer of 64 bits; a Float is a
// float64 (IEEE 754 binary64), which only scripts leave behind that compute in one, as Lua does. A float64 whose text is that
// of an integer is a Counter: so a number has one state, and Redis, which keeps the text, cannot tell them apart either.

// NoExpiry is the expiry of a key that never expires.
const NoExpiry int64 = math.MaxInt64

// Counted returns the state of a Counter: its value, and when it expires in nanoseconds of Unix time, or NoExpiry.
func Counted(value, expiry int64) State {
	return State{Kind: Counter, Words: [MaxWords]int64{value, expiry}}
}

// CountedFloat returns the state that holds value: a Float, or a Counter if the text of value is that of an
// integer. expiry is in nanoseconds of Unix time, or NoExpiry.
func CountedFloat(value float64, expiry int64) State {
	if n, ok := IntegerOf(value); ok {
		return Counted(n, expiry)
	}
	return State{Kind: Float, Words: [MaxWords]int64{int64(math.Float64bits(value)), expiry}}
}

// IntegerOf returns the integer whose text AppendFloat appends for value, if it is one.
func IntegerOf(value float64) (n int64, ok bool) {
	if math.Abs(value) >= 1e17 || value != math.Trunc(value) || value == 0 && math.Signbit(value) {
		return 0, false // the text has an exponent, a fraction, or is -0; NaN is not equal to itself
	}
	return int64(value), true
}

// AppendValue appends the number that st holds, as text. It requires a Counter or a Float.
func (st *State) AppendValue(dst []byte) []byte {
	if st.Kind == Float {
		return AppendFloat(dst, math.Float64frombits(uint64(st.Words[0])))
	}
	return strconv.AppendInt(dst, st.Words[0], 10)
}

// AppendFloat appends the text that Redis's scripts make of a number that they store: C's %.17g (ISO C, 7.21.6.1).
func AppendFloat(dst []byte, value float64) []byte {
	switch {
	case math.IsInf(value, 1):
		return append(dst, "inf"...)
	case math.IsInf(value, -1):
		return append(dst, "-inf"...)
	case math.IsNaN(value):
		if math.Signbit(value) {
			return append(dst, "-nan"...)
		}
		return append(dst, "nan"...)
	}
	return strconv.AppendFloat(dst, value, 'g', 17, 64)
}

// Expiry returns when the key expires, in nanoseconds of Unix time, or NoExpiry. It requires a kind that KeepsExpiry.
func (st *State) Expiry() int64 { return st.Words[1] }

// SetExpiry sets when the key expires. It requires a kind that KeepsExpiry.
func (st *State) SetExpiry(at int64) { st.Words[1] = at }

// errExpiry is the flaw of an expiry that no counter has.
const errExpiry = "an expiry that is not after 0"

var (
	counterRow = algorithm{
		name: "counter", typeName: "string", encoding: "int", words: 2, keepsExpiry: true, code: 5,
		fullAt: (*State).Expiry,
		encode: func(dst []byte, st *State) []byte {
			dst = binary.AppendVarint(dst, st.Words[0])
			return binary.LittleEndian.AppendUint64(dst, uint64(st.Words[1]))
		},
		decode: func(d *Decoder, st *State) {
			zigzag := d.Uvarint()
			st.Words[0] = int64(zigzag>>1) ^ -int64(zigzag&1)
			st.Words[1] = d.Int64()
			d.FailIf(st.Words[1] <= 0, errExpiry)
		},
		fields: func(dst []Field, st *State, _ int64) []Field {
			return append(dst, Field{Name: "value", Value: st.Words[0]})
		},
	}
	floatRow = algorithm{
		name: "counter", typeName: "string", encoding: "embstr", words: 2, keepsExpiry: true, code: 6,
		fullAt: (*State).Expiry,
		encode: func(dst []byte, st *State) []byte {
			dst = binary.LittleEndian.AppendUint64(dst, uint64(st.Words[0]))
			return binary.LittleEndian.AppendUint64(dst, uint64(st.Words[1]))
		},
		decode: func(d *Decoder, st *State) {
			st.Words[0], st.Words[1] = d.Int64(), d.Int64()
			_, integer := IntegerOf(math.Float64frombits(uint64(st.Words[0])))
			d.FailIf(integer, "a float that is an integer")
			d.FailIf(st.Words[1] <= 0, errExpiry)
		},
		fields: func(dst []Field, st *State, _ int64) []Field {
			return append(dst, Field{Name: "value", Text: string(st.AppendValue(nil))})
		},
	}
)
