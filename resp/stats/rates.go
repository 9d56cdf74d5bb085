package stats

import "sync"

// second is in nanoseconds.
const second = int64(1e9)

// Rates is what INFO calls instantaneous. As in Redis it is the mean of the latest samples, which are taken ten times a
// second.
type Rates struct {
	mu     sync.Mutex
	since  int64 // when the latest sample was taken, in nanoseconds of Unix time; 0 if there is none
	before Totals
	latest [16]Rate
	next   int
}

// Totals are counts that only grow.
type Totals struct{ Calls, Read, Written uint64 }

// Rate is how much Totals grow in a second.
type Rate struct{ Calls, Read, Written float64 }

// Sample adds a sample, taken at now.
func (r *Rates) Sample(now int64, t Totals) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if passed := float64(now-r.since) / float64(second); r.since != 0 && passed > 0 {
		per := func(now, before uint64) float64 { return float64(now-min(now, before)) / passed }
		r.latest[r.next] = Rate{per(t.Calls, r.before.Calls), per(t.Read, r.before.Read), per(t.Written, r.before.Written)}
		r.next = (r.next + 1) % len(r.latest)
	}
	r.since, r.before = now, t
}

// Mean returns the mean of the latest samples.
func (r *Rates) Mean() (mean Rate) {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := float64(len(r.latest))
	for _, l := range r.latest {
		mean.Calls += l.Calls / n
		mean.Read += l.Read / n
		mean.Written += l.Written / n
	}
	return mean
}

// Reset forgets the samples, and the totals from which the next sample counts.
func (r *Rates) Reset() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.before, r.latest = Totals{}, [16]Rate{}
}
