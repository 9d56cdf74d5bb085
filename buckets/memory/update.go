package memory

import (
	"math"
	"unsafe"

	"cellserver/buckets"
)

// Update calls u with the states of keys, which must differ, and stores what it makes of them, all at one moment. A key that
// is stored has no deadline afterwards. Its errors are those of u, buckets.ErrSameKey and buckets.ErrNoMemory; nothing has
// changed then.
func (s *Store) Update(now int64, keys [][]byte, u buckets.Updater) error {
	if len(keys) == 1 {
		return s.updateOne(now, keys[0], u)
	}
	if namedTwice(keys) {
		return buckets.ErrSameKey
	}
	h := s.Hold(now, keys, false)
	defer h.Release()
	return h.updateAll(now, keys, u)
}

func namedTwice(keys [][]byte) bool {
	seen := make(map[string]struct{}, len(keys))
	for _, key := range keys {
		seen[string(key)] = struct{}{}
	}
	return len(seen) < len(keys)
}

// readOnly hides that a log can be edited, so that State.Take of an Updater makes a copy of it.
type readOnly struct{ buckets.Log }

func (s *Store) updateOne(now int64, key []byte, u buckets.Updater) error {
	hash, sh := s.lockKey(key)
	defer s.unlockShard(sh)
	now = sh.advance(now)
	place, kind := sh.findLive(hash, key, now)
	if sh.found.Log != nil {
		sh.found.Log = readOnly{sh.found.Log} // u may fail after it has changed the state
	}
	changed, err := u.Update(now, unsafe.Slice(&sh.found.State, 1))
	if err == nil && changed {
		err = sh.replace(place, kind, hash, key, now, false)
	}
	sh.found = state{} // it may hold what u has made
	return err
}

// updateAll is Update of several keys. It requires that their shards are locked and have one time.
func (s *Store) updateAll(now int64, keys [][]byte, u buckets.Updater) error {
	before, after := make([]state, len(keys)), make([]buckets.State, len(keys))
	for i, key := range keys {
		hash, n := s.locate(key)
		sh := &s.shards[n]
		now = sh.advance(now)
		if _, kind := sh.findLive(hash, key, now); kind != buckets.None {
			before[i].copyFrom(&sh.found.State) // the next key may be of the same shard, which loads one state at a time
		}
		after[i] = before[i].State
	}
	changed, err := u.Update(now, after)
	if err != nil || !changed {
		return err
	}
	if s.budget.limited() && !s.budget.evict.Load() {
		needed := 0
		for i, key := range keys {
			_, n := s.locate(key)
			needed += s.shards[n].replacementGrowth(before[i].Kind, &after[i], len(key), now)
		}
		if !s.budget.allows(needed) {
			return buckets.ErrNoMemory
		}
	}
	for i, key := range keys {
		hash, n := s.locate(key)
		sh := &s.shards[n]
		place, kind := sh.findLive(hash, key, now) // storing another key may have moved or evicted it
		sh.found.State = after[i]
		_ = sh.replace(place, kind, hash, key, now, true)
		sh.found = state{} // it may hold what u has made
	}
	return nil
}

// replacementGrowth returns how many bytes storing st over a state of kind was may allocate.
func (s *shard) replacementGrowth(was buckets.Kind, st *buckets.State, keyBytes int, now int64) int {
	if st.Kind == buckets.None || st.Kind == was && st.Kind.Words() > 0 || st.FullAt() <= now {
		return 0
	}
	var to state
	to.copyFrom(st)
	return s.table.growth(recordUnits(keyBytes, to.size()), true)
}

// replace stores s.found over the state of kind was at place, or deletes the key if nothing is to be kept. With force it
// stores beyond the limit on memory rather than fail with ErrNoMemory.
func (s *shard) replace(place uint32, was buckets.Kind, hash uint64, key []byte, now int64, force bool) error {
	st := &s.found.State
	switch {
	case st.Kind == buckets.None || st.FullAt() <= now:
		if was != buckets.None {
			s.deleteRecord(place)
		}
		return nil
	case st.Kind == was && was.Words() > 0:
		s.notifyWatchesAt(place)
		place = s.save(place)
		s.markDirty(place)
		if s.table.deadline(place) != 0 {
			s.table.setDeadline(place, 0)
		}
		return nil
	}
	var to state
	to.copyFrom(st)
	fits := func() bool {
		more := s.table.growth(recordUnits(len(key), to.size()), true)
		return s.budget.allows(more) || s.budget.belowFairShare(s.counted+more)
	}
	until := int64(math.MaxInt64)
	if s.budget.allowsOverdraft() {
		until = st.FullAt()
	}
	if s.budget.limited() && !fits() {
		if err := s.makeRoomFor(now, until, func() uint32 { return s.table.find(hash, key) }, fits); err != nil && !force {
			return err
		}
	}
	if place = s.table.find(hash, key); place != 0 {
		s.remove(place) // not deleteRecord: it is one change
	}
	s.insertChanged(hash, key, &to)
	return nil
}
