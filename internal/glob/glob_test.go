package glob_test

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"cellserver/internal/glob"
)

// matches is a pattern's meaning said in the plainest way: what its first element may stand for, and the rest of it
// must match the rest.
func matches(pattern, s string) bool {
	if pattern == "" {
		return s == ""
	}
	if pattern[0] == '*' {
		for i := 0; i <= len(s); i++ {
			if matches(pattern[1:], s[i:]) {
				return true
			}
		}
		return false
	}
	if s == "" {
		return false
	}
	switch {
	case pattern[0] == '?':
		return matches(pattern[1:], s[1:])
	case pattern[0] == '[':
		in, rest := inClass(pattern[1:], s[0])
		return in && matches(rest, s[1:])
	case pattern[0] == '\\' && len(pattern) > 1:
		pattern = pattern[1:]
	}
	return pattern[0] == s[0] && matches(pattern[1:], s[1:])
}

// inClass reports whether c is in the class that pattern goes on with, and returns what is behind the class. A class
// that is not closed goes on to the end.
func inClass(pattern string, c byte) (in bool, rest string) {
	want := true
	if strings.HasPrefix(pattern, "^") {
		want, pattern = false, pattern[1:]
	}
	for pattern != "" && pattern[0] != ']' {
		switch {
		case pattern[0] == '\\' && len(pattern) > 1:
			in = in || pattern[1] == c
			pattern = pattern[2:]
		case len(pattern) > 2 && pattern[1] == '-':
			from, to := pattern[0], pattern[2]
			in = in || from <= c && c <= to || to <= c && c <= from
			pattern = pattern[3:]
		default:
			in = in || pattern[0] == c
			pattern = pattern[1:]
		}
	}
	return in == want, strings.TrimPrefix(pattern, "]")
}

func FuzzGlob(f *testing.F) {
	for _, s := range [][2]string{
		{"", ""}, {"*", ""}, {"**", "abc"}, {"a*c", "abc"}, {"a?c", "abc"}, {"[a-c]*", "b"}, {"[^a-c]", "d"}, {`\*`, "*"},
		{"[", "["}, {"[^", "x"}, {"[a-", "-"}, {`[\`, `\`}, {`[\]]`, "]"}, {"[]]", "]"}, {"[c-a]x", "bx"}, {`a\`, `a\`},
		{"*a*a*b", "aaaaaaaaaaaaaa"}, {"[a-]", "b"}, {"[\x7f-\x81]", "\x80"}, {"*[a]*?", "xxaxx"},
	} {
		f.Add([]byte(s[0]), []byte(s[1]))
	}
	f.Fuzz(func(t *testing.T, pattern, s []byte) {
		if bytes.Count(pattern, []byte("*")) > 6 || len(s) > 40 {
			return // the plainest way takes too long
		}
		require.Equal(t, matches(string(pattern), string(s)), glob.MatchBounded(pattern, s), "%q on %q", pattern, s)
		require.Equal(t, matches(string(pattern), string(s)), glob.Match(string(pattern), s), "%q on %q", pattern, s)
	})
}

func TestGlobIsWhatItIsDefinedAs(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		pattern := rapid.StringOfN(rapid.SampledFrom([]rune(`ab*?\`)), 0, 8, -1).Draw(t, "pattern")
		s := rapid.StringOfN(rapid.SampledFrom([]rune(`ab*\`)), 0, 8, -1).Draw(t, "s")
		if got := glob.Match(pattern, []byte(s)); got != matches(pattern, s) {
			t.Fatalf("%q %q: %v", pattern, s, got)
		}
	})
}

// A pattern with many stars would keep a matcher that goes back to each of them busy for ever.
func TestGlobTakesBoundedTime(t *testing.T) {
	start := time.Now()
	assert.False(t, glob.Match(strings.Repeat("a*", 1000)+"b", []byte(strings.Repeat("a", 4096))))
	assert.False(t, glob.Match(strings.Repeat("*", 1000)+strings.Repeat("a", 999)+"b", []byte(strings.Repeat("a", 4096))))
	assert.False(t, glob.Match(strings.Repeat("*[a-c]", 1000)+"b", []byte(strings.Repeat("a", 4096))))
	assert.Less(t, time.Since(start), 10*time.Second)
}
