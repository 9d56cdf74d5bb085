package test

// These tests compare the patterns with which people limit rates on Redis today, each written in a few lines, with the one
// command that replaces it. Both get the same attack: many clients use one key at the same time. If a pattern has a race, the
// attack provokes it: every client reads before any client writes. If a pattern takes the time from its client, the test sets
// that time.

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"cellserver/internal/testing/testenv"
	"cellserver/internal/testing/testserver"
)

const (
	// most is the limit in all of these tests.
	most = 10
	// everybody is the number of clients.
	everybody = 60
	// day is a period, in seconds, that does not end while a test runs.
	day = 86400
	// age is the same for windows on the calendar: it began in 1970 and ends in 2096.
	age int64 = 4_000_000_000
	// noon is the time, in Unix milliseconds, that clients send as now.
	noon int64 = 1_700_049_600_000
)

// crowd is the clients of one server, each with one connection.
type crowd []*redis.Client

// gather connects a crowd until the test ends.
func gather(t *testing.T, network, addr string) (c crowd) {
	t.Helper()
	complaints.take()
	t.Cleanup(func() {
		for _, one := range c {
			assert.NoError(t, one.Close())
		}
		assert.Empty(t, complaints.take(), "what go-redis logged")
	})
	for range everybody {
		c = append(c, redis.NewClient(&redis.Options{Network: network, Addr: addr, PoolSize: 1, MaxRetries: -1}))
	}
	c.atOnce(func(_ int, one *redis.Client) bool { return assert.NoError(t, one.Ping(t.Context()).Err()) })
	return c
}

// atOnce has every client call ask at the same time, and returns how many were admitted.
func (c crowd) atOnce(do func(n int, one *redis.Client) (admitted bool)) int {
	var admitted atomic.Int64
	var wait sync.WaitGroup
	begin := make(chan struct{})
	for n, one := range c {
		wait.Go(func() {
			<-begin
			if do(n, one) {
				admitted.Add(1)
			}
		})
	}
	close(begin)
	wait.Wait()
	return int(admitted.Load())
}

// oneByOne calls ask n times in sequence, and returns how many calls were admitted.
func oneByOne(n int, ask func(n int) bool) (admitted int) {
	for i := range n {
		if ask(i) {
			admitted++
		}
	}
	return admitted
}

// admits sends a limit command and returns whether it admits.
func admits(t *testing.T, c *redis.Client, args ...any) bool {
	got, err := c.Do(t.Context(), args...).Int64Slice()
	return assert.NoError(t, err) && assert.Len(t, got, 5) && got[0] == 0
}

// passes runs a script and returns whether it replies 1, which means admitted.
func passes(t *testing.T, c *redis.Client, script *redis.Script, keys []string, args ...any) bool {
	got, err := script.Run(t.Context(), c, keys, args...).Int()
	return assert.NoError(t, err) && got == 1
}

// duel is the two servers of a comparison, each with its crowd.
type duel struct{ redis, ours crowd }

// attack has every client send a limit command at the same time, and checks that exactly most are admitted.
func (d duel) attack(t *testing.T, args ...any) {
	t.Helper()
	got := d.ours.atOnce(func(_ int, one *redis.Client) bool { return admits(t, one, args...) })
	assert.Equal(t, most, got, "admitted by %v", args)
	t.Logf("limit %d, %d ask at once: %v admits %d", most, everybody, args[0], got)
}

