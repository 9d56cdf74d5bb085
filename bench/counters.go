package main

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strconv"
	"time"
)

// Programs that count in fixed windows, such as envoyproxy/ratelimit, send two commands for each request, in one pipeline: they
// add to a counter and set its expiry.
var (
	countLines    = [2][]string{{"INCRBY", "KEY", "1"}, {"EXPIRE", "KEY", "3600"}}
	askCount      = &ask{server: nameCellserver, name: "INCRBY and EXPIRE", args: []string{"INCRBY key 1, EXPIRE key 3600"}}
	askRedisCount = &ask{server: nameRedis, name: "INCRBY and EXPIRE", args: []string{"INCRBY key 1, EXPIRE key 3600"}}
)

// countDepths are the depths at which both are sent: fewer than two commands are no pipeline.
func (p comparePlan) countDepths() (depths []int) {
	for _, depth := range p.depths {
		if depth%2 == 0 {
			depths = append(depths, depth)
		}
	}
	return depths
}

// countLoad returns a load that sends both commands for random keys.
func countLoad(conns, depth int, keys int64, length time.Duration) *load {
	add, expire := newTemplate(slices.Clone(countLines[0])...), newTemplate(slices.Clone(countLines[1])...)
	return &load{conns: conns, depth: depth, length: length,
		command: func(b []byte, i int64, _ randSource) []byte {
			// The two commands of a pair have neighbouring numbers, and their key is a hash of that of the pair.
			pair := uint64(i/2) * 0x9e3779b97f4a7c15
			key := int64((pair ^ pair>>29) % uint64(keys))
			if i%2 == 0 {
				return add.appendTo(b, key)
			}
			return expire.appendTo(b, key)
		}}
}

// measureCounters measures the pairs at every depth, and then the memory of counters.
func measureCounters(ctx context.Context, c *comparer) (err error) {
	all, err := c.start(ctx, false, nil, nameCellserver, nameRedis)
	if err != nil {
		return err
	}
	defer func() { all.close(&err) }()
	asks := []*ask{askCount, askRedisCount}
	for _, a := range asks {
		if _, err := c.runLoad(ctx, all[a.server].s, "making the counters of "+a.server, counterFill(0, c.plan.keys)); err != nil {
			return err
		}
	}
	for round := range c.plan.rounds {
		for _, depth := range c.plan.countDepths() {
			for _, a := range rotated(asks, round, len(asks)) {
				what := fmt.Sprintf("round %d of %d: %s, P=%d", round+1, c.plan.rounds, a.id(), depth)
				s, err := c.measureLoad(ctx, all[a.server], what, countLoad(c.plan.conns, depth, c.plan.keys, c.plan.length))
				if err != nil {
					return err
				}
				c.found.addSpeed(a, depth, s)
			}
		}
	}
	for _, a := range asks {
		if err := c.measureCounterMemory(ctx, a); err != nil {
			return err
		}
	}
	return nil
}

// measureLoad measures one run of a load on a server.
func (c *comparer) measureLoad(ctx context.Context, r *rival, what string, l *load) (s speed, err error) {
	before, err := r.cpu()
	if err != nil {
		return s, err
	}
	clientBefore, err := processTime(os.Getpid())
	if err != nil {
		return s, err
	}
	did, err := c.runLoad(ctx, r.s, what, l)
	if err != nil {
		return s, err
	}
	client, err := processTime(os.Getpid())
	if err != nil {
		return s, err
	}
	after, err := r.cpu()
	if err != nil {
		return s, err
	}
	rss, err := r.rss()
	return sample{did.commands, did.wall, after - before, client - clientBefore, did.wall, rss}.speed(), err
}

// counterFill returns a load that makes counters that expire in an hour.
func counterFill(first, total int64) *load {
	t := newTemplate("SET", "KEY", strconv.Itoa(1_000_000), "EX", "3600")
	return &load{conns: loadConns, depth: loadDepth, total: total - first,
		command: func(b []byte, i int64, _ randSource) []byte { return t.appendTo(b, first+i) }}
}

// countersHeld is how many counters the memory of one is measured with.
const countersHeld = 1_000_000

func (c *comparer) measureCounterMemory(ctx context.Context, a *ask) (err error) {
	all, err := c.start(ctx, false, nil, a.server)
	if err != nil {
		return err
	}
	defer func() { all.close(&err) }()
	s := all[a.server].s
	if _, err := c.runLoad(ctx, s, "filling "+a.server+" with counters", counterFill(0, countersHeld)); err != nil {
		return err
	}
	rss, _, err := resident(s.pid)
	c.found.counters[a.server] = memoryFigure{float64(rss), float64(rss - s.empty)}
	return err
}

// counterChapter is the pairs and the memory.
func (c *comparison) counterChapter() chapter {
	t := table{head: []string{"server", "P", "commands", "spread", "processor time", "server busy", "client busy", "RSS per counter"}}
	for _, a := range []*ask{askCount, askRedisCount} {
		for _, depth := range c.plan.countDepths() {
			s := c.speeds[speedKey{a.id(), depth}]
			if s == nil {
				continue
			}
			each := ""
			if m, ok := c.counters[a.server]; ok {
				each = formatValue(m.above/countersHeld, bytesEach)
			}
			t.rows = append(t.rows, []string{a.server, fmt.Sprint(depth), formatValue(s.rate.median(), perSecond), percent(s.rate.spread()),
				formatValue(s.cpu.median(), inMicros), percent(s.server.median()), percent(s.client.median()), each})
		}
	}
	return chapter{"Counters", fmt.Sprintf(`INCRBY and EXPIRE of the same random key by turns, as envoyproxy/ratelimit sends them, over %d connections with P commands in one
pipeline, for %s in each of %d rounds; %s keys of %d bytes. The client is this program, on the core that redis-benchmark has
elsewhere. RSS per counter is that above the empty server with %s counters, made by SET with EX.`,
		c.plan.conns, spoken(c.plan.length), c.plan.rounds, grouped(float64(c.plan.keys)), keyBytes, grouped(countersHeld)), t}
}
