package buckets

import (
	"math/rand/v2"
	"sync/atomic"
)

// budget is what a Store may hold in memory and does: arenas, indexes and logs as they are allocated, not an estimate
// for each key. A shard tells it when an allocation of its own changes, which is seldom.
type budget struct {
	limit   atomic.Int64 // bytes; 0 is unlimited
	evict   atomic.Bool  // make room by forgetting buckets, rather than refuse what needs it
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
func (s *Store) Held() int64 { return s.budget.used.Load() }

// allows reports whether so many more bytes may be allocated.
func (b *budget) allows(bytes int) bool {
	limit := b.limit.Load()
	return limit == 0 || bytes == 0 || b.used.Load()+int64(bytes) <= limit
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
const mostAtOnce = 64

// growth returns the bytes that taking quantity of a bucket, loaded into found, may allocate: a new one, or a log that
// needs another size.
func (s *shard) growth(found Kind, l *Limit, now, quantity int64, keyBytes int) int {
	var bytes int
	switch {
	case l.kind == Slide:
		bytes = s.found.log.needs(now, l.period, quantity)
	case found == None && l.kind == Throttle:
		bytes = 8
	case found == None:
		bytes = 24
	}
	if bytes == 0 {
		return 0
	}
	return s.table.growth(recordUnits(keyBytes, bytes), found == None)
}

// makeRoom sees to it that taking something of what live has found fits the budget, if need be by forgetting other
// buckets. It returns where the bucket is then, loaded into found.
func (s *shard) makeRoom(place uint32, found Kind, hash uint64, key []byte, l *Limit, now, quantity int64) (uint32, error) {
	if !s.budget.evict.Load() {
		return place, ErrNoMemory
	}
	again := func() {
		if s.found = (state{}); found != None {
			place = s.table.find(hash, key)
			s.look(place)
		}
	}
	fits := func() bool { return s.budget.allows(s.growth(found, l, now, quantity, len(key))) }
	for n := 0; n < mostAtOnce && !fits() && s.evictOne(now, place); n++ {
		again()
	}
	for n := 0; n < mostBlocks && !fits() && s.table.size-s.table.live > s.table.blockBytes(); n++ {
		s.table.evacuate() // what has become free is of other sizes
		s.account()
		again()
	}
	return place, nil
}

const (
	sampled    = 8 // how many buckets are compared for one to be forgotten
	mostBlocks = 4 // how many blocks are given back to make room for one request
)

// evictOne forgets the bucket of a sample, but for the one at keep, that is nearest to full again. It reports whether
// there was one.
func (s *shard) evictOne(now int64, keep uint32) bool {
	if s.table.count == 0 {
		return false
	}
	best, soonest := uint32(0), int64(0)
	for range sampled {
		place := s.table.random()
		if place == keep {
			continue
		}
		if expiry := s.expiry(place, s.look(place)); best == 0 || expiry < soonest {
			best, soonest = place, expiry
		}
	}
	switch {
	case best == 0:
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

// shrink brings a part of what is over the limit back under it, and reports whether there may be more to do.
func (s *shard) shrink(now int64) bool {
	used, limit := s.budget.used.Load(), s.budget.limit.Load()
	if limit == 0 || used <= limit || !s.budget.evict.Load() || s.table.count == 0 {
		return false
	}
	share := int64(s.table.count)*(used-limit)/used + 1
	spare := func() bool { return s.table.size-s.table.live > s.table.blockBytes() }
	n := int64(0)
	for ; n < mostAtOnce && (n < share || !spare()) && s.evictOne(now, 0); n++ {
	}
	if spare() {
		s.table.evacuate()
	}
	s.account()
	return n == mostAtOnce // there is more to do
}
