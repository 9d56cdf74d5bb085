package resp

import (
	"slices"
	"time"

	"cellserver/resp/frame"
)

// isValidName reports whether b may be the name of a client or a library: it has only ASCII characters, no spaces and no
// control characters.
func isValidName(b []byte) bool {
	for _, c := range b {
		if c < '!' || c > '~' {
			return false
		}
	}
	return true
}

func (c *client) setName(name []byte) {
	c.mu.Lock()
	c.name = string(name)
	c.mu.Unlock()
}

func clientID(s *session, _ [][]byte) { s.out.Int(s.client.id) }

func clientInfo(s *session, _ [][]byte) { s.out.Text(string(s.client.appendLine(nil, s.now))) }

// clientList is CLIENT LIST [TYPE type] [ID id [id ...]].
func clientList(s *session, words [][]byte) {
	every := true
	var ids []int64
	switch opts := words[2:]; {
	case len(opts) == 0:
	case frame.Is(opts[0], "TYPE") && len(opts) == 2:
		switch {
		case frame.Is(opts[1], "NORMAL"):
		case frame.Is(opts[1], "MASTER"), frame.Is(opts[1], "REPLICA"), frame.Is(opts[1], "SLAVE"), frame.Is(opts[1], "PUBSUB"):
			every = false
		default:
			s.out.Errorf(errClientType, opts[1])
			return
		}
	case frame.Is(opts[0], "ID") && len(opts) > 1:
		every = false
		for _, w := range opts[1:] {
			id, ok := frame.ParseInt(w)
			if !ok {
				s.out.Error(errClientID)
				return
			}
			ids = append(ids, id)
		}
	default:
		s.out.Error(errSyntax)
		return
	}
	var lines []byte
	for _, c := range s.srv.clients() {
		if every || slices.Contains(ids, c.id) {
			lines = c.appendLine(lines, s.now)
		}
	}
	s.out.Text(string(lines))
}

func clientGetName(s *session, _ [][]byte) {
	s.client.mu.Lock()
	name := s.client.name
	s.client.mu.Unlock()
	if name == "" {
		s.out.Null()
		return
	}
	s.out.BulkString(name)
}

func clientSetName(s *session, words [][]byte) {
	if !isValidName(words[2]) {
		s.out.Error(errClientName)
		return
	}
	s.client.setName(words[2])
	s.out.OK()
}

// clientSetInfo is CLIENT SETINFO <LIB-NAME libname | LIB-VER libver>.
func clientSetInfo(s *session, words [][]byte) {
	c := s.client
	field := &c.libName
	name := "lib-name"
	switch {
	case frame.Is(words[2], "LIB-NAME"):
	case frame.Is(words[2], "LIB-VER"):
		field, name = &c.libVer, "lib-ver"
	default:
		s.out.Errorf(errClientInfoName, words[2])
		return
	}
	if !isValidName(words[3]) {
		s.out.Errorf(errClientInfo, name)
		return
	}
	c.mu.Lock()
	*field = string(words[3])
	c.mu.Unlock()
	s.out.OK()
}

// setFlag sets a flag of the client to ON or OFF.
func (s *session) setFlag(word []byte, flag *bool) {
	on := frame.Is(word, "ON")
	if !on && !frame.Is(word, "OFF") {
		s.out.Error(errSyntax)
		return
	}
	s.client.mu.Lock()
	*flag = on
	s.client.mu.Unlock()
	s.out.OK()
}

// NO-EVICT and NO-TOUCH have no effect, because clients are not evicted, nor are keys by their last use. CLIENT LIST shows the
// flags.
func clientNoEvict(s *session, words [][]byte) { s.setFlag(words[2], &s.client.noEvict) }
func clientNoTouch(s *session, words [][]byte) { s.setFlag(words[2], &s.client.noTouch) }

func clientReply(s *session, words [][]byte) {
	switch {
	case frame.Is(words[2], "ON"):
		s.repliesOff, s.repliesToSkip = false, 0
		s.out.OK()
	case frame.Is(words[2], "OFF"):
		s.repliesOff = true
	case frame.Is(words[2], "SKIP"):
		if !s.repliesOff {
			s.repliesToSkip = 2 // this reply and the next
		}
	default:
		s.out.Error(errSyntax)
	}
}

// clientKill is CLIENT KILL addr:port, or CLIENT KILL with filters: it kills the clients that match all of them.
func clientKill(s *session, words [][]byte) {
	if len(words) == 3 {
		for _, c := range s.srv.clients() {
			if c.addr == string(words[2]) {
				s.kill(c)
				s.out.OK()
				return
			}
		}
		s.out.Error(errNoSuchClient)
		return
	}
	matches, skipMe, fault := s.killFilters(words[2:])
	if fault != "" {
		s.out.Error(fault)
		return
	}
	killed := int64(0)
	for _, c := range s.srv.clients() {
		if matches(c) && (c != s.client || !skipMe) {
			s.kill(c)
			killed++
		}
	}
	s.out.Int(killed)
}