// The arguments of the scripts are the limit, the period, and then their own.
var (
	setThenIncrement = redis.NewScript(`
		if redis.call('SET', KEYS[1], 1, 'NX', 'EX', ARGV[2]) then return 1 end
		if tonumber(redis.call('GET', KEYS[1])) >= tonumber(ARGV[1]) then return 0 end
		redis.call('INCR', KEYS[1])
		return 1`)

	incrementAlways = redis.NewScript(`
		if redis.call('EXISTS', KEYS[1]) == 0 then redis.call('SETEX', KEYS[1], ARGV[2], 0) end
		return redis.call('INCR', KEYS[1]) <= tonumber(ARGV[1]) and 1 or 0`)

	rollingList = redis.NewScript(`
		local oldest = redis.call('LINDEX', KEYS[1], ARGV[1] - 1)
		if oldest and ARGV[3] - oldest <= ARGV[2] * 1000 then return 0 end
		redis.call('LPUSH', KEYS[1], ARGV[3])
		if oldest then redis.call('RPOP', KEYS[1]) end
		return 1`)

	sortedSet = redis.NewScript(`
		redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', ARGV[3] - ARGV[2] * 1000)
		if redis.call('ZCARD', KEYS[1]) >= tonumber(ARGV[1]) then return 0 end
		redis.call('ZADD', KEYS[1], ARGV[3], ARGV[3])
		return 1`)

	filledAtOnce = redis.NewScript(`
		if tonumber(redis.call('GET', KEYS[1]) or 0) > 0 then
			redis.call('DECR', KEYS[1])
			return 1
		end
		if redis.call('EXISTS', KEYS[2]) == 1 then return 0 end
		redis.call('SET', KEYS[1], ARGV[1] - 1)
		redis.call('SET', KEYS[2], 1, 'PX', ARGV[2])
		return 1`)
)

func TestOneCommandReplacesEachScriptWithoutItsRaces(t *testing.T) {
	d := duel{redis: gather(t, "unix", testenv.Redis(t)), ours: gather(t, "tcp", start(t).addr)}
	for _, row := range []struct {
		name string
		test func(t *testing.T, d duel)
	}{
		{"a count per minute, read first", countPerMinute},
		{"SET NX EX, then INCR", setNX},
		{"EXISTS, SETEX, INCR", existsSetexIncr},
		{"a rolling list", listOfTimes},
		{"a sorted set that counts refusals", refusalsInASortedSet},
		{"a sorted set of milliseconds", millisecondsInASortedSet},
		{"two keys, filled all at once", tokensAndRefill},
		{"two keys, filled lazily", tokensAndTime},
		{"a list in memcached", listInMemcached},
		{"around the edge of a window", edges},
		{"any window at all", anyWindow},
	} {
		t.Run(row.name, func(t *testing.T) { row.test(t, d) })
	}
}

// The name of the key contains the minute. The client reads the count, decides, and then sends INCR and EXPIRE in a MULTI.
func countPerMinute(t *testing.T, d duel) {
	ctx := t.Context()
	look := func(c *redis.Client, key string) int {
		n, err := c.Get(ctx, key).Int()
		if err != redis.Nil {
			assert.NoError(t, err)
		}
		return n
	}
	count := func(c *redis.Client, key string) bool {
		_, err := c.TxPipelined(ctx, func(p redis.Pipeliner) error {
			p.Incr(ctx, key)
			p.Expire(ctx, key, day*time.Second)
			return nil
		})
		return assert.NoError(t, err)
	}

	// Every client reads before any client writes.
	var seen [everybody]int
	d.redis.atOnce(func(n int, one *redis.Client) bool {
		seen[n] = look(one, "minute 1")
		return false
	})
	got := d.redis.atOnce(func(n int, one *redis.Client) bool { return seen[n] < most && count(one, "minute 1") })
	assert.Equal(t, everybody, got, "admitted by the original")
	t.Logf("limit %d, %d ask at once: the original admits %d", most, everybody, got)

	// The pattern compares the count before it increments it, with > instead of >=.
	got = oneByOne(2*most, func(int) bool { return look(d.redis[0], "minute 2") <= most && count(d.redis[0], "minute 2") })
	assert.Equal(t, most+1, got, "admitted by the original with >")
	t.Logf("limit %d, %d ask one by one: the original with > admits %d", most, 2*most, got)

	d.attack(t, "CL.WINDOW", "minute", most, age, 1, "ALIGN", 0)
}

