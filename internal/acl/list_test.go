package acl_test

import (
	"math"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"cellserver/internal/acl"
)

func TestNewBeginsOpen(t *testing.T) {
	commands := sampleCommands()
	l := acl.New(commands)
	assert.Equal(t, []string{"default"}, l.Names())
	u, open := l.Open()
	require.True(t, open)
	assert.Equal(t, "user default on nopass ~* &* +@all", u.Describe())
	assert.Len(t, allowed(u, commands), len(commands))
	assert.True(t, u.AllowsKey([]byte("any"), true, true))
	assert.True(t, u.Enabled() && u.NoPass())

	for _, rules := range [][]string{{"off"}, {"resetpass"}, {">p"}} {
		l = acl.New(commands)
		require.NoError(t, l.SetUser("default", rules))
		_, open = l.Open()
		assert.False(t, open, rules)
	}
}

func TestAllows(t *testing.T) {
	commands := sampleCommands()
	l := acl.New(commands)
	for _, c := range []struct {
		rules string
		want  string // besides the commands that are always allowed
	}{
		{"-@all", ""},
		{"+ttl", "ttl"},
		{"+object", "object object|encoding object|help"},
		{"+object -object|help", "object object|encoding"},
		{"+object|help", "object|help"},
		{"+@transaction -exec", "multi watch"},
		{"+@admin -acl +acl|whoami -client -config", "acl|whoami shutdown"},
		// A category brings all subcommands of its containers, as in Redis: acl|whoami is not in @admin.
		{"+@admin -client -config -shutdown", "acl acl|setuser acl|whoami"},
		{"+@refund", "cl.refund"},
	} {
		want := strings.Fields("auth hello quit reset " + c.want)
		assert.ElementsMatch(t, want, allowed(with(t, l, strings.Fields(c.rules)...), commands), c.rules)
	}
	u, _ := l.Open()
	for _, none := range []int{-1, -64, len(commands), math.MaxInt, math.MinInt} {
		assert.False(t, u.Allows(none))
	}
}

func TestDelUser(t *testing.T) {
	l := acl.New(sampleCommands())
	for _, name := range []string{"b", "a", "\xff", ""} {
		require.NoError(t, l.SetUser(name, nil))
	}
	assert.Equal(t, []string{"", "a", "b", "default", "\xff"}, l.Names())
	assert.Len(t, l.Users(), 5)

	n, err := l.DelUser("a", "default")
	assert.ErrorIs(t, err, acl.ErrDefault)
	assert.Zero(t, n)
	n, err = l.DelUser("a", "", "a", "nobody")
	assert.NoError(t, err)
	assert.Equal(t, 2, n)
	assert.Equal(t, []string{"b", "default", "\xff"}, l.Names())
	_, known := l.User("a")
	assert.False(t, known)
}

// A session that calls Current follows the changes of its user.
func TestCurrentFollowsChangesOfTheUser(t *testing.T) {
	l := acl.New(sampleCommands())
	session := with(t, l, "on", "+ping")
	same, alive := session.Current()
	assert.True(t, alive)
	assert.Same(t, session, same)

	require.NoError(t, l.SetUser("other", []string{"on"}))
	same, _ = session.Current()
	assert.Same(t, session, same, "others do not matter")
	require.Error(t, l.SetUser("someone", []string{"-@all", "foo"}))
	same, _ = session.Current()
	assert.Same(t, session, same, "nor does what is not accepted")

	require.NoError(t, l.SetUser("someone", []string{"-ping", "~a"}))
	now, alive := session.Current()
	assert.True(t, alive)
	assert.Equal(t, "user someone on ~a resetchannels -@all -ping", now.Describe())
	assert.Equal(t, "user someone on resetchannels -@all +ping", session.Describe(), "it does not change itself")
	again, _ := now.Current()
	assert.Same(t, now, again)

	require.NoError(t, l.SetUser("someone", []string{"off"}))
	_, alive = now.Current()
	assert.False(t, alive, "switched off")
	require.NoError(t, l.SetUser("someone", []string{"on"}))
	_, alive = now.Current()
	assert.True(t, alive, "and on again, before the session asked")

	_, err := l.DelUser("someone")
	require.NoError(t, err)
	require.NoError(t, l.SetUser("someone", []string{"on", "+@all"}))
	_, alive = now.Current()
	assert.False(t, alive, "a new user of that name is another one")
}

