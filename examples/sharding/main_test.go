package main

import (
	"context"
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"cellserver/internal/testing/testserver"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// server is a cellserver that can be cut off.
type server struct {
	dial func() (net.Conn, error)

	mu    sync.Mutex
	down  bool
	conns []net.Conn
}

func (s *server) connect() (net.Conn, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.down {
		return nil, &net.OpError{Op: "dial", Err: net.ErrClosed}
	}
	c, err := s.dial()
	if err == nil {
		s.conns = append(s.conns, c)
	}
	return c, err
}

func (s *server) cut(down bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.down = down
	for _, c := range s.conns {
		_ = c.Close()
	}
	s.conns = nil
}

// start starts servers of these names, and returns a function that makes a program's ring of them.
func start(t *testing.T, names ...string) (map[string]*server, func() *redis.Ring) {
	servers, addrs := make(map[string]*server), make(map[string]string)
	byAddr := make(map[string]*server)
	for i, name := range names {
		addrs[name] = fmt.Sprintf("127.0.0.1:%d", i+1)
		servers[name] = &server{dial: testserver.Start(t)}
		byAddr[addrs[name]] = servers[name]
	}
	return servers, func() *redis.Ring {
		o := options(addrs)
		o.Dialer = func(_ context.Context, _, addr string) (net.Conn, error) {
			return byAddr[addr].connect()
		}
		o.PoolSize, o.DialerRetries = 1, 1
		ring := redis.NewRing(o)
		t.Cleanup(func() { assert.NoError(t, ring.Close()) })
		return ring
	}
}

func TestLimitsAreSharedBySeveralPrograms(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		servers, ring := start(t, "a", "b", "c")
		programs := []*redis.Ring{ring(), ring()}
		for i := range 100 {
			user := fmt.Sprint("user", i)
			for n := range 7 {
				allowed, left, err := Allow(t.Context(), programs[n%2], user)
				require.NoError(t, err)
				assert.Equal(t, n < 5, allowed)
				assert.EqualValues(t, max(4-n, 0), left)
			}
		}
		for name, s := range servers {
			c := testserver.Client(t, s.dial)
			n, err := c.DBSize(t.Context()).Result()
			require.NoError(t, err)
			assert.Greater(t, n, int64(15), "%s has its part of 100 keys", name)
		}
	})
}

// What a failure forgives: the keys of the server that failed begin with full buckets elsewhere, and the others do not notice.
func TestAServerFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		servers, newRing := start(t, "a", "b", "c")
		ring := newRing()
		left := func() map[string]int64 {
			seen := make(map[string]int64)
			for i := range 50 {
				user := fmt.Sprint("user", i)
				if _, n, err := Allow(t.Context(), ring, user); err == nil {
					seen[user] = n
				}
			}
			return seen
		}
		require.Len(t, left(), 50)
		servers["b"].cut(true)
		during := left()
		assert.Less(t, len(during), 50, "requests for its keys fail at first")
		for user, n := range during {
			assert.EqualValues(t, 3, n, user)
		}
		time.Sleep(3 * time.Second) // the clock of the test; the ring looks twice a second
		after := left()
		assert.Len(t, after, 50)
		for user, n := range after {
			if _, answered := during[user]; answered {
				assert.EqualValues(t, 2, n, user)
			} else {
				assert.EqualValues(t, 4, n, "%s begins anew", user)
			}
		}
		servers["b"].cut(false)
		time.Sleep(3 * time.Second)
		for user, n := range left() {
			if _, answered := during[user]; !answered {
				assert.EqualValues(t, 3, n, "%s is back at what its server had", user)
			}
		}
	})
}

func TestRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, ring := start(t, "a", "b")
		var out strings.Builder
		require.NoError(t, run(t.Context(), ring(), strings.Fields("alice bob alice alice alice alice alice"), &out))
		assert.Equal(t, `alice: allowed, 4 left
bob: allowed, 4 left
alice: allowed, 3 left
alice: allowed, 2 left
alice: allowed, 1 left
alice: allowed, 0 left
alice: refused, 0 left
`, out.String())
	})
}

func TestParse(t *testing.T) {
	servers, err := parse("a=10.0.0.1:6379,b=[::1]:6380")
	require.NoError(t, err)
	assert.Equal(t, map[string]string{"a": "10.0.0.1:6379", "b": "[::1]:6380"}, servers)
	for _, text := range []string{"", "a", "a=", "=x:1", "a=x:1,a=y:1", "a=x:1,"} {
		_, err := parse(text)
		assert.Error(t, err, text)
	}
}
