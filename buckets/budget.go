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

// growth returns the bytes that taking something of a bucket may allocate: a new one, or a log without room.
func (s *shard) growth(found, kind Kind, keyBytes int) int {
	switch {
	case found == None && kind == Slide:
		return s.table.growth(kind, keyBytes) + logBytes + 8*smallestRing
	case found == None:
		return s.table.growth(kind, keyBytes)
	case kind == Slide && s.found.log.n == s.found.log.size:
		return len(s.found.log.ring)/4 + 16*smallestRing
	}
	return 0
}

// makeRoom sees to it that taking something of what live has found fits the budget, if need be by forgetting other
// buckets. It leaves found as it is, and returns the slot that the bucket is in then.
func (s *shard) makeRoom(slot int, found Kind, hash uint64, key []byte, kind Kind, now int64) (int, error) {
	if s.budget.allows(s.growth(found, kind, len(key))) {
		return slot, nil
	}
	if !s.budget.evict.Load() {
		return slot, ErrNoMemory
	}
	st, keep := s.found, -1
	if found != None {
		keep = slot
	}
	for n := 0; n < mostAtOnce && !s.budget.allows(s.growth(found, kind, len(key))) && s.evictOne(now, keep); n++ {
		s.found = st
		if found != None {
			slot, _ = s.table.find(hash, key)
			keep = slot
		}
	}
	if s.table.spare > 0 && !s.budget.allows(s.growth(found, kind, len(key))) {
		s.table.compact(cap(s.table.arena)) // what has become free is of other sizes
	}
	s.found = st
	return slot, nil
}

// sampled is how many buckets are compared for one to be forgotten.
const sampled = 8

// evictOne forgets the bucket of a sample, but for the one in the slot keep, that is nearest to full again. It reports
// whether there was one.
func (s *shard) evictOne(now int64, keep int) bool {
	if s.table.count == 0 {
		return false
	}
	best, soonest := -1, int64(0)
	for range sampled {
		slot := rand.IntN(len(s.table.index))
		for s.table.index[slot] == 0 {
			slot = s.table.next(slot)
		}
		if slot == keep {
			continue
		}
		if expiry := s.expiry(slot, s.look(slot)); best < 0 || expiry < soonest {
			best, soonest = slot, expiry
		}
	}
	switch {
	case best < 0:
		return false
	case soonest <= now:
		s.expire(best)
	default:
		s.remove(best)
		s.budget.evicted.Add(1)
	}
	return true
}

// shrink brings the shard's part of what is over the limit back under it.
func (s *shard) shrink(now int64) {
	used, limit := s.budget.used.Load(), s.budget.limit.Load()
	if limit == 0 || used <= limit || !s.budget.evict.Load() || s.table.count == 0 {
		return
	}
	for n := int64(s.table.count) * (used - limit) / used; n >= 0 && s.evictOne(now, -1); n-- {
	}
	if s.table.spare > 0 {
		s.table.compact(0)
	}
	s.account()
}
