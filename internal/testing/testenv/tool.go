// Package testenv finds the programs that tests talk to.
package testenv

import (
	"os"
	"os/exec"
	"testing"
)

// Strict is the environment variable that, set to 1, makes a missing program fail the tests that need it instead of
// skipping them.
const Strict = "CELLSERVER_TEST_STRICT"

// Tool returns the path of a program, or ends the test when there is none.
func Tool(t testing.TB, name string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	switch {
	case err == nil:
	case os.Getenv(Strict) == "1":
		t.Fatalf("needs %s, which is missing: %v", name, err)
	default:
		t.Skipf("needs %s, which is missing; %s=1 makes this a failure", name, Strict)
	}
	return path
}
