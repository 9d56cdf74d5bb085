package resp

import (
	"fmt"
	"strings"
	"time"

	"cellserver/resp/command"
	"cellserver/resp/frame"
	"cellserver/resp/latency"
)

// recordDuration adds a command to the slowlog and to the latency events, if it took long. It is for the commands that are
// timed one by one: to read the clock twice would cost more than some of the fast ones do.
func (s *session) recordDuration(c *entry, words [][]byte, took int64) {
	l := s.bounds
	if l.SlowerThan >= 0 && took >= int64(l.SlowerThan) {
		s.addToSlowlog(c, words, took)
	}
	if l.LatencyThreshold > 0 && took >= int64(l.LatencyThreshold) {
		s.srv.latencies.Add(latency.Command, s.now/second, took/millisecond)
	}
}

// recordAverage adds consecutive fast commands to the slowlog and to the latency events, if they took long on average, or together
// if they waited together. last is the last of them.
func (s *session) recordAverage(last *entry, each int64) {
	l := s.bounds
	if l.SlowerThan >= 0 && each >= int64(l.SlowerThan) {
		s.addToSlowlog(last, nil, each)
	}
	if l.LatencyThreshold > 0 && each >= int64(l.LatencyThreshold) {
		s.srv.latencies.Add(latency.FastCommand, s.now/second, each/millisecond)
	}
}

// addToSlowlog adds a command to the slowlog. words is nil for consecutive fast commands.
func (s *session) addToSlowlog(c *entry, words [][]byte, took int64) {
	e := latency.Entry{At: s.now, Took: time.Duration(took), Client: s.client.addr}
	s.client.mu.Lock()
	e.Name = s.client.name
	s.client.mu.Unlock()
	if words == nil { // their words are no longer in the buffer when their duration is known
		e.Words = []string{strings.ToUpper(c.Words()), "(on average, in a pipeline)"}
		if s.srv.remote != nil {
			e.Words[1] = "(and others with it, in a pipeline)"
		}
	} else {
		e.Words = latency.Abridge(c.Redacted(words))
	}
	s.srv.slowlog.Add(e, s.bounds.SlowlogLen)
}

// slowlogGet is SLOWLOG GET [count].
func slowlogGet(s *session, words [][]byte) {
	n := int64(10)
	if len(words) == 3 {
		var ok bool
		if n, ok = frame.ParseInt(words[2]); !ok || n < -1 {
			s.out.Error(errSlowlogCount)
			return
		}
	} else if len(words) > 3 {
		s.out.Errorf(errArity, "slowlog|get")
		return
	}
	s.srv.slowlog.Append(&s.out, n)
}

func slowlogLen(s *session, _ [][]byte) { s.out.Int(int64(s.srv.slowlog.Len())) }

func slowlogReset(s *session, _ [][]byte) {
	s.srv.slowlog.Reset()
	s.out.OK()
}

func latencyLatest(s *session, _ [][]byte) { s.srv.latencies.AppendLatest(&s.out) }

func latencyHistory(s *session, words [][]byte) {
	s.srv.latencies.AppendHistory(&s.out, string(words[2]))
}

func latencyReset(s *session, words [][]byte) {
	var names []string
	for _, w := range words[2:] {
		names = append(names, string(w))
	}
	s.out.Int(s.srv.latencies.Forget(names))
}

// latencyHistogram is LATENCY HISTOGRAM [command ...]: cumulative distributions of the durations of calls, of all commands that
// have been called, or of those that are named and their subcommands.
func latencyHistogram(s *session, words [][]byte) {
	var rows []*entry
	called := func(c *entry) {
		if c.Took() != nil {
			rows = append(rows, c)
		}
	}
	if len(words) == 2 {
		s.srv.commands.each(called)
	}
	for _, w := range words[2:] {
		c := s.srv.commands.table.Named(string(w))
		if c == nil {
			continue
		}
		called(s.srv.commands.of(c))
		for i := range c.Subs {
			called(s.srv.commands.of(&c.Subs[i]))
		}
	}
	s.out.Map(len(rows))
	for _, c := range rows {
		c.Took().AppendCumulative(&s.out, c.FullName()) // CONFIG RESETSTAT may have set it to nil since
	}
}

func latencyDoctor(s *session, _ [][]byte) {
	if s.bounds.LatencyThreshold <= 0 {
		s.out.Text(latency.DoctorDisabled)
		return
	}
	s.out.Text(s.srv.latencies.Doctor())
}

// monitor is MONITOR: the connection is shown every command from now on, except for administrative ones.
func monitor(s *session, _ [][]byte) {
	switch {
	case s.tx.running:
		s.out.Error(errMonitorInExec)
		return
	case s.client.conn == nil:
		s.out.Error(errInternal)
		return
	}
	s.out.OK()
	s.srv.addMonitor(s.client)
}

// showMonitors sends a command that has run to monitors, which the caller has loaded once: they may leave at any time. As in
// Redis EXEC is shown after the commands of its transaction. If the connection is a monitor itself, it gets the line after the
// reply to the command, or to EXEC.
func (s *session) showMonitors(monitors []*client, c *entry, words [][]byte) {
	if c.Flags&command.Admin == 0 {
		line := fmt.Appendf(nil, "+%d.%06d [%d %s]", s.now/second, s.now%second/1000, s.database(), s.client.addr)
		for _, w := range c.Redacted(words) {
			line = frame.AppendQuoted(append(line, ' '), w)
		}
		line = append(line, '\r', '\n')
		for _, m := range monitors {
			if m == s.client {
				s.monitorLines = append(s.monitorLines, line...)
			} else {
				m.conn.Deliver(line)
			}
		}
	}
	if !s.tx.running {
		s.out.Bytes = append(s.out.Bytes, s.monitorLines...)
		s.monitorLines = nil
	}
}

// latencyGraph is LATENCY GRAPH event.
func latencyGraph(s *session, words [][]byte) {
	list := s.srv.latencies.Of(string(words[2]))
	if len(list) == 0 {
		s.out.Errorf(errNoSamples, words[2])
		return
	}
	s.out.Text(latency.Draw(string(words[2]), list, s.now/second))
}
