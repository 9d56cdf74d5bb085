package acl

import (
	"slices"
	"strings"
	"sync"
	"time"
)

// Reason is what a denial was for, as ACL LOG names it.
type Reason string

// The reasons for denials.
const (
	ReasonAuth    Reason = "auth"
	ReasonCommand Reason = "command"
	ReasonKey     Reason = "key"
)

// Context is where a denied command was given, as ACL LOG names it.
type Context string

// The contexts of denials.
const (
	ContextTopLevel Context = "toplevel"
	ContextMulti    Context = "multi"
)

// Denial is something that was not allowed.
type Denial struct {
	Reason   Reason
	Context  Context
	Object   string // the key, the full name of the command, or the word that was to authenticate: AUTH, HELLO
	Username string // of who was denied, or whom it wanted to be
	Client   string // the connection, as CLIENT LIST has it
}

// Entry is a line of the log: denials that differ in nothing but the time and the connection.
type Entry struct {
	Denial        // the last of them
	Count  uint64 // how many there were
	Age    time.Duration
}

const (
	// logEntries is how many entries are kept.
	logEntries = 128
	// logText is the most bytes that are kept of each text, which clients choose.
	logText = 1024
	// logGroup is how long after an entry another denial still counts towards it.
	logGroup = int64(time.Minute)
	// logSearch is how many of the latest entries are searched for one to count towards.
	logSearch = 10
)

// Log remembers the last denials: 128 entries, with at most 1 KB of each of their texts. The zero value is an empty
// one. Many goroutines may use it at once.
type Log struct {
	mu      sync.Mutex
	entries []*logEntry // the latest first
}

type logEntry struct {
	Denial
	count uint64
	last  int64 // nanoseconds of Unix time
}

// Add remembers a denial at a time in nanoseconds of Unix time. Like Redis, it counts it towards an equal one of the
// last ten, if that is no more than a minute old.
func (g *Log) Add(now int64, d Denial) {
	d.Object, d.Username, d.Client = short(d.Object), short(d.Username), short(d.Client)
	g.mu.Lock()
	defer g.mu.Unlock()
	for i, e := range g.entries[:min(len(g.entries), logSearch)] {
		same := d
		same.Client = e.Client
		if same == e.Denial && max(now-e.last, e.last-now) <= logGroup {
			copy(g.entries[1:i+1], g.entries[:i])
			g.entries[0] = e
			e.Client, e.last = strings.Clone(d.Client), now
			e.count++
			return
		}
	}
	if len(g.entries) == logEntries {
		g.entries = g.entries[:logEntries-1]
	}
	// Copies do not hold on to the buffers that the texts were cut from.
	d.Object, d.Username, d.Client = strings.Clone(d.Object), strings.Clone(d.Username), strings.Clone(d.Client)
	g.entries = slices.Insert(g.entries, 0, &logEntry{Denial: d, count: 1, last: now})
}

func short(s string) string { return s[:min(len(s), logText)] }

// Entries returns the latest n entries, or all if there are fewer, the latest first. The time is that of Add.
func (g *Log) Entries(now int64, n int) []Entry {
	g.mu.Lock()
	defer g.mu.Unlock()
	entries := make([]Entry, min(len(g.entries), max(n, 0)))
	for i := range entries {
		e := g.entries[i]
		entries[i] = Entry{e.Denial, e.count, time.Duration(now - e.last)}
	}
	return entries
}

// Reset forgets everything.
func (g *Log) Reset() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.entries = nil
}
