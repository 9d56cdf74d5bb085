package model_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"cellserver/buckets/cluster"
	"cellserver/internal/clock"
	"cellserver/internal/testing/engines"
	"cellserver/internal/testing/fuzz"
)

// A server whose keys are in an engine answers as the model does. The scripts are those of the server whose keys are in memory: "save"
// and "sweep" mean nothing, and a restart loses nothing and never sets the clock back.
func TestAnswersAsTheModelOverAnEngine(t *testing.T) {
	for _, version := range []engines.Version{engines.Valkey81, engines.Redis70} { // by IFEQ, and by WATCH
		t.Run(version.String(), func(t *testing.T) {
			n := engines.Standalone(t, version)
			var played atomic.Int64
			fuzz.Run(t, fuzz.Target{Draw: draw, Fixed: 60, Fresh: time.Second, Play: func(script []string) error {
				prefix := fmt.Sprintf("%d:", played.Add(1))
				return playOn(script, func(now int64) (*life, error) { return openEngine(n.Addr(), prefix, now) })
			}})
		})
	}
}

// openEngine begins a server over an engine, which decides at the time of the test.
func openEngine(addr, prefix string, now int64) (*life, error) {
	rules := cluster.Rules{Timeout: patience, RefusalCache: cluster.DefaultRefusalCache}
	store, err := cluster.New(cluster.Config{
		Addrs: []string{addr}, Prefix: prefix, Local: clock.New().Now, OwnTime: true, Slack: time.Hour,
	}, rules)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := store.Ready(ctx); err != nil {
		_ = store.Close()
		return nil, err
	}
	return beginOver(store, rules, now)
}
