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

func init() {
	subcommands = append(subcommands, subcommand{"disk", "snapshots, loading them, and what a journal costs", runDisk})
}

// diskPlan sets the sizes and durations of the subcommand disk.
type diskPlan struct {
	keys     int64
	rounds   int
	only     []string      // names of diskParts
	quiet    time.Duration // duration of the probe of an idle server
	requests int64         // of one run of redis-benchmark
	patience time.Duration // limit for saving or loading a snapshot
	dir      string        // parent of the temporary directory with the files
}

// fullDiskPlan returns the default plan; --quick makes it smaller.
func fullDiskPlan() diskPlan {
	return diskPlan{
		keys: 10_000_000, rounds: 2, quiet: 10 * time.Second, requests: 5_000_000, patience: 10 * time.Minute,
		dir: os.TempDir(),
	}
}

// quick returns the plan for --quick. Flags that were given keep their values.
func (p diskPlan) quick(keepKeys, keepRounds bool) diskPlan {
	if !keepKeys {
		p.keys = 1_000_000
	}
	if !keepRounds {
		p.rounds = 1
	}
	p.quiet, p.requests = 3*time.Second, 1_000_000
	return p
}

// diskPart is a part of the subcommand disk.
type diskPart struct {
	name, title string
	about       func(diskPlan) string
	measure     func(context.Context, *diskLab, diskPlan) (measured, error)
}

var diskParts = []diskPart{
	{"save", "Writing a snapshot", aboutSave, measureSave},
	{"load", "Loading a snapshot", aboutLoad, measureLoad},
	{"journal", "What a journal costs", aboutJournal, measureJournal},
}

func diskPartNames() (names []string) {
	for _, p := range diskParts {
		names = append(names, p.name)
	}
	return names
}

const aboutDisk = `disk measures what keeping the keys of a limiter costs: snapshots and what clients see of them, the time until a server
is back, and the throughput that a journal takes. Where there is a redis-server, it is measured beside, with the keys that
the module redis-cell would keep in it. It needs redis-benchmark for the journal, and some 3 GB of disk.`

// runDisk runs the subcommand.
func runDisk(ctx context.Context, args []string, stdout, stderr io.Writer) (err error) {
	p, out, server, err := parseDisk(args, stdout)
	if err != nil {
		return err
	}
	show := newProgress(stderr)
	l, closeLab, err := newLab(ctx, server, show)
	if err != nil {
		return err
	}
	defer closeLab()
	d, closeDisk, err := newDiskLab(l, p.dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, closeDisk()) }()
	result, err := diskReport(ctx, d, p)
	show.end()
	result.command = strings.Join(append([]string{"go run . disk"}, args...), " ")
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

// parseDisk parses the command line of the subcommand.
func parseDisk(args []string, stdout io.Writer) (p diskPlan, out, server string, err error) {
	p = fullDiskPlan()
	set := flag.NewFlagSet("disk", flag.ContinueOnError)
	quick := set.Bool("quick", false, "measure 1 million keys and requests, once, and rest less")
	only := set.String("only", "", "measure only these parts: some of "+strings.Join(diskPartNames(), ", "))
	set.Int64Var(&p.keys, "keys", p.keys, "number of keys of a snapshot")
	set.IntVar(&p.rounds, "rounds", p.rounds, "measure everything so often, and show every value")
	set.StringVar(&p.dir, "dir", p.dir, "where the servers write their files, in a directory that is removed at the end")
	set.StringVar(&out, "out", "results/disk.md", "file for the result, besides standard output; empty for none")
	set.StringVar(&server, "server", "", "path of a built cellserver (default: one built from ../cmd/cellserver)")
	if err := parseFlags(set, aboutDisk, args, stdout); err != nil {
		return p, "", "", err
	}
	if *quick {
		given := map[string]bool{}
		set.Visit(func(f *flag.Flag) { given[f.Name] = true })
		p = p.quick(given["keys"], given["rounds"])
	}
	for name := range strings.SplitSeq(*only, ",") {
		switch {
		case *only == "":
		case slices.Contains(diskPartNames(), name):
			p.only = append(p.only, name)
		default:
			return p, "", "", usagef("--only: no part is called %q; there are %s", name, strings.Join(diskPartNames(), ", "))
		}
	}
	if p.keys < 1 || p.rounds < 1 {
		return p, "", "", usagef("--keys and --rounds begin at 1")
	}
	for name, path := range map[string]string{"server": server, "dir": p.dir} {
		if path == "" {
			continue
		}
		if _, err := os.Stat(path); err != nil {
			return p, "", "", usagef("--%s: %w", name, err)
		}
	}
	return p, out, server, nil
}

// diskReport runs the parts of the plan. If it fails, the report holds the results so far.
func diskReport(ctx context.Context, d *diskLab, p diskPlan) (report, error) {
	result := report{title: "Disk", machine: append(describe(d.lab), d.facts()...)}
	for _, part := range diskParts {
		if len(p.only) > 0 && !slices.Contains(p.only, part.name) {
			continue
		}
		s := section{title: part.title, about: part.about(p)}
		for round := range p.rounds {
			d.progress.part = part.name
			if p.rounds > 1 {
				d.progress.part = fmt.Sprintf("%s, round %d of %d", part.name, round+1, p.rounds)
			}
			m, err := part.measure(ctx, d, p)
			if err != nil {
				return result, fmt.Errorf("%s: %w", part.name, err)
			}
			s.rounds = append(s.rounds, m)
		}
		result.sections = append(result.sections, s)
	}
	return result, nil
}
