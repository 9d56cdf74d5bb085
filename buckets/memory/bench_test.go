package memory_test

import (
	"encoding/binary"
	"fmt"
	"math/bits"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"cellserver/buckets"
	"cellserver/buckets/memory"
)

const (
	benchStart  = 1_700_000_123 * int64(time.Second)
	benchPeriod = 60 * int64(time.Second)
)

// benchLog is a log of n admissions of 1, a millisecond apart, the newest at benchStart.
type benchLog struct{ n int }

func (g benchLog) Len() int            { return g.n }
func (g benchLog) Time(i int) int64    { return benchStart - int64(g.n-1-i)*int64(time.Millisecond) }
func (g benchLog) Before(i int) uint64 { return uint64(i) }
func (g benchLog) Period() int64       { return benchPeriod }

// One operation is one decision by a pure function, without finding the state.
func BenchmarkDecide(b *testing.B) {
	throttle, err := buckets.NewThrottle(15, 30, benchPeriod)
	require.NoError(b, err)
	window, err := buckets.NewWindow(30, benchPeriod)
	require.NoError(b, err)
	aligned, err := buckets.NewAlignedWindow(30, benchPeriod, 0)
	require.NoError(b, err)
	slide, err := buckets.NewSlide(1000, benchPeriod)
	require.NoError(b, err)

	var d buckets.Decision
	b.Run("throttle", func(b *testing.B) {
		b.ReportAllocs()
		tat, now := int64(0), benchStart
		for b.Loop() {
			tat = throttle.TakeThrottle(tat, now, 1, &d)
			now += int64(time.Second)
		}
	})
	for name, l := range map[string]buckets.Limit{"window": window, "window aligned": aligned} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			w, now := buckets.WindowState{}, benchStart
			for b.Loop() {
				l.TakeWindow(&w, now, 1, &d)
				now += int64(time.Second)
			}
		})
	}
	// Admitted, admitted, and refused with a search for when it would be.
	for _, n := range []int{0, 500, 1000} {
		b.Run(fmt.Sprintf("zslide of %d", n), func(b *testing.B) {
			b.ReportAllocs()
			var edit buckets.LogEdit
			var log buckets.Log = benchLog{n} // made once, because converting to an interface allocates
			now := benchStart
			for b.Loop() {
				edit = buckets.LogEdit{}
				slide.TakeSlide(log, now, 2, &edit, &d)
				now++
			}
		})
	}
}

// benchKeys generates the names of n keys of 13 bytes, in random order. Generating them leaves the caches alone, unlike a
// list: in a server, the key of a request is in the cache when the request is decided.
type benchKeys struct {
	random uint64
	n      uint64
	name   [13]byte
}

func newBenchKeys(n int, seed uint64) *benchKeys {
	k := &benchKeys{random: seed, n: uint64(n)}
	copy(k.name[:], "key:xxxxxxxxx")
	return k
}

const hexDigits = "0123456789abcdef"

func (k *benchKeys) number(i uint64) []byte {
	for at := len(k.name) - 1; at >= 5; at-- {
		k.name[at] = hexDigits[i&15]
		i >>= 4
	}
	return k.name[:]
}

// next returns a random key (xorshift64*; Vigna, 2016).
func (k *benchKeys) next() []byte {
	k.random ^= k.random >> 12
	k.random ^= k.random << 25
	k.random ^= k.random >> 27
	high, _ := bits.Mul64(k.random*0x2545f4914f6cdd1d, k.n)
	return k.number(high)
}

var benchSizes = []int{1_000, 100_000, 1_000_000, 10_000_000}

// benchStore returns a store of n keys that do not expire during the benchmark.
func benchStore(b *testing.B, n int) (*memory.Store, buckets.Limit) {
	limit, err := buckets.NewThrottle(1_000_000, 1_000_000, 1000*benchPeriod)
	require.NoError(b, err)
	store, keys := memory.NewStore(memory.DefaultShards), newBenchKeys(n, 1)
	for i := range uint64(n) {
		if _, err := store.Take(benchStart, keys.number(i), limit, 100_000, false); err != nil {
			b.Fatal(err)
		}
	}
	return store, limit
}

// The cost of the loops below without a store.
func BenchmarkNothing(b *testing.B) {
	keys := newBenchKeys(1_000_000, 1)
	for b.Loop() {
		keys.next()
	}
}

// One operation is one decision on a random key of n existing ones.
func BenchmarkStoreTake(b *testing.B) {
	for _, n := range benchSizes {
		b.Run(fmt.Sprintf("%d keys", n), func(b *testing.B) {
			store, limit := benchStore(b, n)
			benchTakes(b, store, n, limit, benchStart, 1, false)
		})
	}
}

