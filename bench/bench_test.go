package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// server is the path of a built cellserver: that of the variable CELLSERVER_BENCH_SERVER, or one built for these tests.
var server string

func TestMain(m *testing.M) {
	os.Exit(func() int {
		if server = os.Getenv("CELLSERVER_BENCH_SERVER"); server != "" {
			return m.Run()
		}
		dir, err := os.MkdirTemp("", "cellserver-bench-test-")
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		defer os.RemoveAll(dir)
		server = filepath.Join(dir, "cellserver")
		build := exec.Command("go", "build", "-o", server, "./cmd/cellserver")
		build.Dir = ".."
		if out, err := build.CombinedOutput(); err != nil {
			fmt.Fprintf(os.Stderr, "the server does not build: %v\n%s", err, out)
			return 1
		}
		return m.Run()
	}())
}

func tinyPlan() plan {
	p := fullPlan()
	p.keys, p.flood, p.logs, p.logBurst = 20_000, 200_000, 100, 1000
	p.idle, p.quiet, p.busy = 100*time.Millisecond, 300*time.Millisecond, 300*time.Millisecond
	p.expireIn, p.expireAfter, p.patience = time.Second, 500*time.Millisecond, time.Minute
	p.floodMemory = "4mb"
	return p
}

func testLab(t *testing.T) *lab {
	t.Helper()
	l, closeLab, err := newLab(t.Context(), server, newProgress(io.Discard))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		closeLab()
		for _, pid := range l.started {
			if err := syscall.Kill(pid, 0); err != syscall.ESRCH {
				t.Errorf("the server of process id %d is still there: %v", pid, err)
			}
		}
	})
	return l
}

func TestMemoryMeasuresEverything(t *testing.T) {
	l := testLab(t)
	p := tinyPlan()
	p.rounds = 2
	result, err := memoryReport(t.Context(), l, p)
	if err != nil {
		t.Fatal(err)
	}
	// Loose bounds: they tell a wrong unit or a missing reading, not a slow machine.
	want := []struct {
		section, figure string
		low, high       float64
	}{
		{"Memory per key", "keys", 20_000, 20_000},
		{"Memory per key", "fill", 1000, 1e8},
		{"Memory per key", "used_memory_dataset per key", 8, 500},
		{"Memory per key", "RSS per key above the empty server, right after", 8, 1000},
		{"Garbage", "commands on random keys", 1000, 1e8},
		{"Garbage", "server's processor time per command", 0.01, 1000},
		{"Garbage", "collections during the fill", 1, 1000},
		{"Garbage", "their share of the processor time, during the fill", 0, 100},
		{"Keys that expire", "keys", 20_000, 20_000},
		{"Keys that expire", "all gone after", 0.001, 60},
		{"Keys that expire", "RSS when all are gone", 1 << 20, 1 << 30},
		{"A flood", "keys of the flood", 200_000, 200_000},
		{"A flood", "highest RSS, as the kernel remembers", 4 << 20, 200 << 20},
		{"A flood", "highest used_memory_dataset", 1 << 20, 5 << 20},
		{"A flood", "evicted_keys", 1, 200_000},
		{"A flood", "keys left", 1, 200_000},
		{"Logs", "used_memory_dataset per admission, period 60 s", 1, 100},
		{"Logs", "used_memory_dataset per admission, period 86400 s", 1, 100},
	}
	for _, w := range want {
		s := slices.IndexFunc(result.sections, func(s section) bool { return strings.HasPrefix(s.title, w.section) })
		if s < 0 {
			t.Fatalf("there is no section %q", w.section)
		}
		for i, m := range result.sections[s].rounds {
			f := slices.IndexFunc(m.figures, func(f figure) bool { return f.name == w.figure })
			if f < 0 {
				t.Errorf("%s: no figure %q", w.section, w.figure)
			} else if v := m.figures[f].value; v < w.low || v > w.high {
				t.Errorf("%s, round %d: %s is %v", w.section, i+1, w.figure, v)
			}
		}
	}
	for _, s := range result.sections {
		if len(s.rounds) != p.rounds {
			t.Errorf("%s: %d rounds", s.title, len(s.rounds))
		}
		for _, m := range s.rounds {
			for _, probe := range m.probes {
				if probe.seen.n == 0 || probe.seen.max <= 0 || probe.seen.max > time.Minute {
					t.Errorf("%s: %s: %d probes, longest %s", s.title, probe.name, probe.seen.n, probe.seen.max)
				}
			}
		}
	}

	path := filepath.Join(t.TempDir(), "results", "memory.md")
	if err := result.save(path); err != nil {
		t.Fatal(err)
	}
	kept, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{string(kept), result.text()} {
		for _, want := range []string{"round 2", "used_memory_dataset per key", "p99.99", "kernel"} {
			if !strings.Contains(text, want) {
				t.Errorf("the result does not mention %q:\n%s", want, text)
			}
		}
	}
}

