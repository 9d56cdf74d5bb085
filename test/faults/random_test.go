package faults

import (
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"cellserver/buckets"
	"cellserver/buckets/cluster"
	"cellserver/internal/testing/engines"
)

// chaos is stores whose cluster fails, callers that use them, and what must hold all the time.
type chaos struct {
	t      *testing.T
	c      *engines.Cluster
	rules  cluster.Rules
	stores [3]atomic.Pointer[cluster.Store]
	rand   *rand.Rand // of the faults, not of the load

	gate   sync.RWMutex // callers hold it while a request is under way
	y      *tally
	epoch  atomic.Int64 // the keys with limits are new after each
	limits map[string]*buckets.Limit
	wide   *buckets.Limit
	epochs int64 // that were checked
}

const (
	chaosPrefix   = "chaos:"
	chaosLimit    = 20
	chaosKeys     = 8 // of each kind, and counters
	chaosAccounts = 3 // pairs of keys that are taken from together
)

// start opens a store in a place.
func (x *chaos) start(i int) {
	s, err := cluster.New(cluster.Config{Addrs: x.c.Addrs(), Prefix: chaosPrefix, Local: local}, x.rules)
	require.NoError(x.t, err)
	x.stores[i].Store(s)
}

func (x *chaos) names(epoch int64) (names []string) {
	for kind := range x.limits {
		for i := range chaosKeys {
			names = append(names, fmt.Sprint(epoch, " ", kind, " ", i))
		}
	}
	return names
}

func counter(i int) string { return fmt.Sprint("counter ", i) }

func account(i int) (a, b string) { return fmt.Sprintf("{%d}a", i), fmt.Sprintf("{%d}b", i) }

// request makes a random request.
func (x *chaos) request(int) {
	x.gate.RLock()
	defer x.gate.RUnlock()
	s := x.stores[rand.IntN(len(x.stores))].Load()
	switch n := rand.IntN(chaosKeys); rand.IntN(5) {
	case 0, 1:
		_ = x.y.increment(s, counter(n))
	case 2:
		a, b := account(n % chaosAccounts)
		from := time.Now()
		op := apply(s, buckets.Op{Code: buckets.OpTakeAll, Answers: make([]buckets.Decision, 2), Checks: []buckets.Check{
			{Key: []byte(a), Limit: *x.wide, Quantity: 1}, {Key: []byte(b), Limit: *x.wide, Quantity: 1}}})
		x.y.note(a, op.Which > 0, op.Err, time.Since(from))
	default:
		kinds := [...]string{"throttle", "window", "slide"}
		kind := kinds[rand.IntN(len(kinds))]
		x.y.take(s, fmt.Sprint(x.epoch.Load(), " ", kind, " ", n), x.limits[kind])
	}
}

// check waits until every store decides, stops the load, and checks what must hold.
func (x *chaos) check() {
	t := x.t
	t.Helper()
	x.c.WaitOK()
	for i := range x.stores {
		for n := range chaosKeys {
			var last said
			s := x.stores[i].Load()
			require.Eventually(t, func() bool {
				return last.is(apply(s, buckets.Op{Code: buckets.OpGet, Key: []byte(counter(n))}).Err) == nil
			}, within, soon, "%v", &last)
		}
	}
	x.gate.Lock()
	defer x.gate.Unlock()
	s := x.stores[0].Load()
	number := func(key string) (n int64) {
		var last said
		require.Eventually(t, func() bool {
			op := apply(s, buckets.Op{Code: buckets.OpGet, Key: []byte(key)})
			n = max(op.Contents.Field("value"), op.Contents.Field("used"))
			return last.is(op.Err) == nil
		}, within, soon, "%v", &last)
		return n
	}
	for i := range chaosKeys {
		n, got, doubtful := number(counter(i)), x.y.got(counter(i)), x.y.doubtful(counter(i))
		require.GreaterOrEqual(t, n, got, "%s: what was acknowledged is lost", counter(i))
		require.LessOrEqual(t, n, got+doubtful, "%s: something is counted twice", counter(i))
	}
	for i := range chaosAccounts {
		a, b := account(i)
		n, got, doubtful := number(a), x.y.got(a), x.y.doubtful(a)
		require.Equal(t, n, number(b), "all or nothing is taken")
		require.GreaterOrEqual(t, n, got, "%s: what was acknowledged is lost", a)
		require.LessOrEqual(t, n, got+doubtful, "%s: something is taken twice", a)
	}
	exhausted := true
	epoch := x.epoch.Load()
	for _, key := range x.names(epoch) {
		got := x.y.got(key)
		require.LessOrEqual(t, got, int64(chaosLimit), "%s: too much is admitted", key)
		exhausted = exhausted && x.y.refused[key] > 0
		if x.y.refused[key] > 0 {
			require.GreaterOrEqual(t, got+x.y.doubtful(key), int64(chaosLimit), "%s: too much is refused", key)
		}
	}
	if exhausted {
		x.epoch.Add(1)
		x.epochs++
	}
	require.Empty(t, x.y.strange)
}

// lasts waits for as long as a fault lasts.
func (x *chaos) lasts(least, most time.Duration) {
	timer := time.NewTimer(least + x.upTo(most-least))
	<-timer.C
}

func (x *chaos) upTo(d time.Duration) time.Duration { return time.Duration(x.rand.Int64N(int64(d))) }

func (x *chaos) key() string { return chaosPrefix + counter(x.rand.IntN(chaosKeys)) }

