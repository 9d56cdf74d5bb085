package transport_test

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"cellserver/internal/testing/memnet"
	"cellserver/resp/transport"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience bounds what should take no time at all, however busy the machine is.
const patience = time.Minute

// echo answers every line with itself, as a session of another protocol would. "block" asks for a goroutine of its own,
// "wait" waits for the test, and "close" ends the conversation.
type echo struct {
	h       *host
	in, out []byte
	room    [64]byte
}

// host is what a server of echoes needs, and what it has seen.
type host struct {
	came, open           chan struct{}
	onLoop, own, blocked atomic.Int64 // calls of Run, and how often one asked for a goroutine
	opened, ended        atomic.Int64
	mu                   sync.Mutex
	conns                []*transport.Conn
	commits              atomic.Int64
}

func (e *echo) Space() []byte        { return e.room[:] }
func (e *echo) Arrived(n int)        { e.in = append(e.in, e.room[:n]...) }
func (e *echo) Sent()                { e.out = e.out[:0] }
func (e *echo) Held() (bool, error)  { return false, nil }
func (e *echo) IgnoresTimeout() bool { return false }
func (e *echo) Idle()                {}
func (e *echo) End()                 { e.h.ended.Add(1) }
func (e *echo) Output() (output transport.Output) {
	return transport.Output{Bytes: e.out, Limit: &transport.OutputLimit{}, Uncommitted: bytes.Contains(e.out, []byte("commit"))}
}

func (e *echo) Run(_ int64, nonBlocking bool) transport.Next {
	if nonBlocking {
		e.h.onLoop.Add(1)
	} else {
		e.h.own.Add(1)
	}
	for {
		line, rest, whole := bytes.Cut(e.in, []byte("\n"))
		if !whole {
			return transport.Read
		}
		switch string(line) {
		case "block":
			if nonBlocking {
				e.h.blocked.Add(1)
				return transport.Block
			}
		case "wait":
			e.h.came <- struct{}{}
			<-e.h.open
		case "close":
			return transport.Close
		}
		e.out = append(append(e.out, line...), '\n')
		e.in = append(e.in[:0], rest...)
		if len(e.out) > 1000 {
			return transport.Again
		}
	}
}

// serve serves echoes until the test ends, when every session must have come to its end.
func serve(t *testing.T, l net.Listener, mayWait bool) (*host, *transport.Server) {
	t.Helper()
	h := &host{came: make(chan struct{}), open: make(chan struct{})}
	s := transport.NewServer(transport.Config{
		Log: slog.New(slog.DiscardHandler), Now: func() int64 { return time.Now().UnixNano() },
		Open: func(c *transport.Conn) transport.Session {
			h.opened.Add(1)
			h.mu.Lock()
			defer h.mu.Unlock()
			h.conns = append(h.conns, c)
			return &echo{h: h}
		},
		Refusal: func(net.Addr) string { return "" }, Full: "full\n",
		Commit: func() error { h.commits.Add(1); return nil }, MayWait: mayWait,
	}, transport.Limits{Conns: 1000})
	served := make(chan error, 1)
	go func() { served <- s.Serve(l, nil) }()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		assert.NoError(t, s.Shutdown(ctx))
		assert.NoError(t, <-served)
		assert.Equal(t, h.opened.Load(), h.ended.Load(), "every session ends once")
	})
	return h, s
}

func listen(t *testing.T) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	return l
}

type peer struct {
	net.Conn
	t *testing.T
	r *bufio.Reader
}

func dial(t *testing.T, l net.Listener) *peer {
	t.Helper()
	var nc net.Conn
	var err error
	if memory, ok := l.(*memnet.Listener); ok {
		nc, err = memory.Dial()
	} else {
		nc, err = net.Dial("tcp", l.Addr().String())
	}
	require.NoError(t, err)
	t.Cleanup(func() { nc.Close() })
	require.NoError(t, nc.SetDeadline(time.Now().Add(patience)))
	return &peer{nc, t, bufio.NewReader(nc)}
}

func (p *peer) send(text string) {
	p.t.Helper()
	_, err := io.WriteString(p, text)
	require.NoError(p.t, err)
}

