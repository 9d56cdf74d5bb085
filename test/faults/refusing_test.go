package faults

import (
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"cellserver/buckets"
	"cellserver/buckets/cluster"
	"cellserver/internal/testing/engines"
)

// requireReason waits until a request fails, and its error has a text.
func requireReason(t testing.TB, s *cluster.Store, key, text string) {
	t.Helper()
	requireReasonOf(t, s, key, 1, text)
}

func requireReasonOf(t testing.TB, s *cluster.Store, key string, quantity int64, text string) {
	t.Helper()
	var last said
	require.Eventually(t, func() bool {
		var away *buckets.Unavailable
		return errors.As(last.is(take(s, key, window(1e12), quantity).Err), &away) && strings.Contains(away.Reason, text)
	}, within, soon, "%v", &last)
}

// The engine answers, and refuses: requests say why, and succeed as soon as it accepts them.
func TestEngineRefuses(t *testing.T) {
	for _, version := range engines.Versions() {
		t.Run(version.String(), func(t *testing.T) { engineRefuses(t, version) })
	}
}

func engineRefuses(t *testing.T, version engines.Version) {
	server := engines.Standalone(t, version)
	client, ctx := server.Client(), t.Context()
	do := func(args ...any) { t.Helper(); require.NoError(t, client.Do(ctx, args...).Err()) }
	do("ACL", "SETUSER", "limits", "on", ">secret", "~*", "+@all")
	var password atomic.Value
	password.Store("secret")
	s, log := open(t, cluster.Config{Addrs: []string{server.Addr()}, Credentials: func() (string, string, error) {
		return "limits", password.Load().(string), nil
	}}, cluster.Rules{Timeout: 100 * time.Millisecond})
	require.NoError(t, take(s, "key", window(1e12), 1).Err)

	t.Run("no memory", func(t *testing.T) {
		do("CONFIG", "SET", "maxmemory", "1")
		requireReason(t, s, "key", "OOM")
		assert.NoError(t, take(s, "key", window(1e12), 0).Err, "reading needs none")
		do("CONFIG", "SET", "maxmemory", "0")
		requireDecides(t, s, "key")
		assert.EqualValues(t, 1, used(t, s, "key", window(1e12)), "what was refused has changed nothing")
	})
	t.Run("a replica", func(t *testing.T) {
		do("REPLICAOF", "127.0.0.1", "1")
		requireReason(t, s, "key", "READONLY")
		do("REPLICAOF", "NO", "ONE")
		require.Eventually(t, func() bool { return take(s, "key", window(1e12), 1).Err == nil }, within, soon)
	})
	t.Run("a replica that does not serve", func(t *testing.T) {
		do("CONFIG", "SET", "replica-serve-stale-data", "no")
		do("REPLICAOF", "127.0.0.1", "1")
		requireReasonOf(t, s, "key", 0, "MASTERDOWN")
		do("REPLICAOF", "NO", "ONE")
		require.Eventually(t, func() bool { return take(s, "key", window(1e12), 1).Err == nil }, within, soon)
	})
	t.Run("no permission", func(t *testing.T) {
		do("ACL", "SETUSER", "limits", "-set")
		requireReason(t, s, "key", "NOPERM")
		do("ACL", "SETUSER", "limits", "+set", "resetkeys", "~other:*")
		requireReason(t, s, "key", "NOPERM")
		do("ACL", "SETUSER", "limits", "~*")
		require.Eventually(t, func() bool { return take(s, "key", window(1e12), 1).Err == nil }, within, soon)
	})
	t.Run("another password", func(t *testing.T) {
		before := log.count("WRONGPASS")
		do("ACL", "SETUSER", "limits", "resetpass", ">xyzzy")
		do("CLIENT", "KILL", "USER", "limits")
		requireReason(t, s, "key", "WRONGPASS")
		require.Never(t, func() bool { return log.count("WRONGPASS") > before+1 }, time.Second, 10*soon, "%s", log)
		password.Store("xyzzy") // as a file that was written anew
		require.Eventually(t, func() bool { return take(s, "key", window(1e12), 1).Err == nil }, within, soon)
		assert.NotContains(t, log.String(), "xyzzy")
		assert.NotContains(t, log.String(), "secret")
	})
	t.Run("nobody", func(t *testing.T) {
		other, log := start(t, cluster.Config{Addrs: []string{server.Addr()}, Username: "limits", Password: "plugh"}, cluster.Rules{})
		requireReason(t, other, "key", "WRONGPASS")
		assert.NotContains(t, fmt.Sprint(take(other, "key", window(1), 1).Err), "plugh")
		assert.NotContains(t, log.String(), "plugh")
	})
	require.Eventually(t, func() bool { return s.Remote().Away == 0 }, within, soon)
	assert.Less(t, strings.Count(log.String(), "\n"), 30, "%s", log)
	t.Logf("%s", log)
}

// A server that reads its data from disk refuses until it has.
func TestEngineLoads(t *testing.T) {
	// A thousand keys take a second, in which the server looks at its connections after every kilobyte.
	server := engines.Standalone(t, engines.Valkey81, engines.Args("--key-load-delay", "1000", "--loading-process-events-interval-bytes", "1024"))
	s, _ := open(t, at(server.Addr()), cluster.Rules{Timeout: 200 * time.Millisecond})
	l := window(1e12)
	for i := range 1000 {
		key := fmt.Sprint("key ", i)
		require.Eventually(t, func() bool { return take(s, key, l, 1).Err == nil }, within, soon)
	}
	require.NoError(t, server.Client().Save(t.Context()).Err())
	server.Kill()
	done := make(chan struct{})
	go func() { server.Start(); close(done) }()
	requireReason(t, s, "key 99", "LOADING")
	<-done
	requireDecides(t, s, "key 99")
	assert.EqualValues(t, 1, used(t, s, "key 99", l), "what was on disk is there")
}

