package buckets

// Watch notices whether a key is changed: written, deleted, renamed, expired or given a deadline. Time passing,
// refusals, and requests that take nothing are no changes.
type Watch struct {
	key     string
	changed bool
}

// Watch begins to watch key. Unwatch must end it.
func (s *Store) Watch(now int64, key []byte) *Watch {
	hash, sh := s.lock(key)
	defer s.leave(sh)
	sh.live(hash, key, sh.at(now)) // what has expired already is not there to be changed
	w := &Watch{key: string(key)}
	if sh.watches == nil {
		sh.watches = make(map[string]map[*Watch]struct{})
	}
	if sh.watches[w.key] == nil {
		sh.watches[w.key] = make(map[*Watch]struct{})
	}
	sh.watches[w.key][w] = struct{}{}
	return w
}

// Changed reports whether the key has been changed since it has been watched.
func (s *Store) Changed(now int64, w *Watch) bool {
	hash, sh := s.lock([]byte(w.key))
	defer s.leave(sh)
	sh.live(hash, []byte(w.key), sh.at(now)) // it may have expired unseen
	return w.changed
}

// Unwatch ends a watch.
func (s *Store) Unwatch(w *Watch) {
	_, sh := s.lock([]byte(w.key))
	defer s.leave(sh)
	delete(sh.watches[w.key], w)
	if len(sh.watches[w.key]) == 0 {
		sh.unwatched(w.key)
	}
}

// touch tells those who watch key that it is changed. There is nothing more to tell them afterwards.
func (s *shard) touch(key []byte) {
	watches, watched := s.watches[string(key)]
	if !watched {
		return
	}
	for w := range watches {
		w.changed = true
	}
	s.unwatched(string(key))
}

func (s *shard) unwatched(key string) {
	delete(s.watches, key)
	if len(s.watches) == 0 {
		s.watches = nil
	}
}
