package buckets

import "sync"

// shard is one part of the key space: a mutex and what it guards. Every method requires that mu is held.
type shard struct {
	mu sync.Mutex
	// latest is the latest time decided at. Two connections may bring their clock readings in the other order than
	// they come to the lock; a shard's time only goes forward.
	latest  int64
	found   state // of the key that live found last, or the zero state
	table   table
	hand    int // the slot at which the sweep goes on
	expired uint64
	watches map[string]map[*Watch]struct{} // by key; nil while nobody watches
	budget  *budget                        // the store's
	counted int                            // bytes that the budget knows of
}

// at lifts the shard's time to now and returns it.
func (s *shard) at(now int64) int64 {
	s.latest = max(s.latest, now)
	return s.latest
}

// expiry returns when the bucket of a slot, whose state has been loaded into found, is forgotten: when it is full, or
// at its deadline if that is earlier.
func (s *shard) expiry(slot int, kind Kind) int64 {
	full := s.found.full(kind)
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
	s.remove(slot)
	s.expired++
}

// Every change of the table goes through one of the following, so that those who watch a key are told.

func (s *shard) insert(hash uint64, key []byte, kind Kind, st *state) (slot int) {
	if s.watches != nil {
		s.touch(key)
	}
	slot = s.table.insert(hash, key, kind, st)
	s.account()
	return slot
}

func (s *shard) remove(slot int) {
	s.touchSlot(slot)
	s.table.remove(slot)
	s.account()
}

// setDeadline sets the deadline of a slot, or removes it when at is 0.
func (s *shard) setDeadline(slot int, at int64) {
	s.touchSlot(slot)
	s.table.setDeadline(slot, at)
}

func (s *shard) flush() {
	for slot, content := range s.table.index {
		if s.watches == nil {
			break
		}
		if content != 0 {
			s.touchSlot(slot)
		}
	}
	s.table = table{moves: s.table.moves + 1}
	s.account()
}

func (s *shard) touchSlot(slot int) {
	if s.watches != nil {
		s.touch(s.table.key(slot))
	}
}

// take decides on one request and keeps what comes of it.
func (s *shard) take(hash uint64, key []byte, l *Limit, now, quantity int64, peek bool, maxLog int, d *Decision) error {
	slot, kind := s.live(hash, key, now)
	switch {
	case kind != None && kind != l.kind:
		return ErrWrongKind
	case peek:
		s.found.peek(l, now, quantity, d)
		return nil
	}
	return s.decide(slot, kind, hash, key, l, now, quantity, maxLog, false, d)
}

// decide takes quantity of what has been loaded into found, and keeps what comes of it. When it is sure that it must, it
// does so even beyond what may be allocated.
func (s *shard) decide(slot int, kind Kind, hash uint64, key []byte, l *Limit, now, quantity int64, maxLog int, sure bool, d *Decision) error {
	if quantity > 0 && !s.budget.allows(s.growth(kind, l.kind, len(key))) {
		if s.found.peek(l, now, quantity, d); d.Limited {
			return nil // and needs nothing
		}
		var err error
		if slot, err = s.makeRoom(slot, kind, hash, key, l.kind, now); err != nil && !sure {
			*d = Decision{}
			return err
		}
	}
	held := s.found.bytes(l.kind)
	did, err := s.found.take(l, now, quantity, maxLog, d)
	switch {
	case kind != None:
		if now := s.found.bytes(kind); now != held {
			s.table.logBytes += now - held
			s.account()
		}
		s.keep(slot, kind, now, did)
	case did != unchanged && s.found.full(l.kind) > now:
		s.insert(hash, key, l.kind, &s.found)
	}
	return err
}

// keep stores what a decision changed of a bucket that was there, or forgets it if it is full.
func (s *shard) keep(slot int, kind Kind, now int64, did effect) {
	if did == unchanged {
		return
	}
	full := s.found.full(kind)
	if full <= now {
		s.remove(slot)
		return
	}
	if did == stored { // a refusal is no change to those who watch, not even one that cuts
		s.touchSlot(slot)
	}
	s.table.save(slot, &s.found)
	// A stored request drops the deadline; a cut only drops one that it has overtaken.
	if at := s.table.deadline(slot); at != 0 && (did == stored || at >= full) {
		s.table.setDeadline(slot, 0)
	}
}
