package acl_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"cellserver/internal/acl"
)

func TestKeysAsRedisAllowsThem(t *testing.T) {
	r := startRedis(t)
	l := list(r.commands(t))
	random := rand.New(rand.NewPCG(7, 7))
	text := func(of string, most int) string {
		b := make([]byte, random.IntN(most+1))
		for i := range b {
			b[i] = of[random.IntN(len(of))]
		}
		return string(b)
	}
	keys := []string{"", "a", "b", "ab", "aab", "*", "[", "]", "\\", "^", "-", "a-b", "a]"}
	for range 20 {
		keys = append(keys, text(`ab*?[]^-\`, 6))
	}
	for range 150 {
		rules := []string{"+@all"}
		for range 1 + random.IntN(2) {
			rules = append(rules, []string{"~", "%R~", "%W~"}[random.IntN(3)]+text(`ab*?[]^-\`, 6))
		}
		if slices.ContainsFunc(rules, func(rule string) bool { return strings.HasSuffix(rule, "~*") }) {
			continue
		}
		require.True(t, setBoth(t, r, l, "u", rules))
		u, _ := l.User("u")
		pipe := r.Pipeline()
		for _, key := range keys {
			for _, call := range [][]any{{"get", key}, {"set", key, "1"}, {"getdel", key}} {
				pipe.Do(context.Background(), append([]any{"ACL", "DRYRUN", "u"}, call...)...)
			}
		}
		replies, _ := pipe.Exec(context.Background())
		for i, key := range keys {
			for j, how := range []struct{ read, write bool }{{true, false}, {false, true}, {true, true}} {
				reply, err := replies[3*i+j].(*redis.Cmd).Text()
				require.NoError(t, err)
				require.Equal(t, reply == "OK", u.AllowsKey([]byte(key), how.read, how.write), "%q %q %v: %s", rules, key, how, reply)
			}
		}
	}
}

func TestPasswordsAsRedisTakesThem(t *testing.T) {
	r := startRedis(t)
	l := list(r.commands(t))
	for _, rules := range []string{"on >p", "off >p", "on nopass", "off nopass", "on", "on >p >q <p", "on >", "on >p\xff\r\n"} {
		require.True(t, setBoth(t, r, l, "u", append(strings.Split(rules, " "), "+@all")))
		for _, user := range []string{"u", "U", "", "nobody"} {
			for _, password := range []string{"p", "q", "", "P", "p\xff\r\n", hashOfP} {
				other := r.client()
				theirs := other.Do(context.Background(), "AUTH", user, password).Err()
				require.NoError(t, other.Close())
				_, ok := l.Authenticate(user, []byte(password))
				assert.Equal(t, theirs == nil, ok, "%q: %q %q: %v", rules, user, password, theirs)
			}
		}
	}
}

func TestFilesAsRedisReadsThem(t *testing.T) {
	r := startRedis(t)
	l := list(r.commands(t))
	for _, file := range []string{
		"", "\n", "user x on", "user x on\nuser default off >p +@all ~*\n", "user default on nopass +@all ~*\nuser y",
		"user  on\n user y  on\t \nuser z\r\n", "user x foo bar on baz\nuser y\n  foo\nuser\nuser \"a b\" on\nuser x on\nuser z\nuser z +get",
		"user a\tb on", "user a +foo\nuser a on", "user a +foo foo -bar <p ~*", "user a ~* ~b >p", "user a >p <p nopass reset on",
		"USER a", "# comment", "user", "user ", "user a #" + hashOfP + " %R~x %W~x &c -@all +@read -get", "user a on ON oN", "user \xff on",
		"user a +config|set|x", "user a %", "user b on\t+get +get\t",
	} {
		require.NoError(t, os.WriteFile(r.aclFile, []byte(file), 0o600))
		theirs := r.ask("ACL", "LOAD")
		err := l.Load(strings.NewReader(file), r.aclFile)
		if refused, is := theirs.(error); is {
			require.Error(t, err, "%q: Redis says %v", file, refused)
			require.Equal(t, refused.Error(), "ERR "+err.Error(), "%q", file)
		} else {
			require.NoError(t, err, "%q", file)
		}
		saved := r.save(t)
		ours := written(t, l)
		require.NoError(t, os.WriteFile(r.aclFile, []byte(ours), 0o600))
		require.Equal(t, "OK", r.ask("ACL", "LOAD"), "%q", file) // the default user must keep this right
		assert.Equal(t, sortLines(saved), sortLines(r.save(t)), "%q: Redis reads what was written", file)

		few := acl.New(sampleCommands())
		require.NoError(t, few.Load(strings.NewReader(saved), r.aclFile), "%q", file)
		assert.Equal(t, saved, written(t, few), "%q: and what Redis wrote stays", file)
	}
}

// sortLines sorts the rules for single commands in each line.
func sortLines(file string) string {
	lines := strings.Split(file, "\n")
	for i := range lines {
		lines[i] = sortSingles(lines[i])
	}
	return strings.Join(lines, "\n")
}

// save returns the file that Redis writes.
func (r *realRedis) save(t *testing.T) string {
	t.Helper()
	require.Equal(t, "OK", r.ask("ACL", "SAVE"))
	saved, err := os.ReadFile(r.aclFile)
	require.NoError(t, err)
	return string(saved)
}

// The log equals that of Redis after several denials, most of them equal.
func TestLogAsRedisKeepsIt(t *testing.T) {
	r := startRedis(t)
	var g acl.Log
	deny := func(user string) {
		r.ask("AUTH", user, "wrong")
		g.Add(0, acl.Denial{Reason: acl.ReasonAuth, Context: acl.ContextTopLevel, Object: "AUTH", Username: user})
	}
	for _, users := range []string{"aabbba", "abcdefghijklmna", "e"} {
		for _, user := range users {
			deny(string(user))
		}
		for _, n := range []int{0, 3, 1000} {
			theirs := r.ask("ACL", "LOG", fmt.Sprint(n)).([]any)
			ours := g.Entries(0, n)
			require.Len(t, theirs, len(ours))
			for i, e := range ours {
				fields := theirs[i].([]any)
				assert.Equal(t, []any{"count", int64(e.Count), "reason", string(e.Reason), "context", string(e.Context),
					"object", e.Object, "username", e.Username, "age-seconds"}, fields[:11])
			}
		}
	}
	for i := range 200 {
		deny(fmt.Sprintf("user%d", i))
	}
	assert.Len(t, r.ask("ACL", "LOG", "1000"), acl.LogEntries)
	assert.Len(t, g.Entries(0, 1000), acl.LogEntries)
}