// Failures are answered as the rules say, whatever the failure is; they are counted, and logged once a second at most.
func TestFailureRules(t *testing.T) {
	server := engines.Standalone(t, engines.Valkey81)
	proxy := engines.StartProxy(t, server.Addr())
	const timeout = 40 * time.Millisecond
	faults := map[string]struct{ begin, end func() }{
		"down": {proxy.Cut, proxy.Pass},
		"hung": {proxy.Hang, proxy.Pass},
		"late": {func() { proxy.Delay(0, 200*time.Millisecond) }, func() { proxy.Delay(0, 0) }},
	}
	for name, fault := range faults {
		t.Run(name, func(t *testing.T) {
			s, log := open(t, at(proxy.Addr()), cluster.Rules{Timeout: timeout})
			all := limits(10)
			for kind, l := range all {
				require.Eventually(t, func() bool { return take(s, kind, l, 8).Err == nil }, within, soon)
			}
			fault.begin()
			const each = 7
			lag, began := measureLag(t), time.Now()
			y := newTally()
			// answer returns how many requests were answered as failures are. A machine that is busy enough may see the
			// reply of a late server before it sees that the time is up.
			answer := func(f cluster.Failure, isFailure func(op *buckets.Op) bool) (n int) {
				s.SetRules(cluster.Rules{Timeout: timeout, Failure: f})
				for range each {
					for kind, l := range all {
						if op := y.take(s, kind, l); isFailure(&op) {
							n++
						}
					}
				}
				assert.GreaterOrEqual(t, n, 3*each*8/10)
				return n
			}
			before := s.Remote()
			failed := answer(cluster.FailError, func(op *buckets.Op) bool {
				var away *buckets.Unavailable
				return errors.As(op.Err, &away)
			})
			// As a full bucket answers, though 8 of 10 are taken.
			admitted := answer(cluster.FailAdmit, func(op *buckets.Op) bool {
				return op.Err == nil && !op.Decision.Limited && op.Decision.Remaining == 9
			})
			refused := answer(cluster.FailRefuse, func(op *buckets.Op) bool {
				return op.Err == nil && op.Decision.Limited && op.Decision.Remaining == 0 && op.Decision.RetryAfter == int64(time.Second)
			})
			op := take(s, "window", all["window"], 11)
			assert.EqualValues(t, buckets.Never, op.Decision.RetryAfter, "more than the limit")
			assert.NoError(t, op.Err)
			op = take(s, "window", all["window"], 0)
			assert.False(t, op.Decision.Limited, "nothing is always admitted")
			var away *buckets.Unavailable
			assert.ErrorAs(t, increment(s, "counter"), &away, "no limit decides on a counter")
			after := s.Remote()
			assert.EqualValues(t, failed+admitted+refused+3, after.Failures-before.Failures)
			assert.EqualValues(t, admitted, after.Admitted-before.Admitted)
			assert.EqualValues(t, refused+2, after.Refused-before.Refused)
			y.check(t, timeout, lag)
			lines := log.count("requests were answered without it")
			assert.Positive(t, lines)
			assert.LessOrEqual(t, lines, 2+int(time.Since(began)/time.Second), "%s", log)

			fault.end()
			require.Eventually(t, func() bool { n := s.Remote().Failures; take(s, "probe", window(5), 0); return s.Remote().Failures == n }, within, soon)
			s.SetRules(cluster.Rules{Timeout: 5 * time.Second})
			for kind, l := range all {
				op := take(s, kind, l, 1)
				require.NoError(t, op.Err)
				assert.LessOrEqual(t, op.Decision.Remaining, int64(1), "%s: what was taken before is", kind)
			}
		})
	}
}

// A master that sentinels watch is killed: the store follows, by WATCH as well.
func TestSentinelFailover(t *testing.T) {
	e := engines.StartSentinels(t, engines.Redis70)
	rules := cluster.Rules{Timeout: 500 * time.Millisecond}
	stores := openSeveral(t, 2, cluster.Config{Addrs: e.Addrs(), Sentinel: engines.MasterName}, rules)
	l, lag, y := window(1e12), measureLag(t), newTally()
	load := call(t, 8, func(i int) {
		if i%2 == 0 {
			y.take(stores[i%len(stores)], fmt.Sprint("key ", i), l)
		} else {
			_ = y.increment(stores[i%len(stores)], "counter")
		}
	})
	require.Eventually(t, func() bool { return y.decided() > 200 }, within, soon)
	killed := e.KillMaster()
	at := time.Now()
	require.NotEqual(t, killed.Addr(), e.Master().Addr())
	failover := time.Since(at)
	for _, s := range stores {
		requireDecides(t, s, "key 0")
		took := time.Since(at)
		t.Logf("the engine was away for %v, the store for %v", failover, took)
		assert.Less(t, took-failover, 1500*time.Millisecond+4*lag.most())
	}
	end := y.decided() + 200
	require.Eventually(t, func() bool { return y.decided() > end }, within, soon)
	load.stop()
	y.check(t, rules.Timeout, lag)
	n := value(t, stores[0], "counter")
	assert.LessOrEqual(t, n, y.got("counter")+y.doubtful("counter"), "nothing is counted twice")
	t.Logf("of %d increments %d are lost, or less; %v", y.got("counter"), y.got("counter")-n, y.errors())
}
