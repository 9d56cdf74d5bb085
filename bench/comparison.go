package main

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// series is a figure in each round.
type series []float64

// median is the middle of the rounds, NaN of none.
func (s series) median() float64 {
	if len(s) == 0 {
		return math.NaN()
	}
	sorted := slices.Sorted(slices.Values(s))
	if n := len(sorted); n%2 == 0 {
		return (sorted[n/2-1] + sorted[n/2]) / 2
	}
	return sorted[len(sorted)/2]
}

// spread is how far the lowest and the highest are apart, in percent of the median.
func (s series) spread() float64 {
	if len(s) == 0 {
		return math.NaN()
	}
	return 100 * (slices.Max(s) - slices.Min(s)) / s.median()
}

// over divides round by round: what disturbed a whole round disturbed both.
func (s series) over(other series) (ratios series) {
	for i := range min(len(s), len(other)) {
		ratios = append(ratios, s[i]/other[i])
	}
	return ratios
}

// comparison is what compare has found.
type comparison struct {
	plan    comparePlan
	command string
	machine []fact
	asks    []*ask
	notes   []string

	speeds     map[speedKey]*speedSeries
	paced      map[pacedKey]*latencySeries
	saves      map[string]*saveSeries // by server
	works      map[workKey]*workSeries
	tls        map[tlsKey]*tlsSeries
	memory     map[memoryKey]memoryFigure
	saturation float64 // of SET on Redis, to which loads refer
}

type speedKey struct {
	id    string
	depth int
}

type pacedKey struct {
	id      string
	percent int
}

type workKey struct{ server, chore string }

type tlsKey struct{ id, kind string }

type memoryKey struct {
	server string
	keys   int64
}

type memoryFigure struct{ rss, above float64 } // above the empty server

type speedSeries struct{ rate, cpu, server, client, rss series }

type latencySeries struct {
	p50, p99, p999, late, busy series
	owed                       int64
}

type tlsSeries struct {
	speedSeries
	begin series // what the connections took to begin with, in nanoseconds
}

type saveSeries struct {
	idle, during latencySeries
	took         series
}

type workSeries struct {
	latencySeries
	rate series // of the chore, per second
}

func newComparison(p comparePlan, asks []*ask, machine []fact) *comparison {
	return &comparison{
		plan: p, asks: asks, machine: machine, speeds: map[speedKey]*speedSeries{}, paced: map[pacedKey]*latencySeries{},
		saves: map[string]*saveSeries{}, works: map[workKey]*workSeries{}, tls: map[tlsKey]*tlsSeries{}, memory: map[memoryKey]memoryFigure{},
	}
}

func (c *comparison) note(format string, args ...any) {
	c.notes = append(c.notes, fmt.Sprintf(format, args...))
}

// at returns the value of a map, which it makes if need be.
func at[K comparable, V any](m map[K]*V, k K) *V {
	if m[k] == nil {
		m[k] = new(V)
	}
	return m[k]
}

func (s *speedSeries) add(one speed) {
	s.rate, s.cpu, s.rss = append(s.rate, one.rate), append(s.cpu, one.cpu), append(s.rss, one.rss)
	s.server, s.client = append(s.server, one.server), append(s.client, one.client)
}

func (s *latencySeries) add(r openResult) {
	for _, q := range []struct {
		to   *series
		seen *histogram
		of   float64
	}{{&s.p50, r.seen, 0.5}, {&s.p99, r.seen, 0.99}, {&s.p999, r.seen, 0.999}, {&s.late, r.late, 0.999}} {
		*q.to = append(*q.to, float64(q.seen.quantile(q.of)))
	}
	s.busy = append(s.busy, r.busy)
	s.owed += r.owed
}

func (c *comparison) addSpeed(a *ask, depth int, s speed) {
	at(c.speeds, speedKey{a.id(), depth}).add(s)
}

func (c *comparison) addLatency(id string, percent int, r openResult) {
	at(c.paced, pacedKey{id, percent}).add(r)
}

func (c *comparison) addTLS(id, kind string, s speed, begin time.Duration) {
	to := at(c.tls, tlsKey{id, kind})
	to.add(s)
	to.begin = append(to.begin, float64(begin))
}

func (c *comparison) addSave(server string, idle, during openResult, took time.Duration) {
	s := at(c.saves, server)
	s.idle.add(idle)
	s.during.add(during)
	s.took = append(s.took, float64(took))
}

func (c *comparison) addWork(server, chore string, r openResult, done workDone) {
	s := at(c.works, workKey{server, chore})
	s.add(r)
	s.rate = append(s.rate, float64(done.count)/done.took.Seconds())
}

