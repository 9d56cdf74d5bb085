package memory

import (
	"runtime"
	"slices"
	"sync"

	"cellserver/buckets"
)

// located is where the key of a check was found.
type located struct {
	hash  uint64
	shard int32
	place uint32
	moves uint32 // of the shard's table when the key was found there
	kind  buckets.Kind
}

// lockSet is the set of shards that an operation locks, in the order of their numbers.
type lockSet struct {
	n      int
	shards [buckets.MaxChecks]int32
}

// add adds a shard, unless it is there.
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

// advanceAll raises the times of the shards to the latest of them and now, and returns it. It requires that they are
// locked.
func (s *Store) advanceAll(now int64, shards []int32) int64 {
	for _, n := range shards {
		now = s.shards[n].advance(now)
	}
	for _, n := range shards {
		s.shards[n].advance(now)
	}
	return now
}

// TakeAll is buckets.OpTakeAll. It requires that the keys differ, that there are at most MaxChecks, and that answers has
// room for each. Its errors are ErrWrongKind, ErrLogFull and ErrNoMemory; nothing has changed then.
func (s *Store) TakeAll(now int64, checks []buckets.Check, peek bool, answers []buckets.Decision) (which int, err error) {
	if len(checks) <= fewChecks {
		var at [fewChecks]located
		return s.takeAll(now, checks, at[:len(checks)], peek, answers)
	}
	at := locationsPool.Get().(*[buckets.MaxChecks]located)
	defer locationsPool.Put(at)
	return s.takeAll(now, checks, at[:len(checks)], peek, answers)
}

// fewChecks is how many checks a call of TakeAll may have for their locations to fit on its stack. A larger array would
// cost every call the time to clear it.
const fewChecks = 8

var locationsPool = sync.Pool{New: func() any { return new([buckets.MaxChecks]located) }}

// takeAll is TakeAll with room for the locations of the keys.
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
	var near byte // kept alive, or it would not be read at all
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

// peekAll fills in what taking each check would answer, and the places of their records. It returns the number of the check
// that refuses for longest, and why the checks cannot be taken even if none is refused; err is ErrWrongKind, which comes
// before both. It requires that the shards are locked.
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

// isCurrent reports whether the record of the key is still where it was found.
func (f *located) isCurrent(sh *shard) bool {
	return f.kind != buckets.None && f.moves == sh.table.moves
}

// reload loads the state of the key into sh.found again, and returns where it is now.
func (f *located) reload(sh *shard, key []byte, now int64) (place uint32, kind buckets.Kind) {
	if f.isCurrent(sh) {
		sh.load(f.place)
		return f.place, f.kind
	}
	return sh.findLive(f.hash, key, now) // it does not exist yet, or another check of this call has moved it
}

// cut stores the cut of a state that is beyond the limit of its check, although the call is refused: otherwise it would be as
// far beyond the limit when the time has come that the answer tells to wait for.
func (f *located) cut(sh *shard, c *buckets.Check, now int64, d *buckets.Decision) {
	if f.kind == buckets.None || f.kind.Words() == 0 {
		return
	}
	place, kind := f.reload(sh, c.Key, now)
	answer := *d // on the heap already, which another Decision would have to be
	did, _ := sh.found.Take(&c.Limit, now, 0, 0, d)
	*d = answer
	if d.Cut = did == buckets.Cut; d.Cut {
		sh.store(place, kind, now, did)
	}
}

// Held is a Store some of whose shards are locked, so that its calls are one operation to others. It is for one goroutine,
// and for the keys that it was made for, until Release.
type Held struct {
	Store
	locked []int32
}

// Hold locks the shards of the keys, or all if everything is set, and raises them to one time. A Store that is held already
// locks no more.
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
		for kind := range scanKinds { // one of the calls may be Flush
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

// Release unlocks the shards that Hold locked.
func (h *Held) Release() {
	h.held = false
	for _, n := range h.locked {
		h.unlockShard(&h.shards[n])
	}
	h.locked = nil
}
