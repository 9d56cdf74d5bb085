package main

import (
	"bufio"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestParseStatReadsBehindAnyProgramName(t *testing.T) {
	line := "77 (a) b (c)) S 1 77 77 0 -1 4194304 900 0 0 0 123 45 0 0 20 0 9 0 1000 1 2 3"
	if d, err := parseStat(line); err != nil || d != 1680*time.Millisecond {
		t.Errorf("%v, %v", d, err)
	}
	if _, err := parseStat("77 (a"); err == nil {
		t.Error("half a line was read")
	}
}

func TestParseCoreReadsTheLineOfOneCore(t *testing.T) {
	stat := "cpu  9 9 9 9 9 9 9 9 0 0\ncpu1 1 2 3 1000 2000 4 5 6 100 100\ncpu10 7 7 7 7 7 7 7 7 7 7\nintr 1\n"
	if d, err := parseCore(stat, 1); err != nil || d != 210*time.Millisecond {
		t.Errorf("%v, %v", d, err)
	}
	for _, stat := range []string{"", "cpu1 1 2 3\n", "cpu1 1 2 3 4 5 6 7 x 0 0\n"} {
		if d, err := parseCore(stat, 1); err == nil {
			t.Errorf("%q: %v", stat, d)
		}
	}
}

func TestParseCPUsRefusesAnOpenRange(t *testing.T) {
	if cpus, err := parseCPUs("0-2,7"); err != nil || !slices.Equal(cpus, []int{0, 1, 2, 7}) {
		t.Errorf("%v, %v", cpus, err)
	}
	if _, err := parseCPUs("0-"); err == nil {
		t.Error("an open range was read")
	}
}

func TestParseCollectionSkipsOtherLines(t *testing.T) {
	line := "gc 3 @0.120s 2%: 0.020+1.5+0.010 ms clock, 0.020+0.25/1.0/0.5+0.010 ms cpu, 4->5->1 MB, 5 MB goal, " +
		"0 MB stacks, 0 MB globals, 1 P"
	want := collections{cpu: 1780 * time.Microsecond, idle: 500 * time.Microsecond, longest: 1530 * time.Microsecond}
	if c, ok := parseCollection(line); !ok || c != want {
		t.Errorf("%+v, %v", c, ok)
	}
	for _, line := range []string{"", "time=2026 level=INFO msg=ready", "gc 3 @0.120s 2%: odd", "scav 1 KiB work"} {
		if _, ok := parseCollection(line); ok {
			t.Errorf("%q is a collection", line)
		}
	}
}

func TestReadReplyVisitsEveryValue(t *testing.T) {
	for _, c := range []struct {
		wire, visited string
		first         int64
		err           bool
	}{
		{wire: "+PONG\r\n", visited: "[PONG]"},
		{wire: ":-17\r\n", visited: "[-17]", first: -17},
		{wire: "$5\r\nab\r\nc\r\n", visited: "[ab\r\nc]"},
		{wire: "$-1\r\n", visited: "[]"},
		{wire: "*3\r\n:1\r\n:100\r\n:-1\r\n", visited: "[1 100 -1]", first: 1},
		{wire: "*2\r\n:0\r\n*2\r\n:7\r\n:8\r\n", visited: "[0 7 8]"},
		{wire: "*2\r\n:0\r\n-ERR no\r\n", visited: "[0]", err: true},
		{wire: "-OOM full\r\n", visited: "[]", err: true},
		{wire: "?\r\n", visited: "[]", err: true},
		{wire: ":1x\r\n", visited: "[]", err: true},
		{wire: "\r\n", visited: "[]", err: true},
		{wire: "$5\r\nab", visited: "[]", err: true},
	} {
		var seen []string
		first, err := readReply(bufio.NewReader(strings.NewReader(c.wire)), func(b []byte) { seen = append(seen, string(b)) })
		if first != c.first || (err != nil) != c.err || fmt.Sprint(seen) != c.visited {
			t.Errorf("%q: %d, %q, %v", c.wire, first, seen, err)
		}
		again, err := readReply(bufio.NewReader(strings.NewReader(c.wire)), nil)
		if again != c.first || (err != nil) != c.err {
			t.Errorf("%q without a visitor: %d, %v", c.wire, again, err)
		}
	}
}

func TestTemplateIsTheCommand(t *testing.T) {
	got := newTemplate("CL.THROTTLE", "KEY", "15", "30", "60").appendTo([]byte("before"), 12_345_678_901)
	want := appendCommand([]byte("before"), "CL.THROTTLE", "k:12345678901", "15", "30", "60")
	if string(got) != string(want) {
		t.Errorf("%q, want %q", got, want)
	}
	p := tinyPlan()
	p.expireAfter = 1500 * time.Millisecond
	got = expiringLoad(p, time.Now()).command(nil, 7, nil)
	want = appendCommand(nil, "CL.THROTTLE", "k:00000000007", "1000000000", "1000", "1", "1500")
	if string(got) != string(want) {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestFormatValueSuitsTheUnit(t *testing.T) {
	for _, c := range []struct {
		value float64
		unit  unit
		want  string
	}{
		{1234567, asCount, "1,234,567"},
		{999, asCount, "999"},
		{-1000, asCount, "-1,000"},
		{2048, inBytes, "2.0 KiB"},
		{3 << 29, inBytes, "1.50 GiB"},
		{51.25, bytesEach, "51.2 B"},
		{20500, asLatency, "20 µs"},
		{1.5e6, asLatency, "1.50 ms"},
		{2e9, asLatency, "2.00 s"},
		{1, asYesOrNo, "yes"},
	} {
		if got := formatValue(c.value, c.unit); got != c.want {
			t.Errorf("%v: %q, want %q", c.value, got, c.want)
		}
	}
}