// killFilters parses the filters of CLIENT KILL. It returns a function that reports whether a client matches all of them, and
// whether the connection itself is left out; or the error of the first filter that is wrong.
func (s *session) killFilters(filters [][]byte) (matches func(*client) bool, skipMe bool, fault string) {
	matches, skipMe = func(*client) bool { return true }, true
	for i := 0; i < len(filters); i += 2 {
		if i+1 == len(filters) { // as in Redis, the errors of the filters before it come first
			return nil, false, errSyntax
		}
		if frame.Is(filters[i], "SKIPME") && (frame.Is(filters[i+1], "YES") || frame.Is(filters[i+1], "NO")) {
			skipMe = frame.Is(filters[i+1], "YES")
			continue
		}
		more, fault := s.killFilter(filters[i], filters[i+1])
		if fault != "" {
			return nil, false, fault
		}
		before := matches
		matches = func(c *client) bool { return before(c) && more(c) }
	}
	return matches, skipMe, ""
}

// killFilter parses one filter of CLIENT KILL.
func (s *session) killFilter(f, v []byte) (matches func(*client) bool, fault string) {
	value := string(v)
	switch {
	case frame.Is(f, "ID"):
		id, ok := frame.ParseInt(v)
		if !ok || id < 1 {
			return nil, errKillID
		}
		return func(c *client) bool { return c.id == id }, ""
	case frame.Is(f, "TYPE"):
		switch {
		case frame.Is(v, "NORMAL"):
			return func(*client) bool { return true }, ""
		case frame.Is(v, "MASTER"), frame.Is(v, "REPLICA"), frame.Is(v, "SLAVE"), frame.Is(v, "PUBSUB"):
			return func(*client) bool { return false }, ""
		}
		return nil, sprintf(errClientType, v)
	case frame.Is(f, "ADDR"):
		return func(c *client) bool { return c.addr == value }, ""
	case frame.Is(f, "LADDR"):
		return func(c *client) bool { return c.laddr == value }, ""
	case frame.Is(f, "USER"):
		if !s.srv.hasUser(value) {
			return nil, sprintf(errKillUser, v)
		}
		return func(c *client) bool { return c.userName() == value }, ""
	case frame.Is(f, "MAXAGE"):
		age, ok := frame.ParseInt(v)
		if !ok || age < 1 {
			return nil, errNotInteger
		}
		return func(c *client) bool { return (s.now-c.created)/second >= age }, ""
	}
	return nil, errSyntax
}

// kill closes a connection. It closes the session's own after the reply has been sent.
func (s *session) kill(c *client) {
	s.srv.log.Info("CLIENT KILL", "client", c.addr, "by", s.client.addr)
	if c == s.client {
		s.closing = true
	} else if c.conn != nil {
		s.srv.unregister(c) // as in Redis it is not listed any more, though its goroutine has not ended yet
		c.conn.HangUp()
	}
}

// clientUnblock is CLIENT UNBLOCK client-id [TIMEOUT|ERROR]. It answers 0, because no command blocks here.
func clientUnblock(s *session, words [][]byte) {
	if len(words) > 4 {
		s.out.Errorf(errSubArity, words[1], "CLIENT")
		return
	}
	if len(words) == 4 && !frame.Is(words[3], "TIMEOUT") && !frame.Is(words[3], "ERROR") {
		s.out.Error(errUnblockReason)
		return
	}
	if _, ok := frame.ParseInt(words[2]); !ok {
		s.out.Error(errNotInteger)
		return
	}
	s.out.Int(0)
}

// clientPause is CLIENT PAUSE timeout [WRITE|ALL].
func clientPause(s *session, words [][]byte) {
	all := true
	if len(words) == 4 {
		if all = frame.Is(words[3], "ALL"); !all && !frame.Is(words[3], "WRITE") {
			s.out.Error(errPauseMode)
			return
		}
	}
	ms, ok := frame.ParseInt(words[2])
	switch {
	case !ok || ms > int64(maxPause/time.Millisecond):
		s.out.Error(errTimeoutInteger)
	case ms < 0:
		s.out.Error(errTimeoutNegative)
	default:
		s.srv.pause.Begin(s.srv.now(), time.Duration(ms)*time.Millisecond, all)
		s.out.OK()
	}
}

// maxPause is the longest CLIENT PAUSE and DEBUG SLEEP.
const maxPause = 365 * 24 * time.Hour

func clientUnpause(s *session, _ [][]byte) {
	s.srv.pause.End()
	s.out.OK()
}
