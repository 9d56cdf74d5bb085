package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Names of the servers of the subcommand cluster. The cellservers that share an engine have a number behind the name.
const (
	nameEngine = "engine"
	nameShared = "cellserver"
	nameAlone  = "memory"
)

// shared is an engine and the cellservers on it, and perhaps a cellserver whose keys are in memory.
type shared struct {
	rivals
	engine *rival
	stores []*rival
}

// share starts an engine, n cellservers on it, and with alone one that keeps its keys in memory. The caller defers close. A request
// may take some seconds, so that a pause of the machine is no error of the measurement.
func (c *clusterLab) share(ctx context.Context, program engineProgram, n int, alone bool) (s *shared, err error) {
	s = &shared{rivals: rivals{}}
	defer func() {
		if err != nil {
			s.close(&err)
		}
	}()
	start := func(name string, command func(port, dir string) *exec.Cmd) (*rival, error) {
		dir, err := os.MkdirTemp(c.dir, "")
		if err != nil {
			return nil, err
		}
		c.progress.step("starting %s", name)
		err = s.open(ctx, c.lab, name, nil, func(port string, _ ...string) *exec.Cmd { return command(port, dir) })
		return s.rivals[name], err
	}
	s.engine, err = start(nameEngine, func(port, dir string) *exec.Cmd { return redisCommand(program.path, port, dir) })
	if err != nil {
		return s, err
	}
	for i := range n {
		one, err := start(fmt.Sprint(nameShared, i), func(port, dir string) *exec.Cmd {
			return c.cellserver(port, "--dir", dir, "--store", "valkey://"+s.engine.addr, "--store-timeout", "5000")
		})
		if err == nil {
			err = one.awaitEngine(ctx)
		}
		if err != nil {
			return s, err
		}
		s.stores = append(s.stores, one)
	}
	if alone {
		_, err = start(nameAlone, func(port, dir string) *exec.Cmd { return c.cellserver(port, "--dir", dir) })
	}
	return s, err
}

// awaitEngine waits until a cellserver, which answers PING before that, has reached its engine.
func (r *rival) awaitEngine(ctx context.Context) error {
	for deadline := time.Now().Add(startTimeout); ; {
		_, err := r.control.do("EXISTS", "ready")
		if err == nil {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("%s does not reach its engine: %w", r.name, err)
		}
		if err := sleep(ctx, 10*time.Millisecond); err != nil {
			return err
		}
	}
}

// fill sends a command for the keys 0 to n-1 through one server.
func (c *clusterLab) fill(ctx context.Context, r *rival, args []string, n int64) error {
	_, err := c.runLoad(ctx, r.s, "filling "+r.name, fillLoad(args, 0, n))
	return err
}

// counted is what one or several servers have used, and done.
type counted struct {
	cpu                                                time.Duration
	decisions, conflicts, commands, trips, local, late int64
}

// count sums up what the cellservers on the engine have counted.
func (s *shared) count() (sum counted, err error) {
	for _, r := range s.stores {
		fields, err := r.control.info("store")
		if err != nil {
			return sum, err
		}
		for name, to := range map[string]*int64{
			"store_decisions": &sum.decisions, "store_conflicts": &sum.conflicts, "store_commands": &sum.commands,
			"store_round_trips": &sum.trips, "store_local_refusals": &sum.local, "store_timeouts": &sum.late,
		} {
			v, err := strconv.ParseInt(fields[name], 10, 64)
			if err != nil {
				return sum, fmt.Errorf("INFO store: %s is %q", name, fields[name])
			}
			*to += v
		}
		cpu, err := r.cpu()
		if err != nil {
			return sum, err
		}
		sum.cpu += cpu
	}
	return sum, nil
}

// cpu returns the processor time of all servers.
func (s *shared) cpu() (sum time.Duration, err error) {
	for _, r := range s.rivals {
		one, err := r.cpu()
		if err != nil {
			return 0, err
		}
		sum += one
	}
	return sum, nil
}

// usage is what was counted during a run.
type usage struct {
	counted
	engine time.Duration
}

