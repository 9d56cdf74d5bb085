package programs

import (
	"os/exec"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"cellserver/internal/testing/testenv"
)

// installed returns a driver in testdata, run by an interpreter. It ends the test when the interpreter fails the check: it
// lacks packages.
func installed(t *testing.T, interpreter, check, script string) driver {
	t.Helper()
	path := testenv.Tool(t, interpreter)
	option := map[string]string{"php": "-r", "ruby": "-e", "/usr/bin/python3": "-c"}[interpreter]
	if said, err := exec.Command(path, option, check).CombinedOutput(); err != nil {
		missing(t, "what testdata/"+script+" loads ("+strings.TrimSpace(string(said))+")")
	}
	return func(s server) *exec.Cmd {
		return exec.Command(path, "testdata/"+script, s.address(), strconv.Itoa(appDatabase))
	}
}

func TestRackAttackAnswersAsOnRedis(t *testing.T) {
	t.Parallel()
	const check = "%w[active_support connection_pool rack/attack redis webrick].each { |name| require name }"
	said := compare(t, pair(t), installed(t, "ruby", check, "ruby/rack_attack.rb"))
	for _, store := range []string{"Rails", "Redis"} {
		assert.Contains(t, said, store+", 64 clients, 99 left: 99 of 200, 93 of 429\n")
	}
}

func TestRailsCacheStoreAnswersAsOnRedis(t *testing.T) {
	t.Parallel()
	const check = "%w[active_support rack redis webrick].each { |name| require name }"
	said := compare(t, pair(t), installed(t, "ruby", check, "ruby/rails_cache.rb"))
	assert.Contains(t, said, "64 clients, 3 each: true\n")
}
