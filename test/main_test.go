// Package test tests the built program as a process that clients connect to. process_test.go has the helpers that start the
// program and talk to it.
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

// patience is the time limit of every wait. It is far longer than needed on a busy machine.
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
