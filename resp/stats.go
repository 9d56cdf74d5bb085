package resp

import (
	"maps"
	"strings"
	"sync"
	"sync/atomic"
)

// stats counts what INFO tells.
type stats struct {
	connections atomic.Uint64 // accepted
	rejected    atomic.Uint64 // over maxclients
	read        atomic.Uint64 // bytes
	written     atomic.Uint64 // bytes
	dropped     atomic.Uint64 // connections, for replies they did not read
	hits        atomic.Uint64 // keys that reading commands have found
	misses      atomic.Uint64 // keys that they have not

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

func (s *stats) reset() {
	for _, n := range []*atomic.Uint64{&s.connections, &s.rejected, &s.read, &s.written, &s.dropped, &s.hits, &s.misses} {
		n.Store(0)
	}
	s.mu.Lock()
	s.errors = nil
	s.mu.Unlock()
}
