package memory

import (
	"cellserver/buckets"
	"fmt"
	"math"
	"math/big"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// The guarantees of each kind of bucket, checked on random requests for one key independently of the stored state.

var theKey = []byte("k")

// askedKey is one key with repeated requests under one policy.
type askedKey struct {
	s        *Store
	p        policy
	l        buckets.Limit
	now      int64
	quantity int64 // quantity of the last request
	d        buckets.Decision
}

func newAskedKey(t *rapid.T, p policy) *askedKey {
	a := &askedKey{s: seeded(1), p: p, l: limitOf(t, p), now: someStart.Draw(t, "start")}
	a.d = a.take(t, 0)
	return a
}

func (a *askedKey) take(t *rapid.T, quantity int64) buckets.Decision {
	d, err := a.s.Take(a.now, theKey, a.l, quantity, false)
	require.NoError(t, err)
	return d
}

// peek asks at now without taking. Successive calls need increasing times, because the time of a store does not go back.
func (a *askedKey) peek(t *rapid.T, now, quantity int64) buckets.Decision {
	d, err := a.s.Take(now, theKey, a.l, quantity, true)
	require.NoError(t, err)
	return d
}

// ask lets some time pass and takes some quantity.
func (a *askedKey) ask(t *rapid.T) {
	step := rapid.OneOf(
		rapid.SampledFrom([]int64{0, 0, 1, a.d.RetryAfter, a.d.RetryAfter - 1, a.d.ResetAfter, a.d.ResetAfter - 1}),
		rapid.Int64Range(0, a.p.period),
	).Draw(t, "step")
	if step > 0 && step <= horizon-a.now {
		a.now += step
	}
	tooMuch := a.d.Remaining
	if tooMuch < math.MaxInt64 {
		tooMuch++
	}
	a.quantity = rapid.SampledFrom([]int64{1, 1, 1, 2, 3, a.d.Remaining, tooMuch, a.d.Limit, 0, -1, -2, -a.d.Remaining}).Draw(t, "quantity")
	a.d = a.take(t, a.quantity)
	t.Logf("at %d: %d of %+v: %+v", a.now, a.quantity, a.p, a.d)
}

// forAnyRequests makes random requests and calls after following each of them.
func forAnyRequests(t *rapid.T, p policy, after func(a *askedKey)) {
	a := newAskedKey(t, p)
	for range rapid.IntRange(1, 25).Draw(t, "requests") {
		a.ask(t)
		after(a)
	}
}

// eachKind checks a property for every kind of bucket.
func eachKind(t *testing.T, property func(t *rapid.T, p policy)) {
	for kind := buckets.Throttle; kind <= buckets.Slide; kind++ {
		t.Run(kind.String(), func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) { property(t, somePolicy(kind).Draw(t, "policy")) })
		})
	}
}

func TestSlideAdmitsAtMostItsLimitInAnyPeriod(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := somePolicy(buckets.Slide).Draw(t, "policy")
		var admitted []entry
		recent := func(at *big.Int) (of []*entry) { // admissions in the period that ends with at
			for i := range admitted {
				if less(minus(at, bigInt(p.period)), admitted[i].at) && !less(at, admitted[i].at) {
					of = append(of, &admitted[i])
				}
			}
			return of
		}
		forAnyRequests(t, p, func(a *askedKey) {
			switch {
			case a.d.Limited:
			case a.quantity > 0:
				admitted = append(admitted, entry{bigInt(a.now), bigInt(a.quantity)})
			default:
				back := new(big.Int).Neg(bigInt(a.quantity))
				in := recent(bigInt(a.now))
				for i := len(in) - 1; i >= 0; i-- { // newest first
					part := smaller(back, in[i].quantity)
					in[i].quantity, back = minus(in[i].quantity, part), minus(back, part)
				}
			}
			for _, e := range admitted {
				sum := new(big.Int)
				for _, r := range recent(e.at) {
					sum.Add(sum, r.quantity)
				}
				require.False(t, less(p.atOnce(), sum), "%v in the period up to %v", sum, e.at)
			}
		})
	})
}

func TestWindowAdmitsAtMostItsLimitPerWindow(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := somePolicy(buckets.Window).Draw(t, "policy")
		start, end, used := new(big.Int), new(big.Int), new(big.Int)
		forAnyRequests(t, p, func(a *askedKey) {
			if a.d.Limited || a.quantity == 0 {
				return
			}
			at := bigInt(a.now)
			switch {
			case p.aligned:
				from, to := p.calendar(at)
				if from.Cmp(start) != 0 || to.Cmp(end) != 0 {
					start, end, used = from, to, new(big.Int)
				}
			case used.Sign() == 0 || !less(at, end): // the first admission opens a window
				start, end, used = at, plus(at, bigInt(p.period)), new(big.Int)
			}
			used = notBelow0(plus(used, bigInt(a.quantity)))
			require.False(t, less(p.atOnce(), used), "%v in the window from %v to %v", used, start, end)
			if used.Sign() > 0 {
				require.Equal(t, minus(end, at).Int64(), a.d.ResetAfter, "the window ends when it should")
			}
		})
	})
}

