package resp

import (
	"slices"
	"strings"
	"sync/atomic"
)

// described is what COMMAND and COMMAND DOCS answer, which clients ask for when they connect: made once, when it is first
// asked for.
type described [2]struct { // in RESP2 and RESP3
	infos, docs atomic.Pointer[[]byte]
}

// once answers what kept holds, after it has been made with make if it does not hold anything yet.
func (s *session) once(kept *atomic.Pointer[[]byte], make func()) {
	if made := kept.Load(); made != nil {
		s.out.b = append(s.out.b, *made...)
		return
	}
	mark := len(s.out.b)
	make()
	made := slices.Clone(s.out.b[mark:])
	kept.Store(&made)
}

// commandAll is COMMAND: every row.
func commandAll(s *session, _ [][]byte) {
	rows := s.srv.table.rows
	s.once(&s.srv.described[boolInt(s.out.resp3)].infos, func() {
		s.out.array(len(rows))
		for i := range rows {
			s.commandInfo(&rows[i])
		}
	})
}

func commandCount(s *session, _ [][]byte) { s.out.int(int64(len(s.srv.table.rows))) }

// named returns the row with a name as COMMAND INFO and COMMAND DOCS write it, client|setname for a subcommand.
func (s *session) named(word []byte) *command {
	return s.srv.table.byName[strings.ToLower(string(word))]
}

func commandInfo(s *session, words [][]byte) {
	if len(words) == 2 {
		commandAll(s, words)
		return
	}
	s.out.array(len(words) - 2)
	for _, w := range words[2:] {
		if c := s.named(w); c != nil {
			s.commandInfo(c)
		} else {
			s.out.null()
		}
	}
}

// commandInfo appends one command as COMMAND INFO tells it, in Redis's ten fields.
func (s *session) commandInfo(c *command) {
	out := &s.out
	out.array(10)
	out.bulkString(c.fullName())
	out.int(int64(c.arity))
	out.statuses(c.flags.names())
	out.int(int64(c.keys.first))
	out.int(int64(c.keys.last))
	out.int(int64(c.keys.step))
	out.statuses(c.categories())
	out.setOf(0) // tips for proxies: none
	s.keySpecs(c)
	if len(c.subs) == 0 {
		out.setOf(0)
		return
	}
	out.array(len(c.subs))
	for i := range c.subs {
		s.commandInfo(&c.subs[i])
	}
}

func (r *reply) statuses(names []string) {
	r.setOf(len(names))
	for _, name := range names {
		r.status(name)
	}
}

// keySpecs appends where a command's keys are, and what becomes of them.
func (s *session) keySpecs(c *command) {
	switch {
	case c.keys.first == 0:
		s.out.setOf(0)
	case len(c.uses) < 2:
		s.out.setOf(1)
		s.keySpec(c.use(0), c.keys)
	default:
		s.out.setOf(len(c.uses))
		for i, use := range c.uses {
			at := c.keys.first + i*c.keys.step
			s.keySpec(use, keys{at, at, 1})
		}
	}
}

func (s *session) keySpec(use string, k keys) {
	out := &s.out
	out.mapOf(3)
	out.bulkString("flags")
	out.statuses(strings.Fields(use))
	out.bulkString("begin_search")
	out.mapOf(2)
	out.bulkString("type")
	out.bulkString("index")
	out.bulkString("spec")
	out.mapOf(1)
	out.bulkString("index")
	out.int(int64(k.first))
	out.bulkString("find_keys")
	out.mapOf(2)
	out.bulkString("type")
	out.bulkString("range")
	out.bulkString("spec")
	out.mapOf(3)
	out.bulkString("lastkey")
	last := k.last
	if last > 0 {
		last -= k.first // counted from the first
	}
	out.int(int64(last))
	out.bulkString("keystep")
	out.int(int64(k.step))
	out.bulkString("limit")
	out.int(0)
}

// commandList is COMMAND LIST [FILTERBY <MODULE name | ACLCAT category | PATTERN pattern>].
func commandList(s *session, words [][]byte) {
	keep := func(*command) bool { return true }
	if len(words) > 2 {
		if len(words) != 5 || !is(words[2], "FILTERBY") {
			s.out.error(errSyntax)
			return
		}
		by := words[4]
		switch {
		case is(words[3], "MODULE"):
			cell := string(by) == moduleName
			keep = func(c *command) bool { return cell && c.group == groupLimit }
		case is(words[3], "ACLCAT"):
			keep = func(c *command) bool {
				for _, name := range c.categories() {
					if strings.EqualFold(name[1:], string(by)) {
						return true
					}
				}
				return false
			}
		case is(words[3], "PATTERN"):
			pattern := []byte(strings.ToLower(string(by)))
			keep = func(c *command) bool { return globMatch(pattern, []byte(c.fullName())) }
		default:
			s.out.error(errSyntax)
			return
		}
	}
	var f found
	s.srv.table.each(func(c *command) {
		if keep(c) {
			f.add([]byte(c.fullName()))
		}
	})
	s.list(&f)
}

