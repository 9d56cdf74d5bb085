// Package counter reads the options of the commands on counters, and computes what they do to the state of a key: Redis's
// commands on strings, for values that are integers. It knows nothing of connections and replies.
package counter

import (
	"bytes"
	"math"

	"cellserver/buckets"
)

// Fault is why a command was refused, as the client reads it.
type Fault string

// Error returns the text.
func (f Fault) Error() string { return string(f) }

// The faults, in Redis's words.
const (
	ErrNotInteger Fault = "ERR value is not an integer or out of range"
	// ErrValue is the fault of a value that Redis would keep, and this server does not.
	ErrValue          Fault = ErrNotInteger + " (cellserver keeps counters and limits, not data)"
	ErrOverflow       Fault = "ERR increment or decrement would overflow"
	ErrDecrementRange Fault = "ERR decrement would overflow"
	ErrBounds         Fault = "ERR LBOUND must not be above UBOUND"
	ErrENX            Fault = "ERR ENX flag requires an expiration"
)

// HoldsString reports whether st holds nothing or what TYPE calls a string; anything else is of another type to every command
// on counters.
func HoldsString(st *buckets.State) bool { return st.Kind == buckets.None || st.Kind.KeepsExpiry() }

// Integer returns the integer that st holds, 0 if it holds nothing. Its errors are buckets.ErrWrongKind and ErrNotInteger.
func Integer(st *buckets.State) (int64, error) {
	switch {
	case st.Kind == buckets.Counter:
		return st.Words[0], nil
	case st.Kind == buckets.None:
		return 0, nil
	case !HoldsString(st):
		return 0, buckets.ErrWrongKind
	}
	return 0, ErrNotInteger
}

// Set makes st hold an integer. It keeps the expiry that st has if keep is set, and gives it the given one otherwise.
func Set(st *buckets.State, value, expiry int64, keep bool) {
	if keep && st.Kind.KeepsExpiry() {
		expiry = st.Expiry()
	}
	*st = buckets.Counted(value, expiry)
}

// Add adds delta to the integer that st holds, and keeps its expiry. Its errors are those of Integer, and ErrOverflow.
func Add(st *buckets.State, delta int64) (sum int64, err error) {
	n, err := Integer(st)
	if err != nil {
		return 0, err
	}
	sum = n + delta
	if sum < n != (delta < 0) {
		return 0, ErrOverflow
	}
	Set(st, sum, buckets.NoExpiry, true)
	return sum, nil
}

// Same reports whether text is that of the number which st holds.
func Same(st *buckets.State, text []byte) bool {
	var room [32]byte
	return st.Kind.KeepsExpiry() && bytes.Equal(st.AppendValue(room[:0]), text)
}

// digitsOf returns how many bytes the text of the number has that st holds.
func digitsOf(st *buckets.State) int {
	var room [32]byte
	return len(st.AppendValue(room[:0]))
}

// saturated returns the sum of n and delta, or the end of int64 that it is beyond.
func saturated(n, delta int64) (sum int64, beyond bool) {
	sum = n + delta
	if sum < n == (delta < 0) {
		return sum, false
	}
	if delta < 0 {
		return math.MinInt64, true
	}
	return math.MaxInt64, true
}
