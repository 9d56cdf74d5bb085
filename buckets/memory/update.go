package memory

import (
	"math"
	"unsafe"

	"cellserver/buckets"
)

// Update calls u with the states of keys and stores the states that it returns, atomically. It requires that the keys
// differ. A key that is stored has no deadline afterwards. Its errors are those of u, buckets.ErrSameKey and
// buckets.ErrNoMemory; after an error nothing has changed.
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

// readOnly hides that a log is editable, so that State.Take in an Updater copies it.
type readOnly struct{ buckets.Log }

func (s *Store) updateOne(now int64, key []byte, u buckets.Updater) error {
	hash, sh := s.lockKey(key)
	defer s.unlockShard(sh)
	now = sh.advance(now)
	place, kind := sh.findLive(hash, key, now)
	if sh.found.Log != nil {
		sh.found.Log = readOnly{sh.found.Log} // u may fail after it has changed the state, so it must not edit the stored log
	}
	changed, err := u.Update(now, unsafe.Slice(&sh.found.State, 1))
	if err == nil && changed && changesState(u, 0) {
		err = sh.replace(place, kind, hash, key, now, false)
	}
	sh.found = state{} // release the memory of the state that u returned
	return err
}

// updateAll is Update of several keys. It requires that their shards are locked and have the same time.
func (s *Store) updateAll(now int64, keys [][]byte, u buckets.Updater) error {
	before, after := make([]buckets.Kind, len(keys)), make([]buckets.State, len(keys))
	for i, key := range keys {
		hash, sh := s.lockKey(key) // which selects the database
		now = sh.advance(now)
		_, before[i] = sh.findLive(hash, key, now)
		after[i] = sh.found.State
		if after[i].Log != nil {
			log := new(state)
			log.copyFrom(&sh.found.State) // a copy, because the next key may load its log into the same shard
			after[i] = log.State
		}
	}
	changed, err := u.Update(now, after)
	if err != nil || !changed {
		return err
	}
	if s.budget.limited() && !s.budget.evict.Load() {
		needed := 0
		for i, key := range keys {
			if !changesState(u, i) {
				continue
			}
			_, n := s.locate(key)
			needed += s.shards[n].replacementGrowth(before[i], &after[i], len(key), now)
		}
		if !s.budget.allows(needed) {
			return buckets.ErrNoMemory
		}
	}
	for i, key := range keys {
		if !changesState(u, i) {
			continue
		}
		hash, n := s.locate(key)
		sh := &s.shards[n]
		place, kind := sh.findLive(hash, key, now) // storing another key may have moved or evicted this one
		sh.found.State = after[i]
		_ = sh.replace(place, kind, hash, key, now, true)
		sh.found = state{} // release the memory of the state that u returned
	}
	return nil
}

// changesState reports whether u, which has reported a change, has changed state i.
func changesState(u buckets.Updater, i int) bool {
	selective, ok := u.(buckets.Selective)
	return !ok || selective.Changes(i)
}

// replacementGrowth returns how many bytes may be allocated when st replaces a state of kind was.
func (s *shard) replacementGrowth(was buckets.Kind, st *buckets.State, keyBytes int, now int64) int {
	if st.Kind == buckets.None || st.Kind == was && st.Kind.Words() > 0 || st.FullAt() <= now {
		return 0
	}
	var to state
	to.copyFrom(st)
	return s.tableGrowth(recordUnits(keyBytes, to.size()), true)
}

// replace stores s.found instead of the state of kind was at place, or deletes the key if its bucket is full. With force
// it exceeds the limit on memory instead of failing with ErrNoMemory.
func (s *shard) replace(place uint32, was buckets.Kind, hash uint64, key []byte, now int64, force bool) error {
	st := &s.found.State
	switch {
	case st.Kind == buckets.None || st.FullAt() <= now:
		if was != buckets.None {
			s.deleteRecord(place)
		}
		return nil
	case was == buckets.None && st.Kind.Words() > 0 && (!s.budget.limited() ||
		s.budget.allows(s.table.growth(recordUnits(len(key), 8*st.Kind.Words()), true))):
		s.insertChanged(hash, key, &s.found) // needs no copy, because no room has to be made
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
		more := s.tableGrowth(recordUnits(len(key), to.size()), true)
		return s.budget.allows(more) || s.budget.belowFairShare(s.counted()+more)
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
		s.remove(place) // not deleteRecord, which would count a second change
	}
	s.insertChanged(hash, key, &to)
	return nil
}
