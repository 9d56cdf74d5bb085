package testenv

import (
	"net"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Redis starts a redis-server that keeps nothing and ends with the test, and returns its Unix socket.
func Redis(t testing.TB, options ...string) (socket string) {
	t.Helper()
	socket = filepath.Join(t.TempDir(), "s")
	require.NoError(t, startRedis(t, append([]string{"--port", "0", "--unixsocket", socket}, options...)))
	return socket
}

// RedisOnTCP is Redis for clients that know no Unix sockets. It returns the port on 127.0.0.1.
func RedisOnTCP(t testing.TB, options ...string) (port string) {
	t.Helper()
	var err error
	for range 20 { // another process may take the port first
		port = FreePort(t)
		if err = startRedis(t, append([]string{"--port", port, "--bind", "127.0.0.1"}, options...)); err == nil {
			return port
		}
	}
	require.NoError(t, err)
	return ""
}

// FreePort returns a port of 127.0.0.1 that nobody listens on. Another process may be quicker to take it.
func FreePort(t testing.TB) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	_, port, err := net.SplitHostPort(l.Addr().String())
	require.NoError(t, err)
	return port
}

// startRedis waits until a redis-server accepts connections. If it ends instead, the error says what it printed.
func startRedis(t testing.TB, options []string) error {
	t.Helper()
	p, err := StartProcess(func(line string) bool {
		return strings.Contains(strings.ToLower(line), "ready to accept connections")
	}, Tool(t, "redis-server"), append([]string{"--save", "", "--daemonize", "no", "--dir", t.TempDir(), "--logfile", ""},
		options...)...)
	if err != nil {
		return err
	}
	t.Cleanup(p.End)
	return nil
}
