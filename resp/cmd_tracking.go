package resp

// Nothing is remembered of what clients keep: what was read to be kept is invalidated directly behind the reply, so that
// no client answers from what it has kept.

// clientTracking is CLIENT TRACKING ON OPTIN and CLIENT TRACKING OFF: the one form under which the client keeps only what
// it asks for, and so is told of all of it. The invalidations are pushes, which RESP2 does not have; it would need REDIRECT.
func clientTracking(s *session, words [][]byte) {
	on := is(words[2], "ON")
	if !on && !is(words[2], "OFF") {
		s.out.error(errSyntax)
		return
	}
	optIn, others := false, false
	for opts := words[3:]; len(opts) > 0; opts = opts[1:] {
		switch {
		case is(opts[0], "OPTIN"):
			optIn = true
		case is(opts[0], "OPTOUT"), is(opts[0], "BCAST"), is(opts[0], "NOLOOP"):
			others = true
		case (is(opts[0], "REDIRECT") || is(opts[0], "PREFIX")) && len(opts) > 1:
			others = true
			opts = opts[1:]
		default:
			s.out.error(errSyntax)
			return
		}
	}
	switch {
	case on && (!optIn || others):
		s.out.error(errTracking)
	case on && !s.out.resp3:
		s.out.error(errTrackingRESP2)
	default:
		s.track(on)
		s.out.ok()
	}
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
		s.out.error(errCaching)
	case is(words[2], "YES"):
		s.caching = true
		s.out.ok()
	case is(words[2], "NO"):
		s.out.error(errCachingNo)
	default:
		s.out.error(errSyntax)
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
	out.mapOf(3)
	out.bulkString("flags")
	out.setOf(len(flags))
	for _, f := range flags {
		out.bulkString(f)
	}
	out.bulkString("redirect")
	clientGetRedir(s, nil)
	out.bulkString("prefixes")
	out.array(0)
}

// clientGetRedir is CLIENT GETREDIR: nothing is ever redirected.
func clientGetRedir(s *session, _ [][]byte) {
	if s.client.tracking {
		s.out.int(0)
	} else {
		s.out.int(-1)
	}
}

// reads reports whether what the command answers may be kept by its client: it says something of its keys.
func (c *command) reads() bool { return c.flags&(readonly|decides) != 0 }

// endCaching is called behind each command while CLIENT CACHING YES is in force, and invalidates what has been read. The
// commands of CLIENT leave it in force, as in Redis, and so does everything up to EXEC.
func (s *session) endCaching(c *command, words [][]byte) {
	switch {
	case s.tx.open, c != nil && c.parent != nil && c.parent.name == "client":
		return
	case c != nil && c.reads() && !s.muted && s.skipping == 0:
		s.invalidate(c.appendKeys(nil, words))
	}
	s.caching = false
}

// invalidate pushes that keys are not what they were, each once.
func (s *session) invalidate(keys [][]byte) {
	if len(keys) == 0 || !s.out.resp3 {
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
	s.out.header('>', 2)
	s.out.bulkString("invalidate")
	s.out.array(len(once))
	for _, key := range once {
		s.out.bulk(key)
	}
}
