package main

import (
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// tlsDepth is the pipeline depth of the measurements of TLS.
const tlsDepth = 16

// tlsAsked is the ask that is measured with and without TLS.
var tlsAsked = []*ask{askThrottle, askSet}

// Kinds of connections.
const (
	kindPlain = "plain"
	kindTLS   = "TLS"
)

// measureTLS measures the throughput of established connections with and without TLS.
func measureTLS(ctx context.Context, c *comparer) (err error) {
	if why := c.withoutTLS(); why != "" {
		c.found.note("TLS was not measured: %s.", why)
		return nil
	}
	server, client, err := makeCertificate(c.dir)
	if err != nil {
		return err
	}
	all, err := c.start(ctx, false, server, nameCellserver, nameRedis)
	if err != nil {
		return err
	}
	defer func() { all.close(&err) }()
	kinds := []struct {
		name    string
		options []string
	}{{kindPlain, nil}, {kindTLS, client}}
	for round := range c.plan.rounds {
		for _, a := range rotated(tlsAsked, round, len(tlsAsked)) {
			r := all[a.server]
			if err := r.prepare(ctx, a, c.plan.keys); err != nil {
				return err
			}
			for _, kind := range rotated(kinds, round, len(kinds)) {
				c.progress.step("round %d of %d: %s, %s", round+1, c.plan.rounds, a.id(), kind.name)
				s, begin, err := c.steady(ctx, r, a, tlsDepth, kind.options...)
				if err != nil {
					return fmt.Errorf("%s, %s: %w", a.id(), kind.name, err)
				}
				c.found.addTLS(a.id(), kind.name, s.speed(), begin)
			}
		}
	}
	return nil
}

// steady measures a rival with redis-benchmark without the time in which connections are made and shake hands: it subtracts
// from a run the totals of a run in which every connection sends a single pipeline. begin is the duration of the latter.
func (c *comparer) steady(ctx context.Context, r *rival, a *ask, depth int, options ...string) (s sample, begin time.Duration, err error) {
	run := c.shape(depth, options...)
	// Without the options, because the handshakes of a short trial would distort its rate.
	requests, err := c.size(ctx, r, a, c.shape(depth), c.plan.tls)
	if err != nil {
		return s, 0, err
	}
	run.requests = run.whole(1)
	first, err := c.sample(ctx, r, a, run)
	if err != nil {
		return s, 0, err
	}
	run.requests += requests
	all, err := c.sample(ctx, r, a, run)
	if err != nil {
		return s, 0, err
	}
	if all.took <= first.took || all.wall <= first.wall {
		return s, 0, fmt.Errorf("%s requests took %s and %s took %s: something disturbs the machine", grouped(float64(all.requests)),
			all.took, grouped(float64(first.requests)), first.took)
	}
	s = all.minus(first)
	if len(options) == 0 {
		c.rates[rateName(a, depth)] = s.speed().rate
	}
	return s, first.took, nil
}

// withoutTLS returns why TLS cannot be measured: which program lacks it. It returns "" if all have it.
func (c *comparer) withoutTLS() string {
	for _, program := range []struct{ name, path, option string }{
		{"cellserver", c.server, "--tls-port"}, {"redis-benchmark", c.client, "--tls"},
	} {
		out, _ := exec.Command(program.path, "--help").CombinedOutput() // its exit status does not matter
		if !strings.Contains(string(out), program.option) {
			return program.name + " has no " + program.option
		}
	}
	// redis-server --help lists no options. A redis-server without TLS refuses the option and ends; with TLS it ends because
	// of the invalid port. The output says which.
	out, err := exec.Command(c.redis, "--port", "0", "--tls-port", "1", "--tls-cert-file", filepath.Join(c.dir, "none"),
		"--logfile", "").CombinedOutput()
	if err == nil || strings.Contains(string(out), "not built with TLS") || strings.Contains(string(out), "Bad directive") {
		return "redis-server has no TLS"
	}
	return ""
}
