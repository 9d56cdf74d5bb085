package buckets

import "math"

// Arithmetic on times and quantities. Sums and products saturate at the ends of int64 instead of wrapping.

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

// subSat returns a - b, or the nearest int64.
func subSat(a, b int64) int64 {
	diff := a - b
	switch {
	case b < 0 && diff < a:
		return math.MaxInt64
	case b > 0 && diff > a:
		return math.MinInt64
	}
	return diff
}

// mulSat returns a * b, or the nearest int64.
func mulSat(a, b int64) int64 {
	if a == 0 || b == 0 {
		return 0
	}
	product := a * b
	wrapped := product/b != a || (a == -1 && b == math.MinInt64) || (b == -1 && a == math.MinInt64)
	switch {
	case !wrapped:
		return product
	case (a < 0) == (b < 0):
		return math.MaxInt64
	}
	return math.MinInt64
}

// floorDiv returns a / b rounded towards minus infinity; b is positive.
func floorDiv(a, b int64) int64 {
	q := a / b
	if a%b < 0 {
		q--
	}
	return q
}

// CeilDiv returns a / b rounded up. It requires that a >= 0 and b > 0. Replies round nanoseconds up to whole seconds or
// milliseconds, so that a client that waits as long as it was told is never early.
func CeilDiv(a, b int64) int64 {
	q := a / b
	if a%b > 0 {
		q++
	}
	return q
}
