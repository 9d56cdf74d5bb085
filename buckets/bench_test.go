package buckets_test

import (
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"cellserver/buckets"
)

const (
	benchStart  = 1_700_000_123 * int64(time.Second)
	benchPeriod = 60 * int64(time.Second)
)

// benchLog is a log of n admissions of one, a millisecond apart, the newest at benchStart.
type benchLog struct{ n int }

func (g benchLog) Len() int            { return g.n }
func (g benchLog) Time(i int) int64    { return benchStart - int64(g.n-1-i)*int64(time.Millisecond) }
func (g benchLog) Before(i int) uint64 { return uint64(i) }
func (g benchLog) Period() int64       { return benchPeriod }

// The pure functions: what one decision costs without finding its bucket.
func BenchmarkDecide(b *testing.B) {
	throttle, err := buckets.NewThrottle(15, 30, benchPeriod)
	require.NoError(b, err)
	window, err := buckets.NewWindow(30, benchPeriod)
	require.NoError(b, err)
	aligned, err := buckets.NewAlignedWindow(30, benchPeriod, 0)
	require.NoError(b, err)
	slide, err := buckets.NewSlide(1000, benchPeriod)
	require.NoError(b, err)

	b.Run("throttle", func(b *testing.B) {
		b.ReportAllocs()
		tat, now := int64(0), benchStart
		for b.Loop() {
			tat, _ = buckets.TakeThrottle(throttle, tat, now, 1)
			now += int64(time.Second)
		}
	})
	for name, l := range map[string]buckets.Limit{"window": window, "window aligned": aligned} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			w, now := buckets.WindowState{}, benchStart
			for b.Loop() {
				w, _ = buckets.TakeWindow(l, w, now, 1)
				now += int64(time.Second)
			}
		})
	}
	// Admitted, admitted, and refused with a search for when it would be.
	for _, n := range []int{0, 500, 1000} {
		b.Run(fmt.Sprintf("zslide of %d", n), func(b *testing.B) {
			b.ReportAllocs()
			var log buckets.Log = benchLog{n} // made once: an interface would allocate each time
			now := benchStart
			for b.Loop() {
				buckets.TakeSlide(slide, log, now, 2)
				now++
			}
		})
	}
}

// keyNames are names that no two benchmarks' loops go through in the order in which they were stored.
func keyNames(n int) [][]byte {
	keys := make([][]byte, n)
	for i := range keys {
		keys[i] = fmt.Appendf(nil, "key:%012d", i)
	}
	rand.New(rand.NewPCG(1, 2)).Shuffle(n, func(i, j int) { keys[i], keys[j] = keys[j], keys[i] })
	return keys
}

// One operation is one decision on one of so many keys that are there already.
func BenchmarkStoreTake(b *testing.B) {
	limit, err := buckets.NewThrottle(1_000_000, 1_000_000, 1000*benchPeriod)
	require.NoError(b, err)
	for _, n := range []int{1_000, 100_000, 1_000_000} {
		keys := keyNames(n)
		store := buckets.NewStore(buckets.DefaultShards)
		now := benchStart
		for _, key := range keys {
			_, err := store.Take(now, key, limit, 100_000, false)
			require.NoError(b, err)
		}
		b.Run(fmt.Sprintf("%d keys", n), func(b *testing.B) {
			b.ReportAllocs()
			i := 0
			for b.Loop() {
				now++
				if _, err := store.Take(now, keys[i], limit, 1, false); err != nil {
					b.Fatal(err)
				}
				if i++; i == n {
					i = 0
				}
			}
			b.ReportMetric(float64(store.Stats().Bytes)/float64(n), "B/key")
		})
		b.Run(fmt.Sprintf("%d keys, all processors", n), func(b *testing.B) {
			b.ReportAllocs()
			var workers atomic.Int64
			b.RunParallel(func(p *testing.PB) {
				i := int(workers.Add(1)) * 7919 % n
				for p.Next() {
					if _, err := store.Take(now, keys[i], limit, 1, false); err != nil {
						b.Error(err)
						return
					}
					if i++; i == n {
						i = 0
					}
				}
			})
		})
	}
}
