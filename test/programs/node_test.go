package programs

import (
	"os"
	"os/exec"
	"testing"

	"github.com/stretchr/testify/assert"
)

// node returns a driver in testdata/node.
func node(t *testing.T, script, client string) driver {
	t.Helper()
	path := os.Getenv("CELLSERVER_TEST_NODE")
	if path == "" {
		missing(t, "the path of node in CELLSERVER_TEST_NODE")
	}
	if _, err := os.Stat("testdata/node/node_modules"); err != nil {
		missing(t, "the packages in testdata/node/node_modules")
	}
	return func(s server) *exec.Cmd {
		return exec.Command(path, "testdata/node/"+script, s.address(), client)
	}
}

const hundredOf192 = "64 clients, 100 a minute: 100 of 200, 92 of 429\n"

func TestExpressRateLimitAnswersAsOnRedis(t *testing.T) {
	for _, client := range []string{"node_redis", "ioredis"} {
		t.Run(client, func(t *testing.T) {
			t.Parallel()
			said := compare(t, pair(t), node(t, "express.mjs", client))
			assert.Contains(t, said, hundredOf192)
		})
	}
}

func TestRateLimiterFlexibleAnswersAsOnRedis(t *testing.T) {
	for _, client := range []string{"node_redis", "ioredis"} {
		t.Run(client, func(t *testing.T) {
			t.Parallel()
			said := compare(t, pair(t), node(t, "flexible.mjs", client))
			assert.Contains(t, said, hundredOf192)
		})
	}
}

func TestFastifyRateLimitAnswersAsOnRedis(t *testing.T) {
	t.Parallel()
	said := compare(t, pair(t), node(t, "fastify.mjs", "ioredis"))
	assert.Contains(t, said, hundredOf192)
}
