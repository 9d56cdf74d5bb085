package resp

import (
	"strings"

	"cellserver/internal/acl"
	"cellserver/resp/command"
)

// ACLFile is where the users are kept; nil is nowhere.
type ACLFile interface {
	Name() string
	Read() ([]byte, error)
	Write(b []byte) error // durably, or not at all
}

// newACL returns the users of a server with this table of commands.
func newACL(t *command.Table) (list *acl.List, refund int) {
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

// SetPassword is requirepass: the default user has this password only, or needs none when it is empty.
// It does nothing while it is what it was: what ACL SETUSER has made of the default user since stays.
func (s *Server) SetPassword(password string) {
	s.mu.Lock()
	same := s.password == password
	s.password = password
	s.mu.Unlock()
	if same {
		return
	}
	rules := []string{"resetpass", "nopass"}
	if password != "" {
		rules = []string{"resetpass", ">" + password}
	}
	if err := s.acl.SetUser(acl.DefaultUser, rules); err != nil {
		panic(err) // any password is one
	}
}

// LoadUsers replaces all users by those of the ACL file, as ACL LOAD does.
func (s *Server) LoadUsers() error {
	b, err := s.aclFile.Read()
	if err != nil {
		return err
	}
	return s.acl.Load(strings.NewReader(string(b)), s.aclFile.Name())
}

// identify finds out, for every batch, as whom the connection speaks and what it may. It reports whether the connection
// may go on: a user that has been deleted or switched off has none.
func (s *session) identify() bool {
	alive := true
	if s.user != nil {
		s.user, alive = s.user.Current()
	} else if u, open := s.srv.acl.Open(); open {
		s.user = u
	}
	if s.user == nil {
		s.bounds = s.srv.narrow.Load()
	}
	s.free = s.user != nil && s.user.Unrestricted()
	return alive
}

// become makes the connection speak as a user.
func (s *session) become(u *acl.User) {
	s.user, s.free = u, u.Unrestricted()
	s.bounds = s.srv.bounds.Load()
	name := u.Name()
	s.client.user.Store(&name)
}

// authenticate is what AUTH and HELLO AUTH do. It reports whether the connection speaks as that user now, and has answered
// if not.
func (s *session) authenticate(name, password []byte, object string) bool {
	u, ok := s.srv.acl.Authenticate(string(name), password)
	if !ok {
		s.deny(acl.ReasonAuth, object, string(name))
		s.srv.badLogins.Add("client", s.client.addr, "user", string(name[:min(len(name), 64)]))
		s.out.Error(errWrongPass)
		return false
	}
	s.become(u)
	return true
}

// auth is AUTH [username] password.
func auth(s *session, words [][]byte) {
	name, password := []byte(acl.DefaultUser), words[len(words)-1]
	if len(words) > 3 {
		s.out.Error(errSyntax)
		return
	}
	if len(words) == 3 {
		name = words[1]
	} else if u, _ := s.srv.acl.User(acl.DefaultUser); u.NoPass() {
		s.out.Error(errAuthNoPassword)
		return
	}
	if s.authenticate(name, password, "AUTH") {
		s.out.OK()
	}
}

// forbidden returns why the connection's user may not run a command, or "".
func (s *session) forbidden(c *entry, words [][]byte) string {
	reason, object, why := s.judge(s.user, c, words)
	if why != "" {
		s.deny(reason, object, s.user.Name())
	}
	return why
}

// revoked returns why the connection's user may no longer run a command that was queued, or "". The user, or its rules, may
// have changed since.
func (s *session) revoked(c *entry, words [][]byte) string {
	reason, object, why := s.judge(s.user, c, words)
	if why == "" {
		return ""
	}
	s.deny(reason, object, s.user.Name())
	if reason == acl.ReasonKey {
		return errRevokedKey
	}
	return errRevokedCommand
}

// judge returns why a user may not run a command, for the log and for the wire, or "".
func (s *session) judge(u *acl.User, c *entry, words [][]byte) (reason acl.Reason, object, why string) {
	if !u.Allows(c.Index) {
		return acl.ReasonCommand, c.FullName(), sprintf(errNoCommand, u.Name(), c.FullName())
	}
	if c.Find == nil && c.Keys.First == 0 {
		return "", "", ""
	}
	s.judged = c.AppendKeys(s.judged[:0], words)
	for i, key := range s.judged {
		need := c.Needs[min(i, len(c.Needs)-1)]
		if int64(len(key)) > s.bounds.MaxKey { // the longest that there can be; and judging takes time
			return acl.ReasonKey, string(key[:min(len(key), 64)]), errNoKey
		}
		if !u.AllowsKey(key, need.Reads, need.Writes) {
			return acl.ReasonKey, string(key), errNoKey
		}
	}
	return "", "", ""
}

// refundFault returns why the user may not ask for a quantity, which is that it is negative, or "".
func (s *session) refundFault(quantity int64) string {
	if quantity >= 0 || s.free || s.user == nil || s.user.Allows(s.srv.refund) {
		return ""
	}
	s.deny(acl.ReasonCommand, acl.RefundCommand, s.user.Name())
	return sprintf(errNoCommand, s.user.Name(), acl.RefundCommand)
}

// deny remembers a denial for ACL LOG.
func (s *session) deny(reason acl.Reason, object, user string) {
	in := acl.ContextTopLevel
	if s.tx.open || s.tx.running {
		in = acl.ContextMulti
	}
	line := s.client.appendLine(nil, s.now)
	s.srv.aclLog.Add(s.now, acl.Denial{
		Reason: reason, Context: in, Object: object, Username: user, Client: strings.TrimSuffix(string(line), "\n"),
	})
}
