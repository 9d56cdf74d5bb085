package test

import (
	"context"
	"crypto/tls"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/valkey-io/valkey-go"

	"cellserver/internal/acl"
	"cellserver/internal/testing/testenv"
)

// documentedUser returns the ACL SETUSER command in SECURITY.md that creates a user.
func documentedUser(t *testing.T, name string) []any {
	t.Helper()
	text, err := os.ReadFile("../SECURITY.md")
	require.NoError(t, err)
	var found []any
	for line := range strings.Lines(string(text)) {
		words := strings.Fields(line)
		if len(words) > 3 && strings.HasPrefix(line, "    ") && strings.Join(words[:3], " ") == "ACL SETUSER "+name {
			require.Nil(t, found, "two of them")
			for _, w := range words {
				found = append(found, w)
			}
		}
	}
	require.NotNil(t, found, "no ACL SETUSER %s in SECURITY.md", name)
	return found
}

// The roles in SECURITY.md have the rights that the program gives them.
func TestRolesInSecurityMDAreThoseOfTheProgram(t *testing.T) {
	for name, want := range map[string]string{
		"service":  "~rl:* " + strings.Join(acl.RoleLimit, " "),
		"operator": strings.Join(acl.RoleAdmin, " "),
	} {
		assert.Equal(t, "[ACL SETUSER "+name+" on >secret "+want+"]", fmt.Sprint(documentedUser(t, name)))
	}
}

// The service user may use keys through limit commands only, and no commands for operators except those that clients send
// when they connect. This holds for every command in the table, including new ones.
func TestServiceUserMayDoOnlyWhatIsDocumented(t *testing.T) {
	c := start(t).client(t)
	require.NoError(t, c.Do(t.Context(), documentedUser(t, "service")...).Err())
	asked := map[string]bool{"info": true, "role": true}
	var allowed []string
	var walk func(rows []any)
	walk = func(rows []any) {
		for _, r := range rows {
			row := r.([]any)
			name, arity := row[0].(string), row[1].(int64)
			walk(row[9].([]any))
			if len(row[9].([]any)) > 0 && name != "command" {
				continue // a container cannot be called
			}
			call := []any{"ACL", "DRYRUN", "service"}
			for word := range strings.SplitSeq(name, "|") {
				call = append(call, word)
			}
			for int64(len(call)-3) < max(arity, -arity) {
				call = append(call, "rl:1")
			}
			said, err := c.Do(t.Context(), call...).Text()
			require.NoError(t, err, call)
			if said != "OK" {
				assert.Contains(t, said, "no permissions", call)
				continue
			}
			allowed = append(allowed, name)
			categories := fmt.Sprint(row[6], " ")
			for _, denied := range []string{"@keyspace ", "@admin ", "@dangerous ", "@read ", "@write ", "@scripting "} {
				ofLimits := strings.Contains(categories, "@throttle ") && (denied == "@read " || denied == "@write ")
				assert.False(t, strings.Contains(categories, denied) && !ofLimits && !asked[name], "%s of %s", name, categories)
			}
		}
	}
	rows, err := c.Do(t.Context(), "COMMAND").Slice()
	require.NoError(t, err)
	walk(rows)
	assert.Subset(t, allowed, []string{"cl.throttle", "cl.window", "cl.zslide", "cl.all", "client|tracking", "info", "exec"})
	assert.NotContains(t, allowed, "del")
	assert.NotContains(t, allowed, "client|kill")
}

// way is how a client connects to a server: in plain text or with TLS.
type way struct {
	addr, port string
	tls        *tls.Config // nil for plain text
	ca         string
	cert, key  string
}

// files returns the arguments of the scripts for the files of TLS.
func (w *way) files() []string {
	if w.tls == nil {
		return nil
	}
	return []string{w.ca, w.cert, w.key}
}

