package main

import (
	"context"
	"encoding/xml"
	"errors"
	"io"
	"math"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestParseThroughputReadsEveryFormOfRedisBenchmark(t *testing.T) {
	const head = `"test","rps","avg_latency_ms","min_latency_ms","p50_latency_ms","p95_latency_ms","p99_latency_ms","max_latency_ms"` + "\n"
	for _, c := range []struct {
		output string
		rate   float64
	}{
		{head + `"SET k:__rand_int__ xxx","689655.19","0.993","0.304","0.959","1.687","1.943","2.591"` + "\n", 689655.19},
		{head + `"EVALSHA a "b", c","1500.50","0.993","0.304","0.959","1.687","1.943","2.591"` + "\n", 1500.5},
		{head + `"PING","90.00","0.1","0.1","0.1","0.1","0.1","0.1"` + "\r\n" + `"PING","95.00","0.1","0.1","0.1","0.1","0.1","0.1"`, 95},
		{" \rSET x: rps=0.0 (overall: 0.0) avg_msec=-nan (overall: -nan)\r      \rSET x: rps=900000.0 (overall: 800000.0) " +
			"avg_msec=1.0 (overall: 1.0)\r     \rSET x: 317460.31 requests per second, p50=1.815 msec\n", 317460.31},
		{"====== PING ======\n  20000 requests completed in 0.20 seconds\n\nSummary:\n  throughput summary: 98039.22 requests per second\n" +
			"  latency summary (msec):\n          avg       min\n        0.2  0.1\n", 98039.22},
	} {
		if rate, err := parseThroughput(c.output); err != nil || rate != c.rate {
			t.Errorf("%q: %v, %v", c.output, rate, err)
		}
	}
	for _, output := range []string{"", head, head + `"PING","nan","0"`, `"PING","90.00","0.1"`, "SET x: rps=90.0 (overall: 90.0)\r",
		head + `"PING","0.00","0.1","0.1","0.1","0.1","0.1","0.1"`} {
		if rate, err := parseThroughput(output); err == nil {
			t.Errorf("%q: %v", output, rate)
		}
	}
}

func TestSeriesSummariesLeaveTheValuesAlone(t *testing.T) {
	for _, c := range []struct {
		values         series
		median, spread float64
	}{
		{series{5}, 5, 0},
		{series{3, 1, 2}, 2, 100},
		{series{4, 1, 3, 2}, 2.5, 120},
	} {
		before := slices.Clone(c.values)
		if m, s := c.values.median(), c.values.spread(); m != c.median || s != c.spread {
			t.Errorf("%v: median %v, spread %v", c.values, m, s)
		}
		if !slices.Equal(before, c.values) {
			t.Errorf("%v became %v", before, c.values)
		}
	}
	if m := (series{}).median(); !math.IsNaN(m) {
		t.Errorf("the median of nothing is %v", m)
	}
	if r := (series{10, 30, 9}).over(series{5, 10}); !slices.Equal(r, series{2, 3}) {
		t.Errorf("%v", r)
	}
}

func TestRatiosAreJudgedAgainstTheirGoals(t *testing.T) {
	c := newComparison(fullComparePlan(), alwaysAsked, nil)
	for _, rate := range []float64{900, 2000, 850} {
		c.addSpeed(askThrottle, 16, speed{rate: rate, cpu: 1, server: 60})
		c.addSpeed(askGCRA, 16, speed{rate: 100, cpu: 10, server: 99})
		c.addSpeed(askPing, 16, speed{rate: 2000, cpu: 0.5, server: 50})
		c.addSpeed(askNoise, 16, speed{rate: rate * 1.1})
	}
	rows := map[string]ratio{}
	for _, r := range c.ratios() {
		if _, twice := rows[r.what]; twice {
			t.Errorf("there are two rows %q", r.what)
		}
		rows[r.what] = r
	}
	for _, want := range []struct{ what, goal, median, verdict, busy string }{
		{"cellserver CL.THROTTLE over Redis GCRA in Lua, P=16: throughput", "≥ 9.00×", "9.00×", "met", "60 % / 99 %"},
		{"cellserver CL.THROTTLE over Redis GCRA in Lua, P=128: throughput", "≥ 20.0×", "", "not measured", ""},
		{"cellserver CL.THROTTLE over cellserver PING, P=16: processor time per command", "≤ 1.50×", "2.00×", "missed", ""},
		{"noise CL.THROTTLE over cellserver CL.THROTTLE, P=16: throughput", "", "1.10×", "", "0 % / 60 %"},
	} {
		r, ok := rows[want.what]
		if !ok || r.goal() != want.goal || times(r.value.median()) != want.median || r.verdict() != want.verdict || r.busy != want.busy {
			t.Errorf("%s: %v, %q, %q, %q, %q", want.what, ok, r.goal(), times(r.value.median()), r.verdict(), r.busy)
		}
	}
	goals := 0
	for _, r := range rows {
		if r.limit > 0 {
			goals++
		}
	}
	if goals != 22 {
		t.Errorf("%d goals", goals)
	}
}

func TestShortChapterEndsTheReport(t *testing.T) {
	c := newComparison(fullComparePlan(), alwaysAsked, []fact{{"processor", "a fast one"}, {"Redis", "Redis server v=7.0.15 sha=0"}})
	c.command = "go run . compare"
	for round, rate := range []float64{1000, 3000, 2000} {
		c.addSpeed(askThrottle, 16, speed{rate: rate, cpu: 0.5})
		c.addSpeed(askGCRA, 16, speed{rate: 500 * float64(round+1), cpu: 1})
		c.addSpeed(askSet, 16, speed{rate: 1500, cpu: 0.25})
	}
	c.addSpeed(askThrottle, 1, speed{rate: 1, cpu: 1}) // without the others it is not shown
	page := c.page().markdown(nil)
	for _, want := range []string{"## In short\n", "`go run . compare`", "a fast one", "server v=7.0.15.\n",
		"| 16 | 2,000/s, 0.50 µs | 1,000/s, 1.00 µs | 2.00×, 0.50× | 1,500/s, 0.25 µs | 1.33×, 2.00× |\n"} {
		if !strings.Contains(page, want) {
			t.Errorf("it does not say %q:\n%s", want, page)
		}
	}
	if !strings.HasSuffix(page, "1.33×, 2.00× |\n") {
		t.Errorf("it is not at the end:\n%s", page)
	}
	text := c.text()
	if ratios, short := strings.Index(text, "RATIOS"), strings.Index(text, "IN SHORT"); ratios < 0 || short < ratios {
		t.Errorf("ratios are at %d and in short at %d", ratios, short)
	}
}

func TestRotatedBeginsElsewhere(t *testing.T) {
	all := []int{0, 1, 2, 3, 4, 5, 6}
	var first []int
	for round := range 3 {
		r := rotated(all, round, 3)
		first = append(first, r[0])
		if sorted := slices.Sorted(slices.Values(r)); !slices.Equal(sorted, all) {
			t.Errorf("round %d: %v", round, r)
		}
	}
	if !slices.Equal(first, []int{0, 2, 4}) {
		t.Errorf("rounds begin with %v", first)
	}
}

func TestRandomCommandHasTheNumberInEveryPlace(t *testing.T) {
	got := newRandomCommand(askAll.args).appendTo([]byte("x"), 1234567890123)
	want := appendCommand([]byte("x"), strings.Fields(
		"CL.ALL THROTTLE a:234567890123 1000000 1 60 1 WINDOW b:234567890123 1000000 3600 1")...)
	if string(got) != string(want) {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestReplyLengthOfAnIncompleteReplyIsZero(t *testing.T) {
	for _, wire := range []string{"+OK\r\n", ":-17\r\n", "$5\r\na\r\nbc\r\n", "$0\r\n\r\n", "$-1\r\n", "*-1\r\n", "*0\r\n",
		"*5\r\n:0\r\n:16\r\n:15\r\n:-1\r\n:2\r\n", "*2\r\n:0\r\n*2\r\n$1\r\na\r\n:8\r\n"} {
		if n, err := replyLength([]byte(wire + "+OK\r\n")); n != len(wire) || err != nil {
			t.Errorf("%q: %d, %v", wire, n, err)
		}
		for end := range wire {
			if n, err := replyLength([]byte(wire[:end])); n != 0 || err != nil {
				t.Errorf("%q: %d, %v", wire[:end], n, err)
			}
		}
	}
	for _, wire := range []string{"-ERR no\r\n", "?\r\n", "\r\n", "$x\r\n", "*1\r\n-ERR no\r\n"} {
		if n, err := replyLength([]byte(wire)); err == nil {
			t.Errorf("%q: %d", wire, n)
		}
	}
}

func TestParsePeerRefusesHalfAPeer(t *testing.T) {
	p, err := parsePeer("cell=127.0.0.1:7001,CL.THROTTLE x:__rand_int__ 1 2 3,gcra,set")
	if err != nil || p.name != "cell" || p.addr != "127.0.0.1:7001" || len(p.asks) != 3 {
		t.Fatalf("%+v, %v", p, err)
	}
	if a := p.asks[0]; a.server != "cell" || a.name != "CL.THROTTLE x:__rand_int__ 1 2 3" || len(a.args) != 5 || a.script != "" {
		t.Errorf("%+v", a)
	}
	if a := p.asks[1]; a.id() != "cell GCRA in Lua" || a.script != luaGCRA || a.args[0] != "EVALSHA" {
		t.Errorf("%+v", a)
	}
	for _, text := range []string{"", "cell", "cell=127.0.0.1:1", "=127.0.0.1:1,set", "cell=nowhere,set", "cell=127.0.0.1:1,", "Redis=127.0.0.1:1,set",
		"cell=127.0.0.1:1,set,set"} {
		if p, err := parsePeer(text); err == nil {
			t.Errorf("%q: %+v", text, p)
		}
	}
}

func TestWrongCompareCommandLinesAreRefused(t *testing.T) {
	p, out, _, err := parseCompare(strings.Fields("--quick --rounds 3 --only tls,memory --out x.md --peer v=127.0.0.1:1,set --peer w=127.0.0.1:2,set"), io.Discard)
	if err != nil || p.rounds != 3 || p.saved != 1_000_000 || out != "x.md" || !slices.Equal(p.only, []string{"tls", "memory"}) || len(p.peers) != 2 {
		t.Errorf("%+v, %q, %v", p, out, err)
	}
	for _, args := range []string{"--rounds 0", "--only speed", "--peer v", "--peer v=127.0.0.1:1,set --peer v=127.0.0.1:2,set", "--server /nowhere/x", "x"} {
		var usage usageError
		if _, _, _, err := parseCompare(strings.Fields(args), io.Discard); !errors.As(err, &usage) {
			t.Errorf("%s: %v", args, err)
		}
	}
}

// needs ends the test if a program is missing: scripts/test-deps says whether that is a failure.
func needs(t *testing.T, programs ...string) {
	t.Helper()
	for _, name := range programs {
		_, err := exec.LookPath(name)
		switch {
		case err == nil:
		case os.Getenv("CELLSERVER_TEST_STRICT") == "1":
			t.Fatal(err)
		default:
			t.Skip(err)
		}
	}
}

// testComparer needs redis-server and redis-benchmark.
func testComparer(t *testing.T, p comparePlan) *comparer {
	t.Helper()
	needs(t, "redis-server", "redis-benchmark")
	l := testLab(t) // it looks for processes that are left, after what follows has ended
	c, remove, err := newComparer(l, p)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		remove()
		if _, err := os.Stat(c.dir); err == nil {
			t.Errorf("%s is still there", c.dir)
		}
	})
	return c
}

func tinyComparePlan() comparePlan {
	p := fullComparePlan().quick(false)
	p.rounds, p.keys, p.requests, p.paced = 1, 1000, 2000, 100*time.Millisecond
	p.saved, p.held, p.sizes, p.tls = 20_000, 20_000, []int64{1000, 20_000}, 300*time.Millisecond
	return p
}

func TestCompareMeasuresEverything(t *testing.T) {
	p := tinyComparePlan()
	c := testComparer(t, p)

	// A server that was there before stands for a peer.
	before, err := c.lab.start(t.Context(), func(port string) *exec.Cmd { return redisCommand(c.redis, port, c.dir) })
	if err != nil {
		t.Fatal(err)
	}
	defer before.stop()
	one, err := parsePeer("Peer=" + before.addr + ",zset,INCR n:__rand_int__")
	if err != nil {
		t.Fatal(err)
	}
	c.plan.peers = []peer{one}
	c.asks = append(c.asks, one.asks...)
	c.found = newComparison(c.plan, c.asks, describe(c.lab))
	kept, err := dial(before.addr)
	if err != nil {
		t.Fatal(err)
	}
	defer kept.close()
	if _, err := kept.do("SET", "mine", "kept"); err != nil {
		t.Fatal(err)
	}

	if err := c.measure(t.Context()); err != nil {
		t.Fatal(err)
	}
	if reply, err := kept.do("GET", "mine"); err != nil || !slices.Equal(reply, []string{"kept"}) {
		t.Errorf("the peer's own key: %v, %v", reply, err)
	}

	f := c.found
	within := func(what string, s series, low, high float64) {
		if len(s) != p.rounds || !(s.median() >= low && s.median() <= high) {
			t.Errorf("%s: %v", what, s)
		}
	}
	// Loose bounds: they tell a wrong unit or a missing reading, not a slow machine.
	for _, a := range c.asks {
		for _, depth := range p.depths {
			s := at(f.speeds, speedKey{a.id(), depth})
			within(a.id()+" rate", s.rate, 100, 1e8)
			within(a.id()+" cpu", s.cpu, 0.01, 1e4)
			within(a.id()+" rss", s.rss, 1<<20, 1<<32)
		}
	}
	for _, a := range latencyAsked {
		for _, load := range p.loads {
			s := at(f.paced, pacedKey{a.id(), load})
			within(a.id()+" p50", s.p50, 100, 1e11)
			within(a.id()+" p99.9", s.p999, s.p50.median(), 1e11)
			within(a.id()+" busy", s.busy, 0.01, 200)
		}
	}
	for _, one := range savers {
		s := at(f.saves, one.server)
		within("BGSAVE", s.took, 1e4, 1e11)
		within("idle", s.idle.p999, 100, 1e11)
		within("during BGSAVE", s.during.p999, 100, 1e11)
		for _, keys := range p.sizes {
			if m := f.memory[memoryKey{one.server, keys}]; m.rss < 1<<20 || m.rss > 1<<30 {
				t.Errorf("memory of %s: %+v", one.server, m)
			}
		}
	}
	for _, one := range savers {
		for _, what := range chores {
			s := at(f.works, workKey{one.server, what.name})
			within(what.name+" p99.9", s.p999, s.p50.median(), 1e11)
			if what.counts != "" {
				within(what.name, s.rate, 0.1, 1e8)
			}
		}
	}
	if why := c.withoutTLS(); why == "" {
		for _, a := range tlsAsked {
			for _, kind := range []string{kindTLS, kindPlain} {
				within(kind, at(f.tls, tlsKey{a.id(), kind}).rate, 10, 1e8)
				within(kind+" begins", at(f.tls, tlsKey{a.id(), kind}).begin, 1e5, 1e10)
			}
		}
	} else if len(f.notes) == 0 {
		t.Errorf("nobody says that %s", why)
	}

	f.others = append(f.others, 1) // runs are too short here, or nothing is pinned

	path := filepath.Join(t.TempDir(), "results", "compare.md")
	if err := f.save(path); err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	goals, unmeasured := 22, false
	if text, err := readScript(); err != nil {
		t.Fatal(err)
	} else if text == "" { // the package with the script is not installed
		goals, unmeasured = 20, true
	}
	for _, text := range []string{string(page), f.text()} {
		for _, want := range []string{"kernel", "others on the servers' core", "cellserver CL.THROTTLE over Redis GCRA in Lua, P=128: throughput", "≥ 20.0×", "Redis sorted set in Lua",
			"noise CL.THROTTLE", "Peer INCR n:__rand_int__", "cellserver during BGSAVE over idle", "cellserver, during BGSAVE", "Redis, KEYS *", " new keys/s", "P=", "Redis INCRBY and EXPIRE", "RSS per counter"} {
			if !strings.Contains(text, want) {
				t.Errorf("the result does not mention %q:\n%s", want, text)
			}
		}
		if strings.Contains(text, "not measured") && !unmeasured && len(f.notes) == 0 || strings.Contains(text, "NaN") {
			t.Errorf("something was not measured:\n%s", text)
		}
		if strings.Count(text, " met")+strings.Count(text, " missed") != goals && len(f.notes) == 0 {
			t.Errorf("not all goals have a verdict:\n%s", text)
		}
	}
	for _, name := range []string{"throughput", "latency", "memory"} {
		name = "compare-" + name + ".svg"
		if !strings.Contains(string(page), "("+name+")") {
			t.Errorf("the page does not show %s", name)
		}
		checkSVG(t, filepath.Join(filepath.Dir(path), name))
	}
}

// checkSVG checks that a file is XML, an SVG, and shows something.
func checkSVG(t *testing.T, path string) {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Error(err)
		return
	}
	defer f.Close()
	elements := map[string]int{}
	for d := xml.NewDecoder(f); ; {
		token, err := d.Token()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Errorf("%s: %v", path, err)
			return
		}
		if start, ok := token.(xml.StartElement); ok {
			elements[start.Name.Local]++
		}
	}
	if elements["svg"] != 1 || elements["path"] < 10 || elements["text"] < 10 {
		t.Errorf("%s has %v", path, elements)
	}
}

