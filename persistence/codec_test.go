package persistence_test

import (
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"cellserver/buckets"
	"cellserver/persistence"
)

// entry is a copy of a decoded entry, for comparisons.
type entry struct {
	Op       persistence.Op
	Database int
	With     int
	Key      string
	Kind     buckets.Kind
	Deadline int64
	TAT      int64
	Window   buckets.WindowState
	Number   [2]int64 // of a counter, and its expiry
	Log      log
	Kept     buckets.Kept
}

// log is a buckets.Log with an arbitrary base of its running sums.
type log struct {
	period     int64
	times      []int64
	quantities []int64
	base       uint64
}

func (g log) Len() int         { return len(g.times) }
func (g log) Time(i int) int64 { return g.times[i] }
func (g log) Period() int64    { return g.period }
func (g log) Before(i int) uint64 {
	sum := g.base
	for _, q := range g.quantities[:i] {
		sum += uint64(q)
	}
	return sum
}

// entryOf copies the arguments of visit.
func entryOf(op persistence.Op, e *buckets.Entry) entry {
	kept := entry{Op: op, Database: e.Database, With: e.With, Key: string(e.Key), Kind: e.Kind, Deadline: e.Deadline, Kept: e.Kept}
	switch e.Kind {
	case buckets.Throttle:
		kept.TAT = e.Words[0]
	case buckets.Window:
		kept.Window = e.Window()
	case buckets.Counter, buckets.Float:
		kept.Number = [2]int64(e.Words[:2])
	}
	if e.Log != nil {
		kept.Log.period = e.Log.Period()
		for i := range e.Log.Len() {
			kept.Log.times = append(kept.Log.times, e.Log.Time(i))
			kept.Log.quantities = append(kept.Log.quantities, int64(e.Log.Before(i+1)-e.Log.Before(i)))
		}
	}
	return kept
}

func (e entry) append(dst []byte) []byte {
	switch e.Op {
	case persistence.OpDelete:
		return persistence.AppendDelete(dst, e.Database, []byte(e.Key))
	case persistence.OpFlushAll:
		return persistence.AppendFlushAll(dst)
	case persistence.OpFlush:
		return persistence.AppendFlush(dst, e.Database)
	case persistence.OpSwap:
		return persistence.AppendSwap(dst, e.Database, e.With)
	}
	of := buckets.Entry{Database: e.Database, Key: []byte(e.Key), Deadline: e.Deadline}
	switch e.Kind {
	case buckets.Throttle:
		of.State = buckets.Throttled(e.TAT)
	case buckets.Window:
		of.State = buckets.Windowed(e.Window)
	case buckets.Slide:
		of.State, of.Kept = buckets.Logged(e.Log), e.Kept
	case buckets.Counter, buckets.Float:
		of.State = buckets.State{Kind: e.Kind, Words: [buckets.MaxWords]int64{e.Number[0], e.Number[1]}}
	}
	if e.Op == persistence.OpAmend {
		return persistence.AppendAmend(dst, &of)
	}
	return persistence.AppendSet(dst, &of)
}

func appendAll(entries ...entry) (payload []byte) {
	for _, e := range entries {
		payload = e.append(payload)
	}
	return payload
}

func decode(payload []byte, count int) (entries []entry, err error) {
	err = persistence.DecodeEntries(payload, count, func(op persistence.Op, e *buckets.Entry) error {
		entries = append(entries, entryOf(op, e))
		return nil
	})
	return entries, err
}

// One entry of each type, with times that are easy to recognise in hex.
const (
	t0     = int64(0x1800000000000000) // some time in 2024
	minute = int64(60e9)
)

func throttle(key string, tat int64) entry {
	return entry{Key: key, Kind: buckets.Throttle, TAT: tat}
}

func window(key string, start, end, used int64) entry {
	return entry{Key: key, Kind: buckets.Window, Window: buckets.WindowState{Start: start, End: end, Used: used}}
}

func slide(key string, period int64, times, quantities []int64) entry {
	return entry{Key: key, Kind: buckets.Slide, Log: log{period: period, times: times, quantities: quantities}}
}

func (e entry) until(deadline int64) entry {
	e.Deadline = deadline
	return e
}

// amend returns the amendment of a log that keeps the records between two times and adds others.
func amend(key string, period, oldest, newest int64, times, quantities []int64) entry {
	e := slide(key, period, times, quantities)
	e.Op, e.Kept = persistence.OpAmend, buckets.Kept{Oldest: oldest, Newest: newest}
	return e
}

