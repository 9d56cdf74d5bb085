package buckets

import (
	"encoding/binary"
	"fmt"
	"hash/maphash"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// epoch is the time t=0 of the tables: far enough from 0 to be a real time, and no multiple of a day.
const epoch = int64(1_700_000_123) * 1e9

const second = int64(time.Second)

// shapes are the stores every contract runs on.
var shapes = []int{1, 8, 256}

// tiny makes the rare happen in every run: blocks of 64 bytes, so that they fill, are emptied and given back and that
// records have blocks of their own, and two bits of a tag in a slot, so that other keys' records are looked into.
var tiny = geometry{blockShift: 4, placeBits: 30}

// sweepAll sweeps until every shard has been seen to.
func sweepAll(s *Store, now int64) {
	for !s.Sweep(now).Round {
	}
}

func eachShape(t *testing.T, run func(t *testing.T, s *Store)) {
	for _, shards := range shapes {
		t.Run(fmt.Sprintf("%d shards", shards), func(t *testing.T) {
			s := newStore(shards, tiny, maphash.MakeSeed())
			run(t, s)
			check(t, s)
		})
	}
}

// check walks the whole store: every slot of the index points at one record, which is found there; the blocks are records
// and pieces without gaps, and every piece that should be is in its list; sizes add up; every deadline is earlier than the
// full bucket, and no bucket is kept that need not be.
func check(t *testing.T, s *Store) {
	t.Helper()
	held := int64(0)
	for n := range s.shards {
		sh := &s.shards[n]
		sh.mu.Lock()
		tb := &sh.table
		require.Equal(t, tb.bytes(), sh.counted)
		held += int64(tb.bytes())
		checkArena(t, &tb.arena)

		places := make(map[uint32]bool)
		filled := 0
		for _, content := range tb.slots {
			if content != emptySlot {
				filled++
			}
			if content > removedSlot {
				require.False(t, places[tb.place(content)], "two slots point at one record")
				places[tb.place(content)] = true
			}
		}
		require.Equal(t, tb.filled, filled)
		if tb.count > 0 {
			require.Less(t, filled, len(tb.slots), "or a search would not end")
		}
		require.Len(t, places, tb.count)
		records, deadlines := 0, 0
		tb.each(func(place uint32, r []byte) {
			records++
			require.True(t, places[place], "a record that no slot points at")
			hash, shard := s.locate(keyOf(r))
			require.Equal(t, n, shard)
			require.Equal(t, place, tb.find(hash, keyOf(r)))
			if at := tb.deadline(place); at != 0 {
				deadlines++
				var st state
				require.Less(t, at, st.full(tb.load(place, &st)))
			}
			checkState(t, tb, place)
		})
		require.Equal(t, tb.count, records)
		require.Len(t, tb.deadlines, deadlines)
		sh.mu.Unlock()
	}
	require.Equal(t, held, s.budget.used.Load(), "the budget knows what is held")
}

func checkState(t *testing.T, tb *table, place uint32) {
	t.Helper()
	var st state
	switch tb.load(place, &st) {
	case Throttle:
	case Window:
		require.Positive(t, st.window.Used)
		require.Less(t, st.window.Start, st.window.End)
	case Slide:
		g := &st.log
		require.Positive(t, g.Len())
		require.LessOrEqual(t, g.n, g.size)
		require.Less(t, g.first, g.size)
		require.Len(t, g.memory, logBytes(g.size, g.width, g.sums))
		require.Equal(t, g.newest, g.Time(g.n-1))
		for i := range g.Len() {
			require.Positive(t, int64(g.Before(i+1)-g.Before(i)))
			if i > 0 {
				require.Less(t, g.Time(i-1), g.Time(i), "in order, simultaneous ones merged")
			}
		}
	default:
		require.Fail(t, "a record of no kind")
	}
}

func checkArena(t *testing.T, a *arena) {
	t.Helper()
	listed := make(map[uint32]bool)
	for class := range classes {
		if a.pieces == nil {
			break
		}
		previous := uint32(0)
		for place := a.pieces[class]; place != 0; place = binary.LittleEndian.Uint32(a.at(place)[4:]) {
			require.False(t, listed[place], "a piece is listed once")
			listed[place] = true
			require.Equal(t, class, classIn(pieceUnits(a.at(place))))
			require.Equal(t, previous, binary.LittleEndian.Uint32(a.at(place)[8:]))
			previous = place
		}
		require.Equal(t, previous != 0, a.listed[class>>6]>>(class&63)&1 == 1)
	}
	size, live := 0, 0
	for b, block := range a.blocks {
		size += cap(block)
		lives := 0
		for at := 0; at < len(block); at += unitsOf(block[at:]) * unit {
			units, place := unitsOf(block[at:]), uint32(b)<<a.shift+uint32(at/unit)
			require.LessOrEqual(t, at+units*unit, len(block), "what begins in a block ends in it")
			if block[at] != 0 {
				lives += units * unit
				continue
			}
			require.Equal(t, units >= listedUnits, listed[place], "a piece is listed")
			delete(listed, place)
		}
		require.Equal(t, a.lives[b], lives)
		live += lives
		if block == nil {
			require.True(t, b == 0 || slices.Contains(a.vacant, uint32(b)))
		} else if b != a.open && cap(block) <= a.blockBytes() {
			require.Less(t, cap(block)-len(block), unit, "only the open block has room at its end")
		}
	}
	require.Empty(t, listed, "a piece that is nowhere")
	require.Equal(t, a.size, size)
	require.Equal(t, a.live, live)
}

func throttle(t testing.TB, burst, count, period int64) Limit {
	l, err := NewThrottle(burst, count, period)
	require.NoError(t, err)
	return l
}

func window(t testing.TB, limit, period int64) Limit {
	l, err := NewWindow(limit, period)
	require.NoError(t, err)
	return l
}

func aligned(t testing.TB, limit, period, offset int64) Limit {
	l, err := NewAlignedWindow(limit, period, offset)
	require.NoError(t, err)
	return l
}

func slide(t testing.TB, limit, period int64) Limit {
	l, err := NewSlide(limit, period)
	require.NoError(t, err)
	return l
}

// reply is a Decision as the wire shows it: limited, limit, remaining, retry_after and reset_after in whole seconds.
type reply [5]int64

func shown(d Decision) reply {
	r := reply{0, d.Limit, d.Remaining, Never, CeilDiv(d.ResetAfter, second)}
	if d.Limited {
		r[0] = 1
	}
	if d.RetryAfter != Never {
		r[3] = CeilDiv(d.RetryAfter, second)
	}
	return r
}

// row is one request: when it comes (seconds after epoch), what it asks, what it is to be answered, and what that shows.
type row struct {
	at       float64
	limit    Limit
	quantity int64
	peek     bool
	want     reply
	shows    string
}

func runRows(t *testing.T, rows []row) {
	eachShape(t, func(t *testing.T, s *Store) {
		for i, r := range rows {
			now := epoch + int64(math.Round(r.at*1e9))
			d, err := s.Take(now, []byte("k"), r.limit, r.quantity, r.peek)
			require.NoError(t, err)
			assert.Equal(t, r.want, shown(d), "row %d: %s", i, r.shows)
			check(t, s)
		}
	})
}

func TestThrottleToTheDigit(t *testing.T) {
	usual := throttle(t, 15, 30, 60*second)
	slow := throttle(t, 1, 1, 10*second)
	for name, rows := range map[string][]row{
		"three requests": {
			{0, usual, 1, false, reply{0, 16, 15, -1, 2}, "a fresh key"},
			{0, usual, 1, false, reply{0, 16, 14, -1, 4}, "again"},
			{0, usual, 3, false, reply{0, 16, 11, -1, 10}, "three at once"},
		},
		"until refused": {
			{0, slow, 1, false, reply{0, 2, 1, -1, 10}, "one"},
			{0, slow, 1, false, reply{0, 2, 0, -1, 20}, "the burst"},
			{0, slow, 1, false, reply{1, 2, 0, 10, 20}, "refused"},
			{0, slow, 1, false, reply{1, 2, 0, 10, 20}, "a refusal costs nothing"},
			{0, slow, 0, false, reply{0, 2, 0, -1, 20}, "asking for nothing is never refused"},
			{9.999999999, slow, 1, false, reply{1, 2, 0, 1, 11}, "one nanosecond early is never told 0"},
			{10, slow, 1, false, reply{0, 2, 0, -1, 20}, "waiting what was told admits"},
		},
		"no burst": {
			{0, throttle(t, 0, 30, 60*second), 1, false, reply{0, 1, 0, -1, 2}, "the only one"},
			{0, throttle(t, 0, 30, 60*second), 1, false, reply{1, 1, 0, 2, 2}, "refused"},
		},
		"never": {
			{0, slow, 3, false, reply{1, 2, 2, -1, 0}, "quantity over the limit can never be admitted"},
			{0, slow, math.MaxInt64, false, reply{1, 2, 2, -1, 0}, "nor can the largest"},
		},
		"quantity 0": {
			{0, usual, 0, false, reply{0, 16, 16, -1, 0}, "on a fresh key"},
			{0, usual, 4, false, reply{0, 16, 12, -1, 8}, "four taken"},
			{0, usual, 0, false, reply{0, 16, 12, -1, 8}, "unchanged"},
		},
		"refunds": {
			{0, usual, 5, false, reply{0, 16, 11, -1, 10}, "five taken"},
			{0, usual, -2, false, reply{0, 16, 13, -1, 6}, "two given back"},
			{0, usual, -10, false, reply{0, 16, 16, -1, 0}, "a refund stops at full"},
			{0, usual, math.MinInt64, false, reply{0, 16, 16, -1, 0}, "also the largest"},
			{0, usual, 1, false, reply{0, 16, 15, -1, 2}, "and leaves nothing behind"},
		},
		"the cut": {
			{0, usual, 10, false, reply{0, 16, 6, -1, 20}, "ten taken of a larger limit"},
			{0, throttle(t, 3, 30, 60*second), 1, true, reply{1, 4, 0, 2, 8}, "PEEK sees the cut"},
			{0, usual, 0, true, reply{0, 16, 6, -1, 20}, "but does not store it"},
			{0, throttle(t, 3, 30, 60*second), 1, false, reply{1, 4, 0, 2, 8}, "the new limit is in force at once"},
			{0, usual, 0, true, reply{0, 16, 12, -1, 8}, "the cut was stored by a refused request"},
			{2, throttle(t, 3, 30, 60*second), 1, false, reply{0, 4, 0, -1, 8}, "nobody waits longer than a refill"},
		},
		"interval rounded down": {
			{0, throttle(t, 6000, 6000, second), 1, false, reply{0, 6001, 6000, -1, 1}, "never more than the limit"},
		},
		"a wait below a second": {
			{0, throttle(t, 0, 1001, second), 1, false, reply{0, 1, 0, -1, 1}, "admitted"},
			{0, throttle(t, 0, 1001, second), 1, false, reply{1, 1, 0, 1, 1}, "rounded up, never 0"},
		},
		"the longest period": {
			{0, throttle(t, 0, 1, MaxPeriod), 1, false, reply{0, 1, 0, -1, 4611686018}, "admitted"},
			{0, throttle(t, 0, 1, MaxPeriod), 1, false, reply{1, 1, 0, 4611686018, 4611686018}, "refused"},
		},
		"peek": {
			{0, throttle(t, 0, 1, 60*second), 1, true, reply{0, 1, 1, -1, 0}, "the bucket as it stands"},
			{0, throttle(t, 0, 1, 60*second), 1, false, reply{0, 1, 0, -1, 60}, "nothing was taken"},
			{0, throttle(t, 0, 1, 60*second), 1, true, reply{1, 1, 0, 60, 60}, "would be refused"},
			{0, throttle(t, 0, 1, 60*second), -1, true, reply{0, 1, 0, -1, 60}, "a refund is not peeked at"},
		},
		"time going back": {
			{5, slow, 1, false, reply{0, 2, 1, -1, 10}, "one"},
			{1, slow, 1, false, reply{0, 2, 0, -1, 20}, "decided at the later time"},
			{4, slow, 1, false, reply{1, 2, 0, 10, 20}, "so is a refusal"},
		},
	} {
		t.Run(name, func(t *testing.T) { runRows(t, rows) })
	}
}

func TestWindowToTheDigit(t *testing.T) {
	five, three := window(t, 5, 60*second), window(t, 3, 60*second)
	toMinute := 60 - float64(epoch/second%60) // seconds from epoch to the next full minute of Unix time
	minute := aligned(t, 5, 60*second, 0)
	for name, rows := range map[string][]row{
		"a window": {
			{0, five, 1, false, reply{0, 5, 4, -1, 60}, "opens with the first admission"},
			{10, five, 4, false, reply{0, 5, 0, -1, 50}, "four more"},
			{20, five, 1, false, reply{1, 5, 0, 40, 40}, "refused until its end"},
			{20, three, 0, false, reply{0, 3, 0, -1, 40}, "a smaller limit counts at once"},
			{20, five, 6, false, reply{1, 5, 0, -1, 40}, "over the limit: never"},
			{59.999999999, five, 1, false, reply{1, 5, 0, 1, 1}, "one nanosecond early"},
			{60, five, 1, false, reply{0, 5, 4, -1, 60}, "the next admission opens the next"},
		},
		"aligned": {
			{toMinute + 59.5, minute, 1, false, reply{0, 5, 4, -1, 1}, "half a second before the minute"},
			{toMinute + 60, minute, 5, false, reply{0, 5, 0, -1, 60}, "the next minute"},
			{toMinute + 61, minute, 1, false, reply{1, 5, 0, 59, 59}, "refused until the next"},
			{toMinute + 62, aligned(t, 9, 60*second, 30*second), 1, false, reply{0, 9, 3, -1, 28}, "a window half a minute off, in which the stored one starts"},
			{toMinute + 95, aligned(t, 9, 60*second, -30*second), 1, false, reply{0, 9, 8, -1, 55}, "a negative offset is the same minutes"},
		},
		"aligned, the stored count carries over": {
			{toMinute + 10, minute, 3, false, reply{0, 5, 2, -1, 50}, "a minute's window"},
			{toMinute + 11, aligned(t, 5, 3600*second, 0), 3, false, reply{1, 5, 2, 49, 49}, "its start lies in this hour; forgotten with its minute"},
			{toMinute + 11, aligned(t, 5, 3600*second, 0), 1, true, reply{0, 5, 2, -1, 49}, "as it stands"},
		},
		"a shorter period": {
			{0, five, 5, false, reply{0, 5, 0, -1, 60}, "full"},
			{10, window(t, 5, 30*second), 1, false, reply{1, 5, 0, 20, 20}, "ends at its start plus the period asked"},
			{30, window(t, 5, 30*second), 0, false, reply{0, 5, 5, -1, 0}, "over, for this period"},
			{30, window(t, 5, 30*second), -1, false, reply{0, 5, 5, -1, 0}, "nothing to give back"},
			{30, five, 1, false, reply{1, 5, 0, 30, 30}, "asking changed nothing"},
			{31, window(t, 5, 30*second), 1, false, reply{0, 5, 4, -1, 30}, "an admission opens the next"},
		},
		"a longer period": {
			{0, five, 4, false, reply{0, 5, 1, -1, 60}, "four"},
			{10, window(t, 5, 600*second), 1, false, reply{0, 5, 0, -1, 50}, "never later than it was stored to end"},
		},
		"refunds": {
			{0, five, -1, false, reply{0, 5, 5, -1, 0}, "without a key"},
			{0, five, 3, false, reply{0, 5, 2, -1, 60}, "three"},
			{10, five, -2, false, reply{0, 5, 4, -1, 50}, "two back"},
			{10, five, math.MinInt64, false, reply{0, 5, 5, -1, 0}, "down to nothing"},
			{20, five, 1, false, reply{0, 5, 4, -1, 60}, "the next admission opens a new window"},
		},
		"the largest": {
			{0, window(t, math.MaxInt64, MaxPeriod), math.MaxInt64, false, reply{0, math.MaxInt64, 0, -1, 4611686018}, "all at once"},
			{0, window(t, math.MaxInt64, MaxPeriod), 1, false, reply{1, math.MaxInt64, 0, 4611686018, 4611686018}, "no wrapping"},
			{0, window(t, 1, MaxPeriod), 1, false, reply{1, 1, 0, 4611686018, 4611686018}, "used far beyond the limit"},
		},
	} {
		t.Run(name, func(t *testing.T) { runRows(t, rows) })
	}
}

func TestSlideToTheDigit(t *testing.T) {
	three := slide(t, 3, 60*second)
	ten := slide(t, 10, 60*second)
	for name, rows := range map[string][]row{
		"a log": {
			{0, three, 1, false, reply{0, 3, 2, -1, 60}, "one"},
			{10, three, 1, false, reply{0, 3, 1, -1, 60}, "two"},
			{20, three, 1, false, reply{0, 3, 0, -1, 60}, "three"},
			{30, three, 1, false, reply{1, 3, 0, 30, 50}, "until the oldest has left"},
			{30, three, 2, false, reply{1, 3, 0, 40, 50}, "until the two oldest have left"},
			{30, three, 4, false, reply{1, 3, 0, -1, 50}, "never"},
			{59.999999999, three, 1, false, reply{1, 3, 0, 1, 21}, "one nanosecond early"},
			{60, three, 1, false, reply{0, 3, 0, -1, 60}, "it leaves at t + period exactly"},
		},
		"the same nanosecond": {
			{0, three, 1, false, reply{0, 3, 2, -1, 60}, "one"},
			{0, three, 1, false, reply{0, 3, 1, -1, 60}, "two requests are two"},
			{0, three, 1, false, reply{0, 3, 0, -1, 60}, "three"},
			{0, three, 1, false, reply{1, 3, 0, 60, 60}, "refused"},
		},
		"refunds": {
			{0, ten, 4, false, reply{0, 10, 6, -1, 60}, "four"},
			{10, ten, 3, false, reply{0, 10, 3, -1, 60}, "three"},
			{10, ten, -5, false, reply{0, 10, 8, -1, 50}, "the newest first"},
			{20, ten, 0, true, reply{0, 10, 8, -1, 40}, "two are left of t=0"},
			{20, ten, math.MinInt64, false, reply{0, 10, 10, -1, 0}, "down to nothing"},
			{20, ten, -1, false, reply{0, 10, 10, -1, 0}, "without a key"},
		},
		"a changed limit": {
			{0, ten, 8, false, reply{0, 10, 2, -1, 60}, "eight"},
			{10, three, 1, false, reply{1, 3, 0, 50, 50}, "counts at once"},
			{10, three, 0, false, reply{0, 3, 0, -1, 50}, "asking for nothing is not refused"},
		},
		"a shorter period": {
			{0, three, 2, false, reply{0, 3, 1, -1, 60}, "two"},
			{20, slide(t, 3, 10*second), 0, true, reply{0, 3, 3, -1, 0}, "have left ten seconds"},
			{20, slide(t, 3, 10*second), 4, false, reply{1, 3, 3, -1, 0}, "a refusal forgets nothing"},
			{20, three, 2, false, reply{1, 3, 1, 40, 40}, "which sixty still see"},
			{20, slide(t, 3, 10*second), 1, false, reply{0, 3, 2, -1, 10}, "stored with ten"},
			{25, three, 0, false, reply{0, 3, 2, -1, 5}, "a longer period cannot bring back what is gone"},
		},
		"a longer period": {
			{0, slide(t, 3, 10*second), 2, false, reply{0, 3, 1, -1, 10}, "two, for ten seconds"},
			{5, three, 2, false, reply{1, 3, 1, 5, 5}, "the log as it stands leaves by its own period"},
			{5, three, 1, false, reply{0, 3, 0, -1, 60}, "stored with sixty"},
			{30, three, 1, false, reply{1, 3, 0, 30, 35}, "all of it counts for sixty now"},
		},
		"the largest": {
			{0, slide(t, math.MaxInt64, MaxPeriod), math.MaxInt64, false, reply{0, math.MaxInt64, 0, -1, 4611686018}, "all at once"},
			{0, slide(t, math.MaxInt64, MaxPeriod), 1, false, reply{1, math.MaxInt64, 0, 4611686018, 4611686018}, "no wrapping"},
		},
	} {
		t.Run(name, func(t *testing.T) { runRows(t, rows) })
	}
}

// A clock set back across a restart leaves records later than now.
func TestSlideRecordLaterThanNowCountsAsNow(t *testing.T) {
	l := slide(t, 3, 60*second)
	for _, ahead := range []int64{1, 5 * second, 3600 * second} {
		g := new(slidingLog)
		for _, at := range []int64{epoch - second, epoch + ahead/2, epoch + ahead} {
			g.apply(&LogEdit{Add: 1, Grows: g.n == 0 || g.newest < at}, at, 3600*second)
		}
		g.period = 60 * second
		d := PeekSlide(l, g, epoch, 2)
		assert.Equal(t, reply{1, 3, 0, 60, 60}, shown(d))
		edit, d := TakeSlide(slide(t, 4, 60*second), g, epoch, 1)
		assert.Equal(t, reply{0, 4, 0, -1, 60}, shown(d))
		g.apply(&edit, epoch, 60*second)
		assert.Equal(t, epoch+60*second, g.full())
		require.Equal(t, 3, g.Len())
		assert.Equal(t, []int64{epoch - second, epoch, epoch}, []int64{g.Time(0), g.Time(1), g.Time(2)})
		assert.EqualValues(t, 4, g.Before(3)-g.Before(0))
	}
}

func TestThrottleClockSetBack(t *testing.T) {
	l := throttle(t, 1, 1, 10*second)
	tat, d := TakeThrottle(l, epoch+3600*second, epoch, 1)
	assert.Equal(t, reply{1, 2, 0, 10, 20}, shown(d))
	assert.Equal(t, epoch+20*second, tat, "nobody is locked out for longer than a full refill")
}

func TestWindowClockSetBack(t *testing.T) {
	l := window(t, 2, 10*second)
	s := WindowState{Start: epoch + 3600*second, End: epoch + 3610*second, Used: 2}
	assert.Equal(t, reply{1, 2, 0, 10, 10}, shown(PeekWindow(l, s, epoch, 1)))
}

func TestLimitsAreChecked(t *testing.T) {
	for _, r := range []struct {
		burst, count, period int64
		want                 error
	}{
		{0, 1, 1, nil}, // one nanosecond is exact
		{-1, 1, second, ErrBurstRange},
		{math.MaxInt64, 1, second, ErrBurstRange},
		{0, 0, second, ErrCountRange},
		{0, math.MinInt64, second, ErrCountRange},
		{0, 1, 0, ErrPeriodRange},
		{0, 1, MaxPeriod + 1, ErrPeriodRange},
		{0, 2 * second, second, ErrRateTooFast},   // below one nanosecond
		{0, 11_000_000, second, ErrRateTooFast},   // 90.9 ns
		{0, 10_000_001, second, ErrRateTooFast},   // just below 100 ns
		{0, 9_999_999, second, nil},               // just above
		{0, 20_000_000, second, nil},              // 50 ns, exactly
		{1, 1, MaxPeriod/2 + 1, ErrBurstTooLarge}, // two intervals
		{1, 1, MaxPeriod / 2, nil},
		{math.MaxInt64 - 1, 1, 1, ErrBurstTooLarge},
		{MaxPeriod - 1, 1, 1, nil},
	} {
		_, err := NewThrottle(r.burst, r.count, r.period)
		assert.Equal(t, r.want, err, "%+v", r)
	}
	for _, make := range []func(limit, period int64) (Limit, error){NewWindow, NewSlide,
		func(limit, period int64) (Limit, error) { return NewAlignedWindow(limit, period, 0) }} {
		_, err := make(0, second)
		assert.Equal(t, ErrLimitRange, err)
		_, err = make(1, 0)
		assert.Equal(t, ErrPeriodRange, err)
		_, err = make(1, MaxPeriod+1)
		assert.Equal(t, ErrPeriodRange, err)
		_, err = make(math.MaxInt64, MaxPeriod)
		assert.NoError(t, err)
	}
	_, err := NewAlignedWindow(1, second, MaxPeriod+1)
	assert.Equal(t, ErrOffsetRange, err)
	_, err = NewAlignedWindow(1, second, -MaxPeriod)
	assert.NoError(t, err)
}

func TestSaturating(t *testing.T) {
	const hi, lo = int64(math.MaxInt64), int64(math.MinInt64)
	assert.Equal(t, hi, addSat(hi, 1))
	assert.Equal(t, lo, addSat(lo, -1))
	assert.Equal(t, int64(-1), addSat(lo, hi))
	assert.Equal(t, hi, subSat(0, lo))
	assert.Equal(t, lo, subSat(-2, hi))
	assert.Equal(t, hi, subSat(hi, -1))
	assert.Equal(t, hi, mulSat(lo, -1))
	assert.Equal(t, hi, mulSat(-1, lo))
	assert.Equal(t, lo, mulSat(lo, 2))
	assert.Equal(t, lo, mulSat(1<<62, -3))
	assert.Equal(t, int64(-6), mulSat(2, -3))
	assert.Equal(t, int64(-2), floorDiv(-3, 2))
	assert.Equal(t, int64(1), floorDiv(3, 2))
	assert.Equal(t, int64(2), CeilDiv(3, 2))
	assert.Equal(t, hi, CeilDiv(hi, 1))
	assert.Equal(t, int64(0), CeilDiv(0, 7))
}

// Keys counts what is stored, also what has expired and was not met since, and looks at no key for it.
func TestKeysCountsWhatIsStored(t *testing.T) {
	eachShape(t, func(t *testing.T, s *Store) {
		assert.Zero(t, s.Keys())
		assert.Zero(t, s.MeanTTL(epoch))
		l := window(t, 5, 10*second)
		for i := range 300 {
			_, err := s.Take(epoch, fmt.Appendf(nil, "key:%d", i), l, 1, false)
			require.NoError(t, err)
		}
		assert.EqualValues(t, 300, s.Keys())
		assert.Equal(t, 7*second, s.MeanTTL(epoch+3*second), "all alike, so any sample is exact")
		_, err := s.Take(epoch, []byte("long"), window(t, 5, 100*second), 1, false)
		require.NoError(t, err)

		late := epoch + 10*second
		assert.EqualValues(t, 301, s.Keys(), "they have expired, and nobody has looked")
		assert.EqualValues(t, 1, s.Len(late))
		_, there := s.Stat(late, []byte("key:0"))
		assert.False(t, there)
		assert.EqualValues(t, 300, s.Keys(), "what is met is forgotten")
		for range 2 {
			sweepAll(s, late)
		}
		assert.EqualValues(t, 1, s.Keys(), "and what is swept")
		assert.Equal(t, 90*second, s.MeanTTL(late), "of few keys all are looked at")
		h := s.Hold(late, nil, true)
		assert.EqualValues(t, 1, h.Keys())
		assert.Equal(t, 90*second, h.MeanTTL(late))
		h.Release()
		s.Flush()
		assert.Zero(t, s.Keys())
	})
}
