package cluster

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"cellserver/buckets/cluster"
	"cellserver/internal/testing/engines"
)

// skewBound is by how much the times of servers may differ, as they say themselves: the most of all that it was asked. It becomes less
// while a server runs.
type skewBound struct {
	servers []*cellserver
	most    maximum
}

// ask asks again, and returns the bound.
func (b *skewBound) ask() time.Duration {
	for _, s := range b.servers {
		b.most.note(2 * s.store.Remote().ClockBound)
	}
	return time.Duration(b.most.Load())
}

// Servers whose clocks are an hour apart decide at the same time, that of the engine. What one has stored the others read as it is, and
// the waits that they answer differ by no more than the bounds of their clocks and the time that has passed.
func TestServersWithClocksAnHourApartAgree(t *testing.T) {
	for _, version := range []engines.Version{engines.Valkey81, engines.Redis70} {
		t.Run(version.String(), func(t *testing.T) {
			at := shared(t, version)
			servers := three(t, at, cluster.Rules{})
			bound := &skewBound{servers: servers}
			bound.ask()
			var clients []*redis.Client
			for i, s := range servers {
				clients = append(clients, s.client())
				r := s.store.Remote()
				assert.InDelta(t, -skews[i], r.ClockOffset, float64(time.Second), "the offset that INFO shows")
				assert.InDelta(t, system(), s.store.Now(), float64(time.Second), "the time of the engine")
				assert.Less(t, r.ClockBound, int64(250*time.Millisecond))
			}
			for i, writer := range clients {
				for _, kind := range []string{"THROTTLE", "WINDOW", "ZSLIDE"} {
					agree(t, at, bound, clients, writer, fmt.Sprintf("CL.%s %s-%d %s 1 MS", kind, kind, i, limitOf(kind, 1)))
				}
			}
			t.Logf("the times of two servers may differ by %v", bound.ask())
		})
	}
}

// agree has one client take all of a limit of a day, and the others look at it.
func agree(t *testing.T, at place, bounds *skewBound, clients []*redis.Client, writer doer, command string) {
	const day = 24 * time.Hour
	key := words(command)[1].(string)
	began := time.Now()
	d := mustAsk(t, writer, command)
	taken := time.Now()
	require.False(t, d.limited)
	var contents []string
	for _, reader := range clients {
		list, err := reader.Do(t.Context(), "CL.GET", key).Slice()
		require.NoError(t, err)
		expiry, err := reader.PExpireTime(t.Context(), key).Result()
		require.NoError(t, err)
		contents = append(contents, fmt.Sprint(list, expiry))
	}
	for _, other := range contents[1:] {
		assert.Equal(t, contents[0], other, "what the servers read")
	}
	// The engine forgets the key when it has expired, and not long after that.
	name := at.prefix + key
	kept, err := at.cluster.Master(name).Client().PTTL(t.Context(), name).Result()
	require.NoError(t, err)
	assert.GreaterOrEqual(t, kept, day-time.Since(began)-bounds.ask(), command)
	assert.LessOrEqual(t, kept, day+2*slack, command)
	for _, reader := range clients {
		asked := time.Now()
		refused := mustAsk(t, reader, command)
		ttl, err := reader.PTTL(t.Context(), key).Result()
		require.NoError(t, err)
		assert.True(t, refused.limited, command)
		bound := bounds.ask() + 2*time.Millisecond // times are rounded up
		for _, left := range []time.Duration{time.Duration(refused.retry) * time.Millisecond, time.Duration(refused.reset) * time.Millisecond, ttl} {
			assert.LessOrEqual(t, left, day-asked.Sub(taken)+bound, command)
			assert.GreaterOrEqual(t, left, day-time.Since(began)-bound, command)
		}
	}
}

// While a bucket refills, servers whose clocks are an hour apart admit together what the time allows: no server is ahead of the others.
func TestServersWithClocksAnHourApartRefillTogether(t *testing.T) {
	const burst, interval = 5, 20 * time.Millisecond // 50 in a second
	enough := times(40)
	for name, cache := range map[string]time.Duration{"every answer is confirmed": 0, "refusals are remembered": 100 * time.Millisecond} {
		t.Run(name, func(t *testing.T) {
			servers := three(t, shared(t, engines.Valkey81), cluster.Rules{RefusalCache: cache})
			command := fmt.Sprintf("CL.THROTTLE flow %d 50 1", burst-1)
			var mu sync.Mutex
			var admitted []time.Duration // since the first reply could come
			byServer := make(map[*redis.Client]int)
			bound := &skewBound{servers: servers}
			bound.ask()
			began := time.Now()
			crowd(servers, 3, func(c *redis.Client) func() bool {
				return func() bool {
					d, err := ask(c, command)
					if !assert.NoError(t, err) {
						return false
					}
					mu.Lock()
					defer mu.Unlock()
					if !d.limited {
						admitted = append(admitted, time.Since(began))
						byServer[c]++
						bound.ask()
					}
					return len(admitted) < enough
				}
			})
			for i, at := range admitted {
				// Before this one came the burst, and then one for each interval.
				assert.GreaterOrEqual(t, at, time.Duration(i+1-burst)*interval-bound.ask(), "number %d", i+1)
			}
			for _, n := range byServer {
				assert.Less(t, n, len(admitted), "no server has all of it")
			}
			t.Logf("%d admitted in %v by %d servers whose times differ by at most %v", len(admitted), admitted[len(admitted)-1], len(byServer), bound.ask())
		})
	}
}
