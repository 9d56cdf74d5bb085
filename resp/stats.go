package resp

import (
	"maps"
	"strings"
	"sync"
	"sync/atomic"
)

// stats counts what INFO tells.
type stats struct {
	hits    atomic.Uint64 // keys that reading commands have found
	misses  atomic.Uint64 // keys that they have not
	expired atomic.Uint64 // keys that had expired when the counts were reset
	evicted atomic.Uint64 // keys that were evicted by then
	peak    atomic.Uint64 // the most memory in use that was ever seen; not reset

	mu     sync.Mutex
	errors map[string]uint64 // replies by their prefix
}

// maxErrorPrefixes is how many different prefixes are counted. They are all ours, so there are few.
const maxErrorPrefixes = 64

// count counts an error reply.
func (s *stats) count(text string) {
	prefix, _, _ := strings.Cut(text, " ")
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, known := s.errors[prefix]; known || len(s.errors) < maxErrorPrefixes {
		if s.errors == nil {
			s.errors = make(map[string]uint64)
		}
		s.errors[strings.Clone(prefix)]++
	}
}

func (s *stats) errorsByPrefix() map[string]uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.errors)
}

// reset begins to count anew, when so many keys have expired and been evicted.
func (s *stats) reset(expired, evicted uint64) {
	s.expired.Store(expired)
	s.evicted.Store(evicted)
	for _, n := range []*atomic.Uint64{&s.hits, &s.misses} {
		n.Store(0)
	}
	s.mu.Lock()
	s.errors = nil
	s.mu.Unlock()
}
