package memory

import "cellserver/buckets"

// The methods for loading from disk. They ignore the limit on memory, and Changes does not report what they change.

// Restore stores an entry, unless it has expired at now. It replaces the contents of the key. It requires that there is a
// database of the entry's number.
func (s *Store) Restore(now int64, e *buckets.Entry) { s.restore(e, now, false) }

// RestoreExpired stores an entry even if it has expired. It is for a log that amendments may follow, whose records may
// have been made before the log expired. ForgetExpiredLogs must be called when everything is loaded.
func (s *Store) RestoreExpired(e *buckets.Entry) { s.restore(e, 0, true) }

func (s *Store) restore(e *buckets.Entry, now int64, expired bool) {
	if !e.Kind.Known() {
		return
	}
	var st state
	st.copyFrom(&e.State)
	s = s.database(int32(e.Database))
	hash, sh := s.lockKey(e.Key)
	defer s.unlockShard(sh)
	if place := sh.table.find(hash, e.Key); place != 0 {
		sh.forget(place)
	}
	full := st.FullAt()
	if !expired && (full <= now || e.Deadline != 0 && e.Deadline <= now) {
		sh.table.shrink()
		sh.account()
		return
	}
	place := sh.insert(hash, e.Key, &st)
	if e.Deadline != 0 && e.Deadline < full {
		sh.setDeadline(place, e.Deadline)
	}
}

// Forget removes a key of database db, if it exists.
func (s *Store) Forget(db int, key []byte) {
	s = s.database(int32(db))
	hash, sh := s.lockKey(key)
	defer s.unlockShard(sh)
	if place := sh.table.find(hash, key); place != 0 {
		sh.forget(place)
		sh.table.shrink()
		sh.table.tidy()
		sh.account()
	}
}

// ForgetExpiredLogs removes the logs that have expired at now. Anything else that changes times in logs must run after
// it, because amendments identify records by their times, and its changes must reach the journal.
func (s *Store) ForgetExpiredLogs(now int64) {
	s.eachShard(func(sh *shard) {
		for _, t := range sh.eachDatabase() {
			sh.within(t, func() { sh.forgetExpiredLogs(now) })
		}
	})
}

// forgetExpiredLogs is ForgetExpiredLogs of the selected database.
func (s *shard) forgetExpiredLogs(now int64) {
	s.table.each(func(place uint32, _ []byte) {
		if kind := s.load(place); kind.HasLog() && s.expiry(place, kind) <= now {
			s.forget(place)
		}
	})
	s.found = state{} // release the memory of a removed log
	s.table.shrink()
	for range s.table.blocks {
		if !s.table.tidy() {
			break
		}
	}
	s.account()
}

// restore makes g a copy of a log.
func (g *ringLog) restore(from buckets.Log) {
	n := from.Len()
	*g = ringLog{period: from.Period(), width: timeWidth(from.Period())}
	if n == 0 {
		return
	}
	g.sums = from.Before(n)-from.Before(0) != uint64(n)
	g.newest = from.Time(n - 1)
	g.width = max(g.width, widthOf(g.newest, from.Time(0)))
	g.unreported = allUnreported
	g.size = n
	g.n = n
	g.moved = true
	g.memory = make([]byte, logBytes(n, g.width, g.sums))
	for i := range n {
		setTime(g.memory[g.at(i):], from.Time(i), g.width)
		if g.sums {
			g.setThrough(i, from.Before(i+1)-from.Before(0))
		}
	}
}
