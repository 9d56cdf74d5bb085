package main

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// chapters returns the chapters of the report that have measurements.
func (c *comparison) chapters() (all []chapter) {
	for _, one := range []chapter{c.goalChapter(), c.speedChapter(), c.latencyChapter(), c.saveChapter(), c.workChapter(), c.tlsChapter(), c.memoryChapter(), c.counterChapter(), c.scriptChapter(), c.shortChapter()} {
		if len(one.table.rows) > 0 {
			all = append(all, one)
		}
	}
	return all
}

func (c *comparison) goalChapter() chapter {
	t := table{head: []string{"ratio", "goal", "median", "lowest", "highest", "servers busy", ""}}
	for _, r := range c.ratios() {
		low, high := math.NaN(), math.NaN()
		if len(r.value) > 0 {
			low, high = slices.Min(r.value), slices.Max(r.value)
		}
		t.rows = append(t.rows, []string{r.what, r.goal(), times(r.value.median()), times(low), times(high), r.busy, r.verdict()})
	}
	return chapter{"Ratios", fmt.Sprintf(`Each ratio is taken round by round; of %d rounds the median, the lowest and the highest are shown. "noise" is a second
cellserver: what it differs from the first is chance. A server that is not busy waits for the client, which is one
process on one core; then a ratio of throughputs says less than one of processor time, and is too close to 1.`,
		c.plan.rounds), t}
}

func (c *comparison) speedChapter() chapter {
	t := table{head: []string{"server and command", "P", "requests", "spread", "processor time", "spread", "server busy", "client busy", "RSS"}}
	for _, a := range c.asks {
		for _, depth := range c.plan.depths {
			s := c.speeds[speedKey{a.id(), depth}]
			if s == nil {
				continue
			}
			t.rows = append(t.rows, []string{a.id(), fmt.Sprint(depth),
				formatValue(s.rate.median(), perSecond), percent(s.rate.spread()),
				formatValue(s.cpu.median(), inMicros), percent(s.cpu.spread()),
				percent(s.server.median()), percent(s.client.median()), formatValue(s.rss.median(), inBytes)})
		}
	}
	length := "for " + spoken(c.plan.length)
	if c.plan.requests > 0 {
		length = fmt.Sprintf("with %s requests", grouped(float64(c.plan.requests)))
	}
	about := fmt.Sprintf(`redis-benchmark asks over %d connections with a pipeline of P, %s, for one of %s random keys. Every key has been asked for
once before, and no other keys are there. In a round every command has its turn, with all pipelines, and the next round
begins with another one. Shown are the medians of %d rounds; the spread is from the lowest to the highest of them.
Processor time is that of all of the server's threads, user and system, per command. RSS is at the end of a run.

The limiters get room for all requests, so that each is admitted and written. The scripts, in peers.go, take the time from
the server. Commands:

`, c.plan.conns, length, grouped(float64(c.plan.keys)), c.plan.rounds)
	for _, a := range c.asks {
		about += fmt.Sprintf("- %s: `%s`\n", a.id(), strings.Join(a.args, " "))
	}
	return chapter{"Throughput", about, t}
}

// latencyHead is the head of the columns that latencyCells fills.
var latencyHead = []string{"p50", "p99", "p99.9", "spread", "sent late", "given up", "server busy"}

func latencyCells(s *latencySeries) (cells []string) {
	for _, v := range []series{s.p50, s.p99, s.p999} {
		cells = append(cells, formatValue(v.median(), asLatency))
	}
	return append(cells, percent(s.p999.spread()), formatValue(s.late.median(), asLatency), grouped(float64(s.owed)),
		percent(s.busy.median()))
}

// atFixedRate explains how latencies are measured.
func (c *comparison) atFixedRate() string {
	return fmt.Sprintf(`Commands are due at a fixed rate, over %d connections in turn, whether or not those before have been answered. Latency
counts from when a command was due. The rates are shares of the %s that SET on Redis reached without a pipeline.
The spread is that of p99.9. "Sent late" is the p99.9 of what the generator itself was late: it is part of the latencies.
"Given up" are commands, of all rounds together, that had no answer %s after the last was sent. "Server busy" is the
processor time of the server, in percent of its core: a command that comes alone costs more than one of many that wait.`,
		c.plan.conns, formatValue(c.saturation, perSecond), spoken(drainTime))
}

