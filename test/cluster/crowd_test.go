package cluster

import (
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"cellserver/buckets/cluster"
	"cellserver/internal/testing/engines"
)

// Where every request is a compare-and-set of its own, hundreds of callers of one key starve each other until they time out. Here they
// wait for each other in their server, so that none waits for long.
func TestHundredsOfClientsOfOneKey(t *testing.T) {
	const clients = 400
	for _, version := range engines.Versions() {
		t.Run(version.String(), func(t *testing.T) {
			servers := three(t, shared(t, version), cluster.Rules{Timeout: time.Second, RefusalCache: cluster.DefaultRefusalCache})
			limit := times(2000)
			command := "CL.WINDOW key " + limitOf("WINDOW", limit)
			var remained tally
			var longest maximum
			crowd(servers, (clients+len(servers)-1)/len(servers), func(c *redis.Client) func() bool {
				conn := c.Conn()
				t.Cleanup(func() { assert.NoError(t, conn.Close()) })
				require.NoError(t, conn.Ping(t.Context()).Err())
				return func() bool {
					began := time.Now()
					d, err := ask(conn, command)
					longest.note(int64(time.Since(began)))
					if !assert.NoError(t, err) || d.limited {
						return false
					}
					remained.note(d.remaining)
					return true
				}
			})
			remained.are(t, 0, limit-1, "CL.WINDOW")
			t.Logf("the longest wait was %v", time.Duration(longest.Load()))
			for _, s := range servers {
				r := s.store.Remote()
				t.Logf("%d decisions, %d commands, %d conflicts", r.Decisions, r.Commands, r.Conflicts)
				assert.Zero(t, r.Timeouts)
			}
			assert.Less(t, time.Duration(longest.Load()), 2*time.Second, "a bound for busy machines; bench measures")
		})
	}
}
