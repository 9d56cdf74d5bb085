package resp

import (
	"cellserver/resp/command"
	"cellserver/resp/stats"
)

// entry is a row of the command table with its handler and its counts.
type entry struct {
	*command.Row
	*stats.Command

	// run checks the arguments, runs the command, and appends the reply. The words are valid until it returns. It is nil for a
	// container.
	run func(s *session, words [][]byte)
}

// entries are the entries of all rows of the command table.
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

// find returns the entry of a command by its words. Its results are those of Table.Find.
func (e *entries) find(words [][]byte) (c *entry, found bool) {
	row, found := e.table.Find(words)
	if row == nil {
		return nil, false
	}
	return e.of(row), found
}

// named returns the entry of the command or container of a name.
func (e *entries) named(name []byte) (c *entry, found bool) {
	c, found = e.find([][]byte{name})
	return c, found && c != nil
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
