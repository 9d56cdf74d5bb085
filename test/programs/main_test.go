// Package programs runs rate limiters of others, as their users do, on cellserver and on a real Redis, and compares what they
// answer and what they leave behind. A driver in testdata starts each program, asks it for requests one after the other and
// then from 64 clients at once, and prints a line for each answer.
package programs

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// patience bounds what takes a moment, however busy the machine is.
const patience = 5 * time.Minute

// binary is the program under test.
var binary string

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "cellserver")
	if err != nil {
		panic(err)
	}
	binary = filepath.Join(dir, "cellserver")
	if said, err := exec.Command("go", "build", "-o", binary, "cellserver/cmd/cellserver").CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "go build: %v\n%s", err, said)
		os.RemoveAll(dir)
		os.Exit(1)
	}
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		os.RemoveAll(dir)
		os.Exit(code)
	}))
}
