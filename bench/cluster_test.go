package main

import (
	"bytes"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"
)

func tinyClusterPlan(t *testing.T) (clusterPlan, []engineProgram) {
	t.Helper()
	needs(t, "redis-benchmark")
	p := fullClusterPlan().quick(true)
	p.rounds, p.keys, p.length, p.exact, p.held, p.crowd = 2, 1000, 50*time.Millisecond, 200, 1000, 40
	p.logs, p.releases, p.folder = []int64{10, 50}, []string{"9.1"}, defaultValkey()
	programs, err := p.programs()
	if err != nil {
		if os.Getenv("CELLSERVER_TEST_STRICT") == "1" {
			t.Fatal(err)
		}
		t.Skip(err)
	}
	return p, programs
}

func TestClusterMeasuresEverything(t *testing.T) {
	p, programs := tinyClusterPlan(t)
	c, remove, err := newClusterLab(testLab(t), p)
	if err != nil {
		t.Fatal(err)
	}
	defer remove()
	if err := c.measure(t.Context(), programs); err != nil {
		t.Fatal(err)
	}
	// Loose bounds: they tell a wrong unit or a missing reading, not a slow machine.
	for _, w := range []struct {
		title, row string
		low, high  []float64
	}{
		{"Straight, and by cellserver", "Valkey 9.1, P=1, straight", []float64{100, 0.1}, []float64{1e7, 1e4}},
		{"Straight, and by cellserver", "Valkey 9.1, P=16, CL.THROTTLE", []float64{100, 0.1, 0.1, 0.5, 1}, []float64{1e7, 1e4, 1e4, 2, 512}},
		{"One hot key", "Valkey 9.1", []float64{100, 0, 1, 0.01, 0.1}, []float64{1e7, 2, 1024, 1e4, 1e4}},
		{"Refusals", "Valkey 9.1, P=1", []float64{100, 0.1, 0, 10}, []float64{1e7, 1e4, 1e4, 101}},
		{"A crowd on one key", "Valkey 9.1", []float64{100, 1e4, 1e4, 1e4, 0, 0}, []float64{1e7, 1e9, 1e9, 1e10, 2, 0}},
		{"Memory in the engine", "Valkey 9.1, CL.THROTTLE", []float64{30, 9}, []float64{300, 9}},
		{"Sliding logs", "Valkey 9.1, 50 records", []float64{100, 100, 100, 0.1, 0.1}, []float64{1e7, 1000, 2000, 1e4, 1e4}},
	} {
		for _, g := range c.grids {
			for _, r := range g.rows {
				if g.title != w.title || r.name != w.row {
					continue
				}
				for i, low := range w.low {
					if v := r.cells[i].median(); !(v >= low && v <= w.high[i]) {
						t.Errorf("%s, %s: %s is %v", w.title, w.row, g.head[i+1], v)
					}
				}
				w.title = ""
			}
		}
		if w.title != "" {
			t.Errorf("%s: %s is missing", w.title, w.row)
		}
	}
	for _, g := range c.goals {
		if row := g.row(); g.exactly && row[len(row)-1] != "met" {
			t.Errorf("%v", row)
		}
	}
	result := c.page("go run . cluster")
	for _, text := range []string{result.text(), result.markdown(nil)} {
		for _, want := range []string{"Valkey server v=9.1", "CL.ZSLIDE admits of a limit of 20", "spread of decisions"} {
			if !strings.Contains(text, want) {
				t.Errorf("the result does not mention %q:\n%s", want, text)
			}
		}
		if strings.Contains(text, "NaN") {
			t.Errorf("a value is missing:\n%s", text)
		}
	}
}

func TestGoalsAreMetOrNot(t *testing.T) {
	for _, c := range []struct {
		goal
		want string
	}{
		{goal{value: series{1, 3, 2}, unit: times, limit: 2}, "met"},
		{goal{value: series{1, 3, 2}, unit: times, limit: 2.1}, "missed"},
		{goal{value: series{1, 3, 2}, unit: times, limit: 2, atMost: true}, "met"},
		{goal{value: series{1, 3, 2}, unit: times, limit: 1.9, atMost: true}, "missed"},
		{goal{value: series{1, 3, 2}, unit: times}, ""},
		{goal{value: series{0, 0}, unit: grouped, exactly: true}, "met"},
		{goal{value: series{5, 5}, unit: grouped, limit: 5, exactly: true}, "met"},
		{goal{value: series{5, 5, 6}, unit: grouped, limit: 5, exactly: true}, "missed"},
	} {
		if row := c.row(); row[5] != c.want {
			t.Errorf("%v", row)
		}
	}
}

func TestClusterCommandLines(t *testing.T) {
	if _, err := exec.LookPath("taskset"); err != nil {
		t.Skip(err)
	}
	for _, c := range []struct {
		args   string
		status int
		stderr string
	}{
		{"cluster --help", 0, ""},
		{"cluster --only hot,cold", 2, `no part is called "cold"`},
		{"cluster --rounds 0", 2, "begins at 1"},
		{"cluster --releases 0.1", 1, "there is no Valkey 0.1"},
	} {
		var stdout, stderr bytes.Buffer
		if status := run(strings.Fields(c.args), &stdout, &stderr); status != c.status || !strings.Contains(stderr.String(), c.stderr) {
			t.Errorf("bench %s: status %d\n%s", c.args, status, &stderr)
		}
	}
	p, out, _, err := parseCluster(strings.Fields("--quick --rounds 7 --releases 8.1 --only hot --out x.md"), io.Discard)
	if err != nil || p.rounds != 7 || p.exact != 2000 || out != "x.md" || len(p.releases) != 1 || len(p.only) != 1 {
		t.Errorf("%+v, %q, %v", p, out, err)
	}
}
