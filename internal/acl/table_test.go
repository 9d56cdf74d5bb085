package acl_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"cellserver/internal/acl"
)

// sample is a table like that of the server with a few more commands: a name and its categories in each line, a
// subcommand after its container, and a ! for a command that every user may run.
const sample = `
cl.throttle throttle write fast
cl.window throttle write fast
cl.zslide throttle write fast
cl.all throttle write slow
cl.get throttle read fast
dbsize keyspace read fast
del keyspace write slow
exists keyspace read fast
expire keyspace write fast
flushall keyspace write dangerous slow
keys keyspace read dangerous slow
object keyspace read slow
object|encoding keyspace read slow
object|help keyspace slow
rename keyspace write slow
scan keyspace read slow
ttl keyspace read fast
auth! connection fast
client connection slow
client|getname connection slow
client|help connection slow
client|id connection slow
client|kill admin dangerous connection slow
client|list admin dangerous connection slow
client|no-evict admin dangerous connection slow
client|pause admin dangerous connection slow
client|setname connection slow
client|unpause admin dangerous connection slow
echo connection fast
hello! connection fast
ping connection fast
quit! connection fast
reset! connection fast
select connection fast
exec transaction slow
multi transaction fast
watch transaction fast
acl admin dangerous slow
acl|setuser admin dangerous slow
acl|whoami slow
command slow
command|count slow
command|docs slow
config admin dangerous slow
config|get admin dangerous slow
config|help admin dangerous slow
config|set admin dangerous slow
info dangerous slow
shutdown admin dangerous slow
time fast`

func sampleCommands() []acl.Command {
	var commands []acl.Command
	at := make(map[string]int)
	for i, line := range strings.Split(strings.TrimSpace(sample), "\n") {
		fields := strings.Fields(line)
		name, always := strings.CutSuffix(fields[0], "!")
		c := acl.Command{Name: name, Index: i, Parent: -1, Always: always}
		if container, _, sub := strings.Cut(name, "|"); sub {
			c.Parent = at[container]
		}
		for _, category := range fields[1:] {
			c.Categories = append(c.Categories, "@"+category)
		}
		at[name] = i
		commands = append(commands, c)
	}
	return append(commands, acl.Refund(len(commands)))
}

// index returns the index of a command, the argument of User.Allows.
func index(t testing.TB, commands []acl.Command, name string) int {
	t.Helper()
	for _, c := range commands {
		if c.Name == name {
			return c.Index
		}
	}
	t.Fatalf("no command %s", name)
	return -1
}

// allowed returns the names of the commands that a user may run.
func allowed(u *acl.User, commands []acl.Command) []string {
	var names []string
	for _, c := range commands {
		if u.Allows(c.Index) {
			names = append(names, c.Name)
		}
	}
	return names
}

// with returns a new user with some rules.
func with(t testing.TB, l *acl.List, rules ...string) *acl.User {
	t.Helper()
	_, err := l.DelUser("someone")
	require.NoError(t, err)
	require.NoError(t, l.SetUser("someone", rules))
	u, known := l.User("someone")
	require.True(t, known)
	return u
}

func TestNewRefusesATableThatContradictsItself(t *testing.T) {
	for name, commands := range map[string][]acl.Command{
		"two of an index":       {{Name: "a", Parent: -1}, {Name: "b", Parent: -1}},
		"two of a name":         {{Name: "a", Parent: -1}, {Name: "a", Index: 1, Parent: -1}},
		"an index below 0":      {{Name: "a", Index: -1, Parent: -1}},
		"a parent that is not":  {{Name: "a|b", Parent: 1}},
		"itself":                {{Name: "a|b", Parent: 0}},
		"a parent with parents": {{Name: "a", Parent: -1}, {Name: "a|b", Index: 1, Parent: 0}, {Name: "a|b|c", Index: 2, Parent: 1}},
	} {
		t.Run(name, func(t *testing.T) { assert.Panics(t, func() { acl.New(commands) }) })
	}
}

// Indexes need not be in order, and containers need not precede their subcommands.
func TestNewTakesCommandsInAnyOrder(t *testing.T) {
	l := acl.New([]acl.Command{
		{Name: "a|b", Index: 130, Parent: 7, Categories: []string{"@own"}},
		{Name: "c", Index: 64, Parent: -1, Categories: []string{"@own"}},
		{Name: "a", Index: 7, Parent: -1},
	})
	u := with(t, l, "+a")
	assert.True(t, u.Allows(7) && u.Allows(130))
	assert.False(t, u.Allows(64))
	assert.Equal(t, "-@all +a", u.Commands())
	assert.Equal(t, "-@all +@own", with(t, l, "+@own").Commands())
	assert.Equal(t, "-@all +a -a|b", with(t, l, "+a", "-a|b").Commands())
}

func TestCategories(t *testing.T) {
	l := acl.New(sampleCommands())
	names := l.Categories()
	assert.Equal(t, "keyspace", names[0])
	assert.Equal(t, []string{"scripting", "throttle", "refund"}, names[20:])

	in, known := l.InCategory("THROTTLE")
	assert.True(t, known)
	assert.Equal(t, []string{"cl.throttle", "cl.window", "cl.zslide", "cl.all", "cl.get"}, in)
	in, known = l.InCategory("geo") // a category of Redis that is empty here
	assert.True(t, known)
	assert.Equal(t, []string{}, in)
	_, known = l.InCategory("all")
	assert.False(t, known)
}
