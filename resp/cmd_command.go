package resp

import (
	"slices"
	"strings"
	"sync/atomic"

	"cellserver/resp/frame"
)

// described is what COMMAND and COMMAND DOCS answer, which clients ask for when they connect: made once, when it is first
// asked for.
type described [2]struct { // in RESP2 and RESP3
	infos, docs atomic.Pointer[[]byte]
}

// once answers what kept holds, after it has been made with make if it does not hold anything yet.
func (s *session) once(kept *atomic.Pointer[[]byte], make func()) {
	if made := kept.Load(); made != nil {
		s.out.Bytes = append(s.out.Bytes, *made...)
		return
	}
	mark := len(s.out.Bytes)
	make()
	made := slices.Clone(s.out.Bytes[mark:])
	kept.Store(&made)
}

// commandAll is COMMAND: every row.
func commandAll(s *session, _ [][]byte) {
	rows := s.srv.table.rows
	s.once(&s.srv.described[boolInt(s.out.RESP3)].infos, func() {
		s.out.Array(len(rows))
		for i := range rows {
			s.commandInfo(&rows[i])
		}
	})
}

func commandCount(s *session, _ [][]byte) { s.out.Int(int64(len(s.srv.table.rows))) }

// named returns the row with a name as COMMAND INFO and COMMAND DOCS write it, client|setname for a subcommand.
func (s *session) named(word []byte) *command {
	return s.srv.table.byName[strings.ToLower(string(word))]
}

func commandInfo(s *session, words [][]byte) {
	if len(words) == 2 {
		commandAll(s, words)
		return
	}
	s.out.Array(len(words) - 2)
	for _, w := range words[2:] {
		if c := s.named(w); c != nil {
			s.commandInfo(c)
		} else {
			s.out.Null()
		}
	}
}

// commandInfo appends one command as COMMAND INFO tells it, in Redis's ten fields.
func (s *session) commandInfo(c *command) {
	out := &s.out
	out.Array(10)
	out.BulkString(c.fullName())
	out.Int(int64(c.arity))
	out.Statuses(c.flags.names())
	out.Int(int64(c.keys.first))
	out.Int(int64(c.keys.last))
	out.Int(int64(c.keys.step))
	out.Statuses(c.categories())
	out.Set(0) // tips for proxies: none
	s.keySpecs(c)
	if len(c.subs) == 0 {
		out.Set(0)
		return
	}
	out.Array(len(c.subs))
	for i := range c.subs {
		s.commandInfo(&c.subs[i])
	}
}

// keySpecs appends where a command's keys are, and what becomes of them.
func (s *session) keySpecs(c *command) {
	switch {
	case c.keys.first == 0:
		s.out.Set(0)
	case len(c.uses) < 2:
		s.out.Set(1)
		s.keySpec(c.use(0), c.keys)
	default:
		s.out.Set(len(c.uses))
		for i, use := range c.uses {
			at := c.keys.first + i*c.keys.step
			s.keySpec(use, keys{at, at, 1})
		}
	}
}

func (s *session) keySpec(use string, k keys) {
	out := &s.out
	out.Map(3)
	out.BulkString("flags")
	out.Statuses(strings.Fields(use))
	out.BulkString("begin_search")
	out.Map(2)
	out.BulkString("type")
	out.BulkString("index")
	out.BulkString("spec")
	out.Map(1)
	out.BulkString("index")
	out.Int(int64(k.first))
	out.BulkString("find_keys")
	out.Map(2)
	out.BulkString("type")
	out.BulkString("range")
	out.BulkString("spec")
	out.Map(3)
	out.BulkString("lastkey")
	last := k.last
	if last > 0 {
		last -= k.first // counted from the first
	}
	out.Int(int64(last))
	out.BulkString("keystep")
	out.Int(int64(k.step))
	out.BulkString("limit")
	out.Int(0)
}

