package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"
)

// comparePlan sets the sizes and durations of the subcommand compare.
type comparePlan struct {
	rounds   int
	only     []string // names of compareParts
	peers    []peer
	conns    int
	keys     int64         // that commands choose from
	depths   []int         // of the pipelines
	length   time.Duration // of one run of redis-benchmark
	requests int64         // of one run, instead; 0 for as many as length takes
	tls      time.Duration // of one run that is compared with one over TLS
	paced    time.Duration // of one run at a fixed rate
	loads    []int         // these rates, in percent of what SET on Redis reaches
	saved    int64         // keys of the server that writes a snapshot
	held     int64         // keys of the server that does other work
	sizes    []int64       // keys whose memory is measured
	patience time.Duration // how long a snapshot may take
}

// fullComparePlan returns the default plan; --quick makes it smaller.
func fullComparePlan() comparePlan {
	return comparePlan{
		rounds: 5, conns: 50, keys: 100_000, depths: []int{1, 16, 128}, length: time.Second,
		tls: 2 * time.Second, paced: 2 * time.Second, loads: []int{25, 50, 75, 90}, saved: 10_000_000,
		held: 1_000_000, sizes: []int64{100_000, 1_000_000, 10_000_000}, patience: 10 * time.Minute,
	}
}

// quick returns the plan for --quick. Flags that were given keep their values.
func (p comparePlan) quick(keepRounds bool) comparePlan {
	if !keepRounds {
		p.rounds = 2
	}
	p.length, p.tls, p.paced = 200*time.Millisecond, time.Second, 400*time.Millisecond
	p.loads = []int{half, 90}
	p.saved, p.sizes = 1_000_000, []int64{100_000, 1_000_000}
	return p
}

// half is the load, in percent of saturation, at which goals are set.
const half = 50

// comparePart is a part of the subcommand compare. It starts its own servers and adds its results.
type comparePart struct {
	name    string
	measure func(context.Context, *comparer) error
}

var compareParts = []comparePart{
	{"throughput", measureThroughput},
	{"latency", measureLatency},
	{"bgsave", measureSaves},
	{"work", measureWork},
	{"tls", measureTLS},
	{"memory", measureMemory},
	{"counters", measureCounters},
	{"scripts", measureScripts},
}

func comparePartNames() (names []string) {
	for _, p := range compareParts {
		names = append(names, p.name)
	}
	return names
}

const aboutCompare = `compare measures cellserver beside Redis, which does the same with scripts: throughput and processor time by
redis-benchmark, latency at fixed rates, while a snapshot is written and during other work, TLS, and memory. It needs redis-server and
redis-benchmark, and says which goals are met.

--peer name=address,command,... adds a server that is there already, such as a Redis with a module, and may be given
several times. A command is written as for redis-benchmark, where __rand_int__ is a random number, or is one of the words
gcra, luawindow, list, zset, set, incr, ping, throttle, window, zslide, all. A peer is asked, its keys stay there, and
nothing else of it is touched. For example:
  --peer "redis-cell=127.0.0.1:7001,CL.THROTTLE t:__rand_int__ 1000000 1 60,set,ping"`

// runCompare runs the subcommand.
func runCompare(ctx context.Context, args []string, stdout, stderr io.Writer) (err error) {
	p, out, server, err := parseCompare(args, stdout)
	if err != nil {
		return err
	}
	show := newProgress(stderr)
	l, closeLab, err := newLab(ctx, server, show)
	if err != nil {
		return err
	}
	defer closeLab()
	c, closeComparer, err := newComparer(l, p)
	if err != nil {
		return err
	}
	defer closeComparer()
	err = c.measure(ctx)
	show.end()
	c.found.command = strings.Join(append([]string{"go run . compare"}, args...), " ")
	if c.found.measured() {
		_, wrote := io.WriteString(stdout, c.found.text()) // also what was measured before something failed
		err = errors.Join(err, wrote)
	}
	if err != nil || out == "" {
		return err
	}
	if err := c.found.save(out); err != nil {
		return err
	}
	_, err = fmt.Fprintf(stderr, "the same, with how it was measured and plots, is in %s\n", out)
	return err
}

