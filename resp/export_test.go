package resp

import (
	"slices"

	"cellserver/resp/command"
	"cellserver/resp/latency"
)

// Tests in package resp_test use these exports. They cannot be in package resp, because the options of the program import it.

// TestConn is a connection without a socket. The test supplies the bytes and the time.
type TestConn struct {
	s   *session
	out []byte
}

// NewTestConn adds a connection to srv, which CLIENT LIST shows until it is closed.
func NewTestConn(srv *Server, now int64) *TestConn {
	peer := &client{addr: "192.0.2.1:50000", laddr: "192.0.2.2:6379", created: now}
	peer.active.Store(now)
	srv.register(peer)
	return &TestConn{s: newSession(srv, peer)}
}

// Feed lets bytes arrive at the time now and returns the replies, which are valid until the next call.
func (c *TestConn) Feed(now int64, in []byte) []byte {
	s := c.s
	c.out = c.out[:0]
	for len(in) > 0 && !s.closing {
		n := copy(s.in.Space(), in)
		s.in.Advance(n)
		in = in[n:]
		for more := true; more; {
			more = s.run(now)
			c.out = append(c.out, s.out.Bytes...)
			s.out.Bytes = s.out.Bytes[:0]
		}
	}
	s.Idle()
	if s.closing {
		s.srv.unregister(s.client)
	}
	return c.out
}

// Closed reports whether the session has ended and answers no more commands.
func (c *TestConn) Closed() bool { return c.s.closing }

// Row is a row of the command table.
type Row struct {
	Name      string   // client|setname for a subcommand
	Words     []string // client setname
	Syntax    string
	Arity     int
	Summary   string
	Cost      string
	Group     string
	Container bool // whether it has subcommands only
	Integers  bool // whether it has integer arguments
}

// Rows returns the command table. Subcommands follow their container.
func Rows() (rows []Row) {
	command.New().Each(func(c *command.Row) {
		r := Row{Name: c.FullName(), Words: []string{c.Name}, Syntax: c.Syntax(), Arity: c.Arity, Summary: c.Summary, Cost: c.Cost,
			Group: string(c.Group), Container: c.Container(), Integers: takesIntegers(c.Args)}
		if c.Parent != nil {
			r.Words = []string{c.Parent.Name, c.Name}
		}
		rows = append(rows, r)
	})
	return rows
}

func takesIntegers(args []command.Arg) bool {
	return slices.ContainsFunc(args, func(a command.Arg) bool {
		return a.Kind == command.ArgInteger || a.Kind == command.ArgUnix || takesIntegers(a.Args)
	})
}

// RowOf returns the name of the row for a command, or "".
func RowOf(words []string) string {
	var all [][]byte
	for _, w := range words {
		all = append(all, []byte(w))
	}
	c, ok := command.New().Find(all)
	if c == nil || !ok || !c.Takes(len(words)) || c.Container() {
		return ""
	}
	return c.FullName()
}

// DrawLatencies draws spikes, each a Unix time in seconds and a latency in milliseconds.
func DrawLatencies(event string, samples [][2]int64, now int64) string {
	var list []latency.Spike
	for _, s := range samples {
		list = append(list, latency.Spike{At: s[0], Took: s[1]})
	}
	return latency.Draw(event, list, now)
}

// IsLocal reports whether a client with that address is on this machine.
func IsLocal(addr string) bool { return (&client{addr: addr}).isLocal() }
