package memory_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"cellserver/buckets"
	"cellserver/buckets/memory"
)

// One operation is one decision on a random key: with Decide, or as one of 64 in an Apply. The constant batchAbove
// follows from this benchmark.
func BenchmarkStoreBatch(b *testing.B) {
	throttle, err := buckets.NewThrottle(1_000_000, 1_000_000, 1000*benchPeriod)
	require.NoError(b, err)
	window, err := buckets.NewWindow(1_000_000_000, 1000*benchPeriod)
	require.NoError(b, err)
	slide, err := buckets.NewSlide(10, 1000*benchPeriod)
	require.NoError(b, err)
	for _, l := range []buckets.Limit{throttle, window, slide} {
		for _, n := range []int{1_000, 100_000, 300_000, 1_000_000, 10_000_000} {
			if l.Kind() != buckets.Throttle && n > 1_000_000 {
				continue
			}
			store, keys := memory.NewStore(memory.DefaultShards), newBenchKeys(n, 1)
			for i := range uint64(n) {
				if _, err := store.Take(benchStart, keys.number(i), l, 1, false); err != nil {
					b.Fatal(err)
				}
			}
			now := benchStart
			b.Run(fmt.Sprintf("%s, %d keys, one by one", l.Kind(), n), func(b *testing.B) {
				b.ReportAllocs()
				keys := newBenchKeys(n, 7)
				var d buckets.Decision
				for b.Loop() {
					now++
					if err := store.Decide(now, keys.next(), &l, 1, false, &d); err != nil {
						b.Fatal(err)
					}
				}
			})
			b.Run(fmt.Sprintf("%s, %d keys, 64 at once", l.Kind(), n), func(b *testing.B) {
				b.ReportAllocs()
				keys := newBenchKeys(n, 7)
				ops := make([]buckets.Op, 64)
				names := make([]byte, 0, 64*13)
				for i := 0; i < b.N; i += len(ops) {
					now++
					names = names[:0]
					for j := range ops {
						names = append(names, keys.next()...)
						op := &ops[j]
						op.Code, op.Key, op.Limit, op.Quantity = buckets.OpTake, names[len(names)-13:], &l, 1
					}
					store.ApplyBatch(now, ops)
				}
			})
		}
	}
}
