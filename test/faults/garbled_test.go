package faults

import (
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"cellserver/buckets"
	"cellserver/buckets/cluster"
	"cellserver/internal/testing/engines"
)

// An engine is down when the store starts, and later again; it hangs; it comes back each time.
func TestEngineGoesAndComes(t *testing.T) {
	server := engines.Standalone(t, engines.Valkey81)
	server.Kill()
	const timeout = 150 * time.Millisecond
	s, log := start(t, at(server.Addr()), cluster.Rules{Timeout: timeout})
	l, lag, y := window(1e12), measureLag(t), newTally()
	refuses := func(how string) {
		t.Helper()
		for range 3 {
			op := y.take(s, "key", l)
			var away *buckets.Unavailable
			require.ErrorAs(t, op.Err, &away, how)
		}
	}
	decides := func() {
		t.Helper()
		t.Logf("decides after %v", requireDecides(t, s, "key"))
		require.Eventually(t, func() bool { return y.take(s, "key", l).Err == nil }, within, soon)
		require.Eventually(t, func() bool { return s.Remote().Away == 0 }, within, soon)
	}
	refuses("down at the start")
	require.Eventually(t, func() bool { return strings.Contains(fmt.Sprint(take(s, "key", l, 1).Err), "connection refused") }, within, soon)
	server.Start()
	decides()
	for range 2 {
		server.Kill()
		refuses("down")
		require.Eventually(t, func() bool { return s.Remote().Away == 1 }, within, soon)
		refuses("down for some time")
		server.Start()
		decides()
		server.Pause()
		refuses("hung")
		require.Eventually(t, func() bool { return s.Remote().Away == 1 }, within, soon)
		refuses("hung for some time")
		server.Resume()
		decides()
	}
	y.check(t, timeout, lag)
	assert.Less(t, strings.Count(log.String(), "\n"), 30, "%s", log)
	t.Logf("%v\n%s", y.errors(), log)
}

// What arrives instead of replies ends as errors. The store goes on with the next connection, counts nothing twice, and takes no more
// memory than what has arrived.
func TestGarbledReplies(t *testing.T) {
	server := engines.Standalone(t, engines.Valkey81)
	m := startMeddler(t, server.Addr())
	const timeout = 100 * time.Millisecond
	s, _ := open(t, at(m.addr()), cluster.Rules{Timeout: timeout})
	say := func(text string) meddling {
		return func([]string, func() []byte) ([]byte, next) { return []byte(text), goOn }
	}
	sayAnd := func(text string, then next) meddling {
		return func(_ []string, ask func() []byte) ([]byte, next) { ask(); return []byte(text), then }
	}
	rows := map[string]struct {
		meddle  meddling
		reason  string // a part of the error; "" is any
		decides bool   // and it may as well decide
	}{
		"half a reply, and the end": {meddle: func(_ []string, ask func() []byte) ([]byte, next) {
			reply := ask()
			return reply[:len(reply)/2], hangUp
		}, reason: "closed the connection"},
		"half a reply, and silence": {meddle: func(_ []string, ask func() []byte) ([]byte, next) {
			reply := ask()
			return reply[:len(reply)/2], sayNothing
		}, reason: "not answered within store-timeout"},
		"nothing, and the end":       {meddle: sayAnd("", hangUp), reason: "closed the connection"},
		"nothing":                    {meddle: sayAnd("", sayNothing), reason: "not answered within store-timeout"},
		"an integer":                 {meddle: say(":1\r\n"), reason: "no reply to the command"},
		"a simple string":            {meddle: say("+OK\r\n"), reason: "no reply to the command"},
		"an array":                   {meddle: say("*1\r\n$1\r\nx\r\n"), reason: "no reply to the command"},
		"a null array":               {meddle: say("*-1\r\n"), reason: "no reply to the command"},
		"a null of RESP3":            {meddle: say("_\r\n"), reason: "no reply to the command"},
		"a map of RESP3":             {meddle: say("%9223372036854775807\r\n"), reason: "no reply to the command"},
		"a length beyond int64":      {meddle: say("$99999999999999999999\r\n"), reason: "no reply to the command"},
		"the largest length":         {meddle: say("$9223372036854775807\r\n"), reason: ""},
		"a length beyond the limit":  {meddle: say("$536870913\r\n"), reason: "too large"},
		"a length that never comes":  {meddle: sayAnd("$536870912\r\nxx", sayNothing), reason: "not answered within store-timeout"},
		"a negative length":          {meddle: say("$-2\r\n"), reason: "no reply to the command"},
		"a hexadecimal length":       {meddle: say("$0x1\r\na\r\n"), reason: "no reply to the command"},
		"a length that is too short": {meddle: say("$3\r\nabcdef\r\n"), reason: "no reply to the command"},
		"a line without its end":     {meddle: sayAnd("-"+strings.Repeat("x", 1<<20), sayNothing), reason: "too large"},
		"a bare line feed":           {meddle: say("-ERR no\n"), reason: "no reply to the command"},
		"another protocol":           {meddle: say("HTTP/1.1 400 Bad Request\r\n\r\n"), reason: "no reply to the command"},
		"zeros":                      {meddle: say(strings.Repeat("\x00", 100_000)), reason: "no reply to the command"},
		"a value of somebody else":   {meddle: say("$5\r\nhello\r\n"), reason: string(buckets.ErrForeignValue)},
		"an error":                   {meddle: say("-ERR \x1b[31mno\tway\r\n"), reason: "the engine refuses: ERR ?[31mno?way"},
		"an empty error":             {meddle: say("-\r\n"), reason: "the engine refuses"},
		"a MOVED without a slot":     {meddle: say("-MOVED\r\n"), reason: "MOVED"},
		"a MOVED to a wrong slot":    {meddle: say("-MOVED 99999 127.0.0.1:1\r\n"), reason: "MOVED"},
		"a MOVED to nowhere":         {meddle: say("-MOVED 0 \r\n"), reason: "MOVED"},
		"a MOVED to itself":          {meddle: say("-MOVED 0 " + m.addr() + "\r\n"), reason: "MOVED"},
		"an ASK to itself":           {meddle: say("-ASK 0 " + m.addr() + "\r\n"), reason: "ASK"},
		"an ASK to nobody":           {meddle: say("-ASK 0 127.0.0.1:1\r\n"), reason: ""},
		"LOADING":                    {meddle: say("-LOADING Redis is loading the dataset in memory\r\n"), reason: "LOADING"},
		"MASTERDOWN":                 {meddle: say("-MASTERDOWN Link with MASTER is down\r\n"), reason: "MASTERDOWN"},
		"a reply too many": {meddle: func(_ []string, ask func() []byte) ([]byte, next) {
			reply := ask()
			return append(reply, reply...), goOn
		}, decides: true},
	}
	for name, row := range rows {
		t.Run(name, func(t *testing.T) {
			lag, y := measureLag(t), newTally()
			key := "counter " + name
			requireDecides(t, s, "probe")
			require.NoError(t, y.increment(s, key))
			goroutines, memory := runtime.NumGoroutine(), heap()
			m.with(ofKeys(row.meddle))
			reasons := make(map[string]bool)
			for range 3 {
				from := time.Now()
				err := increment(s, key)
				if took := time.Since(from); errors.Is(err, buckets.ErrForeignValue) {
					y.note(key, false, &buckets.Unavailable{Reason: err.Error()}, took) // which is right here
				} else {
					y.note(key, false, err, took)
				}
				if !row.decides && assert.Error(t, err) {
					reasons[err.Error()] = true
				}
			}
			assert.Less(t, heap()-memory, int64(4<<20))
			assert.Less(t, runtime.NumGoroutine(), goroutines+10)
			m.with(nil)
			y.check(t, timeout, lag)
			if row.reason != "" {
				assert.Contains(t, fmt.Sprint(reasons), row.reason)
			}
			took := requireDecides(t, s, "probe")
			// A server that an ASK has named in vain is asked no longer after a moment.
			require.Eventually(t, func() bool { return y.increment(s, key) == nil }, 3*time.Second, soon)
			n := value(t, s, key)
			t.Logf("%v; decides again after %v", y.errors(), took)
			if !row.decides {
				assert.GreaterOrEqual(t, n, y.got(key))
				assert.LessOrEqual(t, n, y.got(key)+y.doubtful(key))
			}
		})
	}
}

