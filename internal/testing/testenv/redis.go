package testenv

import (
	"bufio"
	"fmt"
	"net"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// untilEOF is a shell script that runs a program until its own standard input ends: with this process, however that ends.
const untilEOF = `exec 3<&0; "$@" 3<&- & pid=$!; { cat <&3; kill -9 $pid; } >/dev/null 2>&1 & exec 3<&-; wait $pid`

// Redis starts a redis-server that keeps nothing and ends with the test, and returns its Unix socket.
func Redis(t testing.TB, options ...string) (socket string) {
	t.Helper()
	socket = filepath.Join(t.TempDir(), "s")
	if ready, log := startRedis(t, append([]string{"--port", "0", "--unixsocket", socket}, options...)); !ready {
		t.Fatalf("redis-server did not start:\n%s", log)
	}
	return socket
}

// RedisOnTCP is Redis for clients that know no Unix sockets. It returns the port on 127.0.0.1.
func RedisOnTCP(t testing.TB, options ...string) (port string) {
	t.Helper()
	var log string
	for range 20 { // another process may take the port first
		port = FreePort(t)
		var ready bool
		if ready, log = startRedis(t, append([]string{"--port", port, "--bind", "127.0.0.1"}, options...)); ready {
			return port
		}
	}
	t.Fatalf("redis-server did not start:\n%s", log)
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

// startRedis waits until a redis-server accepts connections, or has ended: the log says why.
func startRedis(t testing.TB, options []string) (ready bool, log string) {
	t.Helper()
	cmd := exec.Command("sh", append([]string{"-c", untilEOF, "sh", Tool(t, "redis-server"), "--save", "",
		"--daemonize", "no", "--dir", t.TempDir(), "--logfile", ""}, options...)...)
	in, err := cmd.StdinPipe()
	require.NoError(t, err)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	ended := make(chan struct{})
	t.Cleanup(func() {
		_ = in.Close() // which ends it
		<-ended
	})
	accepts, said := make(chan bool, 1), new(strings.Builder)
	go func() {
		defer close(ended)
		lines := bufio.NewScanner(out)
		for lines.Scan() {
			fmt.Fprintln(said, lines.Text())
			if strings.Contains(strings.ToLower(lines.Text()), "ready to accept connections") {
				select {
				case accepts <- true:
				default: // it says so of each way to connect
				}
			}
		}
		close(accepts)
		_ = cmd.Wait() // it was killed
	}()
	if <-accepts {
		return true, ""
	}
	return false, said.String()
}
