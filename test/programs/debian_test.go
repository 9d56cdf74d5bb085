package programs

import (
	"os/exec"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"cellserver/internal/testing/testenv"
)

// python is Debian's own, whatever else the PATH has.
const python = "/usr/bin/python3"

// installed returns a driver in testdata, run by an interpreter. It ends the test when the interpreter fails the check: it
// lacks packages.
func installed(t *testing.T, interpreter, check, script string) driver {
	t.Helper()
	path := testenv.Tool(t, interpreter)
	option := map[string]string{"php": "-r", "ruby": "-e", python: "-c"}[interpreter]
	if said, err := exec.Command(path, option, check).CombinedOutput(); err != nil {
		missing(t, "what testdata/"+script+" loads ("+strings.TrimSpace(string(said))+")")
	}
	return func(s server) *exec.Cmd {
		return exec.Command(path, "testdata/"+script, s.address(), strconv.Itoa(appDatabase))
	}
}

func TestLaravelRateLimiterAnswersAsOnRedis(t *testing.T) {
	t.Parallel()
	const check = `foreach (['Cache', 'Redis'] as $part) { require "/usr/share/php/Illuminate/$part/autoload.php"; }
		exit(extension_loaded('redis') && extension_loaded('pcntl') ? 0 : 1);`
	said := compare(t, pair(t), installed(t, "php", check, "laravel/laravel.php"))
	assert.Contains(t, said, "64 clients, 3 hits each: 193, 0 failed\n")
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

func TestFlaskLimiterAndLimitsAnswerAsOnRedis(t *testing.T) {
	t.Parallel()
	said := compare(t, pair(t), installed(t, python, "import flask_limiter, limits, redis", "python/flask_limits.py"))
	for _, strategy := range []string{"fixed-window", "fixed-window-elastic-expiry"} {
		assert.Contains(t, said, strategy+", 64 clients, 100 a minute: 100 of 200, 92 of 429\n")
	}
	assert.Contains(t, said, "64 clients, 100 a minute: 100\n", "limits by itself")
}

func TestDjangoRedisAnswersAsOnRedis(t *testing.T) {
	t.Parallel()
	said := compare(t, pair(t), installed(t, python, "import django_redis", "python/django_cache.py"))
	assert.Contains(t, said, "64 clients, 3 each: True\n")
}
