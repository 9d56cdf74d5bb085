// Package testserver runs a whole server inside a test, put together as the program does it, for tests that want its
// answers and not its process. It works under the fake clock of testing/synctest.
package testserver

import (
	"context"
	"log/slog"
	"net"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"cellserver/buckets/memory"
	"cellserver/cmd/cellserver/options"
	"cellserver/internal/clock"
	"cellserver/internal/testing/memnet"
	"cellserver/resp"
)

// Start serves a network in memory until the test ends, and returns how to dial it.
func Start(t testing.TB) (dial func() (net.Conn, error)) {
	t.Helper()
	l := memnet.Listen()
	serve(t, l)
	return l.Dial
}

// Listen serves a port of its own on the loopback interface until the test ends, and returns its address.
func Listen(t testing.TB) (addr string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	serve(t, l)
	return l.Addr().String()
}

func serve(t testing.TB, l net.Listener) {
	t.Helper()
	store := memory.NewStore(memory.DefaultShards)
	live := options.NewLive(options.Defaults(), func(options.Settings) error { return nil })
	server := resp.NewServer(resp.Config{
		Store: store, Now: clock.New().Now, Log: slog.New(slog.DiscardHandler), Version: "test",
		Options: live, Bounds: live.Settings().Wire,
	})
	served := make(chan error, 1)
	go func() { served <- server.Serve(l) }()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := server.Shutdown(ctx); err != nil {
			t.Errorf("shutting the server down: %v", err)
		}
		if err := <-served; err != nil {
			t.Errorf("serving: %v", err)
		}
	})
}

// Client returns a go-redis client of what dial leads to. It is closed when the test ends.
func Client(t testing.TB, dial func() (net.Conn, error)) *redis.Client {
	t.Helper()
	c := redis.NewClient(&redis.Options{
		Addr:   "127.0.0.1:6379", // nobody's: a name would be looked up, and that is outside of a bubble
		Dialer: func(context.Context, string, string) (net.Conn, error) { return dial() },
		// A request whose answer was lost may have been counted: nothing is asked twice.
		MaxRetries:    -1,
		DialerRetries: 1,
	})
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Errorf("closing the client: %v", err)
		}
	})
	return c
}
