package resp_test

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"log/slog"
	"net"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"cellserver/buckets"
	"cellserver/buckets/memory"
	"cellserver/cmd/cellserver/options"
	"cellserver/internal/clock"
	"cellserver/internal/testing/memnet"
	"cellserver/resp"
)

// patience is the time limit of every wait. It is far longer than needed on a busy machine.
const patience = time.Minute

// logged stores the log.
type logged struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *logged) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(b)
}

func (l *logged) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// subject is a server under test, assembled as in the program.
type subject struct {
	*resp.Server
	log *logged
	now func() int64
}

// newSubject returns a server with options in the form of lines of a configuration file. If store is nil, it gets a new one.
func newSubject(t *testing.T, store buckets.Store, lines ...string) *subject {
	t.Helper()
	kept := memory.NewStore(8)
	if store == nil {
		store = kept
	}
	s := &subject{log: new(logged), now: clock.New().Now}
	live := options.NewLive(options.Defaults(), func(next options.Settings) error {
		next.Bound(kept)
		s.SetBounds(next.Wire)
		return nil
	})
	s.Server = resp.NewServer(resp.Config{
		Store: store, Now: s.now, Log: slog.New(slog.NewTextHandler(s.log, nil)), Version: "test", Options: live,
		Bounds: live.Settings().Wire, Memory: 16 << 30,
	})
	for _, line := range lines {
		name, value, _ := strings.Cut(line, " ")
		require.NoError(t, live.Set([][2]string{{name, value}}))
	}
	return s
}

// serve serves l until the test ends. The test fails unless the server then stops at once.
func (s *subject) serve(t *testing.T, l net.Listener) {
	t.Helper()
	s.serveBy(t, func() error { return s.Serve(l) })
}

// serveBy is serve with another function that serves.
func (s *subject) serveBy(t *testing.T, serve func() error) {
	t.Helper()
	served := make(chan error, 1)
	go func() { served <- serve() }()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		assert.NoError(t, s.Shutdown(ctx), "shutting down")
		assert.NoError(t, <-served, "what Serve returns after Shutdown")
	})
}

// inMemory serves a listener on the network in memory.
func (s *subject) inMemory(t *testing.T) *memnet.Listener {
	t.Helper()
	l := memnet.Listen()
	s.serve(t, l)
	return l
}

// peer is a client connection for sending and receiving bytes.
type peer struct {
	net.Conn
	t *testing.T
	r *bufio.Reader
}

// connect dials, sets a deadline of patience, and closes the connection when the test ends.
func connect(t *testing.T, dial func() (net.Conn, error)) *peer {
	t.Helper()
	c, err := dial()
	require.NoError(t, err)
	t.Cleanup(func() { c.Close() })
	require.NoError(t, c.SetDeadline(time.Now().Add(patience)))
	return &peer{Conn: c, t: t, r: bufio.NewReaderSize(c, 64<<10)}
}

func (p *peer) send(text string) {
	p.t.Helper()
	_, err := io.WriteString(p, text)
	require.NoError(p.t, err)
}

// expect reads as many bytes as want has, and compares them.
func (p *peer) expect(want string) {
	p.t.Helper()
	got := make([]byte, len(want))
	n, err := io.ReadFull(p.r, got)
	require.NoError(p.t, err, "after %d bytes of %d: %.100q", n, len(want), got[:n])
	for i := range got {
		if got[i] != want[i] {
			const near = 50
			from := max(0, i-near)
			require.Equal(p.t, want[from:min(len(want), i+near)], string(got[from:min(len(got), i+near)]), "from byte %d on", from)
		}
	}
}

// expectEOF checks that the connection ends here with EOF, not with a reset.
func (p *peer) expectEOF() {
	p.t.Helper()
	rest, err := io.ReadAll(p.r)
	require.NoError(p.t, err)
	require.Empty(p.t, string(rest))
}

// ask sends an inline command and checks the reply.
func (p *peer) ask(line, want string) {
	p.t.Helper()
	p.send(line + "\r\n")
	p.expect(want)
}

// newClient returns a go-redis client with default options. Its address is never dialled, but must be an IP literal: go-redis
// would look up a name outside of the synctest bubble.
func newClient(t *testing.T, l *memnet.Listener, change func(*redis.Options)) *redis.Client {
	t.Helper()
	opts := &redis.Options{
		Addr:   "127.0.0.1:6379",
		Dialer: func(context.Context, string, string) (net.Conn, error) { return l.Dial() },
	}
	if change != nil {
		change(opts)
	}
	c := redis.NewClient(opts)
	t.Cleanup(func() { assert.NoError(t, c.Close()) })
	return c
}

// integers sends a limit command and returns its reply.
func integers(t *testing.T, c *redis.Client, args ...any) []int64 {
	t.Helper()
	got, err := c.Do(t.Context(), args...).Int64Slice()
	require.NoError(t, err)
	return got
}

// bubble runs a subtest with a fake clock, which advances only while all its goroutines wait.
func bubble(t *testing.T, name string, test func(t *testing.T)) {
	t.Run(name, func(t *testing.T) { synctest.Test(t, test) })
}
