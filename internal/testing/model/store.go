package model

import (
	"slices"
)

// Store is what a server keeps.
type Store struct {
	Now    int64 // nanoseconds of Unix time; it only grows, but for Load
	MaxLog int64 // zslide-max-log
	MaxKey int   // max-key-bytes

	keys    map[string]*bucket // those that have expired too, until something takes their place
	changes map[string]int     // how often each key has changed, for WATCH

	// The waits of the last limit command, in nanoseconds; 0 for none.
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

// Keys returns the keys that there are, in order.
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

// put stores a bucket, or none, as a change.
func (s *Store) put(key string, b *bucket) {
	s.changes[key]++
	s.keep(key, b)
}

// keep stores a bucket without a change. A key that has expired is no key, but may be on disk still.
func (s *Store) keep(key string, b *bucket) {
	if b == nil {
		delete(s.keys, key)
		return
	}
	s.keys[key] = b
}

// remove removes a key that exists, and reports whether it did.
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

// take decides on requests, all or none, and returns which of them refuses for longest.
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
			// It would have been admitted, and is not because of another: what is beyond its capacity is cut all the same.
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

// longer reports whether a wait is longer than another one; nil is for ever.
func longer(a, b number) bool {
	return b != nil && (a == nil || less(b, a))
}

// Clone returns a copy, as a disk keeps one.
func (s *Store) Clone() *Store {
	c := *s
	c.keys = map[string]*bucket{}
	for key, b := range s.keys {
		c.keys[key] = b
	}
	return &c
}

// Load is a restart at some time, which may be earlier than Now. What is loaded is s, and what has changed by then. choose
// is asked where several things are right: a key that had expired, or a record that had left, may be on disk or not, and is
// there again when the clock was set back. It gets what CL.GET may answer, and returns the index of what it does answer.
func (s *Store) Load(now int64, choose func(key string, answers []string) int) *Store {
	next := New(now)
	next.MaxLog, next.MaxKey = s.MaxLog, s.MaxKey
	for key, b := range s.keys {
		if !less(next.now(), b.expires()) {
			next.keys[key] = b // not loaded, but it may be on disk still when the clock is set back again
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
