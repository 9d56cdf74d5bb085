package cluster

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"cellserver/buckets"
	"cellserver/internal/ratelog"
)

// Config is what cannot change while a store lives.
type Config struct {
	Addrs    []string // host:port of servers; one of them is enough of a cluster
	Sentinel string   // the name of the master; Addrs are then of sentinels. "" is no Sentinel
	Cluster  bool     // Addrs are of a cluster. If it is not set, the first server that answers says whether it is one

	Username, Password                 string
	SentinelUsername, SentinelPassword string
	// Credentials returns the user and the password for a new connection to the engine, instead of Username and Password. It may read a
	// file, and may be called by several goroutines at once; its error is why there is no connection. It may be nil.
	Credentials func() (username, password string, err error)
	TLS         *tls.Config // nil is plain TCP

	Prefix string // comes before every key in the engine
	Log    *slog.Logger
	// Local is the clock of this process: nanoseconds of Unix time that never go back. Timeouts are measured by it.
	Local func() int64
	// OwnTime has requests decided at exactly the times that callers give, whatever the clocks of the engine say. It is for
	// tests, whose time is not the engine's.
	OwnTime bool
	// Slack is how much longer than needed the engine keeps a key.
	Slack time.Duration
	// Watch has keys changed by WATCH even if the engine has IFEQ. It is for tests and comparisons.
	Watch bool

	window int // how many batches may be under way to one server; 0 has its distance say. It is for benchmarks
}

// Rules are what may change while a store lives.
type Rules struct {
	Timeout      time.Duration // the longest that an Apply may take, with everything that is tried again; 0 is DefaultTimeout
	RefusalCache time.Duration // how long a state that was seen is good for refusing; 0 has the engine confirm every answer
	Failure      Failure       // what limit requests answer when the engine does not
	MinReplicas  int           // how many replicas must confirm a change
	MaxLog       int           // records in the sliding log of one key; 0 is DefaultMaxLog
	CacheBytes   int64         // memory for what was seen of keys; 0 is DefaultCacheBytes
}

// The defaults of Rules.
const (
	DefaultTimeout      = 50 * time.Millisecond
	DefaultRefusalCache = 100 * time.Millisecond
	DefaultMaxLog       = 1000000
	DefaultCacheBytes   = 64 << 20
)

// Failure says what OpTake and OpTakeAll answer when the engine does not do its part.
type Failure uint8

// The answers to a failure.
const (
	FailError  Failure = iota // the error
	FailAdmit                 // what a full bucket answers
	FailRefuse                // a refusal, to be tried again after a second
)

// mode is how a swap changes the key.
type mode uint8

const (
	read    mode = iota // GET
	create              // SET NX GET: only a key that does not exist
	replace             // SET IFEQ GET: only the value that was seen
)

// swap is one compare-and-set or read of one key in the engine, and its outcome.
type swap struct {
	key      []byte // with the prefix
	slot     uint16
	mode     mode
	old, new []byte
	ttl      int64 // milliseconds; 0 is for ever

	won   bool   // the value was set
	found bool   // the key has held a value: the one before, if it was set
	value []byte // that value
	err   error  // the engine has done nothing, or, with buckets.Unavailable.Unknown, may have
}

// counters are those of RemoteStats.
type counters struct {
	roundTrips, commands, decisions, conflicts, local atomic.Uint64
	failures, timeouts, admitted, refused             atomic.Uint64
	changes                                           atomic.Uint64
}

// Store keeps the states of keys in an engine: a Valkey or Redis server, or a cluster of them. It is a buckets.Store.
type Store struct {
	config   Config
	rules    atomic.Pointer[Rules] // with the defaults filled in
	engine   *engine
	keys     *keySpace
	table    *table
	calls    [callLists]callList
	turn     atomic.Uint32 // for the lists of calls
	count    counters
	together together         // operations on several keys
	failures *ratelog.Warning // requests that were admitted or refused because of a failure
	pool     struct{ calls, outcomes sync.Pool }

	mu      sync.Mutex
	paths   map[*hotPath]struct{} // that run
	parked  []*line               // that no server has taken, or which wait a little
	scratch []*hotPath            // of the watchdog
	closed  bool
	lost    atomic.Int64   // requests that wait for what has no server
	group   sync.WaitGroup // the goroutines of the store
	ended   chan struct{}  // closed when the store is
	ruled   chan struct{}  // tells the watchdog of new rules
}

