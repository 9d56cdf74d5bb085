package resp_test

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"log/slog"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"cellserver/buckets"
	"cellserver/buckets/memory"
	"cellserver/cmd/cellserver/options"
	"cellserver/internal/clock"
	"cellserver/internal/testing/memnet"
	"cellserver/resp"
)

// fuse panics once, at the place for which it is set.
type fuse struct{ place atomic.Pointer[string] }

func (f *fuse) set(place string) { f.place.Store(&place) }

func (f *fuse) reach(place string) {
	if set := f.place.Load(); set != nil && *set == place && f.place.CompareAndSwap(set, nil) {
		panic("the fuse of " + place)
	}
}

// fusedDisk is a disk with a fuse in every method that a batch calls.
type fusedDisk struct {
	ledger
	*fuse
}

func (d *fusedDisk) Loading() bool   { d.reach("Loading"); return false }
func (d *fusedDisk) Refusal() string { d.reach("Refusal"); return "" }
func (d *fusedDisk) Commit() error   { d.reach("Commit"); return d.ledger.Commit() }

// fusedStore has fuses in methods that run outside of handlers, or in the middle of one.
type fusedStore struct {
	*memory.Store
	*fuse
}

func (s fusedStore) Unwatch(w buckets.Watch) { s.reach("Unwatch"); s.Store.Unwatch(w) }

func (s fusedStore) Atomically(ctx context.Context, now int64, keys [][]byte, everything bool, run func(buckets.Store)) error {
	s.reach("Hold")
	defer s.reach("release")
	return s.Store.Atomically(ctx, now, keys, everything, run)
}

// fusedLog has a fuse for records of level info or above, except those about panics.
type fusedLog struct {
	slog.Handler
	*fuse
}

func (l fusedLog) Handle(ctx context.Context, r slog.Record) error {
	l.reach("the log")
	return l.Handler.Handle(ctx, r)
}

// fusedListener accepts connections with fuses.
type fusedListener struct {
	net.Listener
	*fuse
}

func (l fusedListener) Accept() (net.Conn, error) {
	nc, err := l.Listener.Accept()
	return fusedConn{nc, l.fuse}, err
}

type fusedConn struct {
	net.Conn
	*fuse
}

func (c fusedConn) RemoteAddr() net.Addr { c.reach("RemoteAddr"); return c.Conn.RemoteAddr() }

func (c fusedConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	c.reach("Read")
	return n, err
}

func (c fusedConn) Write(b []byte) (int, error) { c.reach("Write"); return c.Conn.Write(b) }

// fused is a server with fuses in everything that its connections use.
func fused(t *testing.T) (*subject, *fuse) {
	t.Helper()
	f, log := new(fuse), new(logged)
	s := &subject{log: log, now: clock.New().Now}
	live := options.NewLive(options.Defaults(), func(options.Settings) error { return nil })
	s.Server = resp.NewServer(resp.Config{
		Store: fusedStore{memory.NewStore(8), f}, Now: s.now, Log: slog.New(fusedLog{slog.NewTextHandler(log, nil), f}),
		Options: live, Bounds: live.Settings().Wire, Disk: &fusedDisk{fuse: f},
	})
	return s, f
}

// wantEnd checks that the connection ends, in any way.
func (p *peer) wantEnd() (rest string) {
	p.t.Helper()
	b, err := io.ReadAll(p.r)
	if err != nil {
		require.NotContains(p.t, err.Error(), "timeout", "it was left open; it said %q", b)
	}
	return string(b)
}

// bystanderLives checks that another connection is served, that no further one is left, and that the log shows the panic.
func bystanderLives(t *testing.T, s *subject, other *peer, place string) {
	t.Helper()
	other.ask("PING", "+PONG\r\n")
	require.Eventually(t, func() bool {
		other.send("CLIENT LIST\r\nECHO end\r\n")
		var list strings.Builder
		for !strings.HasSuffix(list.String(), "$3\r\nend\r\n") {
			line, err := other.r.ReadString('\n')
			require.NoError(t, err)
			list.WriteString(line)
		}
		return strings.Count(list.String(), "id=") == 1
	}, patience, time.Millisecond, "the connection is forgotten")
	log := s.log.String()
	assert.Equal(t, 1, strings.Count(log, "level=ERROR"), log)
	assert.Contains(t, log, `panic="the fuse of `+place+`"`)
	assert.Contains(t, log, "rescue_test.go", "the stack")
}

