package resp

import "strings"

// flag is a property of a command, by the names that COMMAND INFO gives them.
type flag uint32

const (
	write       flag = 1 << iota // may change keys
	readonly                     // looks at keys
	denyOOM                      // may need memory
	admin                        // is for operators
	fast                         // takes constant or logarithmic time
	loading                      // is allowed while loading
	stale                        // is allowed on a stale replica
	noAuth                       // is allowed before AUTH
	noMulti                      // is not allowed in a transaction
	allowBusy                    // is allowed while a script runs
	movableKeys                  // has keys where only its handler knows
	dangerous                    // category: can hurt, in the wrong hands
	operators                    // category: is for operators, as admin, but MONITOR shows it
	keyspace                     // looks at all keys at once
	unqueued                     // runs at once, even behind MULTI
	decides                      // says itself whether it has changed something
	connects                     // category: is about the connection, though of another group
	debugging                    // is for whom enable-debug-command allows it
	aside                        // in a transaction, runs when nothing is locked: it waits for those who may wait for keys
)

var flagNames = []struct {
	flag flag
	name string
}{
	{write, "write"}, {readonly, "readonly"}, {denyOOM, "denyoom"}, {admin, "admin"}, {fast, "fast"},
	{loading, "loading"}, {stale, "stale"}, {noAuth, "no_auth"}, {noMulti, "no_multi"}, {allowBusy, "allow_busy"},
	{movableKeys, "movablekeys"},
}

func (f flag) names() []string {
	var names []string
	for _, n := range flagNames {
		if f&n.flag != 0 {
			names = append(names, n.name)
		}
	}
	return names
}

// command is a row of the command table: everything that is known of a command.
type command struct {
	name    string // in lower case
	arity   int    // number of words, the name included; at least -arity when negative
	flags   flag
	group   group
	keys    keys
	uses    []string                      // what it does with its keys, as COMMAND INFO tells; one for each where there are several
	find    func(words [][]byte) [][]byte // the keys, where movableKeys says that keys cannot
	args    []arg
	summary string
	cost    string    // its complexity
	subs    []command // a container answers nothing itself

	// secrets calls hide with the number of each word that must not be shown; nil where there is none.
	secrets func(words [][]byte, hide func(i int))

	// run answers, with the words of the command. What it is given is valid only until it returns.
	run func(s *session, words [][]byte)

	parent *command // of a subcommand
	index  int      // among all rows, for the ACL
	needs  []need   // to use its keys, as its uses say; the last for all that follow
	*counts
}

// use returns what the command does with the nth of its keys.
func (c *command) use(n int) string {
	switch {
	case len(c.uses) > 0:
		return c.uses[min(n, len(c.uses)-1)]
	case c.flags&write != 0:
		return "RW access update"
	}
	return "RO access"
}

// need is the rights that a user needs on a key.
type need struct{ reads, writes bool }

// needsOf returns what a use of a key needs, as in Redis: to read takes the right to what is accessed, to write the right to
// whatever is changed. What only looks whether a key exists and of what kind needs either.
func needsOf(use string) need {
	var n need
	for _, word := range strings.Fields(use)[1:] {
		switch word {
		case "access":
			n.reads = true
		case "delete", "insert", "update":
			n.writes = true
		}
	}
	return n
}

type group string

const (
	groupLimit        group = "limit"
	groupGeneric      group = "generic"
	groupConnection   group = "connection"
	groupServer       group = "server"
	groupTransactions group = "transactions"
)

// keys says which words of a command are keys: every step-th from first to last, where a negative last counts from the
// end. A zero first means none.
type keys struct{ first, last, step int }

var (
	oneKey  = keys{1, 1, 1}
	twoKeys = keys{1, 2, 1}
	allKeys = keys{1, -1, 1}
	subKey  = keys{2, 2, 1}
)

// appendTo appends the keys among words.
func (k keys) appendTo(found, words [][]byte) [][]byte {
	if k.first == 0 {
		return found
	}
	last := k.last
	if last < 0 {
		last += len(words)
	}
	for i := k.first; i <= last && i < len(words); i += k.step {
		found = append(found, words[i])
	}
	return found
}

// arg describes an argument, for COMMAND DOCS and for the syntax people read.
type arg struct {
	name     string
	kind     argKind
	token    string // the word that stands before it, or for it
	optional bool
	multiple bool
	args     []arg // of a block or a choice
}

type argKind string

const (
	argKey     argKind = "key"
	argString  argKind = "string"
	argInteger argKind = "integer"
	argDouble  argKind = "double"
	argPattern argKind = "pattern"
	argUnix    argKind = "unix-time"
	argToken   argKind = "pure-token"
	argBlock   argKind = "block"
	argOneOf   argKind = "oneof"
)

// token is a word that may be written.
func token(word string) arg {
	return arg{name: strings.ToLower(word), kind: argToken, token: word, optional: true}
}

// syntax returns how the command is written.
func (c *command) syntax() string {
	var b strings.Builder
	b.WriteString(strings.ToUpper(c.words()))
	for _, a := range c.args {
		b.WriteByte(' ')
		a.write(&b)
	}
	return b.String()
}

