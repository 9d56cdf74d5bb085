package faults

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"cellserver/buckets/cluster"
	"cellserver/internal/testing/engines"
)

// The tests of a cluster whose servers all live.
func TestLivingCluster(t *testing.T) {
	c := engines.StartCluster(t, engines.Valkey91, engines.WithProxies(), engines.NodeTimeout(10*time.Second))
	t.Run("a slot migrates", func(t *testing.T) { slotMigrates(t, c) })
	t.Run("a server is late", func(t *testing.T) { serverIsLate(t, c) })
}

// slotMigrates moves a slot there and back while all its keys are in use. Half way some keys are here, some there, and some are new.
func slotMigrates(t *testing.T, c *engines.Cluster) {
	const timeout, limit, keys, rounds = 3 * time.Second, 60, 12, 2
	const prefix = "{migration}"
	stores := openSeveral(t, 3, cluster.Config{Addrs: c.Addrs(), Prefix: prefix}, cluster.Rules{Timeout: timeout})
	slot := c.Slot(prefix)
	lag := measureLag(t)
	for round := range rounds {
		y := newTally()
		var names []string
		all := limits(limit)
		for kind := range all {
			for i := range keys {
				names = append(names, fmt.Sprint(round, kind, i))
			}
		}
		from := c.Master(prefix)
		var to *engines.Node
		for _, n := range c.Nodes() {
			if n.Addr() != from.Addr() && n.Info("replication", "role") == "master" {
				to = n
			}
		}
		var mu sync.Mutex
		known := 4 // keys from here on are new when half of the others have moved
		load := call(t, 18, func(i int) {
			mu.Lock()
			n := known
			mu.Unlock()
			kinds := []string{"throttle", "window", "slide"}
			kind := kinds[rand.IntN(len(kinds))]
			y.take(stores[i%len(stores)], fmt.Sprint(round, kind, rand.IntN(n)), all[kind])
		})
		more := func(n int) {
			t.Helper()
			end := y.decided() + n
			require.Eventually(t, func() bool { return y.decided() >= end }, within, time.Millisecond, "%v", lazy(func() string { return fmt.Sprint(y.errors()) }))
		}
		more(200)
		m := c.BeginMigration(slot, to)
		more(200)
		assert.Equal(t, 6, m.Step(6))
		mu.Lock()
		known = keys
		mu.Unlock()
		more(500)
		m.Finish()
		more(200)
		exhausted := func() bool {
			for _, key := range names {
				if y.got(key) < limit {
					return false
				}
			}
			return true
		}
		require.Eventually(t, exhausted, within, 10*time.Millisecond)
		more(100)
		load.stop()
		for _, key := range names {
			assert.EqualValues(t, limit, y.got(key), key)
		}
		assert.Empty(t, y.errors())
		y.check(t, timeout, lag)
		t.Logf("%d requests, the longest took %v", y.total.Load(), y.slowest)
	}
}

