package memory

import (
	"hash/maphash"
	"math"
	"math/rand/v2"
	"sync/atomic"

	"cellserver/buckets"
)

// DefaultShards is the number of shards of a Store unless NewStore is given another.
const DefaultShards = 1024

// DefaultMaxLog is the largest number of records in a sliding log unless SetMaxLog sets another.
const DefaultMaxLog = 1000000

// Store keeps buckets in memory, in 2^k shards. Its methods may be called concurrently.
//
// A Store is one of several databases, which share everything but their keys: NewStore returns database 0, and Database the
// others. What concerns neither one key nor the keys of one database is the same for all of them, such as Sweep, SetMemory,
// Copy and Changes.
//
// now is the caller's reading of the clock, in nanoseconds of Unix time. A shard decides at the later of now and the
// latest time at which it has decided. An operation on several shards decides at the latest time of them all, and raises
// each to it.
//
// Lock order: an operation locks all shards that it needs, in the order of their numbers, before it reads any of them.
// While a shard is locked, no other lock is taken except that of the changeFeed.
type Store struct {
	seed       maphash.Seed // random for each store, so that clients cannot choose keys that share a shard
	shards     []shard
	databases  *[]*Store // for each database the Store that is it, of which none is held
	maxLog     *atomic.Int64
	budget     *budget
	sweepShard *atomic.Int64 // the shard with which the next step of a sweep begins
	scans      *consistentScans
	feed       *changeFeed
	db         int32 // number of the database
	held       bool  // Hold has locked the shards
}

// NewStore makes a store with the given number of shards, rounded up to a power of two, or DefaultShards if it is below
// 1.
func NewStore(shards int) *Store {
	if shards < 1 {
		shards = DefaultShards
	}
	n := 1
	for n < shards {
		n *= 2
	}
	return newStore(n, usual, maphash.MakeSeed())
}

func newStore(shards int, g geometry, seed maphash.Seed) *Store {
	s := &Store{
		seed: seed, shards: make([]shard, shards), maxLog: new(atomic.Int64), budget: new(budget), sweepShard: new(atomic.Int64),
		scans: new(consistentScans), feed: new(changeFeed), databases: new([]*Store),
	}
	s.budget.shards = int64(shards)
	for i := range s.shards {
		s.shards[i].budget = s.budget
		s.shards[i].zero.table = newTable(s.seed, g)
		s.shards[i].table = &s.shards[i].zero
	}
	s.maxLog.Store(DefaultMaxLog)
	s.SetDatabases(DefaultDatabases)
	return s
}

// SetMaxLog sets the largest number of records in the log of a Slide key.
func (s *Store) SetMaxLog(records int64) { s.maxLog.Store(records) }

// MaxLog returns the largest number of records in the log of a Slide key.
func (s *Store) MaxLog() int64 { return s.maxLog.Load() }

// locate returns the hash of key and the number of its shard.
func (s *Store) locate(key []byte) (hash uint64, shard int) {
	hash = maphash.Bytes(s.seed, key)
	return hash, int(hash & uint64(len(s.shards)-1))
}

// lockKey locks and returns the shard of key.
func (s *Store) lockKey(key []byte) (hash uint64, sh *shard) {
	hash, n := s.locate(key)
	return hash, s.lockShard(n)
}

// lockShard locks shard n, selects the database of the store, and returns the shard.
func (s *Store) lockShard(n int) *shard {
	sh := &s.shards[n]
	if !s.held {
		sh.mu.Lock()
	} else if sh.mu.TryLock() {
		panic("a shard is used that Hold was not asked for")
	}
	if sh.selected != s.db {
		sh.selectDatabase(s.db)
	}
	return sh
}

func (s *Store) unlockShard(sh *shard) {
	if !s.held {
		sh.mu.Unlock()
	}
}

// eachShard calls visit for every shard, locking one at a time.
func (s *Store) eachShard(visit func(sh *shard)) {
	for n := range s.shards {
		s.withShard(n, visit)
	}
}

func (s *Store) withShard(n int, visit func(sh *shard)) {
	sh := s.lockShard(n)
	defer s.unlockShard(sh)
	visit(sh)
}

