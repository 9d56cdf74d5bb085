package main

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

func TestHistogramBucketsTouchAndAreNarrow(t *testing.T) {
	last := bucketOf(math.MaxInt64)
	if h := new(histogram); last >= len(h.counts) {
		t.Fatalf("the longest duration is in bucket %d of %d", last, len(h.counts))
	}
	for i := range last {
		low, high := time.Duration(0), top(i)
		if i > 0 {
			low = top(i-1) + 1
		}
		if bucketOf(low) != i || bucketOf(high) != i || bucketOf(high+1) != i+1 {
			t.Fatalf("bucket %d is said to be %d to %d, which are in %d and %d", i, low, high, bucketOf(low), bucketOf(high))
		}
		if float64(high-low) > 0.01*float64(low) && high != low {
			t.Fatalf("bucket %d, %d to %d, is wider than a hundredth", i, low, high)
		}
	}
}

func TestHistogramQuantilesAreThoseOfTheSortedValues(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	var h, half histogram
	var all []time.Duration
	for i := range 100_000 {
		v := time.Duration(math.Exp(r.Float64()*20)) + 1 // 1 ns to half a second
		all = append(all, v)
		if i%2 == 0 {
			h.record(v)
		} else {
			half.record(v)
		}
	}
	h.add(&half)
	slices.Sort(all)
	for _, q := range []float64{0.0001, 0.01, 0.5, 0.99, 0.999, 0.9999, 1} {
		want := all[max(int(q*float64(len(all))), 1)-1]
		got := h.quantile(q)
		if got < want || float64(got-want) > 0.01*float64(want) {
			t.Errorf("quantile %v is %d, want %d", q, got, want)
		}
	}
	if h.n != 100_000 || h.max != all[len(all)-1] || h.quantile(1) != h.max {
		t.Errorf("n %d, max %d, quantile 1 %d", h.n, h.max, h.quantile(1))
	}
}

func TestHistogramThatIsNearlyEmpty(t *testing.T) {
	var h histogram
	if h.quantile(0.5) != 0 || h.quantile(1) != 0 {
		t.Error("nothing was recorded")
	}
	h.record(-5)
	h.record(12345)
	if h.quantile(0.5) != 0 || h.quantile(0.9999) != 12345 || h.max != 12345 {
		t.Errorf("median %d, p99.99 %d, max %d", h.quantile(0.5), h.quantile(0.9999), h.max)
	}
}
