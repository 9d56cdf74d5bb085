package model

import (
	"slices"
)

// Store is the keys of a server.
type Store struct {
	Now    int64 // nanoseconds of Unix time; it does not go back, except in Load
	MaxLog int64 // zslide-max-log
	MaxKey int   // max-key-bytes

	keys    map[string]*bucket // including expired ones, until they are replaced
	changes map[string]int     // how often each key has changed; WATCH compares it

	// The waits of the last limit command in nanoseconds; 0 if there is none.
	Retry, Reset int64
}

// New returns an empty store.
func New(now int64) *Store {
	return &Store{Now: now, MaxLog: 1000000, MaxKey: 4096, keys: map[string]*bucket{}, changes: map[string]int{}}
}

func (s *Store) now() number { return num(s.Now) }

func (s *Store) live(key string) *bucket {
	b := s.keys[key]
	if b == nil || atMost(b.expires(), s.now()) {
		return nil
	}
	return b
}

// Keys returns the keys that exist, sorted.
func (s *Store) Keys() []string {
	keys := []string{}
	for key := range s.keys {
		if s.live(key) != nil {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	return keys
}

// put stores a bucket, or deletes the key if b is nil, and counts that as a change.
func (s *Store) put(key string, b *bucket) {
	s.changes[key]++
	s.keep(key, b)
}

// keep stores a bucket without counting a change. An expired key does not exist, but may still be on disk.
func (s *Store) keep(key string, b *bucket) {
	if b == nil {
		delete(s.keys, key)
		return
	}
	s.keys[key] = b
}

// remove deletes a key. It reports whether the key existed.
func (s *Store) remove(key string) bool {
	if s.live(key) == nil {
		return false
	}
	s.put(key, nil)
	return true
}

func (s *Store) flush() {
	for _, key := range s.Keys() {
		s.changes[key]++
	}
	clear(s.keys)
}

// take decides on requests, and takes all or none. It returns which of them refuses for longest.
func (s *Store) take(requests []request, peek bool) (which int, outcomes []outcome, fault string) {
	for i := range requests {
		r := &requests[i]
		b := s.live(r.key)
		if b != nil && b.kind != r.kind {
			return 0, nil, wrongKind
		}
		outcomes = append(outcomes, ask(b, &r.limit, s.now(), r.quantity))
	}
	for i, o := range outcomes {
		if o.limited && (which == 0 || longer(o.retry, outcomes[which-1].retry)) {
			which = i + 1
		}
	}
	if peek {
		return which, outcomes, ""
	}
	for i, o := range outcomes {
		if which == 0 && o.changed && positive(requests[i].quantity) && requests[i].kind == zslide && int64(o.records) > s.MaxLog {
			return 0, nil, s.logFull()
		}
	}
	for i, o := range outcomes {
		switch {
		case which == 0 && o.changed:
			s.put(requests[i].key, o.next)
		case o.cut != nil:
			s.keep(requests[i].key, o.cut)
		case o.changed && requests[i].kind == throttle:
			// This request alone would be admitted. Its bucket is cut to the capacity like those that refuse.
			b := s.live(requests[i].key)
			if b == nil {
				continue
			}
			if full := plus(s.now(), requests[i].capacity()); less(full, b.tat) {
				cut := *b
				cut.tat = full
				s.keep(requests[i].key, cut.withDeadline(b.deadline))
			}
		}
	}
	return which, outcomes, ""
}

// longer reports whether wait a is longer than b. A nil wait never ends.
func longer(a, b number) bool {
	return b != nil && (a == nil || less(b, a))
}

// Clone returns a deep copy, such as a file on disk holds.
func (s *Store) Clone() *Store {
	c := *s
	c.keys = map[string]*bucket{}
	for key, b := range s.keys {
		c.keys[key] = b
	}
	return &c
}

// Load restarts the server at now, which may be earlier than s.Now, with the keys of s on disk. Several outcomes are
// right for a key that had expired, or a record that had left the window: it may have been removed from disk, or may
// exist again because the clock was set back. choose gets the possible replies to CL.GET and returns the index of the
// actual one.
func (s *Store) Load(now int64, choose func(key string, answers []string) int) *Store {
	next := New(now)
	next.MaxLog, next.MaxKey = s.MaxLog, s.MaxKey
	for key, b := range s.keys {
		if !less(next.now(), b.expires()) {
			next.keys[key] = b // not loaded, but still on disk if the clock is set back again
			continue
		}
		var may []*bucket
		if s.live(key) == nil {
			may = append(may, nil)
		}
		for {
			if less(next.now(), b.expires()) {
				may = append(may, b.loaded(next.now()))
			}
			if b.kind != zslide || len(b.log) < 2 || less(s.now(), plus(b.log[0].at, b.period)) {
				break
			}
			fewer := *b
			fewer.log = b.log[1:]
			b = &fewer
		}
		if len(may) == 0 {
			continue
		}
		answers := []string{}
		for _, b := range may {
			answers = append(answers, describe(b, next.now()))
		}
		if b := may[choose(key, answers)]; b != nil {
			next.keys[key] = b
		}
	}
	return next
}
