// Package clients tells of clients what CLIENT LIST tells, and reads the arguments of the subcommands of CLIENT. It sees neither
// connections nor sessions.
package clients

import (
	"net"
	"strconv"
)

// Info is what filters read of a client.
type Info struct {
	ID          int64
	Addr, LAddr string
	User        string
	Age         int64 // in seconds
}

// Line is what CLIENT LIST tells of a client.
type Line struct {
	Info
	Name            string
	Idle            int64 // in seconds
	Flags           Flags
	DB              int64
	Queued          int64  // commands that are queued for EXEC; -1 outside of MULTI
	Query, Unread   int64  // bytes of input, and of replies that have not been written to the socket
	Command         string // the full name of the last; "" if there is none
	RESP3           bool
	LibName, LibVer string
}

// Append appends the line, with Redis's fields.
func (l *Line) Append(b []byte) []byte {
	number := func(name string, n int64) {
		b = append(append(b, name...), '=')
		b = append(strconv.AppendInt(b, n, 10), ' ')
	}
	word := func(name, value string) {
		b = append(append(b, name...), '=')
		b = append(append(b, value...), ' ')
	}
	number("id", l.ID)
	word("addr", l.Addr)
	word("laddr", l.LAddr)
	word("name", l.Name)
	number("age", l.Age)
	number("idle", l.Idle)
	word("flags", l.Flags.String())
	number("db", l.DB)
	for _, name := range []string{"sub", "psub", "ssub"} {
		number(name, 0)
	}
	number("multi", l.Queued)
	number("qbuf", l.Query)
	number("omem", l.Unread)
	word("events", "r")
	if l.Command == "" {
		word("cmd", "NULL")
	} else {
		word("cmd", l.Command)
	}
	word("user", l.User)
	if l.Flags.Tracking {
		number("redir", 0)
	} else {
		number("redir", -1)
	}
	if l.RESP3 {
		number("resp", 3)
	} else {
		number("resp", 2)
	}
	word("lib-name", l.LibName)
	word("lib-ver", l.LibVer)
	b[len(b)-1] = '\n'
	return b
}

// Flags are the flags of a client.
type Flags struct {
	Monitor  bool
	Multi    bool // between MULTI and EXEC
	Held     bool // waits for the end of a pause
	Tracking bool
	Unix     bool // connected through a Unix socket
	NoEvict  bool
	NoTouch  bool
}

// String returns the letters of the flags, N if there are none.
func (f Flags) String() string {
	var letters []byte
	for _, flag := range []struct {
		set    bool
		letter byte
	}{
		{f.Monitor, 'O'}, {f.Multi, 'x'}, {f.Held, 'b'}, {f.Tracking, 't'}, {f.Unix, 'U'}, {f.NoEvict, 'e'}, {f.NoTouch, 'T'},
	} {
		if flag.set {
			letters = append(letters, flag.letter)
		}
	}
	if len(letters) == 0 {
		return "N"
	}
	return string(letters)
}

// IsLoopback reports whether an address with a port is of this machine.
func IsLoopback(addr string) bool {
	host, _, err := net.SplitHostPort(addr)
	return err == nil && net.ParseIP(host).IsLoopback()
}

// IsName reports whether b may be the name of a client or a library: it has only ASCII characters, no spaces and no control
// characters.
func IsName(b []byte) bool {
	for _, c := range b {
		if c < '!' || c > '~' {
			return false
		}
	}
	return true
}
