package importer

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"cellserver/internal/need"
)

// untilEOF is a shell script that runs a program until its own standard input ends: with this process, however that ends.
const untilEOF = `exec 3<&0; "$@" 3<&- & pid=$!; { cat <&3; kill -9 $pid; } >/dev/null 2>&1 & exec 3<&-; wait $pid`

// source is a real Redis that ends with the test.
type source struct {
	*redis.Client
	addr string // of a port that leads to its socket
}

func (s *source) url() string { return "redis://" + s.addr }

func realRedis(t *testing.T, options ...string) *source {
	t.Helper()
	socket := filepath.Join(t.TempDir(), "s")
	cmd := exec.Command("sh", append([]string{"-c", untilEOF, "sh", need.Tool(t, "redis-server"), "--save", "", "--port", "0",
		"--unixsocket", socket, "--daemonize", "no", "--dir", filepath.Dir(socket), "--logfile", ""}, options...)...)
	in, err := cmd.StdinPipe()
	require.NoError(t, err)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	ended := make(chan struct{})
	t.Cleanup(func() {
		in.Close()
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
		cmd.Wait()
	}()
	if !<-ready {
		t.Fatalf("redis-server did not start:\n%s", log)
	}
	c := redis.NewClient(&redis.Options{Network: "unix", Addr: socket})
	t.Cleanup(func() { c.Close() })
	return &source{c, portTo(t, socket)}
}

// portTo returns the address of a port that leads to a socket until the test ends: a port that nobody else can take.
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
