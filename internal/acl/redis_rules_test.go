package acl_test

// These tests give the same rules to a real Redis and to a list with the commands of that Redis, and compare the users.
// They leave out known differences: selectors and first arguments, which the list refuses; zero bytes, which end a rule
// in Redis; and ~* made of %R~* and %W~*, for which Redis writes a description that it cannot read back.

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"cellserver/internal/acl"
)

// sortSingles sorts the rules for single commands in a description. Redis writes them last, in the order of a hash table,
// which changes while Redis resizes the table.
func sortSingles(description string) string {
	words := strings.Split(description, " ")
	first := len(words)
	for first > 0 {
		w := words[first-1]
		if len(w) < 2 || w[0] != '+' && w[0] != '-' || w[1] == '@' {
			break
		}
		first--
	}
	slices.Sort(words[first:])
	return strings.Join(words, " ")
}

// setBoth gives rules to a new user in both, requires that both accept or both refuse them, and reports whether they
// accept.
func setBoth(t *testing.T, r *realRedis, l *acl.List, user string, rules []string) bool {
	t.Helper()
	r.ask("ACL", "DELUSER", user)
	l.DelUser(user)
	theirs := r.ask(append([]string{"ACL", "SETUSER", user}, rules...)...)
	err := l.SetUser(user, rules)
	if refused, is := theirs.(error); is {
		require.Error(t, err, "%q: Redis says %v", rules, refused)
		flat := strings.NewReplacer("\r", " ", "\n", " ").Replace(err.Error()) // as in every error reply
		require.Equal(t, refused.Error(), "ERR "+flat, "%q", rules)
		return false
	}
	require.NoError(t, err, "%q", rules)
	return true
}

// sameUser requires that both have the same user. They describe its commands differently: Redis 7.0 computes rules from
// the permitted commands, and a list keeps the given rules. Redis must compute the same rules from those of the list, and
// its own must be read and written unchanged by a server that has few of its commands.
func sameUser(t *testing.T, r *realRedis, l *acl.List, user string, why any) {
	t.Helper()
	u, known := l.User(user)
	require.True(t, known)
	const again = "described"
	defer r.ask("ACL", "DELUSER", again)
	ours := strings.Split(u.Describe(), " ")
	require.Equal(t, []string{"user", user}, ours[:2])
	require.Equal(t, "OK", r.ask(append([]string{"ACL", "SETUSER", again}, ours[2:]...)...), "%q", why)
	lines := texts(r.ask("ACL", "LIST"))
	line := func(name string) string {
		at := slices.IndexFunc(lines, func(line string) bool { return strings.HasPrefix(line, "user "+name+" ") })
		require.GreaterOrEqual(t, at, 0)
		return strings.TrimPrefix(lines[at], "user "+name+" ")
	}
	theirs := line(user)
	require.Equal(t, sortSingles(theirs), sortSingles(line(again)), "%q", why)

	few := acl.New(sampleCommands())
	require.NoError(t, few.SetUser(again, strings.Split(theirs, " ")), "%q", why)
	u2, _ := few.User(again)
	require.Equal(t, "user "+again+" "+theirs, u2.Describe(), "%q", why)

	fields := r.ask("ACL", "GETUSER", user).([]any)
	require.Equal(t, "flags passwords commands keys channels selectors",
		fmt.Sprint(fields[0], " ", fields[2], " ", fields[4], " ", fields[6], " ", fields[8], " ", fields[10]))
	require.Equal(t, texts(fields[1]), u.Flags(), "%q", why)
	require.Equal(t, texts(fields[3]), u.Passwords(), "%q", why)
	require.Equal(t, sortSingles(fields[5].(string)), sortSingles(u2.Commands()), "%q", why)
	require.Equal(t, fields[7], u.Keys(), "%q", why)
	require.Equal(t, fields[9], u.Channels(), "%q", why)
}