// BenchmarkStoreTake for buckets that are full again at each request, like those of most clients: their keys have
// expired.
func BenchmarkStoreTakeExpired(b *testing.B) {
	throttle, err := buckets.NewThrottle(15, 1_000_000_000, int64(time.Second))
	require.NoError(b, err)
	window, err := buckets.NewWindow(30, 1)
	require.NoError(b, err)
	slide, err := buckets.NewSlide(30, 1)
	require.NoError(b, err)
	for _, l := range []buckets.Limit{throttle, window, slide} {
		for _, n := range benchSizes[:2] {
			b.Run(fmt.Sprintf("%s, %d keys", l.Kind(), n), func(b *testing.B) {
				store, keys := memory.NewStore(memory.DefaultShards), newBenchKeys(n, 1)
				for i := range uint64(n) {
					if _, err := store.Take(benchStart, keys.number(i), l, 1, false); err != nil {
						b.Fatal(err)
					}
				}
				benchTakes(b, store, n, l, benchStart, 1, false)
			})
		}
	}
}

// processor returns the processor time of the process. On a shared machine it is more meaningful than the elapsed time.
func processor() time.Duration {
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		panic(err)
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}

// BenchmarkStoreTake for fixed windows that stay open.
func BenchmarkStoreWindow(b *testing.B) {
	period := 1000 * benchPeriod
	open, err := buckets.NewWindow(1<<40, period)
	require.NoError(b, err)
	aligned, err := buckets.NewAlignedWindow(1<<40, period, benchStart)
	require.NoError(b, err)
	for _, row := range []struct {
		name  string
		limit buckets.Limit
	}{{"", open}, {"aligned, ", aligned}} {
		for _, n := range benchSizes[:3] {
			b.Run(fmt.Sprintf("%s%d keys", row.name, n), func(b *testing.B) {
				store, keys := memory.NewStore(memory.DefaultShards), newBenchKeys(n, 1)
				for i := range uint64(n) {
					if _, err := store.Take(benchStart, keys.number(i), row.limit, 1, false); err != nil {
						b.Fatal(err)
					}
				}
				benchTakes(b, store, n, row.limit, benchStart, 1, false)
			})
		}
	}
}

// benchTakes measures takes of 1 from n random keys, at times that are step nanoseconds apart. It reports the bytes of
// each key afterwards.
func benchTakes(b *testing.B, store *memory.Store, n int, l buckets.Limit, now, step int64, refused bool) {
	runtime.GC()
	keys, before := newBenchKeys(n, 1), processor()
	b.ReportAllocs()
	for b.Loop() {
		now += step
		if d, err := store.Take(now, keys.next(), l, 1, false); err != nil || d.Limited != refused {
			b.Fatal(d, err)
		}
	}
	b.ReportMetric(float64(processor()-before)/float64(b.N), "cpu-ns/op")
	b.ReportMetric(float64(store.Stats().Bytes)/float64(n), "B/key")
}

// spread is a log of n admissions of 1, spread evenly over the period that ends at benchStart.
type spread struct {
	n     int
	later int64
}

func (g spread) Len() int { return g.n }
func (g spread) Time(i int) int64 {
	return benchStart - int64(g.n-i)*(benchPeriod/int64(g.n)) + g.later
}
func (g spread) Before(i int) uint64 { return uint64(i) }
func (g spread) Period() int64       { return benchPeriod }

// benchLogs returns a store of n logs with each admissions.
func benchLogs(n, each int) *memory.Store {
	store, keys := memory.NewStore(memory.DefaultShards), newBenchKeys(n, 1)
	for i := range uint64(n) {
		later := int64(i*0x9e3779b97f4a7c15>>20) % (benchPeriod / int64(each)) // shift the logs against each other
		store.Restore(0, &buckets.Entry{Key: keys.number(i), State: buckets.Logged(spread{each, later})})
	}
	return store
}

// One operation is one admission to a random sliding log. Nothing leaves the logs: they start empty, and restart at 100
// admissions on average.
func BenchmarkStoreSlideGrows(b *testing.B) {
	limit, err := buckets.NewSlide(1_000_000, benchPeriod)
	require.NoError(b, err)
	for _, n := range benchSizes[:3] {
		b.Run(fmt.Sprintf("%d keys", n), func(b *testing.B) {
			store, keys, now, held := memory.NewStore(memory.DefaultShards), newBenchKeys(n, 1), benchStart, int64(0)
			runtime.GC()
			b.ReportAllocs()
			taken, before := 0, processor()
			for b.Loop() {
				if taken == 100*n {
					b.StopTimer()
					pause := processor()
					held, taken = store.Stats().Bytes, 0
					require.NoError(b, store.Flush(b.Context()))
					runtime.GC()
					before += processor() - pause
					b.StartTimer()
				}
				taken++
				now++
				if d, err := store.Take(now, keys.next(), limit, 1, false); err != nil || d.Limited {
					b.Fatal(d, err)
				}
			}
			b.ReportMetric(float64(processor()-before)/float64(b.N), "cpu-ns/op")
			if held > 0 {
				b.ReportMetric(float64(held)/float64(n), "B/key")
			}
		})
	}
}

