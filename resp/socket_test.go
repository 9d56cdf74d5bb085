package resp_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"cellserver/buckets"
	"cellserver/buckets/memory"
	"cellserver/internal/testing/load"
	"cellserver/internal/testing/memnet"
)

// onSocket serves a loopback TCP port and returns a function that dials it.
func (s *subject) onSocket(t *testing.T) func() (net.Conn, error) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	s.serve(t, l)
	return func() (net.Conn, error) { return net.Dial("tcp", l.Addr().String()) }
}

// onUnixSocket serves a socket in a temporary directory.
func (s *subject) onUnixSocket(t *testing.T) func() (net.Conn, error) {
	t.Helper()
	l, err := net.Listen("unix", t.TempDir()+"/s")
	require.NoError(t, err)
	s.serve(t, l)
	return func() (net.Conn, error) { return net.Dial("unix", l.Addr().String()) }
}

func (s *subject) overMemory(t *testing.T) func() (net.Conn, error) { return s.inMemory(t).Dial }

// networks are the kinds of connections.
var networks = []struct {
	name  string
	serve func(*subject, *testing.T) func() (net.Conn, error)
}{
	{"TCP", (*subject).onSocket},
	{"a Unix socket", (*subject).onUnixSocket},
	{"TLS", (*subject).onTLS},
	{"memory", (*subject).overMemory},
	{"TLS over memory", (*subject).overSecretMemory},
}

// closeWrite closes the sending side.
func (p *peer) closeWrite() {
	p.t.Helper()
	require.NoError(p.t, p.Conn.(interface{ CloseWrite() error }).CloseWrite())
}

// block is a thousand commands and their replies, which never change because the quantity of 0 takes nothing.
func block() (commands, replies string) {
	var c, r strings.Builder
	for i := range 500 {
		fmt.Fprintf(&c, "PING %d\r\n*6\r\n$11\r\nCL.THROTTLE\r\n$4\r\nk%03d\r\n$2\r\n15\r\n$2\r\n30\r\n$2\r\n60\r\n$1\r\n0\r\n", i, i)
		fmt.Fprintf(&r, "$%d\r\n%d\r\n*5\r\n:0\r\n:16\r\n:16\r\n:-1\r\n:0\r\n", len(fmt.Sprint(i)), i)
	}
	return c.String(), r.String()
}

func TestEverythingIsSentBeforeAnythingIsRead(t *testing.T) {
	blocks := map[string]int{"TCP": 1000, "a Unix socket": 100, "TLS": 300, "memory": 100, "TLS over memory": 100}
	commands, replies := block()
	for _, network := range networks {
		t.Run(network.name, func(t *testing.T) {
			p := connect(t, network.serve(newSubject(t, nil), t))
			require.NoError(t, p.SetDeadline(time.Now().Add(5*patience)))
			for range blocks[network.name] {
				p.send(commands)
			}
			p.send("QUIT\r\n")
			for range blocks[network.name] {
				p.expect(replies)
			}
			p.expect("+OK\r\n")
			p.expectEOF()
		})
	}
}

func TestHalfClosedClientGetsItsReplies(t *testing.T) {
	commands, replies := block()
	for _, network := range networks {
		if network.name == "memory" {
			continue // connections without half-close
		}
		t.Run(network.name, func(t *testing.T) {
			p := connect(t, network.serve(newSubject(t, nil), t))
			for range 100 {
				p.send(commands)
			}
			p.send("PING") // an incomplete command, which gets no reply
			p.closeWrite()
			for range 100 {
				p.expect(replies)
			}
			p.expectEOF()
		})
	}
}

func TestCommandsInPiecesAreAnsweredOnce(t *testing.T) {
	const commands = "*2\r\n$4\r\nECHO\r\n$5\r\nhello\r\nPING\r\n*5\r\n$9\r\nCL.ZSLIDE\r\n$1\r\nk\r\n$1\r\n3\r\n$2\r\n60\r\n$1\r\n0\r\n"
	const replies = "$5\r\nhello\r\n+PONG\r\n*5\r\n:0\r\n:3\r\n:3\r\n:-1\r\n:0\r\n"
	for _, network := range networks {
		t.Run(network.name, func(t *testing.T) {
			p := connect(t, network.serve(newSubject(t, nil), t))
			for size := range 7 {
				rest := commands
				for len(rest) > 0 {
					n := min(size+1, len(rest))
					p.send(rest[:n])
					rest = rest[n:]
				}
				p.expect(replies)
			}
		})
	}
}

