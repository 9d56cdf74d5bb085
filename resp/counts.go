package resp

import (
	"cellserver/resp/info"
	"cellserver/resp/stats"
)

// count counts a call that is not timed by itself.
func (s *session) count(c *entry) {
	if !s.tally.Count(c) {
		s.settle(s.srv.now())
		s.tally.Count(c)
	}
}

// settle ends the stretch of calls that share their time, and begins the next.
func (s *session) settle(now int64) {
	if latest, each, ok := s.tally.Settle(now, &s.srv.stats); ok {
		s.recordAverage(latest, each)
	}
}

// Sample takes a sample of the load and of the memory in use. INFO tells the mean of the latest samples, and the most
// memory of all. It is to be called ten times a second.
func (s *Server) Sample() {
	counts := &s.transport.Counts
	s.rates.Sample(s.now(), stats.Totals{Calls: s.commands.calls(), Read: counts.Read.Load(), Written: counts.Written.Load()})
	s.stats.Peak(info.Allocated())
}
