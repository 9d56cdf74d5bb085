package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

func init() {
	subcommands = append(subcommands, subcommand{"profile", "where the processor time of a command goes, by perf", runProfile})
}

// profilePlan sets what the subcommand profile records.
type profilePlan struct {
	ask    *ask
	depth  int
	length time.Duration // of the recording
}

// The durations of the load before and after the recording, and the samples per second.
const (
	profileBefore = 500 * time.Millisecond
	profileAfter  = time.Second
	profileRate   = 997 // a prime, so that samples do not coincide with a timer
)

const aboutProfile = `profile shows where the processor time of one command goes: it starts cellserver, has redis-benchmark ask it with a
pipeline of --depth, and records meanwhile with perf. It needs redis-server, redis-benchmark and perf, and the right to look
at the kernel (kernel.perf_event_paranoid of 1 or less, or root).`

// runProfile runs the subcommand.
func runProfile(ctx context.Context, args []string, stdout, stderr io.Writer) (err error) {
	p, out, server, err := parseProfile(args, stdout)
	if err != nil {
		return err
	}
	show := newProgress(stderr)
	l, closeLab, err := newLab(ctx, server, show)
	if err != nil {
		return err
	}
	defer closeLab()
	c, closeComparer, err := newComparer(l, fullComparePlan())
	if err != nil {
		return err
	}
	defer closeComparer()
	found, err := c.profile(ctx, p)
	show.end()
	if err != nil {
		return err
	}
	result := found.page(describe(l), strings.Join(append([]string{"go run . profile"}, args...), " "))
	if _, err := io.WriteString(stdout, result.text()); err != nil || out == "" {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(out), 0o755); err != nil {
		return err
	}
	if err := os.WriteFile(out, []byte(result.markdown(nil)), 0o644); err != nil {
		return err
	}
	_, err = fmt.Fprintf(stderr, "the same, with how it was measured, is in %s\n", out)
	return err
}

// profiled returns the commands that can be profiled: the flags of the asks of cellserver.
func profiled() (names []string) {
	for _, a := range alwaysAsked {
		if a.server == nameCellserver {
			names = append(names, a.flag)
		}
	}
	return names
}

// parseProfile parses the command line of the subcommand.
func parseProfile(args []string, stdout io.Writer) (p profilePlan, out, server string, err error) {
	set := flag.NewFlagSet("profile", flag.ContinueOnError)
	set.IntVar(&p.depth, "depth", 1, "number of commands in a pipeline")
	command := set.String("command", askThrottle.flag, "what is asked for: "+strings.Join(profiled(), ", "))
	set.DurationVar(&p.length, "length", 5*time.Second, "how long perf records")
	set.StringVar(&out, "out", "results/profile.md", "file for the result, besides standard output; empty for none")
	set.StringVar(&server, "server", "", "path of a built cellserver (default: one built from ../cmd/cellserver)")
	if err := parseFlags(set, aboutProfile, args, stdout); err != nil {
		return p, "", "", err
	}
	i := slices.IndexFunc(alwaysAsked, func(a *ask) bool { return a.server == nameCellserver && a.flag == *command })
	if i < 0 {
		return p, "", "", usagef("--command: %q is none of %s", *command, strings.Join(profiled(), ", "))
	}
	p.ask = alwaysAsked[i]
	if p.depth < 1 || p.length <= 0 {
		return p, "", "", usagef("--depth begins at 1, and --length is more than nothing")
	}
	if server != "" {
		if _, err := os.Stat(server); err != nil {
			return p, "", "", usagef("--server: %w", err)
		}
	}
	return p, out, server, nil
}

// profileFound is the result of a profile.
type profileFound struct {
	plan  profilePlan
	conns int
	keys  int64
	speed speed
	seen  samples
}

