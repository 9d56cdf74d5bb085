// Package info writes what INFO and the subcommands of MEMORY answer, given the numbers. Fields that mean what they mean in
// Redis have Redis's names. Fields that would mean nothing here are left out.
package info

import (
	"fmt"
	"strings"

	"cellserver/buckets"
	"cellserver/resp/stats"
)

// second and millisecond are in nanoseconds.
const (
	second      = int64(1e9)
	millisecond = int64(1e6)
)

// Source gathers the numbers of the sections. A method is called only if its section is asked for.
type Source interface {
	Server() Server
	Clients() Clients
	Memory() Memory
	Persistence() Persistence
	Stats() Stats
	Keyspace() []Keyspace
	Store() *buckets.RemoteStats // nil if the keys are in no other program

	// EachCommand calls visit for every row of the command table.
	EachCommand(visit func(name string, c *stats.Command))
}

// section is one part of INFO.
type section struct {
	name  string
	extra bool // only if it is asked for by name, or by all or everything
	write func(t *text, s Source)
	only  func(s Source) bool // reports whether there is such a section; nil is always
}

var sections = []section{
	{name: "Server", write: func(t *text, s Source) { s.Server().write(t) }},
	{name: "Clients", write: func(t *text, s Source) { s.Clients().write(t) }},
	{name: "Memory", write: func(t *text, s Source) { m := s.Memory(); m.write(t) }},
	{name: "Persistence", write: func(t *text, s Source) { s.Persistence().write(t) }},
	{name: "Stats", write: func(t *text, s Source) { s.Stats().write(t) }},
	{name: "Replication", write: func(t *text, s Source) { s.Server().writeReplication(t) }},
	{name: "CPU", write: func(t *text, _ Source) { writeCPU(t) }},
	{name: "Modules", write: func(t *text, s Source) { s.Server().writeModules(t) }},
	{name: "Commandstats", extra: true, write: writeCommands},
	{name: "Errorstats", write: func(t *text, s Source) { s.Stats().writeErrors(t) }},
	{name: "Latencystats", extra: true, write: writeLatencies},
	{name: "Cluster", write: func(t *text, _ Source) { t.field("cluster_enabled", 0) }},
	{name: "Store", write: func(t *text, s Source) { writeStore(t, s.Store()) }, only: func(s Source) bool { return s.Store() != nil }},
	{name: "Keyspace", write: writeKeyspace},
}

// Text returns what INFO answers to these words behind it: names of sections, default, all or everything.
func Text(words [][]byte, s Source) string {
	asked := make(map[string]bool)
	for _, w := range words {
		asked[strings.ToLower(string(w))] = true
	}
	every := asked["all"] || asked["everything"]
	usual := len(asked) == 0 || asked["default"]
	var t text
	for _, section := range sections {
		if !every && !asked[strings.ToLower(section.name)] && (!usual || section.extra) {
			continue
		}
		if section.only != nil && !section.only(s) {
			continue
		}
		if t.Len() > 0 {
			t.WriteString("\r\n")
		}
		t.WriteString("# " + section.name + "\r\n")
		section.write(&t, s)
	}
	return t.String()
}

// text is lines of fields.
type text struct{ strings.Builder }

// field writes a line.
func (t *text) field(name string, value any) { fmt.Fprintf(&t.Builder, "%s:%v\r\n", name, value) }

// fieldf writes a line with a value as fmt.Sprintf makes it.
func (t *text) fieldf(name, format string, args ...any) { t.field(name, fmt.Sprintf(format, args...)) }

// flag returns 1 or 0.
func flag(yes bool) int {
	if yes {
		return 1
	}
	return 0
}
