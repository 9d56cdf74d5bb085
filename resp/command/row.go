package command

import "strings"

// Flags are properties of a command. The first eleven are Redis's, with the meaning and the name that COMMAND INFO gives
// them; the others are the server's own, or decide which ACL categories the command is in.
type Flags uint32

// The flags of commands.
const (
	Write       Flags = 1 << iota // may change keys
	ReadOnly                      // looks at keys
	DenyOOM                       // may need memory
	Admin                         // is for operators
	Fast                          // takes constant or logarithmic time: Redis's word, for clients only
	Loading                       // is allowed while loading
	Stale                         // is allowed on a stale replica
	NoAuth                        // is allowed before AUTH
	NoMulti                       // is not allowed in a transaction
	AllowBusy                     // is allowed while a script runs
	MovableKeys                   // has keys in places that only Row.Find knows
	Dangerous                     // category: can hurt, in the wrong hands
	Operators                     // category: is for operators, as admin, but MONITOR shows it
	Keyspace                      // depends on all keys at once
	Unqueued                      // runs at once, even behind MULTI
	Decides                       // its handler reports whether it has changed something
	Connects                      // category: is about the connection, though of another group
	NonBlocking                   // may run on an event loop: takes microseconds and waits for nothing
	Short                         // takes constant time, though Redis does not call it fast: it is not timed by itself
	Debugging                     // is allowed only to those that enable-debug-command names
	NoScript                      // scripts must not call it
	Aside                         // in a transaction, runs after the keys are unlocked: it may wait for a lock whose holder waits for keys
	Scripts                       // runs a script, which may need more keys than the command names
	ByText                        // the script is given by its text, and not by its SHA-1
)

var flagNames = []struct {
	flag Flags
	name string
}{
	{Write, "write"}, {ReadOnly, "readonly"}, {DenyOOM, "denyoom"}, {Admin, "admin"}, {Fast, "fast"},
	{Loading, "loading"}, {Stale, "stale"}, {NoAuth, "no_auth"}, {NoMulti, "no_multi"}, {AllowBusy, "allow_busy"},
	{MovableKeys, "movablekeys"}, {NoScript, "noscript"},
}

func (f Flags) names() []string {
	var names []string
	for _, n := range flagNames {
		if f&n.flag != 0 {
			names = append(names, n.name)
		}
	}
	return names
}

// Row describes one command. It is data: who runs the command binds a handler to the row's full name.
type Row struct {
	Name        string // in lower case
	Arity       int    // number of words, the name included; at least -Arity if negative
	Flags       Flags
	Group       Group
	Keys        Keys
	Uses        []string                      // what it does with each of its keys, in the words of key specifications; the last holds for all that follow
	UseOf       func(words [][]byte) string   // returns what words do with their key, if it may be less than Uses say; nil for others
	Find        func(words [][]byte) [][]byte // returns the keys of a command with MovableKeys; nil for others
	CountedKeys int                           // the word that says how many keys follow it; 0 for other commands
	Args        []Arg
	Summary     string
	Cost        string // complexity, as COMMAND DOCS tells it
	Subs        []Row  // subcommands
	Alone       bool   // answers without a subcommand although it has some

	// Secrets calls hide with the index of each word that SLOWLOG and MONITOR must not show; nil if there is none.
	Secrets func(words [][]byte, hide func(i int))

	Parent *Row   // the container of a subcommand; nil for others
	Index  int    // among all rows of the table
	Needs  []Need // the rights that Uses need, one for each
}

// Group is the group of a command, as COMMAND DOCS tells it.
type Group string

// The groups of commands.
const (
	GroupLimit        Group = "limit"
	GroupGeneric      Group = "generic"
	GroupString       Group = "string"
	GroupConnection   Group = "connection"
	GroupServer       Group = "server"
	GroupTransactions Group = "transactions"
	GroupScripting    Group = "scripting"
)

// FullName returns the name that Redis uses in errors and reports: client|setname.
func (c *Row) FullName() string {
	if c.Parent != nil {
		return c.Parent.Name + "|" + c.Name
	}
	return c.Name
}

// Words returns the name as it is typed: client setname.
func (c *Row) Words() string { return strings.Replace(c.FullName(), "|", " ", 1) }

// Takes reports whether the command can have n words, its name included.
func (c *Row) Takes(n int) bool {
	if c.Arity < 0 {
		return n >= -c.Arity
	}
	return n == c.Arity
}

// Container reports whether c answers only through its subcommands.
func (c *Row) Container() bool { return len(c.Subs) > 0 && !c.Alone }

// Categories returns the ACL categories of the command, which follow from its flags and its group. As in Redis a container has none of those of its
// subcommands: what a category grants or denies for a container holds for all of its subcommands.
func (c *Row) Categories() []string {
	var names []string
	add := func(yes bool, name string) {
		if yes {
			names = append(names, "@"+name)
		}
	}
	add(c.Group == GroupLimit, "throttle")
	container := c.Container()
	add(c.Group == GroupGeneric && !container, "keyspace")
	add(c.Group == GroupString, "string")
	add(c.Flags&ReadOnly != 0 && c.Group != GroupScripting, "read")
	add(c.Flags&Write != 0, "write")
	add(c.Flags&(Admin|Operators) != 0, "admin")
	add(c.Flags&(Admin|Operators|Dangerous) != 0, "dangerous")
	add(c.Group == GroupConnection && !container || c.Flags&Connects != 0, "connection")
	add(c.Group == GroupTransactions, "transaction")
	add(c.Group == GroupScripting && !container, "scripting")
	add(c.Flags&Fast != 0, "fast")
	add(c.Flags&Fast == 0, "slow")
	return names
}