// during counts while a run goes on.
func (c *clusterLab) during(s *shared, run func() error) (u usage, err error) {
	before, err := s.count()
	if err != nil {
		return u, err
	}
	engine, err := s.engine.cpu()
	if err != nil {
		return u, err
	}
	own, err := s.cpu()
	if err != nil {
		return u, err
	}
	core, unknown := coreTime(c.serverCPU)
	began := time.Now()
	if err := run(); err != nil {
		return u, err
	}
	wall := time.Since(began)
	if now, err := coreTime(c.serverCPU); err == nil && unknown == nil && wall > 10*clockTick {
		used, err := s.cpu()
		if err != nil {
			return u, err
		}
		c.alien = append(c.alien, 100*max(now-core-(used-own), 0).Seconds()/wall.Seconds())
	}
	if u.engine, err = s.engine.cpu(); err != nil {
		return u, err
	}
	u.engine -= engine
	u.counted, err = s.count()
	u.cpu -= before.cpu
	u.decisions -= before.decisions
	u.conflicts -= before.conflicts
	u.commands -= before.commands
	u.trips -= before.trips
	u.local -= before.local
	u.late -= before.late
	return u, err
}

func micros(d time.Duration, n int64) float64 { return d.Seconds() * 1e6 / float64(n) }

func part(n, of int64) float64 { return float64(n) / float64(max(of, 1)) }

// askedStraight is the command that decides nothing: a compare-and-set of a value as long as that of a bucket of CL.THROTTLE.
var askedStraight = &ask{server: nameEngine, name: "SET IFEQ GET PX",
	args: strings.Fields("SET s:__rand_int__ 123456789 IFEQ 123456789 GET PX 3600000")}

// askedShared is the decision. Its capacity pays back in a minute, and nothing is refused.
var askedShared = &ask{server: nameShared + "0", name: "CL.THROTTLE", args: askThrottle.args}

// measureStraight measures decisions beside compare-and-sets that the engine is asked for straight.
func measureStraight(ctx context.Context, c *clusterLab, program engineProgram) (err error) {
	s, err := c.share(ctx, program, 1, false)
	if err != nil {
		return err
	}
	defer func() { s.close(&err) }()
	if err := c.fill(ctx, s.engine, strings.Fields("SET s:__rand_int__ 123456789 PX 3600000"), c.plan.keys); err != nil {
		return err
	}
	if err := c.fill(ctx, s.stores[0], askedShared.args, c.plan.keys); err != nil {
		return err
	}
	clear(c.rates)
	g := c.gridOf("Straight, and by cellserver", fmt.Sprintf(`redis-benchmark asks over %d connections with a pipeline of P, for %s, for one of %s random keys that all exist: the engine
straight for a SET IFEQ GET PX, whose value is as long as that of a bucket and which wins, and cellserver for CL.THROTTLE, which is
admitted. By turns, the medians of %d rounds. Processor time is that per command, user and system, of each program. A command of the
store is one compare-and-set or GET; a batch is what is written to the engine together.`,
		c.plan.conns, spoken(c.plan.length), grouped(float64(c.plan.keys)), c.plan.rounds),
		[]string{"", "requests", "engine, per request", "cellserver, per request", "commands per decision", "commands in a batch"},
		perSecond, inMicros, inMicros, asRatio, asRatio)
	for round := range c.plan.rounds {
		for _, depth := range []int{1, 16} {
			rates, cpus := map[*ask]float64{}, map[*ask]float64{}
			for _, a := range rotated([]*ask{askedStraight, askedShared}, round, 2) {
				c.progress.step("round %d of %d: %s, P=%d", round+1, c.plan.rounds, a.name, depth)
				run := c.shape(depth)
				if run.requests, err = c.size(ctx, s.rivals[a.server], a, run, c.plan.length); err != nil {
					return err
				}
				var one sample
				u, err := c.during(s, func() (err error) {
					one, err = c.sample(ctx, s.rivals[a.server], a, run)
					return err
				})
				if err != nil {
					return err
				}
				rates[a], cpus[a] = one.speed().rate, micros(u.engine+u.cpu, one.requests)
				c.rates[rateName(a, depth)] = rates[a]
				name := fmt.Sprintf("%s, P=%d, ", program.name(), depth)
				if a == askedStraight {
					g.add(name+"straight", rates[a], micros(u.engine, one.requests))
				} else {
					g.add(name+a.name, rates[a], micros(u.engine, one.requests), micros(u.cpu, one.requests), part(u.commands, u.decisions), part(u.commands, u.trips))
				}
			}
			limit := map[int]float64{1: 1.2, 16: 0.4}[depth]
			name := fmt.Sprintf("%s: CL.THROTTLE over SET IFEQ GET straight, P=%d: ", program.name(), depth)
			c.addGoal(goal{what: name + "throughput", unit: times, limit: limit}, rates[askedShared]/rates[askedStraight])
			c.addGoal(goal{what: name + "by processor time", unit: times}, cpus[askedStraight]/cpus[askedShared])
		}
	}
	return nil
}

