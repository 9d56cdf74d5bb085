package main

import (
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// tlsDepth is the pipeline with which TLS is measured.
const tlsDepth = 16

// tlsAsked is what is asked over TLS and without it.
var tlsAsked = []*ask{askThrottle, askSet}

// Kinds of connections.
const (
	kindPlain = "plain"
	kindTLS   = "TLS"
)

// measureTLS measures what TLS takes from the throughput of connections that live.
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

// steady has redis-benchmark ask a rival, and returns what that took without its beginning, in which connections are made
// and shake hands: what a run took, less what one took in which every connection sends a single pipeline. begin is how
// long the latter took.
func (c *comparer) steady(ctx context.Context, r *rival, a *ask, depth int, options ...string) (s sample, begin time.Duration, err error) {
	run := c.shape(depth, options...)
	// Without the options: a trial with handshakes tells nothing of a run.
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

// withoutTLS says who cannot speak TLS, if anybody.
func (c *comparer) withoutTLS() string {
	for _, program := range []struct{ name, path, option string }{
		{"cellserver", c.server, "--tls-port"}, {"redis-benchmark", c.client, "--tls"},
	} {
		out, _ := exec.Command(program.path, "--help").CombinedOutput() // whatever its status
		if !strings.Contains(string(out), program.option) {
			return program.name + " has no " + program.option
		}
	}
	// redis-server's --help names no options. One that does not know TLS ends at once when it is to speak it; this one
	// ends for its port, and says which of the two it was.
	out, err := exec.Command(c.redis, "--port", "0", "--tls-port", "1", "--tls-cert-file", filepath.Join(c.dir, "none"),
		"--logfile", "").CombinedOutput()
	if err == nil || strings.Contains(string(out), "not built with TLS") || strings.Contains(string(out), "Bad directive") {
		return "redis-server has no TLS"
	}
	return ""
}
