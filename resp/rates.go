package resp

import "sync"

// rates is how much there is to do at the moment: what INFO calls instantaneous. As in Redis it is the mean of the latest
// samples, which are taken ten times a second.
type rates struct {
	mu     sync.Mutex
	since  int64 // when the latest sample was taken, in nanoseconds of Unix time; 0 is never
	before totals
	latest [16]rate
	next   int
}

// totals are counts that only grow.
type totals struct{ calls, read, written uint64 }

// rate is how many of them there are in a second.
type rate struct{ calls, read, written float64 }

func (r *rates) sample(now int64, t totals) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if passed := float64(now-r.since) / float64(second); r.since != 0 && passed > 0 {
		per := func(now, before uint64) float64 { return float64(now-min(now, before)) / passed }
		r.latest[r.next] = rate{per(t.calls, r.before.calls), per(t.read, r.before.read), per(t.written, r.before.written)}
		r.next = (r.next + 1) % len(r.latest)
	}
	r.since, r.before = now, t
}

func (r *rates) now() (mean rate) {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := float64(len(r.latest))
	for _, l := range r.latest {
		mean.calls += l.calls / n
		mean.read += l.read / n
		mean.written += l.written / n
	}
	return mean
}

// reset forgets the samples, and what they counted from.
func (r *rates) reset() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.before, r.latest = totals{}, [16]rate{}
}

// Sample looks at how much there is to do and how much memory is in use. INFO tells the mean of the latest samples, and the
// most memory that any has seen: it is to be called ten times a second.
func (s *Server) Sample() {
	counts := &s.transport.Counts
	s.rates.sample(s.now(), totals{s.commands.calls(), counts.Read.Load(), counts.Written.Load()})
	s.peaked(readHeap().allocated)
}
