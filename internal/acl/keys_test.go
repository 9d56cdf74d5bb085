package acl_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"cellserver/internal/acl"
)

func TestAllowsKey(t *testing.T) {
	l := acl.New(sampleCommands())
	const read, write, both, neither = "r", "w", "rw", ""
	for _, c := range []struct {
		rules, key, how string
		want            bool
	}{
		{"", "a", read, false}, {"", "", neither, false},
		{"~*", "", both, true}, {"allkeys", "\x00\xff", both, true}, {"%R~* %W~*", "a", both, true},
		{"~", "", both, true}, {"~", "a", read, false},
		{"~app:* ~b", "app:", both, true}, {"~app:* ~b", "app", both, false}, {"~app:* ~b", "b", write, true}, {"~app:*", "App:x", read, false},
		{"~[ab]?c", "axc", read, true}, {"~[^ab]?c", "axc", read, false}, {"~[a-c]", "b", read, true}, {`~\*`, "*", read, true}, {`~\*`, "a", read, false},
		{"%R~a", "a", read, true}, {"%R~a", "a", write, false}, {"%R~a", "a", both, false}, {"%R~a", "a", neither, true}, {"%R~a", "b", neither, false},
		{"%W~a", "a", write, true}, {"%W~a", "a", read, false},
		{"%R~a %W~a", "a", both, true},
		{"%R~a %W~a*", "a", both, false}, // no single pattern allows both
		{"%R~a %W~a*", "a", read, true}, {"%R~a %W~a*", "a", write, true},
		{"%R~* ~a", "b", read, true}, {"%R~* ~a", "b", write, false}, {"%R~* ~a", "a", both, true},
		{"~* resetkeys", "a", read, false},
	} {
		u := with(t, l, strings.Split(c.rules, " ")...)
		got := u.AllowsKey([]byte(c.key), strings.Contains(c.how, "r"), strings.Contains(c.how, "w"))
		assert.Equal(t, c.want, got, "%s: %s of %q", c.rules, c.how, c.key)
	}
}