func forget(key string) entry { return entry{Op: persistence.OpDelete, Key: key} }

var flush = entry{Op: persistence.OpFlushAll}

func counter(key string, value, expiry int64) entry {
	return entry{Key: key, Kind: buckets.Counter, Number: [2]int64{value, expiry}}
}

func float(key string, value float64, expiry int64) entry {
	return entry{Key: key, Kind: buckets.Float, Number: [2]int64{int64(math.Float64bits(value)), expiry}}
}

// in gives an entry to a database.
func (e entry) in(db int) entry {
	e.Database = db
	return e
}

func flushOf(db int) entry { return entry{Op: persistence.OpFlush, Database: db} }

func swap(a, b int) entry { return entry{Op: persistence.OpSwap, Database: a, With: b} }

// anyDatabase draws the number of a database, which is often 0.
var anyDatabase = rapid.OneOf(rapid.Just(0), rapid.IntRange(0, 20), rapid.IntRange(0, math.MaxInt32))

// anySet draws an entry that sets a state. Some of these states would not occur in a store but can be written.
func anySet() *rapid.Generator[entry] {
	return rapid.Custom(func(t *rapid.T) entry {
		e := entry{Database: anyDatabase.Draw(t, "database"), Key: string(rapid.SliceOfN(rapid.Byte(), 0, 300).Draw(t, "key"))}
		e.Kind = rapid.SampledFrom(buckets.Kinds()).Draw(t, "kind")
		if !e.Kind.KeepsExpiry() && rapid.Bool().Draw(t, "with a deadline") {
			e.Deadline = rapid.Int64().Draw(t, "deadline")
		}
		switch e.Kind {
		case buckets.Throttle:
			e.TAT = rapid.Int64().Draw(t, "tat")
		case buckets.Window:
			start := rapid.Int64Range(math.MinInt64, math.MaxInt64-1).Draw(t, "start")
			end := rapid.Int64Range(start+1, math.MaxInt64).Draw(t, "end")
			e.Window = buckets.WindowState{Start: start, End: end, Used: rapid.Int64Range(1, math.MaxInt64).Draw(t, "used")}
		case buckets.Slide:
			e.Log.period = rapid.Int64Range(1, buckets.MaxPeriod).Draw(t, "period")
			e.Log.base = rapid.Uint64().Draw(t, "base")
			at, left := rapid.Int64().Draw(t, "first time"), int64(math.MaxInt64)
			ones := rapid.Bool().Draw(t, "all of one")
			for i := range rapid.IntRange(1, 50).Draw(t, "records") {
				if i > 0 { // several records at one time, as after the clock was set back
					at = rapid.Int64Range(at, min(at, math.MaxInt64-minute)+minute).Draw(t, "time")
				}
				quantity := int64(1)
				if !ones {
					quantity = rapid.Int64Range(1, left/2).Draw(t, "quantity")
				}
				left -= quantity
				e.Log.times, e.Log.quantities = append(e.Log.times, at), append(e.Log.quantities, quantity)
				if left < 4 {
					break
				}
			}
		case buckets.Counter, buckets.Float:
			e.Number[0] = rapid.Int64().Draw(t, "value")
			if e.Kind == buckets.Float && buckets.CountedFloat(math.Float64frombits(uint64(e.Number[0])), 1).Kind == buckets.Counter {
				e.Number[0] = int64(math.Float64bits(0.5)) // the text of what was drawn is that of an integer
			}
			e.Number[1] = rapid.OneOf(rapid.Just(buckets.NoExpiry), rapid.Int64Range(1, math.MaxInt64)).Draw(t, "expiry")
		default:
			t.Fatalf("no state of the kind %s is drawn here", e.Kind)
		}
		return e
	})
}

// anyChange draws an entry of a journal other than a flush of all databases.
func anyChange() *rapid.Generator[entry] {
	anyDelete := rapid.Custom(func(t *rapid.T) entry {
		return forget(rapid.String().Draw(t, "key")).in(anyDatabase.Draw(t, "database"))
	})
	anySwap := rapid.Custom(func(t *rapid.T) entry {
		a := rapid.IntRange(0, math.MaxInt32-1).Draw(t, "a")
		return swap(a, rapid.IntRange(a+1, math.MaxInt32).Draw(t, "b"))
	})
	return rapid.OneOf(anySet(), anyAmend(), anyDelete, rapid.Map(anyDatabase, flushOf), anySwap)
}

