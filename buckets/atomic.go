package buckets

import (
	"runtime"
	"slices"
)

// MaxChecks is the most checks that one TakeAll decides on.
const MaxChecks = 64

// Check is one of several limits that are asked at once.
type Check struct {
	Key      []byte
	Limit    Limit
	Quantity int64

	// Where the key is, as TakeAll finds it; kept here so that it need not be kept again beside the checks.
	hash  uint64
	shard int32
	place uint32
	moves uint32 // of the shard's table when it was found there
	found Kind
}

// lockSet is the shards that one operation needs.
type lockSet struct {
	n      int
	shards [MaxChecks]int32
}

// add adds a shard, keeping the order of the locks and each shard once.
func (l *lockSet) add(shard int32) {
	i := l.n
	for i > 0 && l.shards[i-1] > shard {
		i--
	}
	if i > 0 && l.shards[i-1] == shard {
		return
	}
	copy(l.shards[i+1:l.n+1], l.shards[i:l.n])
	l.shards[i] = shard
	l.n++
}

// lift brings the shards, which are locked, to the latest of now and their times, and returns it.
func (s *Store) lift(now int64, shards []int32) int64 {
	for _, n := range shards {
		now = s.shards[n].at(now)
	}
	for _, n := range shards {
		s.shards[n].at(now)
	}
	return now
}

// TakeAll takes every check, or none if one of them is refused; with peek it only looks. Nobody sees the state in
// between. The keys must differ, and answers have room for each check.
//
// When all are admitted it returns 0 and the answers of taking them; otherwise the answers of looking at each, and the
// number, counted from 1, of the one that refuses for longest: the first of equals, and one that can never be admitted
// before all others. Nothing is taken then, but every TAT that is beyond its limit is cut to it, unless it only looks.
// Its errors are ErrWrongKind, ErrLogFull and ErrNoMemory; nothing has changed then.
func (s *Store) TakeAll(now int64, checks []Check, peek bool, answers []Decision) (which int, err error) {
	var locks lockSet
	for i := range checks {
		hash, n := s.locate(checks[i].Key)
		checks[i].hash, checks[i].shard = hash, int32(n)
		locks.add(int32(n))
	}
	for _, n := range locks.shards[:locks.n] {
		s.enter(int(n))
	}
	defer func() {
		for _, n := range locks.shards[:locks.n] {
			s.leave(&s.shards[n])
		}
	}()
	now = s.lift(now, locks.shards[:locks.n])
	if locks.n > 1 && !s.held {
		s.settle(locks.shards[:locks.n])
	}
	maxLog := int(s.maxLog.Load())
	var near byte // kept alive, or it would not be read at all
	for i := range checks {
		near |= s.shards[checks[i].shard].table.touch(checks[i].hash)
	}
	runtime.KeepAlive(near)

	full, needs := false, false
	for i := range checks {
		c, sh := &checks[i], &s.shards[checks[i].shard]
		place, kind := sh.live(c.hash, c.Key, now)
		if kind != None && kind != c.Limit.kind {
			return 0, ErrWrongKind
		}
		c.place, c.found, c.moves = place, kind, sh.table.moves
		sh.found.peek(&c.Limit, now, c.Quantity, &answers[i])
		if answers[i].Limited {
			if which == 0 || answers[i].longer(&answers[which-1]) {
				which = i + 1
			}
			continue
		}
		full = full || !sh.found.fits(&c.Limit, now, c.Quantity, maxLog)
		needs = needs || c.Quantity > 0 && !s.budget.allows(sh.growth(kind, &c.Limit, now, c.Quantity, len(c.Key)))
	}
	switch {
	case peek:
		return which, nil
	case which > 0:
		for i := range checks {
			if c := &checks[i]; c.found == Throttle {
				c.cut(&s.shards[c.shard], now, &answers[i])
			}
		}
		return which, nil
	case full:
		return 0, ErrLogFull
	case needs && !s.budget.evict.Load():
		return 0, ErrNoMemory
	}
	for i := range checks {
		c, sh := &checks[i], &s.shards[checks[i].shard]
		place, kind := c.again(sh, now)
		if err = sh.decide(place, kind, c.hash, c.Key, &c.Limit, now, c.Quantity, maxLog, true, &answers[i]); err != nil {
			panic("a check that was admitted was not taken: " + err.Error())
		}
	}
	return 0, nil
}

// again loads what was found before, and is again, into found.
func (c *Check) again(sh *shard, now int64) (place uint32, kind Kind) {
	if c.found != None && c.moves == sh.table.moves {
		sh.look(c.place)
		return c.place, c.found
	}
	return sh.live(c.hash, c.Key, now) // it is new, or another check of this call may have moved it
}

// cut stores the cut of a TAT that is beyond the limit of its check, though the call is refused: or else it would be as
// far beyond it when the time has come that the answer tells to wait for.
func (c *Check) cut(sh *shard, now int64, d *Decision) {
	place, kind := c.again(sh, now)
	sh.found.tat = c.Limit.cutThrottle(sh.found.tat, now, d)
	if d.Cut {
		sh.keep(place, kind, now, cut)
	}
}

// longer reports whether d refuses for longer than than, both being refusals.
func (d *Decision) longer(than *Decision) bool {
	if than.RetryAfter == Never {
		return false
	}
	return d.RetryAfter == Never || d.RetryAfter > than.RetryAfter
}

// Held is a Store of which some shards are locked, so that several calls are one to everybody else. It must be used by
// one goroutine, only for the keys it was made for, and be released.
type Held struct {
	Store
	locked []int32
}

// Hold locks what the keys need, or everything, and brings it to one time. Of a Store that is held it needs no more than
// what is held already.
func (s *Store) Hold(now int64, keys [][]byte, everything bool) *Held {
	h := &Held{Store: *s}
	if s.held {
		return h
	}
	if everything {
		h.locked = make([]int32, len(s.shards))
		for n := range h.locked {
			h.locked[n] = int32(n)
		}
	} else {
		h.locked = make([]int32, len(keys))
		for i, key := range keys {
			_, n := s.locate(key)
			h.locked[i] = int32(n)
		}
		slices.Sort(h.locked)
		h.locked = slices.Compact(h.locked)
	}
	for _, n := range h.locked {
		s.enter(int(n))
	}
	h.held = true
	s.lift(now, h.locked)
	if everything {
		for kind := range passKinds { // one of the calls may be Flush
			s.seeAll(kind, s.passes.now[kind].Load())
		}
	} else {
		s.settle(h.locked)
	}
	var near byte
	for _, key := range keys {
		hash, n := s.locate(key)
		near |= s.shards[n].table.touch(hash)
	}
	runtime.KeepAlive(near)
	return h
}

// Release unlocks what Hold has locked.
func (h *Held) Release() {
	h.held = false
	for _, n := range h.locked {
		h.leave(&h.shards[n])
	}
	h.locked = nil
}
