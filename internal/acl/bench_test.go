package acl_test

import (
	"strconv"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"cellserver/internal/acl"
)

var sink bool

func BenchmarkAllows(b *testing.B) {
	commands := sampleCommands()
	u := with(b, acl.New(commands), acl.RoleLimit...)
	c := index(b, commands, "cl.throttle")
	b.ReportAllocs()
	for b.Loop() {
		sink = u.Allows(c)
	}
}

func BenchmarkAllowsKey(b *testing.B) {
	l := acl.New(sampleCommands())
	for _, rules := range [][]string{{"~*"}, {"~app:*"}, {"%R~shared:*", "~users:*", "~app:*"}} {
		u := with(b, l, rules...)
		key := []byte("app:user:1234567890")
		b.Run(strconv.Itoa(len(rules))+rules[0], func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				sink = u.AllowsKey(key, true, true)
			}
		})
	}
}

func BenchmarkCurrent(b *testing.B) {
	u := with(b, acl.New(sampleCommands()), "on")
	b.ReportAllocs()
	for b.Loop() {
		_, sink = u.Current()
	}
}

func BenchmarkAuthenticate(b *testing.B) {
	l := acl.New(sampleCommands())
	with(b, l, "on", ">secret")
	password := []byte("secret")
	b.ReportAllocs()
	for b.Loop() {
		_, sink = l.Authenticate("someone", password)
	}
}

func BenchmarkCommands(b *testing.B) {
	u := with(b, acl.New(sampleCommands()), acl.RoleLimit...)
	for b.Loop() {
		u.Commands()
	}
}

func TestDecidingDoesNotAllocate(t *testing.T) {
	commands := sampleCommands()
	l := acl.New(commands)
	u := with(t, l, "on", ">p", "~app:*", "%R~*x*")
	c, key, password := index(t, commands, "cl.throttle"), []byte("app:user"), []byte("p")
	assert.Zero(t, testing.AllocsPerRun(100, func() {
		now, _ := u.Current()
		sink = now.Allows(c) && now.AllowsKey(key, true, false) && now.AllowsKey(key, true, true)
	}))
	require.Zero(t, testing.AllocsPerRun(100, func() { _, sink = l.Authenticate("someone", password) }))
}
