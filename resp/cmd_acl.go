package resp

import (
	"bytes"
	"strings"

	"cellserver/internal/acl"
	"cellserver/resp/frame"
	"cellserver/resp/users"
)

func aclWhoAmI(s *session, _ [][]byte) { s.out.BulkString(s.user.Name()) }

func aclUsers(s *session, _ [][]byte) { s.out.Strings(s.srv.acl.Names()) }

func aclList(s *session, _ [][]byte) {
	users := s.srv.acl.Users()
	s.out.Array(len(users))
	for _, u := range users {
		s.out.BulkString(u.Describe())
	}
}

// aclCat is ACL CAT [category].
func aclCat(s *session, words [][]byte) {
	if len(words) > 3 {
		s.out.Errorf(errArity, "acl|cat")
		return
	}
	names := s.srv.acl.Categories()
	if len(words) == 3 {
		var known bool
		if names, known = s.srv.acl.InCategory(string(words[2])); !known {
			s.out.Errorf(errACLCategory, words[2])
			return
		}
	}
	s.out.Strings(names)
}

// aclSetUser is ACL SETUSER username [rule ...].
func aclSetUser(s *session, words [][]byte) {
	var rules []string
	for _, w := range words[3:] {
		rules = append(rules, string(w))
	}
	if err := s.srv.acl.SetUser(string(words[2]), rules); err != nil {
		s.out.Error("ERR " + oneLine(err.Error()))
		return
	}
	s.out.OK()
	s.applyRights()
}

// applyRights applies a change of the users to the rest of the batch. Other connections apply it when their next batch begins.
func (s *session) applyRights() {
	if !s.refreshUser() {
		s.closing = true
	}
}

func aclDelUser(s *session, words [][]byte) {
	var names []string
	for _, w := range words[2:] {
		names = append(names, string(w))
	}
	n, err := s.srv.acl.DelUser(names...)
	if err != nil {
		s.out.Error("ERR " + err.Error())
		return
	}
	s.out.Int(int64(n))
	s.applyRights()
}

// aclGetUser is ACL GETUSER username.
func aclGetUser(s *session, words [][]byte) {
	u, known := s.srv.acl.User(string(words[2]))
	if !known {
		s.out.Null()
		return
	}
	users.AppendUser(&s.out, u)
}

// aclGenPass is ACL GENPASS [bits].
func aclGenPass(s *session, words [][]byte) {
	bits := int64(256)
	if len(words) == 3 {
		var ok bool
		if bits, ok = frame.ParseInt(words[2]); !ok {
			s.out.Error(errNotInteger)
			return
		}
	} else if len(words) > 3 {
		s.out.Errorf(errArity, "acl|genpass")
		return
	}
	bits = min(max(bits, -1), 1<<30)
	password, err := acl.GenPass(int(bits))
	if err != nil {
		s.out.Error("ERR " + err.Error())
		return
	}
	s.out.BulkString(password)
}

// aclDryRun is ACL DRYRUN username command [arg ...].
func aclDryRun(s *session, words [][]byte) {
	u, known := s.srv.acl.User(string(words[2]))
	if !known {
		s.out.Errorf(errACLUser, words[2])
		return
	}
	c, found := s.srv.commands.find(words[3:])
	switch {
	case c == nil || !found:
		s.out.Errorf(errACLCommand, words[3])
		return
	case !c.Takes(len(words) - 3):
		s.out.Errorf(errArity, c.FullName())
		return
	}
	switch reason, object, why := s.checkRights(u, c, words[3:]); {
	case why == "":
		s.out.OK()
	case reason == acl.ReasonKey:
		s.out.BulkString(sprintf(noSuchKeyRight, u.Name(), object))
	default:
		s.out.BulkString(strings.TrimPrefix(why, "NOPERM "))
	}
}

// aclLog is ACL LOG [count|RESET].
func aclLog(s *session, words [][]byte) {
	n := int64(10)
	switch {
	case len(words) > 3:
		s.out.Errorf(errArity, "acl|log")
		return
	case len(words) == 3 && frame.Is(words[2], "RESET"):
		s.srv.aclLog.Reset()
		s.out.OK()
		return
	case len(words) == 3:
		var ok bool
		if n, ok = frame.ParseInt(words[2]); !ok || n < 0 {
			s.out.Error(errNotInteger)
			return
		}
	}
	users.AppendLog(&s.out, s.srv.aclLog.Entries(s.now, int(min(n, 1<<20))))
}

// aclLoad is ACL LOAD: it replaces all users, or changes nothing if the file has an error.
func aclLoad(s *session, _ [][]byte) {
	if s.srv.aclFile == nil {
		s.out.Error(errNoACLFile)
		return
	}
	if err := s.srv.LoadUsers(); err != nil {
		s.out.Error("ERR " + oneLine(err.Error()))
		return
	}
	s.out.OK()
	s.applyRights()
}

// aclSave is ACL SAVE.
func aclSave(s *session, _ [][]byte) {
	if s.srv.aclFile == nil {
		s.out.Error(errNoACLFile)
		return
	}
	var b bytes.Buffer
	err := s.srv.acl.Write(&b)
	if err == nil {
		err = s.srv.aclFile.Write(b.Bytes())
	}
	if err != nil {
		s.srv.log.Error("the ACL file could not be written", "file", s.srv.aclFile.Name(), "error", err)
		s.out.Error(errACLSave)
		return
	}
	s.out.OK()
}
