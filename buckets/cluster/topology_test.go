package cluster

import (
	"bufio"
	"bytes"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestParseView(t *testing.T) {
	const info = "cluster_state:ok\r\ncluster_current_epoch:7\r\n"
	server := func(host any, port int64) []any { return []any{host, port, "id", []any{}} }
	for _, row := range []struct {
		name        string
		info, slots any
		want        *view
		err         string
	}{
		{"a server alone", refusal("ERR This instance has cluster support disabled"), refusal("ERR This instance has cluster support disabled"),
			&view{kind: standalone, sound: true, ranges: []slotRange{{0, 16383, "seed:1"}}}, ""},
		{"one that has no CLUSTER", refusal("ERR unknown command 'CLUSTER'"), refusal("ERR unknown command 'CLUSTER'"),
			&view{kind: standalone, sound: true, ranges: []slotRange{{0, 16383, "seed:1"}}}, ""},
		{"a cluster", info, []any{
			[]any{int64(0), int64(99), server("10.0.0.1", 7000), server("10.0.0.2", 7000), server("10.0.0.2", 7000)},
			[]any{int64(100), int64(16383), server("::1", 7000)}},
			&view{clustered, true, 7, []slotRange{{0, 99, "10.0.0.1:7000"}, {100, 16383, "[::1]:7000"}}, []string{"10.0.0.2:7000"}}, ""},
		{"its own host left out", info, []any{[]any{int64(0), int64(1), server("", 7000)}, []any{int64(2), int64(3), server(nil, 7001)}},
			&view{clustered, true, 7, []slotRange{{0, 1, "seed:7000"}, {2, 3, "seed:7001"}}, nil}, ""},
		{"an unknown host", info, []any{[]any{int64(0), int64(1), server("?", 7000)}}, &view{clustered, true, 7, nil, nil}, ""},
		{"a port of zero", info, []any{[]any{int64(0), int64(1), server("a", 0)}}, &view{clustered, true, 7, nil, nil}, ""},
		{"no slots yet", "cluster_state:fail\r\n", []any{}, &view{clustered, false, 0, nil, nil}, ""},
		{"no right", refusal("NOPERM no"), nil, nil, "CLUSTER INFO is refused: NOPERM no"},
		{"no right to slots", info, refusal("NOPERM no"), nil, "CLUSTER SLOTS is refused: NOPERM no"},
		{"not a list", info, "x", nil, "malformed"},
		{"not information", int64(1), nil, nil, "malformed"},
		{"a slot too many", info, []any{[]any{int64(0), int64(16384), server("a", 1)}}, nil, "malformed"},
		{"a slot too few", info, []any{[]any{int64(-1), int64(5), server("a", 1)}}, nil, "malformed"},
		{"an interval that ends before it begins", info, []any{[]any{int64(6), int64(5), server("a", 1)}}, nil, "malformed"},
		{"an interval without a server", info, []any{[]any{int64(6), int64(7)}}, nil, "malformed"},
	} {
		t.Run(row.name, func(t *testing.T) {
			got, err := parseView("seed:1", []any{row.info, row.slots})
			if row.err != "" {
				require.ErrorContains(t, err, row.err)
				return
			}
			require.NoError(t, err)
			assert.Equal(t, row.want, got)
		})
	}
}

func TestBetterView(t *testing.T) {
	sound, newer, ill := &view{sound: true, epoch: 5}, &view{sound: true, epoch: 6}, &view{epoch: 9}
	assert.True(t, ill.better(nil))
	assert.True(t, newer.better(sound))
	assert.False(t, sound.better(newer))
	assert.False(t, sound.better(sound))
	assert.False(t, ill.better(sound))
	assert.True(t, sound.better(ill))
}

func TestRedirection(t *testing.T) {
	for text, want := range map[string]string{
		"10.0.0.1:7000": "10.0.0.1:7000", "host.name:1": "host.name:1", ":7000": "from:7000", "::1:7000": "[::1]:7000", "[::1]:7000": "[::1]:7000",
		"a:07": "a:7",
		"":     "", "a": "", "a:": "", "a:x": "", "a:0": "", "a:65536": "", "a:-1": "", "a b:1": "", "a\n:1": "", "?:1": "",
		"\xff:1": "", strings.Repeat("a", 256) + ":1": "",
	} {
		got, usable := redirection("from:1", text)
		assert.Equal(t, want, got, "%q", text)
		assert.Equal(t, want != "", usable, "%q", text)
	}
}

func readReply(in string) (any, error) {
	l := &link{in: bufio.NewReader(strings.NewReader(in)), left: maxReply}
	return l.reply(maxDepth)
}

func TestReplies(t *testing.T) {
	for in, want := range map[string]any{
		"+OK\r\n": "OK", "+\r\n": "", "-ERR no\r\n": refusal("ERR no"), ":-5\r\n": int64(-5), "$3\r\nabc\r\n": "abc", "$0\r\n\r\n": "",
		"$-1\r\n": nil, "*-1\r\n": nil, "*0\r\n": []any{}, "*2\r\n:1\r\n*1\r\n$1\r\na\r\n": []any{int64(1), []any{"a"}},
	} {
		got, err := readReply(in)
		require.NoError(t, err, "%q", in)
		assert.Equal(t, want, got, "%q", in)
	}
	for _, in := range []string{"", "\r\n", "+OK", "+OK\n", "x\r\n", ":\r\n", ":x\r\n", "$\r\n", "$-2\r\n", "$5\r\nabc\r\n", "$3\r\nabcd\r\n",
		"$99999999\r\nabc", "$9223372036854775807\r\n", "$9223372036854775808\r\n", "*-2\r\n", "*1\r\n", "*9223372036854775807\r\n",
		"*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n:1\r\n", "+" + strings.Repeat("a", maxLine) + "\r\n"} {
		_, err := readReply(in)
		assert.Error(t, err, "%q", in)
	}
	_, err := readReply("*9999999\r\n" + strings.Repeat(":1\r\n", maxReply/4))
	assert.ErrorIs(t, err, errMalformed, "it is too long")
}

// Whatever a server sends is read without a panic, and in memory in proportion to it.
func FuzzReply(f *testing.F) {
	f.Add([]byte("*2\r\n$1\r\na\r\n*1\r\n:5\r\n"))
	f.Add([]byte("-MOVED 5 a:1\r\n"))
	f.Add([]byte("*1\r\n*3\r\n:0\r\n:16383\r\n*2\r\n$1\r\na\r\n:1\r\n"))
	f.Fuzz(func(t *testing.T, in []byte) {
		reader := bytes.NewReader(in)
		l := &link{in: bufio.NewReader(reader), left: maxReply}
		reply, err := l.reply(maxDepth)
		if err != nil {
			return
		}
		_, _ = parseTime(reply)
		v, err := parseView("seed:1", []any{"cluster_state:ok\r\n", reply})
		if err != nil {
			return
		}
		for _, r := range v.ranges {
			assert.LessOrEqual(t, r.first, r.last)
			assert.Less(t, r.last, uint16(16384))
			assert.NotEmpty(t, r.addr)
		}
	})
}
