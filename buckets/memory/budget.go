package memory

import (
	"math"
	"math/rand/v2"
	"sync/atomic"

	"cellserver/buckets"
)

// budget is what a Store may hold in memory and does: arenas, indexes and logs as they are allocated, not an estimate
// for each key. A shard tells it when an allocation of its own changes, which is seldom.
type budget struct {
	limit   atomic.Int64 // bytes; 0 is unlimited
	evict   atomic.Bool  // make room by forgetting buckets, rather than refuse what needs it
	shards  int64        // that share it
	used    atomic.Int64 // bytes
	peak    atomic.Int64
	evicted atomic.Uint64
}

// SetMemory sets how many bytes the store may hold (0: any), and what happens beyond: with evict it forgets those of a
// sample of buckets that are nearest to full again, whose loss forgives least; without, a request that needs memory is
// ErrNoMemory.
func (s *Store) SetMemory(limit int64, evict bool) {
	s.budget.limit.Store(limit)
	s.budget.evict.Store(evict)
}

// Held returns how many bytes the keys, their states and their indexes take.
func (s *Store) Bytes() int64 { return s.budget.used.Load() }

// limited reports whether there is a limit.
func (b *budget) limited() bool { return b.limit.Load() != 0 }

// allows reports whether so many more bytes may be allocated.
func (b *budget) allows(bytes int) bool {
	limit := b.limit.Load()
	return limit == 0 || bytes == 0 || b.used.Load()+int64(bytes) <= limit
}

// lends reports whether somebody may go beyond the limit, by a sixteenth of it at most, because what would be forgotten
// for him is further from full than what he stores: there are others, which the next requests and the sweep forget.
func (b *budget) allowsOverdraft() bool {
	limit := b.limit.Load()
	return b.used.Load() < limit+limit/16
}

// poor reports whether a shard that would hold so many bytes has less than a quarter of an even share: it may take more
// while the budget lends, and need not give, as all that it could forget may be what others have exhausted.
func (b *budget) belowFairShare(bytes int) bool {
	return b.limit.Load()/4 >= int64(bytes)*b.shards && b.allowsOverdraft()
}

// account tells the budget what the shard holds now.
func (s *shard) account() {
	bytes := s.table.bytes()
	if bytes == s.counted {
		return
	}
	used := s.budget.used.Add(int64(bytes - s.counted))
	s.counted = bytes
	for peak := s.budget.peak.Load(); used > peak && !s.budget.peak.CompareAndSwap(peak, used); {
		peak = s.budget.peak.Load()
	}
}

// mostAtOnce is how many buckets one request may make the store forget. What is still over the limit then, the next
// request or the next sweep sees to.
const maxEvictions = 64

// growth returns the bytes that taking quantity of a bucket, loaded into found, may allocate: a new one, or a log that
// needs another size.
func (s *shard) growth(found buckets.Kind, l *buckets.Limit, now, quantity int64, keyBytes int) int {
	var bytes int
	switch {
	case l.Kind().Words() == 0:
		bytes = s.found.ring.bytesAfterAdd(now, l.Period(), quantity)
	case found == buckets.None:
		bytes = 8 * l.Kind().Words()
	}
	if bytes == 0 {
		return 0
	}
	return s.table.growth(recordUnits(keyBytes, bytes), found == buckets.None)
}

// makeRoom sees to it that taking something of what live has found fits the budget, if need be by forgetting other
// buckets. It returns where the bucket is then, loaded into found.
func (s *shard) makeRoom(place uint32, found buckets.Kind, hash uint64, key []byte, l *buckets.Limit, now, quantity int64) (uint32, error) {
	fits := func() bool {
		more := s.growth(found, l, now, quantity, len(key))
		return s.budget.allows(more) || s.budget.belowFairShare(s.counted+more)
	}
	until := int64(math.MaxInt64)
	if s.budget.allowsOverdraft() {
		until = l.FullAfter(now, quantity)
	}
	err := s.makeRoomFor(now, until, func() uint32 {
		if s.found = (state{}); found != buckets.None {
			place = s.table.find(hash, key)
			s.load(place)
		}
		return place
	}, fits)
	return place, err
}

// makeRoomFor forgets buckets until fits reports that what is to be stored fits the budget, or until it has forgotten as
// many as one request may. It forgets none that is full later than until. again is called after each, and returns the place of the record that must stay, or 0.
func (s *shard) makeRoomFor(now, until int64, again func() uint32, fits func() bool) error {
	if !s.budget.evict.Load() {
		return buckets.ErrNoMemory
	}
	keep := again()
	for n := 0; n < maxEvictions && !fits() && s.evictOne(now, keep, until); n++ {
		if s.table.size <= s.table.blockBytes() && s.worthEvacuating() { // what has become free may be of other sizes
			s.table.evacuate()
			s.account()
		}
		keep = again()
	}
	for n := 0; n < maxEvacuations && !fits() && s.table.size-s.table.live > s.table.blockBytes(); n++ {
		s.table.evacuate()
		s.account()
		again()
	}
	return nil
}

const (
	evictionSample = 8  // how many buckets are compared for one to be forgotten
	sampleAllBelow = 64 // of so many, all are: a sample of few is none that anything could be said of
	maxEvacuations = 4  // how many blocks are given back to make room for one request
)

// evictOne forgets the bucket of a sample, but for the one at keep, that is nearest to full again. It reports whether
// there was one that is full no later than until.
func (s *shard) evictOne(now int64, keep uint32, until int64) bool {
	if s.table.count == 0 {
		return false
	}
	best, soonest := uint32(0), int64(0)
	look := func(place uint32) {
		if place == keep {
			return
		}
		if expiry := s.expiry(place, s.load(place)); best == 0 || expiry < soonest {
			best, soonest = place, expiry
		}
	}
	if s.table.count <= sampleAllBelow {
		s.table.each(func(place uint32, _ []byte) { look(place) })
	} else {
		for range evictionSample {
			look(s.table.random())
		}
	}
	switch {
	case best == 0 || soonest > until:
		return false
	case soonest <= now:
		s.expire(best)
	default:
		s.remove(best)
		s.budget.evicted.Add(1)
	}
	return true
}

// random returns the place of some record; there must be one.
func (x *index) random() uint32 {
	for i := rand.IntN(len(x.slots)); ; i = (i + 1) % len(x.slots) {
		if x.slots[i] > removedSlot {
			return x.place(x.slots[i])
		}
	}
}

// sparse reports whether moving the records of a block gives memory back.
func (s *shard) worthEvacuating() bool {
	if s.table.size <= s.table.blockBytes() { // a first block, which is made anew at the size that it needs
		return s.table.size > smallestBlock && 3*s.table.live < 2*s.table.size
	}
	return s.table.size-s.table.live > s.table.blockBytes()
}

// shrink brings a part of what is over the limit back under it, and reports whether there may be more to do. It forgets
// the shard's share of what is too much, and beyond that only what it takes for any memory to be given back.
func (s *shard) shrink(now int64) bool {
	used, limit := s.budget.used.Load(), s.budget.limit.Load()
	if limit == 0 || used <= limit || !s.budget.evict.Load() || s.table.count == 0 || s.budget.belowFairShare(s.counted) {
		return false
	}
	share := int64(s.table.count)*(used-limit)/used + 1
	n := int64(0)
	for ; n < maxEvictions && (n < share || !s.worthEvacuating()) && s.evictOne(now, 0, math.MaxInt64); n++ {
	}
	for range maxEvacuations {
		if s.worthEvacuating() {
			s.table.evacuate()
		}
	}
	s.account()
	return n == maxEvictions || s.worthEvacuating()
}
