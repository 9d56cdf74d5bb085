package resp

import (
	"cellserver/buckets"
	"cellserver/resp/keyspace"
)

// A session works on the database that SELECT has chosen: s.store is its store, and s.client.db its number.

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
	selected := keyspace.Database(store, n)
	if selected == nil {
		return false
	}
	s.useStore(selected, n)
	return true
}

// selectDB is SELECT index.
func selectDB(s *session, words [][]byte) {
	n, fault := keyspace.ParseDatabase(words[1])
	switch {
	case fault != "":
		s.out.Error(fault)
	case n != 0 && s.srv.remote != nil:
		s.out.Errorf(errClusterMode, "SELECT")
	case !s.useDatabase(n):
		s.out.Error(errDBIndex)
	default:
		s.out.OK()
	}
}

// move is MOVE key db.
func move(s *session, words [][]byte) {
	if s.srv.remote != nil {
		s.out.Errorf(errClusterMode, "MOVE")
		return
	}
	n, fault := keyspace.ParseDatabase(words[2])
	switch {
	case fault != "":
		s.out.Error(fault)
		return
	case keyspace.Database(s.store, n) == nil:
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
	if s.srv.remote != nil {
		s.out.Errorf(errClusterMode, "SWAPDB")
		return
	}
	a, fault := keyspace.ParseDatabase(words[1])
	if fault != "" {
		s.out.Error(errFirstDB)
		return
	}
	b, fault := keyspace.ParseDatabase(words[2])
	if fault != "" {
		s.out.Error(errSecondDB)
		return
	}
	if keyspace.Database(s.store, a) == nil || keyspace.Database(s.store, b) == nil {
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
