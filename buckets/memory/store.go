package memory

import (
	"hash/maphash"
	"math"
	"math/rand/v2"
	"sync/atomic"

	"cellserver/buckets"
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
	seed       maphash.Seed // per process: nobody outside can choose keys that meet in one shard
	shards     []shard
	maxLog     *atomic.Int64
	budget     *budget
	sweepShard *atomic.Int64 // the shard at which the sweep goes on
	scans      *consistentScans
	feed       *changeFeed
	held       bool // the shards that are asked for are locked already (Hold)
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
	return newStore(n, usual, maphash.MakeSeed())
}

func newStore(shards int, g geometry, seed maphash.Seed) *Store {
	s := &Store{
		seed: seed, shards: make([]shard, shards), maxLog: new(atomic.Int64), budget: new(budget), sweepShard: new(atomic.Int64),
		scans: new(consistentScans), feed: new(changeFeed),
	}
	s.budget.shards = int64(shards)
	for i := range s.shards {
		s.shards[i].budget = s.budget
		s.shards[i].table = newTable(s.seed, g)
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
func (s *Store) lockKey(key []byte) (hash uint64, sh *shard) {
	hash, n := s.locate(key)
	return hash, s.lockShard(n)
}

// enter returns shard n, locked; leave unlocks it again.
func (s *Store) lockShard(n int) *shard {
	sh := &s.shards[n]
	if !s.held {
		sh.mu.Lock()
	} else if sh.mu.TryLock() {
		panic("a shard is used that Hold was not asked for")
	}
	return sh
}

func (s *Store) unlockShard(sh *shard) {
	if !s.held {
		sh.mu.Unlock()
	}
}

// each visits the shards, locked one at a time.
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

// Take decides on quantity of limit l for key, and keeps what comes of it; with peek it only looks.
//
// Its errors are ErrWrongKind and ErrLogFull; nothing has changed then.
func (s *Store) Take(now int64, key []byte, l buckets.Limit, quantity int64, peek bool) (d buckets.Decision, err error) {
	err = s.Decide(now, key, &l, quantity, peek, &d)
	return d, err
}

// Decide is Take for whoever has the limit and the room for the decision already. It leaves what it fills in incomplete
// when it fails.
func (s *Store) Decide(now int64, key []byte, l *buckets.Limit, quantity int64, peek bool, d *buckets.Decision) error {
	hash, sh := s.lockKey(key)
	defer s.unlockShard(sh)
	return sh.take(hash, key, l, sh.advance(now), quantity, peek, int(s.maxLog.Load()), d)
}

// Stats adds up the shards, one at a time.
func (s *Store) Stats() buckets.Stats {
	var sum buckets.Stats
	s.eachShard(func(sh *shard) {
		sum.Keys += int64(sh.table.count)
		sum.Deadlines += int64(len(sh.table.deadlines))
		sum.Expired += sh.expired
		sum.Changes += sh.changes
	})
	b := s.budget
	sum.Bytes, sum.Peak, sum.Limit = b.used.Load(), b.peak.Load(), b.limit.Load()
	sum.Evicts, sum.Evicted = b.evict.Load(), b.evicted.Load()
	return sum
}

// Swept is what one step of a sweep did.
type Swept struct {
	Looked  int  // keys that were looked at
	Expired int  // those of them that were forgotten
	More    bool // the same shard has more to be seen to: the next step goes on there
	Round   bool // the last of all the shards has been seen to
}

// The work of one step of a sweep, which bounds how long it holds a lock: it ends with the block that makes it this much.
// Looking at a key is 1.
const (
	stepWork   = 500
	workExpire = 8   // forgetting one
	workMove   = 200 // moving what is left in a block
)

// Sweep does one step of forgetting expired keys, going on where the step before left off. It locks one shard, for some
// tens of microseconds at most. It also gives blocks back that have become mostly free, and brings the store back within
// its limit when that has been lowered.
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
	for work := 0; s.sweepBlock < len(s.table.blocks); s.sweepBlock++ {
		if work >= stepWork {
			did.More = true
			break
		}
		before := did
		s.table.in(s.sweepBlock, func(place uint32, _ []byte) {
			did.Looked++
			if s.expiry(place, s.load(place)) <= now {
				s.forget(place)
				s.expired++
				did.Expired++
			}
		})
		work += did.Looked - before.Looked + workExpire*(did.Expired-before.Expired)
		for work < stepWork && s.table.tidy() {
			work += workMove
		}
	}
	s.found = state{} // it may hold the memory of a log that has gone
	if !did.More {
		s.sweepBlock = 0
		s.table.shrink() // once, for all that has gone
		did.More = s.shrink(now) || s.table.tidy() && s.table.wasteful()
	}
	s.account()
	return did
}

// flush forgets every key, all at once.
func (s *Store) flush() {
	for i := range s.shards {
		s.lockShard(i)
	}
	s.beforeFlush()
	for i := range s.shards {
		s.shards[i].flush()
	}
	for i := range s.shards {
		s.unlockShard(&s.shards[i])
	}
}

// Keys returns the number of keys that are stored, those that have expired and were not met since included. It takes the
// same time for any number of them.
func (s *Store) Keys() (stored int64) {
	s.eachShard(func(sh *shard) { stored += int64(sh.table.count) })
	return stored
}

// Live returns the number of keys that have not expired. It looks at every key: Keys does not.
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

// MeanTTL looks at this many keys at least, if there are as many, and at no more of one shard.
const (
	sampledTTLs     = 100
	sampledPerShard = 4
)

// MeanTTL returns how many nanoseconds it is until a key expires, on average over a sample of those that have not expired;
// 0 when there are none. It takes the same time for any number of keys, and looks at all of a few.
func (s *Store) MeanTTL(now int64) int64 {
	sum, n := 0.0, 0
	first := rand.IntN(len(s.shards))
	for i := 0; i < len(s.shards) && n < sampledTTLs; i++ {
		s.withShard((first+i)&(len(s.shards)-1), func(sh *shard) {
			sh.sample(sampledPerShard, func(place uint32) {
				if left := sh.expiry(place, sh.load(place)) - max(now, sh.latest); left > 0 {
					sum += float64(left)
					n++
				}
			})
		})
	}
	return int64(sum / float64(max(1, n)))
}

// sample visits so many records, or all when there are no more. It may visit one twice.
func (s *shard) sample(n int, visit func(place uint32)) {
	if s.table.count <= n {
		s.table.each(func(place uint32, _ []byte) { visit(place) })
		return
	}
	for range n {
		visit(s.table.random())
	}
}

// randomKey appends a key that has not expired to dst, or reports that there is none. While the store is held it gives up
// after a thousand keys that have.
func (s *Store) randomKey(now int64, dst []byte) ([]byte, bool) {
	first := rand.IntN(len(s.shards))
	tries := math.MaxInt
	if s.held { // everybody waits
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

// heldTries is how many keys randomKey looks at while the store is held: nearly all there are may have expired.
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
