package resp_test

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"cellserver/buckets/memory"
	"cellserver/internal/testing/testenv"
	"cellserver/resp"
)

// sectionOf returns the fields of a section of INFO.
func sectionOf(p *peer, section string) map[string]string {
	p.t.Helper()
	p.send("INFO " + section + "\r\n")
	var size int
	_, err := fmt.Fscanf(p.r, "$%d\r\n", &size)
	require.NoError(p.t, err)
	text := make([]byte, size+len("\r\n"))
	for n := 0; n < len(text); {
		more, err := p.r.Read(text[n:])
		require.NoError(p.t, err)
		n += more
	}
	return fieldsOf(string(text))
}

// fieldsOf returns the fields of a reply to INFO.
func fieldsOf(text string) map[string]string {
	fields := make(map[string]string)
	for line := range strings.Lines(text) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), ":"); ok {
			fields[name] = value
		}
	}
	return fields
}

// Non-blocking commands that run one after the other share their time equally, and other commands are timed one by one. No time
// counts twice, and the time of a pause does not count.
func TestCommandTimeIsSharedWithinABatchAndLeavesOutPauses(t *testing.T) {
	const limit = "CL.WINDOW k 100 60\r\n"
	for _, row := range []struct {
		name, before, send string
		want               map[string]string // by command: calls, microseconds, rejected and failed calls
	}{
		{"the commands of a batch share its time", "", limit + "PING\r\n" + limit + limit,
			map[string]string{"cl.window": "3 36000 0 0", "ping": "1 12000 0 0", "echo": "1 12000 0 0"}},
		{"up to what is timed by itself", "", limit + "DBSIZE\r\nDBSIZE\r\n",
			map[string]string{"cl.window": "1 20000 0 0", "dbsize": "2 40000 0 0", "echo": "1 0 0 0"}},
		{"what was refused has not run, and what failed has", "", "PING a b\r\nPING\r\nCL.WINDOW k x 60\r\n" + limit + "CL.THROTTLE\r\nTTL\r\n",
			map[string]string{"ping": "2 8000 0 1", "cl.window": "2 8000 0 1", "cl.throttle": "0 0 1 0", "ttl": "0 0 1 0", "echo": "1 4000 0 0"}},
		{"EXEC takes what its commands take", "", "MULTI\r\n" + limit + "PING\r\nDBSIZE\r\n" + limit + limit + "EXEC\r\n",
			map[string]string{"multi": "1 0 0 0", "exec": "1 80000 0 0", "cl.window": "3 50000 0 0", "ping": "1 10000 0 0", "dbsize": "1 20000 0 0", "echo": "1 0 0 0"}},
		{"a pause is nobody's", "CLIENT PAUSE 5000 WRITE", limit + limit + "PING\r\nPING\r\n",
			map[string]string{"client|pause": "1 0 0 0", "cl.window": "2 16000 0 0", "ping": "2 16000 0 0", "echo": "1 8000 0 0"}},
		{"more commands than a stretch has rows", "", "PING\r\nTTL k\r\nPTTL k\r\nEXPIRETIME k\r\nPEXPIRETIME k\r\nEXISTS k\r\nTOUCH k\r\n" + limit +
			"TYPE k\r\nPING\r\n", map[string]string{"ping": "2 2500 0 0", "ttl": "1 2500 0 0", "pttl": "1 2500 0 0", "expiretime": "1 2500 0 0",
			"pexpiretime": "1 2500 0 0", "exists": "1 2500 0 0", "touch": "1 2500 0 0", "cl.window": "1 2500 0 0", "type": "1 0 0 0", "echo": "1 0 0 0"}},
	} {
		bubble(t, row.name, func(t *testing.T) {
			l := newSubject(t, late{memory.NewStore(1), 20 * time.Millisecond}).inMemory(t)
			p, o := connect(t, l.Dial), connect(t, l.Dial)
			o.ask("CONFIG RESETSTAT", "+OK\r\n")
			if row.before != "" {
				o.ask(row.before, "+OK\r\n")
			}
			p.send(row.send + "ECHO done\r\n")
			for line := ""; line != "done\r\n"; {
				var err error
				line, err = p.r.ReadString('\n')
				require.NoError(t, err)
			}
			synctest.Wait()
			got := make(map[string]string)
			for name, value := range sectionOf(o, "commandstats") {
				var calls, micros, rejected, failed int
				var each float64
				_, err := fmt.Sscanf(value, "calls=%d,usec=%d,usec_per_call=%f,rejected_calls=%d,failed_calls=%d", &calls, &micros, &each, &rejected, &failed)
				require.NoError(t, err, value)
				assert.InDelta(t, float64(micros)/float64(max(calls, 1)), each, 0.005, value)
				got[strings.TrimPrefix(name, "cmdstat_")] = fmt.Sprint(calls, micros, rejected, failed)
			}
			delete(got, "config|resetstat")
			assert.Equal(t, row.want, got)
		})
	}
}

