package memory

import (
	"sync"

	"cellserver/buckets"
)

// shard is one part of the key space: a mutex and what it guards. Every method requires that mu is held.
type shard struct {
	// The fields that every request needs come first. They fit two cache lines, up to the shift of the table.
	mu sync.Mutex
	// latest is the latest time of any decision of this shard. Goroutines may lock the shard in another order than they
	// read the clock, but the time of a shard does not go back.
	latest        int64
	changes       uint64    // number of changes by requests
	tracked       bool      // changed keys are recorded for Changes
	sweepDatabase uint8     // the database with which the next step of a sweep begins
	selected      int32     // number of the database of table
	table         *database // the selected database; lockShard selects that of its store
	zero          database  // database 0

	others    []*database       // the other databases by number; an element is nil until a key of it is stored or watched
	spare     *database         // an empty database, which is selected for one that others does not have; nil until it is needed
	visitedBy [scanKinds]uint64 // number of the last consistent scan of each kind that visited this shard
	found     state             // the last loaded state, or the zero state; its log is valid until the table changes
	expired   uint64
	budget    *budget // budget of the store

	// Memory for the arguments and the result of Take on the general path. They escape in the calls through the table of
	// algorithms, so local variables would be allocated for each request.
	limit    buckets.Limit
	decision buckets.Decision

	// A shard is an odd number of cache lines, so that the hot fields of all shards are spread over all sets of the cache. A field
	// more needs padding.
}

// advance raises the time of the shard to now, unless it is later already, and returns it.
func (s *shard) advance(now int64) int64 {
	s.latest = max(s.latest, now)
	return s.latest
}

// expiry returns when the key at place expires: when its bucket is full, or at its deadline if that is earlier. It
// requires that its state is loaded into found.
func (s *shard) expiry(place uint32, kind buckets.Kind) int64 {
	full := s.found.FullAt()
	if at := s.table.deadline(place); at != 0 {
		return min(full, at)
	}
	return full
}

// findLive finds key and loads its state into found. It removes a key that has expired, and then returns place 0.
func (s *shard) findLive(hash uint64, key []byte, now int64) (place uint32, kind buckets.Kind) {
	place = s.table.find(hash, key)
	return place, s.loadLive(place, now)
}

// loadLive loads the state of the record at place into found. It removes a record that has expired. Without a record,
// which includes place 0, it loads the zero state.
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

// Every change of the table goes through one of the following methods, which notify the watches of the key.

func (s *shard) insert(hash uint64, key []byte, st *state) (place uint32) {
	s.keepSelected()
	if s.table.watches != nil {
		s.notifyWatches(key)
	}
	place = s.table.insert(hash, key, st)
	s.account()
	return place
}

// insertChanged inserts a record on behalf of a request, and lists the change.
func (s *shard) insertChanged(hash uint64, key []byte, st *state) (place uint32) {
	place = s.insert(hash, key, st)
	s.markDirty(place)
	return place
}

// deleteRecord removes a record on behalf of a request, and lists the change.
func (s *shard) deleteRecord(place uint32) {
	s.markDeleted(place)
	s.remove(place)
}

// remove removes a record and compacts the table. Other records may move.
func (s *shard) remove(place uint32) {
	s.forget(place)
	s.found = state{} // release the memory of a log
	s.table.shrink()
	s.table.tidy()
	s.account()
}

// forget removes a record. The other records keep their places. The caller must report the change of memory with account.
func (s *shard) forget(place uint32) {
	s.notifyWatchesAt(place)
	s.table.remove(place)
}

// setDeadline sets the deadline of a record, or removes it when at is 0.
func (s *shard) setDeadline(place uint32, at int64) {
	s.notifyWatchesAt(place)
	s.table.setDeadline(place, at)
}

// flush removes all keys of the selected database.
func (s *shard) flush() {
	if s.table.watches != nil {
		s.table.each(func(place uint32, _ []byte) { s.notifyWatchesAt(place) })
	}
	s.changes += uint64(s.table.count)
	s.table.clear()
	s.found, s.table.dirty = state{}, nil
	s.account()
}

func (s *shard) notifyWatchesAt(place uint32) {
	if s.table.watches != nil {
		s.notifyWatches(keyOf(s.table.at(place)))
	}
}

// take decides on quantity of l, and stores the result unless peek is set.
func (s *shard) take(hash uint64, key []byte, l *buckets.Limit, now, quantity int64, peek bool, maxLog int, d *buckets.Decision) error {
	place := s.near().find(hash, key)
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

// decide takes quantity from the state in found and stores the result. With force it exceeds the limit on memory instead
// of failing with ErrNoMemory.
func (s *shard) decide(place uint32, kind buckets.Kind, hash uint64, key []byte, l *buckets.Limit, now, quantity int64, maxLog int, force bool, d *buckets.Decision) error {
	if quantity > 0 && s.budget.limited() && !s.budget.allows(s.growth(kind, l, now, quantity, len(key))) {
		if s.found.Peek(l, now, quantity, d); d.Limited {
			return nil // the request is refused, which needs no memory
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

// store writes the change of a decision to an existing record, or deletes the record if the bucket is full.
func (s *shard) store(place uint32, kind buckets.Kind, now int64, did buckets.Effect) {
	if did == buckets.Unchanged {
		if kind.Words() == 0 { // the decision may have dropped records that have left the window
			s.save(place)
		}
		return
	}
	full := s.found.FullAt()
	if full <= now {
		s.deleteRecord(place)
		return
	}
	if did == buckets.Stored { // a refusal does not notify watches, even if it cuts the state
		s.notifyWatchesAt(place)
	}
	place = s.save(place)
	s.markDirty(place)
	// A request that is stored removes the deadline. A cut removes it only if the bucket is then full before it.
	if at := s.table.deadline(place); at != 0 && (did == buckets.Stored || at >= full) {
		s.table.setDeadline(place, 0)
	}
}

// save writes found to a record, which may move, and returns the place of the record.
func (s *shard) save(place uint32) uint32 {
	place = s.table.save(place, &s.found)
	s.account()
	return place
}
