package buckets

import "bytes"

// Info is what can be said of a key whatever its kind. Times are nanoseconds of Unix time.
type Info struct {
	Kind   Kind
	Now    int64 // the time it was looked at
	Expiry int64 // when it is forgotten
	Bytes  int64 // that it holds in memory
}

// Stat describes key, or reports that there is no such key.
func (s *Store) Stat(now int64, key []byte) (Info, bool) {
	hash, sh := s.lock(key)
	defer s.leave(sh)
	now = sh.at(now)
	place, kind := sh.live(hash, key, now)
	if kind == None {
		return Info{}, false
	}
	return sh.info(place, kind, now), true
}

func (s *shard) info(place uint32, kind Kind, now int64) Info {
	held := 4 + unit*unitsOf(s.table.at(place))
	return Info{Kind: kind, Now: now, Expiry: s.expiry(place, kind), Bytes: int64(held)}
}

// Contents is what a key holds, for people who look into it. Times are nanoseconds of Unix time. Which of the fields
// below Deadline mean something is the Kind's to say.
type Contents struct {
	Info
	Deadline int64 // that ExpireAt set; 0 is none

	TAT              int64 // Throttle
	Start, End, Used int64 // Window
	Records, Sum     int64 // Slide: admissions that have not left, and their quantities
	Oldest, Newest   int64 // Slide: when the first and the last of them were made
}

// Get returns what key holds, or reports that there is no such key.
func (s *Store) Get(now int64, key []byte) (Contents, bool) {
	hash, sh := s.lock(key)
	defer s.leave(sh)
	now = sh.at(now)
	place, kind := sh.live(hash, key, now)
	if kind == None {
		return Contents{}, false
	}
	st := &sh.found
	c := Contents{Info: sh.info(place, kind, now), Deadline: sh.table.deadline(place)}
	switch kind {
	case Throttle:
		c.TAT = st.tat
	case Window:
		c.Start, c.End, c.Used = st.window.Start, st.window.End, st.window.Used
	case Slide:
		g := &st.log
		first, n := gone(g, now, g.Period()), g.Len()
		c.Records, c.Sum = int64(n-first), int64(g.Before(n)-g.Before(first))
		c.Oldest, c.Newest = g.Time(first), g.Time(n-1)
	}
	return c, true
}

// Delete forgets key, and reports whether there was one.
func (s *Store) Delete(now int64, key []byte) bool {
	hash, sh := s.lock(key)
	defer s.leave(sh)
	place, kind := sh.live(hash, key, sh.at(now))
	if kind == None {
		return false
	}
	sh.discard(place)
	return true
}

// Condition says when ExpireAt may set a deadline, judged by the expiry that is shown (Info.Expiry, rounded up to
// milliseconds) and by the one that would be: the same EXPIRE twice is neither later nor earlier. A key always has one.
// Conditions may be combined.
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
	asked := CeilDiv(max(at, 0), millisecond)
	return c&IfNone == 0 &&
		(c&IfLater == 0 || asked > shown) &&
		(c&IfEarlier == 0 || asked < shown)
}

// ExpireAt sets the time at which the whole bucket is forgotten, full or not. A time not after now forgets it at once;
// one not before the bucket is full leaves no deadline. It reports whether there was such a key and the condition
// allowed it.
func (s *Store) ExpireAt(now int64, key []byte, at int64, c Condition) bool {
	hash, sh := s.lock(key)
	defer s.leave(sh)
	now = sh.at(now)
	place, kind := sh.live(hash, key, now)
	if kind == None || !c.allows(at, sh.expiry(place, kind)) {
		return false
	}
	switch {
	case at <= now:
		sh.discard(place)
	case at >= sh.found.full(kind):
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
	if kind == None || sh.table.deadline(place) == 0 {
		return false
	}
	sh.setDeadline(place, 0)
	sh.note(place)
	return true
}

// Rename gives the bucket of from, its state and its deadline, to the key to, whose own bucket is forgotten. With
// ifFree it does nothing when to exists. It reports whether it renamed; ErrNoKey says that there is no from.
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

	if _, kind := src.live(fromHash, from, now); kind == None {
		return false, ErrNoKey
	}
	if string(from) == string(to) {
		return !ifFree, nil
	}
	if place, kind := dst.live(toHash, to, now); kind != None {
		if ifFree {
			return false, nil
		}
		dst.discard(place)
	}
	place, kind := src.live(fromHash, from, now) // the removal may have moved it
	moved, deadline := src.found, src.table.deadline(place)
	moved.log.memory = bytes.Clone(moved.log.memory)
	moved.log.fresh = allFresh // under its new name
	src.discard(place)
	place = dst.insert(toHash, to, kind, &moved)
	if deadline != 0 {
		dst.setDeadline(place, deadline)
	}
	dst.note(place)
	return true, nil
}
