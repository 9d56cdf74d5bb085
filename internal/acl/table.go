package acl

import (
	"fmt"
	"strings"
)

// Command is a command that rules may name.
type Command struct {
	Name       string   // in lower case; client|kill for a subcommand
	Categories []string // with the @: @read
	Index      int      // the argument of User.Allows: unique, from 0, and dense, because sets are bit maps
	Parent     int      // the Index of the container of a subcommand; -1 for any other

	// Always is true for commands that every user may run, such as AUTH, HELLO, QUIT and RESET. Redis flags them
	// no_auth.
	Always bool
}

// RefundCommand is the name of Refund.
const RefundCommand = "cl.refund"

// Refund returns a command that cannot be called. It is the right to negative quantities: rules do not see arguments,
// so the server checks this command as well before it runs one with a negative quantity.
func Refund(index int) Command {
	return Command{Name: RefundCommand, Categories: []string{"@refund", "@dangerous", "@write"}, Index: index, Parent: -1}
}

// redisCategories exist even if they have no commands, so that rules that are written for Redis are valid. They are in
// the order of Redis.
var redisCategories = []string{"keyspace", "read", "write", "set", "sortedset", "list", "hash", "string", "bitmap",
	"hyperloglog", "geo", "stream", "pubsub", "admin", "fast", "slow", "blocking", "dangerous", "connection",
	"transaction", "scripting"}

// category is a set of commands with a name.
type category struct {
	name    string
	members set
	// grant is what a rule with the category changes: its members, and all subcommands of its containers.
	grant set
}

// table has all commands and categories that rules may name. It is immutable.
type table struct {
	rows       []row // containers right before their subcommands, else in the order given
	byName     map[string]int
	categories []category
	byCategory map[string]int
	elsewhere  map[string]bool     // names of commands that Redis has and this table does not
	subs       map[string][]string // the full names of the subcommands of a container, here and elsewhere
	all        set
	always     set
}

// row is a command of the table.
type row struct {
	Command
	grant set // what a rule with the command changes: itself, and its subcommands
}

// newTable panics when the commands contradict each other: they are part of the program.
func newTable(commands []Command) *table {
	t := &table{byName: make(map[string]int), byCategory: make(map[string]int),
		elsewhere: make(map[string]bool), subs: make(map[string][]string)}
	size := 0
	byIndex := make(map[int]int)
	for i, c := range commands {
		if _, taken := byIndex[c.Index]; taken || c.Index < 0 {
			panic(fmt.Sprintf("acl: index %d of %s", c.Index, c.Name))
		}
		byIndex[c.Index] = i
		size = max(size, c.Index+1)
	}
	subs := make(map[int][]Command)
	for _, c := range commands {
		if c.Parent >= 0 {
			at, known := byIndex[c.Parent]
			if !known || commands[at].Parent >= 0 {
				panic(fmt.Sprintf("acl: parent %d of %s", c.Parent, c.Name))
			}
			subs[c.Parent] = append(subs[c.Parent], c)
		}
	}
	t.all, t.always = newSet(size), newSet(size)
	for _, c := range commands {
		if c.Parent < 0 {
			grant := newSet(size)
			for _, sub := range subs[c.Index] {
				grant.add(sub.Index)
			}
			t.add(row{Command: c, grant: grant})
			for _, sub := range subs[c.Index] {
				t.add(row{Command: sub, grant: newSet(size)})
			}
		}
	}
	t.addRedisNames()
	for _, name := range redisCategories {
		t.category(name)
	}
	for _, r := range t.rows {
		for _, name := range r.Categories {
			c := t.category(name[1:])
			c.members.add(r.Index)
			c.grant.with(r.grant)
		}
	}
	return t
}

func (t *table) add(r row) {
	if _, taken := t.byName[r.Name]; taken {
		panic("acl: two commands " + r.Name)
	}
	t.byName[r.Name] = len(t.rows)
	r.grant.add(r.Index)
	t.all.add(r.Index)
	if r.Always {
		t.always.add(r.Index)
	}
	t.rows = append(t.rows, r)
	t.addSub(r.Name)
}

// addSub lists a command under its container, if it has one.
func (t *table) addSub(name string) {
	if container, _, is := strings.Cut(name, "|"); is {
		t.subs[container] = append(t.subs[container], name)
	}
}

// knows reports whether this server or Redis has a command of that full name.
func (t *table) knows(name string) bool {
	_, here := t.byName[name]
	return here || t.elsewhere[name]
}

// category returns the category of that name, and adds it if it does not exist. The pointer is valid until another one
// is added.
func (t *table) category(name string) *category {
	i, known := t.byCategory[name]
	if !known {
		i = len(t.categories)
		t.byCategory[name] = i
		t.categories = append(t.categories, category{name: name, members: t.empty(), grant: t.empty()})
	}
	return &t.categories[i]
}

func (t *table) empty() set { return make(set, len(t.all)) }

// Categories returns the names of all categories, without the @, in the order of ACL CAT.
func (l *List) Categories() []string {
	names := make([]string, len(l.table.categories))
	for i, c := range l.table.categories {
		names[i] = c.name
	}
	return names
}

// InCategory returns the names of the commands in a category, for ACL CAT. The category is given without the @, in any
// letter case. It returns false if the category does not exist.
func (l *List) InCategory(name string) ([]string, bool) {
	i, known := l.table.byCategory[lower(name)]
	if !known {
		return nil, false
	}
	names := []string{}
	for _, r := range l.table.rows {
		if l.table.categories[i].members.has(r.Index) {
			names = append(names, r.Name)
		}
	}
	return names, true
}
