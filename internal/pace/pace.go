// Package pace lets other goroutines run during long work. runtime.Gosched is not enough on one processor: Go's scheduler
// resumes the goroutine before it polls the network, so requests wait until it is preempted, which takes 10 ms. A short
// sleep has the scheduler poll the network.
package pace

import "time"

// Pacer splits long work into slices, and sleeps between them. Work and Pause must be set; a Pacer is for one goroutine at a
// time, and allocates nothing.
type Pacer struct {
	Work  time.Duration // the least time that a slice takes
	Pause time.Duration // the sleep after a slice
	Now   func() int64  // the clock, in nanoseconds; nil is the monotonic clock of the system

	resumed int64 // when the slice began
}

// Resume begins a slice. The zero value of a Pacer has not begun one.
func (p *Pacer) Resume() { p.resumed = p.now() }

// ResumeAt is Resume for a caller that has read the clock: now is what it returned.
func (p *Pacer) ResumeAt(now int64) { p.resumed = now }

// Elapsed returns the duration of the slice so far.
func (p *Pacer) Elapsed() time.Duration { return time.Duration(p.now() - p.resumed) }

// YieldIfLong does nothing and returns 0 if the slice has taken less than Work. Otherwise it sleeps for Pause, begins the next
// slice, and returns how long this one took.
func (p *Pacer) YieldIfLong() (took time.Duration) {
	took = p.Elapsed()
	if took < p.Work {
		return 0
	}
	time.Sleep(p.Pause)
	p.Resume()
	return took
}

// origin is where the monotonic clock begins.
var origin = time.Now()

func (p *Pacer) now() int64 {
	if p.Now != nil {
		return p.Now()
	}
	return int64(time.Since(origin))
}
