package resp_test

// These tests run servers whose keys are in a real Valkey or Redis, on a clock that the test sets.

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"cellserver/buckets/cluster"
	"cellserver/cmd/cellserver/options"
	"cellserver/internal/clock"
	"cellserver/internal/testing/engines"
	"cellserver/resp"
)

// openEngine returns a store whose keys are in an engine, and which decides at the times that it is given. It is closed when the
// test ends.
func openEngine(t *testing.T, addr, prefix string, cache time.Duration) *cluster.Store {
	t.Helper()
	s, err := cluster.New(cluster.Config{
		Addrs: []string{addr}, Prefix: prefix, Local: clock.New().Now, OwnTime: true, Slack: time.Hour,
	}, cluster.Rules{Timeout: patience, RefusalCache: cache})
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, s.Close()) })
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	require.NoError(t, s.Ready(ctx))
	return s
}

// Clients of several servers that share an engine see one order of all commands. If refusals are remembered, that is true of who is
// admitted and who is refused.
func TestHistoriesOverSeveralServersAreLinearizable(t *testing.T) {
	const servers, perServer = 3, 2
	for _, version := range []engines.Version{engines.Valkey81, engines.Redis70} { // by IFEQ, and by WATCH
		n := engines.Standalone(t, version)
		for _, row := range []struct {
			name   string
			cache  time.Duration
			limits linearLimits
			n      int
		}{
			{"every answer confirmed", 0, linearLimits{apart: true}, 60},
			{"refusals remembered", time.Minute, linearLimits{apart: true, takes: true}, 60},
		} {
			t.Run(fmt.Sprintf("%s, %s", version, row.name), func(t *testing.T) {
				var now atomic.Int64
				now.Store(1_700_000_123 * int64(time.Second))
				var talk []conversation
				var stores []*cluster.Store
				for range servers {
					live := options.NewLive(options.Defaults(), func(options.Settings) error { return nil })
					store := openEngine(t, n.Addr(), row.name, row.cache)
					stores = append(stores, store)
					s := &subject{log: new(logged), now: now.Load, Server: resp.NewServer(resp.Config{
						Store: store, Now: now.Load, Log: slog.New(slog.DiscardHandler), Version: "test",
						Options: live, Bounds: live.Settings().Wire,
					})}
					l := s.inMemory(t)
					for range perServer {
						talk = append(talk, overStream(connect(t, l.Dial).Conn))
					}
				}
				rounds := row.n
				if os.Getenv("CELLSERVER_SOAK") == "1" {
					rounds *= 50
				}
				histories(t, rounds, 5, &now, talk, row.limits)
				for _, s := range stores {
					r := s.Remote()
					t.Logf("%d decisions, %d conflicts, %d refused without asking", r.Decisions, r.Conflicts, r.Local)
					assert.Positive(t, r.Conflicts)
					assert.Equal(t, row.cache > 0, r.Local > 0)
				}
			})
		}
	}
}
