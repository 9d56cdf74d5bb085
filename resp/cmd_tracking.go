package resp

import (
	"slices"

	"cellserver/resp/command"
	"cellserver/resp/frame"
)

// Nothing is remembered of what clients keep: what was read to be kept is invalidated directly behind the reply, so that
// no client answers from what it has kept.

// clientTracking is CLIENT TRACKING ON OPTIN and CLIENT TRACKING OFF: the one form under which the client keeps only what
// it asks for, and so is told of all of it. The invalidations are pushes, which RESP2 does not have; it would need REDIRECT.
func clientTracking(s *session, words [][]byte) {
	optIn, others, redirected := false, false, false
	for opts := words[3:]; len(opts) > 0; opts = opts[1:] {
		switch {
		case frame.Is(opts[0], "OPTIN"):
			optIn = true
		case frame.Is(opts[0], "OPTOUT"), frame.Is(opts[0], "BCAST"), frame.Is(opts[0], "NOLOOP"):
			others = true
		case frame.Is(opts[0], "REDIRECT") && len(opts) > 1:
			if fault := s.redirectFault(opts[1], redirected); fault != "" {
				s.out.Error(fault)
				return
			}
			others, redirected = true, true
			opts = opts[1:]
		case frame.Is(opts[0], "PREFIX") && len(opts) > 1:
			others = true
			opts = opts[1:]
		default:
			s.out.Error(errSyntax)
			return
		}
	}
	on := frame.Is(words[2], "ON")
	if !on && !frame.Is(words[2], "OFF") {
		s.out.Error(errSyntax)
		return
	}
	switch {
	case on && (!optIn || others):
		s.out.Error(errTracking)
	case on && !s.out.RESP3:
		s.out.Error(errTrackingRESP2)
	default:
		s.track(on)
		s.out.OK()
	}
}

// redirectFault returns what is wrong with the ID of a client behind REDIRECT, or "". A second one is always wrong.
func (s *session) redirectFault(word []byte, second bool) string {
	if second {
		return errRedirectTwice
	}
	id, ok := frame.ParseInt(word)
	if !ok {
		return errNotInteger
	}
	if !slices.ContainsFunc(s.srv.clients(), func(c *client) bool { return c.id == id }) {
		return errNoRedirect
	}
	return ""
}

func (s *session) track(on bool) {
	s.caching = false
	s.client.mu.Lock()
	s.client.tracking = on
	s.client.mu.Unlock()
}

// clientCaching is CLIENT CACHING YES: what the next command reads is kept by the client, or what the next transaction
// does.
func clientCaching(s *session, words [][]byte) {
	switch {
	case !s.client.tracking:
		s.out.Error(errCaching)
	case frame.Is(words[2], "YES"):
		s.caching = true
		s.out.OK()
	case frame.Is(words[2], "NO"):
		s.out.Error(errCachingNo)
	default:
		s.out.Error(errSyntax)
	}
}

// clientTrackingInfo is CLIENT TRACKINGINFO.
func clientTrackingInfo(s *session, _ [][]byte) {
	flags := []string{"off"}
	if s.client.tracking {
		flags = []string{"on", "optin"}
		if s.caching {
			flags = append(flags, "caching-yes")
		}
	}
	out := &s.out
	out.Map(3)
	out.BulkString("flags")
	out.Set(len(flags))
	for _, f := range flags {
		out.BulkString(f)
	}
	out.BulkString("redirect")
	clientGetRedir(s, nil)
	out.BulkString("prefixes")
	out.Array(0)
}

// clientGetRedir is CLIENT GETREDIR: nothing is ever redirected.
func clientGetRedir(s *session, _ [][]byte) {
	if s.client.tracking {
		s.out.Int(0)
	} else {
		s.out.Int(-1)
	}
}

// reads reports whether what the command answers may be kept by its client: it says something of its keys.
func (c *entry) reads() bool { return c.Flags&(command.ReadOnly|command.Decides) != 0 }

// endCaching is called behind each command while CLIENT CACHING YES is in force, and invalidates what has been read. The
// commands of CLIENT leave it in force, as in Redis, and so does everything up to EXEC.
func (s *session) endCaching(c *entry, words [][]byte) {
	switch {
	case s.tx.open, c != nil && c.Parent != nil && c.Parent.Name == "client":
		return
	case c != nil && c.reads() && !s.muted && s.skipping == 0:
		s.invalidate(c.AppendKeys(nil, words))
	}
	s.caching = false
}

// invalidate pushes that keys are not what they were, each once.
func (s *session) invalidate(keys [][]byte) {
	if len(keys) == 0 || !s.out.RESP3 {
		return
	}
	named := make(map[string]bool, len(keys))
	once := keys[:0]
	for _, key := range keys {
		if !named[string(key)] {
			named[string(key)] = true
			once = append(once, key)
		}
	}
	s.out.Push(2)
	s.out.BulkString("invalidate")
	s.out.Array(len(once))
	for _, key := range once {
		s.out.Bulk(key)
	}
}
