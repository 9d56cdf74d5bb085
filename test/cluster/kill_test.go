package cluster

import (
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"cellserver/buckets/cluster"
	"cellserver/internal/testing/engines"
)

// A server that is killed in the midst of its work and started again has lost nothing: what it has admitted stays admitted. A request
// without its reply may have been admitted, too.
func TestKilledServerHasLostNothing(t *testing.T) {
	for _, version := range []engines.Version{engines.Valkey81, engines.Redis70} {
		t.Run(version.String(), func(t *testing.T) {
			servers := three(t, shared(t, version), cluster.Rules{RefusalCache: cluster.DefaultRefusalCache})
			const each = 400 // admitted between two kills
			kills := times(4)
			limit := each * (kills + 2) // more than what is lost
			command := "CL.WINDOW key " + limitOf("WINDOW", limit)
			var admitted, lost atomic.Int64
			var remained tally
			due := make(chan struct{}, kills)
			var back atomic.Pointer[chan struct{}] // closed when the server that was killed last runs again
			ended := make(chan struct{})
			go func() {
				defer close(ended)
				crowd(servers, clientsEach, func(c *redis.Client) func() bool {
					return func() bool {
						d, err := ask(c, command)
						switch {
						case err != nil:
							lost.Add(1)
							again := back.Load()
							if !assert.NotNil(t, again, "nobody was killed: %v", err) {
								return false
							}
							<-*again
						case d.limited:
							return false
						default:
							remained.note(d.remaining)
							if n := admitted.Add(1); n%each == 0 && n <= int64(kills*each) {
								due <- struct{}{}
							}
						}
						return true
					}
				})
			}()
			for i := range kills {
				select {
				case <-due:
				case <-ended:
					require.Fail(t, "the clients have ended")
				}
				again := make(chan struct{})
				back.Store(&again)
				s := servers[i%len(servers)]
				s.kill(i%2 == 0)
				s.start()
				close(again)
			}
			<-ended
			t.Logf("%d admitted, %d without a reply", admitted.Load(), lost.Load())
			assert.LessOrEqual(t, admitted.Load(), int64(limit))
			assert.GreaterOrEqual(t, admitted.Load()+lost.Load(), int64(limit), "what was not admitted had no reply")
			slices.Sort(remained.numbers)
			assert.Len(t, slices.Compact(remained.numbers), int(admitted.Load()), "nothing was admitted twice")
			assert.Positive(t, lost.Load(), "servers were killed in the midst of their work")
		})
	}
}

// A server that comes back, on a machine whose clock is another, finds what it has left.
func TestServerThatComesBackFindsWhatItLeft(t *testing.T) {
	for _, version := range engines.Versions() {
		t.Run(version.String(), func(t *testing.T) {
			s := serve(t, shared(t, version), 0, cluster.Rules{RefusalCache: cluster.DefaultRefusalCache})
			c := s.client()
			commands := map[string]string{
				"t": "CL.THROTTLE t " + limitOf("THROTTLE", 5), "w": "CL.WINDOW w " + limitOf("WINDOW", 5), "z": "CL.ZSLIDE z " + limitOf("ZSLIDE", 5),
				"short": "CL.WINDOW short " + limitOf("WINDOW", 5),
			}
			for range 3 {
				for _, command := range commands {
					require.False(t, mustAsk(t, c, command).limited)
				}
				require.NoError(t, c.Incr(t.Context(), "n").Err())
			}
			require.NoError(t, c.Expire(t.Context(), "short", time.Hour).Err())
			look := func() (seen []any) {
				for _, key := range []string{"t", "w", "z", "short", "n"} {
					contents, err := c.Do(t.Context(), "CL.GET", key).Slice()
					require.NoError(t, err)
					expiry, err := c.PExpireTime(t.Context(), key).Result()
					require.NoError(t, err)
					seen = append(seen, contents, expiry)
				}
				return seen
			}
			before := look()
			s.kill(false)
			now := system
			s.config.Local = func() int64 { return now() - int64(time.Hour) }
			s.start()
			assert.Equal(t, before, look())
			for _, command := range commands {
				assert.Equal(t, int64(1), mustAsk(t, c, command).remaining, command)
			}
			assert.Equal(t, int64(4), c.Incr(t.Context(), "n").Val())
			for _, command := range commands {
				mustAsk(t, c, command)
				assert.True(t, mustAsk(t, c, command).limited, command)
			}
		})
	}
}
