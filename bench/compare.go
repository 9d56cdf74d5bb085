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

// comparePlan is how much of everything the subcommand compare does.
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

// fullComparePlan measures what the flags name by default; --quick makes it smaller.
func fullComparePlan() comparePlan {
	return comparePlan{
		rounds: 5, conns: 50, keys: 100_000, depths: []int{1, 16, 128}, length: time.Second,
		tls: 2 * time.Second, paced: 2 * time.Second, loads: []int{25, 50, 75, 90}, saved: 10_000_000,
		held: 1_000_000, sizes: []int64{100_000, 1_000_000, 10_000_000}, patience: 10 * time.Minute,
	}
}

// quick returns the plan for --quick, which leaves alone what has a flag of its own.
func (p comparePlan) quick(keepRounds bool) comparePlan {
	if !keepRounds {
		p.rounds = 2
	}
	p.length, p.tls, p.paced = 200*time.Millisecond, time.Second, 400*time.Millisecond
	p.saved, p.sizes = 1_000_000, []int64{100_000, 1_000_000}
	return p
}

// half is the load, of loads, at which goals are set.
const half = 50

// comparePart is a part of the subcommand compare. It starts servers of its own, and adds what it finds.
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

// runCompare is the subcommand.
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

// parseCompare reads the command line of the subcommand.
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

// comparer is a lab with a Redis, and what has been found so far.
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

// newComparer finds the programs and makes a directory, which the function that it returns removes.
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

// versionOf returns what a program says of itself.
func versionOf(path string) string {
	out, err := exec.Command(path, "--version").Output()
	if err != nil {
		return "of an unknown version"
	}
	line, _, _ := strings.Cut(string(out), "\n")
	return strings.TrimSpace(line)
}

// measure measures all parts that the plan names.
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

// start starts servers of this program, and joins the peers if it is to. The caller defers close.
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

// rotated returns what is measured in a round: everything, and something else at first in each.
func rotated[T any](all []T, round, rounds int) []T {
	if len(all) == 0 {
		return nil
	}
	at := round * max(1, len(all)/rounds) % len(all)
	return append(slices.Clone(all[at:]), all[:at]...)
}

// speed is one run of redis-benchmark, and what the server took for it.
type speed struct {
	rate   float64 // requests per second
	cpu    float64 // microseconds of processor time per request
	server float64 // its share of a core, in percent
	client float64 // that of redis-benchmark
	rss    float64
}

// sample is one run of redis-benchmark, before it is divided by anything.
type sample struct {
	requests int64
	took     time.Duration // for the requests, as redis-benchmark tells, to the millisecond
	server   time.Duration // processor time
	client   time.Duration // that of redis-benchmark
	wall     time.Duration // with redis-benchmark's start
	rss      int64
}

func (s sample) speed() speed {
	return speed{
		rate: float64(s.requests) / s.took.Seconds(), cpu: s.server.Seconds() * 1e6 / float64(s.requests),
		server: 100 * s.server.Seconds() / s.took.Seconds(), client: 100 * s.client.Seconds() / s.wall.Seconds(),
		rss: float64(s.rss),
	}
}

// minus is what a run did beyond another that began in the same way.
func (s sample) minus(other sample) sample {
	return sample{s.requests - other.requests, s.took - other.took, s.server - other.server, s.client - other.client,
		s.wall - other.wall, s.rss}
}

// shape is a run of the plan without its number of requests.
func (c *comparer) shape(depth int, options ...string) clientRun {
	return clientRun{conns: c.plan.conns, depth: depth, keys: c.plan.keys, options: options, limit: time.Minute + 20*c.plan.length}
}

// run has redis-benchmark ask a rival for as long as planned.
func (c *comparer) run(ctx context.Context, r *rival, a *ask, depth int) (s speed, err error) {
	run := c.shape(depth)
	if c.plan.requests > 0 {
		run.requests = run.whole(float64(c.plan.requests))
	} else if run.requests, err = c.size(ctx, r, a, run, c.plan.length); err != nil {
		return s, err
	}
	one, err := c.sample(ctx, r, a, run)
	if err != nil {
		return s, err
	}
	s = one.speed()
	c.rates[rateName(a, depth)] = s.rate // the next run is as long as planned even if the trial was disturbed
	return s, nil
}

func rateName(a *ask, depth int) string { return fmt.Sprint(a.id(), " ", depth) }

// sample has redis-benchmark ask a rival.
func (c *comparer) sample(ctx context.Context, r *rival, a *ask, run clientRun) (s sample, err error) {
	before, err := r.cpu()
	if err != nil {
		return s, err
	}
	result, err := c.benchmarkWith(ctx, c.client, r, a.args, run)
	if err != nil {
		return s, err
	}
	after, err := r.cpu()
	if err != nil {
		return s, err
	}
	rss, err := r.rss()
	return sample{run.requests, run.took(result.rate), after - before, result.cpu, result.wall, rss}, err
}

// trialTime is how long the run takes, at least, from which the length of others is reckoned: redis-benchmark tells
// milliseconds.
const trialTime = 40 * time.Millisecond