// commandDocs is COMMAND DOCS [name ...]: what redis-cli makes its hints and help from.
func commandDocs(s *session, words [][]byte) {
	if len(words) == 2 {
		rows := s.srv.table.rows
		s.once(&s.srv.described[boolInt(s.out.resp3)].docs, func() {
			s.out.mapOf(len(rows))
			for i := range rows {
				s.commandDocs(&rows[i])
			}
		})
		return
	}
	var rows []*command
	for _, w := range words[2:] {
		if c := s.named(w); c != nil {
			rows = append(rows, c)
		}
	}
	s.out.mapOf(len(rows))
	for _, c := range rows {
		s.commandDocs(c)
	}
}

func (s *session) commandDocs(c *command) {
	out := &s.out
	out.bulkString(c.fullName())
	n := 4
	if len(c.args) > 0 {
		n++
	}
	if len(c.subs) > 0 {
		n++
	}
	out.mapOf(n)
	out.bulkString("summary")
	out.bulkString(c.summary)
	out.bulkString("since")
	out.bulkString(since)
	out.bulkString("group")
	out.bulkString(string(c.group))
	out.bulkString("complexity")
	out.bulkString(c.cost)
	if len(c.args) > 0 {
		out.bulkString("arguments")
		out.arguments(c.args, c.keys.first > 0)
	}
	if len(c.subs) > 0 {
		out.bulkString("subcommands")
		out.mapOf(len(c.subs))
		for i := range c.subs {
			s.commandDocs(&c.subs[i])
		}
	}
}

// since is the version from which on all of today's commands exist.
const since = "0.1.0"

func (r *reply) arguments(args []arg, specified bool) {
	r.array(len(args))
	for _, a := range args {
		var flags []string
		if a.optional {
			flags = append(flags, "optional")
		}
		if a.multiple {
			flags = append(flags, "multiple")
		}
		n := 2
		for _, more := range []bool{specified && a.kind == argKey, a.token != "", len(flags) > 0, len(a.args) > 0} {
			n += int(boolInt(more))
		}
		r.mapOf(n)
		r.bulkString("name")
		r.bulkString(a.name)
		r.bulkString("type")
		r.bulkString(string(a.kind))
		if specified && a.kind == argKey {
			r.bulkString("key_spec_index")
			r.int(0)
		}
		if a.token != "" {
			r.bulkString("token")
			r.bulkString(a.token)
		}
		if len(flags) > 0 {
			r.bulkString("flags")
			r.statuses(flags)
		}
		if len(a.args) > 0 {
			r.bulkString("arguments")
			parts := a.args
			if a.kind == argOneOf { // it is the choice that may be left out
				parts = slices.Clone(parts)
				for i := range parts {
					parts[i].optional = false
				}
			}
			r.arguments(parts, specified)
		}
	}
}

// commandGetKeys is COMMAND GETKEYS command [arg ...].
func commandGetKeys(s *session, words [][]byte) {
	_, names := s.keysOf(words[2:])
	if names == nil {
		return
	}
	s.out.array(len(names))
	for _, name := range names {
		s.out.bulk(name)
	}
}

// commandGetKeysAndFlags is COMMAND GETKEYSANDFLAGS command [arg ...].
func commandGetKeysAndFlags(s *session, words [][]byte) {
	c, names := s.keysOf(words[2:])
	if names == nil {
		return
	}
	s.out.array(len(names))
	for i, name := range names {
		s.out.array(2)
		s.out.bulk(name)
		s.out.statuses(strings.Fields(c.use(i)))
	}
}

// keysOf returns the row of a command and the keys that it names, or answers why there are none.
func (s *session) keysOf(words [][]byte) (*command, [][]byte) {
	c, ok := s.srv.table.find(words)
	switch {
	case c == nil || !ok:
		s.out.error(errCommandInvalid)
	case c.keys.first == 0 && c.find == nil:
		s.out.error(errCommandNoKeys)
	case !c.takes(len(words)):
		s.out.error(errCommandArguments)
	default:
		if names := c.appendKeys(nil, words); len(names) > 0 {
			return c, names
		}
		s.out.error(errCommandKeyWords)
	}
	return nil, nil
}

// help answers HELP of the container it is a subcommand of, from the table.
func help(s *session, words [][]byte) {
	container := s.last.parent
	s.out.array(1 + 2*len(container.subs))
	s.out.status(strings.ToUpper(container.name) + " <subcommand> [<arg> [value] [opt] ...]. Subcommands are:")
	for i := range container.subs {
		sub := &container.subs[i]
		s.out.status(strings.TrimPrefix(sub.syntax(), strings.ToUpper(container.name)+" "))
		s.out.status("    " + sub.summary)
	}
}
