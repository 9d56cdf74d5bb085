// Package test sees the built program from outside, as a process that clients connect to. Each file tests one matter of it;
// process_test.go starts the program and talks to it.
package test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"
)

// patience bounds what takes a moment, however busy the machine is.
const patience = time.Minute

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
	redis.SetLogger(&complaints)
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		os.RemoveAll(dir)
		os.Exit(code)
	}))
}
