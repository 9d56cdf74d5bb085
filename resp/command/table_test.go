package command_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"cellserver/resp/command"
	"cellserver/resp/frame"
)

func words(line string) (list [][]byte) {
	for _, w := range strings.Fields(line) {
		list = append(list, []byte(w))
	}
	return list
}

// Every row is found by its words in any case, by its full name, and at its index.
func TestEveryRowIsFound(t *testing.T) {
	table := command.New()
	next := 0
	table.Each(func(c *command.Row) {
		require.Equal(t, next, c.Index)
		next++
		for _, line := range []string{c.Words(), strings.ToUpper(c.Words())} {
			found, ok := table.Find(words(line))
			assert.True(t, ok, line)
			assert.Same(t, c, found, line)
		}
		assert.Same(t, c, table.Named(strings.ToUpper(c.FullName())))
	})
	assert.Equal(t, next, table.Len())
}

func TestFindRefusesWhatIsNoCommand(t *testing.T) {
	table := command.New()
	for _, row := range []struct{ line, container string }{
		{"nosuch", ""}, {"client|id", ""}, {strings.Repeat("x", 1000), ""},
		{"client nosuch", "client"}, {"client " + strings.Repeat("x", 1000), "client"},
	} {
		found, ok := table.Find(words(row.line))
		assert.False(t, ok, row.line)
		if row.container == "" {
			assert.Nil(t, found, row.line)
			continue
		}
		assert.Equal(t, row.container, found.Name)
	}
}

// What runs on an event loop holds up every connection that the loop serves.
func TestNonBlockingRowsTakeNoTime(t *testing.T) {
	some := false
	command.New().Each(func(c *command.Row) {
		if c.Flags&command.NonBlocking == 0 {
			return
		}
		some = true
		assert.Zero(t, c.Flags&(command.Keyspace|command.Aside|command.Admin|command.Debugging),
			"%s waits, or looks at all keys", c.FullName())
		if c.Group != command.GroupString { // SET is slow by Redis's word, because it may free a large value
			assert.NotZero(t, c.Flags&(command.Fast|command.Decides), "%s is slow by Redis's own word", c.FullName())
		}
		assert.Empty(t, c.Subs, "%s is a container", c.FullName())
	})
	assert.True(t, some)
}

func TestKeysOfCommands(t *testing.T) {
	table := command.New()
	for _, row := range []struct{ line, keys string }{
		{"cl.throttle k 1 1 1", "k"},
		{"del a b c", "a b c"},
		{"rename a b", "a b"},
		{"object freq k", "k"},
		{"memory usage k samples 5", "k"},
		{"ping k", ""},
		{"cl.all throttle a 1 1 1 1 window b 1 1 1 align 5 zslide c 1 1 1 peek ms", "a b c"},
		{"cl.all throttle a 1 1 1 1 window b 1 1", ""},
		{"cl.all peek", ""},
		{"evalsha x 2 a b c", "a b"},
		{"evalsha x +1 a b", "a"},
		{"eval x 01x a", "a"},
		{"eval x x a", ""},
		{"eval x -1 a", ""},
		{"eval x 2 a", ""},
		{"eval x 4294967297 a", "a"},
		{"eval x 99999999999999999999 a", ""},
	} {
		c, ok := table.Find(words(row.line))
		require.True(t, ok, row.line)
		var keys []string
		for _, key := range c.AppendKeys(nil, words(row.line)) {
			keys = append(keys, string(key))
		}
		assert.Equal(t, row.keys, strings.Join(keys, " "), row.line)
	}
}

// What COMMAND and COMMAND DOCS answer is made once, for each version of the protocol by itself.
func TestDescriptionsAreKeptByProtocol(t *testing.T) {
	table := command.New()
	answer := func(resp3 bool, describe func(out *frame.Reply, names [][]byte)) string {
		out := frame.Reply{RESP3: resp3}
		describe(&out, nil)
		return string(out.Bytes)
	}
	for _, describe := range []func(out *frame.Reply, names [][]byte){table.Info, table.Docs} {
		two, three := answer(false, describe), answer(true, describe)
		assert.NotEqual(t, two, three)
		assert.Equal(t, two, answer(false, describe))
		assert.Equal(t, three, answer(true, describe))
	}
}

func TestFindDoesNotAllocate(t *testing.T) {
	table := command.New()
	plain, sub := words("CL.THROTTLE k 1 1 1"), words("CLIENT SETINFO LIB-NAME x")
	assert.Zero(t, testing.AllocsPerRun(100, func() {
		table.Find(plain)
		table.Find(sub)
	}))
}