// sameCommands requires that both allow a user the same commands. It requires that the user may use all keys and
// channels.
func sameCommands(t *testing.T, r *realRedis, commands []redisCommand, u *acl.User, why any) {
	t.Helper()
	pipe := r.Pipeline()
	for _, c := range commands {
		pipe.Do(context.Background(), anys(append([]string{"ACL", "DRYRUN", u.Name()}, c.call...))...)
	}
	replies, _ := pipe.Exec(context.Background())
	for i, c := range commands {
		reply, err := replies[i].(*redis.Cmd).Text()
		if err != nil && strings.Contains(err.Error(), "not found") {
			continue // containers cannot be called
		}
		require.NoError(t, err, c.call)
		if reply != "OK" {
			require.Contains(t, reply, "has no permissions to run", c.call)
		}
		require.Equal(t, reply == "OK", u.Allows(c.Index), "%q: %s", why, c.Name)
	}
}

// ruleLists are lists of rules, each for a new user in both.
var ruleLists = []string{
	"", "on", "off", "ON", "on off", "nopass", ">p", ">", "> >p", ">p <p", "<p", "nopass <p", "#" + hashOfP, "#" + hashOfP + "0",
	"#" + strings.ToUpper(hashOfP), "!" + hashOfP, ">p !" + hashOfP, "!x", "#", "nopass >p", ">p nopass", ">p resetpass", "nopass resetpass",
	"sanitize-payload", "skip-sanitize-payload", "SKIP-sanitize-payload sanitize-payload", "reset", "on nopass +@all ~* &* reset",
	"~a", "~", "~* ~a", "~a ~*", "allkeys ~a", "allkeys allkeys", "allkeys %", "allkeys resetkeys ~a", "~a ~a", "~a %R~a", "%R~a %W~a", "%R~a", "%w~a",
	"%RW~a", "%WR~a", "%RR~a", "%X~a", "%~a", "%", "%R", "%Ra", "%R~", "%R~*", "%R~a~b", "%r~a ~b %W~a", "~\xff\x01",
	"&a", "&", "&* &a", "&a &*", "allchannels resetchannels &a &b", "&a &a",
	"+get", "+GET", "-get", "+@all", "-@all", "+@ALL", "allcommands", "nocommands", "allcommands -get", "+@all -@dangerous", "+@read +@write -@slow",
	"+client", "+client|id", "+client -client|kill", "-client|id +client|KILL", "+@all -client +client|id", "+config|get", "+@admin -config|set",
	"+foo", "-foo", "+", "-", "+@", "-@", "+@foo", "+client|", "+client|foo", "-client|", "-client|foo", "+config|set|x", "+config|set|",
	"-config|set|x", "+foo|bar", "-get|x", "+get|", "+get|x|y", "+|", "+|get", "+@all|x", "+client|id|x|y", "++get", "+@+read",
	"foo", "*", "clear", "on\n", "\ton", "~a\tb", "~a\vb", "&a\fb", "~a\r\nb", "+get\n",
}

func TestRulesAsRedisTakesThem(t *testing.T) {
	r := startRedis(t)
	commands := r.commands(t)
	l := list(commands)
	for _, rules := range ruleLists {
		if setBoth(t, r, l, "u", strings.Split(rules, " ")) {
			sameUser(t, r, l, "u", rules)
		}
	}
	for _, rules := range [][]string{{"~a b"}, {"&a b"}, {"+get x"}, {""}, {"", "on", ""}, {"> ", "<"}, {"on", "~x", "foo", "+get"}} {
		if setBoth(t, r, l, "u", rules) {
			sameUser(t, r, l, "u", rules)
		}
	}
	for _, name := range []string{"", "a b", "a\tb", " ", "\xff", "'%s'"} {
		if setBoth(t, r, l, name, nil) {
			sameUser(t, r, l, name, name)
		}
	}
	assert.Equal(t, texts(r.ask("ACL", "USERS")), l.Names())
	assert.Equal(t, texts(r.ask("ACL", "CAT")), l.Categories())
	for _, name := range append(l.Categories(), "READ") {
		in, known := l.InCategory(name)
		assert.True(t, known)
		assert.ElementsMatch(t, texts(r.ask("ACL", "CAT", name)), in)
	}
	_, err := l.DelUser("default")
	assert.Equal(t, r.ask("ACL", "DELUSER", "default").(error).Error(), "ERR "+err.Error())
	_, err = acl.GenPass(0)
	assert.Equal(t, r.ask("ACL", "GENPASS", "0").(error).Error(), "ERR "+err.Error())
}

