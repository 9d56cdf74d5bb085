package cluster

import (
	"bytes"
	"encoding/hex"
	"math"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"cellserver/buckets"
)

// values are what keys hold in the engine, and what that means. They must stay readable.
var values = []struct {
	name  string
	value string // in hexadecimal
	record
}{
	{"no key", "", record{}},
	{"a throttle", "01 0700000000000000", record{state: buckets.Throttled(7)}},
	{"a throttle with a deadline", "81 0600000000000000 0700000000000000", record{state: buckets.Throttled(7), deadline: 6}},
	{"a counter that stays", "05 04 ffffffffffffff7f", record{state: buckets.Counted(2, buckets.NoExpiry)}},
	{"a counter that expires", "05 03 0900000000000000", record{state: buckets.Counted(-2, 9)}},
	{"a float", "06 000000000000e03f 0900000000000000", record{state: buckets.CountedFloat(0.5, 9)}},
	{"a log", "03 64 00 01 0500000000000000 00", record{state: buckets.Logged(buckets.NewAdmissions(100, buckets.Admission{At: 5, Quantity: 1}))}},
}

func unhex(t testing.TB, s string) []byte {
	b, err := hex.DecodeString(string(bytes.ReplaceAll([]byte(s), []byte(" "), nil)))
	require.NoError(t, err)
	return b
}

func TestValues(t *testing.T) {
	for _, row := range values {
		value := unhex(t, row.value)
		assert.Equal(t, value, row.appendValue([]byte{}, 1), row.name)
		var r record
		require.NoError(t, r.parse(value), row.name)
		assert.Equal(t, row.deadline, r.deadline, row.name)
		assert.Equal(t, row.state.AppendFields(nil, 1), r.state.AppendFields(nil, 1), row.name)
		assert.Equal(t, row.expiry(), r.expiry(), row.name)
	}
}

// What cellserver does not write is foreign, and leaves a record that is no key.
func TestForeignValues(t *testing.T) {
	for name, value := range map[string]string{
		"a number of Redis":                "31 30",
		"an unknown kind":                  "0f 0700000000000000",
		"a bit that means nothing":         "41 0700000000000000",
		"an alien bit beside the deadline": "c1 0600000000000000 0700000000000000",
		"only a kind":                      "01",
		"only a deadline":                  "81 0600000000000000",
		"cut short":                        "01 07000000000000",
		"too long":                         "01 0700000000000000 00",
		"a deadline of 0":                  "81 0000000000000000 0700000000000000",
		"a deadline before 0":              "81 ffffffffffffffff 0700000000000000",
		"a deadline at the end":            "81 0700000000000000 0700000000000000",
		"an end of 0":                      "01 0000000000000000",
		"an end before 0":                  "01 00000000000000ff",
		"a deadline of a counter":          "85 0600000000000000 04 0700000000000000",
		"a log of billions of records":     "03 64 00 ffffffff0f 0500000000000000 00",
	} {
		r := values[2].record
		assert.Equal(t, buckets.ErrForeignValue, r.parse(unhex(t, value)), name)
		assert.Equal(t, record{}, r, name)
	}
}

// FuzzValue reads any bytes. What is read is written as the same bytes, so a compare-and-set compares records.
func FuzzValue(f *testing.F) {
	for _, row := range values {
		f.Add(unhex(f, row.value), int64(1))
	}
	f.Add([]byte("12345"), int64(math.MaxInt64))
	f.Fuzz(func(t *testing.T, value []byte, now int64) {
		var r record
		given := bytes.Clone(value)
		err := r.parse(given)
		require.Equal(t, value, given, "the value is not changed")
		clear(given) // the record shares no memory with it
		if err != nil {
			require.Equal(t, buckets.ErrForeignValue, err)
			require.Equal(t, record{}, r)
			return
		}
		again := r.appendValue([]byte{}, 0)
		require.True(t, bytes.Equal(value, again), "%x became %x", value, again)
		if now < 1 {
			return
		}
		at := r.load(now)
		require.GreaterOrEqual(t, at, now)
		require.LessOrEqual(t, at-now, maxSkew)
		if r.state.Kind == buckets.None {
			require.Equal(t, record{}, r)
			return
		}
		require.False(t, r.state.Ahead(at))
		require.Greater(t, r.expiry(), at)
		var other record
		loaded := r.appendValue(nil, at)
		require.NoError(t, other.parse(loaded), "what is loaded can be stored")
		require.Equal(t, loaded, other.appendValue(nil, at))
	})
}

// The time of a key does not go back, but the time of the engine may be set back.
func TestLoad(t *testing.T) {
	window := func(start, end int64) buckets.State {
		return buckets.Windowed(buckets.WindowState{Start: start, End: end, Used: 1})
	}
	const now = 100 * maxSkew
	for _, row := range []struct {
		name         string
		before, then record
		at           int64
	}{
		{"no key", record{}, record{}, now},
		{"one that lives", record{window(now, now+1), 0}, record{window(now, now+1), 0}, now},
		{"one that ends now", record{window(1, now), 0}, record{}, now},
		{"one whose deadline is now", record{window(1, now+1), now}, record{}, now},
		{"one that was decided on later", record{window(now+maxSkew, now+2*maxSkew), 0}, record{window(now+maxSkew, now+2*maxSkew), 0}, now + maxSkew},
		{"one that was decided on later, and has expired then", record{window(now+5, now+20), now + 4}, record{}, now + 5},
		{"one from before the clock was set back", record{window(now+maxSkew+1, now+maxSkew+11), 0}, record{window(now, now+10), 0}, now},
		{"one from before that, with a deadline", record{window(now+maxSkew+1, now+maxSkew+11), now + 10}, record{window(now, now+10), 0}, now},
	} {
		assert.Equal(t, row.at, row.before.load(now), row.name)
		assert.Equal(t, row.then, row.before, row.name)
	}
}

// A bucket that was emptied at a later time is decided at that time: nothing is given back because of what clocks differ by.
func TestTimeForARequest(t *testing.T) {
	const now, interval = 100 * maxSkew, 10
	five := mustLimit(buckets.NewThrottle(4, 1, interval))
	other := mustLimit(buckets.NewWindow(5, interval))
	full := now + 5*interval // the TAT of a bucket that is empty at now
	for _, row := range []struct {
		name  string
		state buckets.State
		limit *buckets.Limit
		want  int64
	}{
		{"no key", buckets.State{}, five, now},
		{"a bucket that is not empty", buckets.Throttled(full - 1), five, now},
		{"one that is", buckets.Throttled(full), five, now},
		{"one that was emptied later", buckets.Throttled(full + 1), five, now + 1},
		{"one that was emptied as much later as clocks may differ", buckets.Throttled(full + maxSkew), five, now + maxSkew},
		{"one of a larger limit, which is cut", buckets.Throttled(full + maxSkew + 1), five, now},
		{"another kind", buckets.Throttled(full + 1), other, now},
	} {
		r := record{state: row.state}
		assert.Equal(t, row.want, r.timeFor(row.limit, now), row.name)
	}
}
