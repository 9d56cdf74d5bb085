package resp

// What a server like this one is taken for. Clients decide by the version what they may send.
const (
	redisVersion  = "7.2.4"
	serverName    = "cellserver"
	moduleName    = "redis-cell" // clients that know limiters probe for it
	moduleVersion = 1
)

func ping(s *session, words [][]byte) {
	switch len(words) {
	case 1:
		s.out.status("PONG")
	case 2:
		s.out.bulk(words[1])
	default:
		s.out.errorf(errArity, "ping")
	}
}

func echo(s *session, words [][]byte) { s.out.bulk(words[1]) }

func quit(s *session, _ [][]byte) {
	s.out.ok()
	s.closing = true
}

// reset brings the connection back to what it was when it was made.
func reset(s *session, _ [][]byte) {
	s.discardTransaction()
	s.speak(2)
	s.muted, s.skipping = false, 0
	c := s.client
	c.mu.Lock()
	c.name, c.noEvict, c.noTouch = "", false, false
	c.mu.Unlock()
	s.srv.removeMonitor(c)
	s.user, s.free = nil, false
	if u, open := s.srv.acl.Open(); open {
		s.become(u)
	} else {
		s.client.user.Store(nil)
		s.limits = s.srv.narrow.Load()
	}
	s.out.status("RESET")
}

func selectDB(s *session, words [][]byte) {
	n, ok := parseInteger(words[1])
	switch {
	case !ok:
		s.out.error(errNotInteger)
	case n != int64(int32(n)):
		s.out.error(errDBRange)
	case n != 0:
		s.out.error(errDBIndex)
	default:
		s.out.ok()
	}
}

// speak chooses the version of the protocol. Under RESP2 nothing can be tracked.
func (s *session) speak(version int64) {
	if version == 2 && s.client.tracking {
		s.track(false)
	}
	s.out.resp3 = version == 3
	s.client.resp3.Store(s.out.resp3)
}

// hello is HELLO [protover [AUTH username password] [SETNAME clientname]].
func hello(s *session, words [][]byte) {
	version := int64(0)
	if len(words) > 1 {
		var ok bool
		if version, ok = parseInteger(words[1]); !ok {
			s.out.error(errProtoNotInteger)
			return
		}
		if version != 2 && version != 3 {
			s.out.error(errNoProto)
			return
		}
	}
	var name []byte
	for i := 2; i < len(words); {
		switch left := len(words) - i; {
		case is(words[i], "AUTH") && left >= 3:
			if !s.authenticate(words[i+1], words[i+2], "HELLO") {
				return
			}
			i += 3
		case is(words[i], "SETNAME") && left >= 2:
			if !printable(words[i+1]) {
				s.out.error(errClientName)
				return
			}
			name = words[i+1]
			i += 2
		default:
			s.out.errorf(errHelloSyntax, words[i])
			return
		}
	}
	if s.user == nil {
		s.out.error(errHelloNoAuth)
		return
	}
	if version != 0 {
		s.speak(version)
	}
	if name != nil {
		s.client.setName(name)
	}
	out := &s.out
	out.mapOf(9)
	out.bulkString("server")
	out.bulkString("redis")
	out.bulkString("version")
	out.bulkString(redisVersion)
	out.bulkString("proto")
	out.int(2 + boolInt(out.resp3))
	out.bulkString("id")
	out.int(s.client.id)
	out.bulkString("mode")
	out.bulkString("standalone")
	out.bulkString("role")
	out.bulkString("master")
	out.bulkString("modules")
	s.modules()
	out.bulkString("server_name")
	out.bulkString(serverName)
	out.bulkString("cellserver_version")
	out.bulkString(s.srv.version)
}

// modules appends the list of modules: the one whose commands are built in.
func (s *session) modules() {
	out := &s.out
	out.array(1)
	out.mapOf(4)
	out.bulkString("name")
	out.bulkString(moduleName)
	out.bulkString("ver")
	out.int(moduleVersion)
	out.bulkString("path")
	out.bulkString("")
	out.bulkString("args")
	out.array(0)
}

func moduleList(s *session, _ [][]byte) { s.modules() }
