package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"
)

// plan sets the sizes and durations of the subcommand memory.
type plan struct {
	keys, flood    int64
	logs, logBurst int64         // sliding windows, and admissions of each
	rounds         int           // how often everything is measured
	only           []string      // names of memoryParts
	idle           time.Duration // how long the server rests before it is looked at again
	quiet          time.Duration // how long a probe of a server that does nothing else takes
	busy           time.Duration // how long commands run while garbage collections are counted
	expireIn       time.Duration // keys of the sweep live at least so long, from the start of the fill
	expireAfter    time.Duration // and so long, from the end of the fill
	patience       time.Duration // how long expired keys may take to be gone
	floodMemory    string        // maxmemory of the flood
}

// fullPlan returns the default plan; --quick makes it smaller.
func fullPlan() plan {
	return plan{
		keys: 10_000_000, flood: 50_000_000, logs: 1000, logBurst: 10_000, rounds: 1,
		idle: 30 * time.Second, quiet: 10 * time.Second, busy: 10 * time.Second,
		expireIn: 20 * time.Second, expireAfter: 6 * time.Second, patience: 10 * time.Minute, floodMemory: "256mb",
	}
}

// memoryPart is a part of the subcommand memory. It starts its own servers.
type memoryPart struct {
	name, title string
	about       func(plan) string
	measure     func(context.Context, *lab, plan) (measured, error)
}

var memoryParts = []memoryPart{
	{"fill", "Memory per key, and pauses while it grows", aboutFill, measureFill},
	{"gc", "Garbage collection", aboutGC, measureGC},
	{"sweep", "Keys that expire all at once", aboutSweep, measureSweep},
	{"flood", "A flood of keys against maxmemory", aboutFlood, measureFlood},
	{"logs", "Logs of sliding windows", aboutLogs, measureLogs},
}

func memoryPartNames() (names []string) {
	for _, p := range memoryParts {
		names = append(names, p.name)
	}
	return names
}

const aboutMemory = `memory measures what the keys of a limiter cost: bytes per key, the pauses that clients see, the work of garbage
collection and of expiry, and what a flood of keys does to a server with a bound. Each part starts a server of its own.`

// runMemory runs the subcommand.
func runMemory(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	p, out, server, err := parseMemory(args, stdout)
	if err != nil {
		return err
	}
	show := newProgress(stderr)
	l, closeLab, err := newLab(ctx, server, show)
	if err != nil {
		return err
	}
	defer closeLab()
	result, err := memoryReport(ctx, l, p)
	show.end()
	result.command = strings.Join(append([]string{"go run . memory"}, args...), " ")
	if len(result.sections) > 0 {
		_, wrote := io.WriteString(stdout, result.text()) // also what was measured before something failed
		err = errors.Join(err, wrote)
	}
	if err != nil || out == "" {
		return err
	}
	if err := result.save(out); err != nil {
		return err
	}
	_, err = fmt.Fprintf(stderr, "the same, with how it was measured, is in %s\n", out)
	return err
}

// parseMemory parses the command line of the subcommand.
func parseMemory(args []string, stdout io.Writer) (p plan, out, server string, err error) {
	p = fullPlan()
	set := flag.NewFlagSet("memory", flag.ContinueOnError)
	quick := set.Bool("quick", false, "measure 1 million keys, a flood of 5 million and logs of a tenth, and rest less")
	only := set.String("only", "", "measure only these parts: some of "+strings.Join(memoryPartNames(), ", "))
	set.Int64Var(&p.keys, "keys", p.keys, "number of keys to fill a server with")
	set.Int64Var(&p.flood, "flood", p.flood, "number of keys of the flood")
	set.IntVar(&p.rounds, "rounds", p.rounds, "measure everything so often, and show every value")
	set.StringVar(&out, "out", "results/memory.md", "file for the result, besides standard output; empty for none")
	set.StringVar(&server, "server", "", "path of a built cellserver (default: one built from ../cmd/cellserver)")
	if err := parseFlags(set, aboutMemory, args, stdout); err != nil {
		return p, "", "", err
	}
	if *quick {
		given := map[string]bool{}
		set.Visit(func(f *flag.Flag) { given[f.Name] = true })
		p = p.quick(given["keys"], given["flood"])
	}
	for name := range strings.SplitSeq(*only, ",") {
		switch {
		case *only == "":
		case slices.Contains(memoryPartNames(), name):
			p.only = append(p.only, name)
		default:
			return p, "", "", usagef("--only: no part is called %q; there are %s", name, strings.Join(memoryPartNames(), ", "))
		}
	}
	if p.keys < 1 || p.flood < 1 || p.rounds < 1 {
		return p, "", "", usagef("--keys, --flood and --rounds begin at 1")
	}
	if server != "" {
		if _, err := os.Stat(server); err != nil {
			return p, "", "", usagef("--server: %w", err)
		}
	}
	return p, out, server, nil
}

// quick returns the plan for --quick. Flags that were given keep their values.
func (p plan) quick(keepKeys, keepFlood bool) plan {
	if !keepKeys {
		p.keys = 1_000_000
	}
	if !keepFlood {
		p.flood = 5_000_000
	}
	p.logBurst /= 10
	p.idle, p.quiet, p.busy, p.expireIn = 10*time.Second, 3*time.Second, 3*time.Second, 5*time.Second
	return p
}

// memoryReport runs the parts of the plan. If it fails, the report holds the results so far.
func memoryReport(ctx context.Context, l *lab, p plan) (report, error) {
	result := report{title: "Memory", machine: describe(l)}
	for _, part := range memoryParts {
		if len(p.only) > 0 && !slices.Contains(p.only, part.name) {
			continue
		}
		s := section{title: part.title, about: part.about(p)}
		for round := range p.rounds {
			l.progress.part = part.name
			if p.rounds > 1 {
				l.progress.part = fmt.Sprintf("%s, round %d of %d", part.name, round+1, p.rounds)
			}
			m, err := part.measure(ctx, l, p)
			if err != nil {
				return result, fmt.Errorf("%s: %w", part.name, err)
			}
			s.rounds = append(s.rounds, m)
		}
		result.sections = append(result.sections, s)
	}
	return result, nil
}
