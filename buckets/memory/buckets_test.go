package memory

import (
	"cellserver/buckets"
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

// shapes are the numbers of shards of the stores on which every contract is tested.
var shapes = []int{1, 8, 256}

// tiny makes rare cases happen in every run. Blocks of 64 bytes fill up, are emptied and freed, and are too small for
// some records. Two bits of a tag in a slot make searches compare the records of other keys.
var tiny = geometry{blockShift: 4, placeBits: 30}

// sweepAll sweeps all shards once.
func sweepAll(s *Store, now int64) {
	for !s.Sweep(now).Round {
	}
}

func eachShape(t *testing.T, run func(t *testing.T, s *Store)) {
	for _, shards := range shapes {
		t.Run(fmt.Sprintf("%d shards", shards), func(t *testing.T) {
			s := newStore(shards, tiny, maphash.MakeSeed())
			run(t, s)
			checkInvariants(t, s)
		})
	}
}

// checkInvariants walks the whole store. Every slot of the index points at one record, which is found there. The blocks
// consist of records and pieces without gaps, and every piece that is large enough is in its list. Sizes add up. Every
// deadline is earlier than the time at which the bucket is full, and no full bucket is kept.
func checkInvariants(t *testing.T, s *Store) {
	t.Helper()
	held := int64(0)
	for n := range s.shards {
		sh := &s.shards[n]
		sh.mu.Lock()
		counted := 0
		for db, tb := range sh.eachDatabase() {
			equal(t, tb.bytes(), tb.counted, "what the shard has told the budget of a database")
			counted += tb.bytes()
			if db != 0 {
				counted += databaseBytes
			}
			checkTable(t, s, n, &tb.table)
		}
		equal(t, counted, sh.counted(), "what the shard has told the budget of all databases")
		holds(t, sh.spare == nil || sh.spare.count == 0 && sh.spare.watches == nil && sh.spare.bytes() == 0, "the spare database is empty")
		held += int64(counted)
		sh.mu.Unlock()
	}
	require.Equal(t, held, s.budget.used.Load(), "the budget knows what is held")
}

// checkTable is checkInvariants of one database of shard n.
func checkTable(t *testing.T, s *Store, n int, tb *table) {
	t.Helper()
	checkArena(t, &tb.arena)
	{
		places := make(map[uint32]bool)
		filled := 0
		for _, content := range tb.slots {
			if content != emptySlot {
				filled++
			}
			if content > removedSlot {
				holds(t, !places[tb.place(content)], "two slots point at one record")
				places[tb.place(content)] = true
			}
		}
		require.Equal(t, tb.filled, filled)
		if tb.count > 0 {
			require.Less(t, filled, len(tb.slots), "or a search would not end")
		}
		require.Len(t, places, tb.count)
		records, deadlines, lasting := 0, 0, 0
		tb.each(func(place uint32, r []byte) {
			records++
			holds(t, places[place], "a record that no slot points at")
			hash, shard := s.locate(keyOf(r))
			equal(t, n, shard, "the shard of a key")
			equal(t, place, tb.find(hash, keyOf(r)), "where a record is found")
			if at := tb.deadline(place); at != 0 {
				deadlines++
				var st state
				tb.load(place, &st)
				holds(t, at < st.FullAt(), "a deadline is earlier than the full bucket")
			}
			checkState(t, tb, place)
			kind, _, body := split(r)
			lasting += lasts(kind, body)
		})
		require.Equal(t, tb.count, records)
		require.Len(t, tb.deadlines, deadlines)
		require.Equal(t, tb.lasting, lasting)
	}
}

func checkState(t *testing.T, tb *table, place uint32) {
	t.Helper()
	var st state
	switch tb.load(place, &st) {
	case buckets.Throttle:
	case buckets.Counter, buckets.Float:
		holds(t, st.Expiry() > 0, "a counter has an expiry")
	case buckets.Window:
		w := st.Window()
		holds(t, w.Used > 0, "a window counts something")
		holds(t, w.Start < w.End, "a window ends after its start")
	case buckets.Slide:
		g := &st.ring
		holds(t, g.Len() > 0, "a log has records")
		holds(t, g.n <= g.size, "a log has room for its records")
		holds(t, g.first < g.size, "a log begins where it has room")
		equal(t, logBytes(g.size, g.width, g.sums), len(g.memory), "the bytes of a log")
		equal(t, g.newest, g.Time(g.n-1), "the newest record")
		for i := range g.Len() {
			holds(t, int64(g.Before(i+1)-g.Before(i)) > 0, "a record has a quantity")
			if i > 0 {
				holds(t, g.Time(i-1) < g.Time(i), "in order, simultaneous ones merged")
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
			holds(t, !listed[place], "a piece is listed once")
			listed[place] = true
			equal(t, class, classIn(pieceUnits(a.at(place))), "the list of a piece")
			equal(t, previous, binary.LittleEndian.Uint32(a.at(place)[8:]), "the piece before in its list")
			previous = place
		}
		equal(t, previous != 0, a.listed[class>>6]>>(class&63)&1 == 1, "a list has pieces")
	}
	size, live := 0, 0
	for b, block := range a.blocks {
		size += cap(block)
		lives := 0
		for at := 0; at < len(block); at += unitsOf(block[at:]) * unit {
			units, place := unitsOf(block[at:]), uint32(b)<<a.shift+uint32(at/unit)
			holds(t, at+units*unit <= len(block), "what begins in a block ends in it")
			if block[at] != 0 {
				lives += units * unit
				continue
			}
			equal(t, units >= listedUnits, listed[place], "a piece is listed")
			delete(listed, place)
		}
		equal(t, a.lives[b], lives, "what lives in a block")
		live += lives
		if block == nil {
			holds(t, b == 0 || slices.Contains(a.vacant, uint32(b)), "a block that is not there is vacant")
		} else if b != a.open && cap(block) <= a.blockBytes() {
			holds(t, cap(block)-len(block) < unit, "only the open block has room at its end")
		}
	}
	require.Empty(t, listed, "a piece that is nowhere")
	require.Equal(t, a.size, size)
	require.Equal(t, a.live, live)
}

// holds and equal fail the test unless the condition holds. Unlike an assertion they cost nothing if it does, and a check
// calls them for each record of a store.
func holds(t *testing.T, so bool, says string) {
	if !so {
		t.Helper()
		require.Fail(t, says)
	}
}

func equal[V comparable](t *testing.T, want, got V, says string) {
	if want != got {
		t.Helper()
		require.Equal(t, want, got, says)
	}
}

func throttle(t testing.TB, burst, count, period int64) buckets.Limit {
	l, err := buckets.NewThrottle(burst, count, period)
	require.NoError(t, err)
	return l
}

func window(t testing.TB, limit, period int64) buckets.Limit {
	l, err := buckets.NewWindow(limit, period)
	require.NoError(t, err)
	return l
}

func aligned(t testing.TB, limit, period, offset int64) buckets.Limit {
	l, err := buckets.NewAlignedWindow(limit, period, offset)
	require.NoError(t, err)
	return l
}

func slide(t testing.TB, limit, period int64) buckets.Limit {
	l, err := buckets.NewSlide(limit, period)
	require.NoError(t, err)
	return l
}

// reply is a Decision as the wire shows it: limited, limit, remaining, retry_after and reset_after in whole seconds.
type reply [5]int64

func replyOf(d buckets.Decision) reply {
	r := reply{0, d.Limit, d.Remaining, buckets.Never, buckets.CeilDiv(d.ResetAfter, second)}
	if d.Limited {
		r[0] = 1
	}
	if d.RetryAfter != buckets.Never {
		r[3] = buckets.CeilDiv(d.RetryAfter, second)
	}
	return r
}

// row is one request: its time in seconds after epoch, its arguments, the expected answer, and what the row shows.
type row struct {
	at       float64
	limit    buckets.Limit
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
			assert.Equal(t, r.want, replyOf(d), "row %d: %s", i, r.shows)
			checkInvariants(t, s)
		}
	})
}

