package latency

import (
	"slices"
	"sync"
	"time"
)

// Slowlog remembers the commands that took long.
type Slowlog struct {
	mu      sync.Mutex
	entries []Entry // the newest last
	next    int64
}

// Entry is one of them.
type Entry struct {
	ID     int64
	At     int64 // nanoseconds of Unix time
	Took   time.Duration
	Words  []string
	Client string
	Name   string
}

// The most words of a command that an entry has, and the most bytes of each word.
const (
	MaxWords = 32
	MaxBytes = 128
)

// Add remembers a command, and forgets the oldest while there are more than most.
func (l *Slowlog) Add(e Entry, most int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	e.ID = l.next
	l.next++
	l.entries = append(l.entries, e)
	if over := int64(len(l.entries)) - most; over > 0 {
		l.entries = slices.Delete(l.entries, 0, int(over))
	}
}

// Latest returns the newest entries, n at most, or all when n is below 0.
func (l *Slowlog) Latest(n int64) []Entry {
	l.mu.Lock()
	defer l.mu.Unlock()
	if n < 0 || n > int64(len(l.entries)) {
		n = int64(len(l.entries))
	}
	list := slices.Clone(l.entries[int64(len(l.entries))-n:])
	slices.Reverse(list)
	return list
}

// Len returns the number of entries.
func (l *Slowlog) Len() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.entries)
}

// Reset forgets all entries; their numbers go on.
func (l *Slowlog) Reset() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.entries = nil
}