// In every interval of length t, whatever happened before, at most limit + t/interval is admitted. Refunded requests do
// not count.
func TestThrottleBoundHoldsOverEveryInterval(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := somePolicy(buckets.Throttle).Draw(t, "policy")
		var admitted []entry
		forAnyRequests(t, p, func(a *askedKey) {
			if a.d.Limited {
				return
			}
			admitted = append(admitted, entry{bigInt(a.now), bigInt(a.quantity)})
			sum := new(big.Int)
			for i := len(admitted) - 1; i >= 0; i-- {
				sum = plus(sum, admitted[i].quantity)
				stretch := minus(bigInt(a.now), admitted[i].at)
				require.False(t, less(plus(p.capacity(), stretch), times(p.interval(), sum)), "%v in %v", sum, stretch)
			}
		})
	})
}

// The bound is tight: after a full burst, one more request is admitted for every emission interval, and not earlier.
func TestThrottleAdmitsOnePerIntervalAfterItsBurst(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := somePolicy(buckets.Throttle).Draw(t, "policy")
		a := newAskedKey(t, p)
		require.False(t, a.take(t, a.l.Max()).Limited)
		interval := p.interval().Int64()
		for range 3 {
			if interval > horizon-a.now {
				return
			}
			require.True(t, a.peek(t, a.now+interval-1, 1).Limited)
			a.now += interval
			require.False(t, a.take(t, 1).Limited)
		}
	})
}

func TestWaitingRetryAfterAdmitsAndANanosecondLessDoesNot(t *testing.T) {
	eachKind(t, func(t *rapid.T, p policy) {
		forAnyRequests(t, p, func(a *askedKey) {
			if !a.d.Limited {
				require.Equal(t, buckets.Never, a.d.RetryAfter)
				return
			}
			if a.quantity > a.d.Limit {
				require.Equal(t, buckets.Never, a.d.RetryAfter)
				return
			}
			require.Positive(t, a.d.RetryAfter)
			if a.d.RetryAfter > horizon-a.now {
				return
			}
			again := a.now + a.d.RetryAfter
			early := a.peek(t, again-1, a.quantity)
			require.True(t, early.Limited, "a nanosecond early")
			require.Equal(t, int64(1), early.RetryAfter)
			require.False(t, a.peek(t, again, a.quantity).Limited, "in time")
			a.now = again
		})
	})
}

func TestRemainingCanBeTakenAndOneMoreCannot(t *testing.T) {
	eachKind(t, func(t *rapid.T, p policy) {
		forAnyRequests(t, p, func(a *askedKey) {
			require.GreaterOrEqual(t, a.d.Remaining, int64(0))
			require.LessOrEqual(t, a.d.Remaining, a.d.Limit)
			require.False(t, a.peek(t, a.now, a.d.Remaining).Limited)
			if a.d.Remaining < math.MaxInt64 {
				require.True(t, a.peek(t, a.now, a.d.Remaining+1).Limited)
			}
			if rapid.IntRange(0, 3).Draw(t, "take it all") == 0 {
				d := a.take(t, a.d.Remaining)
				require.False(t, d.Limited)
				require.Zero(t, d.Remaining)
				require.True(t, a.take(t, 1).Limited)
				a.d = d
			}
		})
	})
}

func TestResetAfterIsWhenTheBucketIsFull(t *testing.T) {
	eachKind(t, func(t *rapid.T, p policy) {
		forAnyRequests(t, p, func(a *askedKey) {
			info, exists := a.s.Stat(a.now, theKey)
			require.Equal(t, a.d.ResetAfter > 0, exists, "a full bucket and no key are the same thing")
			require.Equal(t, a.d.Remaining < a.d.Limit, exists)
			if !exists {
				return
			}
			full := a.now + a.d.ResetAfter
			require.Equal(t, full, info.Expiry)
			if full > horizon || rapid.IntRange(0, 3).Draw(t, "wait") > 0 {
				return
			}
			require.True(t, a.peek(t, full-1, a.l.Max()).Limited, "a nanosecond early")
			require.Equal(t, buckets.Decision{Limit: a.l.Max(), Remaining: a.l.Max(), RetryAfter: buckets.Never}, a.peek(t, full, a.l.Max()))
			a.now = full
		})
	})
}

// dump returns the contents of a store, byte for byte. Of sliding logs it returns the records that have not left for
// good: the others may be dropped at any time.
func dump(s *Store, now int64) string {
	var records []string
	for n := range s.shards {
		tb := &s.shards[n].zero
		tb.each(func(place uint32, r []byte) {
			kind, key, body := split(r)
			if kind == buckets.Slide {
				var st state
				tb.load(place, &st)
				g := &st.ring
				body = fmt.Appendf(nil, "period %d", g.period)
				for i := buckets.Gone(g, now, g.period); i < g.n; i++ {
					body = fmt.Appendf(body, " %d:%d", g.Time(i), g.Before(i+1)-g.Before(i))
				}
			}
			records = append(records, fmt.Sprintf("%x: %d %x, until %d", key, r[0], body, tb.deadline(place)))
		})
	}
	slices.Sort(records)
	return strings.Join(records, "\n")
}

