package main

import (
	"bufio"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"cellserver/internal/testing/testserver"
)

// patience bounds what takes a moment, however busy the machine is.
const patience = time.Minute

func TestMain(m *testing.M) {
	redis.SetLogger(silence{}) // it says that it cannot connect, which it must not
	goleak.VerifyTestMain(m)
}

type silence struct{}

func (silence) Printf(context.Context, string, ...any) {}

// client makes a client of what dial leads to, as the program has it.
func client(t *testing.T, dial func() (net.Conn, error)) *redis.Client {
	t.Helper()
	o := clientOptions("127.0.0.1:6379")
	o.Dialer = func(context.Context, string, string) (net.Conn, error) { return dial() }
	c := redis.NewClient(o)
	t.Cleanup(func() { assert.NoError(t, c.Close()) })
	return c
}

// five is a limit of five requests at once and ten a minute.
func five() Limit {
	return Limit{
		Burst: 4, Count: 10, Period: time.Minute, Key: ByAddress,
		Patience: patience, Log: slog.New(slog.DiscardHandler),
	}
}

var hello = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "hello") })

// get asks a handler and returns its status and the headers that a limit sets.
func get(h http.Handler, from string) (status int, headers map[string]string) {
	r := httptest.NewRequest(http.MethodGet, "/", nil)
	r.RemoteAddr = from
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	headers = map[string]string{}
	for _, name := range []string{"X-RateLimit-Limit", "X-RateLimit-Remaining", "X-RateLimit-Reset", "Retry-After"} {
		if v := w.Header().Get(name); v != "" {
			headers[name] = v
		}
	}
	return w.Code, headers
}

func TestHeaders(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := Middleware(client(t, testserver.Start(t)), five(), hello)
		const alice, bob = "192.0.2.1:1000", "192.0.2.2:1000"
		want := func(from string, status int, limit, remaining, reset, retry string) {
			t.Helper()
			all := map[string]string{"X-RateLimit-Limit": limit, "X-RateLimit-Remaining": remaining, "X-RateLimit-Reset": reset}
			if retry != "" {
				all["Retry-After"] = retry
			}
			code, headers := get(h, from)
			assert.Equal(t, status, code)
			assert.Equal(t, all, headers)
		}
		want(alice, 200, "5", "4", "6", "")
		want(alice, 200, "5", "3", "12", "")
		want(alice, 200, "5", "2", "18", "")
		want(alice, 200, "5", "1", "24", "")
		want(alice, 200, "5", "0", "30", "")
		want(alice, 429, "5", "0", "30", "6")
		want(bob, 200, "5", "4", "6", "")
		time.Sleep(6*time.Second - 1)
		want(alice, 429, "5", "0", "25", "1")
		time.Sleep(time.Nanosecond) // now it has waited for Retry-After
		want(alice, 200, "5", "0", "30", "")
		want(alice, 429, "5", "0", "30", "6")
		time.Sleep(30 * time.Second)
		want(alice, 200, "5", "4", "6", "")
	})
}

func TestManyClientsAtOnce(t *testing.T) {
	limit := five()
	limit.Period = time.Hour
	site := httptest.NewServer(Middleware(client(t, testserver.Start(t)), limit, hello))
	defer site.Close()
	var admitted, refused atomic.Int64
	var wait sync.WaitGroup
	for range 60 {
		wait.Go(func() {
			r, err := site.Client().Get(site.URL)
			if !assert.NoError(t, err) {
				return
			}
			defer r.Body.Close()
			switch r.StatusCode {
			case http.StatusOK:
				admitted.Add(1)
			case http.StatusTooManyRequests:
				refused.Add(1)
			}
		})
	}
	wait.Wait()
	assert.EqualValues(t, 5, admitted.Load())
	assert.EqualValues(t, 55, refused.Load())
}

