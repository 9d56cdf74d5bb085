package main

import (
	"math"
	"runtime/debug"
)

// garbagePercent is GOGC: how much garbage may gather, in percent of the live memory, before it is collected. It is low
// because nearly all live memory is blocks and indexes without pointers, which the collector does not scan, and nearly
// all garbage is indexes that have grown. While ten million keys of 13 bytes were added (docs/performance.md), 10, 25 and
// 100 percent took 34.5, 35.2 and 37.3 bytes of RSS a key, with 81, 45 and 14 collections of some 5 ms of processor time
// each in 6 s. After that, requests make no garbage, so nothing is collected.
const garbagePercent = 10

// setRuntimeMemory makes Go's runtime collect garbage before it takes more memory from the system than maxMemory bytes
// and the needs of connections. 0 means no limit.
func setRuntimeMemory(maxMemory int64) {
	debug.SetGCPercent(garbagePercent)
	limit := int64(math.MaxInt64)
	if maxMemory > 0 {
		limit = maxMemory + max(64<<20, maxMemory/8)
	}
	debug.SetMemoryLimit(limit)
}

// minReturned is how many bytes the store must have released before they are returned to the system at once. Smaller
// amounts are left to the garbage collector, which returns them within some minutes.
const minReturned = 32 << 20

// memoryReturner returns memory to the system after the store has released it.
type memoryReturner struct {
	peak int64 // the most bytes that the store has held since memory was last returned
}

// check returns memory to the system if held, the bytes that the store holds now, is at most half of the peak and at least
// minReturned below it.
func (r *memoryReturner) check(held int64) {
	if held > r.peak/2 || r.peak-held < minReturned {
		r.peak = max(r.peak, held)
		return
	}
	debug.FreeOSMemory()
	r.peak = held
}
