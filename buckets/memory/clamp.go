package memory

import "bytes"

// Clamp moves what is later than now to now: the clock was set back since it was stored, and nobody is to wait longer for
// it than a full period. It is called once, when everything that was stored has been restored, and is not part of Restore
// because what follows in a journal may change a log as it was stored. It returns how many keys it has moved, which count
// as changed.
//
// A window that starts later than now starts now and keeps its length. The records of a log that are later are made now,
// and are one. A TAT is left to the cut of its limit, and a deadline is absolute.
func (s *Store) Clamp(now int64) (moved int64) {
	s.eachShard(func(sh *shard) { moved += sh.clamp(sh.advance(now)) })
	return moved
}

func (s *shard) clamp(now int64) (moved int64) {
	var ahead [][]byte // a log that is stored again moves in the memory that is walked
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