func TestUnreadRepliesAreBounded(t *testing.T) {
	for _, network := range networks {
		t.Run(network.name, func(t *testing.T) {
			s := newSubject(t, nil, "client-output-buffer-limit normal 1mb 0 0")
			dial := network.serve(s, t)
			other := connect(t, dial)
			other.ask("PING", "+PONG\r\n")

			deaf := connect(t, dial)
			echo := strings.Repeat("ECHO "+strings.Repeat("x", 1000)+"\r\n", 100)
			var err error
			for sent := 0; err == nil; sent += len(echo) {
				require.Less(t, sent, 256<<20, "the server kept all of it")
				_, err = io.WriteString(deaf, echo)
				other.ask("PING", "+PONG\r\n")
			}
			assert.True(t, errors.Is(err, syscall.EPIPE) || errors.Is(err, syscall.ECONNRESET) ||
				errors.Is(err, io.ErrClosedPipe), "%v", err)

			other.ask("PING", "+PONG\r\n")
			assert.Equal(t, 1, strings.Count(s.log.String(), "closing a connection that does not read its replies"))
			other.send("INFO stats\r\n")
			for {
				line, err := other.r.ReadString('\n')
				require.NoError(t, err)
				if strings.HasPrefix(line, "client_output_buffer_limit_disconnections:") {
					assert.Equal(t, "client_output_buffer_limit_disconnections:1\r\n", line)
					return
				}
			}
		})
	}
}

func TestSocketsBeyondMaxClientsAreRefused(t *testing.T) {
	s := newSubject(t, nil, "maxclients 3")
	dial := s.onSocket(t)
	for range 3 { // each time all places are taken and freed
		var peers []*peer
		for range 3 {
			p := admitted(t, dial)
			peers = append(peers, p)
		}
		for range 5 {
			p := connect(t, dial)
			p.expect("-ERR max number of clients reached\r\n")
			p.expectEOF()
		}
		for _, p := range peers {
			p.ask("PING", "+PONG\r\n")
			p.Close()
		}
	}
}

// admitted connects, and retries until a place is free.
func admitted(t *testing.T, dial func() (net.Conn, error)) (p *peer) {
	t.Helper()
	require.Eventually(t, func() bool {
		c, err := dial()
		if err != nil {
			return false
		}
		p = &peer{Conn: c, t: t, r: bufio.NewReader(c)}
		c.SetDeadline(time.Now().Add(patience))
		if _, err := io.WriteString(c, "PING\r\n"); err == nil {
			if line, err := p.r.ReadString('\n'); err == nil && line == "+PONG\r\n" {
				return true
			}
		}
		c.Close()
		return false
	}, patience, time.Millisecond)
	t.Cleanup(func() { p.Close() })
	return p
}

// counting is a store that counts its decisions.
type counting struct {
	*memory.Store
	taken atomic.Int64
}

func (c *counting) Decide(now int64, key []byte, l *buckets.Limit, quantity int64, peek bool, d *buckets.Decision) error {
	c.taken.Add(1)
	return c.Store.Decide(now, key, l, quantity, peek, d)
}

// Each client gets a whole, correct reply for each command that the server decided, and then an end in order.
func TestShutdownUnderLoadAnswersEveryDecidedCommand(t *testing.T) {
	for _, network := range networks[:3] {
		t.Run(network.name, func(t *testing.T) {
			store := &counting{Store: memory.NewStore(8)}
			s := newSubject(t, store)
			dial := network.serve(s, t)

			var clients load.Clients
			for n := range 6 {
				p := connect(t, dial)
				p.ask("PING", "+PONG\r\n") // answered, so accepted
				clients.Send(t, p, p.r, 1+n*50)
			}
			clients.AwaitBusy(t, patience)
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			assert.NoError(t, s.Shutdown(ctx))
			assert.Equal(t, store.taken.Load(), clients.Wait(), "replies received for commands decided")
		})
	}
}

// loud returns a command with a long reply, and the reply.
func loud() (command, reply string) {
	word := strings.Repeat("x", 100000)
	reply = "$100000\r\n" + word + "\r\n"
	return "*2\r\n$4\r\nECHO\r\n" + reply, reply
}

// If a socket is closed while bytes arrive, the kernel sends a reset, which can destroy replies in transit. The last replies of
// a server must arrive even at a client that reads only after it has sent everything, here more than the buffers of the kernel
// hold.
func TestLastRepliesArriveBeforeTheConnectionEnds(t *testing.T) {
	const n = 200
	junk := bytes.Repeat([]byte("junk "), 6<<20)
	command, reply := loud()
	for _, row := range []struct{ name, end, last string }{
		{"a protocol error", "*1\r\n$-1\r\n", "-ERR Protocol error: invalid bulk length\r\n"},
		{"QUIT", "QUIT\r\n", "+OK\r\n"},
	} {
		for _, network := range networks[:3] {
			for _, replies := range []int{0, n} {
				t.Run(fmt.Sprintf("%s after %d replies over %s", row.name, replies, network.name), func(t *testing.T) {
					p := connect(t, network.serve(newSubject(t, nil), t))
					for range replies {
						p.send(command)
					}
					p.send(row.end)
					_, err := p.Write(junk)
					require.NoError(t, err, "what follows is taken off the wire")
					for range replies {
						p.expect(reply)
					}
					p.expect(row.last)
					p.expectEOF()
				})
			}
		}
	}
}

