package memory

import (
	"math"
	"math/rand/v2"
	"sync/atomic"

	"cellserver/buckets"
)

// budget counts the memory of a Store: the allocated bytes of arenas, indexes and logs, rather than an estimate for each
// key. A shard reports to it when its allocations change, which is rare.
type budget struct {
	limit   atomic.Int64 // bytes; 0 is unlimited
	evict   atomic.Bool  // evict keys to make room instead of refusing requests
	shards  int64        // number of shards that share the limit
	used    atomic.Int64 // bytes
	peak    atomic.Int64
	evicted atomic.Uint64
}

// SetMemory sets how many bytes the store may hold; 0 means no limit. When the limit is reached and evict is set, the
// store evicts the keys of a sample that are full soonest, because they lose the least. Otherwise a request that needs
// memory fails with ErrNoMemory.
func (s *Store) SetMemory(limit int64, evict bool) {
	s.budget.limit.Store(limit)
	s.budget.evict.Store(evict)
}

// Bytes returns how many bytes the keys, their states and their indexes take.
func (s *Store) Bytes() int64 { return s.budget.used.Load() }

// limited reports whether a limit is set.
func (b *budget) limited() bool { return b.limit.Load() != 0 }

// allows reports whether this many more bytes may be allocated.
func (b *budget) allows(bytes int) bool {
	limit := b.limit.Load()
	return limit == 0 || bytes == 0 || b.used.Load()+int64(bytes) <= limit
}

// allowsOverdraft reports whether a request may exceed the limit, which it may by at most a sixteenth. A request does so
// instead of evicting a key that is full later than its own; the next requests and the sweep evict other keys.
func (b *budget) allowsOverdraft() bool {
	limit := b.limit.Load()
	return b.used.Load() < limit+limit/16
}

// belowFairShare reports whether a shard that would hold this many bytes has less than a quarter of an even share. Such a
// shard may exceed the limit while an overdraft is allowed, because all of its few keys may be exhausted buckets.
func (b *budget) belowFairShare(bytes int) bool {
	return b.limit.Load()/4 >= int64(bytes)*b.shards && b.allowsOverdraft()
}

// account reports the memory of the selected database to the budget.
func (s *shard) account() {
	bytes := s.table.bytes()
	if bytes == s.table.counted {
		return
	}
	more := bytes - s.table.counted
	s.table.counted = bytes
	s.count(more)
}

// counted returns how many bytes the shard has reported to the budget, of all databases.
func (s *shard) counted() (bytes int) {
	for n, t := range s.eachDatabase() {
		if bytes += t.counted; n != 0 {
			bytes += databaseBytes
		}
	}
	return bytes
}

// count reports to the budget that the shard has allocated this many bytes.
func (s *shard) count(bytes int) {
	used := s.budget.used.Add(int64(bytes))
	for peak := s.budget.peak.Load(); used > peak && !s.budget.peak.CompareAndSwap(peak, used); {
		peak = s.budget.peak.Load()
	}
}

// maxEvictions is the largest number of keys that one request evicts. The next request or the sweep continues.
const maxEvictions = 64

// growth returns how many bytes taking quantity from the state in s.found may allocate, for a new record or a larger log.
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
	return s.tableGrowth(recordUnits(keyBytes, bytes), found == buckets.None)
}

// tableGrowth returns how many bytes a new record of the selected database, or a new place for a record, may add.
func (s *shard) tableGrowth(units int, added bool) int {
	if s.table == s.spare {
		return databaseBytes + s.table.growth(units, added)
	}
	return s.table.growth(units, added)
}