func (c *comparison) addMemory(server string, keys int64, rss, above float64) {
	c.memory[memoryKey{server, keys}] = memoryFigure{rss, above}
}

// measured reports whether there is anything to show.
func (c *comparison) measured() bool {
	return len(c.speeds)+len(c.paced)+len(c.saves)+len(c.works)+len(c.tls)+len(c.memory) > 0
}

// ratio is a row of the table of goals.
type ratio struct {
	what   string
	value  series
	atMost bool
	limit  float64 // 0 for no goal
	busy   string  // how busy the two servers were, where that decides
}

// goal says what the ratio should be.
func (r ratio) goal() string {
	switch {
	case r.limit == 0:
		return ""
	case r.atMost:
		return "≤ " + times(r.limit)
	}
	return "≥ " + times(r.limit)
}

// verdict says whether it is.
func (r ratio) verdict() string {
	m := r.value.median()
	switch {
	case r.limit == 0:
		return ""
	case math.IsNaN(m):
		return "not measured"
	case r.atMost && m <= r.limit, !r.atMost && m >= r.limit:
		return "met"
	}
	return "missed"
}

// times writes a ratio.
func times(v float64) string {
	switch {
	case math.IsNaN(v):
		return ""
	case v >= 9.995:
		return fmt.Sprintf("%.1f×", v)
	}
	return fmt.Sprintf("%.2f×", v)
}

// speedRatio divides a figure of an ask by that of another, with the same pipeline.
func (c *comparison) speedRatio(a, b *ask, depth int, cpu bool, limit float64) ratio {
	x, y := c.speeds[speedKey{a.id(), depth}], c.speeds[speedKey{b.id(), depth}]
	r := ratio{limit: limit, atMost: cpu}
	figure := "throughput"
	if cpu {
		figure = "processor time per command"
	}
	r.what = fmt.Sprintf("%s over %s, P=%d: %s", a.id(), b.id(), depth, figure)
	if x == nil || y == nil {
		return r
	}
	if cpu {
		r.value = x.cpu.over(y.cpu)
		return r
	}
	r.value = x.rate.over(y.rate)
	r.busy = fmt.Sprintf("%.0f %% / %.0f %%", x.server.median(), y.server.median())
	return r
}

// ratios returns all rows of the table of goals: those with a goal at first.
func (c *comparison) ratios() (all []ratio) {
	goals := func(a, b *ask, cpu1, rate16, rate128 float64) {
		all = append(all, c.speedRatio(a, b, 1, true, cpu1), c.speedRatio(a, b, 16, false, rate16),
			c.speedRatio(a, b, 128, false, rate128))
	}
	goals(askThrottle, askGCRA, 0.5, 9, 20)
	goals(askSlide, askLuaSet, 0.65, 6, 15)
	goals(askWindow, askLuaWindow, 0.75, 5, 10)
	goals(askThrottle, askSet, 1.1, 1.1, 1.5)
	all = append(all, c.speedRatio(askThrottle, askPing, 1, true, 1.1), c.speedRatio(askThrottle, askPing, 16, true, 1.5),
		c.speedRatio(askThrottle, askPing, 128, true, 2))

	tail := ratio{atMost: true, limit: 1,
		what: fmt.Sprintf("%s over %s, half of what SET reaches: p99.9", askThrottle.id(), askSet.id())}
	x, y := c.paced[pacedKey{askThrottle.id(), half}], c.paced[pacedKey{askSet.id(), half}]
	if x != nil && y != nil {
		tail.value = x.p999.over(y.p999)
	}
	all = append(all, tail)
	for _, one := range savers {
		r := ratio{atMost: true, what: one.server + " during BGSAVE over idle: p99.9"}
		if one.server == nameCellserver {
			r.limit = 2
		}
		if s := c.saves[one.server]; s != nil {
			r.value = s.during.p999.over(s.idle.p999)
		}
		all = append(all, r)
	}
	kept := func(a *ask) series {
		x, y := c.tls[tlsKey{a.id(), kindTLS}], c.tls[tlsKey{a.id(), kindPlain}]
		if x == nil || y == nil {
			return nil
		}
		return x.rate.over(y.rate)
	}
	all = append(all, ratio{limit: 0.8, value: kept(askThrottle).over(kept(askSet)),
		what: fmt.Sprintf("throughput with TLS over plain, P=%d: that of %s over that of %s", tlsDepth, askThrottle.id(), askSet.id())})

	all = append(all, c.speedRatio(askSlide, askLuaList, 1, true, 0))
	for _, depth := range c.plan.depths {
		all = append(all, c.speedRatio(askSlide, askLuaList, depth, false, 0))
	}
	for _, p := range c.plan.peers {
		for _, a := range p.asks {
			all = append(all, c.speedRatio(askThrottle, a, 1, true, 0))
			for _, depth := range c.plan.depths {
				all = append(all, c.speedRatio(askThrottle, a, depth, false, 0))
			}
		}
	}
	all = append(all, c.speedRatio(askNoise, askThrottle, 1, true, 0))
	for _, depth := range c.plan.depths {
		all = append(all, c.speedRatio(askNoise, askThrottle, depth, false, 0))
	}
	x, y = c.paced[pacedKey{askNoise.id(), half}], c.paced[pacedKey{askThrottle.id(), half}]
	noise := ratio{what: fmt.Sprintf("%s over %s, half of what SET reaches: p99.9", askNoise.id(), askThrottle.id())}
	if x != nil && y != nil {
		noise.value = x.p999.over(y.p999)
	}
	all = append(all, noise)
	return slices.DeleteFunc(all, func(r ratio) bool { // a goal that was to be measured and was not stays
		return len(r.value) == 0 && (r.limit == 0 || len(c.plan.only) > 0)
	})
}

