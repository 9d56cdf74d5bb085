package test

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The client-side cache of rueidis is never stale, because an invalidation follows each reply.
func TestRueidisKeepsNothingStale(t *testing.T) {
	s := start(t)
	// One connection: with several, the default of rueidis, the order in which it reads from different connections is
	// undefined.
	c, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{s.addr}, PipelineMultiplex: -1})
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
	// Many concurrent commands in one pipeline.
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

// rueidis requires RESP3 and client-side caching, and pipelines concurrent commands automatically.
func TestRueidisConversesInRESP3WithPipelines(t *testing.T) {
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
	assert.EqualError(t, err, "WRONGTYPE Operation against a key holding the wrong kind of value")
	err = c.Do(ctx, c.B().Llen().Key("many").Build()).Error()
	assert.EqualError(t, err, "unknown command 'LLEN', with args beginning with: 'many' ")
}
