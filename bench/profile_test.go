package main

import (
	"errors"
	"io"
	"maps"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// recorded is what perf script writes, shortened.
const recorded = `
	ffffffff8200e18f tcp_sendmsg_locked ([kernel.kallsyms])
	ffffffff816b98aa ksys_write ([kernel.kallsyms])
	ffffffff821ed511 do_syscall_64 ([kernel.kallsyms])
	ffffffff81000130 entry_SYSCALL_64_after_hwframe ([kernel.kallsyms])
	            b3ce internal/runtime/syscall/linux.Syscall6 (/tmp/cell server)
	           a3c06 syscall.Syscall (/tmp/cell server)
	           a257b syscall.write (/tmp/cell server)
	          2877c2 cellserver/resp.(*outbox).send (/tmp/cell server)
	          2858cd cellserver/resp.(*conn).send (/tmp/cell server)

	ffffffff813a2413 finish_task_switch.isra.0 ([kernel.kallsyms])
	ffffffff821ed511 do_syscall_64 ([kernel.kallsyms])
	           8f417 runtime.usleep.abi0 (/tmp/cell server)

	ffffffff821f39e5 irqentry_exit_to_user_mode ([kernel.kallsyms])
	ffffffff81001250 asm_sysvec_apic_timer_interrupt ([kernel.kallsyms])
	          10c2c1 cellserver/buckets.(*table).find (/tmp/cell server)
	          2858cd cellserver/resp.(*conn).send (/tmp/cell server)

	          10c2c1 cellserver/buckets.(*table).find (/tmp/cell server)
	          10c2c1 cellserver/buckets.(*table).find (/tmp/cell server)
	          2858cd cellserver/resp.(*conn).send (/tmp/cell server)

	             b46 __vdso_clock_gettime ([vdso])
	           8ea16 time.now (/tmp/cell server)

	           8ea16 slices.Sort[go.shape.[]string,go.shape.string] (/tmp/cell server)

	           8ea16 aeshashbody (/tmp/cell server)
`

func TestParseSamplesCountsEveryStackOnce(t *testing.T) {
	s := parseSamples(recorded)
	if s.n != 7 {
		t.Errorf("%d samples", s.n)
	}
	parts := map[string]int{"kernel: write": 1, "kernel: usleep": 1, "kernel: interrupts and page faults": 1, "cellserver/buckets": 1,
		"the clock, without a system call": 1, "slices": 1, "runtime": 1}
	if !maps.Equal(s.parts, parts) {
		t.Errorf("parts: %v", s.parts)
	}
	if n := s.self[place{"cellserver/buckets", "cellserver/buckets.(*table).find"}]; n != 1 || len(s.self) != 7 {
		t.Errorf("functions that ran: %v", s.self)
	}
	under := map[string]int{"cellserver/resp.(*conn).send": 3, "cellserver/resp.(*outbox).send": 1, "cellserver/buckets.(*table).find": 2}
	if !maps.Equal(s.under, under) {
		t.Errorf("functions of the server: %v", s.under)
	}
	if s := parseSamples(""); s.n != 0 {
		t.Errorf("nothing has %d samples", s.n)
	}
}

func TestPackageOfTakesTheRuntimeAsOne(t *testing.T) {
	for symbol, want := range map[string]string{
		"cellserver/resp.(*conn).send":            "cellserver/resp",
		"github.com/tidwall/redcon.AppendInt":     "github.com/tidwall/redcon",
		"internal/runtime/syscall/linux.Syscall6": "runtime",
		"runtime.mallocgc":                        "runtime",
		"runtime/internal/atomic.Load":            "runtime",
		"memeqbody":                               "runtime",
		"internal/poll.(*FD).Read":                "internal/poll",
		"slices.Sort[a/b.c]":                      "slices",
	} {
		if got := packageOf(symbol); got != want {
			t.Errorf("%s is of %s", symbol, got)
		}
	}
}

func TestWrongProfileCommandLinesAreRefused(t *testing.T) {
	p, out, _, err := parseProfile(strings.Fields("--depth 16 --command zslide --length 2s --out x.md"), io.Discard)
	if err != nil || p.depth != 16 || p.ask != askSlide || p.length != 2*time.Second || out != "x.md" {
		t.Errorf("%+v, %q, %v", p, out, err)
	}
	for _, args := range []string{"--depth 0", "--length 0s", "--command set", "--command noise", "--server /nowhere/x", "x"} {
		var usage usageError
		if _, _, _, err := parseProfile(strings.Fields(args), io.Discard); !errors.As(err, &usage) {
			t.Errorf("%s: %v", args, err)
		}
	}
}

func TestProfileSeesTheServer(t *testing.T) {
	c := testComparer(t, tinyComparePlan())
	needs(t, "perf")
	if out, err := exec.Command("perf", "record", "-q", "-o", c.dir+"/try", "--", "true").CombinedOutput(); err != nil {
		t.Skipf("perf may not record here: %v: %s", err, out)
	}
	found, err := c.profile(t.Context(), profilePlan{ask: askThrottle, depth: 16, length: 300 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	if found.speed.rate < 100 || found.seen.parts["cellserver/resp"] == 0 {
		t.Errorf("%+v", found)
	}
	text := found.page(nil, "x").markdown(nil)
	for _, want := range []string{"## Parts", "| resp.(*session)", "| cellserver/buckets/memory |", "%", " µs |"} {
		if !strings.Contains(text, want) {
			t.Errorf("it does not mention %q:\n%s", want, text)
		}
	}
}