// makeRoom evicts keys until taking quantity from the state in s.found fits the budget. It then loads the state again and
// returns the place of its record.
func (s *shard) makeRoom(place uint32, found buckets.Kind, hash uint64, key []byte, l *buckets.Limit, now, quantity int64) (uint32, error) {
	fits := func() bool {
		more := s.growth(found, l, now, quantity, len(key))
		return s.budget.allows(more) || s.budget.belowFairShare(s.counted()+more)
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

// makeRoomFor evicts keys until fits reports true or maxEvictions keys are evicted. It evicts no key that is full later
// than until. It calls again after each eviction, for the place of the record that must not be evicted, or 0.
func (s *shard) makeRoomFor(now, until int64, again func() uint32, fits func() bool) error {
	if !s.budget.evict.Load() {
		return buckets.ErrNoMemory
	}
	keep := again()
	for n := 0; n < maxEvictions && !fits(); n++ {
		from := s.evictOne(now, keep, until)
		if from == nil {
			break
		}
		if from.size <= from.blockBytes() && from.worthEvacuating() { // the free pieces may be too small for the record
			s.evacuate(from)
		}
		keep = again()
	}
	for _, t := range s.eachDatabase() {
		for n := 0; n < maxEvacuations && !fits() && t.size-t.live > t.blockBytes(); n++ {
			s.evacuate(t)
			again()
		}
	}
	return nil
}

// evacuate evacuates a block of a database of the shard.
func (s *shard) evacuate(t *database) {
	s.within(t, func() {
		t.evacuate()
		s.account()
	})
}

const (
	evictionSample = 8  // number of keys that are compared to evict one
	sampleAllBelow = 64 // a shard with at most this many keys compares all of them
	maxEvacuations = 4  // number of blocks that one request evacuates
)

// evictOne evicts the key of a sample of all databases that is full soonest, except the one at keep in the selected
// database. It returns the database that had the key, or nil if no key of the sample is full by until.
func (s *shard) evictOne(now int64, keep uint32, until int64) (from *database) {
	selected, best, soonest := s.table, uint32(0), int64(0)
	look := func(place uint32) {
		if s.table == selected && place == keep {
			return
		}
		if expiry := s.expiry(place, s.load(place)); best == 0 || expiry < soonest {
			from, best, soonest = s.table, place, expiry
		}
	}
	if records := s.records(); records <= sampleAllBelow {
		for _, t := range s.eachDatabase() {
			s.within(t, func() { t.each(func(place uint32, _ []byte) { look(place) }) })
		}
	} else {
		for range evictionSample {
			t := s.randomDatabase(records)
			s.within(t, func() { look(t.random()) })
		}
	}
	if best == 0 || soonest > until {
		return nil
	}
	s.within(from, func() {
		if soonest <= now {
			s.expire(best)
			return
		}
		s.remove(best)
		s.budget.evicted.Add(1)
	})
	return from
}

// randomDatabase returns a database of the shard, in proportion to how many of the given number of records it has. It
// requires that there are records.
func (s *shard) randomDatabase(records int) *database {
	if s.others == nil {
		return &s.zero
	}
	left := rand.IntN(records)
	for _, t := range s.eachDatabase() {
		if left -= t.count; left < 0 {
			return t
		}
	}
	panic("a shard has fewer records than it has counted")
}

// random returns the place of a random record. It requires that the index is not empty.
func (x *index) random() uint32 {
	for i := rand.IntN(len(x.slots)); ; i = (i + 1) % len(x.slots) {
		if x.slots[i] > removedSlot {
			return x.place(x.slots[i])
		}
	}
}

// worthEvacuating reports whether evacuating a block frees memory.
func (t *table) worthEvacuating() bool {
	if t.size <= t.blockBytes() { // the only block: evacuating it replaces it by a smaller one
		return t.size > smallestBlock && 3*t.live < 2*t.size
	}
	return t.size-t.live > t.blockBytes()
}

// worthEvacuating returns a database of which evacuating a block frees memory, or nil.
func (s *shard) worthEvacuating() *database {
	for _, t := range s.eachDatabase() {
		if t.worthEvacuating() {
			return t
		}
	}
	return nil
}

// shrink evicts the shard's share of the excess over the limit, and then further keys until memory can be freed. It
// reports whether the shard may still exceed its share.
func (s *shard) shrink(now int64) bool {
	used, limit := s.budget.used.Load(), s.budget.limit.Load()
	if limit == 0 || used <= limit || !s.budget.evict.Load() || s.records() == 0 || s.budget.belowFairShare(s.counted()) {
		return false
	}
	share := int64(s.records())*(used-limit)/used + 1
	n := int64(0)
	for ; n < maxEvictions && (n < share || s.worthEvacuating() == nil) && s.evictOne(now, 0, math.MaxInt64) != nil; n++ {
	}
	for range maxEvacuations {
		if t := s.worthEvacuating(); t != nil {
			s.evacuate(t)
		}
	}
	return n == maxEvictions || s.worthEvacuating() != nil
}
