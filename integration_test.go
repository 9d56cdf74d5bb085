// Package integration_test sees the built program from outside, as a process that clients connect to.
package integration_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

// patience bounds what takes a moment, however busy the machine is.
const patience = time.Minute

// binary is the program under test.
var binary string

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "cellserver")
	if err != nil {
		panic(err)
	}
	binary = filepath.Join(dir, "cellserver")
	if said, err := exec.Command("go", "build", "-o", binary, "./cmd/cellserver").CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "go build: %v\n%s", err, said)
		os.RemoveAll(dir)
		os.Exit(1)
	}
	redis.SetLogger(&complaints)
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		os.RemoveAll(dir)
		os.Exit(code)
	}))
}

// integers asks a limit command.
func integers(t *testing.T, c *redis.Client, args ...any) []int64 {
	t.Helper()
	got, err := c.Do(t.Context(), args...).Int64Slice()
	require.NoError(t, err)
	return got
}

func TestGoRedis(t *testing.T) {
	s := start(t)
	ctx := t.Context()
	c := s.client(t)

	// Its defaults: HELLO 3, CLIENT SETINFO, and MAINT_NOTIFICATIONS where the server knows them.
	assert.Equal(t, "PONG", c.Ping(ctx).Val())
	list := c.ClientList(ctx).Val()
	assert.Contains(t, list, " resp=3 ")
	assert.Contains(t, list, " lib-name=go-redis")

	assert.Equal(t, []int64{0, 16, 15, -1, 2}, integers(t, c, "CL.THROTTLE", "throttle", 15, 30, 60, 1))
	assert.Equal(t, []int64{0, 5, 4, -1, 60}, integers(t, c, "CL.WINDOW", "window", 5, 60))
	assert.Equal(t, []int64{0, 3, 2, -1, 60}, integers(t, c, "CL.ZSLIDE", "zslide", 3, 60))
	assert.Equal(t, []int64{1, 3, 2}, integers(t, c, "CL.ZSLIDE", "zslide", 3, 60, 3, "PEEK", "MS")[:3])

	assert.Equal(t, int64(3), c.Exists(ctx, "throttle", "window", "zslide", "nobody").Val())
	assert.Equal(t, int64(3), c.Touch(ctx, "throttle", "window", "zslide", "nobody").Val())
	assert.Equal(t, int64(3), c.DBSize(ctx).Val())
	assert.Equal(t, "zslide", c.Type(ctx, "zslide").Val())
	assert.Equal(t, "log", c.ObjectEncoding(ctx, "zslide").Val())
	assert.Positive(t, c.MemoryUsage(ctx, "zslide").Val())
	keys, cursor, err := c.Scan(ctx, 0, "*", 1000).Result()
	assert.NoError(t, err)
	assert.Zero(t, cursor)
	assert.ElementsMatch(t, []string{"throttle", "window", "zslide"}, keys)
	keys, _, err = c.ScanType(ctx, 0, "*", 1000, "window").Result()
	assert.NoError(t, err)
	assert.Equal(t, []string{"window"}, keys)
	assert.Equal(t, []string{"zslide"}, c.Keys(ctx, "z*").Val())
	assert.Contains(t, []string{"throttle", "window", "zslide"}, c.RandomKey(ctx).Val())

	assert.InDelta(t, 60, c.TTL(ctx, "window").Val().Seconds(), 30)
	assert.InDelta(t, 60, c.PTTL(ctx, "window").Val().Seconds(), 30)
	assert.InDelta(t, float64(time.Now().Unix())+60, c.ExpireTime(ctx, "window").Val().Seconds(), 30)
	assert.True(t, c.Expire(ctx, "window", 20*time.Second).Val())
	assert.LessOrEqual(t, c.TTL(ctx, "window").Val(), 20*time.Second)
	assert.True(t, c.Persist(ctx, "window").Val())
	assert.False(t, c.Persist(ctx, "window").Val())
	assert.Equal(t, "OK", c.Rename(ctx, "window", "calendar").Val())
	assert.False(t, c.RenameNX(ctx, "calendar", "zslide").Val())
	assert.EqualError(t, c.Rename(ctx, "nobody", "somebody").Err(), "ERR no such key")
	assert.Equal(t, int64(1), c.Del(ctx, "calendar", "nobody").Val())
	assert.Equal(t, int64(1), c.Unlink(ctx, "zslide", "nobody").Val())

	assert.Equal(t, map[string]string{"port": s.port}, c.ConfigGet(ctx, "por?").Val())
	assert.NoError(t, c.ConfigResetStat(ctx).Err())
	info := c.InfoMap(ctx).Val()
	assert.Equal(t, s.port, info["Server"]["tcp_port"])
	assert.Equal(t, "master", info["Replication"]["role"])
	commands, err := c.Command(ctx).Result()
	assert.NoError(t, err)
	assert.Equal(t, int8(1), commands["cl.window"].FirstKeyPos)
	assert.InDelta(t, float64(time.Now().Unix()), float64(c.Time(ctx).Val().Unix()), 30)
	assert.Equal(t, "hello", c.Echo(ctx, "hello").Val())
	assert.Positive(t, c.ClientID(ctx).Val())
	assert.EqualError(t, c.Set(ctx, "k", "v", 0).Err(), "ERR unknown command 'set', with args beginning with: 'k' 'v' ")
	assert.NoError(t, c.FlushAll(ctx).Err())
	assert.Zero(t, c.DBSize(ctx).Val())
}

