package main

import (
	"bytes"
	"context"
	"io"
	"os"
	"slices"
	"strings"
	"testing"
	"time"
)

func tinyDiskPlan(t *testing.T) diskPlan {
	t.Helper()
	p := fullDiskPlan()
	p.keys, p.requests, p.rounds, p.quiet, p.dir = 20_000, 20_000, 2, 300*time.Millisecond, t.TempDir()
	return p
}

func testDiskLab(t *testing.T, dir string) *diskLab {
	t.Helper()
	l := testLab(t) // it looks for servers that are left, after what follows has ended
	d, remove, err := newDiskLab(l, dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := remove(); err != nil {
			t.Error(err)
		}
		if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
			t.Errorf("left behind: %v, %v", left, err)
		}
	})
	return d
}

func TestDiskMeasuresEverything(t *testing.T) {
	needs(t, "redis-benchmark")
	p := tinyDiskPlan(t)
	d := testDiskLab(t, p.dir)
	result, err := diskReport(t.Context(), d, p)
	if err != nil {
		t.Fatal(err)
	}
	if len(result.sections) != len(diskParts) {
		t.Fatalf("%d sections", len(result.sections))
	}
	// Loose bounds: they tell a wrong unit or a missing reading, not a slow machine.
	want := []struct {
		section   int
		figure    string
		low, high float64
	}{
		{0, "keys", 20_000, 20_000},
		{0, "BGSAVE", 1e5, 60e9},
		{0, "bytes per key in the file", 20, 100},
		{0, "p99.9 of the probe, during BGSAVE", 1000, 60e9},
		{1, "ready after", 1e6, 60e9},
		{1, "keys loaded", 300, 1e8},
		{1, "RSS then", 1 << 20, 1 << 30},
		{2, "requests without a journal", 1000, 1e8},
		{2, "requests with a journal", 1000, 1e8},
		{2, "with, of what it is without", 1, 10_000},
		{2, "the journal at the end", 0, 1 << 30},
	}
	for _, c := range d.servers {
		for _, w := range want {
			for i, m := range result.sections[w.section].rounds {
				f := slices.IndexFunc(m.figures, func(f figure) bool { return f.name == c.name+": "+w.figure })
				if f < 0 {
					t.Errorf("%s: no figure %q", c.name, w.figure)
				} else if v := m.figures[f].value; v < w.low || v > w.high {
					t.Errorf("%s, round %d: %s is %v", c.name, i+1, w.figure, v)
				}
			}
		}
	}
	for _, s := range result.sections {
		if len(s.rounds) != p.rounds {
			t.Errorf("%s: %d rounds", s.title, len(s.rounds))
		}
	}
	text := result.text() + result.markdown()
	for _, want := range []string{"round 2", "cellserver: during BGSAVE", "p99.99", "kernel", "fsync"} {
		if !strings.Contains(text, want) {
			t.Errorf("the result does not mention %q:\n%s", want, text)
		}
	}
}

func TestLoadMakesItsOwnSnapshot(t *testing.T) {
	p := tinyDiskPlan(t)
	p.only, p.rounds = []string{"load"}, 1
	d := testDiskLab(t, p.dir)
	d.servers = d.servers[:1]
	result, err := diskReport(t.Context(), d, p)
	if err != nil || len(result.sections) != 1 {
		t.Errorf("%+v, %v", result, err)
	}
	if len(d.started) != 2 {
		t.Errorf("%d servers were started", len(d.started))
	}
}

func TestDiskThatIsInterruptedLeavesNothing(t *testing.T) {
	p := tinyDiskPlan(t)
	p.keys = 1 << 40
	d := testDiskLab(t, p.dir)
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	if _, err := diskReport(ctx, d, p); err == nil || ctx.Err() == nil {
		t.Errorf("interrupted, it returned %v", err)
	}
}

func TestSnapshotThatFailsIsAnError(t *testing.T) {
	p := tinyDiskPlan(t)
	d := testDiskLab(t, p.dir)
	c := d.servers[0]
	s, end, err := d.openFull(t.Context(), c, p.keys)
	if err != nil {
		t.Fatal(err)
	}
	defer end(&err)
	if err := os.Mkdir(c.snapshot()+".tmp", 0o700); err != nil {
		t.Fatal(err)
	}
	if _, _, err := d.bgSave(t.Context(), c, s, p); err == nil || !strings.Contains(err.Error(), "could not save") {
		t.Errorf("the error is %v", err)
	}
}

func TestWrongDiskCommandLinesAreRefused(t *testing.T) {
	for _, c := range []struct {
		args           string
		status         int
		stdout, stderr string
	}{
		{"--help", 0, "  disk ", ""},
		{"disk --help", 0, "-only", ""},
		{"disk --kyes 5", 2, "", "-kyes"},
		{"disk --rounds 0", 2, "", "begin at 1"},
		{"disk --only save,lod", 2, "", `no part is called "lod"`},
		{"disk save", 2, "", `"save" is not a flag`},
		{"disk --server /nowhere/cellserver", 2, "", "no such file"},
		{"disk --dir /nowhere", 2, "", "no such file"},
	} {
		var stdout, stderr bytes.Buffer
		status := run(strings.Fields(c.args), &stdout, &stderr)
		if status != c.status || !strings.Contains(stdout.String(), c.stdout) || !strings.Contains(stderr.String(), c.stderr) ||
			(c.status == 0) != (stderr.Len() == 0) {
			t.Errorf("bench %s: status %d\n%s\n%s", c.args, status, &stdout, &stderr)
		}
	}
	p, out, _, err := parseDisk(strings.Fields("--quick --keys 7 --only load,save --out x.md"), io.Discard)
	if err != nil || p.keys != 7 || p.rounds != 1 || out != "x.md" || !slices.Equal(p.only, []string{"load", "save"}) {
		t.Errorf("%+v, %q, %v", p, out, err)
	}
	if p, _, _, err = parseDisk(strings.Fields("--quick --rounds 3"), io.Discard); err != nil || p.keys != 1_000_000 || p.rounds != 3 {
		t.Errorf("%+v, %v", p, err)
	}
}

func TestParseBenchmarkRefusesOtherOutput(t *testing.T) {
	head := `"test","rps","avg_latency_ms","min_latency_ms"` + "\n"
	if rate, err := parseBenchmark(head + `"SET key:__rand_int__ 1","483091.78","1.515","0.392"` + "\n"); err != nil || rate != 483091.78 {
		t.Errorf("%v, %v", rate, err)
	}
	for _, bad := range []string{"", head, head + `"SET","fast","1","1"` + "\n", "WARNING\n1\n"} {
		if rate, err := parseBenchmark(bad); err == nil {
			t.Errorf("%q is %v", bad, rate)
		}
	}
}
