package memory

import (
	"sync"

	"cellserver/buckets"
)

// shard is one part of the key space: a mutex and what it guards. Every method requires that mu is held.
type shard struct {
	// The fields that every request needs come first, in two cache lines: those down to the shift of the table.
	mu sync.Mutex
	// latest is the latest time that a request was decided at. Connections may lock the shard in another order than they
	// read the clock; the time of a shard does not go back.
	latest  int64
	changes uint64                         // to keys, by requests
	watches map[string]map[*watch]struct{} // by key; nil while no key is watched
	tracked bool                           // changed keys are recorded for Changes
	table   table

	dirty      []byte            // the changed keys, each after its length (uvarint)
	visitedBy  [scanKinds]uint64 // the last consistent scan of each kind that has visited this shard
	found      state             // the state that was loaded last, or the zero state; a log is valid until the table changes
	sweepBlock int               // the block that the next step of a sweep begins with
	expired    uint64
	budget     *budget // the store's
	counted    int     // bytes, as last reported to the budget

	// Room for the arguments and the answer of Take when it takes the general path, which calls through a table of
	// functions: variables of Take would be allocated for each call.
	limit    buckets.Limit
	decision buckets.Decision

	_ [48]byte // makes the size an odd number of cache lines, so that the hot fields of the shards use all sets of the cache
}

// advance raises the shard's time to now, unless it is later already, and returns it.
func (s *shard) advance(now int64) int64 {
	s.latest = max(s.latest, now)
	return s.latest
}

// expiry returns when the key at place, whose state is loaded into found, expires: when the bucket is full, or at its
// deadline if that is earlier.
func (s *shard) expiry(place uint32, kind buckets.Kind) int64 {
	full := s.found.FullAt()
	if at := s.table.deadline(place); at != 0 {
		return min(full, at)
	}
	return full
}

// findLive finds key and loads its state into found. A key that has expired is removed and not found.
func (s *shard) findLive(hash uint64, key []byte, now int64) (place uint32, kind buckets.Kind) {
	place = s.table.find(hash, key)
	return place, s.loadLive(place, now)
}

// loadLive loads the state of the record at place, if it is not 0, into found. A record that has expired is removed, and
// the zero state is loaded.
func (s *shard) loadLive(place uint32, now int64) buckets.Kind {
	if place != 0 {
		if kind := s.load(place); s.expiry(place, kind) > now {
			return kind
		}
		s.expire(place)
	}
	s.found = state{}
	return buckets.None
}

// load loads the state of a record into found.
func (s *shard) load(place uint32) buckets.Kind { return s.table.load(place, &s.found) }

func (s *shard) expire(place uint32) {
	s.remove(place)
	s.expired++
}

// Every change of the table goes through one of the following methods, which notify the watches of a key.

func (s *shard) insert(hash uint64, key []byte, st *state) (place uint32) {
	if s.watches != nil {
		s.notifyWatches(key)
	}
	place = s.table.insert(hash, key, st)
	s.account()
	return place
}

// insertChanged inserts a record because of a request, and records the change.
func (s *shard) insertChanged(hash uint64, key []byte, st *state) (place uint32) {
	place = s.insert(hash, key, st)
	s.markDirty(place)
	return place
}

// deleteRecord removes a record because of a request, and records the change.
func (s *shard) deleteRecord(place uint32) {
	s.markDeleted(place)
	s.remove(place)
}

// remove removes a record, and compacts the table. Other records may move.
func (s *shard) remove(place uint32) {
	s.forget(place)
	s.found = state{} // it may hold the memory of a log
	s.table.shrink()
	s.table.tidy()
	s.account()
}

// forget removes a record. The others keep their places; the caller has to account for the memory.
func (s *shard) forget(place uint32) {
	s.notifyWatchesAt(place)
	s.table.remove(place)
}

// setDeadline sets the deadline of a record, or removes it when at is 0.
func (s *shard) setDeadline(place uint32, at int64) {
	s.notifyWatchesAt(place)
	s.table.setDeadline(place, at)
}

func (s *shard) flush() {
	if s.watches != nil {
		s.table.each(func(place uint32, _ []byte) { s.notifyWatchesAt(place) })
	}
	s.changes += uint64(s.table.count)
	s.table.clear()
	s.found, s.dirty = state{}, nil
	s.account()
}

func (s *shard) notifyWatchesAt(place uint32) {
	if s.watches != nil {
		s.notifyWatches(keyOf(s.table.at(place)))
	}
}

// take decides on quantity of l, and stores the result unless peek is set.
func (s *shard) take(hash uint64, key []byte, l *buckets.Limit, now, quantity int64, peek bool, maxLog int, d *buckets.Decision) error {
	place := s.table.find(hash, key)
	if place != 0 && !peek && s.takeInPlace(place, hash, len(key), l, now, quantity, maxLog, d) {
		return nil
	}
	return s.takeFound(place, hash, key, l, now, quantity, peek, maxLog, d)
}

// takeFound is the general path of take, for a key whose record is at place, or that has none if place is 0.
func (s *shard) takeFound(place uint32, hash uint64, key []byte, l *buckets.Limit, now, quantity int64, peek bool, maxLog int, d *buckets.Decision) error {
	kind := s.loadLive(place, now)
	switch {
	case kind != buckets.None && kind != l.Kind():
		return buckets.ErrWrongKind
	case peek:
		s.found.Peek(l, now, quantity, d)
		return nil
	}
	return s.decide(place, kind, hash, key, l, now, quantity, maxLog, false, d)
}

// decide takes quantity from the state that is loaded into found, and stores the result. With force it stores beyond the
// limit on memory rather than fail with ErrNoMemory.
func (s *shard) decide(place uint32, kind buckets.Kind, hash uint64, key []byte, l *buckets.Limit, now, quantity int64, maxLog int, force bool, d *buckets.Decision) error {
	if quantity > 0 && s.budget.limited() && !s.budget.allows(s.growth(kind, l, now, quantity, len(key))) {
		if s.found.Peek(l, now, quantity, d); d.Limited {
			return nil // a refusal needs no memory
		}
		var err error
		if place, err = s.makeRoom(place, kind, hash, key, l, now, quantity); err != nil && !force {
			*d = buckets.Decision{}
			return err
		}
	}
	if l.Kind().Words() == 0 {
		s.found.Log = &s.found.ring
	}
	did, err := s.found.Take(l, now, quantity, maxLog, d)
	switch {
	case kind != buckets.None:
		s.store(place, kind, now, did)
	case did != buckets.Unchanged && s.found.FullAt() > now:
		s.insertChanged(hash, key, &s.found)
	}
	return err
}

// store writes what a decision changed of an existing record, or deletes the record if the bucket is full.
func (s *shard) store(place uint32, kind buckets.Kind, now int64, did buckets.Effect) {
	if did == buckets.Unchanged {
		if kind.Words() == 0 { // records may have left the window
			s.save(place)
		}
		return
	}
	full := s.found.FullAt()
	if full <= now {
		s.deleteRecord(place)
		return
	}
	if did == buckets.Stored { // a refusal is no change to a watch, not even one that cuts
		s.notifyWatchesAt(place)
	}
	place = s.save(place)
	s.markDirty(place)
	// A stored request drops the deadline; a cut drops it only if the bucket is full before it.
	if at := s.table.deadline(place); at != 0 && (did == buckets.Stored || at >= full) {
		s.table.setDeadline(place, 0)
	}
}

// save writes found to a record, which may move, and returns its place.
func (s *shard) save(place uint32) uint32 {
	place = s.table.save(place, &s.found)
	s.account()
	return place
}