// parseCompare parses the command line of the subcommand.
func parseCompare(args []string, stdout io.Writer) (p comparePlan, out, server string, err error) {
	p = fullComparePlan()
	set := flag.NewFlagSet("compare", flag.ContinueOnError)
	quick := set.Bool("quick", false, "measure for shorter, in 2 rounds, and at most 1 million keys: less than two minutes")
	only := set.String("only", "", "measure only these parts: some of "+strings.Join(comparePartNames(), ", "))
	set.IntVar(&p.rounds, "rounds", p.rounds, "measure everything but memory so often, one after the other, and show the medians")
	set.Func("peer", "a server that is there already, as `name=address,command,...`; may be given several times", func(text string) error {
		one, err := parsePeer(text)
		if err == nil && slices.ContainsFunc(p.peers, func(other peer) bool { return other.name == one.name }) {
			err = fmt.Errorf("there are two peers %q", one.name)
		}
		p.peers = append(p.peers, one)
		return err
	})
	set.StringVar(&out, "out", "results/compare.md", "file for the result, besides standard output, with plots beside it; empty for none")
	set.StringVar(&server, "server", "", "path of a built cellserver (default: one built from ../cmd/cellserver)")
	if err := parseFlags(set, aboutCompare, args, stdout); err != nil {
		return p, "", "", err
	}
	if *quick {
		given := map[string]bool{}
		set.Visit(func(f *flag.Flag) { given[f.Name] = true })
		p = p.quick(given["rounds"])
	}
	for name := range strings.SplitSeq(*only, ",") {
		switch {
		case *only == "":
		case slices.Contains(comparePartNames(), name):
			p.only = append(p.only, name)
		default:
			return p, "", "", usagef("--only: no part is called %q; there are %s", name, strings.Join(comparePartNames(), ", "))
		}
	}
	if p.rounds < 1 {
		return p, "", "", usagef("--rounds begins at 1")
	}
	if server != "" {
		if _, err := os.Stat(server); err != nil {
			return p, "", "", usagef("--server: %w", err)
		}
	}
	return p, out, server, nil
}

// comparer is a lab with a Redis, and the results so far.
type comparer struct {
	*lab
	plan   comparePlan
	redis  string // path of redis-server
	client string // path of redis-benchmark
	dir    string // where servers write
	asks   []*ask
	found  *comparison

	rates map[string]float64       // that were reached last, by rateName
	fills map[string]time.Duration // how long a key took when a server was filled last, by its name
}

// newComparer finds the programs and creates a directory. The function that it returns removes the directory.
func newComparer(l *lab, p comparePlan) (c *comparer, remove func(), err error) {
	c = &comparer{lab: l, plan: p, asks: slices.Clone(alwaysAsked), rates: map[string]float64{}, fills: map[string]time.Duration{}}
	if c.redis, err = exec.LookPath("redis-server"); err == nil {
		c.client, err = exec.LookPath("redis-benchmark")
	}
	if err != nil {
		return nil, nil, fmt.Errorf("there is nothing to compare with: %w", err)
	}
	for _, one := range p.peers {
		c.asks = append(c.asks, one.asks...)
	}
	if c.dir, err = os.MkdirTemp("", "cellserver-bench-"); err != nil {
		return nil, nil, err
	}
	facts := append(describe(l), fact{"Redis", versionOf(c.redis)}, fact{"client", versionOf(c.client)})
	for _, one := range p.peers {
		facts = append(facts, fact{"peer", one.name + " at " + one.addr})
	}
	c.found = newComparison(p, c.asks, facts)
	return c, func() { _ = os.RemoveAll(c.dir) }, nil
}

// versionOf returns the output of a program for --version.
func versionOf(path string) string {
	out, err := exec.Command(path, "--version").Output()
	if err != nil {
		return "of an unknown version"
	}
	line, _, _ := strings.Cut(string(out), "\n")
	return strings.TrimSpace(line)
}

// measure runs all parts that the plan names.
func (c *comparer) measure(ctx context.Context) error {
	for _, part := range compareParts {
		if len(c.plan.only) > 0 && !slices.Contains(c.plan.only, part.name) {
			continue
		}
		c.progress.part = part.name
		if err := part.measure(ctx, c); err != nil {
			return fmt.Errorf("%s: %w", part.name, err)
		}
	}
	return nil
}

// start starts the named servers, and connects to the peers if asked. The caller defers close.
func (c *comparer) start(ctx context.Context, peers bool, tls []string, names ...string) (all rivals, err error) {
	all = rivals{}
	defer func() {
		if err != nil {
			all.close(&err)
		}
	}()
	for _, name := range names {
		dir, err := os.MkdirTemp(c.dir, "")
		if err != nil {
			return all, err
		}
		command := func(port string, args ...string) *exec.Cmd {
			if name == nameRedis {
				return redisCommand(c.redis, port, dir, args...)
			}
			return c.cellserver(port, append([]string{"--dir", dir}, args...)...)
		}
		c.progress.step("starting %s", name)
		if err := all.open(ctx, c.lab, name, tls, command); err != nil {
			return all, err
		}
	}
	if !peers {
		return all, nil
	}
	for _, one := range c.plan.peers {
		if all[one.name], err = one.join(); err != nil {
			delete(all, one.name)
			return all, err
		}
	}
	return all, nil
}

// rotated returns all items in the order of a round: each round begins with another item.
func rotated[T any](all []T, round, rounds int) []T {
	if len(all) == 0 {
		return nil
	}
	at := round * max(1, len(all)/rounds) % len(all)
	return append(slices.Clone(all[at:]), all[:at]...)
}