func TestMemoryThatIsInterruptedLeavesNoServer(t *testing.T) {
	l := testLab(t)
	p := tinyPlan()
	p.keys = 1 << 40
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	if _, err := memoryReport(ctx, l, p); err == nil || ctx.Err() == nil {
		t.Errorf("interrupted, it returned %v", err)
	}
	if len(l.started) != 1 {
		t.Errorf("%d servers were started", len(l.started))
	}
}

func TestServerThatDiesIsNamedInTheError(t *testing.T) {
	l := testLab(t)
	s, end, err := l.openCellserver(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	time.AfterFunc(100*time.Millisecond, func() { _ = syscall.Kill(s.pid, syscall.SIGKILL) })
	_, err = l.runLoad(t.Context(), s, "filling", keyLoad(1<<40, longLived...))
	end(&err)
	if err == nil || !strings.Contains(err.Error(), "the server has ended: signal: killed") {
		t.Errorf("the error is %v", err)
	}
}

func TestServerThatDoesNotStartSaysWhy(t *testing.T) {
	l := testLab(t)
	_, _, err := l.openCellserver(t.Context(), "--maxmemory", "much")
	if err == nil || !strings.Contains(err.Error(), "maxmemory") {
		t.Errorf("the error is %v", err)
	}
}

func TestWrongCommandLinesAreExplained(t *testing.T) {
	for _, c := range []struct {
		args           string
		status         int
		stdout, stderr string
	}{
		{"", 2, "", "which subcommand?"},
		{"--help", 0, "  memory ", ""},
		{"cpu", 2, "", `no subcommand is called "cpu"`},
		{"memory --help", 0, "-keys", ""},
		{"memory --kyes 5", 2, "", "-kyes"},
		{"memory --keys 0", 2, "", "begin at 1"},
		{"memory --keys many", 2, "", "-keys"},
		{"memory --only fill,swep", 2, "", `no part is called "swep"`},
		{"memory fill", 2, "", `"fill" is not a flag`},
		{"memory --server /nowhere/cellserver", 2, "", "no such file"},
	} {
		var stdout, stderr bytes.Buffer
		status := run(strings.Fields(c.args), &stdout, &stderr)
		if status != c.status || !strings.Contains(stdout.String(), c.stdout) || !strings.Contains(stderr.String(), c.stderr) ||
			(c.status == 0) != (stderr.Len() == 0) {
			t.Errorf("bench %s: status %d\n%s\n%s", c.args, status, &stdout, &stderr)
		}
	}
}

func TestQuickLeavesWhatIsGiven(t *testing.T) {
	p, out, _, err := parseMemory(strings.Fields("--quick --keys 7 --only gc,fill --out x.md"), io.Discard)
	if err != nil || p.keys != 7 || p.flood != 5_000_000 || out != "x.md" || !slices.Equal(p.only, []string{"gc", "fill"}) {
		t.Errorf("%+v, %q, %v", p, out, err)
	}
}