// profile starts a server and records its stacks under load.
func (c *comparer) profile(ctx context.Context, p profilePlan) (found profileFound, err error) {
	perf, err := exec.LookPath("perf")
	if err != nil {
		return found, fmt.Errorf("there is nothing to record with: %w", err)
	}
	all, err := c.start(ctx, false, nil, nameCellserver)
	if err != nil {
		return found, err
	}
	defer func() { all.close(&err) }()
	r := all[nameCellserver]
	if err := r.prepare(ctx, p.ask, c.plan.keys); err != nil {
		return found, err
	}
	run := c.shape(p.depth)
	run.limit += 20 * p.length
	if run.requests, err = c.size(ctx, r, p.ask, run, profileBefore+p.length+profileAfter); err != nil {
		return found, err
	}
	c.progress.step("recording %s for %s", p.ask.id(), spoken(p.length))
	type loaded struct {
		sample
		error
	}
	load := make(chan loaded, 1)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		s, err := c.sample(ctx, r, p.ask, run)
		load <- loaded{s, err}
	}()
	data := filepath.Join(c.dir, "perf.data")
	err = sleep(ctx, profileBefore)
	if err == nil {
		_, err = output(ctx, perf, "record", "-q", "-F", strconv.Itoa(profileRate), "--call-graph", "fp", "-p", strconv.Itoa(r.s.pid),
			"-o", data, "--", "sleep", strconv.FormatFloat(p.length.Seconds(), 'f', 3, 64))
	}
	if err != nil {
		cancel()
	}
	did := <-load
	if err := cmp.Or(err, did.error); err != nil {
		return found, err
	}
	c.progress.step("reading what was recorded")
	text, err := output(ctx, perf, "script", "-i", data, "-F", "ip,sym,dso", "--no-inline")
	if err != nil {
		return found, err
	}
	found = profileFound{p, run.conns, run.keys, did.speed(), parseSamples(text)}
	if found.seen.n == 0 {
		return found, errors.New("perf has seen nothing: the load ended before it began")
	}
	return found, nil
}

// output runs a program and returns its standard output.
func output(ctx context.Context, path string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, path, args...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL} // as start has it
	var complaint bytes.Buffer
	cmd.Stderr = &complaint
	out, err := cmd.Output()
	if ctx.Err() != nil {
		return "", ctx.Err()
	}
	if err != nil {
		return "", fmt.Errorf("%s %s: %w: %s", filepath.Base(path), args[0], err, strings.TrimSpace(complaint.String()))
	}
	return string(out), nil
}

// samples counts the samples of a profile.
type samples struct {
	n     int
	parts map[string]int // by kind of work; each sample has one kind
	self  map[place]int  // by the function that ran
	under map[string]int // by each function of the server on the stack
}

// place is a function and its kind of work.
type place struct{ part, function string }

// frame is a function on a stack.
type frame struct{ symbol, object string }

func (f frame) kernel() bool {
	return strings.HasPrefix(f.object, "[kernel") || strings.HasSuffix(f.object, ".ko")
}

// parseSamples parses the output of perf script with the fields ip, sym and dso: stacks, innermost function first, with an
// empty line after each.
func parseSamples(text string) samples {
	s := samples{parts: map[string]int{}, self: map[place]int{}, under: map[string]int{}}
	var stack []frame
	for line := range strings.Lines(text + "\n") {
		line = strings.TrimSpace(line)
		if line != "" {
			_, rest, _ := strings.Cut(line, " ")
			at := strings.LastIndex(rest, " (")
			if at >= 0 {
				stack = append(stack, frame{rest[:at], strings.Trim(rest[at+1:], "()")})
			}
			continue
		}
		if len(stack) > 0 {
			s.add(stack)
		}
		stack = stack[:0]
	}
	return s
}

func (s *samples) add(stack []frame) {
	s.n++
	part := partOf(stack)
	s.parts[part]++
	s.self[place{part, stack[0].symbol}]++
	own := map[string]bool{} // a function counts once, even if it is on the stack twice
	for _, f := range stack {
		if strings.HasPrefix(f.symbol, ownPackages) {
			own[f.symbol] = true
		}
	}
	for name := range own {
		s.under[name]++
	}
}

// ownPackages is the prefix of the names of the server's own functions.
const ownPackages = "cellserver/"

