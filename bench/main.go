// Command bench measures cellserver from outside: it starts the built program, loads it over TCP, and reads what it
// took from /proc. It runs on Linux. `go run . --help`, in this folder, names its subcommands.
package main

import "os"

func main() {
	os.Exit(run(os.Args[1:], os.Stdout, os.Stderr))
}