func TestRefusedRequestChangesNothing(t *testing.T) {
	eachKind(t, func(t *rapid.T, p policy) {
		other := somePolicy(p.kind).Draw(t, "another policy")
		otherKind := somePolicy(buckets.Throttle+p.kind%3).Draw(t, "another kind")
		a := newAskedKey(t, p)
		a.s.SetMaxLog(3)
		for range rapid.IntRange(1, 25).Draw(t, "requests") {
			limit := rapid.SampledFrom([]policy{p, p, other, otherKind}).Draw(t, "limit")
			l := limitOf(t, limit)
			if step := rapid.SampledFrom([]int64{0, 0, 1, second, p.period / 3}).Draw(t, "step"); step <= horizon-a.now {
				a.now += step
			}
			quantity := rapid.SampledFrom([]int64{1, 1, 2, 0, -1, l.Max(), math.MaxInt64, math.MinInt64}).Draw(t, "quantity")
			peek := rapid.IntRange(0, 5).Draw(t, "peek") == 0
			deadline := a.now + rapid.SampledFrom([]int64{1, 3 * second}).Draw(t, "deadline")
			if rapid.IntRange(0, 5).Draw(t, "expire") == 0 {
				a.s.ExpireAt(a.now, theKey, deadline, 0)
			}
			held, exists := a.s.Get(a.now, theKey) // also removes the key if it has expired
			before := dump(a.s, a.now)
			d, err := a.s.Take(a.now, theKey, l, quantity, peek)
			t.Logf("at %d: %d of %+v peek=%t: %+v %v", a.now, quantity, limit, peek, d, err)
			nothing := quantity < 0 && !exists
			if err == nil && !d.Limited && quantity != 0 && !peek && !nothing {
				continue
			}
			if limit.kind == buckets.Throttle && err == nil && !peek && exists {
				if capacity := limit.capacity().Int64(); held.Field("tat")-a.now > capacity {
					held, _ = a.s.Get(a.now, theKey)
					require.Equal(t, a.now+capacity, held.Field("tat"), "the cut")
					continue
				}
			}
			require.Equal(t, before, dump(a.s, a.now))
		}
	})
}

// An expired state decides like no state, both in the pure functions and in the store, which removes it.
func TestExpiredStateEqualsNoState(t *testing.T) {
	eachKind(t, func(t *rapid.T, p policy) {
		a := newAskedKey(t, p)
		for range rapid.IntRange(1, 5).Draw(t, "requests") {
			a.ask(t)
		}
		held, exists := a.s.Get(a.now, theKey)
		if !exists || held.Expiry > horizon {
			return
		}
		now := held.Expiry + rapid.SampledFrom([]int64{0, 0, 1, second}).Draw(t, "later")
		l := limitOf(t, variation(p).Draw(t, "asked"))
		quantity := rapid.SampledFrom([]int64{1, -1, 0, l.Max(), math.MaxInt64, math.MinInt64}).Draw(t, "quantity")
		switch p.kind {
		case buckets.Throttle:
			require.Equal(t, peekThrottle(l, 0, now, quantity), peekThrottle(l, held.Field("tat"), now, quantity))
			want, d := takeThrottle(l, 0, now, quantity)
			got, e := takeThrottle(l, held.Field("tat"), now, quantity)
			require.Equal(t, d, e)
			require.Equal(t, max(now, want), max(now, got))
		case buckets.Window:
			ended := buckets.WindowState{Start: held.Field("start"), End: held.Field("end"), Used: held.Field("used")}
			require.Equal(t, peekWindow(l, buckets.WindowState{}, now, quantity), peekWindow(l, ended, now, quantity))
			want, d := takeWindow(l, buckets.WindowState{}, now, quantity)
			got, e := takeWindow(l, ended, now, quantity)
			require.Equal(t, d, e)
			if got != ended { // an expired state, which need not be kept either
				require.Equal(t, want, got)
			}
		case buckets.Slide:
			sh := &a.s.shards[0]
			hash, _ := a.s.locate(theKey)
			sh.load(sh.table.find(hash, theKey))
			left, none := &sh.found.ring, new(ringLog)
			require.Equal(t, peekSlide(l, none, now, quantity), peekSlide(l, left, now, quantity))
			want, d := takeSlide(l, none, now, quantity)
			got, e := takeSlide(l, left, now, quantity)
			require.Equal(t, d, e)
			require.Equal(t, left.Len(), got.Drop)
			got.Drop = 0
			require.Equal(t, want, got)
		}
	})
}
