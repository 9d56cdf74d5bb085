package memory

// watch records whether a key has changed; see buckets.Watcher.
type watch struct {
	key      string
	database int32
	changed  bool
}

// watch starts a watch of key.
func (s *Store) watch(now int64, key []byte) *watch {
	hash, sh := s.lockKey(key)
	defer s.unlockShard(sh)
	sh.findLive(hash, key, sh.advance(now)) // remove an expired key now, so that its removal is not taken for a change
	w := &watch{key: string(key), database: s.db}
	sh.keepSelected()
	if sh.table.watches == nil {
		sh.table.watches = make(map[string]map[*watch]struct{})
	}
	if sh.table.watches[w.key] == nil {
		sh.table.watches[w.key] = make(map[*watch]struct{})
	}
	sh.table.watches[w.key][w] = struct{}{}
	return w
}

// changed reports whether the key has changed since w began.
func (s *Store) changed(now int64, w *watch) bool {
	s = s.database(w.database)
	hash, sh := s.lockKey([]byte(w.key))
	defer s.unlockShard(sh)
	sh.findLive(hash, []byte(w.key), sh.advance(now)) // removes the key, and so notifies its watches, if it has expired since
	return w.changed
}

// unwatch ends a watch.
func (s *Store) unwatch(w *watch) {
	s = s.database(w.database)
	_, sh := s.lockKey([]byte(w.key))
	defer s.unlockShard(sh)
	delete(sh.table.watches[w.key], w)
	if len(sh.table.watches[w.key]) == 0 {
		sh.dropWatches(w.key)
	}
}

// notifyWatches marks the watches of key as changed and removes them, because they have nothing more to report.
func (s *shard) notifyWatches(key []byte) {
	watches, watched := s.table.watches[string(key)]
	if !watched {
		return
	}
	for w := range watches {
		w.changed = true
	}
	s.dropWatches(string(key))
}

// dropWatches removes the entry of a key that has no watches.
func (s *shard) dropWatches(key string) {
	delete(s.table.watches, key)
	if len(s.table.watches) == 0 {
		s.table.watches = nil
	}
}
