package resp_test

import (
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"cellserver/internal/testing/testenv"
)

// counterLines are what conversations on counters are made of, with things in braces to be drawn. Their values are integers.
var counterLines = []string{
	"SET {key} {value}", "SET {key} {value} {set}", "SET {key} {value} {set} {set}", "SET {key} {value} {set} {set} {set}",
	"SET {key} {value} EX {seconds} {set}", "SETEX {key} {seconds} {value}", "PSETEX {key} {seconds}000 {value}", "SETNX {key} {value}",
	"GETSET {key} {value}", "GET {key}", "GET {key}", "GETDEL {key}", "STRLEN {key}",
	"GETEX {key}", "GETEX {key} {get}", "GETEX {key} {get} {get}", "GETEX {key} EX {seconds}",
	"MGET {key} {key} {key}", "MGET {key}", "MSET {key} {value} {key} {value}", "MSET {key} {value} {key}",
	"INCR {key}", "INCR {key}", "DECR {key}", "INCRBY {key} {value}", "DECRBY {key} {value}", "INCRBY {key} {number}", "DECRBY {key} {number}",
	"EXPIRE {key} {seconds}", "EXPIRE {key} {seconds} {if}", "PEXPIRE {key} {seconds}000 {if}", "EXPIRE {key} {seconds} {if} {if}",
	"EXPIREAT {key} 1", "PEXPIREAT {key} 1 {if}", "EXPIRE {key} 0", "PERSIST {key}", "TTL {key}", "TTL {key}", "TYPE {key}", "EXISTS {key} {key}",
	"DEL {key}", "UNLINK {key} {key}", "RENAME {key} {key}", "RENAMENX {key} {key}", "OBJECT ENCODING {key}",
	"MULTI", "EXEC", "DISCARD", "SETEX {key} {number} {value}", "PSETEX {key} {number} 1", "TOUCH {key}",
	"SET {key}", "GET", "GET {key} {key}", "INCRBY {key}", "SETNX {key}", "MSET", "MGET", "GETSET {key}", "STRLEN", "GETDEL", "GETEX",
}

var counterWords = map[string][]string{
	"key":     {"a", "b", "c", "d"},
	"value":   {"0", "1", "-1", "5", "-7", "100", "9223372036854775807", "-9223372036854775808", "9223372036854775806", "12345678901"},
	"number":  {"0", "1", "-1", "x", "", "+1", "01", "-0", "1.5", "9223372036854775807", "-9223372036854775808", "9223372036854775808", " 1"},
	"seconds": {"1000"}, // distinct ones are drawn instead
	"if":      {"NX", "XX", "GT", "LT", "nx", "x"},
	"set":     {"NX", "XX", "GET", "KEEPTTL", "EX 500", "PX 500000", "EXAT 1", "PXAT 1", "EX 0", "EX -1", "EX x", "PX", "nx", "get", "FOO", "PERSIST"},
	"get":     {"PERSIST", "EX 500", "PX 500000", "EXAT 1", "PXAT 1", "EX 0", "EX x", "KEEPTTL", "NX", "EX", "px 1000000"},
}

// There is no DBSIZE, which counts keys in Redis that have expired and not been looked at since.
//
// A conversation on counters reads the same as with a real Redis, to the byte, as long as the values are integers.
func TestCountersAnswerAsRedis(t *testing.T) {
	socket := testenv.Redis(t)
	for seed := range uint64(500) {
		r := rand.New(rand.NewPCG(seed, 14))
		var lines []string
		distinct := 1000
		for range 40 {
			line := hole.ReplaceAllStringFunc(oneOfThese(r, counterLines...), func(h string) string {
				if h == "{seconds}" { // two alike would be later or not within the same millisecond
					distinct += 7
					return fmt.Sprint(distinct + 1000*r.IntN(4))
				}
				word := oneOfThese(r, counterWords[h[1:len(h)-1]]...)
				if word == "" || strings.HasPrefix(word, " ") {
					return `"` + word + `"`
				}
				return word
			})
			lines = append(lines, line)
		}
		lines = append(lines, "DISCARD", "MGET a b c d", "TTL a", "TTL b", "TTL c", "TTL d")
		sent := words(t, lines...) + theEnd
		askRedis(t, socket, words(t, "FLUSHALL")+theEnd)
		require.Equal(t, askRedis(t, socket, sent), askOurs(sent), "seed %d:\n%s", seed, strings.Join(lines, "\n"))
	}
}

// A user needs the same rights on the keys of each command as in Redis, whatever the options, and COMMAND tells the same of them.
func TestRightsOnCountersAsRedis(t *testing.T) {
	socket := testenv.Redis(t)
	var lines []string
	for _, line := range slices.Concat(countedOfCounters, []string{"SET k 2 get", "SET GET GET", "SET k 2 EX GET", "SET k 2 EX 10 gEt", "SET k", "MSET k 1 other"}) {
		if !strings.Contains(line, "\n") {
			lines = append(lines, "COMMAND GETKEYSANDFLAGS "+line, "ACL DRYRUN u "+line)
		}
	}
	for _, pattern := range []string{"~*", "%R~*", "%W~*", "%R~k %W~n", "%W~k", "%R~k*", "resetkeys"} {
		sent := words(t, append([]string{"ACL SETUSER u on nopass +@all resetkeys " + pattern}, lines...)...) + theEnd
		theirs, ours := mannersOf72(askRedis(t, socket, sent)), mannersOf72(askOurs(sent))
		for i, line := range append([]string{"ACL SETUSER"}, lines...) {
			var r, o value
			var err error
			r, theirs, err = readTextOf(theirs)
			require.NoError(t, err)
			o, ours, err = readTextOf(ours)
			require.NoError(t, err)
			said := func(v value) string {
				return regexp.MustCompile(`(?s)\A\$\d+\r\n(This user|User \S+) has no permissions`).ReplaceAllString(string(v.appendTo(nil)), "No permissions")
			}
			require.Equal(t, said(r), said(o), "%s: line %d, %s", pattern, i, line)
		}
	}
}

// readTextOf is readValue for texts.
func readTextOf(text string) (v value, rest string, err error) {
	v, left, err := readValue([]byte(text))
	return v, string(left), err
}
