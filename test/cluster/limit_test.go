package cluster

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"

	"cellserver/buckets/cluster"
	"cellserver/internal/testing/engines"
)

// clientsEach is the number of clients of each server that ask at once.
const clientsEach = 50

// Three servers with many clients each admit exactly what each kind of limit allows, however the engine is asked.
func TestExactlyTheLimitIsAdmitted(t *testing.T) {
	cases := []struct {
		name  string
		cache time.Duration
		turn  func(t *testing.T, servers []*cellserver)
	}{
		{"every answer is confirmed", 0, exactlyTakes},
		{"refusals are remembered", 100 * time.Millisecond, exactlyTakes},
		{"limits of two keys", 100 * time.Millisecond, exactlyTogether},
		{"transactions", 100 * time.Millisecond, exactlyInTransactions},
		{"counters", 100 * time.Millisecond, exactlyCounted},
	}
	for _, version := range engines.Versions() {
		for _, c := range cases {
			t.Run(fmt.Sprintf("%s, %s", version, c.name), func(t *testing.T) {
				servers := three(t, shared(t, version), cluster.Rules{RefusalCache: c.cache})
				c.turn(t, servers)
				var decisions, conflicts uint64
				for _, s := range servers {
					r := s.store.Remote()
					assert.Equal(t, map[bool]string{true: "ifeq", false: "watch"}[version.IFEQ()], r.Mechanism)
					assert.Zero(t, r.Failures)
					decisions, conflicts = decisions+r.Decisions, conflicts+r.Conflicts
				}
				t.Logf("%d decisions, %d conflicts", decisions, conflicts)
			})
		}
	}
}

// tally counts what clients were told.
type tally struct {
	sync.Mutex
	numbers []int64
}

// note notes a number.
func (a *tally) note(n int64) {
	a.Lock()
	defer a.Unlock()
	a.numbers = append(a.numbers, n)
}

// are checks that the numbers are those from first to last, each once: then the requests were decided one after the other.
func (a *tally) are(t *testing.T, first, last int, what string) {
	t.Helper()
	seen := make(map[int64]int)
	for _, n := range a.numbers {
		seen[n]++
	}
	var wrong []string
	for n, times := range seen {
		if times > 1 || n < int64(first) || n > int64(last) {
			wrong = append(wrong, fmt.Sprintf("%d: %d times", n, times))
		}
	}
	assert.Len(t, a.numbers, last-first+1, what)
	assert.Empty(t, wrong, what)
}

// limitOf returns the arguments of a limit of n that gets nothing back while the test runs.
func limitOf(kind string, n int) string {
	if kind == "THROTTLE" {
		return fmt.Sprintf("%d 1 86400", n-1)
	}
	return fmt.Sprintf("%d 86400", n)
}

// exactlyTakes has clients take from one key at a time, until each was refused twice.
func exactlyTakes(t *testing.T, servers []*cellserver) {
	limit := times(400)
	for _, kind := range []string{"THROTTLE", "WINDOW", "ZSLIDE"} {
		command := fmt.Sprintf("CL.%s %s %s", kind, strings.ToLower(kind), limitOf(kind, limit))
		var remained tally
		crowd(servers, clientsEach, func(c *redis.Client) func() bool {
			refused := 0
			return func() bool {
				d, err := ask(c, command)
				if !assert.NoError(t, err) {
					return false
				}
				if d.limited {
					assert.Zero(t, d.remaining)
					assert.Positive(t, d.retry)
					refused++
					return refused < 2
				}
				remained.note(d.remaining)
				return true
			}
		})
		if kind == "THROTTLE" {
			// The first may have been admitted by a server whose clock is some milliseconds ahead: to the others, a bit less is left then.
			assert.Len(t, remained.numbers, limit)
		} else {
			remained.are(t, 0, limit-1, kind)
		}
		for _, s := range servers {
			d := mustAsk(t, s.client(), command+" 0")
			assert.Equal(t, decision{limit: int64(limit), retry: -1, reset: d.reset}, d, "what the engine has")
		}
	}
	for _, s := range servers {
		r := s.store.Remote()
		assert.Equal(t, s.rules.RefusalCache > 0, r.Local > 0, "%d refusals without asking", r.Local)
		assert.Positive(t, r.Conflicts, "the servers have competed")
	}
}