// SET NX EX opens the window and INCR counts in it. In a script that is correct within one window. As two commands, the key can
// expire between them.
func setNX(t *testing.T, d duel) {
	ctx := t.Context()
	got := d.redis.atOnce(func(_ int, one *redis.Client) bool {
		return passes(t, one, setThenIncrement, []string{"set"}, most, day)
	})
	assert.Equal(t, most, got, "admitted by the original")
	t.Logf("limit %d, %d ask at once: the script admits %d", most, everybody, got)

	c := d.redis[0]
	require.NoError(t, c.Set(ctx, "two commands", 1, time.Minute).Err(), "an open window")
	require.False(t, c.SetNX(ctx, "two commands", 0, time.Minute).Val(), "the first command")
	require.Equal(t, int64(1), c.Del(ctx, "two commands").Val(), "as if it expired here")
	require.Equal(t, int64(1), c.Incr(ctx, "two commands").Val())
	assert.Equal(t, time.Duration(-1), c.TTL(ctx, "two commands").Val(), "it never expires")
	got = oneByOne(2*most, func(int) bool { return c.Incr(ctx, "two commands").Val() <= most })
	assert.Equal(t, most-1, got, "admitted by the original, for ever")

	d.attack(t, "CL.WINDOW", "set", most, day)
	ttl := d.ours[0].TTL(ctx, "set").Val()
	assert.Positive(t, ttl)
	assert.LessOrEqual(t, ttl, day*time.Second)
}

// The script counts every request and refuses it if the count is too high. It also counts refused requests.
func existsSetexIncr(t *testing.T, d duel) {
	ctx := t.Context()
	ask := func(limit int) func(int, *redis.Client) bool {
		return func(_ int, one *redis.Client) bool {
			return passes(t, one, incrementAlways, []string{"exists"}, limit, day)
		}
	}
	got := d.redis.atOnce(ask(most))
	assert.Equal(t, most, got, "admitted by the original")
	count, err := d.redis[0].Get(ctx, "exists").Int()
	require.NoError(t, err)
	assert.Equal(t, everybody, count, "counted by the original")
	raised := d.redis.atOnce(ask(2 * most))
	assert.Zero(t, raised, "admitted by the original with twice the limit")
	t.Logf("limit %d, %d ask at once: the original admits %d and counts %d; with the limit raised to %d it admits %d more",
		most, everybody, got, count, 2*most, raised)

	d.attack(t, "CL.WINDOW", "exists", most, day)
	raised = d.ours.atOnce(func(_ int, one *redis.Client) bool {
		return admits(t, one, "CL.WINDOW", "exists", 2*most, day)
	})
	assert.Equal(t, most, raised, "admitted with twice the limit")
	t.Logf("with the limit raised to %d CL.WINDOW admits %d more", 2*most, raised)
}

// The script keeps the times of the last admissions in a list. The times come from the clients.
func listOfTimes(t *testing.T, d duel) {
	ctx := t.Context()
	ask := func(one *redis.Client, key string, now int64) bool {
		return passes(t, one, rollingList, []string{key}, most, 60, now)
	}
	right := d.redis.atOnce(func(_ int, one *redis.Client) bool { return ask(one, "list 1", noon) })
	assert.Equal(t, most, right, "admitted by the original with one clock")
	fast := d.redis.atOnce(func(_ int, one *redis.Client) bool { return ask(one, "list 1", noon+61_000) })
	assert.Equal(t, most, fast, "admitted by the original in the same moment, with a clock 61 seconds fast")
	t.Logf("limit %d, %d ask at once, and as many whose clocks are 61 s fast: the original admits %d",
		most, everybody, right+fast)
	assert.Equal(t, time.Duration(-1), d.redis[0].TTL(ctx, "list 1").Val(), "its key never expires")

	// A client whose clock is five minutes fast locks out the others for six minutes.
	require.Equal(t, most, d.redis.atOnce(func(_ int, one *redis.Client) bool { return ask(one, "list 2", noon+300_000) }))
	got := oneByOne(360, func(second int) bool { return ask(d.redis[0], "list 2", noon+1000*int64(second+1)) })
	assert.Zero(t, got, "admitted by the original within six minutes")
	assert.True(t, ask(d.redis[0], "list 2", noon+360_001))

	d.attack(t, "CL.ZSLIDE", "list", most, 60)
	ttl := d.ours[0].PTTL(ctx, "list").Val()
	assert.Positive(t, ttl)
	assert.LessOrEqual(t, ttl, time.Minute)
}

