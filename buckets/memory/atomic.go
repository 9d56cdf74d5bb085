package memory

import (
	"runtime"
	"slices"
	"sync"

	"cellserver/buckets"
)

// located is the place where the record of a check's key was found.
type located struct {
	hash  uint64
	shard int32
	place uint32
	moves uint32 // table.moves of the shard when the record was found
	kind  buckets.Kind
}

// lockSet is the set of shards that an operation locks, sorted by number.
type lockSet struct {
	n      int
	shards [buckets.MaxChecks]int32
}

// add adds a shard, unless the set contains it.
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

// advanceAll raises the times of the shards to the latest of these times and now, and returns that time. It requires that
// the shards are locked.
func (s *Store) advanceAll(now int64, shards []int32) int64 {
	for _, n := range shards {
		now = s.shards[n].advance(now)
	}
	for _, n := range shards {
		s.shards[n].advance(now)
	}
	return now
}

// TakeAll is buckets.OpTakeAll. It requires that the keys differ, that there are at most MaxChecks checks, and that
// answers has an element for each. Its errors are ErrWrongKind, ErrLogFull and ErrNoMemory; after an error nothing has
// changed.
func (s *Store) TakeAll(now int64, checks []buckets.Check, peek bool, answers []buckets.Decision) (which int, err error) {
	if len(checks) <= fewChecks {
		var at [fewChecks]located
		return s.takeAll(now, checks, at[:len(checks)], peek, answers)
	}
	at := locationsPool.Get().(*[buckets.MaxChecks]located)
	defer locationsPool.Put(at)
	return s.takeAll(now, checks, at[:len(checks)], peek, answers)
}

// fewChecks is the number of checks up to which TakeAll keeps their locations on its stack. With a larger array, every
// call would have to clear more memory.
const fewChecks = 8

var locationsPool = sync.Pool{New: func() any { return new([buckets.MaxChecks]located) }}

// takeAll is TakeAll with at as memory for the locations of the keys.
func (s *Store) takeAll(now int64, checks []buckets.Check, at []located, peek bool, answers []buckets.Decision) (which int, err error) {
	var locks lockSet
	for i := range checks {
		hash, n := s.locate(checks[i].Key)
		at[i].hash, at[i].shard = hash, int32(n)
		locks.add(int32(n))
	}
	for _, n := range locks.shards[:locks.n] {
		s.lockShard(int(n))
	}
	defer func() {
		for _, n := range locks.shards[:locks.n] {
			s.unlockShard(&s.shards[n])
		}
	}()
	now = s.advanceAll(now, locks.shards[:locks.n])
	if locks.n > 1 && !s.held {
		s.completeVisit(locks.shards[:locks.n])
	}
	maxLog := int(s.maxLog.Load())
	var near byte // uses the result of prefetch, so that the compiler keeps the read
	for i := range checks {
		near |= s.shards[at[i].shard].table.prefetch(at[i].hash)
	}
	runtime.KeepAlive(near)

	which, fault, err := s.peekAll(now, checks, at, maxLog, answers)
	switch {
	case err != nil:
		return 0, err
	case peek:
		return which, nil
	case which > 0:
		for i := range checks {
			at[i].cut(&s.shards[at[i].shard], &checks[i], now, &answers[i])
		}
		return which, nil
	case fault != nil:
		return 0, fault
	}
	for i := range checks {
		c, f, sh := &checks[i], &at[i], &s.shards[at[i].shard]
		if f.isCurrent(sh) && sh.takeInPlace(f.place, f.hash, len(c.Key), &c.Limit, now, c.Quantity, maxLog, &answers[i]) {
			continue
		}
		place, kind := f.reload(sh, c.Key, now)
		if err = sh.decide(place, kind, f.hash, c.Key, &c.Limit, now, c.Quantity, maxLog, true, &answers[i]); err != nil {
			panic("a check that was admitted was not taken: " + err.Error())
		}
	}
	return 0, nil
}