// New returns a store. It connects in the background and until it is closed, whatever becomes of the engine; see Ready. The
// error is about what is wrong with c.
func New(c Config, r Rules) (*Store, error) {
	switch {
	case len(c.Addrs) == 0:
		return nil, errors.New("the store has no address")
	case c.Sentinel != "" && c.Cluster:
		return nil, errors.New("the store is either a cluster or found by Sentinel")
	case c.Local == nil:
		return nil, errors.New("the store has no clock")
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	s := &Store{config: c, table: newTable(), paths: make(map[*hotPath]struct{}), ended: make(chan struct{}), ruled: make(chan struct{}, 1)}
	s.failures = ratelog.New(c.Log, "the engine has failed, and requests were answered without it", "requests")
	s.pool.calls.New = func() any {
		return &call{done: make(chan struct{}, 1), list: &s.calls[s.turn.Add(1)%callLists]}
	}
	s.pool.outcomes.New = func() any { return &outcomes{} }
	s.SetRules(r)
	s.engine = newEngine(&s.config, events{changed: s.changed, left: func(n *node) { n.hot.stop() }})
	s.keys = newKeySpace(s.engine, c.Prefix, c.Local, s.Apply, s.forgetAll)
	s.group.Go(s.watchdog)
	return s, nil
}

// SetRules changes the rules.
func (s *Store) SetRules(r Rules) {
	if r.Timeout <= 0 {
		r.Timeout = DefaultTimeout
	}
	if r.MaxLog <= 0 {
		r.MaxLog = DefaultMaxLog
	}
	if r.CacheBytes <= 0 {
		r.CacheBytes = DefaultCacheBytes
	}
	s.rules.Store(&r)
	select {
	case s.ruled <- struct{}{}:
	default:
	}
}

// errStoreClosed is the error of operations on a store that is closed.
var errStoreClosed = &buckets.Unavailable{Reason: "the store is closed"}

// Close ends the connections. The operations that wait fail.
func (s *Store) Close() error {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return nil
	}
	s.closed = true
	close(s.ended)
	for p := range s.paths {
		p.stop()
	}
	s.mu.Unlock()
	s.engine.close()
	s.group.Wait()
	s.expire(math.MaxInt64, errStoreClosed)
	s.failures.Close()
	return nil
}

// Now returns the time of the engine, in nanoseconds of Unix time.
func (s *Store) Now() int64 { return s.engine.now() }

// Ready waits until requests can be decided. When ctx ends before that, the error says why they cannot.
func (s *Store) Ready(ctx context.Context) error {
	ticker := time.NewTicker(5 * time.Millisecond)
	defer ticker.Stop()
	for !s.engine.ready() {
		select {
		case <-ctx.Done():
			if why := s.engine.why(); why != "" {
				return fmt.Errorf("%s: %w", why, ctx.Err())
			}
			return ctx.Err()
		case <-s.ended:
			return errStoreClosed
		case <-ticker.C:
		}
	}
	return nil
}

// Stats returns the counters of the store. Those of keys are unknown to it: see Len.
func (s *Store) Stats() buckets.Stats {
	return buckets.Stats{Bytes: s.table.bytes.Load(), Changes: s.count.changes.Load()}
}

