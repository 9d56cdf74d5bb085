package cluster

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"cellserver/buckets"
	"cellserver/internal/testing/engines"
	"cellserver/internal/testing/storetest"
)

// The store keeps the contract of buckets.Store on every kind of engine, by IFEQ and by WATCH.
func TestContract(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		name   string
		addrs  func(t *testing.T) []string
		change func(c *Config)
	}{
		{"valkey 8.1", standaloneAt(engines.Valkey81), func(*Config) {}},
		{"valkey 8.1 by watch", standaloneAt(engines.Valkey81), func(c *Config) { c.Watch = true }},
		{"redis 7.0", standaloneAt(engines.Redis70), func(*Config) {}},
		{"a cluster", func(t *testing.T) []string { return engines.SharedCluster(t, engines.Valkey91).Addrs() }, func(c *Config) {
			c.Prefix = "{contract}:"
		}},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			addrs := row.addrs(t)
			// A store has connections, so the tests of one suite use one store, empty and without a memory of time each.
			s := openAt(t, addrs[0], func(c *Config, r *Rules) {
				c.Addrs, c.Prefix, c.OwnTime, r.MaxLog = addrs, "contract:", true, storetest.MaxLog
				row.change(c)
			})
			storetest.Test(t, func(t testing.TB) buckets.Store {
				ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
				defer cancel()
				require.NoError(t, s.Flush(ctx))
				s.forgetAll()
				for _, n := range s.engine.masters() {
					n.hot.latest.Store(0)
				}
				return s
			})
			t.Logf("%+v", s.Remote())
		})
	}
}

func standaloneAt(v engines.Version) func(t *testing.T) []string {
	return func(t *testing.T) []string { return []string{engines.Standalone(t, v).Addr()} }
}
