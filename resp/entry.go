package resp

import (
	"cellserver/resp/command"
	"cellserver/resp/stats"
)

// entry is a row of the command table with what the server has for it: the handler, and the counts.
type entry struct {
	*command.Row
	*stats.Command

	// run answers, given the words of the command, which are valid only until it returns. It is nil for a container.
	run func(s *session, words [][]byte)
}

// entries are the rows of the command table as a server has them.
type entries struct {
	table *command.Table
	list  []entry // by index
}

func newEntries() *entries {
	t := command.New()
	e := &entries{table: t, list: make([]entry, t.Len())}
	t.Each(func(c *command.Row) {
		e.list[c.Index] = entry{Row: c, Command: new(stats.Command), run: handlers[c.FullName()]}
	})
	return e
}

// of returns the entry of a row.
func (e *entries) of(row *command.Row) *entry { return &e.list[row.Index] }

// find returns the entry of the command that words call, as Table.Find does.
func (e *entries) find(words [][]byte) (c *entry, found bool) {
	row, found := e.table.Find(words)
	if row == nil {
		return nil, false
	}
	return e.of(row), found
}

// each calls visit for every entry, containers before their subcommands.
func (e *entries) each(visit func(c *entry)) {
	for i := range e.list {
		visit(&e.list[i])
	}
}

// calls returns how many commands have run.
func (e *entries) calls() (n uint64) {
	for i := range e.list {
		n += e.list[i].Calls.Load()
	}
	return n
}