// Remote returns what the store has counted and measured.
func (s *Store) Remote() buckets.RemoteStats {
	c := &s.count
	r := buckets.RemoteStats{
		Engine: s.engine.name(), Topology: s.engine.topology(),
		RoundTrips: c.roundTrips.Load(), Commands: c.commands.Load(), Decisions: c.decisions.Load(), Conflicts: c.conflicts.Load(),
		Local: c.local.Load(), Known: s.table.known.Load(),
		Failures: c.failures.Load(), Timeouts: c.timeouts.Load(), Admitted: c.admitted.Load(), Refused: c.refused.Load(),
	}
	if ifeq, known := s.engine.hasIFEQ(); known {
		r.Mechanism = "ifeq"
		if !ifeq || s.config.Watch {
			r.Mechanism = "watch"
		}
	}
	for _, n := range s.engine.masters() {
		r.Nodes++
		if n.away() {
			r.Away++
		}
	}
	r.ClockOffset, r.ClockBound = s.engine.offset()
	return r
}

// adopt starts the goroutine of a path. It reports false if the store is closed.
func (s *Store) adopt(p *hotPath, run func()) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return false
	}
	s.paths[p] = struct{}{}
	s.group.Go(run)
	return true
}

// disown forgets a path that has ended.
func (s *Store) disown(p *hotPath) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.paths, p)
}

// changed sends what has found no server before.
func (s *Store) changed() {
	s.mu.Lock()
	lines := s.parked
	s.parked = nil
	for p := range s.paths {
		p.nudge()
	}
	s.mu.Unlock()
	s.dispatch(lines)
}

// dispatch sends lines that are queued to the servers that have their slots.
func (s *Store) dispatch(lines []*line) {
	for len(lines) > 0 {
		n := s.engine.node(lines[0].slot)
		together := 1
		for together < len(lines) && n == s.engine.node(lines[together].slot) {
			together++
		}
		if n == nil || !n.hot.submit(s, n, lines[:together]) {
			s.park(lines[:together])
		}
		lines = lines[together:]
	}
}

// park keeps lines that are queued until the watchdog sends them.
func (s *Store) park(lines []*line) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.parked = append(s.parked, lines...)
}

// learn notes what another part of the store has set a key of the engine to. An empty value is no key. sent is when the command was
// sent, of Local: if the key was seen since, it is unknown which of the two is older.
func (s *Store) learn(engineKey, value []byte, sent int64) {
	hash, sh := s.table.shard(engineKey)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	l := sh.find(hash, engineKey)
	switch {
	case l == nil:
	case l.place != idle:
		l.overtaken = true
	case l.known && l.seen >= sent:
		l.lose()
	default:
		now := s.config.Local()
		l.see(len(value) > 0, value, s.engine.now(), now, int64(s.config.Slack))
		s.table.weigh(l)
	}
}

// forget forgets what a key of the engine holds: it has changed, or may have.
func (s *Store) forget(engineKey []byte) {
	hash, sh := s.table.shard(engineKey)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	l := sh.find(hash, engineKey)
	switch {
	case l == nil:
	case l.place != idle:
		l.overtaken = true // what was seen is what the command under way compares with
	default:
		l.lose()
	}
}

// forgetAll forgets what all keys hold.
func (s *Store) forgetAll() {
	for i := range s.table.shards {
		sh := &s.table.shards[i]
		sh.mu.Lock()
		for l := sh.recent.newer; l != &sh.recent; l = sh.recent.newer {
			s.table.drop(sh, l)
		}
		for _, l := range sh.lines { // those for which requests wait
			for ; l != nil; l = l.next {
				l.overtaken = true
			}
		}
		sh.mu.Unlock()
	}
}

// engineKey appends the key as the engine has it.
func (s *Store) engineKey(dst, key []byte) []byte {
	return append(append(dst, s.config.Prefix...), key...)
}

// ttl returns for how many milliseconds the engine is to keep a record from now on; 0 is for ever. It requires that the
// record lives.
func (s *Store) ttl(r *record, now int64) int64 {
	expiry := r.expiry()
	if expiry == buckets.NoExpiry {
		return 0
	}
	const millisecond = int64(time.Millisecond)
	return buckets.CeilDiv(expiry-now, millisecond) + buckets.CeilDiv(int64(s.config.Slack), millisecond)
}
