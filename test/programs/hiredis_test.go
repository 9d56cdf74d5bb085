package programs

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"cellserver/internal/testing/testenv"
)

// hiredis builds testdata/hiredis/send.c, and returns a driver that sends commands.
func hiredis(t *testing.T, commands ...[]string) driver {
	t.Helper()
	path := filepath.Join(t.TempDir(), "send")
	if said, err := exec.Command(testenv.Tool(t, "cc"), "-Wall", "-o", path, "testdata/hiredis/send.c", "-lhiredis").CombinedOutput(); err != nil {
		missing(t, "hiredis ("+strings.TrimSpace(string(said))+")")
	}
	var input strings.Builder
	escape := strings.NewReplacer(`\`, `\\`, "\n", `\n`)
	for _, words := range commands {
		for _, word := range words {
			if word == "" {
				word = `\e`
			} else {
				word = escape.Replace(word)
			}
			fmt.Fprintln(&input, word)
		}
		fmt.Fprintln(&input)
	}
	return func(s server) *exec.Cmd {
		cmd := exec.Command(path, "127.0.0.1", s.port)
		cmd.Stdin = strings.NewReader(input.String())
		return cmd
	}
}

// Clients that cannot send a command which they do not know, or cannot read its reply, send it in a script of one line.
func TestWrappersThroughHiredisAnswerAsOnRedis(t *testing.T) {
	t.Parallel()
	compare(t, pair(t), hiredis(t, [][]string{
		{"EVAL", "return redis.call('incrby', KEYS[1], ARGV[1])", "1", "counter", "3"},
		{"EVAL", `return redis.call("INCRBY",KEYS[1],ARGV[1]);`, "1", "counter", "3"},
		{"EVAL", "return {redis.call('incrby', KEYS[1], ARGV[1])}", "1", "counter", "3"},
		{"EVAL", "return redis.call('mget', KEYS[1], KEYS[2])[1]", "2", "counter", "none"},
		{"EVAL", "return redis.call('mget', KEYS[1], KEYS[2])[2]", "2", "counter", "none"},
		{"EVAL", "\n  return redis.call('SET', KEYS[1], ARGV[1], 'EX', 600)\n", "1", "{user}", "5"},
		{"EVAL", "return redis.call('ttl', KEYS[1])", "1", "{user}"},
		{"EVAL", "return redis.call('get', KEYS[1])", "1", "none"},
		{"EVAL", "return redis.call('set', KEYS[1], 7, 'nx')", "1", "counter"},
		{"EVAL", "return redis.call('get')", "0"},
		{"EVAL", "return redis.pcall('get')", "0"},
		{"EVAL", "return redis.call('incr', KEYS[1])", "0"},
		{"EVAL", "return redis.call('incr', KEYS[1])", "2", "counter"},
		{"SCRIPT", "LOAD", "return redis.call('get', KEYS[1])"},
		{"EVALSHA", "4e6d8fc8bb01276962cce5371fa795a7763657ae", "1", "counter"},
		{"SCRIPT", "EXISTS", "4e6d8fc8bb01276962cce5371fa795a7763657ae", strings.Repeat("0", 40)},
		{"EVALSHA", strings.Repeat("0", 40), "0"},
		{"EVAL", "return redis.call('get', KEYS[1])", "1", ""},
	}...))
}

// CL.THROTTLE in the spellings that users of Spring, Lettuce, Jedis and Redisson have, beside the command itself.
func TestThrottleInAScriptThroughHiredisAnswersAsTheCommand(t *testing.T) {
	t.Parallel()
	spellings := [][]string{
		{"return redis.call('cl.throttle', KEYS[1], ARGV[1], ARGV[2], ARGV[3], ARGV[4])", "1", "key", "2", "10", "60", "1"},
		{"return redis.call('CL.THROTTLE',KEYS[1],ARGV[1],ARGV[2],ARGV[3],ARGV[4])", "1", "key", "2", "10", "60", "1"},
		{`return redis.call("CL.THROTTLE", KEYS[1], ARGV[1], ARGV[2], ARGV[3], ARGV[4]);`, "1", "key", "2", "10", "60", "1"},
		{"return redis.call('CL.THROTTLE', KEYS[1], ARGV[1], ARGV[2], ARGV[3])", "1", "key", "2", "10", "60"},
		{"return redis.call('CL.THROTTLE', KEYS[1], 2, 10, 60, 1)", "1", "key"},
		{`return redis.call("cl.throttle", KEYS[1], "2", "10", "60", "1")`, "1", "key"},
		{"return redis.call('CL.THROTTLE', ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5])", "0", "key", "2", "10", "60", "1"},
		{"return redis.call('CL.THROTTLE', KEYS[1], KEYS[2], KEYS[3], KEYS[4])", "4", "key", "2", "10", "60"},
		{"-- one request of a user\nreturn redis.call(\n  'CL.THROTTLE',\n  KEYS[1],\n  ARGV[1],\n  ARGV[2],\n  ARGV[3],\n  ARGV[4]\n)\n", "1", "key", "2", "10", "60", "1"},
		{"return redis.pcall('cl.throttle', KEYS[1], ARGV[1], ARGV[2], ARGV[3], ARGV[4])", "1", "key", "2", "10", "60", "1"},
	}
	s := startCellserver(t)
	var commands [][]string
	for n, script := range spellings {
		key := fmt.Sprint("user:", n)
		words := append([]string{"EVAL"}, script...)
		for i, w := range words {
			if w == "key" {
				words[i] = key
			}
		}
		for range 4 {
			commands = append(commands, words)
		}
		commands = append(commands, []string{"TTL", key})
	}
	for range 4 {
		commands = append(commands, []string{"CL.THROTTLE", "user", "2", "10", "60", "1"})
	}
	commands = append(commands, []string{"TTL", "user"})
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	r, err := drive(ctx, hiredis(t, commands...)(s))
	require.NoError(t, err)
	said := r.said
	require.Len(t, said, len(commands))
	direct := said[len(said)-5:]
	assert.Equal(t, "array [integer 0, integer 3, integer 2, integer -1, integer 6]", direct[0].text)
	assert.Equal(t, "array [integer 1, integer 3, integer 0, integer 6, integer 18]", direct[3].text)
	for n, script := range spellings {
		for i, want := range direct {
			assert.Equal(t, want.text, said[5*n+i].text, script[0])
		}
	}
}

// Scripts of limits, whose texts Debian's package has in files, sent first by their text and then by their SHA-1.
func TestKnownScriptsThroughHiredisAnswerAsOnRedis(t *testing.T) {
	t.Parallel()
	const folder = "/usr/lib/python3/dist-packages/limits/resources/redis/lua_scripts/"
	read := func(name string) string {
		text, err := os.ReadFile(folder + name)
		if err != nil {
			missing(t, folder+name)
		}
		return string(text)
	}
	increment, clear := read("incr_expire.lua"), read("clear_keys.lua")
	const incrementSHA1, clearSHA1 = "628bd136a573a06b346879695681af12ccef300f", "f2994557f1daca13bfef97c2a31ca4b174e031ca"
	compare(t, pair(t), hiredis(t, [][]string{
		{"SCRIPT", "LOAD", increment},
		{"EVAL", increment, "1", "LIMITER:ann", "600", "1"},
		{"EVALSHA", incrementSHA1, "1", "LIMITER:ann", "600", "1"},
		{"EVALSHA", strings.ToUpper(incrementSHA1), "1", "LIMITER:ann", "600", "5"},
		{"EVALSHA", incrementSHA1, "1", "LIMITER:ben", "600", "1"},
		{"EVALSHA", incrementSHA1, "1", "kept", "600", "1"},
		{"EVALSHA", incrementSHA1, "2", "LIMITER:ben"},
		{"EVALSHA", incrementSHA1, "many", "LIMITER:ben"},
		{"EVALSHA", incrementSHA1, "-1", "LIMITER:ben"},
		{"EVAL", clear, "1", "LIMITER:b*"},
		{"EVALSHA", clearSHA1, "1", "LIMITER:none*"},
		{"SCRIPT", "EXISTS", incrementSHA1, clearSHA1},
	}...))
}
