package programs

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// built returns the path of a program that scripts/test-deps builds: it takes minutes.
func built(t *testing.T, name string) string {
	t.Helper()
	path := filepath.Join(os.Getenv("CELLSERVER_TEST_PROGRAMS"), name)
	if _, err := os.Stat(path); err != nil || !filepath.IsAbs(path) {
		missing(t, name+" in the folder CELLSERVER_TEST_PROGRAMS")
	}
	return path
}

// envoyExamples is the configuration that comes with Envoy's rate limit service.
func envoyExamples(t *testing.T) string {
	t.Helper()
	cmd := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "github.com/envoyproxy/ratelimit")
	cmd.Dir = "testdata/envoy"
	dir, err := cmd.Output()
	require.NoError(t, err)
	return filepath.Join(strings.TrimSpace(string(dir)), "examples")
}

func TestEnvoyRateLimitAnswersAsOnRedis(t *testing.T) {
	for _, row := range []struct {
		name        string
		environment []string
	}{
		{"its defaults", nil},
		{"a local cache of what is over its limit", []string{"LOCAL_CACHE_SIZE_IN_BYTES=1000000"}},
		{"its own pipelining", []string{"REDIS_PIPELINE_WINDOW=150us", "REDIS_PIPELINE_LIMIT=8"}},
		{"increments that stop at the limit", []string{"STOP_CACHE_KEY_INCREMENT_WHEN_OVERLIMIT=true"}},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			driver, service, examples := built(t, "envoy"), built(t, "service_cmd"), envoyExamples(t)
			said := compare(t, pair(t), func(s server) *exec.Cmd {
				return exec.Command(driver, append([]string{s.address(), service, examples}, row.environment...)...)
			})
			assert.Contains(t, said, "64 clients, 500/second: 500 admitted, 140 refused, 0 failed\n")
		})
	}
}

func TestGoLimitersAnswerAsOnRedis(t *testing.T) {
	t.Parallel()
	path := built(t, "limiters")
	said := compare(t, pair(t), func(s server) *exec.Cmd { return exec.Command(path, s.address()) })
	for _, name := range []string{"redis_rate v10", "redis_rate v9"} {
		assert.Contains(t, said, name+", 64 clients, 100: 100 of allowed 1, error <nil>, 92 of allowed 0, error <nil>\n")
	}
	for _, name := range []string{"ulule/limiter", "throttled, go-redis", "throttled, redigo"} {
		assert.Contains(t, said, name+", 64 clients, 100: 100 of 200 OK, 92 of 429 Too Many Requests\n")
	}
}
