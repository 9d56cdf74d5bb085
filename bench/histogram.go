package main

import (
	"math/bits"
	"time"
)

// subBits divides every power of two into 2^(subBits-1) buckets of equal width, so that the width of a bucket is at most
// 1/128 of its values.
const subBits = 8

// histogram counts durations in log-linear buckets: exact below 256 ns, within 0.8 % above. The zero value is empty. It
// is not safe for concurrent use.
type histogram struct {
	counts [(64 - subBits + 2) << (subBits - 1)]uint64
	n      uint64
	max    time.Duration
}

// bucketOf returns the index of the bucket that counts v. It counts negative durations as 0.
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

// add adds the counts of other.
func (h *histogram) add(other *histogram) {
	for i, n := range other.counts {
		h.counts[i] += n
	}
	h.n += other.n
	h.max = max(h.max, other.max)
}

// quantile returns the q-quantile, for q from 0 to 1: the upper end of a bucket, but at most the largest recorded duration.
// It returns 0 if nothing is recorded.
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
