// Command cellserver answers "may this happen now?" to any Redis client.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"cellserver/cmd/cellserver/options"
)

// version is the release that the section Unreleased of CHANGELOG.md becomes.
const version = "0.1.0"

func main() {
	if err := run(context.Background(), os.Args[1:], os.Stdout, os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, "cellserver:", err)
		os.Exit(1)
	}
}

// run does what the arguments ask for: it runs a command such as check, prints the help or the version, or serves until a
// signal, SHUTDOWN or the end of ctx stops the server.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	if len(args) > 0 {
		if command, ok := commands[args[0]]; ok {
			return command(ctx, args[1:], stdout, stderr)
		}
	}
	settings, err := options.Parse(args)
	switch {
	case errors.Is(err, options.ErrHelp):
		_, err = io.WriteString(stdout, options.Help())
		return err
	case errors.Is(err, options.ErrVersion):
		_, err = fmt.Fprintln(stdout, "cellserver", version)
		return err
	case err != nil:
		return fmt.Errorf("%w (see cellserver --help)", err)
	}
	return serve(ctx, settings, options.ConfigFile(args), stderr)
}
