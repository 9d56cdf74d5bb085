package clients

import "cellserver/resp/frame"

// The errors of CLIENT TRACKING.
const (
	errTracking      = "ERR cellserver accepts only CLIENT TRACKING ON OPTIN and CLIENT TRACKING OFF: it does not remember what clients keep"
	errTrackingRESP2 = "ERR CLIENT TRACKING needs RESP3, say HELLO 3 first: invalidations are pushed, and there is no REDIRECT"
	errRedirectTwice = "ERR A client can only redirect to a single other client"
	errNoRedirect    = "ERR The client ID you want redirect to does not exist"
)

// ParseTracking parses the words behind CLIENT TRACKING, of which ON OPTIN and OFF are accepted. The other modes are refused: in
// OPTIN mode the server knows what the client caches. RESP3 is required, because invalidations are pushes, and there is no
// REDIRECT. exists reports whether there is a client with an ID. fault is the error, or "".
func ParseTracking(words [][]byte, resp3 bool, exists func(id int64) bool) (on bool, fault string) {
	optIn, others, redirected := false, false, false
	for opts := words[1:]; len(opts) > 0; opts = opts[1:] {
		switch {
		case frame.Is(opts[0], "OPTIN"):
			optIn = true
		case frame.Is(opts[0], "OPTOUT"), frame.Is(opts[0], "BCAST"), frame.Is(opts[0], "NOLOOP"):
			others = true
		case frame.Is(opts[0], "REDIRECT") && len(opts) > 1:
			if fault := redirectFault(opts[1], redirected, exists); fault != "" {
				return false, fault
			}
			others, redirected = true, true
			opts = opts[1:]
		case frame.Is(opts[0], "PREFIX") && len(opts) > 1:
			others = true
			opts = opts[1:]
		default:
			return false, frame.ErrSyntax
		}
	}
	on = frame.Is(words[0], "ON")
	switch {
	case !on && !frame.Is(words[0], "OFF"):
		return false, frame.ErrSyntax
	case on && (!optIn || others):
		return false, errTracking
	case on && !resp3:
		return false, errTrackingRESP2
	}
	return on, ""
}

// redirectFault returns the error if the client ID behind REDIRECT is wrong, or "". A second REDIRECT is always wrong.
func redirectFault(word []byte, second bool, exists func(id int64) bool) string {
	if second {
		return errRedirectTwice
	}
	id, ok := frame.ParseInt(word)
	switch {
	case !ok:
		return frame.ErrNotInteger
	case !exists(id):
		return errNoRedirect
	}
	return ""
}

// AppendTracking appends the reply to CLIENT TRACKINGINFO. caching says that CLIENT CACHING YES is in force.
func AppendTracking(out *frame.Reply, on, caching bool) {
	flags, redirect := []string{"off"}, int64(-1)
	if on {
		flags, redirect = []string{"on", "optin"}, 0
		if caching {
			flags = append(flags, "caching-yes")
		}
	}
	out.Map(3)
	out.BulkString("flags")
	out.Set(len(flags))
	for _, f := range flags {
		out.BulkString(f)
	}
	out.BulkString("redirect")
	out.Int(redirect)
	out.BulkString("prefixes")
	out.Array(0)
}

// PushInvalidation pushes an invalidation of keys, each once. It changes keys.
func PushInvalidation(out *frame.Reply, keys [][]byte) {
	seen := make(map[string]bool, len(keys))
	distinct := keys[:0]
	for _, key := range keys {
		if !seen[string(key)] {
			seen[string(key)] = true
			distinct = append(distinct, key)
		}
	}
	out.Push(2)
	out.BulkString("invalidate")
	out.Array(len(distinct))
	for _, key := range distinct {
		out.Bulk(key)
	}
}
