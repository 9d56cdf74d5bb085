// Package clock is the decision clock: the one place that reads the time for decisions.
//
// It is monotonic and anchored to wall time when it is made. A machine that slept has been idle: on Linux its sleep counts
// (CLOCK_BOOTTIME). Afterwards it follows wall time only slowly, so that a
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
	// nap is the shortest sleep of the machine that is taken for one: two clocks are read one after the other.
	nap = int64(100 * time.Millisecond)
)

// Clock gives the time in nanoseconds of Unix time. It may be read by many goroutines at once.
type Clock struct {
	read   func() (mono, wall int64)
	slept  func() int64 // for how long the machine has been asleep
	anchor atomic.Pointer[anchor]
}

// anchor is a line that rises from out at mono by 1 + ppm/1e6 for each nanosecond of one interval, and by 1 after it:
// however long nobody asks, the slew stops where it was meant to.
type anchor struct {
	mono, out, ppm int64
	slept          int64 // what of the machine's sleep out has in it
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
	}, slept)
}

// newClock makes a clock of read, which returns a monotonic and a wall reading in nanoseconds, and of slept, which returns
// what the monotonic one leaves out because the machine was asleep.
func newClock(read func() (mono, wall int64), slept func() int64) *Clock {
	c := &Clock{read: read, slept: slept}
	mono, wall := read()
	c.anchor.Store(&anchor{mono: mono, out: wall, slept: slept()})
	return c
}

// Now returns the time in nanoseconds of Unix time. It never goes back for one caller, and jumps only by what the machine
// was asleep, within a second of its waking.
func (c *Clock) Now() int64 {
	mono, wall := c.read()
	a := c.anchor.Load()
	out := a.at(mono)
	if mono-a.mono < every {
		return out
	}
	sleep := max(a.slept, c.slept())
	if sleep-a.slept < nap {
		sleep = a.slept
	}
	next := out + sleep - a.slept
	// The slew that would close the gap within one interval, as far as it may go. Whoever loses the race has read the
	// old line, which meets the new one at this very point.
	ppm := min(max((wall-next)/(every/1e6), -maxSlew), maxSlew)
	if c.anchor.CompareAndSwap(a, &anchor{mono: mono, out: next, ppm: ppm, slept: sleep}) {
		return next
	}
	return out
}