// A panic while a connection is served ends only that connection, wherever the panic happens.
func TestPanicWhileServingCostsOneConnection(t *testing.T) {
	for _, row := range []struct{ place, before, lines, want string }{
		{"Loading", "", "PING\r\n", "-ERR internal error"},
		{"Refusal", "", "PING\r\nPING\r\n", "-ERR internal error"},
		{"Commit", "", "CL.WINDOW k 5 60\r\n", ""},
		{"Commit", "", "CL.WINDOW k 5 60\r\nKEYS *\r\n", ""}, // in the goroutine of the connection
		{"the log", "", "PING\r\n*1\r\n$-1\r\n", "+PONG\r\n-ERR internal error"},
		{"the log", "", "KEYS *\r\nPOST / HTTP/1.1\r\n", "*0\r\n-ERR internal error"},
		{"Unwatch", "WATCH k", "QUIT\r\n", "+OK\r\n"},
		{"Unwatch", "WATCH k", "*1\r\n$-1\r\n", "-ERR Protocol error"},
	} {
		for _, network := range networks {
			t.Run(fmt.Sprintf("%s at %.10q over %s", row.place, row.lines, network.name), func(t *testing.T) {
				s, f := fused(t)
				dial := network.serve(s, t)
				other, p := connect(t, dial), connect(t, dial)
				other.ask("PING", "+PONG\r\n")
				if row.before != "" {
					p.ask(row.before, "+OK\r\n")
				}
				p.ask("PING", "+PONG\r\n")
				f.set(row.place)
				p.send(row.lines)
				assert.Contains(t, p.wantEnd(), row.want)
				p.Close()
				bystanderLives(t, s, other, row.place)
			})
		}
	}
}

// A panic in EXEC outside of its commands costs one reply, as a panic in a handler does: see TestHostilePanicsLeaveNoKeyLocked.
func TestPanicInExecCostsOneReply(t *testing.T) {
	for _, network := range networks {
		for _, place := range []string{"Hold", "release"} {
			t.Run(place+" over "+network.name, func(t *testing.T) {
				s, f := fused(t)
				dial := network.serve(s, t)
				other, p := connect(t, dial), connect(t, dial)
				p.ask("MULTI", "+OK\r\n")
				p.ask("PING", "+QUEUED\r\n")
				f.set(place)
				p.ask("EXEC", "-ERR internal error: this command was abandoned, see the server's log\r\n")
				p.Close()
				bystanderLives(t, s, other, place)
			})
		}
	}
}

// A panic in a method of the connection ends that connection only, in any of the goroutines that use it.
func TestPanicInAConnectionCostsOneConnection(t *testing.T) {
	for _, place := range []string{"RemoteAddr", "Read", "Write"} {
		for _, encrypted := range []bool{false, true} {
			t.Run(fmt.Sprint(place, ", encrypted: ", encrypted), func(t *testing.T) {
				s, f := fused(t)
				l := memnet.Listen()
				dial := l.Dial
				if encrypted {
					both := newSecrets(t)
					s.serveTLS(t, fusedListener{l, f}, both.server)
					dial = both.dialer(l.Dial)
				} else {
					s.serve(t, fusedListener{l, f})
				}
				other := connect(t, dial)
				other.ask("PING", "+PONG\r\n")
				var p *peer
				if place == "RemoteAddr" { // it is called before the first read
					f.set(place)
					nc, err := l.Dial()
					require.NoError(t, err)
					p = &peer{Conn: nc, t: t, r: other.r}
					_, err = io.ReadAll(nc)
					require.NoError(t, err)
				} else {
					p = connect(t, dial)
					p.ask("PING", "+PONG\r\n")
					f.set(place)
					p.send("PING\r\n")
					p.wantEnd()
				}
				p.Close()
				bystanderLives(t, s, other, place)
			})
		}
	}
}

// A panic in a function of the TLS configuration ends one connection.
func TestPanicInTLSConfigurationCostsOneConnection(t *testing.T) {
	for _, place := range []string{"the configuration", "the handshake"} {
		t.Run(place, func(t *testing.T) {
			s, f := fused(t)
			l, err := net.Listen("tcp", "127.0.0.1:0")
			require.NoError(t, err)
			both := newSecrets(t)
			both.server.GetConfigForClient = func(*tls.ClientHelloInfo) (*tls.Config, error) {
				f.reach("the handshake")
				return nil, nil
			}
			s.serveBy(t, func() error {
				return s.ServeTLS(l, func() *tls.Config { f.reach("the configuration"); return both.server })
			})
			dial := both.dialer(func() (net.Conn, error) { return net.Dial("tcp", l.Addr().String()) })
			other := connect(t, dial)
			other.ask("PING", "+PONG\r\n")
			f.set(place)
			_, err = dial()
			require.Error(t, err)
			bystanderLives(t, s, other, place)
			connect(t, dial).ask("PING", "+PONG\r\n")
		})
	}
}