func TestGoRedisPipeline(t *testing.T) {
	const n = 10000
	s := start(t)
	c := s.client(t)
	ctx := t.Context()
	p := c.Pipeline()
	for i := range n {
		p.Do(ctx, "CL.ZSLIDE", fmt.Sprint("k", i%10), n, 86400)
	}
	replies, err := p.Exec(ctx)
	require.NoError(t, err)
	require.Len(t, replies, n)
	for i, reply := range replies {
		got, err := reply.(*redis.Cmd).Int64Slice()
		require.NoError(t, err)
		require.Equal(t, []int64{0, n, int64(n - 1 - i/10), -1}, got[:4])
	}
}

func TestManyClientsShareALimitExactly(t *testing.T) {
	const clients, each, limit = 50, 40, 1000
	s := start(t)
	for _, row := range []struct {
		name string
		ask  []any
	}{
		{"CL.THROTTLE", []any{"CL.THROTTLE", "throttle", limit - 1, 1, 86400}},
		{"CL.WINDOW", []any{"CL.WINDOW", "window", limit, 86400}},
		{"CL.ZSLIDE", []any{"CL.ZSLIDE", "zslide", limit, 86400}},
	} {
		t.Run(row.name, func(t *testing.T) {
			var admitted, refused atomic.Int64
			var wait sync.WaitGroup
			for n := range clients {
				c := s.client(t)
				wait.Go(func() {
					count := func(cmd *redis.Cmd) {
						got, err := cmd.Int64Slice()
						switch {
						case !assert.NoError(t, err):
						case got[0] == 0:
							admitted.Add(1)
						default:
							refused.Add(1)
						}
					}
					if n%2 == 0 { // one by one
						for range each {
							count(c.Do(t.Context(), row.ask...))
						}
						return
					}
					p := c.Pipeline()
					for range each {
						p.Do(t.Context(), row.ask...)
					}
					replies, err := p.Exec(t.Context())
					assert.NoError(t, err)
					for _, reply := range replies {
						count(reply.(*redis.Cmd))
					}
				})
			}
			wait.Wait()
			assert.EqualValues(t, limit, admitted.Load(), "admitted")
			assert.EqualValues(t, clients*each-limit, refused.Load(), "refused")
		})
	}
}

