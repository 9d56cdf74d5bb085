package resp

import (
	"slices"

	"cellserver/resp/clients"
	"cellserver/resp/command"
	"cellserver/resp/frame"
)

// The server does not record which keys a client caches: it invalidates keys that a client reads under CLIENT CACHING YES
// directly after the reply, so that no client answers from its cache.

// clientTracking is CLIENT TRACKING ON OPTIN and CLIENT TRACKING OFF.
func clientTracking(s *session, words [][]byte) {
	on, fault := clients.ParseTracking(words[2:], s.out.RESP3, func(id int64) bool {
		return slices.ContainsFunc(s.srv.clients(), func(c *client) bool { return c.id == id })
	})
	if fault != "" {
		s.out.Error(fault)
		return
	}
	s.setTracking(on)
	s.out.OK()
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
	clients.AppendTracking(&s.out, s.client.tracking, s.caching)
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
		s.invalidate(c.AppendKeys(s.scriptRead, words))
	}
	s.caching, s.scriptRead = false, nil
}

// invalidate pushes an invalidation of keys, each once.
func (s *session) invalidate(keys [][]byte) {
	if len(keys) > 0 && s.out.RESP3 {
		clients.PushInvalidation(&s.out, keys)
	}
}
