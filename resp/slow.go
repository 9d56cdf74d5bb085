package resp

import (
	"slices"
	"sort"
	"sync"
	"time"
)

// slowlog remembers the commands that took long, the newest first.
type slowlog struct {
	mu      sync.Mutex
	entries []slowEntry // the newest last
	next    int64
}

type slowEntry struct {
	id     int64
	at     int64 // nanoseconds of Unix time
	took   time.Duration
	words  []string
	client string
	name   string
}

// Of a command that is remembered, so many words and bytes of each are.
const (
	slowWords = 32
	slowBytes = 128
)

func (l *slowlog) add(e slowEntry, most int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	e.id = l.next
	l.next++
	l.entries = append(l.entries, e)
	if over := int64(len(l.entries)) - most; over > 0 {
		l.entries = slices.Delete(l.entries, 0, int(over))
	}
}

// latest returns the newest entries, n at most, or all when n is below 0.
func (l *slowlog) latest(n int64) []slowEntry {
	l.mu.Lock()
	defer l.mu.Unlock()
	if n < 0 || n > int64(len(l.entries)) {
		n = int64(len(l.entries))
	}
	list := slices.Clone(l.entries[int64(len(l.entries))-n:])
	slices.Reverse(list)
	return list
}

func (l *slowlog) len() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.entries)
}

func (l *slowlog) reset() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.entries = nil
}

// latencies remembers, by event, when something took longer than the threshold.
type latencies struct {
	mu     sync.Mutex
	events map[string][]latency // the newest last, one a second
}

type latency struct {
	at   int64 // seconds of Unix time
	took int64 // milliseconds
}

// keptLatencies is how many seconds are remembered of each event.
const keptLatencies = 160

// The events, by Redis's names.
const (
	eventCommand = "command"
	eventFast    = "fast-command"
)

func (l *latencies) add(event string, at, took int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.events == nil {
		l.events = make(map[string][]latency)
	}
	list := l.events[event]
	if n := len(list); n > 0 && list[n-1].at == at {
		list[n-1].took = max(list[n-1].took, took)
		return
	}
	if list = append(list, latency{at, took}); len(list) > keptLatencies {
		list = slices.Delete(list, 0, 1)
	}
	l.events[event] = list
}

// names returns the events that there were, sorted.
func (l *latencies) names() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	names := make([]string, 0, len(l.events))
	for name := range l.events {
		names = append(names, name)
	}
	sort.Strings(names)
	return names
}

func (l *latencies) of(event string) []latency {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.events[event])
}

// forget forgets events, all of them if none is named, and returns how many that were.
func (l *latencies) forget(names []string) (n int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(names) == 0 {
		n = int64(len(l.events))
		l.events = nil
	}
	for _, name := range names {
		if _, there := l.events[name]; there {
			delete(l.events, name)
			n++
		}
	}
	return n
}

// worst returns the longest of an event.
func worst(list []latency) (most int64) {
	for _, l := range list {
		most = max(most, l.took)
	}
	return most
}
