package resp

import (
	"time"

	"cellserver/resp/clients"
	"cellserver/resp/frame"
)

func (c *client) setName(name []byte) {
	c.mu.Lock()
	c.name = string(name)
	c.mu.Unlock()
}

func clientID(s *session, _ [][]byte) { s.out.Int(s.client.id) }

func clientInfo(s *session, _ [][]byte) { s.out.Text(string(s.client.line(s.now).Append(nil))) }

// clientList is CLIENT LIST [TYPE type] [ID id [id ...]].
func clientList(s *session, words [][]byte) {
	listed, fault := clients.ParseList(words[2:])
	if fault != "" {
		s.out.Error(fault)
		return
	}
	var lines []byte
	for _, c := range s.srv.clients() {
		if info := c.info(s.now); listed(&info) {
			lines = c.line(s.now).Append(lines)
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
	if !clients.IsName(words[2]) {
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
	if !clients.IsName(words[3]) {
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
	matches, skipMe, fault := clients.ParseKill(words[2:], s.srv.hasUser)
	if fault != "" {
		s.out.Error(fault)
		return
	}
	killed := int64(0)
	for _, c := range s.srv.clients() {
		if info := c.info(s.now); matches(&info) && (c != s.client || !skipMe) {
			s.kill(c)
			killed++
		}
	}
	s.out.Int(killed)
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
