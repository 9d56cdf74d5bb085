package faults

import (
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"cellserver/buckets"
	"cellserver/buckets/cluster"
)

// tally is what callers were answered.
type tally struct {
	mu       sync.Mutex
	admitted map[string][]time.Time // when each admission was acknowledged, by key
	refused  map[string]int
	unknown  map[string]int // may have been taken, or counted
	failed   map[string]int // was not
	reasons  map[string]int
	strange  []string // errors that no store may return
	slowest  time.Duration
	total    atomic.Int64
}

func newTally() *tally {
	return &tally{admitted: make(map[string][]time.Time), refused: make(map[string]int), unknown: make(map[string]int), failed: make(map[string]int),
		reasons: make(map[string]int)}
}

// note notes what a request was answered. limited is of no interest with an error.
func (y *tally) note(key string, limited bool, err error, took time.Duration) {
	var away *buckets.Unavailable
	y.mu.Lock()
	defer y.mu.Unlock()
	y.total.Add(1)
	y.slowest = max(y.slowest, took)
	switch {
	case err == nil && limited:
		y.refused[key]++
	case err == nil:
		y.admitted[key] = append(y.admitted[key], time.Now())
	case errors.As(err, &away):
		if y.reasons[fmt.Sprintf("%s (unknown: %v)", away.Reason, away.Unknown)]++; away.Unknown {
			y.unknown[key]++
		} else {
			y.failed[key]++
		}
	case errors.Is(err, buckets.ErrTooFewReplicas): // it was taken
		y.reasons[err.Error()]++
		y.unknown[key]++
	default:
		y.strange = append(y.strange, fmt.Sprintf("%s: %v", key, err))
	}
}

func (y *tally) take(s *cluster.Store, key string, l *buckets.Limit) buckets.Op {
	from := time.Now()
	op := take(s, key, l, 1)
	y.note(key, op.Decision.Limited, op.Err, time.Since(from))
	return op
}

func (y *tally) increment(s *cluster.Store, key string) error {
	from := time.Now()
	err := increment(s, key)
	y.note(key, false, err, time.Since(from))
	return err
}

func (y *tally) got(key string) int64 {
	y.mu.Lock()
	defer y.mu.Unlock()
	return int64(len(y.admitted[key]))
}

func (y *tally) doubtful(key string) int64 {
	y.mu.Lock()
	defer y.mu.Unlock()
	return int64(y.unknown[key])
}

func (y *tally) isRefused(key string) bool {
	y.mu.Lock()
	defer y.mu.Unlock()
	return y.refused[key] > 0
}

func (y *tally) decided() (n int) {
	y.mu.Lock()
	defer y.mu.Unlock()
	for _, times := range y.admitted {
		n += len(times)
	}
	for _, times := range y.refused {
		n += times
	}
	return n
}

// errors returns how many requests have failed, by reason.
func (y *tally) errors() map[string]int {
	y.mu.Lock()
	defer y.mu.Unlock()
	copied := make(map[string]int)
	for reason, n := range y.reasons {
		copied[reason] = n
	}
	return copied
}

// check checks that every request was answered in time, with a decision or with an error that a store may return.
func (y *tally) check(t testing.TB, timeout time.Duration, lag *lag) {
	t.Helper()
	y.mu.Lock()
	defer y.mu.Unlock()
	assert.Empty(t, y.strange)
	assert.LessOrEqual(t, y.slowest, timeout+timeout/5+50*time.Millisecond+4*lag.most(), "the machine was late by %v", lag.most())
}

// lag measures how late this process is, so that a busy machine is not taken for a slow store.
type lag struct {
	longest atomic.Int64
	ended   chan struct{}
	group   sync.WaitGroup
}

func measureLag(t testing.TB) *lag {
	l := &lag{ended: make(chan struct{})}
	const tick = 2 * time.Millisecond
	l.group.Go(func() {
		ticker := time.NewTicker(tick)
		defer ticker.Stop()
		for last := time.Now(); ; {
			select {
			case <-l.ended:
				return
			case <-ticker.C:
			}
			now := time.Now()
			l.longest.Store(max(l.longest.Load(), int64(now.Sub(last)-tick)))
			last = now
		}
	})
	t.Cleanup(func() { close(l.ended); l.group.Wait() })
	return l
}

func (l *lag) most() time.Duration { return time.Duration(l.longest.Load()) }

// callers run until they are stopped.
type callers struct {
	over  atomic.Bool
	group sync.WaitGroup
}

// call starts n goroutines that call f over and over.
func call(t testing.TB, n int, f func(i int)) *callers {
	c := new(callers)
	for i := range n {
		c.group.Go(func() {
			for !c.over.Load() {
				f(i)
			}
		})
	}
	t.Cleanup(c.stop)
	return c
}

func (c *callers) stop() {
	c.over.Store(true)
	c.group.Wait()
}

// percentile returns the time below which p of 100 are. It sorts times.
func percentile(times []time.Duration, p int) time.Duration {
	if len(times) == 0 {
		return 0
	}
	slices.Sort(times)
	return times[min(len(times)-1, len(times)*p/100)]
}

// heap returns the memory in use, after a collection.
func heap() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