func (c *comparison) latencyChapter() chapter {
	t := table{head: append([]string{"server and command", "load", "rate"}, latencyHead...)}
	for _, a := range latencyAsked {
		for _, load := range c.plan.loads {
			if s := c.paced[pacedKey{a.id(), load}]; s != nil {
				t.rows = append(t.rows, append([]string{a.id(), fmt.Sprintf("%d %%", load),
					formatValue(c.saturation*float64(load)/100, perSecond)}, latencyCells(s)...))
			}
		}
	}
	return chapter{"Latency at fixed rates", c.atFixedRate() +
		fmt.Sprintf(" Each rate is kept for %s, in each of %d rounds.", spoken(c.plan.paced), c.plan.rounds), t}
}

func (c *comparison) saveChapter() chapter {
	t := table{head: append(append([]string{"server"}, latencyHead...), "BGSAVE took")}
	for _, one := range savers {
		if s := c.saves[one.server]; s != nil {
			t.rows = append(t.rows, append(append([]string{one.server + ", idle"}, latencyCells(&s.idle)...), ""),
				append(append([]string{one.server + ", during BGSAVE"}, latencyCells(&s.during)...), formatValue(s.took.median(), asLatency)))
		}
	}
	return chapter{"Latency during BGSAVE", fmt.Sprintf(`%s. The servers have %s keys, and
are asked at half of that rate, for random keys: cellserver by CL.THROTTLE, and Redis by SET of a TAT with an expiry, as
the GCRA script leaves it, idle and during BGSAVE alike. The server shares its one core with the work on the snapshot: of
its own, or of the process that Redis forks, which "server busy" does not count. In a round snapshots follow one another
until they have taken %s together, and at least one is written.`, strings.TrimSuffix(c.atFixedRate(), "."), grouped(float64(c.plan.saved)), spoken(c.plan.paced)), t}
}

func (c *comparison) workChapter() chapter {
	t := table{head: append(append([]string{"server and work"}, latencyHead...), "over idle", "lowest", "highest", "work done")}
	for _, one := range savers {
		idle := c.works[workKey{one.server, chores[0].name}]
		for _, what := range chores {
			s := c.works[workKey{one.server, what.name}]
			if s == nil {
				continue
			}
			row := append([]string{one.server + ", " + what.name}, latencyCells(&s.latencySeries)...)
			if ratio := s.p999.over(idle.p999); what.counts == "" {
				row = append(row, "", "", "", "")
			} else {
				row = append(row, times(ratio.median()), times(slices.Min(ratio)), times(slices.Max(ratio)),
					fewPerSecond(s.rate.median(), what.counts))
			}
			t.rows = append(t.rows, row)
		}
	}
	return chapter{"Latency during other work", fmt.Sprintf(`%s. The servers have %s keys, and
are asked at half of that rate, for random ones of them: cellserver by CL.THROTTLE, and Redis by SET of a TAT with an
expiry. The server shares its one core with the work, and a client that does as little as it can shares the other with the
load. One after the other goes on, in the same server, each for %s in each of %d rounds: "over idle" is p99.9 over that of
the idle server in the same round.

- SCAN: over the whole key space with COUNT %d, again and again.
- KEYS: KEYS *, again and again.
- CONFIG SET: of maxmemory and slowlog-log-slower-than in turn, to and fro, again and again.
- growth: %s new keys a second, in pipelines of %d. Without that bound it would saturate the core.
- expiry: as many keys again, which nobody asks for, have all expired when it begins.
- BGSAVE: one after the other.

After growth and expiry the server is filled anew.`, strings.TrimSuffix(c.atFixedRate(), "."), grouped(float64(c.plan.held)),
		spoken(c.plan.paced), c.plan.rounds, scanCount, grouped(growthRate), growthPipe), t}
}

// fewPerSecond formats a low rate.
func fewPerSecond(v float64, what string) string {
	if v < 100 {
		return fmt.Sprintf("%.1f %s/s", v, what)
	}
	return fmt.Sprintf("%s %s/s", grouped(v), what)
}

func (c *comparison) tlsChapter() chapter {
	t := table{head: []string{"server and command", "requests", "spread", "processor time", "server busy", "client busy", "beginning"}}
	for _, a := range tlsAsked {
		for _, kind := range []string{kindPlain, kindTLS} {
			if s := c.tls[tlsKey{a.id(), kind}]; s != nil {
				t.rows = append(t.rows, []string{a.id() + ", " + kind, formatValue(s.rate.median(), perSecond), percent(s.rate.spread()),
					formatValue(s.cpu.median(), inMicros), percent(s.server.median()), percent(s.client.median()),
					formatValue(s.begin.median(), asLatency)})
			}
		}
	}
	return chapter{"TLS", fmt.Sprintf(`As throughput, with a pipeline of %d, through the port for TLS and through the other one of the same server, for about %s
each. The certificate is of ECDSA P-256; programs agree on version and cipher as they do by default.

redis-benchmark counts the handshakes, which all begin at once. They are not what TLS costs a connection that lives, so a
run in which every connection sends a single pipeline precedes each run, and all figures are the difference of the two.
"Beginning" is how long that first run took. redis-benchmark leaves Nagle's algorithm on: with TLS 1.3 its first pipeline
waits until the server has acknowledged the end of the handshake. OpenSSL's servers send session tickets then. Go's have
done so before, and the kernel would acknowledge 40 ms later, which cellserver asks it not to wait for.`, tlsDepth, spoken(c.plan.tls)), t}
}

