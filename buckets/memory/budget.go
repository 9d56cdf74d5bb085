package memory

import (
	"math"
	"math/rand/v2"
	"sync/atomic"

	"cellserver/buckets"
)

// budget counts the memory of a Store: arenas, indexes and logs as they are allocated, not an estimate for each key. A
// shard reports to it when an allocation changes, which is seldom.
type budget struct {
	limit   atomic.Int64 // bytes; 0 is unlimited
	evict   atomic.Bool  // evict keys to make room, rather than refuse requests
	shards  int64        // that share the limit
	used    atomic.Int64 // bytes
	peak    atomic.Int64
	evicted atomic.Uint64
}

// SetMemory sets how many bytes the store may hold; 0 is no limit. Beyond the limit the store evicts, if evict is set, the
// keys of a sample that are full soonest, because forgetting those forgives least; otherwise a request that needs memory
// fails with ErrNoMemory.
func (s *Store) SetMemory(limit int64, evict bool) {
	s.budget.limit.Store(limit)
	s.budget.evict.Store(evict)
}

// Bytes returns how many bytes the keys, their states and their indexes take.
func (s *Store) Bytes() int64 { return s.budget.used.Load() }

// limited reports whether there is a limit.
func (b *budget) limited() bool { return b.limit.Load() != 0 }

// allows reports whether so many more bytes may be allocated.
func (b *budget) allows(bytes int) bool {
	limit := b.limit.Load()
	return limit == 0 || bytes == 0 || b.used.Load()+int64(bytes) <= limit
}

// allowsOverdraft reports whether a request may exceed the limit, by at most a sixteenth of it. It does so rather than
// evict a key that is full later than the key it stores; the next requests and the sweep evict others.
func (b *budget) allowsOverdraft() bool {
	limit := b.limit.Load()
	return b.used.Load() < limit+limit/16
}

// belowFairShare reports whether a shard that would hold so many bytes has less than a quarter of an even share. Such a
// shard may exceed the limit while an overdraft is allowed, because all of its few keys may be exhausted buckets.
func (b *budget) belowFairShare(bytes int) bool {
	return b.limit.Load()/4 >= int64(bytes)*b.shards && b.allowsOverdraft()
}

// account reports the memory of the shard to the budget.
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

// maxEvictions is how many keys one request may evict. The next request or the sweep evicts the rest.
const maxEvictions = 64

// growth returns how many bytes taking quantity from the state in found may allocate, for a new record or a larger log.
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

// makeRoom evicts keys until taking quantity from the state that findLive loaded fits the budget. It loads the state again
// and returns the place of its record.
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
		if s.table.size <= s.table.blockBytes() && s.worthEvacuating() { // the free pieces may be too small
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
	evictionSample = 8  // keys that are compared to evict one
	sampleAllBelow = 64 // a shard of at most so many keys compares all
	maxEvacuations = 4  // blocks that are evacuated to make room for one request
)

// evictOne evicts the key of a sample that is full soonest, other than the one at keep. It reports false if there is none
// that is full by until.
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

// random returns the place of a random record. It requires that there is one.
func (x *index) random() uint32 {
	for i := rand.IntN(len(x.slots)); ; i = (i + 1) % len(x.slots) {
		if x.slots[i] > removedSlot {
			return x.place(x.slots[i])
		}
	}
}

// worthEvacuating reports whether moving the records of a block elsewhere gives memory back.
func (s *shard) worthEvacuating() bool {
	if s.table.size <= s.table.blockBytes() { // a first block, which is reallocated at the size that it needs
		return s.table.size > smallestBlock && 3*s.table.live < 2*s.table.size
	}
	return s.table.size-s.table.live > s.table.blockBytes()
}

// shrink evicts the shard's share of what exceeds the limit, and more only until memory can be given back. It reports
// whether there may be more to do.
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