// The time of a batch counts once if its replies are sent in parts.
func TestTimeOfABatchSentInPartsIsCountedOnce(t *testing.T) {
	bubble(t, "sent in parts", func(t *testing.T) {
		l := newSubject(t, late{memory.NewStore(1), 20 * time.Millisecond}).inMemory(t)
		p, o := connect(t, l.Dial), connect(t, l.Dial)
		p.send("CL.WINDOW k 100 60\r\n" + strings.Repeat("LOLWUT\r\n", 1000) + "ECHO done\r\n")
		for line := ""; line != "done\r\n"; {
			var err error
			line, err = p.r.ReadString('\n')
			require.NoError(t, err)
		}
		synctest.Wait()
		sum := 0
		for _, value := range sectionOf(o, "commandstats") {
			_, micros, _ := strings.Cut(value, "usec=")
			n, err := strconv.Atoi(micros[:strings.IndexByte(micros, ',')])
			require.NoError(t, err)
			sum += n
		}
		assert.InDelta(t, 20_000, sum, 3, "microseconds")
	})
}

// INFO and LATENCY HISTOGRAM report latencies as Redis does, and CONFIG RESETSTAT resets them.
func TestLatencyReportsAreAsInRedisUntilReset(t *testing.T) {
	bubble(t, "in Redis's form", func(t *testing.T) {
		l := newSubject(t, late{memory.NewStore(1), 20 * time.Millisecond}).inMemory(t)
		p, o := connect(t, l.Dial), connect(t, l.Dial)
		for range 99 {
			p.ask("PING", "+PONG\r\n")
		}
		p.send("CL.WINDOW k 100 60\r\nPING\r\n")
		p.expect("*5\r\n:0\r\n:100\r\n:99\r\n:-1\r\n:60\r\n+PONG\r\n")
		synctest.Wait()
		assert.Equal(t, map[string]string{
			"latency_percentiles_usec_ping":      "p50=0.001,p99=0.001,p99.9=10027.007",
			"latency_percentiles_usec_cl.window": "p50=10027.007,p99=10027.007,p99.9=10027.007",
		}, sectionOf(o, "latencystats"))
		const ping = "$4\r\nping\r\n*4\r\n$5\r\ncalls\r\n:100\r\n$14\r\nhistogram_usec\r\n*4\r\n:1\r\n:99\r\n:16908\r\n:100\r\n"
		const info = "$4\r\ninfo\r\n*4\r\n$5\r\ncalls\r\n:1\r\n$14\r\nhistogram_usec\r\n*2\r\n:1\r\n:1\r\n"
		o.ask("LATENCY HISTOGRAM PING nosuch cl.all Info", "*4\r\n"+ping+info)
		o.ask("LATENCY HISTOGRAM latency", "*2\r\n$17\r\nlatency|histogram\r\n*4\r\n$5\r\ncalls\r\n:1\r\n$14\r\nhistogram_usec\r\n*2\r\n:1\r\n:1\r\n")
		o.ask("CONFIG RESETSTAT", "+OK\r\n")
		o.ask("LATENCY HISTOGRAM", "*2\r\n$16\r\nconfig|resetstat\r\n*4\r\n$5\r\ncalls\r\n:1\r\n$14\r\nhistogram_usec\r\n*2\r\n:1\r\n:1\r\n")
		o.ask("LATENCY HISTOGRAM ping", "*0\r\n")
	})
}