// Take takes quantity of l from key. With peek it takes nothing and answers as if it did. Its errors are ErrWrongKind,
// ErrLogFull and ErrNoMemory; after an error nothing has changed.
func (s *Store) Take(now int64, key []byte, l buckets.Limit, quantity int64, peek bool) (d buckets.Decision, err error) {
	hash, sh := s.lockKey(key)
	defer s.unlockShard(sh)
	now = sh.advance(now)
	maxLog := int(s.maxLog.Load())
	place := sh.near().find(hash, key)
	if place != 0 && !peek && sh.takeInPlace(place, hash, len(key), &l, now, quantity, maxLog, &d) {
		return d, nil
	}
	sh.limit, sh.decision = l, buckets.Decision{}
	err = sh.takeFound(place, hash, key, &sh.limit, now, quantity, peek, maxLog, &sh.decision)
	return sh.decision, err
}

// Decide implements buckets.Decider. It is Take without copying the limit and the decision.
func (s *Store) Decide(now int64, key []byte, l *buckets.Limit, quantity int64, peek bool, d *buckets.Decision) error {
	hash, sh := s.lockKey(key)
	defer s.unlockShard(sh)
	return sh.take(hash, key, l, sh.advance(now), quantity, peek, int(s.maxLog.Load()), d)
}

// Stats returns the sums of the counters of the shards. It locks one shard at a time. Keys, Deadlines, Lasting and Index are those
// of the database, the others those of all databases.
func (s *Store) Stats() buckets.Stats {
	var sum buckets.Stats
	s.eachShard(func(sh *shard) {
		sum.Keys += int64(sh.table.count)
		sum.Deadlines += int64(len(sh.table.deadlines))
		sum.Lasting += int64(sh.table.lasting)
		sum.Index += int64(4 * cap(sh.table.slots))
		sum.Expired += sh.expired
		sum.Changes += sh.changes
	})
	b := s.budget
	sum.Bytes, sum.Peak, sum.Limit = b.used.Load(), b.peak.Load(), b.limit.Load()
	sum.Evicts, sum.Evicted = b.evict.Load(), b.evicted.Load()
	return sum
}

// Swept is the result of one step of a sweep.
type Swept struct {
	Looked  int  // number of keys that were examined
	Expired int  // number of these keys that had expired and were removed
	More    bool // the next step continues with the same shard
	Round   bool // the step ended with the last shard
}

// stepWork bounds how long a step of a sweep holds a lock: the step ends with the block at which its work reaches stepWork.
// Examining a key counts as 1.
const (
	stepWork   = 500
	workExpire = 8   // removing an expired key
	workMove   = 200 // evacuating a block
)

// Sweep does one step of removing expired keys and continues where the previous step ended. It locks one shard, for some
// tens of microseconds at most. It also frees blocks that are mostly empty, and evicts keys if the limit on memory has
// been lowered.
func (s *Store) Sweep(now int64) (did Swept) {
	n := int(s.sweepShard.Load())
	s.withShard(n, func(sh *shard) { did = sh.sweep(now) })
	if !did.More {
		n++
	}
	did.Round = n == len(s.shards)
	s.sweepShard.Store(int64(n & (len(s.shards) - 1)))
	return did
}

func (s *shard) sweep(now int64) (did Swept) {
	now = s.advance(now)
	work := 0
	for n, t := range s.eachDatabase() {
		if n < int(s.sweepDatabase) {
			continue
		}
		s.within(t, func() { s.sweepBlocks(now, &work, &did) })
		if s.sweepDatabase = uint8(n); did.More {
			return did
		}
	}
	s.sweepDatabase = 0
	did.More = s.shrink(now)
	for _, t := range s.eachDatabase() {
		s.within(t, func() {
			did.More = did.More || t.tidy() && t.wasteful()
			s.account()
		})
	}
	s.dropEmpty()
	return did
}