func TestThrottleAnswers(t *testing.T) {
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
			{0, throttle(t, 0, 1, buckets.MaxPeriod), 1, false, reply{0, 1, 0, -1, 4611686018}, "admitted"},
			{0, throttle(t, 0, 1, buckets.MaxPeriod), 1, false, reply{1, 1, 0, 4611686018, 4611686018}, "refused"},
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

func TestWindowAnswers(t *testing.T) {
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
			{0, window(t, math.MaxInt64, buckets.MaxPeriod), math.MaxInt64, false, reply{0, math.MaxInt64, 0, -1, 4611686018}, "all at once"},
			{0, window(t, math.MaxInt64, buckets.MaxPeriod), 1, false, reply{1, math.MaxInt64, 0, 4611686018, 4611686018}, "no wrapping"},
			{0, window(t, 1, buckets.MaxPeriod), 1, false, reply{1, 1, 0, 4611686018, 4611686018}, "used far beyond the limit"},
		},
	} {
		t.Run(name, func(t *testing.T) { runRows(t, rows) })
	}
}

func TestSlideAnswers(t *testing.T) {
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
			{0, slide(t, math.MaxInt64, buckets.MaxPeriod), math.MaxInt64, false, reply{0, math.MaxInt64, 0, -1, 4611686018}, "all at once"},
			{0, slide(t, math.MaxInt64, buckets.MaxPeriod), 1, false, reply{1, math.MaxInt64, 0, 4611686018, 4611686018}, "no wrapping"},
		},
	} {
		t.Run(name, func(t *testing.T) { runRows(t, rows) })
	}
}

// Keys counts the records, including expired ones, without examining them.
func TestKeysCountsExpiredKeysUntilSwept(t *testing.T) {
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
		assert.EqualValues(t, 1, s.Live(late))
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
		s.flush()
		assert.Zero(t, s.Keys())
	})
}
