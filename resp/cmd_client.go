package resp

import (
	"slices"
	"time"
)

// printable reports whether b may be a client's name: no spaces, no control characters, nothing beyond ASCII.
func printable(b []byte) bool {
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

func clientID(s *session, _ [][]byte) { s.out.int(s.client.id) }

func clientInfo(s *session, _ [][]byte) { s.out.text(string(s.client.appendLine(nil, s.now))) }

// clientList is CLIENT LIST [TYPE type] [ID id [id ...]].
func clientList(s *session, words [][]byte) {
	every := true
	var ids []int64
	switch opts := words[2:]; {
	case len(opts) == 0:
	case is(opts[0], "TYPE") && len(opts) == 2:
		switch {
		case is(opts[1], "NORMAL"):
		case is(opts[1], "MASTER"), is(opts[1], "REPLICA"), is(opts[1], "SLAVE"), is(opts[1], "PUBSUB"):
			every = false
		default:
			s.out.errorf(errClientType, opts[1])
			return
		}
	case is(opts[0], "ID") && len(opts) > 1:
		every = false
		for _, w := range opts[1:] {
			id, ok := parseInteger(w)
			if !ok {
				s.out.error(errClientID)
				return
			}
			ids = append(ids, id)
		}
	default:
		s.out.error(errSyntax)
		return
	}
	var lines []byte
	for _, c := range s.srv.clients() {
		if every || slices.Contains(ids, c.id) {
			lines = c.appendLine(lines, s.now)
		}
	}
	s.out.text(string(lines))
}

func clientGetName(s *session, _ [][]byte) {
	s.client.mu.Lock()
	name := s.client.name
	s.client.mu.Unlock()
	if name == "" {
		s.out.null()
		return
	}
	s.out.bulkString(name)
}

func clientSetName(s *session, words [][]byte) {
	if !printable(words[2]) {
		s.out.error(errClientName)
		return
	}
	s.client.setName(words[2])
	s.out.ok()
}

// clientSetInfo is CLIENT SETINFO <LIB-NAME libname | LIB-VER libver>.
func clientSetInfo(s *session, words [][]byte) {
	c := s.client
	field := &c.libName
	name := "lib-name"
	switch {
	case is(words[2], "LIB-NAME"):
	case is(words[2], "LIB-VER"):
		field, name = &c.libVer, "lib-ver"
	default:
		s.out.errorf(errClientInfoName, words[2])
		return
	}
	if !printable(words[3]) {
		s.out.errorf(errClientInfo, name)
		return
	}
	c.mu.Lock()
	*field = string(words[3])
	c.mu.Unlock()
	s.out.ok()
}

// onOff sets a switch of the client that ON or OFF is said to.
func (s *session) onOff(word []byte, set *bool) {
	on := is(word, "ON")
	if !on && !is(word, "OFF") {
		s.out.error(errSyntax)
		return
	}
	s.client.mu.Lock()
	*set = on
	s.client.mu.Unlock()
	s.out.ok()
}

// Keys are not evicted by use, and no client is; what is said is kept and shown.
func clientNoEvict(s *session, words [][]byte) { s.onOff(words[2], &s.client.noEvict) }
func clientNoTouch(s *session, words [][]byte) { s.onOff(words[2], &s.client.noTouch) }

func clientReply(s *session, words [][]byte) {
	switch {
	case is(words[2], "ON"):
		s.muted, s.skipping = false, 0
		s.out.ok()
	case is(words[2], "OFF"):
		s.muted = true
	case is(words[2], "SKIP"):
		if !s.muted {
			s.skipping = 2 // this reply and the next
		}
	default:
		s.out.error(errSyntax)
	}
}

// clientKill is CLIENT KILL addr:port, or CLIENT KILL with filters, of which all must fit.
func clientKill(s *session, words [][]byte) {
	if len(words) == 3 {
		for _, c := range s.srv.clients() {
			if c.addr == string(words[2]) {
				s.kill(c)
				s.out.ok()
				return
			}
		}
		s.out.error(errNoSuchClient)
		return
	}
	fits := func(*client) bool { return true }
	also := func(more func(c *client) bool) {
		before := fits
		fits = func(c *client) bool { return before(c) && more(c) }
	}
	skipMe := true
	filters := words[2:]
	for i := 0; i < len(filters); i += 2 {
		if i+1 == len(filters) { // what stands before it may be wrong first
			s.out.error(errSyntax)
			return
		}
		value := string(filters[i+1])
		switch f := filters[i]; {
		case is(f, "ID"):
			id, ok := parseInteger(filters[i+1])
			if !ok || id < 1 {
				s.out.error(errKillID)
				return
			}
			also(func(c *client) bool { return c.id == id })
		case is(f, "TYPE"):
			switch v := filters[i+1]; {
			case is(v, "NORMAL"):
			case is(v, "MASTER"), is(v, "REPLICA"), is(v, "SLAVE"), is(v, "PUBSUB"):
				also(func(*client) bool { return false })
			default:
				s.out.errorf(errClientType, v)
				return
			}
		case is(f, "ADDR"):
			also(func(c *client) bool { return c.addr == value })
		case is(f, "LADDR"):
			also(func(c *client) bool { return c.laddr == value })
		case is(f, "USER"):
			if !s.srv.knowsUser(value) {
				s.out.errorf(errKillUser, filters[i+1])
				return
			}
			also(func(c *client) bool { return c.userName() == value })
		case is(f, "MAXAGE"):
			age, ok := parseInteger(filters[i+1])
			if !ok || age < 1 {
				s.out.error(errNotInteger)
				return
			}
			also(func(c *client) bool { return (s.now-c.created)/second >= age })
		case is(f, "SKIPME") && is(filters[i+1], "YES"):
			skipMe = true
		case is(f, "SKIPME") && is(filters[i+1], "NO"):
			skipMe = false
		default:
			s.out.error(errSyntax)
			return
		}
	}
	killed := int64(0)
	for _, c := range s.srv.clients() {
		if fits(c) && (c != s.client || !skipMe) {
			s.kill(c)
			killed++
		}
	}
	s.out.int(killed)
}

// kill ends a connection; one's own, when the reply has been sent.
func (s *session) kill(c *client) {
	s.srv.log.Info("CLIENT KILL", "client", c.addr, "by", s.client.addr)
	if c == s.client {
		s.closing = true
	} else if c.hangUp != nil {
		c.hangUp()
	}
}

// clientUnblock is CLIENT UNBLOCK client-id [TIMEOUT|ERROR]: no command here blocks, so no client is ever unblocked.
func clientUnblock(s *session, words [][]byte) {
	if len(words) > 4 {
		s.out.errorf(errSubArity, words[1], "CLIENT")
		return
	}
	if len(words) == 4 && !is(words[3], "TIMEOUT") && !is(words[3], "ERROR") {
		s.out.error(errUnblockReason)
		return
	}
	if _, ok := parseInteger(words[2]); !ok {
		s.out.error(errNotInteger)
		return
	}
	s.out.int(0)
}

// clientPause is CLIENT PAUSE timeout [WRITE|ALL].
func clientPause(s *session, words [][]byte) {
	all := true
	if len(words) == 4 {
		if all = is(words[3], "ALL"); !all && !is(words[3], "WRITE") {
			s.out.error(errPauseMode)
			return
		}
	}
	ms, ok := parseInteger(words[2])
	switch {
	case !ok || ms > int64(maxPause/time.Millisecond):
		s.out.error(errTimeoutInteger)
	case ms < 0:
		s.out.error(errTimeoutNegative)
	default:
		s.srv.pause.begin(s.srv.now(), time.Duration(ms)*time.Millisecond, all)
		s.out.ok()
	}
}

// maxPause is longer than anybody will wait.
const maxPause = 365 * 24 * time.Hour

func clientUnpause(s *session, _ [][]byte) {
	s.srv.pause.end()
	s.out.ok()
}