// The user that SECURITY.md recommends for services works with every client that is tested here: no command that a client
// sends by itself is denied.
func TestEveryClientWorksAsTheServiceUserOfSecurityMD(t *testing.T) {
	s := startSecret(t, "--requirepass", "admin's")
	admin := redis.NewClient(&redis.Options{Addr: s.addr, Password: "admin's"})
	t.Cleanup(func() { assert.NoError(t, admin.Close()) })
	require.NoError(t, admin.Do(t.Context(), documentedUser(t, "service")...).Err())
	ways := map[string]*way{
		"plain": {addr: s.addr, port: s.port},
		"TLS": {addr: s.tlsAddr, port: s.tlsPort, tls: s.config(t), ca: s.files["ca"],
			cert: s.files["clientCert"], key: s.files["clientKey"]},
	}
	want := []int64{0, 16, 15, -1, 2}
	for name, converse := range map[string]func(t *testing.T, w *way, key string){
		"go-redis": func(t *testing.T, w *way, key string) {
			c := redis.NewClient(&redis.Options{Addr: w.addr, Username: "service", Password: "secret", ClientName: "app",
				TLSConfig: w.tls, MaxRetries: -1})
			defer c.Close()
			got, err := c.Do(t.Context(), "CL.THROTTLE", key, 15, 30, 60).Int64Slice()
			require.NoError(t, err)
			assert.Equal(t, want, got)
			_, err = c.TxPipelined(t.Context(), func(p redis.Pipeliner) error {
				return p.Do(t.Context(), "CL.THROTTLE", key, 15, 30, 60).Err()
			})
			require.NoError(t, err)
		},
		"rueidis": func(t *testing.T, w *way, key string) {
			for _, uncached := range []bool{false, true} {
				c, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{w.addr}, Username: "service",
					Password: "secret", ClientName: "app", TLSConfig: w.tls, DisableCache: uncached})
				require.NoError(t, err)
				got, err := c.Do(t.Context(), c.B().ClThrottle().Key(key+fmt.Sprint(uncached)).MaxBurst(15).CountPerPeriod(30).
					Period(60).Build()).AsIntSlice()
				c.Close()
				require.NoError(t, err)
				assert.Equal(t, want, got)
			}
		},
		"valkey-go": func(t *testing.T, w *way, key string) {
			for _, uncached := range []bool{false, true} {
				c, err := valkey.NewClient(valkey.ClientOption{InitAddress: []string{w.addr}, Username: "service",
					Password: "secret", ClientName: "app", TLSConfig: w.tls, DisableCache: uncached})
				require.NoError(t, err)
				got, err := c.Do(t.Context(), c.B().ClThrottle().Key(key+fmt.Sprint(uncached)).MaxBurst(15).CountPerPeriod(30).
					Period(60).Build()).AsIntSlice()
				c.Close()
				require.NoError(t, err)
				assert.Equal(t, want, got)
			}
		},
		"redis-cli":  serviceOfRedisCLI,
		"redis-py":   serviceOfPython,
		"node_redis": serviceOfNode("node_redis"),
		"ioredis":    serviceOfNode("ioredis"),
		"redis3":     serviceOfNode("redis3"),
	} {
		for how, w := range ways {
			t.Run(name+" "+how, func(t *testing.T) {
				require.NoError(t, admin.Do(t.Context(), "ACL", "LOG", "RESET").Err())
				converse(t, w, "rl:"+name+how)
				denied, err := admin.Do(t.Context(), "ACL", "LOG").Slice()
				require.NoError(t, err)
				assert.Empty(t, denied, "what was denied")
			})
		}
	}
	t.Run("other clients", func(t *testing.T) { serviceOfOthers(t, s.server) })
}

func serviceOfRedisCLI(t *testing.T, w *way, key string) {
	args := []string{"-p", w.port, "--no-auth-warning", "--user", "service", "--pass", "secret"}
	if w.tls != nil {
		args = append(args, "--tls", "--cacert", w.ca, "--cert", w.cert, "--key", w.key)
	}
	for _, more := range [][]string{nil, {"-3"}} {
		key += "+"
		// Typed, so that it asks for COMMAND DOCS.
		said := converse(t, "SELECT 0\nCL.THROTTLE "+key+" 15 30 60\n", testenv.Tool(t, "redis-cli"), append(args, more...)...)
		assert.Equal(t, "OK\n0\n16\n15\n-1\n2\n", strings.ReplaceAll(said, "\n\n", "\n"))
	}
}

