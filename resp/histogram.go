package resp

import (
	"math/bits"
	"sync/atomic"
)

// histogram counts how long calls took, in nanoseconds up to a second, with two significant digits: up to 255 exactly, and
// beyond that 128 slots for each doubling. Redis has the same, so that the numbers are the same as well.
type histogram [23*128 + 128]atomic.Uint64

const (
	longestTook = second // what took longer is counted as this
	longestSlot = 1<<30 - 1
)

func (h *histogram) add(took int64, calls uint64) { h[slotOf(took)].Add(calls) }

// slotOf returns the slot of a duration.
func slotOf(took int64) int {
	v := uint64(min(max(took, 1), longestTook))
	shift := max(0, bits.Len64(v)-8)
	return shift<<7 + int(v>>shift)
}

// mostIn returns the longest duration of a slot.
func mostIn(slot int) int64 {
	if slot < 256 {
		return int64(slot)
	}
	shift := slot>>7 - 1
	return int64(slot-shift<<7+1)<<shift - 1
}

// total returns how many calls are counted.
func (h *histogram) total() (calls uint64) {
	for i := range h {
		calls += h[i].Load()
	}
	return calls
}

// percentile returns the duration that so many percent of the calls, of which there is one at least, did not exceed.
func (h *histogram) percentile(percent float64) int64 {
	want := max(1, uint64(percent/100*float64(h.total())+0.5))
	sum := uint64(0)
	for i := range h {
		if sum += h[i].Load(); sum >= want {
			return mostIn(i)
		}
	}
	return longestSlot
}

// step is how many calls took no longer than so many microseconds.
type step struct {
	micros int64
	calls  uint64
}

// steps returns the cumulative distribution at each doubling of a microsecond at which there is something new.
func (h *histogram) steps() (list []step) {
	sum, before := uint64(0), uint64(0)
	most := int64(1032) // the slot that 1024 is in, and all before
	for i := range h {
		for mostIn(i) >= most {
			if sum > before {
				list = append(list, step{(most - 1) / 1000, sum})
				before = sum
			}
			most *= 2
		}
		sum += h[i].Load()
	}
	if sum > before {
		list = append(list, step{min(most-1, longestSlot) / 1000, sum})
	}
	return list
}
