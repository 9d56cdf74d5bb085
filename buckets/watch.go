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
		sh.watches = make(map[string][]*Watch)
	}
	sh.watches[w.key] = append(sh.watches[w.key], w)
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
	rest := sh.watches[w.key]
	for i, other := range rest {
		if other == w {
			rest[i] = rest[len(rest)-1]
			rest[len(rest)-1] = nil
			rest = rest[:len(rest)-1]
			break
		}
	}
	if len(rest) > 0 {
		sh.watches[w.key] = rest
		return
	}
	delete(sh.watches, w.key)
	if len(sh.watches) == 0 {
		sh.watches = nil
	}
}

// touch tells those who watch key that it is changed.
func (s *shard) touch(key []byte) {
	for _, w := range s.watches[string(key)] {
		w.changed = true
	}
}