func TestOpenLoopCountsFromWhenItWasDue(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	const stall = 100 * time.Millisecond
	go func() {
		for {
			c, err := listener.Accept()
			if err != nil {
				return
			}
			go func() { // answers what it gets, after it has stood still for once
				defer c.Close()
				b := make([]byte, 64<<10)
				for once := true; ; once = false {
					n, err := c.Read(b)
					if err != nil {
						return
					}
					if once {
						time.Sleep(stall)
					}
					for range strings.Count(string(b[:n]), "PING") {
						if _, err := c.Write([]byte("+PONG\r\n")); err != nil {
							return
						}
					}
				}
			}()
		}
	}()
	warmed := make(chan struct{})
	o := openLoop{addr: listener.Addr().String(), conns: 2, rate: 1000, length: 200 * time.Millisecond, command: pings, warmed: warmed}
	r, err := o.run(t.Context())
	if err != nil || r.seen.n != 200 || r.owed != 0 {
		t.Fatalf("%d were answered and %d owed: %v", r.seen.n, r.owed, err)
	}
	// Of the 200 milliseconds, 100 were waited for: what was due in them waits for 50 on average.
	if p25, longest := r.seen.quantile(0.75), r.seen.max; p25 < stall/3 || longest < stall*9/10 {
		t.Errorf("a quarter took %v, the longest %v", p25, longest)
	}
	select {
	case <-warmed:
	default:
		t.Error("it does not say that it records")
	}
}