// together runs a load on each of some servers at once, and returns the sum of the results and the longest time.
func together(ctx context.Context, servers []*rival, loads []*load) (sum loadResult, err error) {
	var group sync.WaitGroup
	results, errs := make([]loadResult, len(servers)), make([]error, len(servers))
	for i, r := range servers {
		group.Go(func() { results[i], errs[i] = loads[i].run(ctx, r.addr) })
	}
	group.Wait()
	for i, r := range results {
		if errs[i] != nil {
			return sum, fmt.Errorf("%s: %w", servers[i].name, errs[i])
		}
		sum.commands += r.commands
		sum.limited += r.limited
		sum.wall = max(sum.wall, r.wall)
	}
	return sum, nil
}

// oneKey returns for each server a load that sends the same command again and again.
func oneKey(servers, conns int, total int64, length time.Duration, args ...string) (all []*load) {
	t := newTemplate(args...)
	for range servers {
		all = append(all, &load{conns: conns, depth: 1, total: total, length: length,
			command: func(b []byte, _ int64, _ randSource) []byte { return t.appendTo(b, 0) }})
	}
	return all
}

// measureHotKey measures one key that is asked for through several cellservers.
func measureHotKey(ctx context.Context, c *clusterLab, program engineProgram) (err error) {
	p := c.plan
	s, err := c.share(ctx, program, p.servers, false)
	if err != nil {
		return err
	}
	defer func() { s.close(&err) }()
	g := c.gridOf("One hot key", fmt.Sprintf(`%d cellservers share an engine, and %d connections to each ask for the same key, one request at a time, for %s. The client is
this program. All requests are admitted. Conflicts are compare-and-sets that found another value than the one that the cellserver had
seen last; a command decides all requests that wait for the key.`, p.servers, p.conns, spoken(p.length)),
		[]string{"", "decisions", "conflicts per decision", "decisions per command", "engine, per decision", "cellservers, per decision"},
		perSecond, asRatio, asRatio, inMicros, inMicros)
	for round := range p.rounds {
		c.progress.step("round %d of %d", round+1, p.rounds)
		var result loadResult
		u, err := c.during(s, func() (err error) {
			result, err = together(ctx, s.stores, oneKey(p.servers, p.conns, 0, p.length, "CL.WINDOW", "hot", "1000000000", "86400"))
			return err
		})
		if err != nil {
			return err
		}
		g.add(program.name(), result.rate(), part(u.conflicts, u.decisions), part(u.decisions, u.commands), micros(u.engine, u.decisions), micros(u.cpu, u.decisions))
		name := fmt.Sprintf("%s: one hot key, %d cellservers x %d connections: ", program.name(), p.servers, p.conns)
		c.addGoal(goal{what: name + "decisions", unit: func(v float64) string { return formatValue(v, perSecond) }, limit: 20000}, result.rate())
		c.addGoal(goal{what: name + "conflicts per decision", unit: func(v float64) string { return formatValue(v, asRatio) }, limit: 0.3, atMost: true},
			part(u.conflicts, u.decisions))
		for _, kind := range []string{"CL.THROTTLE", "CL.WINDOW", "CL.ZSLIDE"} {
			limit := p.exact
			args := []string{kind, fmt.Sprint("exact:", kind, round), fmt.Sprint(limit), "86400"}
			switch kind {
			case "CL.THROTTLE":
				args = []string{kind, args[1], fmt.Sprint(limit - 1), "1", "86400"}
			case "CL.ZSLIDE": // its cost grows with the limit
				limit /= 10
				args[2] = fmt.Sprint(limit)
			}
			// Half as much again is asked for as is admitted.
			result, err := together(ctx, s.stores, oneKey(p.servers, p.conns, limit*3/2/int64(p.servers), 0, args...))
			if err != nil {
				return err
			}
			c.addGoal(goal{what: fmt.Sprintf("%s: %s admits of a limit of %s", program.name(), kind, grouped(float64(limit))),
				unit: grouped, limit: float64(limit), exactly: true}, float64(result.commands-result.limited))
		}
	}
	return nil
}