// partOf returns the kind of work of a stack.
func partOf(stack []frame) string {
	leaf := stack[0]
	switch {
	case leaf.object == "[vdso]":
		return "the clock, without a system call"
	case !leaf.kernel():
		return packageOf(leaf.symbol)
	}
	called := false
	for _, f := range stack {
		if f.kernel() {
			called = called || strings.Contains(f.symbol, "do_syscall") || strings.HasPrefix(f.symbol, "el0_svc")
		} else if called && !strings.Contains(strings.ToLower(f.symbol), "syscall6") && !slices.Contains(syscallWrappers, f.symbol) {
			name := strings.TrimSuffix(f.symbol, ".abi0")
			return "kernel: " + name[strings.LastIndexByte(name, '.')+1:]
		}
	}
	if called {
		return "kernel: other system calls"
	}
	return "kernel: interrupts and page faults"
}

// syscallWrappers are the functions of Go through which every system call goes.
var syscallWrappers = []string{"syscall.Syscall", "syscall.RawSyscall", "internal/runtime/syscall.RawSyscall"}

// packageOf returns the package of a function of Go. All packages of the runtime count as one.
func packageOf(symbol string) string {
	symbol, _, _ = strings.Cut(symbol, "[") // a type argument may contain dots and slashes
	slash := strings.LastIndexByte(symbol, '/')
	dot := strings.IndexByte(symbol[slash+1:], '.')
	if dot < 0 {
		return "runtime" // functions in its assembler have no package
	}
	name := symbol[:slash+1+dot]
	if name == "runtime" || strings.HasPrefix(name, "internal/runtime/") || strings.HasPrefix(name, "runtime/") {
		return "runtime"
	}
	return name
}

// most returns the n keys with the highest counts, or fewer.
func most[K comparable](counts map[K]int, n int, name func(K) string) []K {
	keys := slices.SortedFunc(maps.Keys(counts), func(a, b K) int {
		return cmp.Or(counts[b]-counts[a], strings.Compare(name(a), name(b)))
	})
	return keys[:min(n, len(keys))]
}

// page returns the report.
func (f profileFound) page(machine []fact, command string) page {
	share := func(n int) []string {
		part := float64(n) / float64(f.seen.n)
		return []string{fmt.Sprintf("%.1f %%", 100*part), fmt.Sprintf("%.3f µs", part*f.speed.cpu)}
	}
	parts := table{head: []string{"part", "share", "per command"}}
	for _, name := range most(f.seen.parts, len(f.seen.parts), func(s string) string { return s }) {
		parts.rows = append(parts.rows, append([]string{name}, share(f.seen.parts[name])...))
	}
	self := table{head: []string{"function", "part", "share", "per command"}}
	for _, at := range most(f.seen.self, 25, func(p place) string { return p.function }) {
		self.rows = append(self.rows, append([]string{at.function, at.part}, share(f.seen.self[at])...))
	}
	under := table{head: []string{"function", "share", "per command"}}
	for _, name := range most(f.seen.under, 25, func(s string) string { return s }) {
		under.rows = append(under.rows, append([]string{strings.TrimPrefix(name, ownPackages)}, share(f.seen.under[name])...))
	}
	machine = append(machine,
		fact{"command", strings.Join(f.plan.ask.args, " ")},
		fact{"in one pipeline", fmt.Sprint(f.plan.depth)},
		fact{"requests", formatValue(f.speed.rate, perSecond)},
		fact{"processor time per command", formatValue(f.speed.cpu, inMicros)},
		fact{"server busy", percent(f.speed.server)},
		fact{"samples", grouped(float64(f.seen.n))},
	)
	return page{title: "Profile", command: command, machine: machine, chapters: []chapter{
		{"Parts", fmt.Sprintf(`redis-benchmark asked over %d connections with a pipeline of %d, for one of %s random keys. perf looked %d times in each
second of processor time, for %s, at what the server was doing. "Per command" is the share of the processor time per
command of all the run, user and system. What is in the kernel is named after the function that made the system call, all
else after the package whose function ran; "runtime" is Go's. Recording makes the server somewhat slower.`,
			f.conns, f.plan.depth, grouped(float64(f.keys)), profileRate, spoken(f.plan.length)), parts},
		{"Functions that ran", "Without what they called.", self},
		{"Functions of cellserver", "With what they called, so that the shares do not add up.", under},
	}}
}