// counted are lines with the same statistics as in Redis. The key k exists, and nokey does not.
var counted = []string{
	"TTL k", "TTL nokey", "PTTL k", "EXPIRETIME nokey", "PEXPIRETIME k", "TYPE k", "TYPE nokey", "EXISTS k nokey k", "TOUCH k nokey",
	"OBJECT ENCODING k", "OBJECT IDLETIME k", "OBJECT FREQ k", "CLUSTER NODES", "ROLE", "DEBUG SLEEP 0", "OBJECT REFCOUNT nokey", "OBJECT REFCOUNT k", "MEMORY USAGE k", "MEMORY USAGE nokey", "KEYS *", "SCAN 0",
	"RANDOMKEY", "DBSIZE", "EXPIRE k 500", "EXPIRE nokey 500", "PERSIST nokey", "RENAME nokey x", "RENAME k x", "RENAMENX x k",
	"DEL nokey", "UNLINK nokey nokey", "LATENCY HISTOGRAM nosuch", "CLIENT FOO", "CONFIG FOO a b c", "OBJECT", "CLIENT",
	"MULTI\nTTL k\nTTL nokey\nPING a b\nEXPIRE k x\nTTL\nDISCARD", "MULTI\nTTL k\nEXPIRE k x\nPING\nEXEC", "EXEC", "DISCARD",
	"MULTI\nMULTI\nTTL\nEXEC", "WATCH k\nMULTI\nTYPE k\nEXEC", "CLIENT REPLY OFF\nfoo\nTTL k\nTTL\nCLIENT REPLY ON",
	"CLIENT REPLY SKIP\nTTL k\nPING",
}

var usecs = regexp.MustCompile(`,usec=\d+,usec_per_call=\d+\.\d\d`)

// Calls, rejections, failures, hits and misses are counted as in Redis, for every line with the same reply.
func TestStatisticsAsRedis(t *testing.T) {
	socket := testenv.Redis(t)
	now := int64(1_700_000_123) * 1e9
	ours := newQuiet(8, &now)
	feed := func(sent string) string {
		c := resp.NewTestConn(ours, now)
		reply := string(c.Feed(now, []byte(sent)))
		if !c.Closed() {
			c.Feed(now, []byte(theEnd))
		}
		return reply
	}
	shown := func(reply string) string {
		var lines []string
		for name, value := range fieldsOf(reply) {
			kind, _, _ := strings.Cut(name, "_")
			if kind == "cmdstat" || kind == "errorstat" || kind == "keyspace" || name == "total_error_replies" || name == "total_commands_processed" {
				lines = append(lines, name+":"+usecs.ReplaceAllString(value, ""))
			}
		}
		slices.Sort(lines)
		return strings.Join(lines, "\n")
	}
	tell := words(t, "INFO everything")
	compare := func(line string, inRedis, here []string) {
		setUp := func(more []string) string {
			return words(t, slices.Concat([]string{"FLUSHALL"}, more, []string{"CONFIG RESETSTAT"})...)
		}
		require.NotContains(t, askRedis(t, socket, setUp(inRedis)+theEnd), "-ERR", line)
		require.NotContains(t, feed(setUp(here)), "-ERR", line)
		sent := words(t, append(strings.Split(line, "\n"), "PING")...)
		askRedis(t, socket, sent+theEnd)
		feed(sent + theEnd)
		assert.Equal(t, shown(askRedis(t, socket, tell+theEnd)), shown(feed(tell)), "%.200s", line)
	}
	for _, line := range slices.Concat(alike, counted) {
		if strings.HasPrefix(line, "SCAN 0 TYPE") {
			continue // Redis looks up each key that it finds, for its type, and counts that as a hit
		}
		compare(line, []string{"SETEX k 1000 1"}, []string{"CL.WINDOW k 5 1000"})
	}
	for _, line := range countedOfCounters {
		counters := []string{"SETEX k 1000 1", "SET n 7"}
		compare(line, append(counters, "RPUSH other x"), append(counters, "CL.WINDOW other 5 1000"))
	}
}

