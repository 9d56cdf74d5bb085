package test

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// integers sends a limit command and returns its reply.
func integers(t *testing.T, c *redis.Client, args ...any) []int64 {
	t.Helper()
	got, err := c.Do(t.Context(), args...).Int64Slice()
	require.NoError(t, err)
	return got
}

func TestGoRedisPipelineIsAnsweredInOrder(t *testing.T) {
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
