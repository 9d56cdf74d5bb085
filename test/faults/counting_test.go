package faults

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"cellserver/buckets"
	"cellserver/buckets/cluster"
	"cellserver/internal/testing/engines"
)

// Connections end at random, before a command or after it and in the middle of a reply: what was acknowledged was counted, nothing is
// counted twice, and of what failed it is said whether it may have been counted.
func TestNothingIsCountedTwice(t *testing.T) {
	server := engines.Standalone(t, engines.Valkey81)
	m := startMeddler(t, server.Addr())
	const timeout, keys, most = time.Second, 6, 6000
	stores := make([]*cluster.Store, 3)
	for i := range stores {
		stores[i], _ = open(t, at(m.addr()), cluster.Rules{Timeout: timeout})
	}
	lag := measureLag(t)
	m.with(ofKeys(func(_ []string, ask func() []byte) ([]byte, next) {
		switch rand.IntN(60) {
		case 0: // not counted
			return nil, hangUp
		case 1: // counted, or not if another was faster
			ask()
			return nil, hangUp
		case 2:
			reply := ask()
			return reply[:rand.IntN(len(reply))], hangUp
		}
		return ask(), goOn
	}))
	y := newTally()
	c := call(t, 24, func(i int) {
		_ = y.increment(stores[i%len(stores)], fmt.Sprint("counter ", rand.IntN(keys)))
	})
	require.Eventually(t, func() bool { return y.total.Load() > most }, within, soon)
	c.stop()
	m.with(nil)
	y.check(t, timeout, lag)
	unknown := int64(0)
	for i := range keys {
		key := fmt.Sprint("counter ", i)
		requireDecides(t, stores[0], "probe")
		n := value(t, stores[0], key)
		assert.GreaterOrEqual(t, n, y.got(key), "what was acknowledged was counted: %s", key)
		assert.LessOrEqual(t, n, y.got(key)+y.doubtful(key), "nothing was counted twice: %s", key)
		unknown += y.doubtful(key)
	}
	assert.Positive(t, unknown)
	t.Logf("%d requests, %d of them with unknown outcome: %v; the longest took %v", y.total.Load(), unknown, y.errors(), y.slowest)
}

// Replicas that have to confirm do not, and the server is so slow that this is known only when the time is up, or a little later: what
// was taken from several keys is not taken again, and nobody is told that it was not.
func TestNothingIsTakenTwiceTogether(t *testing.T) {
	server := engines.Standalone(t, engines.Valkey81)
	proxy := engines.StartProxy(t, server.Addr())
	const timeout = 200 * time.Millisecond
	s, _ := open(t, at(proxy.Addr()), cluster.Rules{Timeout: timeout, MinReplicas: 1})
	l := window(1e12)
	y := newTally()
	takeBoth := func(int) {
		from := time.Now()
		op := apply(s, buckets.Op{Code: buckets.OpTakeAll, Answers: make([]buckets.Decision, 2), Checks: []buckets.Check{
			{Key: []byte("a"), Limit: *l, Quantity: 1}, {Key: []byte("b"), Limit: *l, Quantity: 1}}})
		y.note("a", op.Which > 0, op.Err, time.Since(from))
	}
	// A new connection, two round trips, and half of the timeout for WAIT: from a little less than the timeout to more than what is granted beyond it.
	for part := 6; part <= 14; part += 2 {
		proxy.Delay(0, timeout*time.Duration(part)/100)
		end := y.total.Load() + 8
		load := call(t, 4, takeBoth)
		require.Eventually(t, func() bool { return y.total.Load() >= end }, within, soon)
		load.stop()
	}
	proxy.Delay(0, 0)
	s.SetRules(cluster.Rules{Timeout: 5 * time.Second})
	requireDecides(t, s, "a")
	n := used(t, s, "a", l)
	assert.Equal(t, n, used(t, s, "b", l))
	assert.GreaterOrEqual(t, n, y.got("a"))
	assert.LessOrEqual(t, n, y.got("a")+y.doubtful("a"))
	assert.Empty(t, y.strange)
	t.Logf("%d taken, %v", n, y.errors())
}