// A server with few of the commands of Redis 7.0 accepts or refuses each of their names with the words of Redis, and
// keeps it.
func TestNamesOfRedisAreKnown(t *testing.T) {
	r := startRedis(t)
	var names []string
	for _, c := range r.commands(t) {
		names = append(names, c.Name)
	}
	for _, category := range texts(r.ask("ACL", "CAT")) {
		names = append(names, "@"+category)
	}
	few := acl.New(sampleCommands())
	for _, name := range names {
		for _, rule := range []string{"+" + name, "-" + strings.ToUpper(name)} {
			require.True(t, setBoth(t, r, few, "u", []string{"+@all", rule}), rule)
			u, _ := few.User("u")
			require.Equal(t, "+@all "+strings.ToLower(rule), u.Commands())
		}
		for _, wrong := range []string{"+" + name + "_zz", "-" + name + "|x|y", "+" + name + "|", "-" + name + "|"} {
			require.False(t, setBoth(t, r, few, "u", []string{wrong}), wrong)
		}
	}
}

// Random rules in several steps, so that the earlier rules of a user matter.
func TestRandomRulesAsRedisTakesThem(t *testing.T) {
	r := startRedis(t)
	commands := r.commands(t)
	l := list(commands)
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	pick := func(from ...string) string { return from[random.IntN(len(from))] }
	categories := append(l.Categories(), "all")
	rule := func() string {
		switch random.IntN(12) {
		case 0:
			return pick("on", "off", "nopass", "resetpass", "reset", "sanitize-payload", "skip-sanitize-payload", "resetkeys",
				"resetchannels", "allchannels", "nocommands", "allcommands", "foo", "")
		case 1:
			return pick(">", "<") + pick("p", "q", "")
		case 2:
			return pick("~", "%R~", "%W~", "%RW~", "%RR~", "&") + pick("a", "b", "a*", "")
		case 3, 4, 5, 6:
			return pick("+", "-") + commands[random.IntN(len(commands))].Name
		case 7:
			c := commands[random.IntN(len(commands))]
			if c.Parent >= 0 {
				return pick("+", "-") + strings.ToUpper(c.Name)
			}
			return pick("+", "-") + c.Name + "x"
		}
		return pick("+@", "-@") + pick(categories...)
	}
	for round := range 150 {
		r.ask("ACL", "DELUSER", "u")
		l.DelUser("u")
		var given [][]string
		for range 1 + random.IntN(3) {
			rules := make([]string, 1+random.IntN(6))
			for i := range rules {
				rules[i] = rule()
			}
			given = append(given, rules)
			theirs := r.ask(append([]string{"ACL", "SETUSER", "u"}, rules...)...)
			if err := l.SetUser("u", rules); err != nil {
				require.Equal(t, theirs.(error).Error(), "ERR "+err.Error(), "%q", given)
			} else {
				require.Equal(t, "OK", theirs, "%q", given)
			}
		}
		if _, known := l.User("u"); !known {
			continue
		}
		sameUser(t, r, l, "u", given)
		if round%5 == 0 {
			r.ask("ACL", "SETUSER", "u", "allkeys", "allchannels")
			u, _ := l.User("u")
			sameCommands(t, r, commands, u, given)
		}
	}
}

func TestCommandsAsRedisAllowsThem(t *testing.T) {
	r := startRedis(t)
	commands := r.commands(t)
	l := list(commands)
	for _, rules := range []string{
		"", "+@all", "+@all -@dangerous", "+@read", "+@connection", "+@all -@connection", "+client", "+client -client|kill",
		"+client|kill", "+@all -config|set", "+@admin -config", "+@slow -@admin +config|get", "+@all -@all +get",
	} {
		require.True(t, setBoth(t, r, l, "u", append([]string{"~*", "&*"}, strings.Fields(rules)...)))
		u, _ := l.User("u")
		sameCommands(t, r, commands, u, rules)
	}
}
