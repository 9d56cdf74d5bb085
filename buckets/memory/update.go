package memory

import (
	"math"
	"unsafe"

	"cellserver/buckets"
)

// Update has u compute what keys hold from what they held, all at one moment. After its error, or ErrNoMemory, every key is
// as it was. A stored update drops the deadlines of its keys.
func (s *Store) Update(now int64, keys [][]byte, u buckets.Updater) error {
	if len(keys) == 1 {
		hash, sh := s.lockKey(keys[0])
		defer s.unlockShard(sh)
		now = sh.advance(now)
		place, kind := sh.findLive(hash, keys[0], now)
		changed, err := u.Update(now, unsafe.Slice(&sh.found.State, 1))
		if err != nil || !changed {
			return err
		}
		return sh.replace(place, kind, hash, keys[0], now, false)
	}
	h := s.Hold(now, keys, false)
	defer h.Release()
	return h.updateAll(now, keys, u)
}

// updateAll is Update of several keys, whose shards are locked and have one time.
func (s *Store) updateAll(now int64, keys [][]byte, u buckets.Updater) error {
	before, after := make([]state, len(keys)), make([]buckets.State, len(keys))
	for i, key := range keys {
		hash, n := s.locate(key)
		sh := &s.shards[n]
		now = sh.advance(now)
		if _, kind := sh.findLive(hash, key, now); kind != buckets.None {
			before[i].copyFrom(&sh.found.State) // a shard has room for one log only
		}
		after[i] = before[i].State
	}
	changed, err := u.Update(now, after)
	if err != nil || !changed {
		return err
	}
	if !s.budget.evict.Load() {
		needed := 0
		for i, key := range keys {
			_, n := s.locate(key)
			needed += s.shards[n].growthOf(before[i].Kind, &after[i], len(key))
		}
		if !s.budget.allows(needed) {
			return buckets.ErrNoMemory
		}
	}
	for i, key := range keys {
		hash, n := s.locate(key)
		sh := &s.shards[n]
		place, kind := sh.findLive(hash, key, now)
		sh.found.State = after[i]
		_ = sh.replace(place, kind, hash, key, now, true)
	}
	return nil
}

// growthOf returns the bytes that storing a state over one of kind was may allocate.
func (s *shard) growthOf(was buckets.Kind, st *buckets.State, keyBytes int) int {
	if st.Kind == buckets.None || st.Kind == was && st.Kind.Words() > 0 {
		return 0
	}
	var to state
	to.copyFrom(st)
	return s.table.growth(recordUnits(keyBytes, to.size()), true)
}

// replace stores found over the state of kind was at place, or deletes the key if nothing is to be kept. When it is sure that
// it must, it does so even beyond what may be allocated. It requires that mu is held.
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
	if !fits() {
		if err := s.makeRoomFor(now, until, func() uint32 { return s.table.find(hash, key) }, fits); err != nil && !force {
			return err
		}
	}
	if place = s.table.find(hash, key); place != 0 {
		s.deleteRecord(place)
	}
	s.insertChanged(hash, key, &to)
	return nil
}
