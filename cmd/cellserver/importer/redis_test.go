package importer

import (
	"io"
	"net"
	"sync"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"cellserver/internal/testing/testenv"
)

// source is a real Redis that ends with the test.
type source struct {
	*redis.Client
	addr string // address of a port that forwards to its socket
}

func (s *source) url() string { return "redis://" + s.addr }

func realRedis(t *testing.T, options ...string) *source {
	t.Helper()
	socket := testenv.Redis(t, options...)
	c := redis.NewClient(&redis.Options{Network: "unix", Addr: socket})
	t.Cleanup(func() { c.Close() })
	return &source{c, portTo(t, socket)}
}

// portTo returns the address of a port that forwards to a socket until the test ends. No other process can take this
// port.
func portTo(t *testing.T, socket string) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	var all sync.WaitGroup
	t.Cleanup(func() {
		l.Close()
		all.Wait()
	})
	all.Go(func() {
		for {
			from, err := l.Accept()
			if err != nil {
				return
			}
			to, err := net.Dial("unix", socket)
			if err != nil {
				from.Close()
				continue
			}
			for _, way := range [][2]net.Conn{{from, to}, {to, from}} {
				all.Go(func() {
					io.Copy(way[1], way[0])
					way[0].Close()
					way[1].Close()
				})
			}
		}
	})
	return l.Addr().String()
}