func TestAuthenticate(t *testing.T) {
	l := acl.New(sampleCommands())
	for name, rules := range map[string]string{
		"one": "on >p", "two": "on >p >q >", "off": "off >p", "none": "on", "any": "on nopass", "anyoff": "off nopass",
		"hash": "on #" + hashOfP, "zero": "on #" + strings.Repeat("0", 64),
	} {
		require.NoError(t, l.SetUser(name, strings.Fields(rules)))
	}
	for _, c := range []struct {
		name, password string
		want           bool
		comparisons    int
	}{
		{"one", "p", true, 1}, {"one", "q", false, 1}, {"one", "", false, 1}, {"one", "P", false, 1}, {"one", "p\x00", false, 1},
		{"two", "p", true, 3}, {"two", "q", true, 3}, {"two", "", true, 3}, {"two", "r", false, 3},
		{"hash", "p", true, 1}, {"hash", hashOfP, false, 1}, {"zero", "", false, 1},
		{"off", "p", false, 1}, {"off", "q", false, 1},
		{"none", "p", false, 1}, {"none", "", false, 1},
		{"any", "p", true, 1}, {"any", "", true, 1}, {"anyoff", "p", false, 1},
		{"nobody", "p", false, 1}, {"", "", false, 1}, {"One", "p", false, 1},
		{"one", strings.Repeat("p", 1<<20), false, 1}, {strings.Repeat("one", 1<<20), "p", false, 1},
		{"default", "whatever", true, 1},
	} {
		work := acl.CountWork(l)
		u, ok := l.Authenticate(c.name, []byte(c.password))
		assert.Equal(t, c.want, ok, "%.20s %.20s", c.name, c.password)
		assert.Equal(t, c.want, u != nil)
		if ok {
			assert.Equal(t, c.name, u.Name())
		}
		assert.Equal(t, &acl.Work{Digests: 1, Bytes: len(c.password), Comparisons: c.comparisons}, work, "%.20s", c.name)
	}
}

// Readers never see a user with only some of its new rules. The race detector checks the accesses.
func TestUsersMayBeReadWhileTheyChange(t *testing.T) {
	commands := sampleCommands()
	l := acl.New(commands)
	ping, echo := index(t, commands, "ping"), index(t, commands, "echo")
	u := with(t, l, "on", ">p", "+ping", "~ping")
	var readers, writers sync.WaitGroup
	done := make(chan struct{})
	for range 4 {
		readers.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
				}
				now, alive := u.Current()
				if !alive || now.Allows(ping) == now.Allows(echo) ||
					now.Allows(ping) != now.AllowsKey([]byte("ping"), true, true) {
					t.Error("half a user: " + now.Describe())
					return
				}
				_, ok := l.Authenticate("someone", []byte("p"))
				assert.True(t, ok)
				l.Users()
				l.Names()
			}
		})
	}
	for i := range 2 {
		writers.Go(func() {
			for n := range 60 {
				assert.NoError(t, l.SetUser("someone", []string{"-@all", "resetkeys", "+echo", "~echo"}))
				assert.NoError(t, l.SetUser("someone", []string{"-@all", "resetkeys", "+ping", "~ping"}))
				other := strconv.Itoa(i) + "-" + strconv.Itoa(n%5)
				assert.NoError(t, l.SetUser(other, []string{"on"}))
				_, err := l.DelUser(other)
				assert.NoError(t, err)
				assert.NoError(t, l.Load(strings.NewReader("user someone on >p ~ping +ping"), "f"))
			}
		})
	}
	writers.Wait()
	close(done)
	readers.Wait()
}

// The commands that each role may run, all of them.
func TestRoles(t *testing.T) {
	commands := sampleCommands()
	l := acl.New(commands)
	require.NoError(t, l.SetUser("app", []string{"on", ">p", "~app:*", "+@all"}))
	require.NoError(t, l.SetUser("app", acl.RoleLimit))
	u, _ := l.User("app")
	assert.ElementsMatch(t, []string{
		"cl.throttle", "cl.window", "cl.zslide", "cl.all", "cl.get",
		"auth", "hello", "ping", "echo", "select", "quit", "reset",
		"client", "client|getname", "client|help", "client|id", "client|setname",
		"command", "command|count", "command|docs", "info", "multi", "exec",
	}, allowed(u, commands))
	assert.Equal(t, "~app:*", u.Keys())
	assert.False(t, u.Allows(index(t, commands, acl.RefundCommand)))
	assert.True(t, with(t, l, append(acl.RoleLimit, "+"+acl.RefundCommand)...).Allows(index(t, commands, acl.RefundCommand)))

	u = with(t, l, append([]string{"~a"}, acl.RoleAdmin...)...)
	assert.Len(t, allowed(u, commands), len(commands))
	assert.Equal(t, "user someone off ~* &* +@all", u.Describe())
}

func TestGenPass(t *testing.T) {
	for bits, digits := range map[int]int{1: 1, 4: 1, 5: 2, 64: 16, 255: 64, acl.GenPassDefault: 64, acl.GenPassMax: 1024} {
		pass, err := acl.GenPass(bits)
		require.NoError(t, err)
		assert.Regexp(t, "^[0-9a-f]+$", pass)
		assert.Len(t, pass, digits)
	}
	for _, bits := range []int{0, -1, acl.GenPassMax + 1} {
		_, err := acl.GenPass(bits)
		assert.ErrorIs(t, err, acl.ErrGenPass)
	}
	one, _ := acl.GenPass(acl.GenPassDefault)
	other, _ := acl.GenPass(acl.GenPassDefault)
	assert.NotEqual(t, one, other)
}
