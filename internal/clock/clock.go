// Package clock has the decision clock: the only place where the time for decisions is read.
//
// The clock is monotonic, and starts at wall time. From then on it follows wall time only slowly, so that a step of the
// system clock neither frees nor locks out any client, while drift is still followed. On Linux, time in which the
// machine is asleep counts (CLOCK_BOOTTIME).
package clock

import (
	"sync/atomic"
	"time"
)

const (
	// maxSlew is how fast the clock moves towards wall time, in parts per million: NTP's customary bound.
	maxSlew = 500
	// every is the interval, in nanoseconds, at which the slew is chosen.
	every = int64(time.Second)
	// nap is the shortest time, in nanoseconds, that counts as sleep of the machine: two clocks are read one after the
	// other, and differ by less anyway.
	nap = int64(100 * time.Millisecond)
)

// Clock is a decision clock. Many goroutines may read it at once.
type Clock struct {
	read   func() (mono, wall int64)
	slept  func() int64 // the time, in nanoseconds, that the machine has been asleep
	anchor atomic.Pointer[anchor]
}

// anchor is a line through out at mono. It rises by 1 + ppm/1e6 for each nanosecond of one interval, and by 1 after
// that, so that the slew ends even if the clock is not read for long.
type anchor struct {
	mono, out, ppm int64
	slept          int64 // the sleep of the machine that out includes
}

func (a *anchor) at(mono int64) int64 {
	passed := mono - a.mono
	return a.out + passed + min(passed, every)*a.ppm/1e6
}

// New returns a clock that agrees with the system's wall clock now.
func New() *Clock {
	start := time.Now()
	return newClock(func() (mono, wall int64) {
		now := time.Now()
		return int64(now.Sub(start)), now.UnixNano()
	}, slept)
}

// Steady returns a clock that agrees with the system's wall clock now, and from then on runs as evenly as the machine's hardware
// does: it follows no wall time, and the time that the machine is asleep does not count. It is for what measures another clock
// against it: a jump of both would count twice.
func Steady() func() int64 {
	start := time.Now()
	return func() int64 { return start.UnixNano() + int64(time.Since(start)) }
}

// newClock returns a clock that uses read, which returns a monotonic and a wall reading in nanoseconds, and slept,
// which returns the time that the monotonic reading lacks because the machine was asleep.
func newClock(read func() (mono, wall int64), slept func() int64) *Clock {
	c := &Clock{read: read, slept: slept}
	mono, wall := read()
	c.anchor.Store(&anchor{mono: mono, out: wall, slept: slept()})
	return c
}

// Now returns the time in nanoseconds of Unix time. For one caller it never goes back. It jumps only after a sleep of
// the machine, by the length of the sleep and within a second of the end of it.
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
	// The slew that closes the gap within one interval, bounded by maxSlew. A goroutine that loses the race has read
	// the old line, which meets the new one at this point.
	ppm := min(max((wall-next)/(every/1e6), -maxSlew), maxSlew)
	if c.anchor.CompareAndSwap(a, &anchor{mono: mono, out: next, ppm: ppm, slept: sleep}) {
		return next
	}
	return out
}
