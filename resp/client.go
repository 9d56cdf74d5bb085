package resp

import (
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"cellserver/resp/pause"
	"cellserver/resp/transport"
)

// client is the part of a connection's state that other connections may read, such as the fields of CLIENT LIST. Only the
// connection's own goroutine writes it, except as noted.
type client struct {
	id          int64
	addr, laddr string
	unix        bool  // connected through a Unix socket
	created     int64 // nanoseconds of Unix time

	active  atomic.Int64 // when the last bytes arrived
	command atomic.Pointer[entry]
	resp3   atomic.Bool
	query   atomic.Int64 // bytes in the input buffer
	db      atomic.Int32 // the number of the selected database
	queued  atomic.Int64 // commands that are queued for EXEC; -1 outside of MULTI

	held     pause.Waiter           // waits for the end of a pause
	monitors atomic.Bool            // MONITOR
	user     atomic.Pointer[string] // the user's name; nil before authentication

	conn *transport.Conn // nil in tests without a connection

	gone bool // unregister has been called; guarded by Server.mu

	mu                    sync.Mutex
	name, libName, libVer string
	noEvict, noTouch      bool
	tracking              bool
}

// appendLine appends the line of c in CLIENT LIST, with Redis's fields.
func (c *client) appendLine(b []byte, now int64) []byte {
	number := func(name string, n int64) {
		b = append(append(b, name...), '=')
		b = append(strconv.AppendInt(b, n, 10), ' ')
	}
	word := func(name, value string) {
		b = append(append(b, name...), '=')
		b = append(append(b, value...), ' ')
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	number("id", c.id)
	word("addr", c.addr)
	word("laddr", c.laddr)
	word("name", c.name)
	number("age", max(0, now-c.created)/second)
	number("idle", max(0, now-c.active.Load())/second)
	word("flags", c.flags())
	number("db", int64(c.db.Load()))
	for _, name := range []string{"sub", "psub", "ssub"} {
		number(name, 0)
	}
	number("multi", c.queued.Load())
	number("qbuf", c.query.Load())
	number("omem", c.unread())
	word("events", "r")
	cmd := "NULL"
	if last := c.command.Load(); last != nil {
		cmd = last.FullName()
	}
	word("cmd", cmd)
	word("user", c.userName())
	number("redir", boolInt(c.tracking)-1)
	number("resp", 2+boolInt(c.resp3.Load()))
	word("lib-name", c.libName)
	word("lib-ver", c.libVer)
	b[len(b)-1] = '\n'
	return b
}

// unread returns the number of bytes of replies that have not been written to the socket.
func (c *client) unread() int64 {
	if c.conn == nil {
		return 0
	}
	return c.conn.Unread()
}

// userName returns the name of the user, which is "default" before authentication.
func (c *client) userName() string {
	if name := c.user.Load(); name != nil {
		return *name
	}
	return "default"
}

// flags returns the flags of CLIENT LIST. It requires that c.mu is held.
func (c *client) flags() string {
	var f strings.Builder
	if c.monitors.Load() {
		f.WriteByte('O')
	}
	if c.queued.Load() >= 0 {
		f.WriteByte('x')
	}
	if c.held.Waits() {
		f.WriteByte('b')
	}
	if c.tracking {
		f.WriteByte('t')
	}
	if c.unix {
		f.WriteByte('U')
	}
	if c.noEvict {
		f.WriteByte('e')
	}
	if c.noTouch {
		f.WriteByte('T')
	}
	if f.Len() == 0 {
		return "N"
	}
	return f.String()
}