func (c *comparison) memoryChapter() chapter {
	t := table{head: []string{"server", "keys", "RSS", "above the empty server", "of that per key"}}
	for _, one := range savers {
		for _, keys := range c.plan.sizes {
			if m, ok := c.memory[memoryKey{one.server, keys}]; ok {
				t.rows = append(t.rows, []string{one.server, grouped(float64(keys)), formatValue(m.rss, inBytes),
					formatValue(m.above, inBytes), formatValue(m.above/float64(keys), bytesEach)})
			}
		}
	}
	return chapter{"Memory", fmt.Sprintf(`A server that was just started gets more and more keys of %d bytes, once. cellserver gets them by CL.THROTTLE, Redis by SET
of a TAT with an expiry, as the GCRA script leaves it. RSS is that right after the last key.`, len("k:")+len(randInt)), t}
}

// shortChapter returns the figures to quote.
func (c *comparison) shortChapter() chapter {
	t := table{head: []string{"in one pipeline", "CL.THROTTLE on cellserver", "the same GCRA in Lua on Redis", "ratio", "SET on Redis", "ratio"}}
	for _, depth := range c.plan.depths {
		ours, lua, set := c.speeds[speedKey{askThrottle.id(), depth}], c.speeds[speedKey{askGCRA.id(), depth}], c.speeds[speedKey{askSet.id(), depth}]
		if ours == nil || lua == nil || set == nil {
			continue
		}
		both := func(s *speedSeries) string {
			return formatValue(s.rate.median(), perSecond) + ", " + formatValue(s.cpu.median(), inMicros)
		}
		over := func(s *speedSeries) string {
			return times(ours.rate.over(s.rate).median()) + ", " + times(ours.cpu.over(s.cpu).median())
		}
		t.rows = append(t.rows, []string{fmt.Sprint(depth), both(ours), both(lua), over(lua), both(set), over(set)})
	}
	machine := map[string]string{}
	for _, f := range c.machine {
		machine[f.name] = f.value
	}
	redis, _, _ := strings.Cut(machine["Redis"], " sha=")
	return chapter{shortTitle, fmt.Sprintf(`Requests per second, and processor time of the server per command, user and system: medians of %d rounds, with %d
connections and %s keys. The ratios are of the same two, medians of each round's. From %s in the folder %s, with server
and client on a core each of %s; Linux, %s.`, c.plan.rounds, c.plan.conns, grouped(float64(c.plan.keys)),
		"`"+c.command+"`", "`bench`", machine["processor"], redis), t}
}

// shortTitle is the title of shortChapter.
const shortTitle = "In short"

func percent(v float64) string { return fmt.Sprintf("%.0f %%", v) }

// page returns the result in the form that is printed and saved.
func (c *comparison) page() page {
	machine := slices.Clone(c.machine)
	if len(c.others) > 0 {
		machine = append(machine, fact{"others on the servers' core", fmt.Sprintf("%s of the time while redis-benchmark ran, %s in the worst run",
			percent(c.others.median()), percent(slices.Max(c.others)))})
	}
	return page{title: "Comparison", command: c.command, machine: machine, notes: c.notes, chapters: c.chapters()}
}

// text returns the result for a terminal.
func (c *comparison) text() string {
	p := c.page()
	if all := p.chapters; len(all) > 0 && all[0].title == "Ratios" { // what one came for is at the end, where a terminal shows it
		at := len(all)
		if all[at-1].title == shortTitle {
			at--
		}
		p.chapters = slices.Concat(all[1:at], all[:1], all[at:])
	}
	return p.text()
}

// save writes the Markdown to a file and the plots next to it. It creates the directory.
func (c *comparison) save(path string) error {
	dir, base := filepath.Dir(path), strings.TrimSuffix(filepath.Base(path), filepath.Ext(path))
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	plots := map[string]string{}
	for _, p := range c.plots() {
		name := base + "-" + p.file + ".svg"
		if err := p.figure.save(filepath.Join(dir, name)); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		plots[p.chapter] = name
	}
	return os.WriteFile(path, []byte(c.page().markdown(plots)), 0o644)
}
