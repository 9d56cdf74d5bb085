package cluster

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"cellserver/buckets"
	"cellserver/internal/testing/engines"
)

// openCluster returns a store on a cluster.
func openCluster(t testing.TB, c *engines.Cluster, change func(c *Config, r *Rules)) *Store {
	return openAt(t, "", func(config *Config, r *Rules) {
		config.Addrs, config.Prefix = c.Addrs(), ""
		if change != nil {
			change(config, r)
		}
	})
}

// A slot moves to another server, key by key, while two stores take from the keys in it: nothing is lost and nothing is counted
// twice.
func TestTakesWhileASlotMoves(t *testing.T) {
	t.Parallel()
	c := engines.StartCluster(t, engines.Valkey81)
	stores := []*Store{openCluster(t, c, nil), openCluster(t, c, nil)}
	const keys = 40
	l := mustLimit(buckets.NewWindow(1000000, 3600*second))
	var stop atomic.Bool
	var taken [keys]atomic.Int64
	var group sync.WaitGroup
	for _, s := range stores {
		for g := range 4 {
			group.Go(func() {
				for i := g; !stop.Load(); i++ {
					if op := apply(t, s, takeOp(fmt.Sprintf("{moves}%d", i%keys), l, 1)); !assert.NoError(t, op.Err) {
						return
					}
					taken[i%keys].Add(1)
				}
			})
		}
	}
	slot := c.Slot("{moves}")
	from := c.Master("{moves}")
	var to *engines.Node
	for _, key := range []string{"a", "b", "c", "d", "e", "f"} {
		if to = c.Master(key); to.Addr() != from.Addr() {
			break
		}
	}
	require.Eventually(t, func() bool { return taken[keys-1].Load() > 0 }, 10*time.Second, time.Millisecond)
	m := c.BeginMigration(slot, to)
	for m.Step(3) > 0 {
		before := taken[0].Load()
		require.Eventually(t, func() bool { return taken[0].Load() > before }, 10*time.Second, time.Millisecond)
	}
	m.Finish()
	before := taken[0].Load()
	require.Eventually(t, func() bool { return taken[0].Load() > before+5 }, 10*time.Second, time.Millisecond)
	stop.Store(true)
	group.Wait()
	for i := range keys {
		op := apply(t, stores[0], takeOp(fmt.Sprintf("{moves}%d", i), l, 0))
		require.NoError(t, op.Err)
		require.Equal(t, taken[i].Load(), 1000000-op.Decision.Remaining)
	}
}

// A server that hangs fails the requests for its keys, and delays no others.
func TestOneServerHangs(t *testing.T) {
	c := engines.StartCluster(t, engines.Valkey81, engines.WithProxies(), engines.NodeTimeout(30*time.Second))
	s := openCluster(t, c, func(_ *Config, r *Rules) { r.Timeout = 100 * time.Millisecond })
	l := mustLimit(buckets.NewWindow(1000000, 3600*second))
	hung := c.Master("a")
	other := ""
	for i := 0; other == ""; i++ {
		if key := fmt.Sprint("other", i); c.Master(key).Addr() != hung.Addr() {
			other = key
		}
	}
	for _, key := range []string{"a", other} {
		require.Eventually(t, func() bool { return apply(t, s, takeOp(key, l, 1)).Err == nil }, 10*time.Second, time.Millisecond)
	}
	hung.Proxy().Hang()
	var stop atomic.Bool
	var group sync.WaitGroup
	for range 10 {
		group.Go(func() {
			for !stop.Load() {
				assert.Error(t, apply(t, s, takeOp("a", l, 1)).Err)
			}
		})
	}
	// The others are not waited for: far more than fit into the time if each took as long as the timeout.
	began := time.Now()
	failed := 0
	const takes = 500
	for range takes {
		if apply(t, s, takeOp(other, l, 1)).Err != nil {
			failed++
		}
	}
	assert.Zero(t, failed)
	assert.Less(t, time.Since(began), takes*50*time.Millisecond)
	stop.Store(true)
	group.Wait()
	hung.Proxy().Pass()
	require.Eventually(t, func() bool { return apply(t, s, takeOp("a", l, 1)).Err == nil }, 20*time.Second, time.Millisecond)
}

// A master is killed: every answer is a decision or an error, service returns by itself, and what was admitted afterwards is
// what the limit allows.
func TestTakesWhileAMasterFails(t *testing.T) {
	t.Parallel()
	c := engines.StartCluster(t, engines.Valkey81)
	s := openCluster(t, c, func(_ *Config, r *Rules) { r.Timeout, r.MinReplicas = 200*time.Millisecond, 1 })
	l := mustLimit(buckets.NewWindow(1000000, 3600*second))
	require.Eventually(t, func() bool { return apply(t, s, takeOp("k", l, 1)).Err == nil }, 10*time.Second, time.Millisecond)
	var stop atomic.Bool
	var admitted, uncertain atomic.Int64
	admitted.Store(1000000 - apply(t, s, takeOp("k", l, 0)).Decision.Remaining)
	var group sync.WaitGroup
	for range 4 {
		group.Go(func() {
			for !stop.Load() {
				op := apply(t, s, takeOp("k", l, 1))
				if op.Err == nil {
					admitted.Add(1)
				} else {
					uncertain.Add(1)
				}
			}
		})
	}
	before := admitted.Load()
	require.Eventually(t, func() bool { return admitted.Load() > before+100 }, 10*time.Second, time.Millisecond)
	c.KillMaster("k")
	s.SetRules(Rules{Timeout: 200 * time.Millisecond}) // there is no replica left to wait for
	before = admitted.Load()
	require.Eventually(t, func() bool { return admitted.Load() > before+100 }, 30*time.Second, time.Millisecond)
	stop.Store(true)
	group.Wait()
	require.Eventually(t, func() bool { return apply(t, s, takeOp("k", l, 0)).Err == nil }, 10*time.Second, time.Millisecond)
	used := 1000000 - apply(t, s, takeOp("k", l, 0)).Decision.Remaining
	t.Logf("admitted %d, without an answer %d, used %d: %+v", admitted.Load(), uncertain.Load(), used, s.Remote())
	assert.LessOrEqual(t, used, admitted.Load()+uncertain.Load())
}

// A change that too few replicas confirm is made, and says so.
func TestTooFewReplicas(t *testing.T) {
	n := engines.Standalone(t, engines.Valkey81)
	s := openAt(t, n.Addr(), func(_ *Config, r *Rules) { r.Timeout, r.MinReplicas = time.Second, 1 })
	l := mustLimit(buckets.NewWindow(10, 60*second))
	op := apply(t, s, takeOp("k", l, 1))
	assert.ErrorIs(t, op.Err, buckets.ErrTooFewReplicas)
	op = apply(t, s, takeOp("k", l, 0))
	assert.NoError(t, op.Err, "what changes nothing needs no replica")
	assert.EqualValues(t, 9, op.Decision.Remaining)
	s.SetRules(Rules{Timeout: time.Second})
	ops := []buckets.Op{takeOp("k", l, 1), takeOp("j", l, 1)}
	s.Apply(context.Background(), s.Now(), ops)
	assert.EqualValues(t, 8, ops[0].Decision.Remaining)
	assert.NoError(t, ops[1].Err)
}