// One MULTI removes old requests, adds the new one, and counts. It also adds refused requests.
func refusalsInASortedSet(t *testing.T, d duel) {
	ctx := t.Context()
	ask := func(c *redis.Client, key string, now int64, member any) bool {
		var card *redis.IntCmd
		_, err := c.TxPipelined(ctx, func(p redis.Pipeliner) error {
			p.ZRemRangeByScore(ctx, key, "-inf", fmt.Sprint(now-60_000))
			p.ZAdd(ctx, key, redis.Z{Score: float64(now), Member: member})
			p.Expire(ctx, key, time.Minute)
			card = p.ZCard(ctx, key)
			return nil
		})
		return assert.NoError(t, err) && card.Val() <= most
	}
	got := d.redis.atOnce(func(n int, one *redis.Client) bool { return ask(one, "refusals 1", noon, n) })
	assert.Equal(t, most, got, "admitted by the original where each request is a member of its own")
	kept := d.redis[0].ZCard(ctx, "refusals 1").Val()
	assert.Equal(t, int64(everybody), kept, "kept by the original")
	d.attack(t, "CL.ZSLIDE", "refusals", most, day)
	stored, err := d.ours[0].Do(ctx, "CL.GET", "refusals").Result()
	require.NoError(t, err)
	require.IsType(t, map[any]any{}, stored)
	assert.Equal(t, int64(most), stored.(map[any]any)["sum"])
	t.Logf("limit %d, %d ask at once: the original keeps %d, CL.ZSLIDE %d", most, everybody, kept, most)

	got = d.redis.atOnce(func(_ int, one *redis.Client) bool { return ask(one, "refusals 2", noon, noon) })
	assert.Equal(t, everybody, got, "admitted by the original where the millisecond is the member")
	t.Logf("limit %d, %d ask in the same millisecond: the original with the time as member admits %d",
		most, everybody, got)

	// One client asks every five seconds for ten minutes. Ten of the twelve requests of a minute should be admitted.
	const asks = 120
	got = oneByOne(asks, func(n int) bool { return ask(d.redis[0], "refusals 3", noon+5000*int64(n), n) })
	assert.Equal(t, most, got, "admitted by the original in ten minutes")
	t.Logf("limit %d a minute, %d ask in ten minutes: the original admits %d", most, asks, got)
	synctest.Test(t, func(t *testing.T) {
		c := testserver.Client(t, testserver.Start(t))
		got := oneByOne(asks, func(n int) bool {
			if n > 0 {
				time.Sleep(5 * time.Second)
			}
			return admits(t, c, "CL.ZSLIDE", "refusals", most, 60)
		})
		assert.Equal(t, 10*most, got, "admitted in ten minutes")
		t.Logf("limit %d a minute, %d ask in ten minutes: CL.ZSLIDE admits %d", most, asks, got)
	})
}

// The script counts before it adds, but it adds the current millisecond as the member: it keeps only one of several requests
// in the same millisecond.
func millisecondsInASortedSet(t *testing.T, d duel) {
	const rounds = 20 // milliseconds, in each of which every client asks once
	got := 0
	for n := range rounds {
		got += d.redis.atOnce(func(_ int, one *redis.Client) bool {
			return passes(t, one, sortedSet, []string{"milliseconds"}, most, 60, noon+int64(n))
		})
	}
	// The first nine milliseconds admit everybody, and the tenth admits one.
	assert.Equal(t, (most-1)*everybody+1, got, "admitted by the original")
	t.Logf("limit %d, %d ask in each of %d milliseconds: the original admits %d", most, everybody, rounds, got)

	got = 0
	for range rounds {
		got += d.ours.atOnce(func(_ int, one *redis.Client) bool {
			return admits(t, one, "CL.ZSLIDE", "milliseconds", most, day)
		})
	}
	assert.Equal(t, most, got, "admitted by CL.ZSLIDE")
	t.Logf("limit %d, %d ask in each of %d rounds: CL.ZSLIDE admits %d", most, everybody, rounds, got)
}

