package frame_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/tidwall/redcon"

	"cellserver/resp/frame"
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
	"EVAL \"\r\n\" 0\r\nfoo \xff\x00\r\n", strings.Repeat("x", 70000), "*" + strings.Repeat("1", 70000),
}

// multibulk is a command as clients send it.
func multibulk(words ...string) []byte {
	b := fmt.Appendf(nil, "*%d\r\n", len(words))
	for _, w := range words {
		b = fmt.Appendf(b, "$%d\r\n%s\r\n", len(w), w)
	}
	return b
}

// Whatever arrives in whatever pieces, it is cut into the same commands, and ends in the same error.
func FuzzFrames(f *testing.F) {
	for _, seed := range frames {
		f.Add([]byte(seed), []byte{1})
		f.Add([]byte(seed+seed), []byte{3, 0, 17})
	}
	f.Fuzz(func(t *testing.T, in, cuts []byte) {
		whole, wholeErr := frame.NewTestReader(0).Feed(in)

		pieces := frame.NewTestReader(1 + len(cuts))
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
		commands, err := frame.NewTestReader(0).Feed(packet)
		require.NoError(t, err)
		require.Len(t, commands, 1)
		require.Len(t, commands[0], len(args))
		for i := range args {
			assert.Equal(t, string(args[i]), commands[0][i])
		}
	})
}
