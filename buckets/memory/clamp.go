package memory

import "bytes"

// Clamp moves states that are later than now to now. The clock was set back since they were stored, and no request is to
// wait longer than a period because of that. It must be called once, when loading is complete: Restore cannot do it,
// because amendments that follow in a journal identify records by their stored times. It returns how many keys it has
// changed; Changes reports them.
func (s *Store) Clamp(now int64) (moved int64) {
	s.eachShard(func(sh *shard) {
		for _, t := range sh.eachDatabase() {
			sh.within(t, func() { moved += sh.clamp(sh.advance(now)) })
		}
	})
	return moved
}

func (s *shard) clamp(now int64) (moved int64) {
	var ahead [][]byte // storing a log moves its record, so collect the keys first
	s.table.each(func(place uint32, r []byte) {
		s.load(place)
		if s.found.Ahead(now) {
			ahead = append(ahead, bytes.Clone(keyOf(r)))
		}
	})
	for _, key := range ahead {
		place := s.table.find(s.table.hash(key), key)
		s.load(place)
		ring := s.found.ring // a copy, because the clamped log is a view of it while found changes
		if s.found.Log != nil {
			s.found.Log = &ring
		}
		s.found.Clamp(now)
		to := s.found.State
		s.found.copyFrom(&to)
		place = s.save(place)
		if at := s.table.deadline(place); at >= s.found.FullAt() {
			s.table.setDeadline(place, 0)
		}
		s.markDirty(place)
	}
	s.found = state{} // release the memory of a log
	return int64(len(ahead))
}
