package test

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"cellserver/internal/testing/testenv"
)

// converse runs a program and returns its standard output. The test fails unless the program succeeds with an empty standard
// error.
func converse(t *testing.T, stdin, name string, args ...string) (stdout string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Stdin = strings.NewReader(stdin)
	cmd.Env = append(os.Environ(), "HOME="+t.TempDir(), "TERM=dumb") // redis-cli writes its history to HOME
	var out, said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &said
	err := cmd.Run()
	require.NoError(t, err, "%s %q\n%s%s", name, args, said.String(), out.String())
	assert.Empty(t, said.String(), "the standard error of %s %q", name, args)
	return out.String()
}

func TestRedisCLIConversesAsWithRedis(t *testing.T) {
	path := testenv.Tool(t, "redis-cli")
	s := start(t)
	cli := func(t *testing.T, args ...string) string {
		t.Helper()
		return converse(t, "", path, append([]string{"-p", s.port}, args...)...)
	}
	t.Run("the conversation of a newcomer", func(t *testing.T) {
		assert.Equal(t, "PONG\n", cli(t, "PING"))
		assert.Equal(t, "0\n16\n15\n-1\n2\n", cli(t, "CL.THROTTLE", "user123", "15", "30", "60", "1"))
		assert.Equal(t, "1) (integer) 0\n2) (integer) 3\n3) (integer) 2\n4) (integer) -1\n5) (integer) 60\n",
			cli(t, "--no-raw", "CL.ZSLIDE", "login:alice", "3", "60"))
		assert.Equal(t, "zslide\n", cli(t, "TYPE", "login:alice"))
		assert.Equal(t, "(integer) 1\n", cli(t, "--no-raw", "DEL", "login:alice"))
		assert.Equal(t, "ERR wrong number of arguments for 'cl.throttle' command\n\n", cli(t, "CL.THROTTLE", "user123"))
		assert.Equal(t, "WRONGTYPE Operation against a key holding the wrong kind of value\n\n", cli(t, "GET", "user123"))
		assert.Equal(t, "ERR unknown command 'LLEN', with args beginning with: 'user123' \n\n", cli(t, "LLEN", "user123"))
	})
	t.Run("in RESP3", func(t *testing.T) {
		assert.Equal(t, "1) (integer) 0\n2) (integer) 5\n3) (integer) 4\n4) (integer) -1\n5) (integer) 60\n",
			cli(t, "-3", "--no-raw", "CL.WINDOW", "three", "5", "60"))
		assert.Equal(t, "1# \"port\" => \""+s.port+"\"\n", cli(t, "-3", "--no-raw", "CONFIG", "GET", "port"))
	})
	t.Run("HELLO", func(t *testing.T) {
		flat := cli(t, "HELLO")
		assert.True(t, strings.HasPrefix(flat, "server\nredis\nversion\n7.2.4\nproto\n2\nid\n"), flat)
		tree := cli(t, "-3", "--no-raw", "HELLO")
		assert.Contains(t, tree, "\"proto\" => (integer) 3\n")
		assert.Contains(t, tree, "\"server_name\" => \"cellserver\"\n")
	})
	t.Run("COMMAND DOCS", func(t *testing.T) {
		docs := cli(t, "COMMAND", "DOCS", "CL.ZSLIDE")
		assert.True(t, strings.HasPrefix(docs, "cl.zslide\nsummary\n"), docs)
		assert.Contains(t, docs, "\narguments\nname\nkey\ntype\nkey\n")
	})
	t.Run("a session, which begins with COMMAND DOCS", func(t *testing.T) {
		said := converse(t, "help cl.throttle\nhelp client setname\nCL.THROTTLE typed 1 1 10\nHELLO 3\nINFO server\n", path, "-p", s.port)
		assert.Contains(t, said, "key max_burst count period [quantity [PEEK] [MS]]")
		assert.Contains(t, said, "Name this connection.")
		assert.Contains(t, said, "\n0\n2\n1\n-1\n10\n")
		assert.Contains(t, said, "\nserver_name:cellserver")
	})
	t.Run("what walks over the keys", func(t *testing.T) {
		cli(t, "FLUSHALL")
		cli(t, "CL.THROTTLE", "a:1", "15", "1", "3600")
		cli(t, "CL.WINDOW", "a:2", "5", "3600")
		cli(t, "CL.ZSLIDE", "b", "5", "3600")
		assert.ElementsMatch(t, []string{"a:1", "a:2", "b"}, strings.Fields(cli(t, "--scan")))
		assert.ElementsMatch(t, []string{"a:1", "a:2"}, strings.Fields(cli(t, "--scan", "--pattern", "a:*")))
		for _, option := range []string{"--bigkeys", "--memkeys"} {
			report := cli(t, option)
			assert.Contains(t, report, "Sampled 3 keys in the keyspace!", option)
			for _, kind := range []string{"throttle", "window", "zslide"} {
				assert.Contains(t, report, "1 "+kind+"s with ", option)
			}
		}
	})
}

