package cluster

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"cellserver/buckets"
	"cellserver/internal/testing/engines"
)

// A store whose clock is behind that of another finds a bucket emptier than its time allows. It must not cut it: the other would take
// again what that gives back.
func TestStoreThatIsBehindGivesNothingBack(t *testing.T) {
	n := engines.Standalone(t, engines.Valkey81)
	prefix := func(c *Config, r *Rules) { c.Prefix = "p:" }
	ahead, behind := openAt(t, n.Addr(), prefix), openAt(t, n.Addr(), prefix)
	limit := mustLimit(buckets.NewThrottle(1, 1, 3600*second))
	together := func() buckets.Op {
		return buckets.Op{Code: buckets.OpTakeAll, Answers: make([]buckets.Decision, 2), Checks: []buckets.Check{
			{Key: []byte("a"), Limit: *limit, Quantity: 1}, {Key: []byte("b"), Limit: *limit, Quantity: 1},
		}}
	}
	later := ahead.Now() + maxSkew/2
	ahead.engine.node(0).hot.latest.Store(later) // so it decides as if its clock were ahead
	for range 2 {
		require.False(t, apply(t, ahead, takeOp("k", limit, 1)).Decision.Limited)
		require.Zero(t, apply(t, ahead, together()).Which)
	}
	for range 3 {
		for _, quantity := range []int64{1, 0} {
			op := apply(t, behind, takeOp("k", limit, quantity))
			assert.Equal(t, quantity > 0, op.Decision.Limited)
			assert.Zero(t, op.Decision.Remaining)
			assert.False(t, op.Decision.Cut)
			assert.LessOrEqual(t, op.Decision.RetryAfter, 3600*second)
		}
		assert.NotZero(t, apply(t, behind, together()).Which)
		assert.True(t, apply(t, ahead, takeOp("k", limit, 1)).Decision.Limited)
		assert.NotZero(t, apply(t, ahead, together()).Which)
	}
	assert.Zero(t, behind.Stats().Changes, "what is refused changes nothing")
}
