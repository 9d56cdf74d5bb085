package cluster

import (
	"crypto/tls"
	"log/slog"
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
	count    counters
	failures *ratelog.Warning // requests that were admitted or refused because of a failure
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
