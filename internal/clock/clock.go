// Package clock is the decision clock: the one place that reads the time for decisions.
//
// It is monotonic and anchored to wall time when it is made. Afterwards it follows wall time only slowly, so that a
// system clock that is stepped neither frees nor locks anybody, while one that drifts is still followed.
package clock

import (
	"sync/atomic"
	"time"
)

const (
	// maxSlew is how fast the clock moves towards wall time, in parts per million: NTP's customary bound.
	maxSlew = 500
	// every is how often the slew is chosen anew, in nanoseconds.
	every = int64(time.Second)
)

// Clock gives the time in nanoseconds of Unix time. It may be read by many goroutines at once.
type Clock struct {
	read   func() (mono, wall int64)
	anchor atomic.Pointer[anchor]
}

// anchor is a line that rises from out at mono by 1 + ppm/1e6 for each nanosecond of one interval, and by 1 after it:
// however long nobody asks, the slew stops where it was meant to.
type anchor struct {
	mono, out, ppm int64
}

func (a *anchor) at(mono int64) int64 {
	passed := mono - a.mono
	return a.out + passed + min(passed, every)*a.ppm/1e6
}

// New makes a clock that agrees with the system's wall clock now.
func New() *Clock {
	start := time.Now()
	return newClock(func() (mono, wall int64) {
		now := time.Now()
		return int64(now.Sub(start)), now.UnixNano()
	})
}

// newClock makes a clock of read, which returns a monotonic and a wall reading in nanoseconds.
func newClock(read func() (mono, wall int64)) *Clock {
	c := &Clock{read: read}
	mono, wall := read()
	c.anchor.Store(&anchor{mono: mono, out: wall})
	return c
}

// Now returns the time in nanoseconds of Unix time. It never goes back for one caller, and never jumps.
func (c *Clock) Now() int64 {
	mono, wall := c.read()
	a := c.anchor.Load()
	out := a.at(mono)
	if mono-a.mono < every {
		return out
	}
	// The slew that would close the gap within one interval, as far as it may go. Whoever loses the race has read the
	// old line, which meets the new one at this very point.
	ppm := min(max((wall-out)/(every/1e6), -maxSlew), maxSlew)
	c.anchor.CompareAndSwap(a, &anchor{mono: mono, out: out, ppm: ppm})
	return out
}
