package main

import (
	"context"
	"fmt"
	"time"
)

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
