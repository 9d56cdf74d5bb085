package frame_test

import (
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"cellserver/resp/frame"
)

// splitWords is how a line becomes words, said another way: one character after the other, with the state it is in. It
// reports false where quotes do not match.
func splitWords(line string) (words []string, ok bool) {
	line, _, _ = strings.Cut(line, "\x00")
	const between, bare, double, single = 0, 1, 2, 3
	state := between
	var word []byte
	at := func(i int) byte { // a NUL ends a line
		if i < len(line) {
			return line[i]
		}
		return 0
	}
	space := func(c byte) bool { return strings.IndexByte(" \t\n\v\f\r", c) >= 0 }
	for i := 0; ; i++ {
		c := at(i)
		switch state {
		case between:
			if c == 0 {
				return words, true
			}
			if !space(c) {
				state, word = bare, []byte{}
				i--
			}
		case bare:
			switch c {
			case 0, ' ', '\t', '\n', '\r':
				words, state = append(words, string(word)), between
				if c == 0 {
					return words, true
				}
			case '"':
				state = double
			case '\'':
				state = single
			default:
				word = append(word, c)
			}
		default:
			quote := map[int]byte{double: '"', single: '\''}[state]
			next := at(i + 1)
			switch {
			case c == 0:
				return words, false
			case c == quote:
				if next != 0 && !space(next) {
					return words, false
				}
				words, state = append(words, string(word)), between
			case c == '\\' && state == single && next == '\'':
				word = append(word, '\'')
				i++
			case c == '\\' && state == double && next == 'x' && isHex(at(i+2)) && isHex(at(i+3)):
				n, _ := strconv.ParseUint(line[i+2:i+4], 16, 8)
				word = append(word, byte(n))
				i += 3
			case c == '\\' && state == double && next != 0:
				named := map[byte]byte{'n': '\n', 'r': '\r', 't': '\t', 'b': '\b', 'a': '\a'}
				if n, ok := named[next]; ok {
					next = n
				}
				word = append(word, next)
				i++
			default:
				word = append(word, c)
			}
		}
	}
}

func isHex(c byte) bool { return strings.IndexByte("0123456789abcdefABCDEF", c) >= 0 }

func FuzzSplitArgs(f *testing.F) {
	for _, line := range []string{
		"", " ", "a", " a  b\t", `"a b" 'c d'`, `"\x41\xfF\n\r\t\b\a\"\\\q\x4\xg1"`, `'it\'s \n "'`, `a"b c"`, `a'b' c`, `"a"b`,
		`'a'b`, `"`, `'`, `"a\`, `"a\"`, `a\ b`, "a\x00b", "\"a\x00\"", "a\vb \v\fc", `"" ''`, `"\x4`, `"\x41`, "\xff\xc3\xa9",
	} {
		f.Add(line)
	}
	f.Fuzz(func(t *testing.T, line string) {
		want, wantOK := splitWords(line)
		got, ok := frame.SplitArgs(line)
		require.Equal(t, wantOK, ok, "%q", line)
		if ok {
			require.Len(t, got, len(want), "%q", line)
			for i := range want {
				require.Equal(t, want[i], got[i], "%q", line)
			}
		}
	})
}
