package cluster

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"cellserver/buckets"
	"cellserver/internal/testing/engines"
)

// BenchmarkApply has callers take from random keys of a real server, so many operations in each Apply.
func BenchmarkApply(b *testing.B) {
	n := engines.Standalone(b, engines.Valkey81)
	for _, row := range []struct{ callers, ops, keys int }{{1, 1, 100000}, {50, 1, 100000}, {50, 16, 100000}, {400, 1, 100000}, {50, 1, 1}} {
		b.Run(fmt.Sprintf("callers=%d/ops=%d/keys=%d", row.callers, row.ops, row.keys), func(b *testing.B) {
			s := openAt(b, n.Addr(), func(_ *Config, r *Rules) { r.Timeout = time.Second })
			l, err := buckets.NewThrottle(1000000, 1000000, 3600*second)
			require.NoError(b, err)
			keys := make([][]byte, row.keys)
			for i := range keys {
				keys[i] = fmt.Appendf(nil, "key:%06d", i)
			}
			var left atomic.Int64
			left.Store(int64(b.N))
			before, cpu := s.Remote(), usage()
			b.ReportAllocs()
			b.ResetTimer()
			var group sync.WaitGroup
			for range row.callers {
				group.Go(func() {
					ops := make([]buckets.Op, row.ops)
					ctx, cancel := context.WithCancel(context.Background())
					defer cancel()
					for left.Add(-int64(row.ops)) >= 0 {
						for i := range ops {
							ops[i] = buckets.Op{Code: buckets.OpTake, Key: keys[rand.IntN(len(keys))], Limit: &l, Quantity: 1}
						}
						s.Apply(ctx, s.Now(), ops)
						for i := range ops {
							if ops[i].Err != nil {
								b.Error(ops[i].Err)
							}
						}
					}
				})
			}
			group.Wait()
			b.StopTimer()
			r := s.Remote()
			b.ReportMetric(float64(usage()-cpu)/float64(b.N), "cpu-ns/op")
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "decisions/s")
			b.ReportMetric(float64(r.Commands-before.Commands)/float64(max(1, r.RoundTrips-before.RoundTrips)), "cmds/trip")
		})
	}
}

// usage returns the processor time that this process has used.
func usage() time.Duration {
	var r syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &r)
	return time.Duration(r.Utime.Nano() + r.Stime.Nano())
}
