package command

import (
	"slices"
	"strings"
	"sync/atomic"

	"cellserver/resp/frame"
)

// New returns the command table. Dispatch, arity, COMMAND and its DOCS, the counts of INFO, the categories of the ACL and the
// page of all commands are made from it.
func New() *Table {
	return newTableOf(slices.Concat(limitRows(), keyRows(), counterRows(), connectionRows(), transactionRows(), scriptRows(), serverRows()))
}

// Table is the rows of all commands, by name.
type Table struct {
	Rows   []Row // without those of subcommands
	n      int   // rows and their subcommands
	byName map[string]*Row

	described [2]struct { // what COMMAND and COMMAND DOCS answer in RESP2 and in RESP3, once it has been asked for
		infos, docs atomic.Pointer[[]byte]
	}
}

// newTableOf makes a table of rows: it sets their Parent, Group, Index and Needs.
func newTableOf(rows []Row) *Table {
	t := &Table{Rows: rows, byName: make(map[string]*Row)}
	for i := range rows {
		c := &rows[i]
		c.Index = t.n
		t.n++
		c.learnNeeds()
		t.byName[c.Name] = c
		for j := range c.Subs {
			sub := &c.Subs[j]
			sub.Parent, sub.Group, sub.Index = c, c.Group, t.n
			t.n++
			sub.learnNeeds()
			t.byName[sub.FullName()] = sub
		}
	}
	return t
}

// learnNeeds sets Needs from Uses.
func (c *Row) learnNeeds() {
	c.Needs = nil
	for i := range max(1, len(c.Uses)) {
		c.Needs = append(c.Needs, needsOf(c.Use(i)))
	}
}

// Len returns the number of rows, those of subcommands included. Every Index is below it.
func (t *Table) Len() int { return t.n }

// Named returns the row with a full name in any case, client|setname for a subcommand, or nil.
func (t *Table) Named(name string) *Row { return t.byName[strings.ToLower(name)] }

// Find returns the row of the command that words call; of a command with subcommands, the row of the subcommand. It returns
// nil for an unknown command, and the container and false for an unknown subcommand. It does not allocate.
func (t *Table) Find(words [][]byte) (*Row, bool) {
	var room [64]byte
	name, ok := frame.AppendLower(room[:0], words[0])
	if !ok {
		return nil, false
	}
	c := t.byName[string(name)]
	if c == nil || c.Parent != nil {
		return nil, false
	}
	if len(c.Subs) == 0 || len(words) < 2 {
		return c, true
	}
	name, ok = frame.AppendLower(append(name, '|'), words[1])
	if !ok {
		return c, false
	}
	if sub := t.byName[string(name)]; sub != nil {
		return sub, true
	}
	return c, false
}

// Each calls visit for every row, containers before their subcommands.
func (t *Table) Each(visit func(c *Row)) {
	for i := range t.Rows {
		visit(&t.Rows[i])
		for j := range t.Rows[i].Subs {
			visit(&t.Rows[i].Subs[j])
		}
	}
}
