package memory

import (
	"sync"

	"cellserver/buckets"
)

// shard is one part of the key space: a mutex and what it guards. Every method requires that mu is held.
type shard struct {
	// What every request needs comes first, to be in two lines of the cache: that is all down to the shift of the table.
	mu sync.Mutex
	// latest is the latest time decided at. Two connections may bring their clock readings in the other order than
	// they come to the lock; a shard's time only goes forward.
	latest  int64
	changes uint64                         // that were stored
	watches map[string]map[*watch]struct{} // by key; nil while nobody watches
	tracked bool                           // changes are noted
	table   table

	dirty      []byte            // the keys that are noted, each behind its length (uvarint)
	visitedBy  [scanKinds]uint64 // the last pass of each kind that has seen this shard
	found      state             // of the key that live found last, or the zero state; a log only until the table changes
	sweepBlock int               // the block at which the sweep goes on
	expired    uint64
	budget     *budget // the store's
	counted    int     // bytes that the budget knows of

	_ [16]byte // a whole number of lines, and an odd one: what every request needs of all shards spreads over the cache
}

// at lifts the shard's time to now and returns it.
func (s *shard) advance(now int64) int64 {
	s.latest = max(s.latest, now)
	return s.latest
}

// expiry returns when the bucket at place, whose state has been loaded into found, is forgotten: when it is full, or at
// its deadline if that is earlier.
func (s *shard) expiry(place uint32, kind buckets.Kind) int64 {
	full := s.found.FullAt()
	if at := s.table.deadline(place); at != 0 {
		return min(full, at)
	}
	return full
}

// live finds key and loads its state into found, or forgets it if its time has come.
func (s *shard) findLive(hash uint64, key []byte, now int64) (place uint32, kind buckets.Kind) {
	place = s.table.find(hash, key)
	return place, s.loadLive(place, now)
}

// alive loads the state of what find has found into found, or forgets it if its time has come.
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

// look loads the state of a record into found.
func (s *shard) load(place uint32) buckets.Kind { return s.table.load(place, &s.found) }

func (s *shard) expire(place uint32) {
	s.remove(place)
	s.expired++
}

// Every change of the table goes through one of the following, so that those who watch a key are told.

func (s *shard) insert(hash uint64, key []byte, st *state) (place uint32) {
	if s.watches != nil {
		s.notifyWatches(key)
	}
	place = s.table.insert(hash, key, st)
	s.account()
	return place
}

// add inserts what a request has stored.
func (s *shard) insertChanged(hash uint64, key []byte, st *state) (place uint32) {
	place = s.insert(hash, key, st)
	s.markDirty(place)
	return place
}

// discard removes what a request has made superfluous.
func (s *shard) deleteRecord(place uint32) {
	s.markDeleted(place)
	s.remove(place)
}

// remove forgets a record. Others may be elsewhere afterwards.
func (s *shard) remove(place uint32) {
	s.forget(place)
	s.found = state{} // it may hold the memory of a log
	s.table.shrink()
	s.table.tidy()
	s.account()
}

// forget forgets a record and leaves the others where they are. What it has freed is not accounted for.
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

// take decides on one request and keeps what comes of it.
func (s *shard) take(hash uint64, key []byte, l *buckets.Limit, now, quantity int64, peek bool, maxLog int, d *buckets.Decision) error {
	place := s.table.find(hash, key)
	if place != 0 && !peek && s.takeInPlace(place, hash, len(key), l, now, quantity, maxLog, d) {
		return nil
	}
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

// decide takes quantity of what has been loaded into found, and keeps what comes of it. When it is sure that it must, it
// does so even beyond what may be allocated.
func (s *shard) decide(place uint32, kind buckets.Kind, hash uint64, key []byte, l *buckets.Limit, now, quantity int64, maxLog int, force bool, d *buckets.Decision) error {
	if quantity > 0 && s.budget.limited() && !s.budget.allows(s.growth(kind, l, now, quantity, len(key))) {
		if s.found.Peek(l, now, quantity, d); d.Limited {
			return nil // and needs nothing
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

// keep stores what a decision changed of a bucket that was there, or forgets it if it is full.
func (s *shard) store(place uint32, kind buckets.Kind, now int64, did buckets.Effect) {
	if did == buckets.Unchanged {
		if kind.Words() == 0 { // it may have forgotten what has left
			s.save(place)
		}
		return
	}
	full := s.found.FullAt()
	if full <= now {
		s.deleteRecord(place)
		return
	}
	if did == buckets.Stored { // a refusal is no change to those who watch, not even one that cuts
		s.notifyWatchesAt(place)
	}
	place = s.save(place)
	s.markDirty(place)
	// A stored request drops the deadline; a cut only drops one that it has overtaken.
	if at := s.table.deadline(place); at != 0 && (did == buckets.Stored || at >= full) {
		s.table.setDeadline(place, 0)
	}
}

// save writes found into a record and returns where it is then.
func (s *shard) save(place uint32) uint32 {
	place = s.table.save(place, &s.found)
	s.account()
	return place
}
