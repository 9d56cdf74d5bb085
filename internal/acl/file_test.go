package acl_test

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"cellserver/internal/acl"
)

// written returns what Write writes.
func written(t testing.TB, l *acl.List) string {
	t.Helper()
	var b strings.Builder
	require.NoError(t, l.Write(&b))
	return b.String()
}

const nothingChanged = "WARNING: ACL errors detected, no change to the previously active ACL rules was performed"

func TestLoadReplacesAllUsers(t *testing.T) {
	l := acl.New(sampleCommands())
	for _, name := range []string{"kept", "gone"} {
		require.NoError(t, l.SetUser(name, []string{"on", "+@all", ">p"}))
	}
	kept, _ := l.User("kept")
	gone, _ := l.User("gone")
	byDefault, _ := l.Open()
	file := "\n  user new on nopass ~* &* +@all  \r\nuser kept on\t -@all  +TTL >p %R~a\nuser default off >q\n\n"
	require.NoError(t, l.Load(strings.NewReader(file), "f"))
	assert.Equal(t, "user default off #8e35c2cd3bf6641bdb0e2050b76932cbb2e6034a0ddacc1d9bea82a6ba57f7cf resetchannels -@all\n"+
		"user kept on #"+hashOfP+" %R~a resetchannels -@all +ttl\n"+
		"user new on nopass ~* &* +@all\n", written(t, l))

	now, alive := kept.Current()
	assert.True(t, alive)
	assert.Equal(t, "-@all +ttl", now.Commands())
	_, alive = gone.Current()
	assert.False(t, alive)
	_, alive = byDefault.Current()
	assert.False(t, alive)
}

// A file without the default user makes it unrestricted, as in Redis 7.0, although one would not expect that.
func TestLoadWithoutDefaultOpensIt(t *testing.T) {
	l := acl.New(sampleCommands())
	require.NoError(t, l.SetUser("default", []string{">p", "-@all"}))
	require.NoError(t, l.Load(strings.NewReader(""), "f"))
	assert.Equal(t, "user default on nopass ~* &* +@all\n", written(t, l))
}

func TestLoadErrors(t *testing.T) {
	for _, c := range []struct{ file, want string }{
		{"foo", "f:1 should start with user keyword followed by the username. "},
		{"\n\n user\n# comment", "f:3 should start with user keyword followed by the username. " +
			"f:4 should start with user keyword followed by the username. "},
		{"USER a", "f:1 should start with user keyword followed by the username. "},
		{"user a\tb on", "'f:1: username 'a\tb' contains invalid characters. "},
		{"user a\nuser b\nuser a", "WARNING: Duplicate user 'a' found on line 3. "},
		{"user a foo bar +nope >p -@nope", "f:1: Syntax error. f:1: Error in applying operation '+nope': Unknown command or " +
			"category name in ACL. f:1: Error in applying operation '-@nope': Unknown command or category name in ACL. "},
		{"user a <secret", "f:1: The password you are trying to remove from the user does not exist. "},
		{"user a (~a +get)", "f:1: Selectors are not supported. "},
		{"user a ~a\x00", "f:1: Syntax error. "},
		{"user default foo", "f:1: Syntax error. "},
	} {
		l := acl.New(sampleCommands())
		require.NoError(t, l.SetUser("b", []string{"on"}))
		before := written(t, l)
		require.EqualError(t, l.Load(strings.NewReader(c.file), "f"), c.want+nothingChanged, c.file)
		assert.Equal(t, before, written(t, l))
	}

	l := acl.New(sampleCommands())
	err := l.Load(strings.NewReader(strings.Repeat("x\n", acl.ProblemLimit+7)), "f")
	assert.ErrorContains(t, err, fmt.Sprintf("f:%d should", acl.ProblemLimit))
	assert.ErrorContains(t, err, "followed by the username. And 7 more. "+nothingChanged)

	broken := errors.New("broken")
	assert.ErrorIs(t, l.Load(iotest.ErrReader(broken), "f"), broken)
	assert.ErrorContains(t, l.Load(endless{}, "f"), fmt.Sprintf("f is larger than %d bytes", acl.FileLimit))
	assert.ErrorIs(t, l.Write(refusing{broken}), broken)
	assert.Equal(t, []string{"default"}, l.Names())
}

type endless struct{}

func (endless) Read(p []byte) (int, error) { return len(p), nil }

type refusing struct{ err error }

func (w refusing) Write([]byte) (int, error) { return 0, w.err }

var _ io.Writer = refusing{}

// Any file is either accepted or refused, and an accepted one can be written and read again.
func FuzzLoad(f *testing.F) {
	for _, file := range []string{
		"user default on nopass ~* &* +@all\nuser a on >p ~app:* +@throttle -cl.get\n",
		"user  on\nuser b %R~x %W~x &y reset\r\nuser c\t", "user a\nuser a\nuser \xff #" + hashOfP,
		"user a foo\nfoo\nuser a\tb\nuser d (~a)", "user a %RW~* ~\nuser b -@all +client -client|kill +@fast",
		"user a +@all -debug -script|load -script -@stream\n",
	} {
		f.Add(file)
	}
	commands := sampleCommands()
	f.Fuzz(func(t *testing.T, file string) {
		l := acl.New(commands)
		require.NoError(t, l.SetUser("before", []string{"on"}))
		before := written(t, l)
		if err := l.Load(strings.NewReader(file), "f"); err != nil {
			require.Equal(t, before, written(t, l))
			return
		}
		once := written(t, l)
		l2 := acl.New(commands)
		require.NoError(t, l2.Load(strings.NewReader(once), "f"))
		require.Equal(t, once, written(t, l2))
		for _, u := range l.Users() {
			u2, _ := l2.User(u.Name())
			require.Equal(t, allowed(u, commands), allowed(u2, commands))
		}
	})
}