// chapter is a part of the report. The about is for the Markdown only.
type chapter struct {
	title, about string
	table        table
}

// chapters returns all of the report, as far as it has been measured.
func (c *comparison) chapters() (all []chapter) {
	for _, one := range []chapter{c.goalChapter(), c.speedChapter(), c.latencyChapter(), c.saveChapter(), c.workChapter(), c.tlsChapter(), c.memoryChapter(), c.shortChapter()} {
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

// latencyHead is that of the columns which latencyCells fills.
var latencyHead = []string{"p50", "p99", "p99.9", "spread", "sent late", "given up", "server busy"}

func latencyCells(s *latencySeries) (cells []string) {
	for _, v := range []series{s.p50, s.p99, s.p999} {
		cells = append(cells, formatValue(v.median(), asLatency))
	}
	return append(cells, percent(s.p999.spread()), formatValue(s.late.median(), asLatency), grouped(float64(s.owed)),
		percent(s.busy.median()))
}

// atFixedRate explains latencies.
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

// fewPerSecond writes how often something was done.
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
waits until the server has acknowledged the end of the handshake. OpenSSL's servers send session tickets then, and Go's
have done so before, so that the kernel acknowledges some 40 ms later.`, tlsDepth, spoken(c.plan.tls)), t}
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

// shortChapter is what one may quote.
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

// shortTitle is that of shortChapter.
const shortTitle = "In short"

func percent(v float64) string { return fmt.Sprintf("%.0f %%", v) }

// text returns the result for a terminal.
func (c *comparison) text() string {
	w := new(strings.Builder)
	var machine table
	for _, f := range c.machine {
		machine.rows = append(machine.rows, []string{f.name, f.value})
	}
	fmt.Fprintf(w, "COMPARISON\n\n%s", machine.text(false))
	all := c.chapters()
	if len(all) > 0 && all[0].title == "Ratios" { // what one came for is at the end, where a terminal shows it
		at := len(all)
		if all[at-1].title == shortTitle {
			at--
		}
		all = slices.Concat(all[1:at], all[:1], all[at:])
	}
	for _, one := range all {
		fmt.Fprintf(w, "\n%s\n\n%s", strings.ToUpper(one.title), one.table.text(true))
	}
	for _, n := range c.notes {
		fmt.Fprintf(w, "\n* %s\n", n)
	}
	return w.String()
}

// markdown returns the result to keep. plots are names of files beside it, by the title of a chapter.
func (c *comparison) markdown(plots map[string]string) string {
	w := new(strings.Builder)
	fmt.Fprintf(w, "# Comparison\n\nMade by `%s`, in the folder `bench`.\n\n| | |\n|---|---|\n", c.command)
	for _, f := range c.machine {
		fmt.Fprintf(w, "| %s | %s |\n", f.name, f.value)
	}
	for i, n := range c.notes {
		if i == 0 {
			w.WriteString("\n")
		}
		fmt.Fprintf(w, "- %s\n", n)
	}
	for _, one := range c.chapters() {
		fmt.Fprintf(w, "\n## %s\n\n%s\n", one.title, strings.TrimSuffix(one.about, "\n"))
		if file := plots[one.title]; file != "" {
			fmt.Fprintf(w, "\n![%s](%s)\n", one.title, file)
		}
		fmt.Fprintf(w, "\n%s", one.table.markdown())
	}
	return w.String()
}

// save writes the Markdown to a file, with plots beside it, and makes the folder that they are in.
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
	return os.WriteFile(path, []byte(c.markdown(plots)), 0o644)
}