// commandList is COMMAND LIST [FILTERBY <MODULE name | ACLCAT category | PATTERN pattern>].
func commandList(s *session, words [][]byte) {
	keep := func(*command) bool { return true }
	if len(words) > 2 {
		if len(words) != 5 || !frame.Is(words[2], "FILTERBY") {
			s.out.Error(errSyntax)
			return
		}
		by := words[4]
		switch {
		case frame.Is(words[3], "MODULE"):
			cell := string(by) == moduleName
			keep = func(c *command) bool { return cell && c.group == groupLimit }
		case frame.Is(words[3], "ACLCAT"):
			keep = func(c *command) bool {
				for _, name := range c.categories() {
					if strings.EqualFold(name[1:], string(by)) {
						return true
					}
				}
				return false
			}
		case frame.Is(words[3], "PATTERN"):
			pattern := []byte(strings.ToLower(string(by)))
			keep = func(c *command) bool { return globMatch(pattern, []byte(c.fullName())) }
		default:
			s.out.Error(errSyntax)
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
		s.once(&s.srv.described[boolInt(s.out.RESP3)].docs, func() {
			s.out.Map(len(rows))
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
	s.out.Map(len(rows))
	for _, c := range rows {
		s.commandDocs(c)
	}
}

func (s *session) commandDocs(c *command) {
	out := &s.out
	out.BulkString(c.fullName())
	n := 4
	if len(c.args) > 0 {
		n++
	}
	if len(c.subs) > 0 {
		n++
	}
	out.Map(n)
	out.BulkString("summary")
	out.BulkString(c.summary)
	out.BulkString("since")
	out.BulkString(since)
	out.BulkString("group")
	out.BulkString(string(c.group))
	out.BulkString("complexity")
	out.BulkString(c.cost)
	if len(c.args) > 0 {
		out.BulkString("arguments")
		appendArguments(out, c.args, c.keys.first > 0)
	}
	if len(c.subs) > 0 {
		out.BulkString("subcommands")
		out.Map(len(c.subs))
		for i := range c.subs {
			s.commandDocs(&c.subs[i])
		}
	}
}

// since is the version from which on all of today's commands exist.
const since = "0.1.0"

func appendArguments(r *frame.Reply, args []arg, specified bool) {
	r.Array(len(args))
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
		r.Map(n)
		r.BulkString("name")
		r.BulkString(a.name)
		r.BulkString("type")
		r.BulkString(string(a.kind))
		if specified && a.kind == argKey {
			r.BulkString("key_spec_index")
			r.Int(0)
		}
		if a.token != "" {
			r.BulkString("token")
			r.BulkString(a.token)
		}
		if len(flags) > 0 {
			r.BulkString("flags")
			r.Statuses(flags)
		}
		if len(a.args) > 0 {
			r.BulkString("arguments")
			parts := a.args
			if a.kind == argOneOf { // it is the choice that may be left out
				parts = slices.Clone(parts)
				for i := range parts {
					parts[i].optional = false
				}
			}
			appendArguments(r, parts, specified)
		}
	}
}

// commandGetKeys is COMMAND GETKEYS command [arg ...].
func commandGetKeys(s *session, words [][]byte) {
	_, names := s.keysOf(words[2:])
	if names == nil {
		return
	}
	s.out.Array(len(names))
	for _, name := range names {
		s.out.Bulk(name)
	}
}

// commandGetKeysAndFlags is COMMAND GETKEYSANDFLAGS command [arg ...].
func commandGetKeysAndFlags(s *session, words [][]byte) {
	c, names := s.keysOf(words[2:])
	if names == nil {
		return
	}
	s.out.Array(len(names))
	for i, name := range names {
		s.out.Array(2)
		s.out.Bulk(name)
		s.out.Statuses(strings.Fields(c.use(i)))
	}
}

// keysOf returns the row of a command and the keys that it names, or answers why there are none.
func (s *session) keysOf(words [][]byte) (*command, [][]byte) {
	c, ok := s.srv.table.find(words)
	switch {
	case c == nil || !ok:
		s.out.Error(errCommandInvalid)
	case c.keys.first == 0 && c.find == nil:
		s.out.Error(errCommandNoKeys)
	case !c.takes(len(words)):
		s.out.Error(errCommandArguments)
	default:
		if names := c.appendKeys(nil, words); len(names) > 0 {
			return c, names
		}
		s.out.Error(errCommandKeyWords)
	}
	return nil, nil
}

// help answers HELP of the container it is a subcommand of, from the table.
func help(s *session, words [][]byte) {
	container := s.last.parent
	s.out.Array(1 + 2*len(container.subs))
	s.out.Status(strings.ToUpper(container.name) + " <subcommand> [<arg> [value] [opt] ...]. Subcommands are:")
	for i := range container.subs {
		sub := &container.subs[i]
		s.out.Status(strings.TrimPrefix(sub.syntax(), strings.ToUpper(container.name)+" "))
		s.out.Status("    " + sub.summary)
	}
}
