package resp_test

import (
	"bytes"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/tidwall/redcon"

	"cellserver/resp"
)

// frames are beginnings for what is fuzzed: frames, inline commands, and what is wrong with them.
var frames = []string{
	"*1\r\n$4\r\nPING\r\n",
	"*5\r\n$11\r\nCL.THROTTLE\r\n$1\r\nk\r\n$2\r\n15\r\n$2\r\n30\r\n$2\r\n60\r\n*2\r\n$3\r\nTTL\r\n$1\r\nk\r\n",
	"*4\r\n$9\r\nCL.WINDOW\r\n$0\r\n\r\n$1\r\n5\r\n$2\r\n60\r\n",
	"*7\r\n$9\r\nCL.WINDOW\r\n$1\r\nw\r\n$1\r\n5\r\n$2\r\n60\r\n$1\r\n1\r\n$5\r\nALIGN\r\n$3\r\n-.5\r\n",
	"*6\r\n$9\r\nCL.ZSLIDE\r\n$1\r\nz\r\n$1\r\n3\r\n$4\r\n0.25\r\n$2\r\n-1\r\n$2\r\nMS\r\n",
	"*0\r\n*-1\r\n\r\n*1\r\n$0\r\n\r\n",
	"*1\r\n$4\r\nPINGxx", "*1\r\n$-1\r\n", "*1\r\n:1\r\n", "*x\r\n", "*9223372036854775808\r\n", "*1048576\r\n$1\r\n",
	"*2\r\n$4\r\nECHO\r\n$10000\r\n", "*1\n", "*1\rx", "*01\r\n", "*123\r\n$1234\r\n",
	"PING\r\nping hello\n", "ECHO \"two words\\x41\\n\" 'it\\'s'\r\n", "ECHO \"abc", "ECHO 'abc'd\r\n", "a\x00b\r\n",
	"HELLO 3 SETNAME me\r\nCOMMAND DOCS\r\nCOMMAND INFO\r\nINFO everything\r\nCLIENT LIST\r\n",
	"CLIENT REPLY SKIP\r\nPING\r\nCLIENT REPLY OFF\r\nPING\r\nRESET\r\nQUIT\r\nPING\r\n",
	"CONFIG GET *\r\nCONFIG SET maxclients 1 max-key-bytes 10\r\nMEMORY STATS\r\nMEMORY DOCTOR\r\nMODULE LIST\r\n",
	"EXPIRE k 1 GT\r\nSCAN 0 MATCH [a-\\ COUNT 1\r\nRENAME k l\r\nKEYS *\r\nRANDOMKEY\r\nOBJECT HELP\r\nLOLWUT\r\n",
	"COMMAND GETKEYS del a b\r\nEVAL \"\r\n\" 0\r\nfoo \xff\x00\r\n", strings.Repeat("x", 70000), "*" + strings.Repeat("1", 70000),
}

// Whatever arrives in whatever pieces, it is cut into the same commands, and ends in the same error.
func FuzzFrames(f *testing.F) {
	for _, frame := range frames {
		f.Add([]byte(frame), []byte{1})
		f.Add([]byte(frame+frame), []byte{3, 0, 17})
	}
	f.Fuzz(func(t *testing.T, in, cuts []byte) {
		whole, wholeErr := resp.NewTestReader(0).Feed(in)

		pieces := resp.NewTestReader(1 + len(cuts))
		var commands [][]string
		var err error
		for i := 0; len(in) > 0 && err == nil; i++ {
			n := len(in)
			if i < len(cuts) {
				n = min(n, 1+int(cuts[i]))
			}
			var more [][]string
			more, err = pieces.Feed(in[:n])
			commands, in = append(commands, more...), in[n:]
		}
		assert.Equal(t, whole, commands)
		assert.Equal(t, wholeErr, err)
	})
}

// What is well formed is read as redcon reads it.
func FuzzFramesLikeRedcon(f *testing.F) {
	f.Add([]byte("PING"), []byte{4})
	f.Add([]byte("CL.THROTTLEk153060"), []byte{11, 1, 2, 2, 2})
	f.Add([]byte("\r\n*1\r\n$1\r\na\r\n"), []byte{2, 0, 13})
	f.Add(bytes.Repeat([]byte("x"), 1000), []byte{255, 255, 0, 99})
	f.Fuzz(func(t *testing.T, text, lengths []byte) {
		if len(lengths) == 0 {
			return
		}
		var words []string
		for _, n := range lengths {
			cut := min(int(n)*(1+len(text)/256), len(text))
			words, text = append(words, string(text[:cut])), text[cut:]
		}
		packet := multibulk(words...)
		complete, args, kind, rest, err := redcon.ReadNextCommand(packet, nil)
		require.True(t, complete && kind == redcon.Redis && err == nil && len(rest) == 0, "redcon: %v", err)
		commands, err := resp.NewTestReader(0).Feed(packet)
		require.NoError(t, err)
		require.Len(t, commands, 1)
		require.Len(t, commands[0], len(args))
		for i := range args {
			assert.Equal(t, string(args[i]), commands[0][i])
		}
	})
}

// Whatever arrives, nothing panics, what goes out is RESP, and it is no more than so many times what came.
func FuzzSession(f *testing.F) {
	for _, frame := range frames {
		f.Add([]byte(frame), byte(0))
		f.Add([]byte(frame+frame), byte(1))
	}
	f.Fuzz(func(t *testing.T, in []byte, step byte) {
		now := int64(1_700_000_123) * 1e9
		srv := newQuiet(8, &now)
		c := resp.NewTestConn(srv, now)
		var out []byte
		piece := len(in)/(1+int(step)%8) + 1
		for rest := in; len(rest) > 0; {
			n := min(piece, len(rest))
			out = append(out, c.Feed(now, rest[:n])...)
			rest = rest[n:]
			now += int64(step) * 1e8
		}
		require.Less(t, len(out), 1<<16+8192*len(in))
		for rest := out; len(rest) > 0; {
			var err error
			_, rest, err = readValue(rest)
			require.NoError(t, err, "%q", out)
		}
		require.NotContains(t, string(out), "internal error", "a command panicked")
	})
}

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
		got, ok := resp.SplitArgs(line)
		require.Equal(t, wantOK, ok, "%q", line)
		if ok {
			require.Len(t, got, len(want), "%q", line)
			for i := range want {
				require.Equal(t, want[i], got[i], "%q", line)
			}
		}
	})
}

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
		require.Equal(t, matches(string(pattern), string(s)), resp.GlobMatch(pattern, s), "%q on %q", pattern, s)
	})
}
