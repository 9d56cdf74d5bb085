package buckets

// Info is what can be said of a key whatever its kind. Times are nanoseconds of Unix time.
type Info struct {
	Kind   Kind
	Now    int64 // the time it was looked at
	Expiry int64 // when it is forgotten
	Bytes  int64 // that it holds in memory
}

// Stat describes key, or reports that there is no such key.
func (s *Store) Stat(now int64, key []byte) (Info, bool) {
	sh := s.shard(key)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	now = sh.at(now)
	i, ok := sh.live(key, now)
	if !ok {
		return Info{}, false
	}
	e := &sh.table.entries[i]
	held := entryBytes + len(e.key) + algorithms[e.kind].bytes(&e.state)
	return Info{Kind: e.kind, Now: now, Expiry: sh.expiry(i), Bytes: int64(held)}, true
}

// Delete forgets key, and reports whether there was one.
func (s *Store) Delete(now int64, key []byte) bool {
	sh := s.shard(key)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	i, ok := sh.live(key, sh.at(now))
	if ok {
		sh.table.remove(i)
	}
	return ok
}

// Condition says when ExpireAt may set a deadline, judged by the expiry that is shown (Info.Expiry, rounded up to
// milliseconds). A key always has one. Conditions may be combined.
type Condition uint8

// The conditions of EXPIRE and its kin.
const (
	IfNone    Condition = 1 << iota // NX: only a key that has no expiry, so no key at all
	IfSome                          // XX: only a key that has one, so every key
	IfLater                         // GT: only when the deadline is later than the expiry
	IfEarlier                       // LT: only when the deadline is earlier than the expiry
)

const millisecond int64 = 1e6

func (c Condition) allows(at, expiry int64) bool {
	shown := CeilDiv(expiry, millisecond)
	asked := floorDiv(at, millisecond)
	return c&IfNone == 0 &&
		(c&IfLater == 0 || asked > shown) &&
		(c&IfEarlier == 0 || asked < shown)
}

// ExpireAt sets the time at which the whole bucket is forgotten, full or not. A time not after now forgets it at once;
// one not before the bucket is full leaves no deadline. It reports whether there was such a key and the condition
// allowed it.
func (s *Store) ExpireAt(now int64, key []byte, at int64, c Condition) bool {
	sh := s.shard(key)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	now = sh.at(now)
	i, ok := sh.live(key, now)
	if !ok || !c.allows(at, sh.expiry(i)) {
		return false
	}
	e := &sh.table.entries[i]
	switch {
	case at <= now:
		sh.table.remove(i)
	case at >= algorithms[e.kind].full(&e.state):
		sh.table.setDeadline(i, 0)
	default:
		sh.table.setDeadline(i, at)
	}
	return true
}

// Persist removes the deadline that ExpireAt set, and reports whether there was one.
func (s *Store) Persist(now int64, key []byte) bool {
	sh := s.shard(key)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	i, ok := sh.live(key, sh.at(now))
	if !ok || !sh.table.entries[i].deadline {
		return false
	}
	sh.table.setDeadline(i, 0)
	return true
}

// Rename gives the bucket of from, its state and its deadline, to the key to, whose own bucket is forgotten. With
// ifFree it does nothing when to exists. It reports whether it renamed; ErrNoKey says that there is no from.
func (s *Store) Rename(now int64, from, to []byte, ifFree bool) (bool, error) {
	p, q := s.place(from), s.place(to)
	s.shards[min(p, q)].mu.Lock()
	defer s.shards[min(p, q)].mu.Unlock()
	if p != q {
		s.shards[max(p, q)].mu.Lock()
		defer s.shards[max(p, q)].mu.Unlock()
	}
	src, dst := &s.shards[p], &s.shards[q]
	now = src.at(dst.at(now))
	dst.at(now)

	i, ok := src.live(from, now)
	if !ok {
		return false, ErrNoKey
	}
	if string(from) == string(to) {
		return !ifFree, nil
	}
	if j, taken := dst.live(to, now); taken {
		if ifFree {
			return false, nil
		}
		dst.table.remove(j)
		i, _ = src.table.find(from) // the removal may have moved it
	}
	moved := src.table.entries[i]
	deadline := src.table.deadlines[moved.key]
	src.table.remove(i)
	dst.table.insert(to, moved.kind, moved.state)
	dst.table.bytes += algorithms[moved.kind].bytes(&moved.state)
	if moved.deadline {
		dst.table.setDeadline(len(dst.table.entries)-1, deadline)
	}
	return true, nil
}