// askedRefused is a request for a bucket that is exhausted for a day, but for the first time.
var askedRefused = strings.Fields("CL.THROTTLE r:__rand_int__ 0 1 86400")

// measureRefused measures refusals beside those of a cellserver with its keys in memory.
func measureRefused(ctx context.Context, c *clusterLab, program engineProgram) (err error) {
	s, err := c.share(ctx, program, 1, true)
	if err != nil {
		return err
	}
	defer func() { s.close(&err) }()
	asks := []*ask{{server: nameShared + "0", name: "refused", args: askedRefused}, {server: nameAlone, name: "refused", args: askedRefused}}
	for _, a := range asks {
		if err := c.fill(ctx, s.rivals[a.server], a.args, c.plan.hot); err != nil {
			return err
		}
	}
	clear(c.rates)
	g := c.gridOf("Refusals", fmt.Sprintf(`redis-benchmark asks over %d connections with a pipeline of P, for %s, for one of %d keys that are exhausted: a cellserver with its
keys in the engine, and one with its keys in memory. store-refusal-cache is at its default, 100 ms. Local is the share that was
refused from the state that was seen last, without the engine.`, c.plan.conns, spoken(c.plan.length), c.plan.hot),
		[]string{"", "requests", "cellserver, per request", "engine, per request", "local"}, perSecond, inMicros, inMicros, inPercent)
	for round := range c.plan.rounds {
		for _, depth := range []int{1, 16} {
			rates := map[string]float64{}
			for _, a := range rotated(asks, round, 2) {
				c.progress.step("round %d of %d: %s, P=%d", round+1, c.plan.rounds, a.server, depth)
				run := c.shape(depth)
				run.keys = c.plan.hot
				if run.requests, err = c.size(ctx, s.rivals[a.server], a, run, c.plan.length); err != nil {
					return err
				}
				var one sample
				u, err := c.during(s, func() (err error) {
					one, err = c.sample(ctx, s.rivals[a.server], a, run)
					return err
				})
				if err != nil {
					return err
				}
				rates[a.server] = one.speed().rate
				c.rates[rateName(a, depth)] = one.speed().rate
				name := fmt.Sprintf("%s, P=%d", program.name(), depth)
				if a.server == nameAlone {
					g.add(name+", in memory", rates[a.server], micros(one.server, one.requests))
				} else {
					g.add(name, rates[a.server], micros(one.server, one.requests), micros(u.engine, one.requests), 100*part(u.local, one.requests))
				}
			}
			c.addGoal(goal{what: fmt.Sprintf("%s: refusals on %d hot keys over the memory store, P=%d", program.name(), c.plan.hot, depth),
				unit: times, limit: 0.5}, rates[asks[0].server]/rates[nameAlone])
		}
	}
	return nil
}