func (a arg) write(b *strings.Builder) {
	if a.optional {
		b.WriteByte('[')
	}
	one := a.name
	switch a.kind {
	case argToken:
		one = a.token
	case argBlock, argOneOf:
		between := " "
		if a.kind == argOneOf {
			between = " | "
		}
		var inner strings.Builder
		for i, part := range a.args {
			if i > 0 {
				inner.WriteString(between)
			}
			if a.kind == argOneOf {
				part.optional = false
			}
			part.write(&inner)
		}
		one = inner.String()
		if a.kind == argOneOf && (!a.optional || a.token != "") {
			one = "<" + one + ">"
		}
	}
	if a.token != "" && a.kind != argToken {
		b.WriteString(a.token + " ")
	}
	b.WriteString(one)
	if a.multiple {
		b.WriteString(" [" + one + " ...]")
	}
	if a.optional {
		b.WriteByte(']')
	}
}

// appendKeys appends the keys among the words of a command.
func (c *command) appendKeys(found, words [][]byte) [][]byte {
	if c.find != nil {
		return append(found, c.find(words)...)
	}
	return c.keys.appendTo(found, words)
}

// fullName is how Redis names a command in errors and reports: client|setname.
func (c *command) fullName() string {
	if c.parent != nil {
		return c.parent.name + "|" + c.name
	}
	return c.name
}

// words is how a command is typed: client setname.
func (c *command) words() string { return strings.Replace(c.fullName(), "|", " ", 1) }

func (c *command) takes(n int) bool {
	if c.arity < 0 {
		return n >= -c.arity
	}
	return n == c.arity
}

// categories returns the ACL categories that follow from what the command is. As in Redis a container has none of those of its
// subcommands: what a category grants or denies for a container holds for all of its subcommands.
func (c *command) categories() []string {
	var names []string
	add := func(yes bool, name string) {
		if yes {
			names = append(names, "@"+name)
		}
	}
	add(c.group == groupLimit, "throttle")
	container := len(c.subs) > 0 && c.run == nil
	add(c.group == groupGeneric && !container, "keyspace")
	add(c.flags&readonly != 0, "read")
	add(c.flags&write != 0, "write")
	add(c.flags&(admin|operators) != 0, "admin")
	add(c.flags&(admin|operators|dangerous) != 0, "dangerous")
	add(c.group == groupConnection && !container || c.flags&connects != 0, "connection")
	add(c.group == groupTransactions, "transaction")
	add(c.flags&fast != 0, "fast")
	add(c.flags&fast == 0, "slow")
	return names
}

// commands is the table by name, one level of it.
type commands struct {
	rows   []command
	byName map[string]*command
}

// newCommands makes the table usable: subcommands know their parents, every row can be found, and counts.
func newCommands(rows []command) *commands {
	t := &commands{rows: rows, byName: make(map[string]*command)}
	for i := range rows {
		c := &rows[i]
		c.counts = new(counts)
		c.learnNeeds()
		t.byName[c.name] = c
		for j := range c.subs {
			sub := &c.subs[j]
			sub.parent, sub.group, sub.counts = c, c.group, new(counts)
			sub.learnNeeds()
			t.byName[sub.fullName()] = sub
		}
	}
	return t
}

// learnNeeds notes what a user needs to use the keys of the command.
func (c *command) learnNeeds() {
	c.needs = nil
	for i := range max(1, len(c.uses)) {
		c.needs = append(c.needs, needsOf(c.use(i)))
	}
}

// find returns the row of the command that words call, its subcommand if it is a container, without allocating. A
// subcommand that does not exist returns the container and false.
func (t *commands) find(words [][]byte) (*command, bool) {
	var room [64]byte
	name, ok := appendLower(room[:0], words[0])
	if !ok {
		return nil, false
	}
	c := t.byName[string(name)]
	if c == nil || c.parent != nil {
		return nil, false
	}
	if len(c.subs) == 0 || len(words) < 2 {
		return c, true
	}
	name, ok = appendLower(append(name, '|'), words[1])
	if !ok {
		return c, false
	}
	if sub := t.byName[string(name)]; sub != nil {
		return sub, true
	}
	return c, false
}

// each calls visit for every row, containers before their subcommands.
func (t *commands) each(visit func(c *command)) {
	for i := range t.rows {
		visit(&t.rows[i])
		for j := range t.rows[i].subs {
			visit(&t.rows[i].subs[j])
		}
	}
}

// calls returns how many commands have run.
func (t *commands) calls() (n uint64) {
	t.each(func(c *command) { n += c.calls.Load() })
	return n
}

// appendLower appends b in lower case, if there is room for it.
func appendLower(dst, b []byte) ([]byte, bool) {
	if len(dst)+len(b) > cap(dst) {
		return dst, false
	}
	for _, c := range b {
		if 'A' <= c && c <= 'Z' {
			c += 'a' - 'A'
		}
		dst = append(dst, c)
	}
	return dst, true
}
