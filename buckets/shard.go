package buckets

import "sync"

// shard is one part of the key space: a mutex and what it guards. Every method but at requires that mu is held.
type shard struct {
	mu sync.Mutex
	// latest is the latest time decided at. Two connections may bring their clock readings in the other order than
	// they come to the lock; a shard's time only goes forward.
	latest  int64
	table   table
	fresh   state // what a decision on a key that does not exist is made on
	hand    int   // where the sweep goes on
	expired uint64
	_       [40]byte // keeps the locks of neighbours on different cache lines
}

// at lifts the shard's time to now and returns it.
func (s *shard) at(now int64) int64 {
	s.latest = max(s.latest, now)
	return s.latest
}

// expiry returns when entry i is forgotten: when its bucket is full, or at its deadline if that is earlier.
func (s *shard) expiry(i int) int64 {
	e := &s.table.entries[i]
	full := algorithms[e.kind].full(&e.state)
	if e.deadline {
		return min(full, s.table.deadlines[e.key])
	}
	return full
}

// live finds the entry of key, and forgets it if its time has come.
func (s *shard) live(key []byte, now int64) (int, bool) {
	i, ok := s.table.find(key)
	if ok && s.forget(i, now) {
		return 0, false
	}
	return i, ok
}

// forget removes entry i if it has expired.
func (s *shard) forget(i int, now int64) bool {
	if s.expiry(i) > now {
		return false
	}
	s.table.remove(i)
	s.expired++
	return true
}

// take decides on one request and keeps what comes of it.
func (s *shard) take(key []byte, l Limit, now, quantity int64, peek bool, maxLog int) (Decision, error) {
	i, found := s.live(key, now)
	st := &s.fresh
	if found {
		e := &s.table.entries[i]
		if e.kind != l.kind {
			return Decision{}, ErrWrongKind
		}
		st = &e.state
	}
	a := &algorithms[l.kind]
	if peek {
		return a.peek(st, l, now, quantity), nil
	}
	held := a.bytes(st)
	d, did, err := a.take(st, l, now, quantity, maxLog)
	s.table.bytes += a.bytes(st) - held
	if did != unchanged {
		s.keep(i, found, key, l.kind, now, did)
	}
	if !found {
		s.fresh = state{} // a bucket that was kept is the table's now
	}
	return d, err
}

// keep puts what a decision changed into the table: a new entry, a changed one, or none where the bucket is full.
func (s *shard) keep(i int, found bool, key []byte, kind Kind, now int64, did effect) {
	if !found {
		if algorithms[kind].full(&s.fresh) > now {
			s.table.insert(key, kind, s.fresh)
		}
		return
	}
	e := &s.table.entries[i]
	full := algorithms[kind].full(&e.state)
	if full <= now {
		s.table.remove(i)
		return
	}
	// A stored request drops the deadline; a cut only drops one that it has overtaken.
	if e.deadline && (did == stored || s.table.deadlines[e.key] >= full) {
		s.table.setDeadline(i, 0)
	}
}
