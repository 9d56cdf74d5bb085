package cluster

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"cellserver/buckets"
	"cellserver/internal/testing/engines"
)

// loadable returns entries of every kind, some with deadlines, as they are at now.
func loadable(now int64) (entries []buckets.Entry) {
	take := func(l *buckets.Limit, quantity int64) (state buckets.State) {
		var d buckets.Decision
		if _, err := state.Take(l, now, quantity, 1000, &d); err != nil {
			panic(err)
		}
		return state
	}
	hour := 3600 * second
	states := []buckets.State{
		take(mustLimit(buckets.NewThrottle(9, 10, hour)), 3), take(mustLimit(buckets.NewWindow(10, hour)), 4),
		take(mustLimit(buckets.NewSlide(10, hour)), 5), buckets.Counted(-7, buckets.NoExpiry), buckets.Counted(8, now+hour),
	}
	for i, state := range states {
		entries = append(entries, buckets.Entry{Key: fmt.Appendf(nil, "%d\r\n\x00", i), State: state})
		if !state.Kind.KeepsExpiry() {
			entries = append(entries, buckets.Entry{Key: fmt.Appendf(nil, "deadline %d", i), State: state, Deadline: now + hour/100})
		}
	}
	return entries
}

func TestLoader(t *testing.T) {
	for name, start := range map[string]func(t *testing.T) string{
		"valkey-8.1":         func(t *testing.T) string { return engines.Standalone(t, engines.Valkey81).Addr() },
		"redis-7.0, WATCH":   func(t *testing.T) string { return engines.Standalone(t, engines.Redis70).Addr() },
		"valkey-9.1 cluster": func(t *testing.T) string { return engines.SharedCluster(t, engines.Valkey91).Addrs()[0] },
	} {
		t.Run(name, func(t *testing.T) {
			addr, prefix := start(t), ""
			s := openAt(t, addr, func(c *Config, _ *Rules) { c.Slack, prefix = 0, c.Prefix })
			ctx, now := context.Background(), s.Now()
			entries := loadable(now)
			held := func(s *Store) (all []buckets.Contents) {
				for i := range entries {
					op := apply(t, s, buckets.Op{Code: buckets.OpGet, Key: entries[i].Key})
					require.NoError(t, op.Err)
					op.Contents.Now = 0
					all = append(all, op.Contents)
				}
				return all
			}
			// One of them is in the engine already.
			require.NoError(t, apply(t, s, takeOp(string(entries[0].Key), mustLimit(buckets.NewThrottle(9, 10, 60*second)), 1)).Err)
			before := held(s)
			gone := buckets.Entry{Key: []byte("gone"), State: entries[0].State, Deadline: now - 1}

			l := s.NewLoader(false)
			for i := range entries {
				require.NoError(t, l.Add(ctx, &entries[i]))
			}
			require.NoError(t, l.Add(ctx, &gone))
			require.NoError(t, l.Flush(ctx))
			assert.Equal(t, Loaded{Written: len(entries) - 1, Kept: 1, Expired: 1}, l.Loaded())

			other := openAt(t, addr, func(c *Config, _ *Rules) { c.Prefix = prefix })
			after := held(other)
			assert.Equal(t, before[0], after[0], "what is there stays")
			want := func(e *buckets.Entry) buckets.Contents {
				r := record{}
				r.store(e.State, e.Deadline, now)
				c := r.contents(now)
				c.Now = 0
				return c
			}
			for i := 1; i < len(entries); i++ {
				assert.Equal(t, want(&entries[i]), after[i], "%q", entries[i].Key)
				ttl, err := s.engine.node(s.engine.slot(s.engineKey(nil, entries[i].Key))).client.PTTL(ctx, string(s.engineKey(nil, entries[i].Key))).Result()
				require.NoError(t, err)
				if expiry := after[i].Expiry; expiry == buckets.NoExpiry {
					assert.EqualValues(t, -1, ttl)
				} else {
					assert.InDelta(t, expiry-s.Now(), int64(ttl), float64(10*time.Second), "the engine lets go of it in time")
				}
			}

			again := s.NewLoader(false)
			for i := range entries {
				require.NoError(t, again.Add(ctx, &entries[i]))
			}
			require.NoError(t, again.Flush(ctx))
			assert.Equal(t, Loaded{Kept: len(entries)}, again.Loaded(), "loading again changes nothing")
			assert.Equal(t, after, held(other))

			replacing := s.NewLoader(true)
			require.NoError(t, replacing.Add(ctx, &entries[0]))
			require.NoError(t, replacing.Flush(ctx))
			assert.Equal(t, Loaded{Written: 1}, replacing.Loaded())
			assert.Equal(t, want(&entries[0]), held(openAt(t, addr, func(c *Config, _ *Rules) { c.Prefix = prefix }))[0])
		})
	}
}

// A Loader writes in batches, uses its memory again, and says which key could not be written.
func TestLoaderOfManyKeysAndFaults(t *testing.T) {
	n := engines.Standalone(t, engines.Valkey81)
	s := openAt(t, n.Addr(), nil)
	ctx := context.Background()
	l := s.NewLoader(false)
	for i := range 2*loadBatch + 1 {
		require.NoError(t, l.Add(ctx, &buckets.Entry{Key: fmt.Appendf(nil, "key:%d", i), State: buckets.Counted(int64(i), buckets.NoExpiry)}))
	}
	assert.Equal(t, 2*loadBatch, l.Loaded().Written)
	require.NoError(t, l.Flush(ctx))
	assert.Equal(t, 2*loadBatch+1, l.Loaded().Written)
	for _, i := range []int{0, loadBatch - 1, loadBatch, 2 * loadBatch} {
		op := apply(t, s, buckets.Op{Code: buckets.OpGet, Key: fmt.Appendf(nil, "key:%d", i)})
		assert.EqualValues(t, i, op.Contents.Field("value"))
	}

	require.NoError(t, n.Client().Do(ctx, "LPUSH", s.config.Prefix+"list", "x").Err())
	require.NoError(t, l.Add(ctx, &buckets.Entry{Key: []byte("list"), State: buckets.Counted(1, buckets.NoExpiry)}))
	require.ErrorContains(t, l.Flush(ctx), `key "list": `)

	ended, cancel := context.WithCancel(ctx)
	cancel()
	last := s.NewLoader(false)
	require.NoError(t, last.Add(ended, &buckets.Entry{Key: []byte("k"), State: buckets.Counted(1, buckets.NoExpiry)}))
	require.ErrorIs(t, last.Flush(ended), context.Canceled)
}

// A Loader whose engine is away says so each time, and goes on with what is added then.
func TestLoaderGoesOnAfterAFault(t *testing.T) {
	n := engines.Standalone(t, engines.Valkey81)
	s := openAt(t, n.Addr(), func(_ *Config, r *Rules) { r.Timeout = 20 * time.Millisecond })
	n.Stop()
	l := s.NewLoader(false)
	faults := 0
	for i := range 2*loadBatch + 1 {
		e := buckets.Entry{Key: fmt.Append(nil, i), State: buckets.Counted(1, buckets.NoExpiry)}
		if l.Add(context.Background(), &e) != nil {
			faults++
		}
	}
	assert.Equal(t, 2, faults)
}
