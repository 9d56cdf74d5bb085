package buckets

import "sync"

// shard is one part of the key space: a mutex and what it guards. Every method but those that say so requires that mu
// is held.
type shard struct {
	mu sync.Mutex
	// latest is the latest time decided at. Two connections may bring their clock readings in the other order than
	// they come to the lock; a shard's time only goes forward.
	latest  int64
	found   state // of the key that live found last, or the zero state
	table   table
	hand    int // the slot at which the sweep goes on
	expired uint64
}

// at lifts the shard's time to now and returns it.
func (s *shard) at(now int64) int64 {
	s.latest = max(s.latest, now)
	return s.latest
}

// expiry returns when the bucket of a slot, whose state has been loaded into found, is forgotten: when it is full, or
// at its deadline if that is earlier.
func (s *shard) expiry(slot int, kind Kind) int64 {
	full := algorithms[kind].full(&s.found)
	if at := s.table.deadline(slot); at != 0 {
		return min(full, at)
	}
	return full
}

// live finds key and loads its state into found, or forgets it if its time has come.
func (s *shard) live(hash uint64, key []byte, now int64) (slot int, kind Kind) {
	if slot, ok := s.table.find(hash, key); ok {
		if kind := s.look(slot); s.expiry(slot, kind) > now {
			return slot, kind
		}
		s.expire(slot)
	}
	s.found = state{}
	return 0, None
}

// look loads the state of a slot into found.
func (s *shard) look(slot int) Kind {
	s.found = state{}
	return s.table.load(slot, &s.found)
}

func (s *shard) expire(slot int) {
	s.table.remove(slot)
	s.expired++
}

// take decides on one request and keeps what comes of it.
func (s *shard) take(hash uint64, key []byte, l Limit, now, quantity int64, peek bool, maxLog int) (Decision, error) {
	slot, kind := s.live(hash, key, now)
	if kind != None && kind != l.kind {
		return Decision{}, ErrWrongKind
	}
	a := &algorithms[l.kind]
	if peek {
		return a.peek(&s.found, l, now, quantity), nil
	}
	held := a.bytes(&s.found)
	d, did, err := a.take(&s.found, l, now, quantity, maxLog)
	if did != unchanged && kind == None {
		if a.full(&s.found) > now {
			s.table.insert(hash, key, l.kind, &s.found)
		}
		return d, err
	}
	if kind != None {
		s.table.logBytes += a.bytes(&s.found) - held
		s.keep(slot, l.kind, now, did)
	}
	return d, err
}

// keep stores what a decision changed of a bucket that was there, or forgets it if it is full.
func (s *shard) keep(slot int, kind Kind, now int64, did effect) {
	if did == unchanged {
		return
	}
	full := algorithms[kind].full(&s.found)
	if full <= now {
		s.table.remove(slot)
		return
	}
	s.table.save(slot, &s.found)
	// A stored request drops the deadline; a cut only drops one that it has overtaken.
	if at := s.table.deadline(slot); at != 0 && (did == stored || at >= full) {
		s.table.setDeadline(slot, 0)
	}
}