// anyAmend draws an entry that amends a log.
func anyAmend() *rapid.Generator[entry] {
	return rapid.Custom(func(t *rapid.T) entry {
		e := entry{Op: persistence.OpAmend, Database: anyDatabase.Draw(t, "database"), Kind: buckets.Slide, Key: string(rapid.SliceOfN(rapid.Byte(), 0, 300).Draw(t, "key"))}
		if rapid.Bool().Draw(t, "with a deadline") {
			e.Deadline = rapid.Int64Range(1, math.MaxInt64).Draw(t, "deadline")
		}
		e.Log.period = rapid.Int64Range(1, buckets.MaxPeriod).Draw(t, "period")
		e.Log.base = rapid.Uint64().Draw(t, "base")
		e.Kept.Oldest = rapid.Int64Range(math.MinInt64, math.MaxInt64/2).Draw(t, "oldest")
		e.Kept.Newest = rapid.Int64Range(e.Kept.Oldest, math.MaxInt64/2).Draw(t, "newest")
		at, most := e.Kept.Newest, rapid.SampledFrom([]int64{1, 3, math.MaxInt64 / 64}).Draw(t, "most")
		for range rapid.IntRange(0, 20).Draw(t, "records") {
			at = rapid.Int64Range(at+1, at+minute).Draw(t, "time")
			e.Log.times = append(e.Log.times, at)
			e.Log.quantities = append(e.Log.quantities, rapid.Int64Range(1, most).Draw(t, "quantity"))
		}
		return e
	})
}

// unbased returns the entries as decoding returns them: the base of running sums is not stored.
func unbased(entries []entry) []entry {
	var as []entry
	for _, e := range entries {
		e.Log.base = 0
		as = append(as, e)
	}
	return as
}

func TestEntriesRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		entries := rapid.SliceOfN(anyChange(), 0, 20).Draw(t, "entries")
		if rapid.Bool().Draw(t, "after a flush") {
			entries = append([]entry{flush}, entries...)
		}
		payload := appendAll(entries...)
		back, err := decode(payload, len(entries))
		require.NoError(t, err)
		require.Equal(t, unbased(entries), back)
		require.Equal(t, payload, appendAll(back...), "one encoding")
	})
}

// The bytes of entries according to FORMAT.md. They never change.
func TestEntriesHaveTheBytesOfTheFormat(t *testing.T) {
	for _, test := range []struct {
		entry entry
		want  string
		shows string
	}{
		{throttle("k", t0), "01 01 6b 0000000000000018", "a TAT"},
		{throttle("0123456789abc", t0), "01 0d 30313233343536373839616263 0000000000000018", "23 bytes for a key of 13"},
		{throttle("", -1).until(t0), "81 00 0000000000000018 ffffffffffffffff", "no key, a deadline, a time before 1970"},
		{window("w", t0, t0+300, 128), "02 01 77 0000000000000018 ac02 8001", "a length rather than an end"},
		{window("w", t0, t0+1, math.MaxInt64).until(t0), "82 01 77 0000000000000018 0000000000000018 01 ffffffffffffffff7f", "most used"},
		{slide("s", 60, []int64{t0, t0 + 1, t0 + 3}, []int64{1, 1, 1}), "03 01 73 3c 00 03 0000000000000018 00 01 02", "differences, no quantities"},
		{slide("s", 60, []int64{t0, t0}, []int64{1, 200}), "03 01 73 3c 01 02 0000000000000018 00 01 00 c801", "quantities, and one time twice"},
		{amend("s", 60, t0, t0+300, []int64{t0 + 301, t0 + 303}, []int64{1, 1}), "04 01 73 3c 00 0000000000000018 ac02 02 01 02", "what remains, and two new records"},
		{amend("s", 60, t0, t0, []int64{t0 + 1}, []int64{200}).until(t0), "84 01 73 0000000000000018 3c 01 0000000000000018 00 01 01 c801", "a record that remains, and a quantity"},
		{amend("s", 60, t0, t0+1, nil, nil), "04 01 73 3c 00 0000000000000018 01 00", "nothing new"},
		{forget("abc"), "0e 03 616263", "a delete"},
		{flush, "0f", "a flush of all databases"},
		{counter("c", 1, t0), "05 01 63 02 0000000000000018", "a counter"},
		{counter("c", -129, buckets.NoExpiry), "05 01 63 8102 ffffffffffffff7f", "a negative counter that never expires"},
		{counter("c", math.MinInt64, 1), "05 01 63 ffffffffffffffffff01 0100000000000000", "the lowest counter"},
		{float("f", 0.5, t0), "06 01 66 000000000000e03f 0000000000000018", "a float"},
		{throttle("k", t0).in(1), "41 01 01 6b 0000000000000018", "database 1"},
		{throttle("k", t0).until(t0 + 1).in(300), "c1 ac02 01 6b 0100000000000018 0000000000000018", "database 300, and a deadline"},
		{amend("s", 60, t0, t0+1, nil, nil).in(2), "44 02 01 73 3c 00 0000000000000018 01 00", "an amendment in database 2"},
		{forget("abc").in(15), "4e 0f 03 616263", "a delete in database 15"},
		{flushOf(0), "0d", "a flush of database 0"},
		{flushOf(200), "4d c801", "a flush of database 200"},
		{swap(0, 1), "0c 01", "a swap with database 0"},
		{swap(3, 200), "4c 03 c801", "a swap of two other databases"},
	} {
		t.Run(test.shows, func(t *testing.T) {
			want := strings.ReplaceAll(test.want, " ", "")
			got := appendAll(test.entry)
			assert.Equal(t, want, hex.EncodeToString(got))
			back, err := decode(got, 1)
			require.NoError(t, err)
			assert.Equal(t, []entry{test.entry}, back)
		})
	}
}

