package programs

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"regexp"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"cellserver/internal/testing/testenv"
)

// inNetworkOfItsOwn is a shell script that starts a server, the arguments, and runs a test suite, $0, on it. Nobody outside
// sees their ports.
const inNetworkOfItsOwn = `ip link set lo up
"$@" >/dev/null 2>log &
until redis-cli ping >/dev/null 2>&1; do sleep 0.02; done
exec "$0" -test.v`

// runSuite returns what a test suite says that insists on a server at port 6379, and whether it passes. The namespaces end
// with the suite, and the server with them.
func runSuite(t *testing.T, suite string, server ...string) (said string, passes bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	namespaces := []string{"--net", "--pid", "--fork", "--kill-child"}
	if os.Getuid() != 0 {
		namespaces = append(namespaces, "--map-root-user")
	}
	unshare := testenv.Tool(t, "unshare")
	if said, err := exec.CommandContext(ctx, unshare, append(namespaces, testenv.Tool(t, "ip"), "link", "set", "lo", "up")...).CombinedOutput(); err != nil {
		missing(t, "a network namespace of its own ("+string(bytes.TrimSpace(said))+")")
	}
	cmd := exec.CommandContext(ctx, unshare, append(append(namespaces, "sh", "-c", inNetworkOfItsOwn, suite), server...)...)
	cmd.Dir = t.TempDir()
	cmd.Env = append(os.Environ(), "REDIS_URI=redis://127.0.0.1:6379")
	out, err := cmd.CombinedOutput()
	require.NoError(t, ctx.Err())
	if err != nil {
		require.IsType(t, (*exec.ExitError)(nil), err)
	}
	return string(out), err == nil
}

// durations differ from run to run.
var durations = regexp.MustCompile(`[0-9.]+(s|ms|µs)\b`)

// The test suites of rate limiters for Go pass. Those of redis_rate find what they find on Redis, test by test and message by
// message, and this is no success: they fail since July 2025, when the seconds since 2017, which the scripts keep as a double,
// passed 2^28 and a tenth of a second was rounded the other way.
func TestSuitesOfGoLimitersFindWhatTheyFindOnRedis(t *testing.T) {
	redis, _ := testenv.Tool(t, "redis-server"), testenv.Tool(t, "redis-cli")
	for _, name := range []string{"throttled.goredisstore.v9.test", "throttled.redigostore.test", "ulule.redis.test"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			said, passes := runSuite(t, built(t, name), binary)
			assert.True(t, passes, said)
			assert.Contains(t, said, "--- PASS")
			assert.NotContains(t, said, "--- SKIP", "they skip where no server answers")
		})
	}
	for _, name := range []string{"redis_rate.v10.test", "redis_rate.v9.test"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			suite := built(t, name)
			theirs, _ := runSuite(t, suite, redis, "--save", "", "--bind", "127.0.0.1")
			assert.Contains(t, theirs, "--- PASS: TestRetryAfter", "on Redis")
			ours, _ := runSuite(t, suite, binary)
			assert.Equal(t, durations.ReplaceAllString(theirs, "#"), durations.ReplaceAllString(ours, "#"))
		})
	}
}
