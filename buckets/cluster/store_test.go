package cluster

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"cellserver/buckets"
	"cellserver/internal/testing/engines"
)

const second = int64(time.Second)

func localClock() int64 { return time.Now().UnixNano() }

// openAt returns a store whose engine is at an address.
func openAt(t testing.TB, addr string, change func(c *Config, r *Rules)) *Store {
	c := Config{Addrs: []string{addr}, Local: localClock, Slack: time.Hour, Prefix: fmt.Sprintf("%d:", localClock())}
	r := Rules{Timeout: 5 * time.Second}
	if change != nil {
		change(&c, &r)
	}
	s, err := New(c, r)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, s.Close()) })
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	require.NoError(t, s.Ready(ctx))
	return s
}

func mustLimit(l buckets.Limit, err error) *buckets.Limit {
	if err != nil {
		panic(err)
	}
	return &l
}

func takeOp(key string, l *buckets.Limit, quantity int64) buckets.Op {
	return buckets.Op{Code: buckets.OpTake, Key: []byte(key), Limit: l, Quantity: quantity}
}

func apply(t testing.TB, s *Store, op buckets.Op) buckets.Op {
	ops := []buckets.Op{op}
	s.Apply(context.Background(), s.Now(), ops)
	return ops[0]
}

// Many callers of several stores share keys: of each limit exactly as much is admitted as it allows.
func TestExactlyTheLimitIsAdmitted(t *testing.T) {
	n := engines.Standalone(t, engines.Valkey81)
	prefix := func(c *Config, r *Rules) { c.Prefix = "p:" }
	stores := []*Store{openAt(t, n.Addr(), prefix), openAt(t, n.Addr(), prefix), openAt(t, n.Addr(), prefix)}
	limits := map[string]*buckets.Limit{
		"throttle": mustLimit(buckets.NewThrottle(499, 1, 3600*second)),
		"window":   mustLimit(buckets.NewWindow(500, 3600*second)),
		"slide":    mustLimit(buckets.NewSlide(500, 3600*second)),
	}
	for name, l := range limits {
		var group sync.WaitGroup
		var mu sync.Mutex
		admitted := 0
		for _, s := range stores {
			for range 20 {
				group.Go(func() {
					for range 50 {
						op := apply(t, s, takeOp(name, l, 1))
						if !assert.NoError(t, op.Err) {
							return
						}
						if !op.Decision.Limited {
							mu.Lock()
							admitted++
							mu.Unlock()
						}
					}
				})
			}
		}
		group.Wait()
		assert.Equal(t, 500, admitted, name)
	}
	for _, s := range stores {
		t.Logf("%+v", s.Remote())
	}
}
