package latency

import (
	"slices"
	"sort"
	"sync"
)

// Events remembers, by event, when something took longer than a threshold.
type Events struct {
	mu     sync.Mutex
	events map[string][]Spike // the newest last, one a second
}

// Spike is the longest that an event took within one second.
type Spike struct {
	At   int64 // seconds of Unix time
	Took int64 // milliseconds
}

// keptLatencies is how many seconds are remembered of each event.
const keptLatencies = 160

// The events, by Redis's names.
const (
	Command     = "command"
	FastCommand = "fast-command"
)

// Add notes that an event at a second of Unix time took so many milliseconds.
func (l *Events) Add(event string, at, took int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.events == nil {
		l.events = make(map[string][]Spike)
	}
	list := l.events[event]
	if n := len(list); n > 0 && list[n-1].At == at {
		list[n-1].Took = max(list[n-1].Took, took)
		return
	}
	if list = append(list, Spike{at, took}); len(list) > keptLatencies {
		list = slices.Delete(list, 0, 1)
	}
	l.events[event] = list
}

// Names returns the events that there were, sorted.
func (l *Events) Names() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	names := make([]string, 0, len(l.events))
	for name := range l.events {
		names = append(names, name)
	}
	sort.Strings(names)
	return names
}

// Of returns the spikes of an event, the newest last.
func (l *Events) Of(event string) []Spike {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.events[event])
}

// Forget forgets events, all of them if none is named, and returns how many that were.
func (l *Events) Forget(names []string) (n int64) {
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

// Worst returns the longest of an event.
func Worst(list []Spike) (most int64) {
	for _, l := range list {
		most = max(most, l.Took)
	}
	return most
}
