package memory

import "bytes"

// Clamp moves states that lie later than now to now: the clock was set back since they were stored, and no request is to
// wait longer than a period for it. It is called once, when everything is loaded, and not by Restore, because amendments
// that follow in a journal depend on the times as they were stored. It returns how many keys it has changed; they are among
// the Changes.
func (s *Store) Clamp(now int64) (moved int64) {
	s.eachShard(func(sh *shard) { moved += sh.clamp(sh.advance(now)) })
	return moved
}

func (s *shard) clamp(now int64) (moved int64) {
	var ahead [][]byte // storing a log moves its record, which must not happen during the walk
	s.table.each(func(place uint32, r []byte) {
		s.load(place)
		if s.found.Ahead(now) {
			ahead = append(ahead, bytes.Clone(keyOf(r)))
		}
	})
	for _, key := range ahead {
		place := s.table.find(s.table.hash(key), key)
		s.load(place)
		ring := s.found.ring // the clamped log is a view of it while it is stored again
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
	s.found = state{} // it may hold the memory of a log
	return int64(len(ahead))
}
