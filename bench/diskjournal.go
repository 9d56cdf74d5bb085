package main

import (
	"context"
	"encoding/csv"
	"fmt"
	"net"
	"os/exec"
	"strconv"
	"strings"
)

// Number of connections, pipeline depth and number of keys of redis-benchmark.
const (
	benchmarkConns = 50
	benchmarkDepth = 16
	benchmarkKeys  = 100_000
)

func aboutJournal(p diskPlan) string {
	return fmt.Sprintf(`redis-benchmark -P %d -c %d -r %d sends %s requests to a server without a journal, then to two with appendonly yes and
appendfsync everysec, and to one without again, each of which begins with nothing; what is shown of each kind is the mean
of its two. cellserver gets CL.THROTTLE that is always admitted, and so changes its key; Redis gets SET of 19 digits with
PX. Everything else is as the servers have it by default: Redis also rewrites its journal, in a process that shares the
core.`, benchmarkDepth, benchmarkConns, benchmarkKeys, grouped(float64(p.requests)))
}

// measureJournal measures the throughput with and without a journal.
func measureJournal(ctx context.Context, d *diskLab, p diskPlan) (m measured, err error) {
	for _, c := range d.servers {
		var rates [2]float64
		var size int64
		for _, journal := range []int{0, 1, 1, 0} {
			rate, bytes, err := d.benchmark(ctx, c, p, journal == 1)
			if err != nil {
				return m, fmt.Errorf("%s: %w", c.name, err)
			}
			rates[journal] += rate / 2
			size = max(size, bytes)
		}
		m.add(c.name+": requests without a journal", rates[0], perSecond)
		m.add(c.name+": requests with a journal", rates[1], perSecond)
		m.add(c.name+": with, of what it is without", 100*rates[1]/rates[0], inPercent)
		m.add(c.name+": the journal at the end", float64(size), inBytes)
	}
	return m, nil
}

// benchmark runs redis-benchmark against a new server. It returns the rate and the size of the journal afterwards.
func (d *diskLab) benchmark(ctx context.Context, c *contender, p diskPlan, journal bool) (rate float64, size int64, err error) {
	var args []string
	what := "without a journal"
	if journal {
		args, what = []string{"--appendonly", "yes", "--appendfsync", "everysec"}, "with a journal"
	}
	s, end, err := d.open(ctx, c, args...)
	if err != nil {
		return 0, 0, err
	}
	defer end(&err)
	d.progress.step("%s %s", c.name, what)
	_, port, err := net.SplitHostPort(s.addr)
	if err != nil {
		return 0, 0, err
	}
	cmd := exec.CommandContext(ctx, "redis-benchmark", append([]string{"-p", port, "--csv",
		"-P", strconv.Itoa(benchmarkDepth), "-c", strconv.Itoa(benchmarkConns), "-r", strconv.Itoa(benchmarkKeys),
		"-n", strconv.FormatInt(p.requests, 10)}, c.journal...)...)
	out, err := cmd.Output() // it fails when the server answers with an error
	if err != nil {
		return 0, 0, fmt.Errorf("redis-benchmark: %w: %s", err, out)
	}
	if rate, err = parseBenchmark(string(out)); err != nil || !journal {
		return rate, 0, err
	}
	size, err = s.control.number("persistence", "aof_current_size")
	return rate, size, err
}

// parseBenchmark returns the requests per second in the output of redis-benchmark --csv.
func parseBenchmark(out string) (float64, error) {
	rows, err := csv.NewReader(strings.NewReader(out)).ReadAll()
	if err != nil {
		return 0, fmt.Errorf("redis-benchmark: %w", err)
	}
	if len(rows) != 2 || len(rows[0]) < 2 || rows[0][1] != "rps" {
		return 0, fmt.Errorf("redis-benchmark said %q", out)
	}
	return strconv.ParseFloat(rows[1][1], 64)
}
