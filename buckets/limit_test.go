package buckets

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// epoch is the time t=0 of the tables: far enough from 0 to be a real time, and no multiple of a day.
const epoch = int64(1_700_000_123) * 1e9

const second = int64(time.Second)

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

// A clock set back across a restart leaves records later than now.
func TestSlideRecordLaterThanNowCountsAsNow(t *testing.T) {
	l := slide(t, 3, 60*second)
	for _, ahead := range []int64{1, 5 * second, 3600 * second} {
		g := NewAdmissions(60*second, Admission{epoch - second, 1}, Admission{epoch + ahead/2, 1})
		if ahead/2 < ahead {
			g.push(Admission{epoch + ahead, 1})
		}
		st := Logged(g)
		var d Decision
		st.Peek(&l, epoch, 2, &d)
		assert.Equal(t, reply{1, 3, 0, 60, 60}, shown(d))
		wider := slide(t, 4, 60*second)
		effect, err := st.Take(&wider, epoch, 1, 10, &d)
		require.NoError(t, err)
		assert.Equal(t, Stored, effect)
		assert.Equal(t, reply{0, 4, 0, -1, 60}, shown(d))
		assert.Equal(t, epoch+60*second, st.FullAt())
		require.Equal(t, 3, g.Len())
		assert.Equal(t, []int64{epoch - second, epoch, epoch}, []int64{g.Time(0), g.Time(1), g.Time(2)})
		assert.EqualValues(t, 4, g.Before(3)-g.Before(0))
	}
}

func TestThrottleAfterAClockSetBackWaitsAtMostOneRefill(t *testing.T) {
	l := throttle(t, 1, 1, 10*second)
	var d Decision
	tat := l.TakeThrottle(epoch+3600*second, epoch, 1, &d)
	assert.Equal(t, reply{1, 2, 0, 10, 20}, shown(d))
	assert.Equal(t, epoch+20*second, tat, "nobody is locked out for longer than a full refill")
}

func TestWindowAfterAClockSetBackWaitsAtMostOnePeriod(t *testing.T) {
	l := window(t, 2, 10*second)
	var d Decision
	l.PeekWindow(WindowState{Start: epoch + 3600*second, End: epoch + 3610*second, Used: 2}, epoch, 1, &d)
	assert.Equal(t, reply{1, 2, 0, 10, 10}, shown(d))
}

func TestConstructorsRefuseInvalidLimits(t *testing.T) {
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

func TestArithmeticSaturates(t *testing.T) {
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
