package cluster_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"cellserver/buckets"
	"cellserver/buckets/cluster"
	"cellserver/internal/testing/engines"
)

// Until the time of the engine is known, nothing is decided: a request decided by a clock that is an hour ahead would shut its
// key for an hour.
func TestNothingIsDecidedBeforeTheTimeIsKnown(t *testing.T) {
	server := engines.Standalone(t, engines.Valkey81)
	server.Stop()
	ahead := func() int64 { return time.Now().Add(time.Hour).UnixNano() }
	s, err := cluster.New(cluster.Config{Addrs: []string{server.Addr()}, Local: ahead, Prefix: "untimed:"}, cluster.Rules{Timeout: time.Second, MaxLog: 100, CacheBytes: 1 << 20})
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, s.Close()) })
	early := s.Now()
	server.Start()
	limit, err := buckets.NewThrottle(0, 1, int64(time.Hour))
	require.NoError(t, err)
	decide := func(now int64) buckets.Op {
		ops := []buckets.Op{{Code: buckets.OpTake, Key: []byte("k"), Limit: &limit, Quantity: 1}}
		s.Apply(t.Context(), now, ops)
		return ops[0]
	}
	var away *buckets.Unavailable
	require.Eventually(t, func() bool {
		op := decide(early) // a caller that has read the clock too early
		require.ErrorAs(t, op.Err, &away)
		return s.Ready(t.Context()) == nil
	}, 10*time.Second, time.Millisecond)
	op := decide(early)
	require.ErrorAs(t, op.Err, &away, "the time is known now, but the caller's is not of it")
	require.ErrorAs(t, s.Atomically(t.Context(), early, [][]byte{[]byte("k")}, false, func(buckets.Store) { t.Error("called") }), &away)
	op = decide(s.Now())
	require.NoError(t, op.Err)
	assert.False(t, op.Decision.Limited)
	op = decide(s.Now())
	require.NoError(t, op.Err)
	assert.Less(t, op.Decision.RetryAfter, int64(time.Hour))
}