func TestMalformedEntriesAreRefused(t *testing.T) {
	const time = "0000000000000018"
	for _, test := range []struct {
		payload string
		count   int
		index   int
		offset  int
		reason  string
	}{
		{"", 1, 0, 0, "the section ends within the entry"},
		{"0f", 0, 0, 0, "1 bytes after the last entry"},
		{"0e0161 00", 1, 1, 3, "1 bytes after the last entry"},
		{"0e0161 0e0262", 2, 1, 3, "the section ends within the entry"},
		{"00", 1, 0, 0, "unknown op byte 0x00"},
		{"41 00 00" + time, 1, 0, 0, "a number of a database that is 0, or beyond 31 bits"},
		{"41 8080808008 00" + time, 1, 0, 0, "a number of a database that is 0, or beyond 31 bits"},
		{"41 8000 00" + time, 1, 0, 0, "a number in more bytes than it needs"},
		{"41", 1, 0, 0, "the section ends within the entry"},
		{"4f 01", 1, 0, 0, "unknown op byte 0x4f"},
		{"40 01", 1, 0, 0, "unknown op byte 0x40"},
		{"8c 01", 1, 0, 0, "unknown op byte 0x8c"},
		{"8d", 1, 0, 0, "unknown op byte 0x8d"},
		{"0c", 1, 0, 0, "the section ends within the entry"},
		{"0c 00", 1, 0, 0, "a number of a database that is 0, or beyond 31 bits"},
		{"4c 02 02", 1, 0, 0, "a swap of databases that are not in ascending order"},
		{"4c 02 01", 1, 0, 0, "a swap of databases that are not in ascending order"},
		{"4d 00", 1, 0, 0, "a number of a database that is 0, or beyond 31 bits"},
		{"85 00" + time + "02" + time, 1, 0, 0, "unknown op byte 0x85"},
		{"86 00" + time + time + time, 1, 0, 0, "unknown op byte 0x86"},
		{"c5 01 00" + time + "02" + time, 1, 0, 0, "unknown op byte 0xc5"},
		{"05 00 8000" + time, 1, 0, 0, "a number in more bytes than it needs"},
		{"05 00 02 0000000000000000", 1, 0, 0, "an expiry that is not after 0"},
		{"05 00 02 ffffffffffffffff", 1, 0, 0, "an expiry that is not after 0"},
		{"05 00 02 000000000000", 1, 0, 0, "the section ends within the entry"},
		{"06 00 000000000000f03f" + time, 1, 0, 0, "a float that is an integer"},
		{"06 00 000000000000e03f 0000000000000000", 1, 0, 0, "an expiry that is not after 0"},
		{"11 00" + time, 1, 0, 0, "unknown op byte 0x11"},
		{"8e0161", 1, 0, 0, "unknown op byte 0x8e"},
		{"8f", 1, 0, 0, "unknown op byte 0x8f"},
		{"0e0161 0f", 2, 1, 3, "a flush of all databases that is not the first entry"},
		{"0f 0f", 2, 1, 1, "a flush of all databases that is not the first entry"},
		{"01", 1, 0, 0, "the section ends within the entry"},
		{"01 01", 1, 0, 0, "the section ends within the entry"},
		{"01 8000" + time, 1, 0, 0, "a number in more bytes than it needs"},
		{"01 ffffffffffffffffff01" + time, 1, 0, 0, "the section ends within the entry"},
		{"01 ffffffffffffffffff02" + time, 1, 0, 0, "a number of more than 64 bits"},
		{"01 ff", 1, 0, 0, "the section ends within the entry"},
		{"01 00 00000000000018", 1, 0, 0, "the section ends within the entry"},
		{"81 00 0000000000000000" + time, 1, 0, 0, "a deadline of 0"},
		{"81 00" + time, 1, 0, 0, "the section ends within the entry"},
		{"02 00" + time + "00 01", 1, 0, 0, "a window that ends as it starts"},
		{"02 00" + time + "01 00", 1, 0, 0, "a window whose use is 0 or beyond 63 bits"},
		{"02 00" + time + "01 80808080808080808001", 1, 0, 0, "a window whose use is 0 or beyond 63 bits"},
		{"02 00 ffffffffffffff7f 01 01", 1, 0, 0, "a time beyond 64 bits"},
		{"02 00" + time + "01", 1, 0, 0, "the section ends within the entry"},
		{"03 00 00 00 01" + time + "00", 1, 0, 0, "a period of 0, or beyond the longest"},
		{"03 00 ffffffffffffffff7f 00 01" + time + "00", 1, 0, 0, "a period of 0, or beyond the longest"},
		{"03 00 01 02 01" + time + "00", 1, 0, 0, "an unknown flag of a log"},
		{"03 00 01 00 00" + time, 1, 0, 0, "an empty log"},
		{"03 00 01 00 02" + time + "00", 1, 0, 0, "the section ends within the entry"},
		{"03 00 01 00 ffffffffffffffffff01" + time + "00", 1, 0, 0, "the section ends within the entry"},
		{"03 00 01 01 01" + time + "00", 1, 0, 0, "the section ends within the entry"},
		{"03 00 01 00 01" + time + "01", 1, 0, 0, "a first record that is not at the first time"},
		{"03 00 01 00 02" + time + "00 80", 1, 0, 0, "the section ends within the entry"},
		{"03 00 01 00 02 ffffffffffffff7f 00 01", 1, 0, 0, "a time beyond 64 bits"},
		{"03 00 01 01 01" + time + "00 00", 1, 0, 0, "a quantity of 0, or a sum beyond 63 bits"},
		{"03 00 01 01 02" + time + "00 ffffffffffffffff7f 00 01", 1, 0, 0, "a quantity of 0, or a sum beyond 63 bits"},
		{"03 00 01 01 02" + time + "00 01 00 01", 1, 0, 0, "quantities written down though all are 1"},
		{"04", 1, 0, 0, "the section ends within the entry"},
		{"84 00 0000000000000000 01 00" + time + "00 00", 1, 0, 0, "a deadline of 0"},
		{"04 00 00 00" + time + "00 00", 1, 0, 0, "a period of 0, or beyond the longest"},
		{"04 00 01 02" + time + "00 00", 1, 0, 0, "an unknown flag of a log"},
		{"04 00 01 00 ffffffffffffff7f 01 00", 1, 0, 0, "a time beyond 64 bits"},
		{"04 00 01 00" + time + "00 01", 1, 0, 0, "the section ends within the entry"},
		{"04 00 01 00" + time + "00 01 00", 1, 0, 0, "a new record that is not later than those that remain"},
		{"04 00 01 01" + time + "00 00", 1, 0, 0, "quantities written down though all are 1"},
		{"04 00 01 01" + time + "00 01 01 01", 1, 0, 0, "quantities written down though all are 1"},
		{"04 00 01 01" + time + "00 01 01 00", 1, 0, 0, "a quantity of 0, or a sum beyond 63 bits"},
	} {
		t.Run(test.payload, func(t *testing.T) {
			payload, err := hex.DecodeString(strings.ReplaceAll(test.payload, " ", ""))
			require.NoError(t, err)
			entries, err := decode(payload, test.count)
			assert.Equal(t, &persistence.EntryError{Index: test.index, Offset: test.offset, Reason: test.reason}, err)
			assert.Len(t, entries, min(test.index, test.count), "those before it have been visited")
			assert.EqualError(t, err, fmt.Sprintf("entry %d, at byte %d of its section: %s", test.index, test.offset, test.reason))
		})
	}
}