// measureCrowd measures how long requests wait when many connections ask for one key.
func measureCrowd(ctx context.Context, c *clusterLab, program engineProgram) (err error) {
	p := c.plan
	s, err := c.share(ctx, program, p.servers, false)
	if err != nil {
		return err
	}
	defer func() { s.close(&err) }()
	for _, r := range s.stores {
		if _, err := r.control.do("CONFIG", "SET", "store-timeout", "1000"); err != nil {
			return err
		}
	}
	g := c.gridOf("A crowd on one key", fmt.Sprintf(`%d connections to %d cellservers ask for the same key for %s, one request at a time, with a store-timeout of 1 s; all are admitted. The
client is this program, whose own delay is in the waits.`, p.crowd, p.servers, spoken(p.length)),
		[]string{"", "decisions", "p50", "p99", "longest wait", "conflicts per decision", "timed out"}, perSecond, asLatency, asLatency, asLatency, asRatio, asCount)
	for round := range p.rounds {
		c.progress.step("round %d of %d", round+1, p.rounds)
		var seen *histogram
		began := time.Now()
		u, err := c.during(s, func() (err error) {
			seen, err = crowd(ctx, s.stores, p.crowd, p.length, newTemplate("CL.WINDOW", "crowd", "1000000000", "86400"))
			return err
		})
		if err != nil {
			return err
		}
		g.add(program.name(), float64(seen.n)/time.Since(began).Seconds(), float64(seen.quantile(0.5)), float64(seen.quantile(0.99)), float64(seen.max),
			part(u.conflicts, u.decisions), float64(u.late))
		name := fmt.Sprintf("%s: %d connections on one key, %d cellservers: ", program.name(), p.crowd, p.servers)
		c.addGoal(goal{what: name + "longest wait", unit: func(v float64) string { return formatValue(v, asLatency) }, limit: float64(250 * time.Millisecond), atMost: true},
			float64(seen.max))
		c.addGoal(goal{what: name + "timed out", unit: grouped, exactly: true}, float64(u.late))
	}
	return nil
}

// crowd sends one command over conns connections, to the servers in turn, and measures each wait. An error reply ends it.
func crowd(ctx context.Context, servers []*rival, conns int, length time.Duration, command template) (sum *histogram, err error) {
	all := make([]*conn, conns)
	defer func() {
		for _, one := range all {
			if one != nil {
				one.close()
			}
		}
	}()
	for i := range all {
		if all[i], err = dial(servers[i%len(servers)].addr); err != nil {
			return nil, err
		}
		_ = all[i].SetDeadline(time.Now().Add(length + replyTimeout))
	}
	var (
		group sync.WaitGroup
		mu    sync.Mutex
	)
	sum = new(histogram)
	began := time.Now()
	for _, one := range all {
		group.Go(func() {
			var waits []time.Duration
			var failed error
			line := command.appendTo(nil, 0)
			for failed == nil && ctx.Err() == nil && time.Since(began) < length {
				sent := time.Now()
				if _, failed = one.Write(line); failed == nil {
					_, failed = readReply(one.r, nil)
				}
				waits = append(waits, time.Since(sent))
			}
			mu.Lock()
			defer mu.Unlock()
			for _, w := range waits {
				sum.record(w)
			}
			if err == nil {
				err = failed
			}
		})
	}
	group.Wait()
	if err == nil {
		err = ctx.Err()
	}
	return sum, err
}

// sized are the kinds of keys, by the command that makes one with a number in its name.
var sized = []struct {
	name string
	args []string
}{
	{"CL.THROTTLE", strings.Fields("CL.THROTTLE __rand_int__ 1000000 1 60")},
	{"CL.WINDOW", strings.Fields("CL.WINDOW __rand_int__ 1000000 3600")},
	{"CL.ZSLIDE, one record", strings.Fields("CL.ZSLIDE __rand_int__ 1000000 3600")},
	{"INCR", strings.Fields("INCR __rand_int__")},
	{"SET of 9 bytes straight", strings.Fields("SET cellserver:__rand_int__ 123456789 PX 3600000")},
}