// What another program has written below the prefix is an error, and stays.
func TestForeignValues(t *testing.T) {
	for _, version := range engines.Versions() {
		t.Run(version.String(), func(t *testing.T) {
			server := engines.Standalone(t, version)
			s, _ := open(t, cluster.Config{Addrs: []string{server.Addr()}, Prefix: "p:"}, cluster.Rules{Timeout: time.Second})
			client, ctx := server.Client(), t.Context()
			require.NoError(t, client.Set(ctx, "p:text", "hello", 0).Err())
			require.NoError(t, client.Set(ctx, "p:number", "12", 0).Err())
			require.NoError(t, client.Set(ctx, "p:large", strings.Repeat("x", 1<<20), 0).Err())
			require.NoError(t, client.Set(ctx, "p:cut", "\x02\x01", 0).Err())
			require.NoError(t, client.RPush(ctx, "p:list", "a").Err())
			require.NoError(t, client.HSet(ctx, "p:hash", "a", "b").Err())
			dump := func(key string) string { return client.Dump(ctx, "p:"+key).Val() }
			all := limits(5)
			for _, key := range []string{"text", "number", "large", "cut", "list", "hash"} {
				before := dump(key)
				require.NotEmpty(t, before)
				for range 3 {
					for kind, l := range all {
						assert.ErrorIs(t, take(s, key, l, 1).Err, buckets.ErrForeignValue, "%s, %s", key, kind)
					}
					assert.ErrorIs(t, increment(s, key), buckets.ErrForeignValue, key)
				}
				assert.Equal(t, before, dump(key), key)
				// Its neighbours are decided.
				assert.NoError(t, take(s, "key", window(1000), 1).Err)
			}
			assert.Zero(t, s.Remote().Failures)
			// When it is gone the key is used as any other.
			require.NoError(t, client.Del(ctx, "p:text", "p:list").Err())
			assert.NoError(t, take(s, "text", all["window"], 1).Err)
			assert.NoError(t, take(s, "list", all["slide"], 1).Err)
		})
	}
}