func TestAnErrorOfVisitEndsDecoding(t *testing.T) {
	enough := errors.New("enough")
	visits := 0
	err := persistence.DecodeEntries(appendAll(forget("a"), forget("b"), forget("c")), 3,
		func(persistence.Op, *buckets.Entry) error {
			if visits++; visits == 2 {
				return enough
			}
			return nil
		})
	assert.Equal(t, enough, err)
	assert.Equal(t, 2, visits)
}

func TestAnEntryWithoutABucketPanics(t *testing.T) {
	assert.Panics(t, func() { persistence.AppendSet(nil, &buckets.Entry{Key: []byte("k")}) })
	assert.Panics(t, func() {
		persistence.AppendSet(nil, &buckets.Entry{Key: []byte("k"), Deadline: t0, State: buckets.Counted(1, t0)})
	}, "a deadline beside the expiry of a counter")
}

// allocated returns how many bytes f allocates.
func allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

func ignore(persistence.Op, *buckets.Entry) error { return nil }

// The declared numbers of records and of entries may be anything.
func TestDecodingAllocatesInProportionToThePayload(t *testing.T) {
	payload := appendAll(slide("s", 60, []int64{t0}, []int64{1}))
	payload = append(payload[:5], 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01)
	payload = append(payload, make([]byte, 1000)...)
	assert.Less(t, allocated(func() {
		assert.Error(t, persistence.DecodeEntries(payload, math.MaxInt32, ignore))
	}), uint64(10*len(payload)+4096))
}

