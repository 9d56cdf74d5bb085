package faults

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"cellserver/buckets"
	"cellserver/buckets/cluster"
	"cellserver/internal/testing/engines"
)

// openSeveral returns stores that serve the same keys, as several cellservers do.
func openSeveral(t testing.TB, n int, c cluster.Config, r cluster.Rules) []*cluster.Store {
	stores := make([]*cluster.Store, n)
	for i := range stores {
		stores[i], _ = open(t, c, r)
	}
	return stores
}

// setRules changes the rules of all stores.
func setRules(stores []*cluster.Store, r cluster.Rules) {
	for _, s := range stores {
		s.SetRules(r)
	}
}

// A master is killed, and later another one whose replica has fallen behind.
func TestFailover(t *testing.T) {
	c := engines.StartCluster(t, engines.Valkey81)
	rules := cluster.Rules{Timeout: 250 * time.Millisecond}
	stores := openSeveral(t, 3, at(c.Addrs()...), rules)
	t.Run("under load", func(t *testing.T) { failoverUnderLoad(t, c, stores, rules) })
	t.Run("to a replica that is behind", func(t *testing.T) {
		setRules(stores, cluster.Rules{Timeout: 5 * time.Second})
		failoverToTheRearmost(t, c, stores, 0)
	})
	t.Run("to a replica that is behind, which has to confirm", func(t *testing.T) {
		setRules(stores, cluster.Rules{Timeout: 200 * time.Millisecond, MinReplicas: 1})
		failoverToTheRearmost(t, c, stores, 1)
	})
}