// countedOfCounters are lines on k and n, which are counters, on other, which is of another type, and on keys that do not exist.
var countedOfCounters = []string{
	"GET k", "GET k2", "GET other", "GET", "GETDEL k", "GETDEL k2", "GETDEL other", "STRLEN k", "STRLEN k2", "STRLEN other",
	"GETEX k", "GETEX k2", "GETEX other", "GETEX k EX 100", "GETEX k PERSIST", "GETEX n PERSIST", "GETEX k2 EX 100", "GETEX k EXAT 1", "GETEX k EX 0",
	"GETEX k EX x", "GETEX k FOO", "GETEX k2 EX 0", "GETEX k2 EX x", "GETEX other EX x", "GETEX other EX 0",
	"SET k 2", "SET k2 2", "SET k 2 NX", "SET k2 2 NX", "SET k 2 XX", "SET k2 2 XX", "SET k 2 GET", "SET k2 2 GET", "SET other 2 GET", "SET other 2 NX",
	"SET k 2 NX GET", "SET k2 2 NX GET", "SET k 2 XX GET", "SET k2 2 XX GET", "SET k 2 KEEPTTL", "SET k2 2 KEEPTTL", "SET k 2 EX 10", "SET k 2 EX 0", "SET k 2 FOO",
	"SET other 2 XX GET", "SET other 2 NX GET", "SET k 2 NX XX", "SET k 2 GET EX 0",
	"SETEX k 10 2", "SETEX k 0 2", "SETEX k x 2", "PSETEX k 10000 2", "SETNX k 2", "SETNX k2 2", "SETNX other 2",
	"GETSET k 2", "GETSET k2 2", "GETSET other 2",
	"MGET k k2 other", "MGET k k n", "MSET k 2 k2 3", "MSET k 2 k2", "MSET k2 2 k2 3",
	"INCR k", "INCR k2", "INCR other", "DECR n", "INCRBY k 5", "INCRBY k x", "DECRBY k -9223372036854775808", "INCRBY k 9223372036854775807", "DECRBY other 1",
	"EXPIRE n 10 NX", "EXPIRE n 10 XX", "EXPIRE n 10 GT", "EXPIRE n 10 LT", "EXPIRE k 0", "PERSIST k", "PERSIST n", "TTL n", "PTTL n", "EXPIRETIME n",
	"OBJECT ENCODING k", "OBJECT IDLETIME k", "OBJECT FREQ k", "OBJECT REFCOUNT k", "OBJECT HELP", "TYPE k", "EXISTS k n k2", "TOUCH k k2", "RENAME k n", "RENAMENX k n", "RENAMENX k k2",
	"MEMORY USAGE k", "SCAN 0", "KEYS *", "RANDOMKEY",
	"MULTI\nINCR k\nEXPIRE k 10\nINCR other\nGET k\nEXEC", "MULTI\nINCR\nEXEC", "WATCH k\nMULTI\nGET k\nEXEC", "WATCH k\nSET k 1\nMULTI\nGET k\nEXEC",
	"CLIENT REPLY SKIP\nGET k\nGET k2", "CLIENT REPLY OFF\nINCR other\nGET k\nCLIENT REPLY ON", "CLIENT NO-EVICT on\nGET k",
}

