// Package users has what the subcommands of ACL answer, and the commands of the table as an ACL sees them.
package users

import (
	"fmt"

	"cellserver/internal/acl"
	"cellserver/resp/command"
	"cellserver/resp/frame"
)

// NewList returns the default users for a table of commands, and the index of the right to refund.
func NewList(t *command.Table) (list *acl.List, refund int) {
	var all []acl.Command
	t.Each(func(c *command.Row) {
		parent := -1
		if c.Parent != nil {
			parent = c.Parent.Index
		}
		all = append(all, acl.Command{
			Name: c.FullName(), Categories: c.Categories(), Index: c.Index, Parent: parent, Always: c.Flags&command.NoAuth != 0,
		})
	})
	refund = len(all)
	return acl.New(append(all, acl.Refund(refund))), refund
}

// AppendUser appends the reply to ACL GETUSER, in the form of Redis 7.
func AppendUser(out *frame.Reply, u *acl.User) {
	out.Map(6)
	out.BulkString("flags")
	out.Set(len(u.Flags()))
	for _, f := range u.Flags() {
		out.BulkString(f)
	}
	out.BulkString("passwords")
	out.Strings(u.Passwords())
	out.BulkString("commands")
	out.BulkString(u.Commands())
	out.BulkString("keys")
	out.BulkString(u.Keys())
	out.BulkString("channels")
	out.BulkString(u.Channels())
	out.BulkString("selectors")
	out.Array(0)
}

// AppendLog appends the reply to ACL LOG.
func AppendLog(out *frame.Reply, entries []acl.Entry) {
	out.Array(len(entries))
	for i, e := range entries {
		out.Map(8)
		out.BulkString("count")
		out.Int(int64(e.Count))
		for _, f := range [][2]string{
			{"reason", string(e.Reason)}, {"context", string(e.Context)}, {"object", e.Object}, {"username", e.Username},
			{"age-seconds", fmt.Sprintf("%.3f", e.Age.Seconds())}, {"client-info", e.Client},
		} {
			out.BulkString(f[0])
			out.BulkString(f[1])
		}
		out.BulkString("entry-id")
		out.Int(int64(i))
	}
}
