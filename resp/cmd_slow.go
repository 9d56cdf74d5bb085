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

// recordAverage adds consecutive fast commands to the slowlog and to the latency events, if they took long on average. last is
// the last of them.
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
	words = c.Redacted(words)
	for i, w := range words {
		switch {
		case i == latency.MaxWords-1 && len(words) > latency.MaxWords:
			e.Words = append(e.Words, fmt.Sprintf("... (%d more arguments)", len(words)-i))
		case i >= latency.MaxWords:
		case len(w) > latency.MaxBytes:
			e.Words = append(e.Words, fmt.Sprintf("%s... (%d more bytes)", w[:latency.MaxBytes], len(w)-latency.MaxBytes))
		default:
			e.Words = append(e.Words, string(w))
		}
	}
	if words == nil { // their words are no longer in the buffer when their duration is known
		e.Words = []string{strings.ToUpper(c.Words()), "(on average, in a pipeline)"}
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
	list := s.srv.slowlog.Latest(n)
	s.out.Array(len(list))
	for _, e := range list {
		s.out.Array(6)
		s.out.Int(e.ID)
		s.out.Int(e.At / second)
		s.out.Int(e.Took.Microseconds())
		s.out.Array(len(e.Words))
		for _, w := range e.Words {
			s.out.BulkString(w)
		}
		s.out.BulkString(e.Client)
		s.out.BulkString(e.Name)
	}
}

func slowlogLen(s *session, _ [][]byte) { s.out.Int(int64(s.srv.slowlog.Len())) }

func slowlogReset(s *session, _ [][]byte) {
	s.srv.slowlog.Reset()
	s.out.OK()
}

// latencyLatest is LATENCY LATEST: of each event the time and the duration of the last spike, and the longest duration.
func latencyLatest(s *session, _ [][]byte) {
	names := s.srv.latencies.Names()
	s.out.Array(len(names))
	for _, name := range names {
		list := s.srv.latencies.Of(name)
		last := latency.Spike{}
		if len(list) > 0 {
			last = list[len(list)-1]
		}
		s.out.Array(4)
		s.out.BulkString(name)
		s.out.Int(last.At)
		s.out.Int(last.Took)
		s.out.Int(latency.Worst(list))
	}
}

func latencyHistory(s *session, words [][]byte) {
	list := s.srv.latencies.Of(string(words[2]))
	s.out.Array(len(list))
	for _, l := range list {
		s.out.Array(2)
		s.out.Int(l.At)
		s.out.Int(l.Took)
	}
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
	out := &s.out
	out.Map(len(rows))
	for _, c := range rows {
		var steps []latency.Step
		calls := uint64(0)
		if h := c.Took(); h != nil { // CONFIG RESETSTAT may have set it to nil since
			steps = h.Steps()
		}
		if len(steps) > 0 {
			calls = steps[len(steps)-1].Calls
		}
		out.BulkString(c.FullName())
		out.Map(2)
		out.BulkString("calls")
		out.Int(int64(calls))
		out.BulkString("histogram_usec")
		out.Map(len(steps))
		for _, step := range steps {
			out.Int(step.Micros)
			out.Int(int64(step.Calls))
		}
	}
}

// latencyDoctor is LATENCY DOCTOR: one line for each event.
func latencyDoctor(s *session, _ [][]byte) {
	if s.bounds.LatencyThreshold <= 0 {
		s.out.Text("I'm sorry, Dave, I can't do that. Latency monitoring is disabled in this instance. " +
			"You may use \"CONFIG SET latency-monitor-threshold <milliseconds>.\" in order to enable it.\n")
		return
	}
	var b strings.Builder
	for _, name := range s.srv.latencies.Names() {
		list := s.srv.latencies.Of(name)
		fmt.Fprintf(&b, "%s: %d latency spikes, the worst of %d ms.\n", name, len(list), latency.Worst(list))
	}
	if b.Len() == 0 {
		b.WriteString("Dave, no latency spike was observed during the lifetime of this instance, not in the slightest bit. " +
			"I honestly think you ought to sit down calmly, take a stress pill, and think things over.\n")
	}
	s.out.Text(b.String())
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
			line = AppendQuoted(append(line, ' '), w)
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

// AppendQuoted appends b in double quotes, with Redis's escapes for characters that are not printable.
func AppendQuoted(dst, b []byte) []byte {
	dst = append(dst, '"')
	for _, c := range b {
		switch c {
		case '\\', '"':
			dst = append(dst, '\\', c)
		case '\n':
			dst = append(dst, `\n`...)
		case '\r':
			dst = append(dst, `\r`...)
		case '\t':
			dst = append(dst, `\t`...)
		case '\a':
			dst = append(dst, `\a`...)
		case '\b':
			dst = append(dst, `\b`...)
		default:
			if c < ' ' || c > '~' {
				dst = fmt.Appendf(dst, `\x%02x`, c)
				continue
			}
			dst = append(dst, c)
		}
	}
	return append(dst, '"')
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
