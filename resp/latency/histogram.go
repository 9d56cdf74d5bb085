package latency

import (
	"math/bits"
	"sync/atomic"
)

// Histogram counts how long calls took, in nanoseconds up to a second, with two significant digits: up to 255 exactly, and
// beyond that 128 slots for each doubling. Redis has the same, so that the numbers are the same as well.
type Histogram [23*128 + 128]atomic.Uint64

const (
	longestTook = 1_000_000_000 // what took longer is counted as this
	longestSlot = 1<<30 - 1
)

// Add counts calls that took so many nanoseconds each.
func (h *Histogram) Add(took int64, calls uint64) { h[slotOf(took)].Add(calls) }

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

// Total returns how many calls are counted.
func (h *Histogram) Total() (calls uint64) {
	for i := range h {
		calls += h[i].Load()
	}
	return calls
}

// Percentile returns the duration that so many percent of the calls, of which there is one at least, did not exceed.
func (h *Histogram) Percentile(percent float64) int64 {
	want := max(1, uint64(percent/100*float64(h.Total())+0.5))
	sum := uint64(0)
	for i := range h {
		if sum += h[i].Load(); sum >= want {
			return mostIn(i)
		}
	}
	return longestSlot
}

// Step is how many calls took no longer than so many microseconds.
type Step struct {
	Micros int64
	Calls  uint64
}

// Steps returns the cumulative distribution at each doubling of a microsecond at which there is something new.
func (h *Histogram) Steps() (list []Step) {
	sum, before := uint64(0), uint64(0)
	most := int64(1032) // the slot that 1024 is in, and all before
	for i := range h {
		for mostIn(i) >= most {
			if sum > before {
				list = append(list, Step{(most - 1) / 1000, sum})
				before = sum
			}
			most *= 2
		}
		sum += h[i].Load()
	}
	if sum > before {
		list = append(list, Step{min(most-1, longestSlot) / 1000, sum})
	}
	return list
}
