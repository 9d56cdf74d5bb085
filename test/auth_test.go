package test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"cellserver/internal/acl"
	"cellserver/internal/testing/testenv"
)

// Every client authenticates in its own way.
func TestClientsAuthenticate(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "users.acl")
	require.NoError(t, os.WriteFile(file, []byte("user default on >secret ~* &* +@all\n"+
		"user app on >apples ~rl:* "+strings.Join(acl.RoleLimit, " ")+"\n"), 0o600))
	s := start(t, "--aclfile", file)
	as := func(user, password string) *redis.Client {
		c := redis.NewClient(&redis.Options{Addr: "127.0.0.1:" + s.port, Username: user, Password: password, MaxRetries: -1})
		t.Cleanup(func() { assert.NoError(t, c.Close()) })
		return c
	}
	t.Run("go-redis", func(t *testing.T) {
		require.NoError(t, as("", "secret").Ping(t.Context()).Err())
		require.ErrorContains(t, as("", "wrong").Ping(t.Context()).Err(), "WRONGPASS")
		require.ErrorContains(t, as("", "").Ping(t.Context()).Err(), "NOAUTH")
		app := as("app", "apples")
		got, err := app.Do(t.Context(), "CL.THROTTLE", "rl:a", 15, 30, 60).Int64Slice()
		require.NoError(t, err)
		assert.EqualValues(t, 15, got[2])
		require.ErrorContains(t, app.Do(t.Context(), "CL.THROTTLE", "other", 15, 30, 60).Err(), "NOPERM")
		require.ErrorContains(t, app.Do(t.Context(), "CL.THROTTLE", "rl:a", 15, 30, 60, -1).Err(), "NOPERM")
		require.ErrorContains(t, app.Del(t.Context(), "rl:a").Err(), "NOPERM")
	})
	t.Run("redis-cli", func(t *testing.T) {
		cli := testenv.Tool(t, "redis-cli")
		assert.Equal(t, "PONG\n", converse(t, "", cli, "-p", s.port, "--no-auth-warning", "-a", "secret", "PING"))
		assert.Equal(t, "0\n16\n15\n-1\n2\n", converse(t, "", cli, "-p", s.port, "--no-auth-warning", "--user", "app", "--pass", "apples",
			"CL.THROTTLE", "rl:cli", "15", "30", "60"))
		assert.Equal(t, "NOAUTH Authentication required.\n\n", converse(t, "", cli, "-p", s.port, "PING"))
	})
	t.Run("redis-py", func(t *testing.T) {
		python := testenv.Tool(t, "/usr/bin/python3")
		if exec.Command(python, "-c", "import redis").Run() != nil {
			missing(t, "redis-py for "+python)
		}
		assert.Equal(t, "[0, 16, 15, -1, 2]\nTrue\n", converse(t, `
import redis
c = redis.Redis(port=`+s.port+`, username="app", password="apples")
print(c.execute_command("CL.THROTTLE", "rl:py", 15, 30, 60))
try:
    redis.Redis(port=`+s.port+`, username="app", password="pears").ping()
except redis.exceptions.RedisError as e:
    print("WRONGPASS" in str(e) or type(e).__name__ == "AuthenticationError")
`, python, "-"))
	})
	t.Run("node-redis", func(t *testing.T) {
		node := os.Getenv("CELLSERVER_TEST_NODE")
		if node == "" {
			missing(t, "the path of node in CELLSERVER_TEST_NODE")
		}
		modules, err := filepath.Abs("testdata/clients/node/node_modules/redis")
		require.NoError(t, err)
		assert.Equal(t, "[ 0, 16, 15, -1, 2 ]\nWRONGPASS\n", converse(t, `
const { createClient } = require(`+"`${process.argv[2]}`"+`)
const at = (password) => createClient({ url: 'redis://127.0.0.1:`+s.port+`', username: 'app', password,
	socket: { reconnectStrategy: false } }).on('error', () => {})
;(async () => {
	const c = await at('apples').connect()
	console.log(await c.sendCommand(['CL.THROTTLE', 'rl:node', '15', '30', '60']))
	await c.close()
	await at('pears').connect().catch((e) => console.log(e.message.split(' ')[0]))
})()
`, node, "-", modules))
	})
	t.Run("what is changed can be kept", func(t *testing.T) {
		admin := as("", "secret")
		require.NoError(t, admin.Do(t.Context(), "ACL", "SETUSER", "late", "on", ">latecomer", "+ping").Err())
		require.NoError(t, admin.Do(t.Context(), "ACL", "SAVE").Err())
		kept, err := os.ReadFile(file)
		require.NoError(t, err)
		assert.Contains(t, string(kept), "user late on ")
		assert.NotContains(t, string(kept), "latecomer", "passwords are kept as digests")
		require.NoError(t, admin.Do(t.Context(), "ACL", "DELUSER", "late").Err())
		require.Error(t, as("late", "latecomer").Ping(t.Context()).Err())
		require.NoError(t, admin.Do(t.Context(), "ACL", "LOAD").Err())
		require.NoError(t, as("late", "latecomer").Ping(t.Context()).Err())
	})
}