// measureSizes measures what a key takes in the engine.
func measureSizes(ctx context.Context, c *clusterLab, program engineProgram) error {
	g := c.gridOf("Memory in the engine", fmt.Sprintf(`used_memory of an engine with %s keys of 12 bytes and the prefix "cellserver:", above that without keys, by key; and the length of the
value of one of them.`, grouped(float64(c.plan.held))), []string{"", "memory per key", "value"}, bytesEach, asCount)
	for _, kind := range sized {
		if err := c.measureSize(ctx, program, g, kind.name, kind.args); err != nil {
			return err
		}
	}
	return nil
}

// measureSize does so for one kind, in an engine of its own: one that was flushed keeps tables.
func (c *clusterLab) measureSize(ctx context.Context, program engineProgram, g *grid, name string, args []string) (err error) {
	s, err := c.share(ctx, program, 1, false)
	if err != nil {
		return err
	}
	defer func() { s.close(&err) }()
	before, err := s.engine.control.number("memory", "used_memory")
	if err != nil {
		return err
	}
	to := s.stores[0]
	if args[0] == "SET" {
		to = s.engine
	}
	if err := c.fill(ctx, to, args, c.plan.held); err != nil {
		return err
	}
	after, err := s.engine.control.number("memory", "used_memory")
	if err != nil {
		return err
	}
	length, err := s.engine.valueBytes("cellserver:" + fmt.Sprintf("%012d", 1))
	if err != nil {
		return err
	}
	g.add(program.name()+", "+name, part(after-before, c.plan.held), length)
	return nil
}

// valueBytes returns the length of the value of a key.
func (r *rival) valueBytes(key string) (float64, error) {
	reply, err := r.control.do("STRLEN", key)
	if err != nil {
		return 0, err
	}
	return strconv.ParseFloat(reply[0], 64)
}

// measureSharedLogs measures decisions on sliding logs of several lengths.
func measureSharedLogs(ctx context.Context, c *clusterLab, program engineProgram) (err error) {
	s, err := c.share(ctx, program, 1, false)
	if err != nil {
		return err
	}
	defer func() { s.close(&err) }()
	g := c.gridOf("Sliding logs", `CL.ZSLIDE on logs that have so many records already, and get a tenth more meanwhile: one connection, one request at a time, for keys
in turn. A decision sends the whole value to the engine twice, as the old and as the new one, and gets it once.`,
		[]string{"", "decisions", "value", "memory per key", "engine, per decision", "cellserver, per decision"}, perSecond, inBytes, inBytes, inMicros, inMicros)
	for i, records := range c.plan.logs {
		keys := max(2, c.plan.records/records)
		t := newTemplate("CL.ZSLIDE", "KEY", "100000000", "86400")
		first := int64(i) * 1_000_000
		// Requests for one key that wait together would share a record, so no key comes twice in a pipeline.
		work := func(total, depth int64) *load {
			return &load{conns: 1, depth: int(depth), total: total,
				command: func(b []byte, i int64, _ randSource) []byte { return t.appendTo(b, first+i%keys) }}
		}
		before, err := s.engine.control.number("memory", "used_memory")
		if err != nil {
			return err
		}
		if _, err := c.runLoad(ctx, s.stores[0].s, fmt.Sprintf("logs of %d records", records), work(keys*records, min(keys, 100))); err != nil {
			return err
		}
		after, err := s.engine.control.number("memory", "used_memory")
		if err != nil {
			return err
		}
		length, err := s.engine.valueBytes(fmt.Sprintf("cellserver:k:%0*d", keyBytes-2, first))
		if err != nil {
			return err
		}
		var result loadResult
		u, err := c.during(s, func() (err error) {
			result, err = c.runLoad(ctx, s.stores[0].s, fmt.Sprintf("decisions on logs of %d records", records), work(keys*max(1, records/10), 1))
			return err
		})
		if err != nil {
			return err
		}
		g.add(fmt.Sprintf("%s, %s records", program.name(), grouped(float64(records))), result.rate(), length, part(after-before, keys),
			micros(u.engine, u.decisions), micros(u.cpu, u.decisions))
	}
	return nil
}