// peekAll sets answers to what taking each check alone would answer, and at to the places of the records. It returns the
// number of the check that refuses for longest, or 0. fault says why the checks cannot be taken although none is refused.
// err is ErrWrongKind and takes precedence over both. It requires that the shards are locked.
func (s *Store) peekAll(now int64, checks []buckets.Check, at []located, maxLog int, answers []buckets.Decision) (which int, fault, err error) {
	full, needs := false, false
	for i := range checks {
		c, f, sh := &checks[i], &at[i], &s.shards[at[i].shard]
		f.place, f.kind = sh.findLive(f.hash, c.Key, now)
		f.moves = sh.table.moves
		if f.kind != buckets.None && f.kind != c.Limit.Kind() {
			return 0, nil, buckets.ErrWrongKind
		}
		sh.found.Peek(&c.Limit, now, c.Quantity, &answers[i])
		if answers[i].Limited {
			if which == 0 || answers[i].RefusesLonger(&answers[which-1]) {
				which = i + 1
			}
			continue
		}
		full = full || sh.found.LogGrowth(&c.Limit, now, c.Quantity, maxLog)
		needs = needs || c.Quantity > 0 && s.budget.limited() && !s.budget.allows(sh.growth(f.kind, &c.Limit, now, c.Quantity, len(c.Key)))
	}
	switch {
	case full:
		fault = buckets.ErrLogFull
	case needs && !s.budget.evict.Load():
		fault = buckets.ErrNoMemory
	}
	return which, fault, nil
}

// isCurrent reports whether the record is still at the place where it was found.
func (f *located) isCurrent(sh *shard) bool {
	return f.kind != buckets.None && f.moves == sh.table.moves
}

// reload loads the state of the key into sh.found again, and returns the current place of its record.
func (f *located) reload(sh *shard, key []byte, now int64) (place uint32, kind buckets.Kind) {
	if f.isCurrent(sh) {
		sh.load(f.place)
		return f.place, f.kind
	}
	return sh.findLive(f.hash, key, now) // the key does not exist yet, or another check of this call has moved its record
}

// cut stores the cut of a state that exceeds the limit of its check, although the call is refused. Without that, the
// state would still exceed the limit after the wait that the answer asks for.
func (f *located) cut(sh *shard, c *buckets.Check, now int64, d *buckets.Decision) {
	if f.kind == buckets.None || f.kind.Words() == 0 {
		return
	}
	place, kind := f.reload(sh, c.Key, now)
	answer := *d // reuse d, which is on the heap; a new Decision would be allocated
	did, _ := sh.found.Take(&c.Limit, now, 0, 0, d)
	*d = answer
	if d.Cut = did == buckets.Cut; d.Cut {
		sh.store(place, kind, now, did)
	}
}

// Held is a Store some of whose shards are locked, so that its calls are one operation to other goroutines. Only one
// goroutine may use it, only for the keys that it was made for, and only until Release.
type Held struct {
	Store
	locked []int32
}

// Hold locks the shards of the keys, or all shards if everything is set, and raises them to one time. For a Store that is
// held already it locks nothing more.
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
		s.lockShard(int(n))
	}
	h.held = true
	s.advanceAll(now, h.locked)
	if everything {
		for kind := range scanKinds { // a call on the held store may be Flush
			s.visitAll(kind, s.scans.active[kind].Load())
		}
	} else {
		s.completeVisit(h.locked)
	}
	var near byte
	for _, key := range keys {
		hash, n := s.locate(key)
		near |= s.shards[n].table.prefetch(hash)
	}
	runtime.KeepAlive(near)
	return h
}

// Release unlocks the shards that Hold has locked.
func (h *Held) Release() {
	h.held = false
	for _, n := range h.locked {
		h.unlockShard(&h.shards[n])
	}
	h.locked = nil
}
