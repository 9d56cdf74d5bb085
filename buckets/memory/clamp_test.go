package memory

import (
	"cellserver/buckets"
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// reloaded copies s at time kept and returns a store that has loaded the copy at now.
func reloaded(t require.TestingT, s *Store, kept, now int64) *Store {
	again := newStore(len(s.shards), tiny, seed)
	require.NoError(t, s.Copy(kept, func(p *Part) error {
		p.Each(func(e *buckets.Entry) { again.Restore(now, e) })
		return nil
	}))
	return again
}

// Whatever the clock does while the server is off, a client that waits as long as it was told is admitted, and is told to
// wait for at most one period.
func TestSteppedBackClockDelaysAtMostOnePeriod(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		s, now := seeded(8), epoch
		policies := make(map[string]policy)
		for kind := buckets.Throttle; kind <= buckets.Slide; kind++ {
			for n := range 3 {
				p := somePolicy(kind).Filter(func(p policy) bool { return p.period < buckets.MaxPeriod/100 && less(p.atOnce(), bigInt(1<<40)) }).Draw(rt, "policy")
				policies[fmt.Sprint(kind, n)] = p
			}
		}
		for range rapid.IntRange(1, 4).Draw(rt, "restarts") {
			longest := second
			for key, p := range policies {
				l := limitOf(rt, p)
				for range rapid.IntRange(0, 4).Draw(rt, "requests") {
					quantity := rapid.SampledFrom([]int64{1, 1, 2, p.atOnce().Int64(), -1}).Draw(rt, "quantity")
					_, err := s.Take(now, []byte(key), l, quantity, false)
					require.NoError(rt, err)
					now += rapid.Int64Range(0, max(1, p.period/2)).Draw(rt, "a while")
				}
				longest = max(longest, p.period)
			}
			kept := now
			now += rapid.Int64Range(-3*longest, longest).Draw(rt, "step")
			s = reloaded(rt, s, kept, now)
			before := copyAsText(t, s, now)
			s.Track(textEncoder{})
			moved := s.Clamp(now)
			checkInvariants(t, s)
			_, count := s.Changes(nil)
			require.EqualValues(rt, moved, count, "what was moved is in the journal")
			require.EqualValues(rt, moved, s.Stats().Changes, "and in the next snapshot")
			changed := int64(0)
			for key, held := range copyAsText(t, s, now) {
				if held != before[key] {
					changed++
				}
			}
			require.Equal(rt, moved, changed)
			require.Zero(rt, s.Clamp(now), "once is enough")

			for key, p := range policies {
				l := limitOf(rt, p)
				one := reloaded(rt, s, now, now)
				d, err := one.Take(now, []byte(key), l, 1, false)
				require.NoError(rt, err)
				if !d.Limited {
					continue
				}
				if p.kind == buckets.Throttle {
					require.LessOrEqual(rt, d.RetryAfter, p.capacity().Int64())
				} else {
					require.LessOrEqual(rt, d.RetryAfter, p.period)
				}
				d, err = one.Take(now+d.RetryAfter, []byte(key), l, 1, false)
				require.NoError(rt, err)
				require.False(rt, d.Limited, "%s %+v is told to wait again", key, p)
			}
		}
	})
}

// States that are later than the time of loading are moved to that time.
func TestClampMovesFutureStatesToNow(t *testing.T) {
	eachShape(t, func(t *testing.T, old *Store) {
		mustTake(t, old, epoch, "open", window(t, 5, 200*second), 2)
		log := slide(t, 9, 60*second)
		mustTake(t, old, epoch+20*second, "log", log, 1)
		for _, at := range []int64{50, 60, 70} { // two of them after the time of loading
			mustTake(t, old, epoch+at*second, "log", log, 2)
		}
		mustTake(t, old, epoch+70*second, "tat", throttle(t, 9, 10, 3600*second), 3)
		require.True(t, old.ExpireAt(epoch+70*second, []byte("log"), epoch+115*second, 0))
		mustTake(t, old, epoch+100*second, "later", window(t, 5, 60*second), 3)

		now := epoch + 50*second
		s := reloaded(t, old, epoch+55*second, now)
		require.EqualValues(t, 2, s.Clamp(now))
		checkInvariants(t, s)
		shown := func(key string) *buckets.Contents {
			c, ok := s.Get(now, []byte(key))
			require.True(t, ok, key)
			return &c
		}
		w := shown("open")
		assert.Equal(t, []int64{epoch, epoch + 200*second, 2}, []int64{w.Field("start"), w.Field("end"), w.Field("used")})
		w = shown("later")
		assert.Equal(t, []int64{now, now + 60*second, 3}, []int64{w.Field("start"), w.Field("end"), w.Field("used")})
		assert.Equal(t, epoch+70*second+3*360*second, shown("tat").Field("tat"))
		g := shown("log")
		assert.Equal(t, []int64{2, 7, epoch + 20*second, now}, []int64{g.Field("records"), g.Field("sum"), g.Field("oldest"), g.Field("newest")})
		assert.Zero(t, g.Deadline, "it is no earlier than full any more")
	})
}
