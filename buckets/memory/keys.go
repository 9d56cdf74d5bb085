package memory

import "cellserver/buckets"

// Stat describes key. It returns false if the key does not exist.
func (s *Store) Stat(now int64, key []byte) (buckets.Info, bool) {
	hash, sh := s.lockKey(key)
	defer s.unlockShard(sh)
	now = sh.advance(now)
	place, kind := sh.findLive(hash, key, now)
	if kind == buckets.None {
		return buckets.Info{}, false
	}
	return sh.info(place, kind, now), true
}

func (s *shard) info(place uint32, kind buckets.Kind, now int64) buckets.Info {
	held := 4 + unit*unitsOf(s.table.at(place))
	return buckets.Info{Kind: kind, Now: now, Expiry: s.expiry(place, kind), Bytes: int64(held)}
}

// Get returns the contents of key. It returns false if the key does not exist.
func (s *Store) Get(now int64, key []byte) (buckets.Contents, bool) {
	hash, sh := s.lockKey(key)
	defer s.unlockShard(sh)
	now = sh.advance(now)
	place, kind := sh.findLive(hash, key, now)
	if kind == buckets.None {
		return buckets.Contents{}, false
	}
	c := buckets.Contents{
		Info: sh.info(place, kind, now), Deadline: sh.table.deadline(place), Fields: sh.found.AppendFields(nil, now),
	}
	if kind.KeepsExpiry() && c.Expiry != buckets.NoExpiry {
		c.Deadline = c.Expiry
	}
	return c, true
}

// Delete deletes key, and reports whether it existed.
func (s *Store) Delete(now int64, key []byte) bool {
	hash, sh := s.lockKey(key)
	defer s.unlockShard(sh)
	place, kind := sh.findLive(hash, key, sh.advance(now))
	if kind == buckets.None {
		return false
	}
	sh.deleteRecord(place)
	return true
}

// ExpireAt sets the deadline of key: the time at which it expires even if its bucket is not full. A deadline not after
// now deletes the key. A deadline not before the time at which the bucket is full leaves the key without one. ExpireAt
// reports whether the key exists and the condition allows the deadline. The deadline of a key that keeps its expiry
// replaces that.
func (s *Store) ExpireAt(now int64, key []byte, at int64, c buckets.Condition) bool {
	hash, sh := s.lockKey(key)
	defer s.unlockShard(sh)
	now = sh.advance(now)
	place, kind := sh.findLive(hash, key, now)
	if kind == buckets.None || !c.Allows(at, sh.expiry(place, kind)) {
		return false
	}
	switch {
	case at <= now:
		sh.deleteRecord(place)
	case kind.KeepsExpiry():
		sh.keepUntil(place, at)
	case at >= sh.found.FullAt():
		sh.setDeadline(place, 0)
		sh.markDirty(place)
	default:
		sh.setDeadline(place, at)
		sh.markDirty(place)
	}
	return true
}

// keepUntil sets the expiry in the state that is loaded into found, of the record at place. It requires a kind that keeps its
// expiry.
func (s *shard) keepUntil(place uint32, at int64) {
	s.notifyWatchesAt(place)
	s.found.SetExpiry(at)
	s.markDirty(s.save(place))
}

// Persist removes the deadline that ExpireAt has set, or the expiry of a key that keeps it. It reports whether there was one.
func (s *Store) Persist(now int64, key []byte) bool {
	hash, sh := s.lockKey(key)
	defer s.unlockShard(sh)
	place, kind := sh.findLive(hash, key, sh.advance(now))
	switch {
	case kind.KeepsExpiry() && sh.found.Expiry() != buckets.NoExpiry:
		sh.keepUntil(place, buckets.NoExpiry)
		return true
	case kind == buckets.None || sh.table.deadline(place) == 0:
		return false
	}
	sh.setDeadline(place, 0)
	sh.markDirty(place)
	return true
}

// Rename moves the state and the deadline of from to the key to, and replaces the contents of to. With ifFree it does
// nothing if to exists. It reports whether it has renamed the key. It returns buckets.ErrNoKey if from does not exist.
func (s *Store) Rename(now int64, from, to []byte, ifFree bool) (bool, error) {
	fromHash, p := s.locate(from)
	toHash, q := s.locate(to)
	defer s.unlockShard(s.lockShard(min(p, q)))
	if p != q {
		defer s.unlockShard(s.lockShard(max(p, q)))
	}
	src, dst := &s.shards[p], &s.shards[q]
	now = src.advance(dst.advance(now))
	dst.advance(now)
	if p != q {
		s.completeVisit([]int32{int32(p), int32(q)})
	}

	if _, kind := src.findLive(fromHash, from, now); kind == buckets.None {
		return false, buckets.ErrNoKey
	}
	if string(from) == string(to) {
		return !ifFree, nil
	}
	if place, kind := dst.findLive(toHash, to, now); kind != buckets.None {
		if ifFree {
			return false, nil
		}
		dst.deleteRecord(place)
	}
	place, _ := src.findLive(fromHash, from, now) // the deletion may have moved the record
	var moved state
	moved.detach(&src.found)
	deadline := src.table.deadline(place)
	src.deleteRecord(place)
	place = dst.insert(toHash, to, &moved)
	if deadline != 0 {
		dst.setDeadline(place, deadline)
	}
	dst.markDirty(place)
	return true, nil
}