// exactlyTogether has clients take from two keys at once. The second has the smaller limit, and what it refuses is not taken from the first.
func exactlyTogether(t *testing.T, servers []*cellserver) {
	limit := times(200)
	first, second := "WINDOW {k}a "+limitOf("WINDOW", 2*limit), "ZSLIDE {k}b "+limitOf("ZSLIDE", limit)
	var remained tally
	crowd(servers, clientsEach, func(c *redis.Client) func() bool {
		return func() bool {
			reply, err := c.Do(t.Context(), words("CL.ALL "+first+" 1 "+second+" 1")...).Slice()
			if !assert.NoError(t, err) || !assert.Len(t, reply, 4) {
				return false
			}
			if reply[0] != int64(0) {
				assert.Equal(t, []any{int64(1), int64(2)}, reply[:2])
				return false
			}
			d, err := parseDecision(reply[3])
			if !assert.NoError(t, err) {
				return false
			}
			remained.note(d.remaining)
			return true
		}
	})
	remained.are(t, 0, limit-1, "CL.ALL")
	for _, s := range servers {
		c := s.client()
		assert.Equal(t, int64(limit), mustAsk(t, c, "CL."+first+" 0").remaining)
		assert.Zero(t, mustAsk(t, c, "CL."+second+" 0").remaining)
	}
}

// exactlyInTransactions has clients take from a key and count what they took, by EXEC.
func exactlyInTransactions(t *testing.T, servers []*cellserver) {
	limit := times(100)
	command := words("CL.ZSLIDE {k}limit " + limitOf("ZSLIDE", limit))
	var remained, counted tally
	crowd(servers, clientsEach/5, func(c *redis.Client) func() bool {
		return func() bool {
			tx := c.TxPipeline()
			taken, asked := tx.Do(t.Context(), command...), tx.Incr(t.Context(), "{k}asked")
			if _, err := tx.Exec(t.Context()); !assert.NoError(t, err) {
				return false
			}
			counted.note(asked.Val())
			d, err := parseDecision(taken.Val())
			if !assert.NoError(t, err) || d.limited {
				return false
			}
			assert.Equal(t, int64(limit), d.remaining+asked.Val(), "both happen at once")
			remained.note(d.remaining)
			return true
		}
	})
	remained.are(t, 0, limit-1, "EXEC")
	counted.are(t, 1, limit+len(servers)*clientsEach/5, "INCR in EXEC")
}

// exactlyCounted has clients count by INCR, and by INCREX up to a bound.
func exactlyCounted(t *testing.T, servers []*cellserver) {
	each, bound := times(5), times(300)
	var counted, bounded tally
	crowd(servers, clientsEach, func(c *redis.Client) func() bool {
		n := 0
		return func() bool {
			n++
			value, err := c.Incr(t.Context(), "counter").Result()
			counted.note(value)
			return assert.NoError(t, err) && n < each
		}
	})
	counted.are(t, 1, each*clientsEach*len(servers), "INCR")
	increx := words(fmt.Sprintf("INCREX bounded BYINT 1 UBOUND %d EX 86400 ENX", bound))
	crowd(servers, clientsEach, func(c *redis.Client) func() bool {
		return func() bool {
			reply, err := c.Do(t.Context(), increx...).Int64Slice()
			if !assert.NoError(t, err) || !assert.Len(t, reply, 2) {
				return false
			}
			if reply[1] == 0 {
				assert.Equal(t, int64(bound), reply[0])
				return false
			}
			bounded.note(reply[0])
			return true
		}
	})
	bounded.are(t, 1, bound, "INCREX")
	for _, s := range servers {
		value, err := s.client().Get(t.Context(), "bounded").Int()
		assert.NoError(t, err)
		assert.Equal(t, bound, value)
	}
}
