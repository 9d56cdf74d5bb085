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

// patience bounds what should take no time at all, however busy the machine is.
const patience = time.Minute

// logged keeps what was logged.
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

// subject is a server under test, put together as the program does it.
type subject struct {
	*resp.Server
	log *logged
	now func() int64
}

// newSubject makes a server with options given as a configuration file has them, on a store of its own unless one is
// given.
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

// serve serves l until the test ends, and then wants the server to stop at once: nothing may be left to wait for.
func (s *subject) serve(t *testing.T, l net.Listener) {
	t.Helper()
	s.serveBy(t, func() error { return s.Serve(l) })
}

// serveBy is serve for any way of serving.
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

// inMemory serves a listener in memory.
func (s *subject) inMemory(t *testing.T) *memnet.Listener {
	t.Helper()
	l := memnet.Listen()
	s.serve(t, l)
	return l
}

// peer is a client that writes and reads bytes.
type peer struct {
	net.Conn
	t *testing.T
	r *bufio.Reader
}

// connect dials, and closes when the test ends. Everything must be done within patience.
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

// expect reads exactly what is wanted.
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

// expectEOF wants the connection to end here, in order: a reset would be another error.
func (p *peer) expectEOF() {
	p.t.Helper()
	rest, err := io.ReadAll(p.r)
	require.NoError(p.t, err)
	require.Empty(p.t, string(rest))
}

// ask sends a command as a line and wants its reply.
func (p *peer) ask(line, want string) {
	p.t.Helper()
	p.send(line + "\r\n")
	p.expect(want)
}

// newClient is a go-redis client with its defaults. Its address is never dialled, but it must not be a name: go-redis
// looks that up, outside of a synctest bubble.
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

// integers asks a limit command.
func integers(t *testing.T, c *redis.Client, args ...any) []int64 {
	t.Helper()
	got, err := c.Do(t.Context(), args...).Int64Slice()
	require.NoError(t, err)
	return got
}

// bubble runs a test under a fake clock: nothing in it takes time but sleeping, which takes none outside.
func bubble(t *testing.T, name string, test func(t *testing.T)) {
	t.Run(name, func(t *testing.T) { synctest.Test(t, test) })
}
