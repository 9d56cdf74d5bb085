package resp_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"cellserver/resp"
)

// frames are seeds for the fuzzers: valid and invalid frames and inline commands.
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
	"*5\r\n$7\r\nEVALSHA\r\n$40\r\nf74233f556d3f99c50b61169cf8aa8d5deb63fb2\r\n$1\r\n1\r\n$1\r\nk\r\n$1\r\n1\r\n" +
		"EVAL \"return redis.call('mget', KEYS[1], ARGV[1])[2]\" 1 k l\r\nEVAL \"return {redis.pcall('keys', '*')}\" 0\r\nSCRIPT EXISTS a b\r\n",
	"COMMAND GETKEYS del a b\r\nEVAL \"\r\n\" 0\r\nfoo \xff\x00\r\n", strings.Repeat("x", 70000), "*" + strings.Repeat("1", 70000),
}

// For any input, nothing panics, and the output is valid RESP of bounded length.
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
