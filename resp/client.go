package resp

import (
	"sync"
	"sync/atomic"

	"cellserver/resp/clients"
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

// line returns what CLIENT LIST tells of c.
func (c *client) line(now int64) *clients.Line {
	c.mu.Lock()
	defer c.mu.Unlock()
	l := &clients.Line{
		Info: c.info(now),
		Name: c.name, Idle: max(0, now-c.active.Load()) / second, DB: int64(c.db.Load()),
		Flags: clients.Flags{
			Monitor: c.monitors.Load(), Multi: c.queued.Load() >= 0, Held: c.held.Waits(), Tracking: c.tracking,
			Unix: c.unix, NoEvict: c.noEvict, NoTouch: c.noTouch,
		},
		Queued: c.queued.Load(), Query: c.query.Load(), Unread: c.unread(), RESP3: c.resp3.Load(),
		LibName: c.libName, LibVer: c.libVer,
	}
	if last := c.command.Load(); last != nil {
		l.Command = last.FullName()
	}
	return l
}

// info returns what filters read of c.
func (c *client) info(now int64) clients.Info {
	return clients.Info{ID: c.id, Addr: c.addr, LAddr: c.laddr, User: c.userName(), Age: max(0, now-c.created) / second}
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
