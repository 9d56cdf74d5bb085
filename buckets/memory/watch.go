package memory

// watch notices whether a key is changed: written, deleted, renamed, expired or given a deadline. Time passing,
// refusals, and requests that take nothing are no changes.
type watch struct {
	key     string
	changed bool
}

// watch begins to watch key. Unwatch must end it.
func (s *Store) watch(now int64, key []byte) *watch {
	hash, sh := s.lockKey(key)
	defer s.unlockShard(sh)
	sh.findLive(hash, key, sh.advance(now)) // what has expired already is not there to be changed
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

// changed reports whether the key has been changed since it has been watched.
func (s *Store) changed(now int64, w *watch) bool {
	hash, sh := s.lockKey([]byte(w.key))
	defer s.unlockShard(sh)
	sh.findLive(hash, []byte(w.key), sh.advance(now)) // it may have expired unseen
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

// touch tells those who watch key that it is changed. There is nothing more to tell them afterwards.
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

func (s *shard) dropWatches(key string) {
	delete(s.watches, key)
	if len(s.watches) == 0 {
		s.watches = nil
	}
}
