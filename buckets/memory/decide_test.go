package memory

import (
	"math"

	"cellserver/buckets"
)

// Decisions as values, for tests to compare.

func peekThrottle(l buckets.Limit, tat, now, quantity int64) (d buckets.Decision) {
	l.PeekThrottle(tat, now, quantity, &d)
	return d
}

func takeThrottle(l buckets.Limit, tat, now, quantity int64) (kept int64, d buckets.Decision) {
	kept = l.TakeThrottle(tat, now, quantity, &d)
	return kept, d
}

func peekWindow(l buckets.Limit, w buckets.WindowState, now, quantity int64) (d buckets.Decision) {
	l.PeekWindow(w, now, quantity, &d)
	return d
}

func takeWindow(l buckets.Limit, w buckets.WindowState, now, quantity int64) (buckets.WindowState, buckets.Decision) {
	var d buckets.Decision
	l.TakeWindow(&w, now, quantity, &d)
	return w, d
}

func peekSlide(l buckets.Limit, log buckets.Log, now, quantity int64) (d buckets.Decision) {
	l.PeekSlide(log, now, quantity, &d)
	return d
}

func takeSlide(l buckets.Limit, log buckets.Log, now, quantity int64) (edit buckets.LogEdit, d buckets.Decision) {
	l.TakeSlide(log, now, quantity, &edit, &d)
	return edit, d
}

const millisecond = int64(1e6)

// addSat returns a + b, or the nearest int64.
func addSat(a, b int64) int64 {
	sum := a + b
	switch {
	case b > 0 && sum < a:
		return math.MaxInt64
	case b < 0 && sum > a:
		return math.MinInt64
	}
	return sum
}