// sweepBlocks removes the expired keys of the selected database, from its sweepBlock on, until work reaches stepWork.
func (s *shard) sweepBlocks(now int64, work *int, did *Swept) {
	t := s.table
	for ; t.sweepBlock < len(t.blocks); t.sweepBlock++ {
		if *work >= stepWork {
			did.More = true
			break
		}
		before := *did
		t.eachInBlock(t.sweepBlock, func(place uint32, _ []byte) {
			did.Looked++
			if s.expiry(place, s.load(place)) <= now {
				s.forget(place)
				s.expired++
				did.Expired++
			}
		})
		*work += did.Looked - before.Looked + workExpire*(did.Expired-before.Expired)
		for *work < stepWork && t.tidy() {
			*work += workMove
		}
	}
	s.found = state{} // release the memory of a removed log
	if !did.More {
		t.sweepBlock = 0
		t.shrink() // once for all removed keys
	}
	s.account()
}

// flush deletes all keys of the database atomically.
func (s *Store) flush() {
	defer s.lockAllShards()()
	s.beforeDatabaseChange(0, func(c *databaseChanges) { c.flush(int(s.db)) })
	for i := range s.shards {
		s.shards[i].flush()
		s.shards[i].dropEmpty()
	}
}

// Keys returns the number of keys of the database, including expired ones that have not been removed. It takes the same time for any
// number of keys.
func (s *Store) Keys() (stored int64) {
	s.eachShard(func(sh *shard) { stored += int64(sh.table.count) })
	return stored
}

// Live returns the number of keys of the database that have not expired. Unlike Keys it examines every key.
func (s *Store) Live(now int64) (live int64) {
	s.eachShard(func(sh *shard) { live += sh.len(now) })
	return live
}

func (s *shard) len(now int64) (live int64) {
	now = s.advance(now)
	s.table.each(func(place uint32, _ []byte) {
		if s.expiry(place, s.load(place)) > now {
			live++
		}
	})
	return live
}

// MeanTTL samples at most sampledPerShard keys of a shard, and stops when it has at least sampledTTLs.
const (
	sampledTTLs     = 100
	sampledPerShard = 4
)

// MeanTTL implements buckets.TTLSampler, over the keys that expire. It takes the same time for any number of keys, and examines all keys if there
// are few.
func (s *Store) MeanTTL(now int64) int64 {
	sum, n := 0.0, 0
	first := rand.IntN(len(s.shards))
	for i := 0; i < len(s.shards) && n < sampledTTLs; i++ {
		s.withShard((first+i)&(len(s.shards)-1), func(sh *shard) {
			sh.sample(sampledPerShard, func(place uint32) {
				expiry, now := sh.expiry(place, sh.load(place)), max(now, sh.latest)
				if expiry > now && expiry != buckets.NoExpiry {
					sum += float64(expiry - now)
					n++
				}
			})
		})
	}
	return int64(sum / float64(max(1, n)))
}

// sample visits n random records, possibly some of them twice, or all records if there are at most n.
func (s *shard) sample(n int, visit func(place uint32)) {
	if s.table.count <= n {
		s.table.each(func(place uint32, _ []byte) { visit(place) })
		return
	}
	for range n {
		visit(s.table.random())
	}
}

// randomKey appends a random key that has not expired to dst. It returns false if it finds none. On a held store it stops
// after heldTries expired keys.
func (s *Store) randomKey(now int64, dst []byte) ([]byte, bool) {
	first := rand.IntN(len(s.shards))
	tries := math.MaxInt
	if s.held { // other goroutines wait for the locks
		tries = heldTries
	}
	for n := range s.shards {
		found := false
		s.withShard((first+n)&(len(s.shards)-1), func(sh *shard) { dst, found = sh.random(now, dst, &tries) })
		if found {
			return dst, true
		}
	}
	return dst, false
}

// heldTries is how many keys randomKey examines on a held store, where almost all keys may have expired.
const heldTries = 1000

func (s *shard) random(now int64, dst []byte, tries *int) ([]byte, bool) {
	now = s.advance(now)
	for ; s.table.count > 0 && *tries > 0; *tries-- {
		place := s.table.random()
		if s.expiry(place, s.load(place)) > now {
			return append(dst, keyOf(s.table.at(place))...), true
		}
		s.expire(place)
	}
	return dst, false
}
