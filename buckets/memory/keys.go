package memory

import (
	"bytes"

	"cellserver/buckets"
)

// Stat describes key, or reports that there is no such key.
func (s *Store) Stat(now int64, key []byte) (buckets.Info, bool) {
	hash, sh := s.lock(key)
	defer s.leave(sh)
	now = sh.at(now)
	place, kind := sh.live(hash, key, now)
	if kind == buckets.None {
		return buckets.Info{}, false
	}
	return sh.info(place, kind, now), true
}

func (s *shard) info(place uint32, kind buckets.Kind, now int64) buckets.Info {
	held := 4 + unit*unitsOf(s.table.at(place))
	return buckets.Info{Kind: kind, Now: now, Expiry: s.expiry(place, kind), Bytes: int64(held)}
}

// Get returns what key holds, or reports that there is no such key.
func (s *Store) Get(now int64, key []byte) (buckets.Contents, bool) {
	hash, sh := s.lock(key)
	defer s.leave(sh)
	now = sh.at(now)
	place, kind := sh.live(hash, key, now)
	if kind == buckets.None {
		return buckets.Contents{}, false
	}
	return buckets.Contents{
		Info: sh.info(place, kind, now), Deadline: sh.table.deadline(place), Fields: sh.found.AppendFields(nil, now),
	}, true
}

// Delete forgets key, and reports whether there was one.
func (s *Store) Delete(now int64, key []byte) bool {
	hash, sh := s.lock(key)
	defer s.leave(sh)
	place, kind := sh.live(hash, key, sh.at(now))
	if kind == buckets.None {
		return false
	}
	sh.discard(place)
	return true
}

// ExpireAt sets the time at which the whole bucket is forgotten, full or not. A time not after now forgets it at once;
// one not before the bucket is full leaves no deadline. It reports whether there was such a key and the condition
// allowed it.
func (s *Store) ExpireAt(now int64, key []byte, at int64, c buckets.Condition) bool {
	hash, sh := s.lock(key)
	defer s.leave(sh)
	now = sh.at(now)
	place, kind := sh.live(hash, key, now)
	if kind == buckets.None || !c.Allows(at, sh.expiry(place, kind)) {
		return false
	}
	switch {
	case at <= now:
		sh.discard(place)
	case at >= sh.found.FullAt():
		sh.setDeadline(place, 0)
		sh.note(place)
	default:
		sh.setDeadline(place, at)
		sh.note(place)
	}
	return true
}

// Persist removes the deadline that ExpireAt set, and reports whether there was one.
func (s *Store) Persist(now int64, key []byte) bool {
	hash, sh := s.lock(key)
	defer s.leave(sh)
	place, kind := sh.live(hash, key, sh.at(now))
	if kind == buckets.None || sh.table.deadline(place) == 0 {
		return false
	}
	sh.setDeadline(place, 0)
	sh.note(place)
	return true
}

// Rename gives the bucket of from, its state and its deadline, to the key to, whose own bucket is forgotten. With
// ifFree it does nothing when to exists. It reports whether it renamed; buckets.ErrNoKey says that there is no from.
func (s *Store) Rename(now int64, from, to []byte, ifFree bool) (bool, error) {
	fromHash, p := s.locate(from)
	toHash, q := s.locate(to)
	defer s.leave(s.enter(min(p, q)))
	if p != q {
		defer s.leave(s.enter(max(p, q)))
	}
	src, dst := &s.shards[p], &s.shards[q]
	now = src.at(dst.at(now))
	dst.at(now)
	if p != q {
		s.settle([]int32{int32(p), int32(q)})
	}

	if _, kind := src.live(fromHash, from, now); kind == buckets.None {
		return false, buckets.ErrNoKey
	}
	if string(from) == string(to) {
		return !ifFree, nil
	}
	if place, kind := dst.live(toHash, to, now); kind != buckets.None {
		if ifFree {
			return false, nil
		}
		dst.discard(place)
	}
	place, kind := src.live(fromHash, from, now) // the removal may have moved it
	moved, deadline := src.found, src.table.deadline(place)
	if kind.Words() == 0 {
		moved.ring.memory = bytes.Clone(moved.ring.memory)
		moved.Log = &moved.ring
		moved.ring.fresh = allFresh // under its new name
	}
	src.discard(place)
	place = dst.insert(toHash, to, &moved)
	if deadline != 0 {
		dst.setDeadline(place, deadline)
	}
	dst.note(place)
	return true, nil
}