// The instantaneous rates in INFO are the means of the last 16 samples, which Sample takes ten times a second.
func TestInstantaneousRatesAreTheMeanOf16Samples(t *testing.T) {
	bubble(t, "of the last 1.6 s", func(t *testing.T) {
		s := newSubject(t, nil)
		l := s.inMemory(t)
		p := connect(t, l.Dial)
		rates := func() []string {
			stats := sectionOf(p, "stats")
			return []string{stats["instantaneous_ops_per_sec"], stats["instantaneous_input_kbps"], stats["instantaneous_output_kbps"]}
		}
		assert.Equal(t, []string{"0", "0.00", "0.00"}, rates())
		p.ask("CONFIG RESETSTAT", "+OK\r\n")
		synctest.Wait()
		s.Sample()
		second := func() {
			for range 10 {
				p.send(strings.Repeat("PING\r\n", 100))
				p.expect(strings.Repeat("+PONG\r\n", 100))
				time.Sleep(100 * time.Millisecond)
				s.Sample()
			}
		}
		second()
		assert.Equal(t, []string{"625", "3.66", "4.27"}, rates(), "they fill in 1.6 s, as in Redis")
		second()
		assert.Equal(t, "1000", rates()[0])
		for range 16 {
			time.Sleep(100 * time.Millisecond)
			s.Sample()
		}
		assert.Equal(t, "0", rates()[0])
		second()
		p.ask("CONFIG RESETSTAT", "+OK\r\n")
		assert.Equal(t, []string{"0", "0.00", "0.00"}, rates())
		time.Sleep(100 * time.Millisecond)
		s.Sample()
		assert.Equal(t, "1", rates()[0], "two commands in 1.6 s")
	})
}

// CONFIG RESETSTAT resets the counters that Redis resets, including those of the store.
func TestResetStatResetsWhatRedisResets(t *testing.T) {
	bubble(t, "all counts", func(t *testing.T) {
		p := connect(t, newSubject(t, nil).inMemory(t).Dial)
		p.ask("CL.WINDOW k 5 1", "*5\r\n:0\r\n:5\r\n:4\r\n:-1\r\n:1\r\n")
		p.ask("TTL k", ":1\r\n")
		time.Sleep(time.Second)
		p.ask("TTL k", ":-2\r\n")
		p.ask("TTL", "-ERR wrong number of arguments for 'ttl' command\r\n")
		counts := func() (all []string) {
			stats := sectionOf(p, "stats")
			for _, name := range []string{"expired_keys", "keyspace_hits", "keyspace_misses", "total_error_replies", "total_commands_processed"} {
				all = append(all, stats[name])
			}
			return all
		}
		assert.Equal(t, []string{"1", "1", "1", "1", "3"}, counts())
		p.ask("CONFIG RESETSTAT", "+OK\r\n")
		assert.Equal(t, []string{"0", "0", "0", "0", "1"}, counts())
	})
}

// Only a limit command with PEEK counts as a hit or a miss: the others look up keys in order to change them, and Redis does not
// count that either.
func TestOnlyPeeksCountAsHitsOrMisses(t *testing.T) {
	now := int64(1_700_000_123) * 1e9
	c := resp.NewTestConn(newQuiet(8, &now), now)
	c.Feed(now, []byte("CL.WINDOW a 5 60\r\nCL.WINDOW a 5 60 0\r\nCL.WINDOW a 5 60 9\r\nCL.WINDOW a 5 60 1 PEEK\r\nCL.WINDOW b 5 60 1 PEEK\r\n"+
		"CL.ALL WINDOW a 5 60 1 ZSLIDE b 3 60 1 PEEK\r\nCL.ALL WINDOW a 5 60 9 ZSLIDE b 3 60 1\r\nCL.GET a\r\nCL.GET b\r\nDEL a b\r\n"))
	stats := fieldsOf(string(c.Feed(now, []byte("INFO stats\r\n"))))
	assert.Equal(t, []string{"3", "3"}, []string{stats["keyspace_hits"], stats["keyspace_misses"]})
}