// measureThroughput measures every ask at every pipeline depth.
func measureThroughput(ctx context.Context, c *comparer) (err error) {
	all, err := c.start(ctx, true, nil, nameCellserver, nameNoise, nameRedis)
	if err != nil {
		return err
	}
	defer func() { all.close(&err) }()
	for round := range c.plan.rounds {
		for i, a := range rotated(c.asks, round, c.plan.rounds) {
			c.progress.step("round %d of %d, %d of %d: %s", round+1, c.plan.rounds, i+1, len(c.asks), a.id())
			r := all[a.server]
			if err := r.prepare(ctx, a, c.plan.keys); err != nil {
				return fmt.Errorf("%s: %w", a.id(), err)
			}
			for _, depth := range c.plan.depths {
				s, err := c.run(ctx, r, a, depth)
				if err != nil {
					return fmt.Errorf("%s: %w", a.id(), err)
				}
				c.found.addSpeed(a, depth, s)
			}
			if r.own() { // its keys cost the others nothing
				if _, err := r.control.do("FLUSHALL"); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// saturation returns the rate that SET on Redis reaches without a pipeline. It measures it on the first call.
func (c *comparer) saturation(ctx context.Context) (float64, error) {
	if s := c.found.speeds[speedKey{askSet.id(), 1}]; s != nil {
		return s.rate.median(), nil
	}
	if c.found.saturation > 0 {
		return c.found.saturation, nil
	}
	all, err := c.start(ctx, false, nil, nameRedis)
	if err != nil {
		return 0, err
	}
	defer func() { all.close(&err) }()
	c.progress.step("how much SET on Redis reaches")
	r := all[nameRedis]
	if err = r.prepare(ctx, askSet, c.plan.keys); err != nil {
		return 0, err
	}
	s, err := c.run(ctx, r, askSet, 1)
	c.found.saturation = s.rate
	return s.rate, err
}

// paced returns a load with a fixed rate.
func (c *comparer) paced(r *rival, args []string, keys int64, rate float64) *openLoop {
	command := newRandomCommand(args)
	return &openLoop{
		addr: r.addr, conns: c.plan.conns, rate: rate, spin: c.serverCPU >= 0,
		length: c.plan.paced, warm: c.plan.paced / 10,
		command: func(b []byte, random randSource) []byte { return command.appendTo(b, random.Int64N(keys)) },
	}
}

// atRate runs a load with a fixed rate and measures how busy it keeps the server.
func (c *comparer) atRate(ctx context.Context, r *rival, o *openLoop) (result openResult, err error) {
	before, err := r.cpu()
	if err != nil {
		return result, err
	}
	began := time.Now()
	if result, err = o.run(ctx); err != nil {
		return result, err
	}
	wall := time.Since(began)
	after, err := r.cpu()
	result.busy = 100 * (after - before).Seconds() / wall.Seconds()
	return result, err
}

// measureLatency measures the latency of some asks at fixed rates.
func measureLatency(ctx context.Context, c *comparer) (err error) {
	most, err := c.saturation(ctx)
	if err != nil {
		return err
	}
	c.found.saturation = most
	all, err := c.start(ctx, false, nil, nameCellserver, nameNoise, nameRedis)
	if err != nil {
		return err
	}
	defer func() { all.close(&err) }()
	for round := range c.plan.rounds {
		for _, a := range rotated(latencyAsked, round, len(latencyAsked)) {
			r := all[a.server]
			c.progress.step("round %d of %d: %s", round+1, c.plan.rounds, a.id())
			if err := r.prepare(ctx, a, c.plan.keys); err != nil {
				return err
			}
			for _, percent := range c.plan.loads {
				result, err := c.atRate(ctx, r, c.paced(r, a.args, c.plan.keys, most*float64(percent)/100))
				if err != nil {
					return fmt.Errorf("%s: %w", a.id(), err)
				}
				c.found.addLatency(a.id(), percent, result)
			}
		}
	}
	return nil
}

// measureMemory measures the resident memory of servers as their keys grow.
func measureMemory(ctx context.Context, c *comparer) error {
	for _, one := range savers {
		if err := c.measureMemoryOf(ctx, one); err != nil {
			return err
		}
	}
	return nil
}

func (c *comparer) measureMemoryOf(ctx context.Context, one saver) (err error) {
	all, err := c.start(ctx, false, nil, one.server)
	if err != nil {
		return err
	}
	defer func() { all.close(&err) }()
	s, from := all[one.server].s, int64(0)
	for _, keys := range c.plan.sizes {
		what := fmt.Sprintf("filling %s up to %s keys", one.server, grouped(float64(keys)))
		if _, err := c.runLoad(ctx, s, what, fillLoad(one.fill, from, keys)); err != nil {
			return err
		}
		from = keys
		rss, _, err := resident(s.pid)
		if err != nil {
			return err
		}
		c.found.addMemory(one.server, keys, float64(rss), float64(rss-s.empty))
	}
	return nil
}