func TestWithoutCellserver(t *testing.T) {
	for _, row := range []struct {
		name   string
		closed bool
		status int
		want   map[string]string
	}{
		{"fails open", false, 200, map[string]string{}},
		{"fails closed", true, 503, map[string]string{"Retry-After": "1"}},
	} {
		t.Run(row.name, func(t *testing.T) {
			dial := testserver.Start(t)
			var down atomic.Bool
			down.Store(true)
			c := client(t, func() (net.Conn, error) {
				if down.Load() {
					return nil, errors.New("nobody is there")
				}
				return dial()
			})
			limit := five()
			limit.FailClosed, limit.Patience = row.closed, 50*time.Millisecond
			h := Middleware(c, limit, hello)
			for range 3 {
				status, headers := get(h, "192.0.2.1:1000")
				assert.Equal(t, row.status, status)
				assert.Equal(t, row.want, headers)
			}
			down.Store(false)
			limit.Patience = patience
			status, headers := get(Middleware(c, limit, hello), "192.0.2.1:1000")
			assert.Equal(t, 200, status)
			assert.Equal(t, "4", headers["X-RateLimit-Remaining"], "it is asked again when it is back")
		})
	}
	t.Run("that is slow", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			c := client(t, func() (net.Conn, error) {
				here, there := net.Pipe()
				t.Cleanup(func() { there.Close() }) // where nobody reads
				return here, nil
			})
			limit := five()
			limit.Patience = 250 * time.Millisecond
			began := time.Now()
			status, _ := get(Middleware(c, limit, hello), "192.0.2.1:1000")
			assert.Equal(t, 200, status)
			assert.Equal(t, limit.Patience, time.Since(began))
		})
	})
}

func TestKeys(t *testing.T) {
	secret := strings.Repeat("k", 100000)
	byKey := ByAPIKey(func(key string) bool { return key == secret })
	for _, row := range []struct {
		name      string
		key       func(*http.Request) string
		from, api string
		want      string
	}{
		{"an address", ByAddress, "192.0.2.1:1000", "", "address:192.0.2.1"},
		{"another port", ByAddress, "192.0.2.1:2000", "", "address:192.0.2.1"},
		{"one that has been mapped", ByAddress, "[::ffff:192.0.2.1]:1000", "", "address:192.0.2.1"},
		{"a network", ByAddress, "[2001:db8::1]:1000", "", "address:2001:db8::/64"},
		{"the same network", ByAddress, "[2001:db8::2]:1000", "", "address:2001:db8::/64"},
		{"another network", ByAddress, "[2001:db8:0:1::1]:1000", "", "address:2001:db8:0:1::/64"},
		{"a link", ByAddress, "[fe80::1%eth0]:1000", "", "address:fe80::/64"},
		{"a socket", ByAddress, "@", "", "address:@"},
		{"no API key", byKey, "192.0.2.1:1000", "", "address:192.0.2.1"},
		{"an unknown one", byKey, "192.0.2.1:1000", "invented", "address:192.0.2.1"},
		{"a known one, however long", byKey, "192.0.2.1:1000", secret, "api:4ef7c286aaa51dc8b8078d2282f100a2"},
	} {
		t.Run(row.name, func(t *testing.T) {
			r := httptest.NewRequest(http.MethodGet, "/", nil)
			r.RemoteAddr = row.from
			r.Header.Set("X-API-Key", row.api)
			assert.Equal(t, row.want, row.key(r))
		})
	}
}

func TestProgram(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	out, in := io.Pipe()
	args := []string{"-cellserver", testserver.Listen(t), "-listen", "127.0.0.1:0", "-patience", "1m"}
	ended := make(chan error, 1)
	go func() {
		ended <- run(ctx, args, in, io.Discard)
		in.Close()
	}()
	line, err := bufio.NewReader(out).ReadString('\n')
	require.NoError(t, err)
	url := strings.TrimSpace(strings.TrimPrefix(line, "try: curl -i "))
	var web http.Client
	defer web.CloseIdleConnections()
	for n := range 6 {
		r, err := web.Get(url)
		require.NoError(t, err)
		r.Body.Close()
		assert.Equal(t, []int{200, 200, 200, 200, 200, 429}[n], r.StatusCode)
	}
	cancel()
	assert.NoError(t, <-ended)

	assert.NoError(t, run(ctx, []string{"-h"}, io.Discard, io.Discard))
	assert.Error(t, run(ctx, []string{"-listen", "nowhere"}, io.Discard, io.Discard))
}