func serviceOfPython(t *testing.T, w *way, _ string) {
	python := testenv.Tool(t, "/usr/bin/python3")
	if exec.Command(python, "-c", "import redis").Run() != nil {
		missing(t, "redis-py for "+python)
	}
	args := append([]string{"testdata/clients/python/as_user.py", w.port, "service", "secret"}, w.files()...)
	assert.Equal(t, "ok\n", converse(t, "", python, args...))
}

func serviceOfNode(client string) func(t *testing.T, w *way, key string) {
	return func(t *testing.T, w *way, _ string) {
		node := os.Getenv("CELLSERVER_TEST_NODE")
		if node == "" {
			missing(t, "the path of node in CELLSERVER_TEST_NODE")
		}
		folder := map[string]string{"node_redis": "redis"}[client]
		if folder == "" {
			folder = client
		}
		if _, err := os.Stat("testdata/clients/node/node_modules/" + folder); err != nil {
			missing(t, folder+" in testdata/clients/node/node_modules")
		}
		args := append([]string{"testdata/clients/node/as_user.mjs", "127.0.0.1", w.port, client, "service", "secret"}, w.files()...)
		assert.Equal(t, "ok\n", converse(t, "", node, args...))
	}
}

// serviceOfOthers sends the commands that other clients send before the first command of their application, or with it.
func serviceOfOthers(t *testing.T, s *server) {
	for name, lines := range map[string]string{
		"valkey-glide":        "HELLO 3 AUTH service secret|CLIENT SETINFO LIB-NAME GlideJS|CLIENT SETINFO LIB-VER 2.0|INFO REPLICATION",
		"Laravel, phpredis":   "AUTH service secret|CLIENT SETNAME app|SELECT 0",
		"predis":              "AUTH service secret|SELECT 0|CLIENT SETINFO LIB-NAME predis",
		"redis-rs":            "HELLO 3 AUTH service secret|CLIENT SETINFO LIB-NAME redis-rs|COMMAND INFO CL.THROTTLE|SELECT 0",
		"Lettuce":             "HELLO 3 AUTH service secret SETNAME app|CLIENT SETINFO lib-name Lettuce|SELECT 0|PING",
		"Jedis":               "AUTH service secret|CLIENT SETNAME app|CLIENT SETINFO LIB-NAME jedis|SELECT 0|QUIT",
		"StackExchange.Redis": "HELLO 3 AUTH service secret SETNAME app|CLIENT ID|INFO replication|INFO server|ECHO marker",
		"redis-rb, Sidekiq":   "HELLO 3 AUTH service secret|SELECT 0|CLIENT SETINFO LIB-NAME redis-client|CLIENT NO-TOUCH ON|INFO",
		"tracking":            "HELLO 3 AUTH service secret|CLIENT TRACKING ON OPTIN|CLIENT CACHING YES|CLIENT INFO",
		"transactions":        "AUTH service secret|MULTI|CL.THROTTLE rl:tx 1 1 1|EXEC|MULTI|DISCARD|RESET",
		"explaining":          "AUTH service secret|COMMAND|COMMAND COUNT|COMMAND DOCS CL.ALL|COMMAND LIST|CLIENT HELP",
	} {
		t.Run(name, func(t *testing.T) {
			c := redis.NewClient(&redis.Options{Addr: s.addr, Protocol: 2, DisableIdentity: true, MaxRetries: -1, PoolSize: 1})
			defer c.Close()
			one := c.Conn()
			defer one.Close()
			for line := range strings.SplitSeq(lines, "|") {
				var words []any
				for _, w := range strings.Fields(line) {
					words = append(words, w)
				}
				require.NoError(t, one.Do(context.Background(), words...).Err(), line)
			}
		})
	}
}
