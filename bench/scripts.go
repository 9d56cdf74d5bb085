package main

import (
	"context"
	"crypto/sha1"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"
)

// The fixed window of the Python package limits, which Flask-Limiter and slowapi use, is a script that cellserver knows. Its text
// is not part of this program: it is read from the package, and the part is left out where that is not installed.
const (
	scriptHash = "628bd136a573a06b346879695681af12ccef300f"
	scriptFile = "/usr/lib/python3/dist-packages/limits/resources/redis/lua_scripts/incr_expire.lua"
)

var (
	askScript      = &ask{server: nameCellserver, name: "EVALSHA", args: []string{"EVALSHA", scriptHash}}
	askRedisScript = &ask{server: nameRedis, name: "EVALSHA", args: []string{"EVALSHA", scriptHash}}
)

// readScript returns the text of the script, or "" if the package is not installed.
func readScript() (string, error) {
	text, err := os.ReadFile(scriptFile)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if sum := sha1.Sum(text); err == nil && hex.EncodeToString(sum[:]) != scriptHash {
		return "", fmt.Errorf("%s is of another version: its SHA-1 is not %s", scriptFile, scriptHash)
	}
	return string(text), err
}

// scriptLoad returns a load that calls the script for random keys, of which each window lasts an hour.
func scriptLoad(conns, depth int, keys int64, length time.Duration) *load {
	t := newTemplate("EVALSHA", scriptHash, "1", "KEY", "3600", "1")
	return &load{conns: conns, depth: depth, length: length,
		command: func(b []byte, _ int64, random randSource) []byte { return t.appendTo(b, random.Int64N(keys)) }}
}

// measureScripts measures the script on both servers at every depth.
func measureScripts(ctx context.Context, c *comparer) (err error) {
	text, err := readScript()
	if err != nil || text == "" {
		return err
	}
	all, err := c.start(ctx, false, nil, nameCellserver, nameRedis)
	if err != nil {
		return err
	}
	defer func() { all.close(&err) }()
	asks := []*ask{askScript, askRedisScript}
	for _, a := range asks {
		if _, err := all[a.server].control.do("SCRIPT", "LOAD", text); err != nil {
			return err
		}
	}
	for round := range c.plan.rounds {
		for _, depth := range c.plan.depths {
			for _, a := range rotated(asks, round, len(asks)) {
				what := fmt.Sprintf("round %d of %d: %s, P=%d", round+1, c.plan.rounds, a.id(), depth)
				s, err := c.measureLoad(ctx, all[a.server], what, scriptLoad(c.plan.conns, depth, c.plan.keys, c.plan.length))
				if err != nil {
					return err
				}
				c.found.addSpeed(a, depth, s)
			}
		}
	}
	return nil
}

// scriptChapter is the speed of the script.
func (c *comparison) scriptChapter() chapter {
	t := table{head: []string{"server", "P", "calls", "spread", "processor time", "server busy", "client busy"}}
	for _, a := range []*ask{askScript, askRedisScript} {
		for _, depth := range c.plan.depths {
			if s := c.speeds[speedKey{a.id(), depth}]; s != nil {
				t.rows = append(t.rows, []string{a.server, fmt.Sprint(depth), formatValue(s.rate.median(), perSecond), percent(s.rate.spread()),
					formatValue(s.cpu.median(), inMicros), percent(s.server.median()), percent(s.client.median())})
			}
		}
	}
	return chapter{"A known script", fmt.Sprintf(`EVALSHA of the fixed window of the Python package limits for random keys, over %d connections with P commands in one pipeline,
for %s in each of %d rounds; %s keys of %d bytes. The client is this program.`,
		c.plan.conns, spoken(c.plan.length), c.plan.rounds, grouped(float64(c.plan.keys)), keyBytes), t}
}
