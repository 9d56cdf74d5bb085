package buckets

import (
	"hash/maphash"
	"math/rand/v2"
	"sync/atomic"
)

// DefaultShards is the number of shards of a Store that is not told otherwise.
const DefaultShards = 256

// DefaultMaxLog is the number of records that a sliding log may have when nothing else is said.
const DefaultMaxLog = 1000000

// Store keeps buckets in memory, in 2^k shards. All its methods may be called at the same time.
//
// now is the caller's reading of the clock, in nanoseconds of Unix time. A shard decides at the later of now and the
// latest time it has decided at; what concerns several shards decides at the latest of them all.
//
// Locks are taken in the order of the shards' numbers, and no other lock is taken while one is held.
type Store struct {
	seed   maphash.Seed // per process: nobody outside can choose keys that meet in one shard
	shards []shard
	maxLog atomic.Int64
}

// NewStore makes a store of the given number of shards, rounded up to a power of two (DefaultShards if below 1).
func NewStore(shards int) *Store {
	if shards < 1 {
		shards = DefaultShards
	}
	n := 1
	for n < shards {
		n *= 2
	}
	s := &Store{seed: maphash.MakeSeed(), shards: make([]shard, n)}
	s.maxLog.Store(DefaultMaxLog)
	return s
}

// SetMaxLog sets how many records the log of one Slide key may have.
func (s *Store) SetMaxLog(records int64) { s.maxLog.Store(records) }

// MaxLog returns how many records the log of one Slide key may have.
func (s *Store) MaxLog() int64 { return s.maxLog.Load() }

func (s *Store) place(key []byte) int {
	return int(maphash.Bytes(s.seed, key) & uint64(len(s.shards)-1))
}

func (s *Store) shard(key []byte) *shard { return &s.shards[s.place(key)] }

// Take decides on quantity of limit l for key, and keeps what comes of it; with peek it only looks.
//
// Its errors are ErrWrongKind and ErrLogFull; nothing has changed then.
func (s *Store) Take(now int64, key []byte, l Limit, quantity int64, peek bool) (Decision, error) {
	sh := s.shard(key)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	return sh.take(key, l, sh.at(now), quantity, peek, int(s.maxLog.Load()))
}

// Stats counts what a Store holds and has done.
type Stats struct {
	Keys      int64  // stored, those among them that have expired and were not met since included
	Deadlines int64  // keys with an EXPIRE deadline
	Bytes     int64  // held by keys and their state
	Expired   uint64 // keys forgotten because their time had come
}

// Stats adds up the shards, one at a time.
func (s *Store) Stats() Stats {
	var sum Stats
	for i := range s.shards {
		sh := &s.shards[i]
		sh.mu.Lock()
		sum.Keys += int64(len(sh.table.entries))
		sum.Deadlines += int64(len(sh.table.deadlines))
		sum.Bytes += int64(sh.table.bytes)
		sum.Expired += sh.expired
		sh.mu.Unlock()
	}
	return sum
}

// Sweep forgets expired keys: in each shard it looks at up to perShard of them, going on where it left off.
func (s *Store) Sweep(now int64, perShard int) {
	for i := range s.shards {
		s.shards[i].sweep(now, perShard)
	}
}

func (s *shard) sweep(now int64, most int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now = s.at(now)
	for n := min(most, len(s.table.entries)); n > 0; n-- {
		if s.hand <= 0 || s.hand > len(s.table.entries) {
			s.hand = len(s.table.entries)
		}
		s.hand--
		if s.hand >= 0 {
			s.forget(s.hand, now)
		}
	}
}

// Flush forgets every key, all at once.
func (s *Store) Flush() {
	for i := range s.shards {
		s.shards[i].mu.Lock()
	}
	for i := range s.shards {
		s.shards[i].table = table{}
	}
	for i := range s.shards {
		s.shards[i].mu.Unlock()
	}
}

// Len returns the number of keys that have not expired.
func (s *Store) Len(now int64) int64 {
	var live int64
	for i := range s.shards {
		live += s.shards[i].count(now)
	}
	return live
}

func (s *shard) count(now int64) (live int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now = s.at(now)
	for i := range s.table.entries {
		if s.expiry(i) > now {
			live++
		}
	}
	return live
}

// RandomKey appends a key that has not expired to dst, or reports that there is none.
func (s *Store) RandomKey(now int64, dst []byte) ([]byte, bool) {
	first := rand.IntN(len(s.shards))
	for n := range s.shards {
		sh := &s.shards[(first+n)&(len(s.shards)-1)]
		if key, ok := sh.random(now, dst); ok {
			return key, true
		}
	}
	return dst, false
}

func (s *shard) random(now int64, dst []byte) ([]byte, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now = s.at(now)
	for len(s.table.entries) > 0 {
		i := rand.IntN(len(s.table.entries))
		if !s.forget(i, now) {
			return append(dst, s.table.entries[i].key...), true
		}
	}
	return dst, false
}