// size returns how many requests make a run of some length. It asks for more and more, the first time.
func (c *comparer) size(ctx context.Context, r *rival, a *ask, run clientRun, length time.Duration) (int64, error) {
	name := rateName(a, run.depth)
	for n := float64(1500 + 80*run.depth); c.rates[name] == 0; n *= 4 {
		run.requests = run.whole(n)
		result, err := c.benchmarkWith(ctx, c.client, r, a.args, run)
		if err != nil {
			return 0, err
		}
		if run.took(result.rate) >= min(trialTime, length) {
			c.rates[name] = result.rate
		}
	}
	return run.whole(c.rates[name] * length.Seconds()), nil
}

// measureThroughput measures every ask with every pipeline.
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

// saturation returns what SET on Redis reaches without a pipeline, and measures it if that has not been done.
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

// paced returns a load of a fixed rate.
func (c *comparer) paced(r *rival, args []string, keys int64, rate float64) *openLoop {
	command := newRandomCommand(args)
	return &openLoop{
		addr: r.addr, conns: c.plan.conns, rate: rate, spin: c.serverCPU >= 0,
		length: c.plan.paced, warm: c.plan.paced / 10,
		command: func(b []byte, random randSource) []byte { return command.appendTo(b, random.Int64N(keys)) },
	}
}

// atRate runs a load of a fixed rate, and sees how busy it keeps the server.
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

// measureLatency measures some asks at fixed rates.
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

// saver is a server that holds many keys.
type saver struct {
	server string
	fill   []string // makes a key that lives for hours
	take   []string // is the load
	dying  []string // makes a key that lives for as many milliseconds as one more argument says
}

var savers = []saver{
	{nameCellserver, askFillOurs, askTouchOurs, askDyingOurs},
	{nameRedis, askFillRedis, askTouchRedis, askDyingRedis},
}

// measureSaves measures the latency of a full server, idle and while it writes a snapshot.
func measureSaves(ctx context.Context, c *comparer) (err error) {
	most, err := c.saturation(ctx)
	if err != nil {
		return err
	}
	c.found.saturation = most
	all, err := c.start(ctx, false, nil, nameCellserver, nameRedis)
	if err != nil {
		return err
	}
	defer func() { all.close(&err) }()
	for _, one := range savers {
		if _, err := c.runLoad(ctx, all[one.server].s, "filling "+one.server, fillLoad(one.fill, 0, c.plan.saved)); err != nil {
			return err
		}
	}
	for round := range c.plan.rounds {
		for _, one := range rotated(savers, round, len(savers)) {
			c.progress.step("round %d of %d: %s", round+1, c.plan.rounds, one.server)
			r := all[one.server]
			idle, err := c.atRate(ctx, r, c.paced(r, one.take, c.plan.saved, most*half/100))
			if err != nil {
				return err
			}
			var took time.Duration
			during, err := c.beside(ctx, r, c.paced(r, one.take, c.plan.saved, most*half/100), func(ctx context.Context) (err error) {
				took, err = snapshots(ctx, r.control, c.plan.paced, c.plan.patience)
				return err
			})
			if err != nil {
				return fmt.Errorf("%s: %w", one.server, err)
			}
			c.found.addSave(one.server, idle, during, took)
		}
	}
	return nil
}

// beside runs a load of a fixed rate, warm as one that runs alone, for as long as work then takes. Once the load has
// failed, work's context is done, and the rival's connection for control is closed, for which work may be waiting.
func (c *comparer) beside(ctx context.Context, r *rival, o *openLoop, work func(context.Context) error) (openResult, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	warmed, worked := make(chan struct{}), make(chan error, 1)
	o.length, o.warmed = 0, warmed
	go func() {
		select {
		case <-warmed:
			worked <- work(ctx)
		case <-ctx.Done():
			worked <- ctx.Err()
		}
		o.over.Store(true)
	}()
	result, err := c.atRate(ctx, r, o)
	if err != nil {
		cancel()
		r.control.close()
	}
	if failed := <-worked; err == nil || !errors.Is(failed, context.Canceled) {
		err = errors.Join(err, failed)
	}
	return result, err
}

// snapshots has a server write one after the other until they have taken some time together, and returns what one took on
// average.
func snapshots(ctx context.Context, control *conn, enough, patience time.Duration) (time.Duration, error) {
	var total time.Duration
	for n := time.Duration(1); ; n++ {
		took, err := snapshot(ctx, control, patience)
		if total += took; err != nil || total >= enough {
			return total / n, err
		}
	}
}

// snapshot has a server write one, and returns how long that took.
func snapshot(ctx context.Context, control *conn, patience time.Duration) (time.Duration, error) {
	began := time.Now()
	if _, err := control.do("BGSAVE"); err != nil {
		return 0, err
	}
	for {
		if err := sleep(ctx, 5*time.Millisecond); err != nil {
			return 0, err
		}
		fields, err := control.info("persistence")
		took := time.Since(began)
		switch {
		case err != nil:
			return 0, err
		case fields["rdb_bgsave_in_progress"] == "1" && took > patience:
			return 0, fmt.Errorf("still saving after %s", took.Round(time.Second))
		case fields["rdb_bgsave_in_progress"] == "1":
		case fields["rdb_last_bgsave_status"] != "ok":
			return 0, fmt.Errorf("the snapshot failed: %s", fields["rdb_last_bgsave_status"])
		default:
			return took, nil
		}
	}
}

// measureMemory measures the resident memory of growing servers.
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
