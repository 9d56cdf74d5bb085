package resp

import (
	"bytes"
	"fmt"
	"strings"

	"cellserver/internal/acl"
)

func aclWhoAmI(s *session, _ [][]byte) { s.out.bulkString(s.user.Name()) }

func aclUsers(s *session, _ [][]byte) {
	names := s.srv.acl.Names()
	s.out.array(len(names))
	for _, name := range names {
		s.out.bulkString(name)
	}
}

func aclList(s *session, _ [][]byte) {
	users := s.srv.acl.Users()
	s.out.array(len(users))
	for _, u := range users {
		s.out.bulkString(u.Describe())
	}
}

// aclCat is ACL CAT [category].
func aclCat(s *session, words [][]byte) {
	if len(words) > 3 {
		s.out.errorf(errArity, "acl|cat")
		return
	}
	names := s.srv.acl.Categories()
	if len(words) == 3 {
		var known bool
		if names, known = s.srv.acl.InCategory(string(words[2])); !known {
			s.out.errorf(errACLCategory, words[2])
			return
		}
	}
	s.out.array(len(names))
	for _, name := range names {
		s.out.bulkString(name)
	}
}

// aclSetUser is ACL SETUSER username [rule ...]. What it changes is in force at once.
func aclSetUser(s *session, words [][]byte) {
	var rules []string
	for _, w := range words[3:] {
		rules = append(rules, string(w))
	}
	if err := s.srv.acl.SetUser(string(words[2]), rules); err != nil {
		s.out.error("ERR " + oneLine(err.Error()))
		return
	}
	s.out.ok()
	s.rightsHaveChanged()
}

// rightsHaveChanged has what this connection has just changed of its own rights hold for what it sends next, in the same batch
// too. Other connections find out with their next batch.
func (s *session) rightsHaveChanged() {
	if !s.identify() {
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
		s.out.error("ERR " + err.Error())
		return
	}
	s.out.int(int64(n))
	s.rightsHaveChanged()
}

// aclGetUser is ACL GETUSER username, in the form of Redis 7.
func aclGetUser(s *session, words [][]byte) {
	u, known := s.srv.acl.User(string(words[2]))
	if !known {
		s.out.null()
		return
	}
	list := func(name string, values []string) {
		s.out.bulkString(name)
		s.out.array(len(values))
		for _, v := range values {
			s.out.bulkString(v)
		}
	}
	s.out.mapOf(6)
	s.out.bulkString("flags")
	s.out.setOf(len(u.Flags()))
	for _, f := range u.Flags() {
		s.out.bulkString(f)
	}
	list("passwords", u.Passwords())
	s.out.bulkString("commands")
	s.out.bulkString(u.Commands())
	s.out.bulkString("keys")
	s.out.bulkString(u.Keys())
	s.out.bulkString("channels")
	s.out.bulkString(u.Channels())
	list("selectors", nil)
}

// aclGenPass is ACL GENPASS [bits].
func aclGenPass(s *session, words [][]byte) {
	bits := int64(256)
	if len(words) == 3 {
		var ok bool
		if bits, ok = parseInteger(words[2]); !ok {
			s.out.error(errNotInteger)
			return
		}
	} else if len(words) > 3 {
		s.out.errorf(errArity, "acl|genpass")
		return
	}
	bits = min(max(bits, -1), 1<<30)
	password, err := acl.GenPass(int(bits))
	if err != nil {
		s.out.error("ERR " + err.Error())
		return
	}
	s.out.bulkString(password)
}

// aclDryRun is ACL DRYRUN username command [arg ...].
func aclDryRun(s *session, words [][]byte) {
	u, known := s.srv.acl.User(string(words[2]))
	if !known {
		s.out.errorf(errACLUser, words[2])
		return
	}
	c, found := s.srv.table.find(words[3:])
	switch {
	case c == nil || !found:
		s.out.errorf(errACLCommand, words[3])
		return
	case !c.takes(len(words) - 3):
		s.out.errorf(errArity, c.fullName())
		return
	}
	switch reason, object, why := s.judge(u, c, words[3:]); {
	case why == "":
		s.out.ok()
	case reason == acl.ReasonKey:
		s.out.bulkString(sprintf(noSuchKeyRight, u.Name(), object))
	default:
		s.out.bulkString(strings.TrimPrefix(why, "NOPERM "))
	}
}

// aclLog is ACL LOG [count|RESET].
func aclLog(s *session, words [][]byte) {
	n := int64(10)
	switch {
	case len(words) > 3:
		s.out.errorf(errArity, "acl|log")
		return
	case len(words) == 3 && is(words[2], "RESET"):
		s.srv.aclLog.Reset()
		s.out.ok()
		return
	case len(words) == 3:
		var ok bool
		if n, ok = parseInteger(words[2]); !ok || n < 0 {
			s.out.error(errNotInteger)
			return
		}
	}
	entries := s.srv.aclLog.Entries(s.now, int(min(n, 1<<20)))
	s.out.array(len(entries))
	for i, e := range entries {
		s.out.mapOf(8)
		for _, f := range [][2]string{
			{"count", ""}, {"reason", string(e.Reason)}, {"context", string(e.Context)}, {"object", e.Object},
			{"username", e.Username}, {"age-seconds", fmt.Sprintf("%.3f", e.Age.Seconds())}, {"client-info", e.Client},
		} {
			s.out.bulkString(f[0])
			if f[0] == "count" {
				s.out.int(int64(e.Count))
				continue
			}
			s.out.bulkString(f[1])
		}
		s.out.bulkString("entry-id")
		s.out.int(int64(i))
	}
}

// aclLoad is ACL LOAD: all users are those of the file, or nothing changes.
func aclLoad(s *session, _ [][]byte) {
	if s.srv.aclFile == nil {
		s.out.error(errNoACLFile)
		return
	}
	if err := s.srv.LoadUsers(); err != nil {
		s.out.error("ERR " + oneLine(err.Error()))
		return
	}
	s.out.ok()
	s.rightsHaveChanged()
}

// aclSave is ACL SAVE.
func aclSave(s *session, _ [][]byte) {
	if s.srv.aclFile == nil {
		s.out.error(errNoACLFile)
		return
	}
	var b bytes.Buffer
	err := s.srv.acl.Write(&b)
	if err == nil {
		err = s.srv.aclFile.Write(b.Bytes())
	}
	if err != nil {
		s.srv.log.Error("the ACL file could not be written", "file", s.srv.aclFile.Name(), "error", err)
		s.out.error(errACLSave)
		return
	}
	s.out.ok()
}
