package command

import (
	"slices"
	"strings"
	"sync/atomic"

	"cellserver/internal/glob"
	"cellserver/resp/frame"
)

// ModuleName is the name of the module that clients which know limiters look for: the limit commands are its.
const ModuleName = "redis-cell"

// appendOnce appends what kept holds, after make has made it if it holds nothing yet.
func appendOnce(out *frame.Reply, kept *atomic.Pointer[[]byte], make func()) {
	if made := kept.Load(); made != nil {
		out.Bytes = append(out.Bytes, *made...)
		return
	}
	mark := len(out.Bytes)
	make()
	made := slices.Clone(out.Bytes[mark:])
	kept.Store(&made)
}

// protocol returns the index of what is described in the version of RESP that out speaks.
func protocol(out *frame.Reply) int {
	if out.RESP3 {
		return 1
	}
	return 0
}

// Info answers COMMAND INFO [name ...]: all rows if none is named.
func (t *Table) Info(out *frame.Reply, names [][]byte) {
	if len(names) == 0 {
		appendOnce(out, &t.described[protocol(out)].infos, func() {
			out.Array(len(t.Rows))
			for i := range t.Rows {
				t.Rows[i].info(out)
			}
		})
		return
	}
	out.Array(len(names))
	for _, name := range names {
		if c := t.Named(string(name)); c != nil {
			c.info(out)
		} else {
			out.Null()
		}
	}
}

// info appends c as COMMAND INFO tells it, in Redis's ten fields.
func (c *Row) info(out *frame.Reply) {
	out.Array(10)
	out.BulkString(c.FullName())
	out.Int(int64(c.Arity))
	out.Statuses(c.Flags.names())
	out.Int(int64(c.Keys.First))
	out.Int(int64(c.Keys.Last))
	out.Int(int64(c.Keys.Step))
	out.Statuses(c.Categories())
	out.Set(0) // tips for proxies: none
	c.keySpecs(out)
	if len(c.Subs) == 0 {
		out.Set(0)
		return
	}
	out.Array(len(c.Subs))
	for i := range c.Subs {
		c.Subs[i].info(out)
	}
}

// keySpecs appends where a command's keys are, and what becomes of them.
func (c *Row) keySpecs(out *frame.Reply) {
	switch {
	case c.CountedKeys > 0:
		out.Set(1)
		keySpec(out, c.Use(0), c.CountedKeys, "keynum")
		out.Map(3)
		out.BulkString("keynumidx")
		out.Int(0)
		out.BulkString("firstkey")
		out.Int(1)
		out.BulkString("keystep")
		out.Int(1)
	case c.Keys.First == 0:
		out.Set(0)
	case len(c.Uses) < 2:
		out.Set(1)
		rangeSpec(out, c.Use(0), c.Keys)
	default:
		out.Set(len(c.Uses))
		for i, use := range c.Uses {
			at := c.Keys.First + i*c.Keys.Step
			rangeSpec(out, use, Keys{at, at, 1})
		}
	}
}

// keySpec begins a key specification: what becomes of the keys, at which word to begin, and how to find them. How that is done in
// detail follows.
func keySpec(out *frame.Reply, use string, first int, find string) {
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
	out.Int(int64(first))
	out.BulkString("find_keys")
	out.Map(2)
	out.BulkString("type")
	out.BulkString(find)
	out.BulkString("spec")
}

func rangeSpec(out *frame.Reply, use string, k Keys) {
	keySpec(out, use, k.First, "range")
	out.Map(3)
	out.BulkString("lastkey")
	last := k.Last
	if last > 0 {
		last -= k.First // counted from the first
	}
	out.Int(int64(last))
	out.BulkString("keystep")
	out.Int(int64(k.Step))
	out.BulkString("limit")
	out.Int(0)
}

// List answers COMMAND LIST [FILTERBY <MODULE name | ACLCAT category | PATTERN pattern>], of which it is given the words
// behind LIST.
func (t *Table) List(out *frame.Reply, filter [][]byte) {
	keep := func(*Row) bool { return true }
	if len(filter) > 0 {
		if len(filter) != 3 || !frame.Is(filter[0], "FILTERBY") {
			out.Error(frame.ErrSyntax)
			return
		}
		by := filter[2]
		switch {
		case frame.Is(filter[1], "MODULE"):
			cell := string(by) == ModuleName
			keep = func(c *Row) bool { return cell && c.Group == GroupLimit }
		case frame.Is(filter[1], "ACLCAT"):
			keep = func(c *Row) bool {
				return slices.ContainsFunc(c.Categories(), func(name string) bool { return strings.EqualFold(name[1:], string(by)) })
			}
		case frame.Is(filter[1], "PATTERN"):
			pattern := []byte(strings.ToLower(string(by)))
			keep = func(c *Row) bool { return glob.MatchBounded(pattern, []byte(c.FullName())) }
		default:
			out.Error(frame.ErrSyntax)
			return
		}
	}
	var names []string
	t.Each(func(c *Row) {
		if keep(c) {
			names = append(names, c.FullName())
		}
	})
	out.Array(len(names))
	for _, name := range names {
		out.BulkString(name)
	}
}

