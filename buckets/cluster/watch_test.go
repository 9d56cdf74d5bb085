package cluster

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"cellserver/buckets"
	"cellserver/internal/testing/engines"
)

// A watch that may have missed a change does not say that there was none.
func TestWatchOfAnEngineThatFails(t *testing.T) {
	ctx := context.Background()
	for name, fail := range map[string]func(n *engines.Node){
		"its connection is closed": func(n *engines.Node) { require.NoError(t, n.Client().ClientKillByFilter(ctx, "TYPE", "normal").Err()) },
		"it ends":                  func(n *engines.Node) { n.Kill() },
		"it ends and starts again": func(n *engines.Node) {
			n.Kill()
			n.Start()
		},
		"it does not answer": func(n *engines.Node) { n.Pause() },
	} {
		t.Run(name, func(t *testing.T) {
			n := engines.Standalone(t, engines.Valkey81)
			s := openAt(t, n.Addr(), func(_ *Config, r *Rules) { r.Timeout = 300 * time.Millisecond })
			w, err := s.Watch(ctx, s.Now(), []byte("k"))
			require.NoError(t, err)
			defer s.Unwatch(w)
			fail(n)
			for range 2 {
				if changed, err := s.Changed(ctx, s.Now(), w); err == nil {
					assert.True(t, changed)
				} else {
					var away *buckets.Unavailable
					assert.True(t, errors.As(err, &away), "%v", err)
				}
			}
		})
	}
}

// A change is reported although the key holds the same again, and asking several times goes on watching.
func TestWatchGoesOn(t *testing.T) {
	n := engines.Standalone(t, engines.Redis70)
	s := openAt(t, n.Addr(), nil)
	ctx := context.Background()
	l := mustLimit(buckets.NewWindow(5, 3600*second))
	require.NoError(t, apply(t, s, takeOp("k", l, 1)).Err)
	w, err := s.Watch(ctx, s.Now(), []byte("k"))
	require.NoError(t, err)
	defer s.Unwatch(w)
	for range 3 {
		changed, err := s.Changed(ctx, s.Now(), w)
		require.NoError(t, err)
		require.False(t, changed)
	}
	engineKey := s.config.Prefix + "k"
	value := n.Client().Get(ctx, engineKey).Val()
	require.NoError(t, n.Client().Del(ctx, engineKey).Err())
	require.NoError(t, n.Client().Set(ctx, engineKey, value, 0).Err())
	for range 2 {
		changed, err := s.Changed(ctx, s.Now(), w)
		require.NoError(t, err)
		require.True(t, changed)
	}
}

// The engine removes an expired key later than it expires. That is no change.
func TestWatchOfAnExpiredKey(t *testing.T) {
	n := engines.Standalone(t, engines.Valkey81)
	s := openAt(t, n.Addr(), func(c *Config, _ *Rules) { c.OwnTime = true })
	ctx, now := context.Background(), s.Now()
	ops := []buckets.Op{takeOp("k", mustLimit(buckets.NewWindow(5, second)), 1)}
	s.Apply(ctx, now, ops)
	require.NoError(t, ops[0].Err)
	now += 2 * second
	engineKey := s.config.Prefix + "k"
	require.EqualValues(t, 1, n.Client().Exists(ctx, engineKey).Val(), "it is still there")
	w, err := s.Watch(ctx, now, []byte("k"))
	require.NoError(t, err)
	defer s.Unwatch(w)
	require.NoError(t, n.Client().Del(ctx, engineKey).Err()) // as if it had waited for its time
	changed, err := s.Changed(ctx, now, w)
	require.NoError(t, err)
	assert.False(t, changed)
}

// Clients cannot use up the connections of the engine, and give back those that they have.
func TestWatchesAreBounded(t *testing.T) {
	n := engines.Standalone(t, engines.Valkey81)
	s := openAt(t, n.Addr(), nil)
	ctx := context.Background()
	connections := func() int { return strings.Count(n.Client().ClientList(ctx).Val(), "name=cellserver") }
	idle := connections()
	var all []buckets.Watch
	for range maxWatches {
		w, err := s.Watch(ctx, s.Now(), []byte("k"))
		require.NoError(t, err)
		all = append(all, w)
	}
	_, err := s.Watch(ctx, s.Now(), []byte("k"))
	require.Equal(t, errWatches, err)
	changed, err := s.Changed(ctx, s.Now(), all[0])
	require.NoError(t, err)
	assert.False(t, changed, "the others can be asked nevertheless")
	assert.GreaterOrEqual(t, connections(), maxWatches)
	for _, w := range all {
		s.Unwatch(w)
		s.Unwatch(w) // harmless
	}
	require.Eventually(t, func() bool { return connections() <= idle }, 10*time.Second, 20*time.Millisecond)
	w, err := s.Watch(ctx, s.Now(), []byte("k"))
	require.NoError(t, err)
	s.Unwatch(w)
}