func TestCompareThatIsInterruptedLeavesNothing(t *testing.T) {
	p := tinyComparePlan()
	p.requests, p.only = 1<<30, []string{"throughput"}
	c := testComparer(t, p)
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	if err := c.measure(ctx); err == nil || ctx.Err() == nil {
		t.Errorf("interrupted, it returned %v", err)
	}
	if len(c.started) < 4 {
		t.Errorf("%d processes were started", len(c.started))
	}
}

func TestErrorsOfTheServerEndARun(t *testing.T) {
	c := testComparer(t, tinyComparePlan())
	all, err := c.start(t.Context(), false, nil, nameCellserver)
	if err != nil {
		t.Fatal(err)
	}
	defer all.close(&err)
	r := all[nameCellserver]
	_, err = c.run(t.Context(), r, &ask{server: nameCellserver, name: "nonsense", args: []string{"NONSENSE"}}, 1)
	if err == nil || !strings.Contains(err.Error(), "unknown command") {
		t.Errorf("the error is %v", err)
	}
	run := clientRun{conns: 1, depth: 1, requests: 1, keys: 1, limit: 300 * time.Millisecond}
	nowhere := &rival{addr: "127.0.0.1:1", control: r.control, s: r.s}
	if _, err := c.benchmarkWith(t.Context(), c.client, nowhere, []string{"PING"}, run); err == nil || !strings.Contains(err.Error(), "took more than") {
		t.Errorf("the error is %v", err)
	}
	err = nil
}