func (x *chaos) node() *engines.Node { return x.c.Master(x.key()) }

// migrate moves a slot with keys that are in use, in steps.
func (x *chaos) migrate() {
	a, _ := account(x.rand.IntN(chaosAccounts))
	slot := x.c.Slot(chaosPrefix + a)
	from := x.c.Master(chaosPrefix + a)
	for to := from; ; to = x.node() {
		if to.Addr() == from.Addr() {
			continue
		}
		m := x.c.BeginMigration(slot, to)
		x.lasts(0, 100*time.Millisecond)
		m.Step(1)
		x.lasts(0, 100*time.Millisecond)
		m.Finish()
		// The replica of the new owner has what was moved, before that may be killed.
		conn := to.Client().Conn()
		defer conn.Close()
		require.NoError(x.t, conn.Set(x.t.Context(), "{"+a[1:2]+"}moved", "x", time.Minute).Err())
		replicas, err := conn.Wait(x.t.Context(), 1, within).Result()
		require.NoError(x.t, err)
		require.EqualValues(x.t, 1, replicas)
		return
	}
}

func (x *chaos) restart() {
	i := x.rand.IntN(len(x.stores))
	old := x.stores[i].Load()
	x.start(i)
	require.NoError(x.t, old.Close())
}

// faults are what may happen, by name.
func (x *chaos) faults() map[string]func() {
	const ms = time.Millisecond
	return map[string]func(){
		"kill": func() {
			key := x.key()
			killed := x.c.KillMaster(key)
			x.c.Master(key)
			killed.Start()
		},
		"pause":       func() { n := x.node(); n.Pause(); x.lasts(50*ms, 800*ms); n.Resume() },
		"pause, long": func() { n := x.node(); n.Pause(); x.lasts(1500*ms, 4000*ms); n.Resume() },
		"delay": func() {
			p := x.node().Proxy()
			p.Delay(x.upTo(100*ms), x.upTo(300*ms))
			x.lasts(100*ms, 1500*ms)
			p.Delay(0, 0)
		},
		"cut":     func() { p := x.node().Proxy(); p.Cut(); x.lasts(10*ms, 1000*ms); p.Pass() },
		"hang":    func() { p := x.node().Proxy(); p.Hang(); x.lasts(50*ms, 3000*ms); p.Pass() },
		"migrate": x.migrate,
		"restart": x.restart,
		"new wire": func() {
			require.NoError(x.t, x.node().Client().Do(x.t.Context(), "CLIENT", "KILL", "TYPE", "normal").Err())
		},
	}
}

// The time of TestFaultsAtRandom, such as 10m, and its seed. The faults follow from the seed; what they meet does not.
const timeEnv, seedEnv = "CELLSERVER_FAULT_TIME", "CELLSERVER_FAULT_SEED"

// A cluster fails in all ways, at random, while stores decide and come and go: at no time is more admitted than the limits allow,
// anything that was acknowledged lost, counted twice, or half done; and after each fault the service returns by itself. Replicas confirm
// all changes, as without that a failover may lose some.
func TestFaultsAtRandom(t *testing.T) {
	long, err := time.ParseDuration(os.Getenv(timeEnv))
	if err != nil {
		long = 10 * time.Second
	}
	seed, err := strconv.ParseUint(os.Getenv(seedEnv), 10, 64)
	if err != nil {
		seed = rand.Uint64()
	}
	t.Logf("%s=%d", seedEnv, seed)
	x := &chaos{t: t, c: engines.StartCluster(t, engines.Valkey91, engines.WithProxies()), rand: rand.New(rand.NewPCG(seed, 0)),
		rules: cluster.Rules{Timeout: 500 * time.Millisecond, MinReplicas: 1, RefusalCache: cluster.DefaultRefusalCache},
		y:     newTally(), limits: limits(chaosLimit), wide: window(1e12)}
	goroutines := runtime.NumGoroutine()
	for i := range x.stores {
		x.start(i)
	}
	closeAll := sync.OnceFunc(func() {
		for i := range x.stores {
			assert.NoError(t, x.stores[i].Load().Close())
		}
	})
	defer closeAll()
	x.check()
	lag := measureLag(t)
	load := call(t, 12, x.request)
	all := x.faults()
	names := []string{"kill", "pause", "pause, long", "delay", "cut", "hang", "migrate", "restart", "new wire"}
	aside := []string{"delay", "restart", "new wire"} // which go with any other
	happened := make(map[string]int)
	for end := time.Now().Add(long); time.Now().Before(end); {
		name := names[x.rand.IntN(len(names))]
		happened[name]++
		if soak() {
			t.Logf("%v: %s; %d requests so far, %d rounds of limits", time.Now().Format(time.TimeOnly), name, x.y.total.Load(), x.epochs)
		}
		if x.rand.IntN(2) == 0 {
			also := aside[x.rand.IntN(len(aside))]
			happened[also]++
			all[also]()
		}
		all[name]()
		x.check()
	}
	load.stop()
	x.check()
	x.y.check(t, x.rules.Timeout, lag)
	closeAll()
	require.Eventually(t, func() bool { return runtime.NumGoroutine() <= goroutines+20 }, within, soon, "%d before", goroutines)
	t.Logf("%v", happened)
	t.Logf("%d requests, %d decisions, %d rounds of limits, the longest took %v: %v", x.y.total.Load(), x.y.decided(), x.epochs, x.y.slowest, x.y.errors())
}
