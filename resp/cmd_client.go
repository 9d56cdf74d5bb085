package resp

import "slices"

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
			id, ok := parseInt(w)
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

// clientTracking takes the one form under which a server that never sends an invalidation keeps its word: the client
// caches only what it asks to be tracked, and nothing here is ever cached.
func clientTracking(s *session, words [][]byte) {
	on := len(words) == 4 && is(words[2], "ON") && is(words[3], "OPTIN")
	off := len(words) == 3 && is(words[2], "OFF")
	if !on && !off {
		s.out.error(errTracking)
		return
	}
	s.client.mu.Lock()
	s.client.tracking = on
	s.client.mu.Unlock()
	s.out.ok()
}

func clientCaching(s *session, words [][]byte) {
	switch {
	case !s.client.tracking:
		s.out.error(errCaching)
	case is(words[2], "YES"):
		s.out.ok()
	case is(words[2], "NO"):
		s.out.error(errCachingNo)
	default:
		s.out.error(errSyntax)
	}
}