func TestCodecDoesNotAllocate(t *testing.T) {
	dst := make([]byte, 0, 1<<10)
	key := []byte("0123456789abc")
	of := buckets.Entry{Key: key, Deadline: t0, State: buckets.Logged(log{60, []int64{t0, t0 + 1}, []int64{1, 2}, 0})}
	counted := buckets.Entry{Database: 3, Key: key, State: buckets.Counted(-7, buckets.NoExpiry)}
	assert.Zero(t, testing.AllocsPerRun(100, func() {
		for _, of.Kind = range []buckets.Kind{buckets.Throttle, buckets.Window, buckets.Slide} {
			dst = persistence.AppendSet(dst[:0], &of)
		}
		dst = persistence.AppendSet(dst[:0], &counted)
		dst = persistence.AppendAmend(dst, &of)
		dst = persistence.AppendFlushAll(persistence.AppendDelete(dst, 3, key))
		dst = persistence.AppendSwap(persistence.AppendFlush(dst, 3), 2, 1)
	}))
	payload := manyThrottles(1000)
	assert.LessOrEqual(t, testing.AllocsPerRun(100, func() {
		assert.NoError(t, persistence.DecodeEntries(payload, 1000, ignore))
	}), 1.0, "for a thousand entries")
}

// manyThrottles returns the payload of n entries with keys of 13 bytes.
func manyThrottles(n int) (payload []byte) {
	for i := range n {
		payload = throttle(fmt.Sprintf("key:%09d", i), t0+int64(i)).append(payload)
	}
	return payload
}

func BenchmarkAppendSet(b *testing.B) {
	b.ReportAllocs()
	e := buckets.Entry{Key: []byte("0123456789abc"), State: buckets.Throttled(t0)}
	dst := make([]byte, 0, 100)
	for b.Loop() {
		dst = persistence.AppendSet(dst[:0], &e)
	}
	b.ReportMetric(float64(len(dst)), "bytes")
}

// One operation is one entry.
func BenchmarkDecodeThrottle(b *testing.B) {
	const n = 1000
	payload := manyThrottles(n)
	b.ReportAllocs()
	sum := int64(0)
	for i := 0; i < b.N; i += n {
		err := persistence.DecodeEntries(payload, n, func(_ persistence.Op, e *buckets.Entry) error {
			sum += e.Words[0]
			return nil
		})
		if err != nil {
			b.Fatal(err)
		}
	}
}
