// Package faults tests buckets/cluster from outside while its engine fails: real servers are killed, halted, delayed and cut off,
// slots migrate, replicas take over, and replies are garbled.
package faults

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"cellserver/buckets"
	"cellserver/buckets/cluster"
	"cellserver/internal/testing/engines"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(engines.Main(m)) }

// within bounds every wait for an engine, and soon is how often it is looked at.
const within, soon = 30 * time.Second, 5 * time.Millisecond

const hour = int64(time.Hour)

// soak reports whether the long versions of the tests are asked for.
func soak() bool { return os.Getenv("CELLSERVER_SOAK") == "1" }

var began = time.Now()

// local is a clock that does not go back.
func local() int64 { return began.UnixNano() + int64(time.Since(began)) }

// logbook keeps what is logged.
type logbook struct {
	mu  sync.Mutex
	out strings.Builder
}

func (b *logbook) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.out.Write(p)
}

func (b *logbook) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.out.String()
}

// count returns how many lines of the log have a text.
func (b *logbook) count(text string) (n int) {
	for line := range strings.Lines(b.String()) {
		if strings.Contains(line, text) {
			n++
		}
	}
	return n
}

// start returns a store that is closed with the test. What c leaves out has a usual value; the stores of one test have one prefix. It
// does not wait for the engine.
func start(t testing.TB, c cluster.Config, r cluster.Rules) (*cluster.Store, *logbook) {
	t.Helper()
	log := new(logbook)
	c.Local = local
	if c.Log == nil {
		c.Log = slog.New(slog.NewTextHandler(log, nil))
	}
	if c.Prefix == "" {
		c.Prefix = t.Name() + ":"
	}
	s, err := cluster.New(c, r)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, s.Close()) })
	return s, log
}

// open is start, and waits until the engine is ready.
func open(t testing.TB, c cluster.Config, r cluster.Rules) (*cluster.Store, *logbook) {
	t.Helper()
	s, log := start(t, c, r)
	awaitReady(t, s)
	return s, log
}

func awaitReady(t testing.TB, s *cluster.Store) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), within)
	defer cancel()
	require.NoError(t, s.Ready(ctx))
}

func at(addrs ...string) cluster.Config { return cluster.Config{Addrs: addrs} }

func must(l buckets.Limit, err error) *buckets.Limit {
	if err != nil {
		panic(err)
	}
	return &l
}

// window returns a limit of n in an hour, which lasts as long as any test.
func window(n int64) *buckets.Limit { return must(buckets.NewWindow(n, hour)) }

// limits returns a limit of n in an hour of each kind, as good as without refill while a test runs.
func limits(n int64) map[string]*buckets.Limit {
	return map[string]*buckets.Limit{
		"throttle": must(buckets.NewThrottle(n-1, 1, hour)),
		"window":   window(n),
		"slide":    must(buckets.NewSlide(n, hour)),
	}
}

func apply(s *cluster.Store, op buckets.Op) buckets.Op {
	ops := [1]buckets.Op{op}
	s.Apply(context.Background(), s.Now(), ops[:])
	return ops[0]
}

func take(s *cluster.Store, key string, l *buckets.Limit, quantity int64) buckets.Op {
	return apply(s, buckets.Op{Code: buckets.OpTake, Key: []byte(key), Limit: l, Quantity: quantity})
}

// used returns how much of a window was taken.
func used(t testing.TB, s *cluster.Store, key string, l *buckets.Limit) int64 {
	t.Helper()
	op := apply(s, buckets.Op{Code: buckets.OpTake, Key: []byte(key), Limit: l, Quantity: 1, Peek: true})
	require.NoError(t, op.Err)
	return l.Max() - op.Decision.Remaining
}

// incr is an Updater that adds 1 to a counter that lasts.
type incr struct{}

func (incr) Update(_ int64, states []buckets.State) (bool, error) {
	switch st := &states[0]; st.Kind {
	case buckets.None:
		*st = buckets.Counted(1, buckets.NoExpiry)
	case buckets.Counter:
		st.Words[0]++
	default:
		return false, buckets.ErrWrongKind
	}
	return true, nil
}

func increment(s *cluster.Store, key string) error {
	return apply(s, buckets.Op{Code: buckets.OpUpdate, Keys: [][]byte{[]byte(key)}, Update: incr{}}).Err
}

// value returns the number that a counter has.
func value(t testing.TB, s *cluster.Store, key string) int64 {
	t.Helper()
	op := apply(s, buckets.Op{Code: buckets.OpGet, Key: []byte(key)})
	require.NoError(t, op.Err)
	return op.Contents.Field("value")
}

// requireDecides waits until a store decides on a key, and returns how long that has taken.
func requireDecides(t testing.TB, s *cluster.Store, key string) time.Duration {
	t.Helper()
	from := time.Now()
	var last said
	require.Eventually(t, func() bool { return last.is(take(s, key, window(1), 0).Err) == nil }, within, soon, "%s: %v", key, &last)
	return time.Since(from)
}

// said is the last error, for the message of a wait: the condition and the message are evaluated by different goroutines.
type said struct{ atomic.Value }

func (s *said) is(err error) error {
	s.Store(fmt.Sprint(err))
	return err
}

func (s *said) String() string { return fmt.Sprint(s.Load()) }

// lazy is a text that is asked for when it is shown.
type lazy func() string

func (l lazy) String() string { return l() }