// One key holds the tokens, and another key exists while they must not be refilled. The pattern checks the second key only if no
// token is left, so a client can use the remaining tokens and a refill right after one another.
func tokensAndRefill(t *testing.T, d duel) {
	ctx := t.Context()
	keys := []string{"tokens", "refill"}
	require.True(t, passes(t, d.redis[0], filledAtOnce, keys, most, 10))
	require.Eventually(t, func() bool { return d.redis[0].Exists(ctx, "refill").Val() == 0 }, patience, time.Millisecond)
	got := d.redis.atOnce(func(_ int, one *redis.Client) bool {
		return passes(t, one, filledAtOnce, keys, most, day*1000)
	})
	assert.Equal(t, 2*most-1, got, "admitted by the original")
	t.Logf("limit %d, one asks, the period ends, %d ask at once: the original admits %d", most, everybody, got)
	assert.Equal(t, time.Duration(-1), d.redis[0].TTL(ctx, "tokens").Val(), "one of its keys never expires")

	for _, row := range []struct{ short, long []any }{
		{[]any{"CL.WINDOW", "window", most, "0.01"}, []any{"CL.WINDOW", "window", most, day}},
		{[]any{"CL.THROTTLE", "throttle", most - 1, most, "0.1"}, []any{"CL.THROTTLE", "throttle", most - 1, most, day}},
	} {
		require.True(t, admits(t, d.ours[0], row.short...))
		gone := func() bool { return d.ours[0].Exists(ctx, row.short[1].(string)).Val() == 0 }
		require.Eventually(t, gone, patience, time.Millisecond)
		d.attack(t, row.long...)
	}
}

// The client reads the tokens and the time of the last refill, adds the tokens due since then, takes one, and writes both.
func tokensAndTime(t *testing.T, d duel) {
	ctx := t.Context()
	type bucket struct{ tokens, time int64 }
	look := func(c *redis.Client, now int64) bucket {
		got, err := c.MGet(ctx, "lazy tokens", "lazy time").Result()
		if !assert.NoError(t, err) || got[0] == nil {
			return bucket{most, now}
		}
		tokens, err := strconv.ParseInt(got[0].(string), 10, 64)
		assert.NoError(t, err)
		then, err := strconv.ParseInt(got[1].(string), 10, 64)
		assert.NoError(t, err)
		return bucket{min(most, tokens+(now-then)*most/(day*1000)), now}
	}
	var seen [everybody]bucket
	d.redis.atOnce(func(n int, one *redis.Client) bool {
		seen[n] = look(one, noon)
		return false
	})
	got := d.redis.atOnce(func(n int, one *redis.Client) bool {
		b := seen[n]
		return b.tokens > 0 && assert.NoError(t, one.MSet(ctx, "lazy tokens", b.tokens-1, "lazy time", b.time).Err())
	})
	assert.Equal(t, everybody, got, "admitted by the original")
	left := look(d.redis[0], noon).tokens
	assert.EqualValues(t, most-1, left, "left afterwards")
	t.Logf("limit %d, %d ask at once: the original admits %d and then has %d left", most, everybody, got, left)
	assert.Equal(t, time.Duration(-1), d.redis[0].TTL(ctx, "lazy tokens").Val(), "its keys never expire")

	d.attack(t, "CL.THROTTLE", "lazy", most-1, most, day)
}

// The client gets a list of times, drops the old ones, appends the current time, and sets the list. Redis stands in for
// memcached here: its GET and SET do the same.
func listInMemcached(t *testing.T, d duel) {
	ctx := t.Context()
	look := func(c *redis.Client, now int64) (times []int64) {
		text, err := c.Get(ctx, "memcached").Result()
		if err != redis.Nil && assert.NoError(t, err) {
			assert.NoError(t, json.Unmarshal([]byte(text), &times))
		}
		return slices.DeleteFunc(times, func(then int64) bool { return then <= now-60_000 })
	}
	var seen [everybody][]int64
	d.redis.atOnce(func(n int, one *redis.Client) bool {
		seen[n] = look(one, noon)
		return false
	})
	got := d.redis.atOnce(func(n int, one *redis.Client) bool {
		if len(seen[n]) >= most {
			return false
		}
		text, err := json.Marshal(append(seen[n], noon))
		return assert.NoError(t, err) && assert.NoError(t, one.Set(ctx, "memcached", text, day*time.Second).Err())
	})
	assert.Equal(t, everybody, got, "admitted by the original")
	kept := len(look(d.redis[0], noon))
	assert.Equal(t, 1, kept, "kept by the original")
	t.Logf("limit %d, %d ask at once: the original admits %d and keeps %d", most, everybody, got, kept)

	d.attack(t, "CL.ZSLIDE", "memcached", most, day)
}

