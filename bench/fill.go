package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"
)

// longLived is a request after which its key lives for 9.6 hours: it takes 400,000 of a million a day.
var longLived = []string{"CL.THROTTLE", "KEY", "1000000", "1000000", "86400", "400000"}

// probeRate is the rate of the probe during a fill, in commands per second.
const probeRate = 500

func aboutFill(p plan) string {
	return fmt.Sprintf(`%s keys of %d bytes are made by CL.THROTTLE, over %d connections with %d commands in flight on each.
Resident memory (RSS) is that of the whole process; "above the empty server" is without what the server held when it had
just started. The keys live for hours, so none is gone when the server is looked at again after %s of rest.

Beside the fill a probe sends %d CL.THROTTLE a second, on random keys, some of which do not exist yet. Latency counts from
the moment at which a command was due, not from when it could be sent, so that a pause of the server delays all that were
due in it. During the fill a probe also waits for its turn: behind the commands that other connections have in flight,
and for the core that it shares with the load; it runs there before the load if the system lets it, and nothing else is
pinned to that core. With fewer than 10,000 probes p99.99 is the longest. The other probes show what is left without a
fill, and what PING takes from an empty server, which is the noise of the measurement itself. How long the server waited
for its core is what other processes have done to all of this; as several of its threads may wait at once, it may exceed
100 %%.`,
		grouped(float64(p.keys)), keyBytes, loadConns, loadDepth, spoken(p.idle), probeRate)
}

// measureFill measures bytes per key, and latency during the fill.
func measureFill(ctx context.Context, l *lab, p plan) (m measured, err error) {
	l.progress.step("starting a server, and probing it while it is empty")
	s, end, err := l.openCellserver(ctx)
	if err != nil {
		return m, err
	}
	defer end(&err)
	rest := func() error { return sleep(ctx, p.quiet) }
	noise, err := probeFor(s.addr, probeRate, pings, rest)
	if err != nil {
		return m, err
	}

	began, err := s.cpuNow()
	if err != nil {
		return m, err
	}
	var filled loadResult
	during, err := probeFor(s.addr, probeRate, throttles(p.keys), func() (err error) {
		filled, err = l.runLoad(ctx, s, "filling", keyLoad(p.keys, longLived...))
		return err
	})
	if err != nil {
		return m, err
	}
	after, err := s.read()
	if err != nil {
		return m, err
	}
	if err := l.pause(ctx, "letting the server rest", p.idle); err != nil {
		return m, err
	}
	rested, err := s.read()
	if err != nil {
		return m, err
	}
	l.progress.step("probing the full server")
	floor, err := probeFor(s.addr, probeRate, throttles(p.keys), rest)
	if err != nil {
		return m, err
	}
	keys, err := s.control.size()
	if err != nil {
		return m, err
	}

	each := func(bytes int64) float64 { return float64(bytes) / float64(keys) }
	m.add("keys", float64(keys), asCount)
	m.add("fill", filled.rate(), perSecond)
	m.add("server's processor time per key", (after.cpu-began.cpu).Seconds()*1e6/float64(filled.commands), inMicros)
	m.add(waitFigure+", during the fill", waitShare(began, after), inPercent)
	m.add("used_memory_dataset per key", each(after.used), bytesEach)
	m.add("RSS per key, right after", each(after.rss), bytesEach)
	m.add("RSS per key above the empty server, right after", each(after.rss-s.empty), bytesEach)
	m.add(fmt.Sprintf("RSS per key, %s later", spoken(p.idle)), each(rested.rss), bytesEach)
	m.add(fmt.Sprintf("RSS per key above the empty server, %s later", spoken(p.idle)), each(rested.rss-s.empty), bytesEach)
	m.add("RSS of the empty server", float64(s.empty), inBytes)
	m.add("RSS of the full server, at rest", float64(rested.rss), inBytes)
	m.add("of that in huge pages", float64(rested.huge), inBytes)
	m.probes = []latencies{
		{"CL.THROTTLE during the fill", during},
		{"CL.THROTTLE on the full server, else idle", floor},
		{"PING on the empty server, else idle", noise},
	}
	if filled.limited > 0 {
		m.note("%d requests of the fill were refused: figures per key are too low.", filled.limited)
	}
	return m, nil
}

// pings is a probe command that uses no key.
func pings(b []byte, _ *rand.Rand) []byte { return append(b, "*1\r\n$4\r\nPING\r\n"...) }

// throttles returns a probe command that takes one request of a random key.
func throttles(keys int64) func([]byte, *rand.Rand) []byte {
	t := newTemplate("CL.THROTTLE", "KEY", "1000000", "1000000", "86400", "1")
	return func(b []byte, r *rand.Rand) []byte { return t.appendTo(b, r.Int64N(keys)) }
}

// peeks returns a probe command that reads a random key and changes nothing.
func peeks(keys int64) func([]byte, *rand.Rand) []byte {
	t := newTemplate("CL.THROTTLE", "KEY", "1000000", "1000", "1", "1", "PEEK")
	return func(b []byte, r *rand.Rand) []byte { return t.appendTo(b, r.Int64N(keys)) }
}

// busyLoad returns a load that takes one request of a random key, for a given time.
func busyLoad(keys int64, length time.Duration) *load {
	take := throttles(keys)
	return &load{conns: loadConns, depth: loadDepth, length: length,
		command: func(b []byte, _ int64, r *rand.Rand) []byte { return take(b, r) }}
}