// failoverUnderLoad kills a master while all stores decide on keys of all masters. Some keys have a limit that is reached, and some
// have one that is not: those show how many writes are lost.
func failoverUnderLoad(t *testing.T, c *engines.Cluster, stores []*cluster.Store, rules cluster.Rules) {
	const keys, limit = 12, 800
	tight, wide := window(limit), window(1e12)
	tightKeys, wideKeys, owner := make([]string, keys), make([]string, keys), make(map[string]string)
	for i := range keys {
		tightKeys[i], wideKeys[i] = fmt.Sprint("tight ", i), fmt.Sprint("wide ", i)
		for _, key := range []string{tightKeys[i], wideKeys[i]} {
			owner[key] = c.Master("TestFailover:" + key).Addr()
		}
	}
	lag, y := measureLag(t), newTally()
	var tightOnes atomic.Int64
	load := call(t, 24, func(i int) {
		s := stores[i%len(stores)]
		if rand.IntN(2) == 0 {
			y.take(s, wideKeys[rand.IntN(keys)], wide)
		} else if op := y.take(s, tightKeys[rand.IntN(keys)], tight); op.Err == nil && !op.Decision.Limited {
			tightOnes.Add(1)
		}
	})
	from := time.Now()
	require.Eventually(t, func() bool { return tightOnes.Load() > keys*limit/4 }, within, time.Millisecond)
	rate := float64(y.total.Load()) / time.Since(from).Seconds()

	killed := c.KillMaster("TestFailover:" + wideKeys[0])
	at := time.Now()
	back := make([]chan time.Duration, len(stores))
	for i, s := range stores {
		back[i] = make(chan time.Duration, 1)
		go func() {
			for end := time.Now().Add(within); time.Now().Before(end); {
				if take(s, wideKeys[0], wide, 0).Err == nil {
					back[i] <- time.Since(at)
					return
				}
			}
			back[i] <- within
		}()
	}
	c.Master("TestFailover:" + wideKeys[0])
	failover := time.Since(at)
	for i := range back {
		took := <-back[i]
		t.Logf("the engine was away for %v, store %d for %v", failover, i, took)
		assert.Less(t, took-failover, time.Second+4*lag.most(), "the store returns by itself")
	}
	done := func() bool {
		for _, key := range tightKeys {
			if y.got(key)+y.doubtful(key) < limit && used(t, stores[0], key, tight) < limit {
				return false
			}
		}
		return true
	}
	require.Eventually(t, done, within, 10*time.Millisecond)
	load.stop()
	y.check(t, rules.Timeout, lag)
	t.Logf("%d requests, the longest took %v, the machine was late by %v, and %v", y.total.Load(), y.slowest, lag.most(), y.errors())

	// What was lost of the keys whose limit is not reached, and since when.
	since, lost, mostLost, acknowledged := at, int64(0), int64(0), int64(0)
	for _, key := range wideKeys {
		got, n := y.got(key), used(t, stores[0], key, wide)
		if owner[key] != killed.Addr() {
			assert.GreaterOrEqual(t, n, got, "%s is not of the master that was killed", key)
			assert.LessOrEqual(t, n, got+y.doubtful(key))
			continue
		}
		acknowledged += got
		lost += max(0, got-n)
		if most := got + y.doubtful(key) - n; most > 0 {
			mostLost += most
			since = earlier(since, y.lastBefore(key, at, most))
		}
	}
	over := int64(0)
	for _, key := range tightKeys {
		got := y.got(key)
		assert.GreaterOrEqual(t, got+y.doubtful(key), int64(limit), key)
		if owner[key] != killed.Addr() {
			assert.LessOrEqual(t, got, int64(limit), "%s is not of the master that was killed", key)
		} else if got > limit {
			over += got - limit
			assert.LessOrEqual(t, got-limit, y.between(key, since, at), "%s: the lost writes explain what is admitted too much", key)
		}
	}
	t.Logf("at %.0f decisions/s, of %d admissions on the master that was killed %d to %d are lost; %d are admitted beyond limits",
		rate, acknowledged, lost, mostLost, over)
	killed.Start()
	c.WaitOK()
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

// lastBefore returns when the nth last admission before a time was acknowledged.
func (y *tally) lastBefore(key string, end time.Time, nth int64) time.Time {
	y.mu.Lock()
	defer y.mu.Unlock()
	last := time.Time{}
	times := y.admitted[key]
	for i := len(times) - 1; i >= 0 && nth > 0; i-- {
		if times[i].Before(end) {
			last = times[i]
			nth--
		}
	}
	return last
}

// between returns how many admissions were acknowledged in an interval.
func (y *tally) between(key string, from, to time.Time) (n int64) {
	y.mu.Lock()
	defer y.mu.Unlock()
	for _, at := range y.admitted[key] {
		if !at.Before(from) && !at.After(to) {
			n++
		}
	}
	return n
}

// failoverToTheRearmost kills a master whose replica has received nothing of the last writes. Without replicas that confirm they are
// lost, and the limit is admitted once more; with them nothing that is lost has been acknowledged.
func failoverToTheRearmost(t *testing.T, c *engines.Cluster, stores []*cluster.Store, replicas int) {
	const limit = 30
	key := fmt.Sprint("key ", replicas)
	l := window(limit)
	master, replica := c.Master("TestFailover:"+key), c.Replica("TestFailover:"+key)
	requireDecides(t, stores[0], key)
	replica.Pause()
	// What the sockets on the way to the replica hold; the rest waits in the master, and ends with it.
	ctx, cancel := context.WithTimeout(t.Context(), within)
	defer cancel()
	require.NoError(t, master.Client().Set(ctx, "{TestFailover:"+key+"}", strings.Repeat("x", 64<<20), 0).Err())
	y := newTally()
	callers := call(t, 6, func(i int) {
		if y.total.Load() < 2*limit {
			y.take(stores[i%len(stores)], key, l)
		}
	})
	require.Eventually(t, func() bool { return y.total.Load() >= 2*limit }, within, soon)
	callers.stop()
	before := y.got(key)
	y.mu.Lock()
	clear(y.refused)
	y.mu.Unlock()
	if replicas == 0 {
		assert.EqualValues(t, limit, before)
		assert.Empty(t, y.errors())
	} else {
		assert.Zero(t, before)
		assert.Contains(t, y.errors(), buckets.ErrTooFewReplicas.Error())
	}
	master.Kill()
	replica.Resume()
	require.Equal(t, replica.Addr(), c.Master("TestFailover:"+key).Addr())
	master.Start()
	c.WaitOK()
	for _, s := range stores {
		requireDecides(t, s, key)
	}
	doubtful := y.doubtful(key)
	callers = call(t, 6, func(i int) { y.take(stores[i%len(stores)], key, l) })
	require.Eventually(t, func() bool { return y.isRefused(key) }, within, soon)
	callers.stop()
	after, doubtful := y.got(key)-before, y.doubtful(key)-doubtful
	t.Logf("%d admissions before, %d after, and %d of unknown outcome: %v", before, after, doubtful, y.errors())
	assert.LessOrEqual(t, after, int64(limit), "no more than the limit again")
	assert.GreaterOrEqual(t, after+doubtful, int64(limit))
	assert.Empty(t, y.strange)
}
