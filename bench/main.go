// Command bench measures cellserver from outside: it starts the built program, sends it load over TCP, and reads its use of
// resources from /proc. It runs on Linux only. `go run . --help`, in this directory, lists its subcommands.
package main

import "os"

func main() {
	os.Exit(run(os.Args[1:], os.Stdout, os.Stderr))
}
