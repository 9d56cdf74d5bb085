package cluster

import (
	"slices"
	"sync/atomic"
	"time"
)

// The time of a server is Local plus an offset. The offset cannot be read, but a reading of the server's clock bounds it: the
// server read it after the question was sent, and before the answer had come. Those bounds hold whatever the delays of the two
// ways are. They widen as time passes, because the clocks may run at different rates, and a later reading narrows them
// again. The middle of what all readings allow is the estimate.
//
// The offset that is used follows the estimate without ever letting the time go back. It moves by a tenth of the time that
// passes. If it is more than a second behind, it is set at once: the clock of the server was set forward, and what is there
// has expired. If it is more than a second ahead, the clock of the server was set back, and the time here runs at half its speed
// until it is right: it neither goes back nor stands still, so nobody is refused for as long as the clock was set back.

const (
	// maxDrift is the largest difference that is reckoned with between the rates of two clocks, in millionths. Clocks that are
	// disciplined by NTP differ by less.
	maxDrift = 500
	// timeUnit is the resolution of what TIME answers.
	timeUnit = int64(time.Microsecond)
	// maxGap is the largest difference of an offset and its estimate that is closed slowly.
	maxGap = int64(time.Second)
	// slowly and hastily are the times that pass for each nanosecond by which an offset moves.
	slowly, hastily = 10, 2
)

// span is an interval in which the offset of a clock lies, in nanoseconds.
type span struct {
	low, high int64
	at        int64 // the Local time for which it is known
}

// spanOf returns what a reading says: the clock showed the time shown at an instant that is between the Local times sent and got.
func spanOf(sent, got, shown int64) span {
	return span{low: shown - got, high: shown + timeUnit - sent, at: sent}.later(got)
}

// later returns what the span says at a Local time after it.
func (s span) later(local int64) span {
	widened := max(local-s.at, 0) / 1e6 * maxDrift
	return span{s.low - widened - maxDrift, s.high + widened + maxDrift, max(local, s.at)}
}

// meet returns the part of two spans of the same time that both allow. If there is none, one of the clocks has been set since
// the earlier was read: then it returns the later one.
func (s span) meet(newer span) span {
	both := span{max(s.low, newer.low), min(s.high, newer.high), newer.at}
	if both.low > both.high {
		return newer
	}
	return both
}

func (s span) middle() int64 { return s.low + (s.high-s.low)/2 }

// course is an offset that moves. From the Local time at, it goes from one value to another at a constant rate, and stays there.
type course struct {
	at       int64
	from, to int64
	pace     int64 // the time that passes for each nanosecond by which it moves; at least 2, so that time goes on
}

// offset returns the offset at a Local time. That of a time before the course is the one it begins with.
func (c *course) offset(local int64) int64 {
	moved := max(local-c.at, 0) / c.pace
	if c.to < c.from {
		return c.from - min(c.from-c.to, moved)
	}
	return c.from + min(c.to-c.from, moved)
}

// steer returns the course to another offset from a Local time on. The time goes on from where it is; see above.
func (c *course) steer(local, to int64) *course {
	from := c.offset(local)
	next := &course{at: local, from: from, to: to, pace: slowly}
	switch {
	case to-from > maxGap:
		next.from = to
	case from-to > maxGap:
		next.pace = hastily
	}
	return next
}

// nodeClock is the clock of one server, as it is seen from here. The zero value has not been read yet.
type nodeClock struct {
	state atomic.Pointer[clockState]
}

type clockState struct {
	span   span
	course *course
}

// read notes a reading of the server's clock. It must not be called concurrently.
func (c *nodeClock) read(sent, got, shown int64) {
	next := spanOf(sent, got, shown)
	old := c.state.Load()
	if old == nil {
		c.state.Store(&clockState{next, &course{at: got, from: next.middle(), to: next.middle(), pace: slowly}})
		return
	}
	next = old.span.later(got).meet(next)
	c.state.Store(&clockState{next, old.course.steer(got, next.middle())})
}

// known reports whether the clock has been read.
func (c *nodeClock) known() bool { return c.state.Load() != nil }

// offset returns how far the clock is ahead of Local. It requires that the clock is known.
//
// The times of one caller do not go back, but for this: who reads Local before a reading is noted, and the offset after it,
// sees the time as it was when the reading came, which may be some nanoseconds less than it was shown.
func (c *nodeClock) offset(local int64) int64 { return c.state.Load().course.offset(local) }

// estimate returns where offset moves to. It requires that the clock is known.
func (c *nodeClock) estimate() int64 { return c.state.Load().course.to }

// bound returns by how much the offset may be wrong; 0 if the clock is not known.
func (c *nodeClock) bound(local int64) int64 {
	s := c.state.Load()
	if s == nil {
		return 0
	}
	now, offset := s.span.later(local), s.course.offset(local)
	return max(now.high-offset, offset-now.low)
}

// median returns the middle of the offsets, and the lower one of two. It requires at least one, and sorts them.
func median(offsets []int64) int64 {
	slices.Sort(offsets)
	return offsets[(len(offsets)-1)/2]
}
