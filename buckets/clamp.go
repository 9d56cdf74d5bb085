package buckets

import "bytes"

// Clamp moves what is later than now to now: the clock was set back since it was stored, and nobody is to wait longer for
// it than a full period. It is called once, when everything that was stored has been restored, and is not part of Restore
// because what follows in a journal may change a log as it was stored. It returns how many keys it has moved, which count
// as changed.
//
// A window that starts later than now starts now and keeps its length. The records of a log that are later are made now,
// and are one. A TAT is left to the cut of its limit, and a deadline is absolute.
func (s *Store) Clamp(now int64) (moved int64) {
	s.each(func(sh *shard) { moved += sh.clamp(sh.at(now)) })
	return moved
}

func (s *shard) clamp(now int64) (moved int64) {
	var ahead [][]byte // a log that is stored again moves in the memory that is walked
	s.table.each(func(place uint32, r []byte) {
		if s.found.ahead(s.look(place), now) {
			ahead = append(ahead, bytes.Clone(keyOf(r)))
		}
	})
	for _, key := range ahead {
		place := s.table.find(s.table.hash(key), key)
		kind := s.look(place)
		s.found.clamp(kind, now)
		full := s.found.full(kind)
		place = s.save(place)
		if at := s.table.deadline(place); at >= full {
			s.table.setDeadline(place, 0)
		}
		s.note(place)
	}
	s.found = state{} // it may hold the memory of a log
	return int64(len(ahead))
}

// ahead reports whether clamp would change anything.
func (st *state) ahead(kind Kind, now int64) bool {
	switch kind {
	case Window:
		return st.window.Start > now
	case Slide:
		return st.log.newest > now
	}
	return false
}

func (st *state) clamp(kind Kind, now int64) {
	switch kind {
	case Window:
		st.window.End = addSat(now, subSat(st.window.End, st.window.Start))
		st.window.Start = now
	case Slide:
		from := st.log
		first := 0
		for from.Time(first) < now {
			first++
		}
		st.log.restore(clampedLog{Log: &from, now: now, first: first})
	}
}

// clampedLog is a log of which the records from first on are one, which is made now.
type clampedLog struct {
	Log
	now   int64
	first int
}

// Len implements Log.
func (g clampedLog) Len() int { return g.first + 1 }

// Time implements Log.
func (g clampedLog) Time(i int) int64 {
	if i < g.first {
		return g.Log.Time(i)
	}
	return g.now
}

// Before implements Log.
func (g clampedLog) Before(i int) uint64 {
	if i <= g.first {
		return g.Log.Before(i)
	}
	return g.Log.Before(g.Log.Len())
}