// A client that keeps sending after the end does not lose the replies that it has not read yet.
func TestLastRepliesArriveWhileTheClientFloods(t *testing.T) {
	const n, flood = 10, 66 << 20
	junk := bytes.Repeat([]byte("junk "), 1<<14)
	command, reply := loud()
	for _, network := range networks[:3] {
		t.Run(network.name, func(t *testing.T) {
			p := connect(t, network.serve(newSubject(t, nil), t))
			// A reset destroys the replies that are not yet in the client's receive buffer, so keep that small.
			socket := p.Conn
			if secret, ok := socket.(*tls.Conn); ok {
				socket = secret.NetConn()
			}
			require.NoError(t, socket.(interface{ SetReadBuffer(int) error }).SetReadBuffer(64<<10))
			p.send(strings.Repeat(command, n) + "QUIT\r\n")
			var sent atomic.Int64
			ended := make(chan struct{})
			go func() {
				defer close(ended)
				for {
					n, err := p.Write(junk)
					sent.Add(int64(n))
					if err != nil {
						return
					}
				}
			}()
			require.Eventually(t, func() bool {
				select {
				case <-ended:
					return true
				default:
					return sent.Load() > flood
				}
			}, patience, time.Millisecond)
			p.expect(strings.Repeat(reply, n) + "+OK\r\n")
			p.expectEOF()
			p.Close()
			<-ended
		})
	}
}

func TestShutdownWhileAClientSendsLosesNoReply(t *testing.T) {
	const n = 400
	command, reply := loud()
	for _, network := range networks[:3] {
		t.Run(network.name, func(t *testing.T) {
			s := newSubject(t, nil)
			p := connect(t, network.serve(s, t))
			sent := make(chan error, 1)
			go func() {
				var err error
				for i := 0; i < n && err == nil; i++ {
					if _, err = io.WriteString(p, command); i == n/4 {
						sent <- nil
					}
				}
				sent <- err
			}()
			require.NoError(t, <-sent)
			ended := make(chan error, 1)
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			go func() { ended <- s.Shutdown(ctx) }()

			require.NoError(t, <-sent, "all is taken off the wire, though not all is answered")
			replies := 0
			for got := make([]byte, len(reply)); ; replies++ {
				n, err := io.ReadFull(p.r, got)
				if n == 0 && err == io.EOF {
					break
				}
				require.NoError(t, err, "after %d bytes of reply %d", n, replies)
				require.Equal(t, reply, string(got))
			}
			assert.Greater(t, replies, 1)
			p.Close()
			assert.NoError(t, <-ended)
		})
	}
}

func TestShutdownEndsIdleSockets(t *testing.T) {
	s := newSubject(t, nil)
	dial := s.onSocket(t)
	var peers []*peer
	for range 100 {
		p := connect(t, dial)
		p.ask("PING", "+PONG\r\n")
		peers = append(peers, p)
	}
	// The clients keep the connections open without reading, as in a connection pool.
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	start := time.Now()
	require.NoError(t, s.Shutdown(ctx))
	assert.Less(t, time.Since(start), 8*time.Second, "2 s of lingering, and much for a busy machine")
	for _, p := range peers {
		p.expectEOF()
	}
	_, err := dial()
	assert.ErrorIs(t, err, syscall.ECONNREFUSED)
}

// countedListener accepts connections that count the bytes read from them, and that have a half-close, which connections in
// memory lack.
type countedListener struct {
	net.Listener
	read *atomic.Int64
}

func (l countedListener) Accept() (net.Conn, error) {
	nc, err := l.Listener.Accept()
	return countedConn{nc, l.read}, err
}

type countedConn struct {
	net.Conn
	read *atomic.Int64
}

func (c countedConn) CloseWrite() error { return nil }

func (c countedConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	c.read.Add(int64(n))
	return n, err
}

// After the end of a session the server reads a bounded amount from the client, however fast the client sends: the fake clock
// does not advance meanwhile.
func TestLingeringReadsABoundedAmount(t *testing.T) {
	const most = 80 << 20
	bubble(t, "over memory", func(t *testing.T) {
		l, read := memnet.Listen(), new(atomic.Int64)
		newSubject(t, nil).serve(t, countedListener{l, read})
		p := connect(t, l.Dial)
		p.ask("QUIT", "+OK\r\n")
		began, junk := time.Now(), bytes.Repeat([]byte("junk "), 1<<18)
		var err error
		for sent := 0; sent < 2*most && err == nil; sent += len(junk) {
			_, err = p.Write(junk)
		}
		assert.ErrorIs(t, err, io.ErrClosedPipe, "it ends")
		assert.Equal(t, time.Second, time.Since(began), "in time")
		assert.Greater(t, read.Load(), int64(most/2))
		assert.Less(t, read.Load(), int64(most+1<<20))
	})
}