// Every fixed window admits up to twice its limit around its edge. A sliding window never does.
func edges(t *testing.T, d duel) {
	const period = time.Second
	script := func(s *redis.Script) func(*redis.Client, string) bool {
		return func(one *redis.Client, key string) bool { return passes(t, one, s, []string{key}, most, 1) }
	}
	command := func(name string, more ...any) func(*redis.Client, string) bool {
		return func(one *redis.Client, key string) bool {
			return admits(t, one, append([]any{name, key, most, 1}, more...)...)
		}
	}
	gone := func(one *redis.Client, key string) bool { return one.Exists(t.Context(), key).Val() == 0 }
	for _, row := range []struct {
		name  string
		crowd crowd
		ask   func(one *redis.Client, key string) bool
		ended func(one *redis.Client, key string) bool // whether the first request has stopped counting
		after int
	}{
		{"SET NX EX, then INCR", d.redis, script(setThenIncrement), gone, most},
		{"EXISTS, SETEX, INCR", d.redis, script(incrementAlways), gone, most},
		{"CL.WINDOW", d.ours, command("CL.WINDOW"), gone, most},
		{"CL.ZSLIDE", d.ours, command("CL.ZSLIDE"), command("CL.ZSLIDE", 1, "PEEK"), 1},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel() // the subtests mostly wait
			// try opens a window with one request, and has every client ask shortly before it ends and again after its end. It
			// returns false if this took too long: all of it has to happen within less than a period.
			try := func(key string) (before, after int, ok bool) {
				ask := func(_ int, one *redis.Client) bool { return row.ask(one, key) }
				opened := time.Now()
				require.True(t, row.ask(row.crowd[0], key))
				late := func() bool { return row.crowd[0].PTTL(t.Context(), key).Val() < period/4 }
				require.Eventually(t, late, patience, time.Millisecond)
				began := time.Now()
				before = row.crowd.atOnce(ask)
				stillOpen := time.Since(opened) < period-5*time.Millisecond
				require.Eventually(t, func() bool { return row.ended(row.crowd[0], key) }, patience, time.Millisecond)
				after = row.crowd.atOnce(ask)
				took := time.Since(began)
				t.Logf("limit %d per %v: %s admits %d within %v", most, period, row.name, before+after, took)
				return before, after, stillOpen && took < period-5*time.Millisecond
			}
			var before, after int
			ok := false
			for n := 0; n < 20 && !ok; n++ {
				before, after, ok = try(fmt.Sprint(row.name, n))
			}
			require.True(t, ok, "the machine is too busy")
			assert.Equal(t, most-1, before, "admitted before the edge")
			assert.Equal(t, row.after, after, "admitted after it")
		})
	}
}

// One client asks from time to time, and then all clients ask without a pause for several periods. No period, wherever it
// begins, contains eleven admitted requests. A request is decided between the time of sending it and the time of its reply.
func anyWindow(t *testing.T, d duel) {
	const (
		period = 100 * time.Millisecond
		slack  = time.Millisecond // the clocks of server and test may differ by 500 parts per million
		enough = 6 * most
	)
	type admission struct{ sent, received time.Time }
	var mu sync.Mutex
	var all []admission
	var admitted, refused atomic.Int64
	ask := func(one *redis.Client) {
		sent := time.Now()
		if !admits(t, one, "CL.ZSLIDE", "any window", most, period.Seconds()) {
			refused.Add(1)
			return
		}
		received := time.Now()
		admitted.Add(1)
		mu.Lock()
		defer mu.Unlock()
		all = append(all, admission{sent, received})
	}
	began := time.Now()
	now := time.NewTicker(period / most) // spreads the first requests over a period
	defer now.Stop()
	for range most {
		ask(d.ours[0])
		<-now.C
	}
	d.ours.atOnce(func(_ int, one *redis.Client) bool {
		for admitted.Load() < enough && time.Since(began) < patience {
			ask(one)
		}
		return true
	})
	t.Logf("limit %d per %v, %d ask without a pause for %v: CL.ZSLIDE admits %d and refuses %d",
		most, period, everybody, time.Since(began), len(all), refused.Load())
	assert.GreaterOrEqual(t, len(all), enough)

	slices.SortFunc(all, func(a, b admission) int { return a.received.Compare(b.received) })
	for _, first := range all {
		n := 0
		for _, a := range all {
			if a.sent.Before(first.sent) {
				continue
			}
			if n++; n == most+1 {
				require.GreaterOrEqual(t, a.received.Sub(first.sent), period-slack, "%d were admitted within", n)
				break
			}
		}
	}
}