func TestRedisBenchmarkRunsWithoutErrors(t *testing.T) {
	path := testenv.Tool(t, "redis-benchmark")
	s := start(t)
	report := converse(t, "", path, "-p", s.port, "-n", "100000", "-P", "16", "-r", "100000",
		"CL.THROTTLE", "key:__rand_int__", "15", "30", "60")
	assert.Contains(t, report, "100000 requests completed")
	assert.NotContains(t, report, "WARNING")
	assert.NotContains(t, report, "ERR")
	info := s.client(t).Info(t.Context(), "commandstats").Val()
	assert.Regexp(t, `cmdstat_cl\.throttle:calls=1000..,usec=\d+,usec_per_call=[\d.]+,rejected_calls=0,failed_calls=0\r\n`, info)
}

func TestInlineCommandsFromNetcatAreAnswered(t *testing.T) {
	name := "nc"
	if _, err := exec.LookPath("nc.openbsd"); err == nil {
		name = "nc.openbsd"
	}
	path := testenv.Tool(t, name)
	s := start(t)
	assert.Equal(t, "+PONG\r\n*5\r\n:0\r\n:16\r\n:15\r\n:-1\r\n:2\r\n$11\r\nhello world\r\n",
		converse(t, "PING\r\nCL.THROTTLE typed 15 30 60\n\r\necho \"hello\\x20world\"\r\n", path, "-N", "127.0.0.1", s.port))
}

// missing skips or fails the test as testenv.Tool does, for something that is not a program.
func missing(t *testing.T, what string) {
	t.Helper()
	if os.Getenv(testenv.Strict) == "1" {
		t.Fatalf("needs %s: run scripts/test-deps", what)
	}
	t.Skipf("needs %s: run scripts/test-deps", what)
}

func TestNodeClientsConverse(t *testing.T) {
	node := os.Getenv("CELLSERVER_TEST_NODE")
	if node == "" {
		missing(t, "the path of node in CELLSERVER_TEST_NODE")
	}
	if _, err := os.Stat("testdata/clients/node/node_modules"); err != nil {
		missing(t, "the clients in testdata/clients/node/node_modules")
	}
	s := start(t)
	for _, name := range []string{"node_redis", "ioredis"} {
		t.Run(name, func(t *testing.T) {
			assert.Equal(t, "ok\n", converse(t, "", node, "testdata/clients/node/"+name+".mjs", "127.0.0.1", s.port))
		})
	}
}

func TestPythonClientConverses(t *testing.T) {
	python := testenv.Tool(t, "/usr/bin/python3")
	if exec.Command(python, "-c", "import redis").Run() != nil {
		missing(t, "redis-py for "+python)
	}
	s := start(t)
	assert.Equal(t, "ok\n", converse(t, "", python, "testdata/clients/python/redis_py.py", "127.0.0.1", s.port))
}
