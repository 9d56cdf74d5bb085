package resp_test

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"cellserver/resp"
)

// numbers are seeds for the fuzzers: valid and invalid numbers.
var numbers = []string{
	"0", "1", "15", "+15", "015", "-0", "-1", "60", "0.25", "4611686018", "4611686018.000000001", "0.000000001", "1e3", "0x1",
	"9223372036854775807", "9223372036854775808", "-9223372036854775808", "-9223372036854775809", "", " 1", "1.", ".5",
	"99999999999999999999999", "1.0000000001", "\x00", "é",
}

// askTwice sends a command three times, the third time much later. It checks that each reply is five integers within their
// bounds or an error of a known kind.
func askTwice(t *testing.T, words []string, check func(t *testing.T, v value)) {
	now := 1_700_000_123 * int64(time.Second)
	conn := resp.NewTestConn(newQuiet(1, &now), now)
	for range 3 {
		out := conn.Feed(now, multibulk(words...))
		v, rest, err := readValue(out)
		require.NoError(t, err, "%q", out)
		require.Empty(t, rest, "one reply")
		if out[0] == '-' {
			assert.NotContains(t, string(out), "internal error")
			assert.True(t, strings.HasPrefix(string(out), "-ERR ") || strings.HasPrefix(string(out), "-WRONGTYPE "), "%q", out)
		} else {
			check(t, v)
		}
		now += 61 * int64(time.Second)
	}
}

func integer(t *testing.T, v value) int64 {
	require.Equal(t, byte(':'), v.mark)
	n, err := strconv.ParseInt(strings.TrimSpace(string(v.head[1:])), 10, 64)
	require.NoError(t, err)
	return n
}

// checkDecision checks the five integers of a reply.
func checkDecision(t *testing.T, v value) {
	require.Len(t, v.items, 5)
	var n [5]int64
	for i, element := range v.items {
		n[i] = integer(t, element)
	}
	limited, limit, remaining, retry, reset := n[0], n[1], n[2], n[3], n[4]
	assert.True(t, limited == 0 || limited == 1, "%v", n)
	assert.Positive(t, limit, "%v", n)
	assert.True(t, 0 <= remaining && remaining <= limit, "%v", n)
	const longest = 4611686018 * 1000 // milliseconds
	assert.True(t, 0 <= reset && reset <= longest, "%v", n)
	if limited == 0 {
		assert.Equal(t, int64(-1), retry, "%v", n)
	} else {
		assert.True(t, retry == -1 || 1 <= retry && retry <= reset, "%v", n)
	}
	assert.Equal(t, remaining == limit, reset == 0, "%v: full when there is nothing to wait for", n)
}

func checkAll(t *testing.T, v value) {
	require.GreaterOrEqual(t, len(v.items), 3)
	refused := int64(0)
	for _, check := range v.items[2:] {
		checkDecision(t, check)
		refused += integer(t, check.items[0])
	}
	limited, which := integer(t, v.items[0]), integer(t, v.items[1])
	assert.Equal(t, limited == 1, refused > 0)
	assert.Equal(t, limited == 1, which > 0)
	assert.LessOrEqual(t, which, int64(len(v.items)-2))
}

func fuzzArgs(f *testing.F, command string) {
	for i, n := range numbers {
		next := numbers[(i+1)%len(numbers)]
		f.Add("k", n, next, "60", "1", "")
		f.Add(n, "15", n, next, n, "MS")
		f.Add("", "1", "1", n, next, "PEEK ms")
		f.Add("k", "5", "60", n, "ALIGN", next)
	}
	f.Fuzz(func(t *testing.T, key, a, b, c, d, rest string) {
		askTwice(t, append([]string{command, key, a, b, c, d}, strings.Fields(rest)...), checkDecision)
	})
}

func FuzzThrottleArgs(f *testing.F) { fuzzArgs(f, "CL.THROTTLE") }
func FuzzWindowArgs(f *testing.F)   { fuzzArgs(f, "CL.WINDOW") }
func FuzzZSlideArgs(f *testing.F)   { fuzzArgs(f, "CL.ZSLIDE") }

func FuzzAllArgs(f *testing.F) {
	for _, line := range []string{
		"THROTTLE a 15 30 60 1 WINDOW b 5 60 1 ZSLIDE z 3 60 1", "THROTTLE a 15 30 60 1 ZSLIDE z 3 60 3 PEEK MS",
		"WINDOW b 5 60 1 ALIGN -19800 ZSLIDE z 1 0.25 -5", "THROTTLE a 0 1 4611686018 1 THROTTLE b 9223372036854775806 1 1 1",
		"ZSLIDE z 9223372036854775807 1 9223372036854775807", "ZSLIDE  1 1 1 WINDOW", "PEEK", "throttle a 1 1 1 0 ms ms",
	} {
		f.Add(line)
	}
	f.Fuzz(func(t *testing.T, line string) {
		askTwice(t, append([]string{"CL.ALL"}, strings.Split(line, " ")...), checkAll)
	})
}