func (p *peer) expect(want string) {
	p.t.Helper()
	got := make([]byte, len(want))
	_, err := io.ReadFull(p.r, got)
	require.NoError(p.t, err)
	require.Equal(p.t, want, string(got))
}

func (p *peer) ask(line string) {
	p.t.Helper()
	p.send(line + "\n")
	p.expect(line + "\n")
}

// loops is how many event loops a server has, where it has any.
func loops() int { return min(runtime.GOMAXPROCS(0), runtime.NumCPU()) }

func TestSessionsThatMayWaitKeepTheirGoroutines(t *testing.T) {
	l := listen(t)
	h, _ := serve(t, l, true)
	var waiting []*peer
	for range 2*loops() + 1 { // more than there would be loops
		p := dial(t, l)
		p.ask("hello")
		p.send("wait\n")
		<-h.came
		waiting = append(waiting, p)
	}
	for range 3 {
		dial(t, l).ask("hello")
	}
	close(h.open)
	for _, p := range waiting {
		p.expect("wait\n")
		p.ask("block")
	}
	assert.Zero(t, h.onLoop.Load(), "nothing has run on a loop")
}

func TestSessionsThatNeverWaitAreServedByLoops(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("there are loops on Linux only")
	}
	l := listen(t)
	h, _ := serve(t, l, false)
	p := dial(t, l)
	until := func(line string, served func() bool) { // what arrives before the connection is lent is not the loop's
		for deadline := time.Now().Add(patience); !served(); {
			require.True(t, time.Now().Before(deadline))
			p.ask(line)
		}
	}
	until("hello", func() bool { return h.onLoop.Load() >= 10 })
	own := h.own.Load()
	until("block", func() bool { return h.blocked.Load() >= 10 })
	assert.GreaterOrEqual(t, h.own.Load(), own+10, "what blocks runs in the connection's own goroutine")
	p.ask("hello")
}

// TestAnybodyMayWakeAConnection has connections reclaimed at any moment, in which they are lent, or run, or end.
func TestAnybodyMayWakeAConnection(t *testing.T) {
	for _, network := range []struct {
		name   string
		listen func() net.Listener
	}{
		{"TCP", func() net.Listener { return listen(t) }},
		{"memory", func() net.Listener { return memnet.Listen() }},
	} {
		t.Run(network.name, func(t *testing.T) {
			l := network.listen()
			h, s := serve(t, l, false)
			done := make(chan struct{})
			var wakers, clients sync.WaitGroup
			for range 2 {
				wakers.Go(func() {
					for n := 0; ; n++ {
						select {
						case <-done:
							return
						default:
						}
						h.mu.Lock()
						conns := h.conns
						h.mu.Unlock()
						for _, c := range conns {
							c.Wake()
						}
						s.SetLimits(transport.Limits{Conns: 1000, Timeout: time.Duration(n%2) * time.Hour})
						runtime.Gosched()

					}
				})
			}
			for i := range 6 {
				clients.Go(func() {
					p := dial(t, l)
					for n := range 150 {
						switch n % 4 {
						case 0:
							p.ask("block")
						case 1:
							p.send("a\nblock\ncommit\n")
							p.expect("a\nblock\ncommit\n")
						default:
							p.ask(fmt.Sprint("line ", i, n))
						}
					}
					p.send("close\n")
					_, err := io.ReadAll(p.r)
					assert.NoError(t, err)
				})
			}
			clients.Wait()
			close(done)
			wakers.Wait()
			assert.Positive(t, h.commits.Load())
		})
	}
}

func TestHangUpEndsAConnectionWhoeverServesIt(t *testing.T) {
	l := listen(t)
	h, _ := serve(t, l, false)
	for range 50 {
		p := dial(t, l)
		p.ask("hello")
		h.mu.Lock()
		c := h.conns[len(h.conns)-1]
		h.mu.Unlock()
		ended := h.ended.Load()
		c.HangUp()
		_, err := io.ReadAll(p.r)
		require.NoError(t, err)
		require.Eventually(t, func() bool { return h.ended.Load() == ended+1 }, patience, time.Millisecond)
		c.HangUp() // nor does it matter afterwards
		c.Wake()
		c.Deliver([]byte("nobody reads this"))
	}
}
