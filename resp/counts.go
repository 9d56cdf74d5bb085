package resp

import (
	"sync/atomic"

	"cellserver/resp/latency"
)

// counts is what INFO and LATENCY HISTOGRAM tell of a command. Every connection adds to it, a batch at a time.
type counts struct {
	calls    atomic.Uint64
	nanos    atomic.Uint64 // that the calls have taken
	rejected atomic.Uint64 // refused before they ran
	failed   atomic.Uint64 // answered with an error
	took     atomic.Pointer[latency.Histogram]

	_ [24]byte // no other command's counts in the same line of the cache
}

// add adds calls that have taken so many nanoseconds each.
func (c *counts) add(calls uint64, each int64) {
	c.calls.Add(calls)
	c.nanos.Add(calls * uint64(each))
	h := c.took.Load()
	if h == nil {
		// Most commands are never called: a histogram is made for those that are.
		c.took.CompareAndSwap(nil, new(latency.Histogram))
		if h = c.took.Load(); h == nil {
			return // reset meanwhile
		}
	}
	h.Add(each, calls)
}

func (c *counts) reset() {
	c.calls.Store(0)
	c.nanos.Store(0)
	c.rejected.Store(0)
	c.failed.Store(0)
	c.took.Store(nil)
}

// tally is what a session has run that is not timed call by call: a reading of the clock for each would cost more than some
// of them do. They share the time of the stretch in which they ran. A stretch begins and ends where the clock is read
// anyway: with a batch, and with a command that is timed by itself.
type tally struct {
	since int64 // when the stretch began
	rows  [8]tallied
	n     int // of the rows
	at    int // the row of the latest call

	hits, misses uint64 // keys that reading commands have found, and have not
}

type tallied struct {
	row   *entry
	calls uint64
}

// begin begins a batch that was read at now. A batch that is answered in parts is begun with the same reading each time:
// the time of sending is nobody's.
func (s *session) begin(now int64) {
	if now <= s.tally.since {
		now = s.srv.now()
	}
	s.tally.since = now
}

// count counts a call that is not timed by itself.
func (s *session) count(c *entry) {
	t := &s.tally
	if t.n == 0 || t.rows[t.at].row != c {
		s.turnTo(c)
	}
	t.rows[t.at].calls++
}

// turnTo makes c the row of the latest call.
func (s *session) turnTo(c *entry) {
	t := &s.tally
	for i, r := range t.rows[:t.n] {
		if r.row == c {
			t.at = i
			return
		}
	}
	if t.n == len(t.rows) {
		s.settle(s.srv.now())
	}
	t.at = t.n
	t.rows[t.at] = tallied{row: c}
	t.n++
}

// settle ends a stretch at now, and begins the next: each call gets an equal part of its time.
func (s *session) settle(now int64) {
	t := &s.tally
	took := max(0, now-t.since)
	t.since = now
	if t.hits|t.misses != 0 {
		s.srv.stats.hits.Add(t.hits)
		s.srv.stats.misses.Add(t.misses)
		t.hits, t.misses = 0, 0
	}
	if t.n == 0 {
		return
	}
	calls := uint64(0)
	for _, r := range t.rows[:t.n] {
		calls += r.calls
	}
	each := took / int64(calls)
	for _, r := range t.rows[:t.n] {
		r.row.add(r.calls, each)
	}
	t.n = 0
	s.timedTogether(t.rows[t.at].row, each)
}

// lookedUp counts a key that was looked for to be read. As in Redis, what changes a key counts as neither found nor missed:
// DEL, EXPIRE, and a limit command but for PEEK.
func (s *session) lookedUp(there bool) {
	if there {
		s.tally.hits++
	} else {
		s.tally.misses++
	}
}
