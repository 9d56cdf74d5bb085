package main

import (
	"fmt"
	"math"
	"slices"
	"time"
)

// series is the values of a figure, one a round.
type series []float64

// median returns the median of the rounds, NaN if there are none.
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

// spread returns the difference of the highest and the lowest value, in percent of the median.
func (s series) spread() float64 {
	if len(s) == 0 {
		return math.NaN()
	}
	return 100 * (slices.Max(s) - slices.Min(s)) / s.median()
}

// over divides round by round: a disturbance of a whole round affects both values.
func (s series) over(other series) (ratios series) {
	for i := range min(len(s), len(other)) {
		ratios = append(ratios, s[i]/other[i])
	}
	return ratios
}

// comparison is the results of compare.
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
	counters   map[string]memoryFigure // by server
	saturation float64                 // of SET on Redis, to which loads refer
	others     series                  // in percent: what the servers' core did for somebody else in runs of redis-benchmark
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
		counters: map[string]memoryFigure{},
	}
}

func (c *comparison) note(format string, args ...any) {
	c.notes = append(c.notes, fmt.Sprintf(format, args...))
}

// at returns the value of a map and creates it if it is missing.
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

// measured reports whether there are results to show.
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

// goal formats the goal of the ratio.
func (r ratio) goal() string {
	switch {
	case r.limit == 0:
		return ""
	case r.atMost:
		return "≤ " + times(r.limit)
	}
	return "≥ " + times(r.limit)
}

// verdict reports in words whether the ratio meets its goal.
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

// times formats a ratio.
func times(v float64) string {
	switch {
	case math.IsNaN(v):
		return ""
	case v >= 9.995:
		return fmt.Sprintf("%.1f×", v)
	}
	return fmt.Sprintf("%.2f×", v)
}

// speedRatio divides a figure of one ask by that of another, at the same pipeline depth.
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

// ratios returns the rows of the table of goals. Rows with a goal come first.
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

	for _, one := range []struct {
		depth int
		limit float64
	}{{16, 1.3}, {128, 2}} {
		all = append(all, c.speedRatio(askCount, askRedisCount, one.depth, false, one.limit),
			c.speedRatio(askCount, askRedisCount, one.depth, true, 0))
	}

	all = append(all, c.speedRatio(askScript, askRedisScript, 16, false, 4), c.speedRatio(askScript, askRedisScript, 1, true, 0.75))

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
