package acl

import (
	"slices"
	"strings"
	"sync"
	"time"
)

// Reason says what was denied, in the words of ACL LOG.
type Reason string

// The reasons for denials.
const (
	ReasonAuth    Reason = "auth"
	ReasonCommand Reason = "command"
	ReasonKey     Reason = "key"
)

// Context says where a denied command was given, in the words of ACL LOG.
type Context string

// The contexts of denials.
const (
	ContextTopLevel Context = "toplevel"
	ContextMulti    Context = "multi"
	ContextScript   Context = "lua"
)

// Denial is something that was not allowed.
type Denial struct {
	Reason   Reason
	Context  Context
	Object   string // the key, the full name of the command, or for ReasonAuth the command: AUTH or HELLO
	Username string // the user that was denied, or for ReasonAuth the one that was asked for
	Client   string // the connection, as CLIENT LIST has it
}

// Entry is an entry of the log: denials that differ only in their time and connection.
type Entry struct {
	Denial        // the latest denial
	Count  uint64 // the number of denials
	Age    time.Duration
}

const (
	// logEntries is how many entries are kept.
	logEntries = 128
	// logText is how many bytes of each text are kept; clients choose the texts.
	logText = 1024
	// logGroup is how long after the last denial of an entry, in nanoseconds, an equal one is counted in that entry.
	logGroup = int64(time.Minute)
	// logSearch is how many of the latest entries are searched for an equal denial.
	logSearch = 10
)

// Log has the latest denials: up to 128 entries, with at most 1 KB of each text. The zero Log is empty. Many goroutines
// may use it at once.
type Log struct {
	mu      sync.Mutex
	entries []*logEntry // the latest first
}

type logEntry struct {
	Denial
	count uint64
	last  int64 // nanoseconds of Unix time
}

// Add adds a denial at now, in nanoseconds of Unix time. Like Redis, it counts the denial in an equal one of the last
// ten entries, if that is at most a minute old.
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
	// Copies do not keep the buffers alive that the texts are slices of.
	d.Object, d.Username, d.Client = strings.Clone(d.Object), strings.Clone(d.Username), strings.Clone(d.Client)
	g.entries = slices.Insert(g.entries, 0, &logEntry{Denial: d, count: 1, last: now})
}

func short(s string) string { return s[:min(len(s), logText)] }

// Entries returns the latest n entries, or all if there are fewer, the latest first. now is in nanoseconds of Unix
// time, as in Add.
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

// Reset removes all entries.
func (g *Log) Reset() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.entries = nil
}