// What rueidis keeps of what it reads is never stale: it is told behind each reply that it has changed.
func TestRueidisKeepsNothingStale(t *testing.T) {
	s := start(t)
	c, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{s.addr}})
	require.NoError(t, err)
	defer c.Close()
	ctx := t.Context()
	take := func(key string) {
		t.Helper()
		require.NoError(t, c.Do(ctx, c.B().Arbitrary("CL.WINDOW").Keys(key).Args("1000", "86400").Build()).Error())
	}
	cached := func(cmd rueidis.Cacheable) string {
		t.Helper()
		got, err := c.DoCache(ctx, cmd, time.Hour).ToAny()
		require.NoError(t, err)
		return fmt.Sprint(got)
	}
	for n := range 50 {
		key := fmt.Sprint("k", n%3)
		take(key)
		assert.Equal(t, "86400", cached(c.B().Ttl().Key(key).Cache()))
		require.NoError(t, c.Do(ctx, c.B().Expire().Key(key).Seconds(1000).Build()).Error())
		assert.Equal(t, "1000", cached(c.B().Ttl().Key(key).Cache()), "TTL")
		assert.Equal(t, "window", cached(c.B().Type().Key(key).Cache()))
		require.NoError(t, c.Do(ctx, c.B().Del().Key(key).Build()).Error())
		assert.Equal(t, "-2", cached(c.B().Ttl().Key(key).Cache()), "a key that is gone")
		assert.Equal(t, "none", cached(c.B().Type().Key(key).Cache()))
		assert.Equal(t, "-2", cached(c.B().Pttl().Key(key).Cache()), "and of which there was nothing to keep")
	}
	// Many at once, in one pipeline.
	for want, key := range []string{"a", "b", "c"} {
		for range want + 1 {
			take(key)
		}
	}
	for range 20 {
		for _, gone := range []bool{false, true} {
			answers := c.DoMultiCache(ctx, rueidis.CT(c.B().Type().Key("a").Cache(), time.Hour),
				rueidis.CT(c.B().Type().Key("b").Cache(), time.Hour), rueidis.CT(c.B().Ttl().Key("a").Cache(), time.Hour))
			want := map[bool]string{false: "window", true: "none"}[gone]
			for _, a := range answers[:2] {
				got, err := a.ToString()
				require.NoError(t, err)
				assert.Equal(t, want, got)
			}
			if gone {
				take("a")
				take("b")
			} else {
				require.NoError(t, c.Do(ctx, c.B().Del().Key("a", "b").Build()).Error())
			}
		}
	}
}

// rueidis insists on RESP3 and on client-side caching, and pipelines by itself what is asked at the same time.
func TestRueidis(t *testing.T) {
	s := start(t)
	c, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{s.addr}})
	require.NoError(t, err)
	defer c.Close()
	ctx := t.Context()
	throttle := func(key string) rueidis.Completed {
		return c.B().ClThrottle().Key(key).MaxBurst(15).CountPerPeriod(30).Period(60).Quantity(1).Build()
	}
	got, err := c.Do(ctx, throttle("user123")).AsIntSlice()
	require.NoError(t, err)
	assert.Equal(t, []int64{0, 16, 15, -1, 2}, got)

	list, err := c.Do(ctx, c.B().ClientList().Build()).ToString()
	require.NoError(t, err)
	assert.Contains(t, list, " flags=t ", "CLIENT TRACKING ON OPTIN")
	assert.Contains(t, list, " lib-name=rueidis")

	var wait sync.WaitGroup
	for n := range 100 {
		wait.Go(func() {
			got, err := c.Do(ctx, throttle(fmt.Sprint("at once ", n))).AsIntSlice()
			assert.NoError(t, err)
			assert.Equal(t, []int64{0, 16, 15, -1, 2}, got)
		})
	}
	wait.Wait()
	var many rueidis.Commands
	for n := range 1000 {
		many = append(many, c.B().Arbitrary("CL.WINDOW").Keys("many").Args("1000", "86400", fmt.Sprint(n%2)).Build())
	}
	for n, reply := range c.DoMulti(ctx, many...) {
		got, err := reply.AsIntSlice()
		require.NoError(t, err)
		require.Equal(t, []int64{0, 1000, int64(1000 - (n+1)/2), -1}, got[:4])
	}
	kind, err := c.Do(ctx, c.B().Type().Key("many").Build()).ToString()
	require.NoError(t, err)
	assert.Equal(t, "window", kind)
	err = c.Do(ctx, c.B().Get().Key("many").Build()).Error()
	assert.EqualError(t, err, "unknown command 'GET', with args beginning with: 'many' ")
}
