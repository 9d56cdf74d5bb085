package resp

import (
	"slices"

	"cellserver/resp/command"
	"cellserver/resp/frame"
)

// The server does not record which keys a client caches: it invalidates keys that a client reads under CLIENT CACHING YES
// directly after the reply, so that no client answers from its cache.

// clientTracking is CLIENT TRACKING ON OPTIN and CLIENT TRACKING OFF. The other modes are refused: in OPTIN mode the server
// knows what the client caches. RESP3 is required, because invalidations are pushes, and there is no REDIRECT.
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
		s.setTracking(on)
		s.out.OK()
	}
}

// redirectFault returns the error if the client ID after REDIRECT is wrong, or "". A second REDIRECT is always wrong.
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

// setTracking turns tracking on or off.
func (s *session) setTracking(on bool) {
	s.caching = false
	s.client.mu.Lock()
	s.client.tracking = on
	s.client.mu.Unlock()
}

// clientCaching is CLIENT CACHING YES: the client caches what the next command or transaction reads.
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

// clientGetRedir is CLIENT GETREDIR: 0 with tracking, because there is no REDIRECT, and -1 without.
func clientGetRedir(s *session, _ [][]byte) {
	if s.client.tracking {
		s.out.Int(0)
	} else {
		s.out.Int(-1)
	}
}

// isCacheable reports whether a client may cache the reply: it depends on the keys of the command.
func (c *entry) isCacheable() bool { return c.Flags&(command.ReadOnly|command.Decides) != 0 }

// endCaching ends CLIENT CACHING YES after a command, and invalidates the keys that the command has read. As in Redis,
// subcommands of CLIENT do not end it, nor do commands that are queued for EXEC.
func (s *session) endCaching(c *entry, words [][]byte) {
	switch {
	case s.tx.open, c != nil && c.Parent != nil && c.Parent.Name == "client":
		return
	case c != nil && c.isCacheable() && !s.silenced():
		s.invalidate(c.AppendKeys(nil, words))
	}
	s.caching = false
}

// invalidate pushes an invalidation of keys, each once.
func (s *session) invalidate(keys [][]byte) {
	if len(keys) == 0 || !s.out.RESP3 {
		return
	}
	seen := make(map[string]bool, len(keys))
	distinct := keys[:0]
	for _, key := range keys {
		if !seen[string(key)] {
			seen[string(key)] = true
			distinct = append(distinct, key)
		}
	}
	s.out.Push(2)
	s.out.BulkString("invalidate")
	s.out.Array(len(distinct))
	for _, key := range distinct {
		s.out.Bulk(key)
	}
}
