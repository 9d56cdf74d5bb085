package test

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// lines collects what is written to it. It is safe for concurrent use.
type lines struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *lines) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(b)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// Printf makes lines a logger for go-redis.
func (l *lines) Printf(_ context.Context, format string, v ...any) { fmt.Fprintf(l, format+"\n", v...) }

// take returns the collected text and clears it.
func (l *lines) take() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	defer l.text.Reset()
	return l.text.String()
}

// complaints is the log of go-redis.
var complaints lines

// process is a running program.
type process struct {
	t     *testing.T
	cmd   *exec.Cmd
	log   lines // its standard error
	ended chan struct{}
}

// launch starts the program with only env in its environment, and kills it when the test ends.
func launch(t *testing.T, env []string, args ...string) *process {
	t.Helper()
	return launchTo(t, nil, env, args...)
}

// launchTo is launch with the given standard error.
func launchTo(t *testing.T, stderr io.Writer, env []string, args ...string) *process {
	t.Helper()
	return launchCommand(t, exec.Command(binary, args...), stderr, env)
}

// launchCommand is launchTo for any command.
func launchCommand(t *testing.T, cmd *exec.Cmd, stderr io.Writer, env []string) *process {
	t.Helper()
	p := &process{t: t, cmd: cmd, ended: make(chan struct{})}
	p.cmd.Env = append([]string{}, env...)
	p.cmd.Stderr = stderr
	if stderr == nil {
		p.cmd.Stderr = &p.log
	}
	require.NoError(t, p.cmd.Start())
	go func() {
		defer close(p.ended)
		p.cmd.Wait()
	}()
	t.Cleanup(func() {
		p.cmd.Process.Kill()
		<-p.ended
		if t.Failed() {
			t.Logf("the log of %s:\n%s", strings.Join(cmd.Args, " "), p.log.String())
		}
	})
	return p
}

// says waits until the log contains a text.
func (p *process) says(text string) {
	p.t.Helper()
	require.Eventually(p.t, func() bool { return strings.Contains(p.log.String(), text) }, patience, time.Millisecond, text)
}

// signal sends the process a signal.
func (p *process) signal(s os.Signal) {
	p.t.Helper()
	require.NoError(p.t, p.cmd.Process.Signal(s))
}

// exit waits until the process ends and returns its exit code, -1 if a signal ended it.
func (p *process) exit() int {
	p.t.Helper()
	select {
	case <-p.ended:
	case <-time.After(patience):
		require.FailNow(p.t, "the process does not end", p.log.String())
	}
	return p.cmd.ProcessState.ExitCode()
}

// server is a cellserver that is ready.
type server struct {
	*process
	addr, port string
}

// freePort returns a free loopback port. Another process may take it before the caller does.
func freePort(t *testing.T) string {
	t.Helper()
	return freePorts(t, 1)[0]
}

// freePorts returns different free loopback ports.
func freePorts(t *testing.T, n int) []string {
	t.Helper()
	ports := make([]string, n)
	for i := range ports {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		require.NoError(t, err)
		defer l.Close()
		_, ports[i], err = net.SplitHostPort(l.Addr().String())
		require.NoError(t, err)
	}
	return ports
}

// start starts a server on a free port and waits until it is ready. If args name a configuration file, it comes first.
func start(t *testing.T, args ...string) *server {
	t.Helper()
	for range 20 {
		if s := startOn(t, freePort(t), args...); s != nil {
			return s
		}
	}
	require.FailNow(t, "no port is free")
	return nil
}

// startOn starts a server on a port and waits until it is ready. It returns nil if the port is in use.
func startOn(t *testing.T, port string, args ...string) *server {
	t.Helper()
	s := &server{process: launch(t, nil, append(args, "--port", port)...), addr: "127.0.0.1:" + port, port: port}
	ready := func() bool {
		select {
		case <-s.ended:
			return true
		default:
			return strings.Contains(s.log.String(), ` is ready" address=`+s.addr)
		}
	}
	require.Eventually(t, ready, patience, time.Millisecond)
	select {
	case <-s.ended:
		require.Contains(t, s.log.String(), "is in use")
		return nil
	default:
		return s
	}
}

// client returns a go-redis client with default options. The test fails if go-redis logs anything.
func (s *server) client(t *testing.T) *redis.Client {
	t.Helper()
	complaints.take()
	c := redis.NewClient(&redis.Options{Addr: s.addr})
	t.Cleanup(func() {
		assert.NoError(t, c.Close())
		assert.Empty(t, complaints.take(), "what go-redis logged")
	})
	return c
}

// raw is a connection for sending and receiving bytes.
type raw struct {
	*net.TCPConn
	t *testing.T
	r *bufio.Reader
}

func (s *server) raw(t *testing.T) *raw {
	t.Helper()
	c, err := net.Dial("tcp", s.addr)
	require.NoError(t, err)
	t.Cleanup(func() { c.Close() })
	require.NoError(t, c.SetDeadline(time.Now().Add(patience)))
	return &raw{TCPConn: c.(*net.TCPConn), t: t, r: bufio.NewReader(c)}
}

// ask sends an inline command and checks the reply.
func (c *raw) ask(line, want string) {
	c.t.Helper()
	_, err := io.WriteString(c, line+"\r\n")
	require.NoError(c.t, err)
	got := make([]byte, len(want))
	n, err := io.ReadFull(c.r, got)
	require.Equal(c.t, want, string(got[:n]), "read until: %v", err)
}
