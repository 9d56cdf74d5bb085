package acl_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"pgregory.net/rapid"

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
		{"%R~a %W~a*", "a", both, false}, // no pattern allows it alone
		{"%R~a %W~a*", "a", read, true}, {"%R~a %W~a*", "a", write, true},
		{"%R~* ~a", "b", read, true}, {"%R~* ~a", "b", write, false}, {"%R~* ~a", "a", both, true},
		{"~* resetkeys", "a", read, false},
	} {
		u := with(t, l, strings.Split(c.rules, " ")...)
		got := u.AllowsKey([]byte(c.key), strings.Contains(c.how, "r"), strings.Contains(c.how, "w"))
		assert.Equal(t, c.want, got, "%s: %s of %q", c.rules, c.how, c.key)
	}
}

// slowGlob is glob as a definition, without classes: it may take exponential time.
func slowGlob(p, s string) bool {
	switch {
	case p == "":
		return s == ""
	case p[0] == '*':
		return slowGlob(p[1:], s) || s != "" && slowGlob(p, s[1:])
	case s == "":
		return false
	case p[0] == '?':
		return slowGlob(p[1:], s[1:])
	case p[0] == '\\' && len(p) > 1:
		return p[1] == s[0] && slowGlob(p[2:], s[1:])
	}
	return p[0] == s[0] && slowGlob(p[1:], s[1:])
}

func TestGlobIsWhatItIsDefinedAs(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		pattern := rapid.StringOfN(rapid.SampledFrom([]rune(`ab*?\`)), 0, 8, -1).Draw(t, "pattern")
		s := rapid.StringOfN(rapid.SampledFrom([]rune(`ab*\`)), 0, 8, -1).Draw(t, "s")
		if got := acl.Glob(pattern, []byte(s)); got != slowGlob(pattern, s) {
			t.Fatalf("%q %q: %v", pattern, s, got)
		}
	})
}

// A pattern with many stars would keep a matcher that goes back to each of them busy for ever.
func TestGlobTakesBoundedTime(t *testing.T) {
	start := time.Now()
	assert.False(t, acl.Glob(strings.Repeat("a*", 1000)+"b", []byte(strings.Repeat("a", 4096))))
	assert.False(t, acl.Glob(strings.Repeat("*", 1000)+strings.Repeat("a", 999)+"b", []byte(strings.Repeat("a", 4096))))
	assert.False(t, acl.Glob(strings.Repeat("*[a-c]", 1000)+"b", []byte(strings.Repeat("a", 4096))))
	assert.Less(t, time.Since(start), 10*time.Second)
}
