package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
)

// subcommand is a subcommand of the program.
type subcommand struct {
	name    string
	summary string
	// run gets the arguments after the name. It returns a usageError for wrong arguments, and flag.ErrHelp after it has printed
	// its help to stdout.
	run func(ctx context.Context, args []string, stdout, stderr io.Writer) error
}

var subcommands = []subcommand{
	{"compare", "throughput, latency and memory beside Redis, and which goals are met", runCompare},
	{"memory", "bytes per key, pauses, garbage collection, expiry, floods, logs", runMemory},
}

// usageError is a mistake in the command line.
type usageError struct{ error }

func usagef(format string, args ...any) error { return usageError{fmt.Errorf(format, args...)} }

// run runs the program and returns its exit status: 0, 1 if a measurement failed, 2 if the command line is wrong. On SIGINT,
// SIGTERM and SIGHUP it stops the servers that it started, and returns.
func run(args []string, stdout, stderr io.Writer) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	err := dispatch(ctx, args, stdout, stderr)
	status, complaint := 1, ""
	var usage usageError
	switch {
	case err == nil, errors.Is(err, flag.ErrHelp):
		return 0
	case errors.As(err, &usage):
		status, complaint = 2, err.Error()+" (see --help)"
	case ctx.Err() != nil:
		complaint = "interrupted"
	default:
		complaint = err.Error()
	}
	_, _ = io.WriteString(stderr, "bench: "+complaint+"\n")
	return status
}

func dispatch(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	if len(args) == 0 {
		return usagef("which subcommand?")
	}
	switch args[0] {
	case "help", "-h", "-help", "--help":
		var b strings.Builder
		b.WriteString("bench measures cellserver from outside. Run it in the folder bench.\n\nUsage:\n" +
			"  go run . <subcommand> [--flag value ...]\n\nSubcommands:\n")
		for _, s := range subcommands {
			fmt.Fprintf(&b, "  %-10s %s\n", s.name, s.summary)
		}
		b.WriteString("\n`go run . <subcommand> --help` lists its flags.\n")
		_, err := io.WriteString(stdout, b.String())
		return err
	}
	for _, s := range subcommands {
		if s.name == args[0] {
			return s.run(ctx, args[1:], stdout, stderr)
		}
	}
	return usagef("no subcommand is called %q", args[0])
}

// parseFlags parses args into set, and refuses arguments that are not flags. Help goes to stdout, with about above the flags.
func parseFlags(set *flag.FlagSet, about string, args []string, stdout io.Writer) error {
	set.SetOutput(io.Discard) // run reports errors, once
	set.Usage = func() {}
	err := set.Parse(args)
	switch {
	case errors.Is(err, flag.ErrHelp):
		var b strings.Builder
		fmt.Fprintf(&b, "%s\n\nUsage:\n  go run . %s [--flag value ...]\n\nFlags:\n", about, set.Name())
		set.SetOutput(&b)
		set.PrintDefaults()
		if _, failed := io.WriteString(stdout, b.String()); failed != nil {
			return failed
		}
		return err
	case err != nil:
		return usageError{err}
	case set.NArg() > 0:
		return usagef("%q is not a flag", set.Arg(0))
	}
	return nil
}