// serverIsLate has one server answer 200 ms late: that concerns its keys only, and ends with the delay.
func serverIsLate(t *testing.T, c *engines.Cluster) {
	const delay = 200 * time.Millisecond
	rules := cluster.Rules{Timeout: 100 * time.Millisecond}
	c.WaitOK()
	s, _ := open(t, at(c.Addrs()...), rules)
	l := window(1e12)
	const late = "late"
	slow := c.Master(t.Name() + ":" + late)
	keys := map[bool][]string{} // of the server that is late, and of the others
	for i := range 60 {
		key := fmt.Sprint("key ", i)
		isSlow := c.Master(t.Name()+":"+key).Addr() == slow.Addr()
		keys[isSlow] = append(keys[isSlow], key)
	}
	phase := func(d time.Duration) (onOthers []time.Duration, y map[bool]*tally) {
		y = map[bool]*tally{true: newTally(), false: newTally()}
		var mu sync.Mutex
		load := call(t, 24, func(i int) {
			isSlow := i%2 == 0
			from := time.Now()
			y[isSlow].take(s, keys[isSlow][rand.IntN(len(keys[isSlow]))], l)
			if took := time.Since(from); !isSlow {
				mu.Lock()
				onOthers = append(onOthers, took)
				mu.Unlock()
			}
		})
		timer := time.NewTimer(d)
		<-timer.C
		load.stop()
		return onOthers, y
	}
	lag := measureLag(t)
	before, y := phase(time.Second)
	for isSlow := range y {
		assertNearlyAll(t, y[isSlow])
	}
	goroutines, memory := runtime.NumGoroutine(), heap()

	slow.Proxy().Delay(0, delay)
	during, y := phase(1500 * time.Millisecond)
	assertNearlyAll(t, y[false])
	y[false].check(t, rules.Timeout, lag)
	y[true].check(t, rules.Timeout, lag)
	inTime := 0
	for _, times := range y[true].admitted {
		inTime += len(times)
	}
	t.Logf("on the late server: %d decisions in time, and %v", inTime, y[true].errors())
	assert.LessOrEqual(t, inTime, len(keys[true])*2, "of what was on the way when the delay began")
	slowest := percentile(before, 99)
	t.Logf("the others: p50 %v and p99 %v before, %v and %v while one is late", percentile(before, 50), slowest, percentile(during, 50), percentile(during, 99))
	assert.Less(t, percentile(during, 99), 2*slowest+5*time.Millisecond+lag.most())
	assert.LessOrEqual(t, runtime.NumGoroutine(), goroutines+20)
	assert.Less(t, heap()-memory, int64(8<<20))

	s.SetRules(cluster.Rules{Timeout: time.Second})
	_, y = phase(1500 * time.Millisecond)
	assert.Empty(t, y[true].errors(), "a second is enough")
	assertNearlyAll(t, y[false])
	assert.NotZero(t, y[true].decided())
	t.Logf("with a second: %d decisions on the late server", y[true].decided())

	s.SetRules(rules)
	slow.Proxy().Delay(0, 0)
	took := requireDecides(t, s, late)
	t.Logf("decides again after %v", took)
	assert.Less(t, took, time.Second+lag.most())
	_, y = phase(500 * time.Millisecond)
	assertNearlyAll(t, y[true])
}

// assertNearlyAll checks that requests were decided, but for those that a busy machine was too slow for.
func assertNearlyAll(t testing.TB, y *tally) {
	t.Helper()
	assert.GreaterOrEqual(t, int64(y.decided()), y.total.Load()*98/100, "%v", y.errors())
}

// Many requests at once meet a server that hangs, with each of the answers to that: all are answered in time, and nothing of it stays.
func TestOverload(t *testing.T) {
	server := engines.Standalone(t, engines.Valkey81)
	const requests, timeout = 20000, 200 * time.Millisecond
	s, _ := open(t, at(server.Addr()), cluster.Rules{Timeout: timeout})
	l := window(1e12)
	require.NoError(t, take(s, "key", l, 1).Err)
	goroutines, memory := runtime.NumGoroutine(), heap()
	server.Pause()
	for round := range 2 {
		y, lag := newTally(), measureLag(t)
		var group sync.WaitGroup
		most := 0
		start := make(chan struct{})
		for i := range requests {
			group.Go(func() {
				<-start
				y.take(s, fmt.Sprint("key ", i%5000), l)
			})
		}
		close(start)
		done := make(chan struct{})
		go func() { group.Wait(); close(done) }()
		require.Eventually(t, func() bool {
			most = max(most, runtime.NumGoroutine())
			select {
			case <-done:
				return true
			default:
				return false
			}
		}, within, soon)
		// The scheduler takes its time to run that many goroutines, above all with the race detector.
		assert.Less(t, y.slowest, timeout+3*time.Second+4*lag.most())
		assert.Empty(t, y.strange)
		assert.Zero(t, y.decided())
		assert.Less(t, most, requests+goroutines+50)
		t.Logf("round %d: the longest took %v, the machine was late by %v, %d goroutines: %v", round, y.slowest, lag.most(), most, y.errors())
	}
	assert.EqualValues(t, 2*requests, s.Remote().Failures)
	require.Eventually(t, func() bool { return runtime.NumGoroutine() <= goroutines+10 }, within, soon)
	require.Eventually(t, func() bool { return heap()-memory < 16<<20 }, within, 100*time.Millisecond)
	t.Logf("%d KiB more memory than before", (heap()-memory)>>10)
	server.Resume()
	t.Logf("decides again after %v", requireDecides(t, s, "key"))
	require.Eventually(t, func() bool { return used(t, s, "key", l) == 1 }, within, soon)
}
