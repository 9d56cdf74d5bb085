package resp

import (
	"strings"

	"cellserver/internal/acl"
)

// ACLFile is the file that ACL LOAD reads and ACL SAVE writes.
type ACLFile interface {
	Name() string
	Read() ([]byte, error)
	Write(b []byte) error // replaces the contents durably, or changes nothing
}

// SetPassword sets requirepass: the default user has only this password, or needs none if it is empty. It does nothing if the
// password has not changed, so that what ACL SETUSER has changed of the default user stays.
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
		panic(err) // every password is valid
	}
}

// LoadUsers replaces all users by those of the ACL file. If the file has an error, nothing changes.
func (s *Server) LoadUsers() error {
	b, err := s.aclFile.Read()
	if err != nil {
		return err
	}
	return s.acl.Load(strings.NewReader(string(b)), s.aclFile.Name())
}

// refreshUser brings the user and its rights up to date, once for each batch. It returns false if the user has been deleted or
// disabled, and the connection has to close.
func (s *session) refreshUser() bool {
	alive := true
	if s.user != nil {
		s.user, alive = s.user.Current()
	} else if u, open := s.srv.acl.Open(); open {
		s.user = u
	}
	if s.user == nil {
		s.bounds = s.srv.unauthBounds.Load()
	}
	s.unrestricted = s.user != nil && s.user.Unrestricted()
	return alive
}

// setUser sets the user of the connection.
func (s *session) setUser(u *acl.User) {
	s.user, s.unrestricted = u, u.Unrestricted()
	s.bounds = s.srv.bounds.Load()
	name := u.Name()
	s.client.user.Store(&name)
}

// authenticate checks a name and a password, and sets the user. If they are wrong, it appends the error and returns false.
// object is the command, for ACL LOG.
func (s *session) authenticate(name, password []byte, object string) bool {
	u, ok := s.srv.acl.Authenticate(string(name), password)
	if !ok {
		s.logDenial(acl.ReasonAuth, object, string(name))
		s.srv.badLogins.Add("client", s.client.addr, "user", string(name[:min(len(name), 64)]))
		s.out.Error(errWrongPass)
		return false
	}
	s.setUser(u)
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

// forbidden returns the error if the user may not run a command, or "". It logs the denial.
func (s *session) forbidden(c *entry, words [][]byte) string {
	reason, object, why := s.checkRights(s.user, c, words)
	if why != "" {
		s.logDenial(reason, object, s.user.Name())
	}
	return why
}

// revoked returns the error if the user may no longer run a queued command, or "": the user or its rules may have changed since
// the command was queued. It logs the denial.
func (s *session) revoked(c *entry, words [][]byte) string {
	reason, object, why := s.checkRights(s.user, c, words)
	if why == "" {
		return ""
	}
	s.logDenial(reason, object, s.user.Name())
	if reason == acl.ReasonKey {
		return errRevokedKey
	}
	return errRevokedCommand
}

// checkRights returns the reason and the object for ACL LOG and the error, if u may not run a command; the error is "" if it
// may.
func (s *session) checkRights(u *acl.User, c *entry, words [][]byte) (reason acl.Reason, object, why string) {
	if !u.Allows(c.Index) {
		return acl.ReasonCommand, c.FullName(), sprintf(errNoCommand, u.Name(), c.FullName())
	}
	if c.Find == nil && c.Keys.First == 0 {
		return "", "", ""
	}
	s.keys = c.AppendKeys(s.keys[:0], words)
	for i, key := range s.keys {
		need := c.NeedIn(words, i)
		if int64(len(key)) > s.bounds.MaxKey { // no such key can exist, and matching it would take long
			return acl.ReasonKey, string(key[:min(len(key), 64)]), errNoKey
		}
		if !u.AllowsKey(key, need.Reads, need.Writes) {
			return acl.ReasonKey, string(key), errNoKey
		}
	}
	return "", "", ""
}

// refundFault returns the error if a quantity is negative and the user may not refund, or "". It logs the denial.
func (s *session) refundFault(quantity int64) string {
	if quantity >= 0 || s.unrestricted || s.user == nil || s.user.Allows(s.srv.refund) {
		return ""
	}
	s.logDenial(acl.ReasonCommand, acl.RefundCommand, s.user.Name())
	return sprintf(errNoCommand, s.user.Name(), acl.RefundCommand)
}

// logDenial adds a denial to ACL LOG.
func (s *session) logDenial(reason acl.Reason, object, user string) {
	in := acl.ContextTopLevel
	switch {
	case s.inScript:
		in = acl.ContextScript
	case s.tx.open || s.tx.running:
		in = acl.ContextMulti
	}
	s.logDenialIn(in, reason, object, user)
}

// logDenialIn adds a denial in a context to ACL LOG.
func (s *session) logDenialIn(in acl.Context, reason acl.Reason, object, user string) {
	line := s.client.line(s.now).Append(nil)
	s.srv.aclLog.Add(s.now, acl.Denial{
		Reason: reason, Context: in, Object: object, Username: user, Client: strings.TrimSuffix(string(line), "\n"),
	})
}
