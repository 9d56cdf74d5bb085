package resp

import (
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"cellserver/resp/pause"
	"cellserver/resp/transport"
)

// client is what others may know of a connection: what CLIENT LIST shows. Its own goroutine writes it, any may read it.
type client struct {
	id          int64
	addr, laddr string
	unix        bool  // it came through a Unix socket
	created     int64 // nanoseconds of Unix time

	active  atomic.Int64 // when it last sent something
	command atomic.Pointer[entry]
	resp3   atomic.Bool
	query   atomic.Int64 // bytes of a command that has not fully arrived
	queued  atomic.Int64 // commands behind MULTI; -1 without one

	held     pause.Waiter           // for the end of a pause
	monitors atomic.Bool            // it is shown every command
	user     atomic.Pointer[string] // as whom it speaks

	conn *transport.Conn // nil where there is no connection

	gone bool // nobody is shown it any more; guarded by Server.mu

	mu                    sync.Mutex
	name, libName, libVer string
	noEvict, noTouch      bool
	tracking              bool
}

// appendLine appends c as a line of CLIENT LIST, in Redis's fields.
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
	for _, name := range []string{"db", "sub", "psub", "ssub"} {
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

// unread returns how many bytes of replies are not written yet.
func (c *client) unread() int64 {
	if c.conn == nil {
		return 0
	}
	return c.conn.Unread()
}

// userName returns as whom the connection speaks.
func (c *client) userName() string {
	if name := c.user.Load(); name != nil {
		return *name
	}
	return "default"
}

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
