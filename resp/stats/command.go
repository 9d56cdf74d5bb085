package stats

import (
	"sync/atomic"

	"cellserver/resp/latency"
)

// Command is the counts of one command. Each session adds to them once a batch.
type Command struct {
	Calls    atomic.Uint64
	Nanos    atomic.Uint64 // how long all calls took
	Rejected atomic.Uint64 // calls that were refused before they ran
	Failed   atomic.Uint64 // calls that were answered with an error

	took atomic.Pointer[latency.Histogram]

	_ [24]byte // fills the cache line, so that commands share none
}

// Add adds calls that took each nanoseconds each.
func (c *Command) Add(calls uint64, each int64) {
	c.Calls.Add(calls)
	c.Nanos.Add(calls * uint64(each))
	h := c.took.Load()
	if h == nil {
		// Most commands are never called, so the histogram is made with the first call.
		c.took.CompareAndSwap(nil, new(latency.Histogram))
		if h = c.took.Load(); h == nil {
			return // reset meanwhile
		}
	}
	h.Add(each, calls)
}

// Took returns how long calls took, or nil if there was none since the last reset.
func (c *Command) Took() *latency.Histogram { return c.took.Load() }

// Reset starts the counts again.
func (c *Command) Reset() {
	c.Calls.Store(0)
	c.Nanos.Store(0)
	c.Rejected.Store(0)
	c.Failed.Store(0)
	c.took.Store(nil)
}
