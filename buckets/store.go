package buckets

import (
	"hash/maphash"
	"math/rand/v2"
	"sync/atomic"
)

// DefaultShards is the number of shards of a Store that is not told otherwise.
const DefaultShards = 1024

// DefaultMaxLog is the number of records that a sliding log may have when nothing else is said.
const DefaultMaxLog = 1000000

// Store keeps buckets in memory, in 2^k shards. All its methods may be called at the same time.
//
// now is the caller's reading of the clock, in nanoseconds of Unix time. A shard decides at the later of now and the
// latest time it has decided at; what concerns several shards decides at the latest of them all, and lifts each to it.
//
// The order of the locks: shards are locked in the order of their numbers, all that an operation needs before it looks
// at any of them, and no other lock is taken while one is held.
type Store struct {
	seed   maphash.Seed // per process: nobody outside can choose keys that meet in one shard
	shards []shard
	maxLog *atomic.Int64
	budget *budget
	held   bool // the shards that are asked for are locked already (Hold)
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
	s := &Store{seed: maphash.MakeSeed(), shards: make([]shard, n), maxLog: new(atomic.Int64), budget: new(budget)}
	for i := range s.shards {
		s.shards[i].budget = s.budget
	}
	s.maxLog.Store(DefaultMaxLog)
	return s
}

// SetMaxLog sets how many records the log of one Slide key may have.
func (s *Store) SetMaxLog(records int64) { s.maxLog.Store(records) }

// MaxLog returns how many records the log of one Slide key may have.
func (s *Store) MaxLog() int64 { return s.maxLog.Load() }

// locate returns the hash of key and the number of its shard.
func (s *Store) locate(key []byte) (hash uint64, shard int) {
	hash = maphash.Bytes(s.seed, key)
	return hash, int(hash & uint64(len(s.shards)-1))
}

// lock returns the shard of key, locked.
func (s *Store) lock(key []byte) (hash uint64, sh *shard) {
	hash, n := s.locate(key)
	return hash, s.enter(n)
}

// enter returns shard n, locked; leave unlocks it again.
func (s *Store) enter(n int) *shard {
	sh := &s.shards[n]
	if !s.held {
		sh.mu.Lock()
	} else if sh.mu.TryLock() {
		panic("a shard is used that Hold was not asked for")
	}
	return sh
}

func (s *Store) leave(sh *shard) {
	if !s.held {
		sh.mu.Unlock()
	}
}

// each visits the shards, locked one at a time.
func (s *Store) each(visit func(sh *shard)) {
	for n := range s.shards {
		s.visit(n, visit)
	}
}

func (s *Store) visit(n int, visit func(sh *shard)) {
	sh := s.enter(n)
	defer s.leave(sh)
	visit(sh)
}

// Take decides on quantity of limit l for key, and keeps what comes of it; with peek it only looks.
//
// Its errors are ErrWrongKind and ErrLogFull; nothing has changed then.
func (s *Store) Take(now int64, key []byte, l Limit, quantity int64, peek bool) (d Decision, err error) {
	hash, sh := s.lock(key)
	defer s.leave(sh)
	err = sh.take(hash, key, &l, sh.at(now), quantity, peek, int(s.maxLog.Load()), &d)
	return d, err
}

// Stats counts what a Store holds and has done.
type Stats struct {
	Keys      int64  // stored, those among them that have expired and were not met since included
	Deadlines int64  // keys with an EXPIRE deadline
	Bytes     int64  // held by keys, their state and their index
	Expired   uint64 // keys forgotten because their time had come

	Peak    int64  // the most Bytes there have been
	Limit   int64  // what Bytes may be; 0 is anything
	Evicts  bool   // whether buckets are forgotten to stay within Limit
	Evicted uint64 // keys forgotten to stay within Limit
}

// Stats adds up the shards, one at a time.
func (s *Store) Stats() Stats {
	var sum Stats
	s.each(func(sh *shard) {
		sum.Keys += int64(sh.table.count)
		sum.Deadlines += int64(len(sh.table.deadlines))
		sum.Expired += sh.expired
	})
	b := s.budget
	sum.Bytes, sum.Peak, sum.Limit = b.used.Load(), b.peak.Load(), b.limit.Load()
	sum.Evicts, sum.Evicted = b.evict.Load(), b.evicted.Load()
	return sum
}

// Sweep forgets expired keys: in each shard it looks at up to perShard slots, going on where it left off. It also brings
// the store back within its limit when that has been lowered.
func (s *Store) Sweep(now int64, perShard int) {
	s.each(func(sh *shard) {
		sh.sweep(now, perShard)
		sh.shrink(now)
	})
}

func (s *shard) sweep(now int64, most int) {
	now = s.at(now)
	for n := min(most, len(s.table.index)); n > 0 && len(s.table.index) > 0; n-- {
		s.hand &= len(s.table.index) - 1
		if s.table.index[s.hand] != 0 && s.expiry(s.hand, s.look(s.hand)) <= now {
			s.expire(s.hand) // and look at what stands there now
			continue
		}
		s.hand++
	}
}

// Flush forgets every key, all at once.
func (s *Store) Flush() {
	for i := range s.shards {
		s.enter(i)
	}
	for i := range s.shards {
		s.shards[i].flush()
	}
	for i := range s.shards {
		s.leave(&s.shards[i])
	}
}

// Len returns the number of keys that have not expired.
func (s *Store) Len(now int64) int64 {
	var live int64
	s.each(func(sh *shard) { live += sh.len(now) })
	return live
}

func (s *shard) len(now int64) (live int64) {
	now = s.at(now)
	for slot, content := range s.table.index {
		if content != 0 && s.expiry(slot, s.look(slot)) > now {
			live++
		}
	}
	return live
}

// RandomKey appends a key that has not expired to dst, or reports that there is none.
func (s *Store) RandomKey(now int64, dst []byte) ([]byte, bool) {
	first := rand.IntN(len(s.shards))
	for n := range s.shards {
		found := false
		s.visit((first+n)&(len(s.shards)-1), func(sh *shard) { dst, found = sh.random(now, dst) })
		if found {
			return dst, true
		}
	}
	return dst, false
}

func (s *shard) random(now int64, dst []byte) ([]byte, bool) {
	now = s.at(now)
	for s.table.count > 0 {
		slot := rand.IntN(len(s.table.index))
		for s.table.index[slot] == 0 {
			slot = s.table.next(slot)
		}
		if s.expiry(slot, s.look(slot)) > now {
			return append(dst, s.table.key(slot)...), true
		}
		s.expire(slot)
	}
	return dst, false
}
