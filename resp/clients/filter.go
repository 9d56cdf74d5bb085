package clients

import (
	"fmt"
	"slices"

	"cellserver/resp/frame"
)

// The errors of filters, in Redis's words.
const (
	errClientID   = "ERR Invalid client ID"
	errClientType = "ERR Unknown client type '%s'"
	errKillID     = "ERR client-id should be greater than 0"
	errKillUser   = "ERR No such user '%s'"
)

// Filter reports whether a client is meant.
type Filter func(c *Info) bool

func everyone(*Info) bool { return true }
func nobody(*Info) bool   { return false }

// ParseList parses the words behind CLIENT LIST: [TYPE type] [ID id [id ...]]. fault is the error, or "".
func ParseList(opts [][]byte) (listed Filter, fault string) {
	switch {
	case len(opts) == 0:
		return everyone, ""
	case frame.Is(opts[0], "TYPE") && len(opts) == 2:
		return ofType(opts[1])
	case frame.Is(opts[0], "ID") && len(opts) > 1:
		var ids []int64
		for _, w := range opts[1:] {
			id, ok := frame.ParseInt(w)
			if !ok {
				return nil, errClientID
			}
			ids = append(ids, id)
		}
		return func(c *Info) bool { return slices.Contains(ids, c.ID) }, ""
	}
	return nil, frame.ErrSyntax
}

// ofType returns the filter of a type of clients: all are normal.
func ofType(word []byte) (Filter, string) {
	switch {
	case frame.Is(word, "NORMAL"):
		return everyone, ""
	case frame.Is(word, "MASTER"), frame.Is(word, "REPLICA"), frame.Is(word, "SLAVE"), frame.Is(word, "PUBSUB"):
		return nobody, ""
	}
	return nil, fmt.Sprintf(errClientType, word)
}

// ParseKill parses the filters of CLIENT KILL. matches reports whether a client matches all of them; with skipMe, the client that
// asks is left out. fault is the error of the first filter that is wrong, or "". hasUser reports whether there is a user.
func ParseKill(filters [][]byte, hasUser func(name string) bool) (matches Filter, skipMe bool, fault string) {
	matches, skipMe = everyone, true
	for i := 0; i < len(filters); i += 2 {
		if i+1 == len(filters) { // as in Redis, the errors of the filters before it come first
			return nil, false, frame.ErrSyntax
		}
		if frame.Is(filters[i], "SKIPME") && (frame.Is(filters[i+1], "YES") || frame.Is(filters[i+1], "NO")) {
			skipMe = frame.Is(filters[i+1], "YES")
			continue
		}
		more, fault := killFilter(filters[i], filters[i+1], hasUser)
		if fault != "" {
			return nil, false, fault
		}
		before := matches
		matches = func(c *Info) bool { return before(c) && more(c) }
	}
	return matches, skipMe, ""
}

// killFilter parses one filter of CLIENT KILL.
func killFilter(f, v []byte, hasUser func(name string) bool) (Filter, string) {
	value := string(v)
	switch {
	case frame.Is(f, "ID"):
		id, ok := frame.ParseInt(v)
		if !ok || id < 1 {
			return nil, errKillID
		}
		return func(c *Info) bool { return c.ID == id }, ""
	case frame.Is(f, "TYPE"):
		return ofType(v)
	case frame.Is(f, "ADDR"):
		return func(c *Info) bool { return c.Addr == value }, ""
	case frame.Is(f, "LADDR"):
		return func(c *Info) bool { return c.LAddr == value }, ""
	case frame.Is(f, "USER"):
		if !hasUser(value) {
			return nil, fmt.Sprintf(errKillUser, v)
		}
		return func(c *Info) bool { return c.User == value }, ""
	case frame.Is(f, "MAXAGE"):
		age, ok := frame.ParseInt(v)
		if !ok || age < 1 {
			return nil, frame.ErrNotInteger
		}
		return func(c *Info) bool { return c.Age >= age }, ""
	}
	return nil, frame.ErrSyntax
}
