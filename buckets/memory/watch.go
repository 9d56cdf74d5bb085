package memory

// watch records whether a key has changed; see buckets.Watcher.
type watch struct {
	key     string
	changed bool
}

// watch begins to watch key.
func (s *Store) watch(now int64, key []byte) *watch {
	hash, sh := s.lockKey(key)
	defer s.unlockShard(sh)
	sh.findLive(hash, key, sh.advance(now)) // a key that has expired does not exist, and cannot expire again
	w := &watch{key: string(key)}
	if sh.watches == nil {
		sh.watches = make(map[string]map[*watch]struct{})
	}
	if sh.watches[w.key] == nil {
		sh.watches[w.key] = make(map[*watch]struct{})
	}
	sh.watches[w.key][w] = struct{}{}
	return w
}

// changed reports whether the key has changed since w began.
func (s *Store) changed(now int64, w *watch) bool {
	hash, sh := s.lockKey([]byte(w.key))
	defer s.unlockShard(sh)
	sh.findLive(hash, []byte(w.key), sh.advance(now)) // it may have expired since
	return w.changed
}

// unwatch ends a watch.
func (s *Store) unwatch(w *watch) {
	_, sh := s.lockKey([]byte(w.key))
	defer s.unlockShard(sh)
	delete(sh.watches[w.key], w)
	if len(sh.watches[w.key]) == 0 {
		sh.dropWatches(w.key)
	}
}

// notifyWatches marks the watches of key as changed, and removes them: they have nothing more to report.
func (s *shard) notifyWatches(key []byte) {
	watches, watched := s.watches[string(key)]
	if !watched {
		return
	}
	for w := range watches {
		w.changed = true
	}
	s.dropWatches(string(key))
}

// dropWatches removes the entry of a key without watches.
func (s *shard) dropWatches(key string) {
	delete(s.watches, key)
	if len(s.watches) == 0 {
		s.watches = nil
	}
}
