package cluster

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"cellserver/buckets"
	"cellserver/internal/testing/engines"
)

// BenchmarkLink has 50 callers change random keys of a real server one at a time, near and behind a proxy that adds a millisecond: by
// this store, with as many batches under way as it chooses or a fixed number, and by go-redis, with AutoPipeline and with a
// connection of the pool for each command. go-redis only sends compare-and-sets; the store decides as well.
func BenchmarkLink(b *testing.B) {
	n := engines.Standalone(b, engines.Valkey91)
	proxy := engines.StartProxy(b, n.Addr())
	proxy.Delay(time.Millisecond, 0)
	keys := make([][]byte, 10000)
	for i := range keys {
		keys[i] = fmt.Appendf(nil, "key:%06d", i)
	}
	client := redis.NewClient(&redis.Options{Addr: n.Addr(), Protocol: 2})
	defer client.Close()
	const value = "123456789"
	for i := 0; i < len(keys); i += 1000 {
		_, err := client.Pipelined(context.Background(), func(p redis.Pipeliner) error {
			for _, key := range keys[i : i+1000] {
				p.Set(context.Background(), string(key), value, time.Hour)
			}
			return nil
		})
		require.NoError(b, err)
	}
	l, err := buckets.NewThrottle(1000000, 1000000, 3600*second)
	require.NoError(b, err)

	take := func(key []byte) buckets.Op {
		return buckets.Op{Code: buckets.OpTake, Key: key, Limit: &l, Quantity: 1}
	}

	store := func(window int) func(b *testing.B, addr string) func() change {
		return func(b *testing.B, addr string) func() change {
			s := openAt(b, addr, func(c *Config, r *Rules) { c.window = window })
			known := make([]buckets.Op, len(keys))
			for i, key := range keys {
				known[i] = take(key)
			}
			s.Apply(context.Background(), s.Now(), known)
			before := s.Remote()
			b.Cleanup(func() {
				r := s.Remote()
				b.ReportMetric(float64(r.Commands-before.Commands)/float64(r.RoundTrips-before.RoundTrips), "cmds/trip")
			})
			return func() change {
				ops := make([]buckets.Op, 1)
				return func(key []byte) error {
					ops[0] = take(key)
					s.Apply(context.Background(), s.Now(), ops)
					return ops[0].Err
				}
			}
		}
	}
	goRedis := func(auto bool, pool int) func(b *testing.B, addr string) func() change {
		return func(b *testing.B, addr string) func() change {
			c := redis.NewClient(&redis.Options{Addr: addr, Protocol: 2, MaxRetries: -1, PoolSize: pool})
			b.Cleanup(func() { _ = c.Close() })
			set := c.SetIFEQGet
			if auto {
				a, err := c.AutoPipeline()
				require.NoError(b, err)
				b.Cleanup(func() { _ = a.Close() })
				set = a.SetIFEQGet
			}
			return func() change {
				return func(key []byte) error { return set(context.Background(), string(key), value, value, time.Hour).Err() }
			}
		}
	}
	for _, at := range []struct{ name, addr string }{{"near", n.Addr()}, {"far", proxy.Addr()}} {
		for _, by := range []struct {
			name string
			open func(b *testing.B, addr string) func() change
		}{
			{"store", store(0)}, {"store,window=1", store(1)}, {"store,window=2", store(2)}, {"store,window=4", store(4)}, {"store,window=8", store(8)},
			{"AutoPipeline", goRedis(true, 100)}, {"AutoPipeline,PoolSize=1", goRedis(true, 1)}, {"pool", goRedis(false, 100)},
		} {
			b.Run(at.name+"/"+by.name, func(b *testing.B) { fiftyCallers(b, keys, by.open(b, at.addr)) })
		}
	}
}

// change changes a key by one compare-and-set.
type change func(key []byte) error

// fiftyCallers has callers change random keys.
func fiftyCallers(b *testing.B, keys [][]byte, caller func() change) {
	var left atomic.Int64
	left.Store(int64(b.N))
	cpu := usage()
	b.ReportAllocs()
	b.ResetTimer()
	var group sync.WaitGroup
	for range 50 {
		group.Go(func() {
			do := caller()
			for left.Add(-1) >= 0 {
				if err := do(keys[rand.IntN(len(keys))]); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	group.Wait()
	b.StopTimer()
	b.ReportMetric(float64(usage()-cpu)/float64(b.N), "cpu-ns/op")
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "ops/s")
}
