package main

import (
	"context"
	"fmt"
	"time"
)

// speed is the result of a run of redis-benchmark, per request and second.
type speed struct {
	rate   float64 // requests per second
	cpu    float64 // microseconds of processor time per request
	server float64 // share of a core of the server, in percent
	client float64 // share of a core of redis-benchmark, in percent
	rss    float64
}

// sample is the totals of a run of redis-benchmark.
type sample struct {
	requests int64
	took     time.Duration // duration of the requests, by redis-benchmark, in milliseconds
	server   time.Duration // processor time of the server
	client   time.Duration // processor time of redis-benchmark
	wall     time.Duration // duration of redis-benchmark, including its start
	rss      int64
}

func (s sample) speed() speed {
	return speed{
		rate: float64(s.requests) / s.took.Seconds(), cpu: s.server.Seconds() * 1e6 / float64(s.requests),
		server: 100 * s.server.Seconds() / s.took.Seconds(), client: 100 * s.client.Seconds() / s.wall.Seconds(),
		rss: float64(s.rss),
	}
}

// minus returns the difference to a shorter run that began in the same way.
func (s sample) minus(other sample) sample {
	return sample{s.requests - other.requests, s.took - other.took, s.server - other.server, s.client - other.client,
		s.wall - other.wall, s.rss}
}

// shape returns a run of the plan without a number of requests.
func (c *comparer) shape(depth int, options ...string) clientRun {
	return clientRun{conns: c.plan.conns, depth: depth, keys: c.plan.keys, options: options, limit: time.Minute + 20*c.plan.length}
}

// run runs redis-benchmark against a rival for the planned time.
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
	c.rates[rateName(a, depth)] = s.rate // corrects the length of the next run if the trial was disturbed
	return s, nil
}

func rateName(a *ask, depth int) string { return fmt.Sprint(a.id(), " ", depth) }

// sample runs redis-benchmark against a rival.
func (c *comparer) sample(ctx context.Context, r *rival, a *ask, run clientRun) (s sample, err error) {
	before, err := r.cpu()
	if err != nil {
		return s, err
	}
	core, known := coreTime(c.serverCPU)
	result, err := c.benchmarkWith(ctx, c.client, r, a.args, run)
	if err != nil {
		return s, err
	}
	after, err := r.cpu()
	if err != nil {
		return s, err
	}
	if now, err := coreTime(c.serverCPU); err == nil && known == nil && r.own() && result.wall > 10*clockTick {
		others := max(now-core-(after-before), 0)
		c.found.others = append(c.found.others, 100*others.Seconds()/result.wall.Seconds())
	}
	rss, err := r.rss()
	return sample{run.requests, run.took(result.rate), after - before, result.cpu, result.wall, rss}, err
}

// trialTime is the minimum duration of the trial run from whose rate the size of other runs is computed: redis-benchmark
// reports its duration in whole milliseconds.
const trialTime = 40 * time.Millisecond

// size returns the number of requests of a run of the given length. On the first call it runs longer and longer trials.
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
