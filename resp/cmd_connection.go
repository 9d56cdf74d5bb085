package resp

import (
	"cellserver/resp/clients"
	"cellserver/resp/command"
	"cellserver/resp/frame"
)

// HELLO and INFO report these. Clients decide by redisVersion which commands and options they send.
const (
	redisVersion  = "7.2.4"
	serverName    = "cellserver"
	moduleVersion = 1
)

func ping(s *session, words [][]byte) {
	switch len(words) {
	case 1:
		s.out.Status("PONG")
	case 2:
		s.out.Bulk(words[1])
	default:
		s.out.Errorf(errArity, "ping")
	}
}

func echo(s *session, words [][]byte) { s.out.Bulk(words[1]) }

func quit(s *session, _ [][]byte) {
	s.out.OK()
	s.closing = true
}

// reset is RESET: it restores the state of a new connection.
func reset(s *session, _ [][]byte) {
	s.discardTransaction()
	s.useDatabase(0)
	s.setProtocol(2)
	s.repliesOff, s.repliesToSkip = false, 0
	c := s.client
	c.mu.Lock()
	c.name, c.noEvict, c.noTouch = "", false, false
	c.mu.Unlock()
	s.srv.removeMonitor(c)
	s.user, s.unrestricted = nil, false
	if u, open := s.srv.acl.Open(); open {
		s.setUser(u)
	} else {
		s.client.user.Store(nil)
		s.bounds = s.srv.unauthBounds.Load()
	}
	s.out.Status("RESET")
}

// setProtocol sets the version of RESP. RESP2 turns tracking off, because it has no pushes.
func (s *session) setProtocol(version int64) {
	if version == 2 && s.client.tracking {
		s.setTracking(false)
	}
	s.out.RESP3 = version == 3
	s.client.resp3.Store(s.out.RESP3)
}

// hello is HELLO [protover [AUTH username password] [SETNAME clientname]].
func hello(s *session, words [][]byte) {
	version := int64(0)
	if len(words) > 1 {
		var ok bool
		if version, ok = frame.ParseInt(words[1]); !ok {
			s.out.Error(errProtoNotInteger)
			return
		}
		if version != 2 && version != 3 {
			s.out.Error(errNoProto)
			return
		}
	}
	var name []byte
	for i := 2; i < len(words); {
		switch left := len(words) - i; {
		case frame.Is(words[i], "AUTH") && left >= 3:
			if !s.authenticate(words[i+1], words[i+2], "HELLO") {
				return
			}
			i += 3
		case frame.Is(words[i], "SETNAME") && left >= 2:
			if !clients.IsName(words[i+1]) {
				s.out.Error(errClientName)
				return
			}
			name = words[i+1]
			i += 2
		default:
			s.out.Errorf(errHelloSyntax, words[i])
			return
		}
	}
	if s.user == nil {
		s.out.Error(errHelloNoAuth)
		return
	}
	if version != 0 {
		s.setProtocol(version)
	}
	if name != nil {
		s.client.setName(name)
	}
	out := &s.out
	out.Map(9)
	out.BulkString("server")
	out.BulkString("redis")
	out.BulkString("version")
	out.BulkString(redisVersion)
	out.BulkString("proto")
	out.Int(2 + boolInt(out.RESP3))
	out.BulkString("id")
	out.Int(s.client.id)
	out.BulkString("mode")
	out.BulkString("standalone")
	out.BulkString("role")
	out.BulkString("master")
	out.BulkString("modules")
	s.modules()
	out.BulkString("server_name")
	out.BulkString(serverName)
	out.BulkString("cellserver_version")
	out.BulkString(s.srv.version)
}

// modules appends the list of modules: redis-cell, whose command is built in.
func (s *session) modules() {
	out := &s.out
	out.Array(1)
	out.Map(4)
	out.BulkString("name")
	out.BulkString(command.ModuleName)
	out.BulkString("ver")
	out.Int(moduleVersion)
	out.BulkString("path")
	out.BulkString("")
	out.BulkString("args")
	out.Array(0)
}

func moduleList(s *session, _ [][]byte) { s.modules() }