// Docs answers COMMAND DOCS [name ...], from which redis-cli makes its hints and its help.
func (t *Table) Docs(out *frame.Reply, names [][]byte) {
	if len(names) == 0 {
		appendOnce(out, &t.described[protocol(out)].docs, func() {
			out.Map(len(t.Rows))
			for i := range t.Rows {
				t.Rows[i].docs(out)
			}
		})
		return
	}
	var rows []*Row
	for _, name := range names {
		if c := t.Named(string(name)); c != nil {
			rows = append(rows, c)
		}
	}
	out.Map(len(rows))
	for _, c := range rows {
		c.docs(out)
	}
}

// docs appends c as COMMAND DOCS tells it.
func (c *Row) docs(out *frame.Reply) {
	out.BulkString(c.FullName())
	n := 4
	if len(c.Args) > 0 {
		n++
	}
	if len(c.Subs) > 0 {
		n++
	}
	out.Map(n)
	out.BulkString("summary")
	out.BulkString(c.Summary)
	out.BulkString("since")
	out.BulkString(since)
	out.BulkString("group")
	out.BulkString(string(c.Group))
	out.BulkString("complexity")
	out.BulkString(c.Cost)
	if len(c.Args) > 0 {
		out.BulkString("arguments")
		appendArguments(out, c.Args, c.Keys.First > 0)
	}
	if len(c.Subs) > 0 {
		out.BulkString("subcommands")
		out.Map(len(c.Subs))
		for i := range c.Subs {
			c.Subs[i].docs(out)
		}
	}
}

// since is the version from which on all of today's commands exist.
const since = "0.1.0"

func appendArguments(r *frame.Reply, args []Arg, specified bool) {
	r.Array(len(args))
	for _, a := range args {
		var flags []string
		if a.Optional {
			flags = append(flags, "optional")
		}
		if a.Multiple {
			flags = append(flags, "multiple")
		}
		n := 2
		for _, more := range []bool{specified && a.Kind == ArgKey, a.Token != "", len(flags) > 0, len(a.Args) > 0} {
			if more {
				n++
			}
		}
		r.Map(n)
		r.BulkString("name")
		r.BulkString(a.Name)
		r.BulkString("type")
		r.BulkString(string(a.Kind))
		if specified && a.Kind == ArgKey {
			r.BulkString("key_spec_index")
			r.Int(0)
		}
		if a.Token != "" {
			r.BulkString("token")
			r.BulkString(a.Token)
		}
		if len(flags) > 0 {
			r.BulkString("flags")
			r.Statuses(flags)
		}
		if len(a.Args) > 0 {
			r.BulkString("arguments")
			parts := a.Args
			if a.Kind == ArgOneOf { // it is the choice that may be left out
				parts = slices.Clone(parts)
				for i := range parts {
					parts[i].Optional = false
				}
			}
			appendArguments(r, parts, specified)
		}
	}
}

// GetKeys answers COMMAND GETKEYS command [arg ...].
func (t *Table) GetKeys(out *frame.Reply, words [][]byte) {
	c, names := t.keysOf(out, words)
	if c == nil {
		return
	}
	out.Array(len(names))
	for _, name := range names {
		out.Bulk(name)
	}
}

// GetKeysAndFlags answers COMMAND GETKEYSANDFLAGS command [arg ...].
func (t *Table) GetKeysAndFlags(out *frame.Reply, words [][]byte) {
	c, names := t.keysOf(out, words)
	if c == nil {
		return
	}
	out.Array(len(names))
	for i, name := range names {
		out.Array(2)
		out.Bulk(name)
		out.Statuses(strings.Fields(c.UseIn(words, i)))
	}
}

// keysOf returns the row of a command and the keys among its words, or answers why there are none. As in Redis the commands that run
// scripts may have none.
func (t *Table) keysOf(out *frame.Reply, words [][]byte) (*Row, [][]byte) {
	c, ok := t.Find(words)
	switch {
	case c == nil || !ok:
		out.Error(errCommandInvalid)
	case c.Keys.First == 0 && c.Find == nil:
		out.Error(errCommandNoKeys)
	case !c.Takes(len(words)):
		out.Error(errCommandArguments)
	default:
		if names := c.AppendKeys(nil, words); len(names) > 0 || c.Flags&Scripts != 0 {
			return c, names
		}
		out.Error(errCommandKeyWords)
	}
	return nil, nil
}

// Help answers HELP of a container.
func (c *Row) Help(out *frame.Reply) {
	name := strings.ToUpper(c.Name)
	out.Array(1 + 2*len(c.Subs))
	out.Status(name + " <subcommand> [<arg> [value] [opt] ...]. Subcommands are:")
	for i := range c.Subs {
		sub := &c.Subs[i]
		out.Status(strings.TrimPrefix(sub.Syntax(), name+" "))
		out.Status("    " + sub.Summary)
	}
}