// A thousand wrong passwords are refused, and the log gets at most one line a second about them.
func TestGuessedPasswordsAreLoggedOnceASecond(t *testing.T) {
	p := start(t, "--requirepass", "secret")
	c := redis.NewClient(&redis.Options{Addr: p.addr, Password: "secret"})
	t.Cleanup(func() { assert.NoError(t, c.Close()) })
	for i := range 1000 {
		require.ErrorContains(t, c.Do(t.Context(), "AUTH", strings.Repeat("secre", i%3+1)).Err(), "WRONGPASS")
	}
	lines := strings.Count(p.log.String(), "authentication failed")
	assert.Positive(t, lines)
	assert.Less(t, lines, 100, "at most one a second")
	assert.NotContains(t, p.log.String(), "secre")
	denied, err := c.Do(t.Context(), "ACL", "LOG").Slice()
	require.NoError(t, err)
	assert.Len(t, denied, 1, "and one line of ACL LOG, with their number")
}

func TestFailedStartOverUsersSaysWhy(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "users.acl")
	for name, text := range map[string]string{"no file": "", "a wrong rule": "user x on +nonsense\n", "no user": "nonsense\n"} {
		t.Run(name, func(t *testing.T) {
			if text != "" {
				require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
			}
			p := launch(t, nil, "--port", freePort(t), "--aclfile", file)
			assert.Equal(t, 1, p.exit())
			p.says("aclfile: ")
		})
	}
}

// A real Redis and this server can share a file of users: the file that either writes after any rules loads in the other, and
// both list the same users. The rules leave out selectors and first arguments, which this server refuses, and ~* made of %R~*
// and %W~*, which Redis writes in a form that it cannot read.
func TestUsersFileLoadsInRedisAndHere(t *testing.T) {
	file := filepath.Join(t.TempDir(), "users.acl")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	r := redis.NewClient(&redis.Options{Network: "unix", Addr: testenv.Redis(t, "--aclfile", file), Protocol: 2, MaxRetries: -1})
	t.Cleanup(func() { assert.NoError(t, r.Close()) })
	list := func(c *redis.Client, words ...any) []string {
		t.Helper()
		names, err := c.Do(context.Background(), words...).StringSlice()
		require.NoError(t, err)
		return names
	}
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	pick := func(from ...string) string { return from[random.IntN(len(from))] }
	commands, categories := list(r, "COMMAND", "LIST"), append(list(r, "ACL", "CAT"), "all")
	rule := func() string {
		switch random.IntN(8) {
		case 0:
			return pick("on", "off", "nopass", "resetpass", "reset", "sanitize-payload", "skip-sanitize-payload", "resetkeys",
				"allkeys", "resetchannels", "allchannels", "nocommands", "allcommands")
		case 1:
			return pick(">", "<") + pick("p", "q")
		case 2:
			return pick("~", "%R~", "%W~", "%RW~", "&") + pick("a", "b:*", "[c-d]?")
		case 3, 4:
			return pick("+@", "-@") + pick(categories...)
		}
		return pick("+", "-") + pick(commands...)
	}
	accepted := 0
	for user := range 100 {
		for range 1 + random.IntN(12) {
			if r.Do(t.Context(), "ACL", "SETUSER", fmt.Sprintf("user%d", user), rule()).Err() == nil {
				accepted++
			}
		}
	}
	require.Greater(t, accepted, 100)
	require.NoError(t, r.Do(t.Context(), "ACL", "SAVE").Err())
	theirs, err := os.ReadFile(file)
	require.NoError(t, err)

	c := start(t, "--aclfile", file).client(t)
	sameLines(t, strings.Split(strings.TrimSpace(string(theirs)), "\n"), list(c, "ACL", "LIST"))
	require.NoError(t, c.Do(t.Context(), "ACL", "SAVE").Err())
	ours, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Equal(t, string(theirs), string(ours))

	// Redis also accepts the rules as this server writes them, though it writes them differently.
	for user := range 100 {
		name, rules := fmt.Sprintf("own%d", user), []any{}
		for range 1 + random.IntN(12) {
			rules = append(rules, rule())
		}
		give := func(c *redis.Client) bool {
			return c.Do(t.Context(), append([]any{"ACL", "SETUSER", name}, rules...)...).Err() == nil
		}
		require.Equal(t, give(r), give(c), "%q", rules)
	}
	// Redis lists single commands in the order of a hash table, which changes when it is resized.
	sorted := func() (lines []string) {
		for _, line := range list(r, "ACL", "LIST") {
			words := strings.Split(line, " ")
			slices.Sort(words[2:])
			lines = append(lines, strings.Join(words, " "))
		}
		return lines
	}
	want := sorted()
	require.NoError(t, c.Do(t.Context(), "ACL", "SAVE").Err())
	require.NoError(t, r.Do(t.Context(), "ACL", "LOAD").Err())
	sameLines(t, want, sorted())
}

func sameLines(t *testing.T, want, got []string) {
	t.Helper()
	require.Len(t, got, len(want))
	for i := range want {
		require.Equal(t, want[i], got[i])
	}
}
