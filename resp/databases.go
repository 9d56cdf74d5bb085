package resp

import (
	"cellserver/buckets"
	"cellserver/resp/frame"
)

// A session works on the database that SELECT has chosen: s.store is its store, and s.client.db its number. A store that is
// no buckets.Databases has database 0 only.

// databaseOf returns the store of database n, or nil if there is none. store may be of any database.
func databaseOf(store buckets.Store, n int) buckets.Store {
	if all, ok := store.(buckets.Databases); ok {
		return all.Database(n)
	}
	if n == 0 {
		return store
	}
	return nil
}

// database returns the number of the selected database.
func (s *session) database() int { return int(s.client.db.Load()) }

// useStore makes store, which is that of database n, the one that commands work on.
func (s *session) useStore(store buckets.Store, n int) {
	s.store = store
	s.direct, _ = store.(buckets.Decider)
	s.client.db.Store(int32(n))
}

// useDatabase selects database n, and reports whether there is one. Within EXEC the keys of the transaction stay held.
func (s *session) useDatabase(n int) bool { return s.useDatabaseOf(s.store, n) }

// useDatabaseOf is useDatabase, with the stores of store.
func (s *session) useDatabaseOf(store buckets.Store, n int) bool {
	selected := databaseOf(store, n)
	if selected == nil {
		return false
	}
	s.useStore(selected, n)
	return true
}

// parseDatabase parses the number of a database. fault is the error, or "". There may be no such database.
func parseDatabase(word []byte) (n int, fault string) {
	i, ok := frame.ParseInt(word)
	switch {
	case !ok:
		return 0, errNotInteger
	case i != int64(int32(i)):
		return 0, errDBRange
	}
	return int(i), ""
}

// selectDB is SELECT index.
func selectDB(s *session, words [][]byte) {
	n, fault := parseDatabase(words[1])
	switch {
	case fault != "":
		s.out.Error(fault)
	case !s.useDatabase(n):
		s.out.Error(errDBIndex)
	default:
		s.out.OK()
	}
}

// move is MOVE key db.
func move(s *session, words [][]byte) {
	n, fault := parseDatabase(words[2])
	switch {
	case fault != "":
		s.out.Error(fault)
		return
	case databaseOf(s.store, n) == nil:
		s.out.Error(errDBIndex)
		return
	case n == s.database():
		s.out.Error(errSameObject)
		return
	}
	if op, ok := s.do(buckets.Op{Code: buckets.OpMove, Key: words[1], DB: n}); ok {
		s.out.Int(op.N)
	}
}

// swapDB is SWAPDB index1 index2.
func swapDB(s *session, words [][]byte) {
	a, fault := parseDatabase(words[1])
	if fault != "" {
		s.out.Error(errFirstDB)
		return
	}
	b, fault := parseDatabase(words[2])
	if fault != "" {
		s.out.Error(errSecondDB)
		return
	}
	if databaseOf(s.store, a) == nil || databaseOf(s.store, b) == nil {
		s.out.Error(errDBIndex)
		return
	}
	if all, ok := s.store.(buckets.Databases); ok {
		if err := all.Swap(s.srv.ctx, s.now, a, b); err != nil {
			s.out.Error(s.storeError(err))
			return
		}
	}
	s.out.OK()
}

// flushDB is FLUSHDB [ASYNC|SYNC].
func flushDB(s *session, words [][]byte) { s.flush(words, s.store.Flush) }

// flushAll is FLUSHALL [ASYNC|SYNC].
func flushAll(s *session, words [][]byte) {
	if all, ok := s.store.(buckets.Databases); ok {
		s.flush(words, all.FlushAll)
		return
	}
	flushDB(s, words)
}

// usedDatabases calls visit for every database that has keys, in the order of their numbers, with its number and its store.
func (s *session) usedDatabases(visit func(n int, store buckets.Store)) {
	all, ok := s.store.(buckets.Databases)
	if !ok {
		visit(0, s.store)
		return
	}
	for _, n := range all.Used() {
		visit(n, all.Database(n))
	}
}

// allStats returns the counters of the store, of all databases.
func (s *session) allStats() buckets.Stats {
	sum := s.store.Stats()
	sum.Keys, sum.Deadlines, sum.Lasting, sum.Index = 0, 0, 0, 0
	s.usedDatabases(func(_ int, store buckets.Store) {
		of := store.Stats()
		sum.Keys += of.Keys
		sum.Deadlines += of.Deadlines
		sum.Lasting += of.Lasting
		sum.Index += of.Index
	})
	return sum
}
