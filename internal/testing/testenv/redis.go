package testenv

import (
	"bufio"
	"fmt"
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
	cmd := exec.Command("sh", append([]string{"-c", untilEOF, "sh", Tool(t, "redis-server"), "--save", "", "--port", "0",
		"--unixsocket", socket, "--daemonize", "no", "--dir", filepath.Dir(socket), "--logfile", ""}, options...)...)
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
	ready, log := make(chan bool, 1), new(strings.Builder)
	go func() {
		defer close(ended)
		lines := bufio.NewScanner(out)
		for lines.Scan() {
			fmt.Fprintln(log, lines.Text())
			if strings.Contains(lines.Text(), "ready to accept connections at") {
				ready <- true
			}
		}
		close(ready)
		_ = cmd.Wait() // it was killed
	}()
	if !<-ready {
		t.Fatalf("redis-server did not start:\n%s", log)
	}
	return socket
}
