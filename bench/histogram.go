package main

import (
	"math/bits"
	"time"
)

// subBits gives every power of two 2^(subBits-1) buckets of equal width, so that a bucket is at most 1/128 of its values
// wide.
const subBits = 8

// histogram counts durations in log-linear buckets: exact below 256 ns, within 0.8 % above. The zero value is empty. It
// is not safe for concurrent use.
type histogram struct {
	counts [(64 - subBits + 2) << (subBits - 1)]uint64
	n      uint64
	max    time.Duration
}

// bucketOf returns where v is counted. Negative durations, of a clock that cannot have run backwards, are 0.
func bucketOf(v time.Duration) int {
	u := uint64(max(v, 0))
	shift := max(bits.Len64(u)-subBits, 0)
	return shift<<(subBits-1) + int(u>>shift)
}

// top returns the largest duration that bucket i counts.
func top(i int) time.Duration {
	shift := max(i>>(subBits-1)-1, 0)
	within := i - shift<<(subBits-1)
	return time.Duration((uint64(within)+1)<<shift - 1)
}

func (h *histogram) record(v time.Duration) {
	h.counts[bucketOf(v)]++
	h.n++
	h.max = max(h.max, v)
}

// add counts everything that other has counted.
func (h *histogram) add(other *histogram) {
	for i, n := range other.counts {
		h.counts[i] += n
	}
	h.n += other.n
	h.max = max(h.max, other.max)
}

// quantile returns a duration that the share q of all, 0 to 1, does not exceed: the upper end of a bucket, and never
// above the largest that was recorded. It is 0 when nothing was.
func (h *histogram) quantile(q float64) time.Duration {
	rank := max(uint64(q*float64(h.n)+0.5), 1)
	var seen uint64
	for i, n := range h.counts {
		if seen += n; n > 0 && seen >= rank {
			return min(top(i), h.max)
		}
	}
	return h.max
}
