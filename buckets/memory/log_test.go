package memory

import (
	"cellserver/buckets"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The stored bytes of a time distinguish it from all others within the period.
func TestLogKeepsExactTimesForAnyPeriod(t *testing.T) {
	for bits := range 62 {
		for _, period := range []int64{1<<bits - 1, 1 << bits, 1<<bits + 1} {
			if period < 2 || period > buckets.MaxPeriod {
				continue
			}
			for _, later := range []int64{0, 1, 1 << 7, 0xff, 1 << 15} { // the lower bytes may carry
				s, l := NewStore(1), slide(t, 10, period)
				start := epoch + later
				mustTake(t, s, start, "log", l, 1)
				mustTake(t, s, start+period/2, "log", l, 1)
				mustTake(t, s, start+period-1, "log", l, 1)
				c, _ := s.Get(start+period-1, []byte("log"))
				require.Equal(t, start, c.Field("oldest"), "period %d", period)
				require.Equal(t, start+period-1, c.Field("newest"), "period %d", period)
				require.Equal(t, start+2*period-1, c.Expiry, "period %d", period)
				mustTake(t, s, start+period, "log", l, 1)
				c, _ = s.Get(start+period, []byte("log"))
				require.Equal(t, min(start+max(1, period/2), start+period-1), c.Field("oldest"), "period %d", period)
				checkInvariants(t, s)
			}
		}
	}
}

// oldLog is a log that comes from a file.
type oldLog struct {
	times  []int64
	period int64
}

func (g oldLog) Len() int            { return len(g.times) }
func (g oldLog) Time(i int) int64    { return g.times[i] }
func (g oldLog) Before(i int) uint64 { return uint64(i) }
func (g oldLog) Period() int64       { return g.period }

// The times of a log from a file may be further apart than its period.
func TestRestoredLogKeepsTimesOlderThanItsPeriod(t *testing.T) {
	for _, kept := range [][]int64{
		{epoch}, {epoch, epoch + 255}, {epoch, epoch + 256}, {epoch - 1, epoch + 1<<16}, {epoch, epoch, epoch + 1},
		{0, epoch}, {-1, epoch}, {math.MinInt64, -1, 0, 1, epoch, math.MaxInt64},
	} {
		s := NewStore(1)
		s.Restore(epoch, &buckets.Entry{Key: []byte("log"), State: buckets.Logged(oldLog{kept, 256})})
		want := fmt.Sprintf("%d,0,[0 0 0],256", buckets.Slide)
		for _, at := range kept {
			want += fmt.Sprintf(" %d:1", at)
		}
		assert.Equal(t, map[string]string{`"log"`: want}, copyAsText(t, s, epoch))
	}
}

// After any drops, refunds and additions a ring log equals the list of what was admitted, wherever in the ring it begins,
// and while the ring grows and shrinks.
func TestRingLogEqualsList(t *testing.T) {
	for seeding := range uint64(40) {
		random := rand.New(rand.NewPCG(seeding, 1))
		period := []int64{255, 60 * second, 86400 * second}[seeding%3]
		odd := []int{0, 0, 100, 3}[seeding%4] // one in this many quantities is not 1; 0 means none
		var g ringLog
		var want []entry
		now := epoch
		for range 2000 {
			now += random.Int64N(period / 200)
			e := buckets.LogEdit{Stored: true, Drop: random.IntN(3)}
			if random.IntN(100) == 0 {
				e.Drop = random.IntN(len(want) + 1)
			}
			for e.Drop < len(want) && want[e.Drop].at.Int64() <= now-period {
				e.Drop++
			}
			e.Drop = min(e.Drop, len(want))
			want = want[e.Drop:]
			if back := random.Int64N(4); random.IntN(10) == 0 && sumOf(want).Int64() > back {
				e.Back = back
				for ; back > 0; back-- {
					last := &want[len(want)-1]
					if last.quantity = minus(last.quantity, bigInt(1)); last.quantity.Sign() == 0 {
						want = want[:len(want)-1]
					}
				}
			} else {
				e.Add = 1
				if odd > 0 && random.IntN(odd) == 0 {
					e.Add = 1 + random.Int64N(3)
				}
				e.Grows = len(want) == 0 || want[len(want)-1].at.Int64() < now
				if e.Grows {
					want = append(want, entry{bigInt(now), bigInt(0)})
				}
				last := &want[len(want)-1]
				last.quantity = plus(last.quantity, bigInt(e.Add))
			}
			g.Apply(e, now, period)
			require.Equal(t, len(want), g.Len())
			for i, w := range want {
				require.Equal(t, w.at.Int64(), g.Time(i))
				require.Equal(t, w.quantity.Int64(), int64(g.Before(i+1)-g.Before(i)))
			}
			require.LessOrEqual(t, g.size, max(4*g.n+4, 4*smallestRing), "what lies idle is given back")
		}
	}
}

// A full ring needs no more memory for a record that replaces one that has left the window.
func TestFullRingGrowsOnlyIfNothingHasLeft(t *testing.T) {
	var g ringLog
	for i := range int64(smallestRing) {
		g.Apply(buckets.LogEdit{Add: 1, Grows: true, Stored: true}, epoch+i*second, 60*second)
	}
	require.Equal(t, g.n, g.size)
	more := logBytes(grownRing(g.size), g.width, false)
	for left, want := range []int{more, 0, 0, 0, more} { // once all records have left, the log is built anew
		now := epoch + int64(60+left-1)*second
		assert.Equal(t, want, g.bytesAfterAdd(now, 60*second, 1), "%d have left", left)
		assert.Equal(t, want, g.bytesAfterAdd(now, 120*second, 1), "%d have left, and a longer period cannot bring them back", left)
	}
}