// BenchmarkStoreSlideGrows in the steady state: for each admission another one leaves, and a log has about 50.
func BenchmarkStoreSlideSteady(b *testing.B) {
	const each = 50
	limit, err := buckets.NewSlide(1_000_000, benchPeriod)
	require.NoError(b, err)
	for _, n := range benchSizes[:3] {
		b.Run(fmt.Sprintf("%d keys", n), func(b *testing.B) {
			store, keys, now, step := benchLogs(n, each), newBenchKeys(n, 2), benchStart, benchPeriod/int64(each*n)
			for range 4 * n { // restored rings have no room to grow, so let them grow first
				now += step
				if _, err := store.Take(now, keys.next(), limit, 1, false); err != nil {
					b.Fatal(err)
				}
			}
			benchTakes(b, store, n, limit, now, step, false)
		})
	}
}

// BenchmarkStoreSlideGrows when every log is full: a refusal must not cost more than an admission.
func BenchmarkStoreSlideRefused(b *testing.B) {
	const each = 100
	limit, err := buckets.NewSlide(each, benchPeriod)
	require.NoError(b, err)
	for _, n := range benchSizes[:3] {
		b.Run(fmt.Sprintf("%d keys", n), func(b *testing.B) {
			benchTakes(b, benchLogs(n, each), n, limit, benchStart-1, 0, true)
		})
	}
}

// A Go map with a mutex and nothing else, for comparison on this machine.
func BenchmarkGoMapTake(b *testing.B) {
	for _, n := range benchSizes[:3] {
		b.Run(fmt.Sprintf("%d keys", n), func(b *testing.B) {
			_, limit := benchStore(b, 1)
			var mu sync.Mutex
			tats, keys, now := make(map[string]int64), newBenchKeys(n, 1), benchStart
			for i := range uint64(n) {
				tats[string(keys.number(i))] = now
			}
			var d buckets.Decision
			runtime.GC()
			b.ReportAllocs()
			for b.Loop() {
				now++
				key := keys.next()
				mu.Lock()
				tats[string(key)] = limit.TakeThrottle(tats[string(key)], now, 1, &d)
				mu.Unlock()
			}
		})
	}
}

// The throughput of several processors (run it with -cpu 1,2): on random keys, and all on one key.
func BenchmarkStoreTakeParallel(b *testing.B) {
	for _, n := range []int{1, 100_000, 1_000_000} {
		b.Run(fmt.Sprintf("%d keys", n), func(b *testing.B) {
			store, limit := benchStore(b, n)
			runtime.GC()
			var workers atomic.Uint64
			b.ReportAllocs()
			b.ResetTimer()
			b.RunParallel(func(p *testing.PB) {
				keys := newBenchKeys(n, workers.Add(1))
				for p.Next() {
					if _, err := store.Take(benchStart, keys.next(), limit, 1, false); err != nil {
						b.Error(err)
						return
					}
				}
			})
		})
	}
}

// One operation is one step of the sweep of a store whose keys have all expired. The longest step is the longest time
// that a lock is held.
func BenchmarkSweep(b *testing.B) {
	const n = 10_000_000
	for b.Loop() {
		b.StopTimer()
		store, _ := benchStore(b, n)
		runtime.GC()
		later := benchStart + 1_000_000*benchPeriod
		steps := make([]float64, 0, 1<<20)
		b.StartTimer()
		for left := n; left > 0; {
			start := time.Now()
			left -= store.Sweep(later).Expired
			steps = append(steps, float64(time.Since(start).Nanoseconds()))
		}
		b.StopTimer()
		slices.Sort(steps)
		b.ReportMetric(steps[len(steps)-1]/1e3, "longest-µs")
		b.ReportMetric(steps[len(steps)*999/1000]/1e3, "p99.9-µs")
		b.ReportMetric(steps[len(steps)/2]/1e3, "median-µs")
		b.ReportMetric(float64(len(steps)), "steps")
		b.StartTimer()
	}
}

// encoder does about as much work as the encoder of the journal.
type encoder struct{}

func (encoder) AppendSet(dst []byte, e *buckets.Entry) []byte {
	return binary.LittleEndian.AppendUint64(append(append(dst, 1, byte(len(e.Key))), e.Key...), uint64(e.Words[0]))
}
func (e encoder) AppendAmend(dst []byte, of *buckets.Entry) []byte { return e.AppendSet(dst, of) }
func (encoder) AppendDelete(dst []byte, _ int, key []byte) []byte  { return append(dst, key...) }
func (encoder) AppendFlush(dst []byte, _ int) []byte               { return dst }
func (encoder) AppendFlushAll(dst []byte) []byte                   { return dst }
func (encoder) AppendSwap(dst []byte, _, _ int) []byte             { return dst }

// BenchmarkStoreTake with a journal: changes are tracked, and collected once in a million requests, which is about a
// second.
func BenchmarkStoreTakeTracked(b *testing.B) {
	const n, every = 100_000, 1_000_000
	store, limit := benchStore(b, n)
	store.Track(encoder{})
	keys, now := newBenchKeys(n, 1), benchStart
	var changes []byte
	b.ReportAllocs()
	for i := 1; b.Loop(); i++ {
		now++
		if _, err := store.Take(now, keys.next(), limit, 1, false); err != nil {
			b.Fatal(err)
		}
		if i%every == 0 {
			changes, _ = store.Changes(changes[:0])
		}
	}
}
