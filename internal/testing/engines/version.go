// Package engines starts real Valkey and Redis servers on loopback for tests: alone, as a cluster or watched by sentinels, and proxies
// that stand before them. All of them end with the test, and with the test's process, however that ends.
package engines

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"cellserver/internal/testing/testenv"
)

// folderEnv is the environment variable by which scripts/test-deps says where Valkey is: a folder with one for each release.
const folderEnv = "CELLSERVER_TEST_VALKEY"

// Version is a release of an engine.
type Version struct{ engine, number string }

// The releases that tests run. Redis70 is the redis-server of this machine, which is 7.0 on Debian 12.
var (
	Valkey81 = Version{"valkey", "8.1"}
	Valkey91 = Version{"valkey", "9.1"}
	Redis70  = Version{"redis", "7.0"}
)

// Versions returns all releases that tests run.
func Versions() []Version { return []Version{Valkey81, Valkey91, Redis70} }

// String returns a name for a subtest, such as valkey-8.1.
func (v Version) String() string { return v.engine + "-" + v.number }

// IFEQ reports whether SET of this release has the option IFEQ.
func (v Version) IFEQ() bool { return v != Redis70 }

// Program returns the path of a program of this release: "server", "cli" or "benchmark". Where it is missing the test ends: it is
// skipped, or fails when testenv.Strict is set.
func (v Version) Program(t testing.TB, name string) string {
	t.Helper()
	name = v.engine + "-" + name
	if v == Redis70 {
		return testenv.Tool(t, name)
	}
	folder := os.Getenv(folderEnv)
	if folder == "" {
		cache := os.Getenv("XDG_CACHE_HOME")
		if cache == "" {
			cache = filepath.Join(os.Getenv("HOME"), ".cache")
		}
		folder = filepath.Join(cache, "cellserver-test", "valkey") // as scripts/test-deps has it
	}
	return testenv.Tool(t, filepath.Join(folder, v.number, name))
}

// isReady reports whether a server that prints the line accepts connections from now on.
func isReady(line string) bool {
	return strings.Contains(strings.ToLower(line), "ready to accept connections") ||
		strings.Contains(line, "Sentinel ID is") // said once it listens
}
