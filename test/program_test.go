package test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"cellserver/cmd/cellserver/options"
)

// run runs the program until it ends, with only env in its environment.
func run(t *testing.T, env []string, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, binary, args...)
	cmd.Env = append([]string{}, env...)
	var out, said lines
	cmd.Stdout, cmd.Stderr = &out, &said
	err := cmd.Run()
	require.NoError(t, ctx.Err(), "the program does not end:\n%s", &said)
	if err != nil {
		require.IsType(t, (*exec.ExitError)(nil), err)
	}
	return out.String(), said.String(), cmd.ProcessState.ExitCode()
}

// file writes a file and returns its path.
func file(t *testing.T, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "cell.conf")
	require.NoError(t, os.WriteFile(path, []byte(content), 0o600))
	return path
}

func TestHelpAndVersionGoToStandardOutput(t *testing.T) {
	stdout, stderr, code := run(t, nil, "--help")
	assert.Zero(t, code)
	assert.Empty(t, stderr)
	assert.Contains(t, stdout, "Usage:\n")
	for _, o := range options.Table {
		assert.Contains(t, stdout, "\n  --"+o.Name+" ")
	}
	again, _, code := run(t, nil, "-h")
	assert.Zero(t, code)
	assert.Equal(t, stdout, again)

	for _, flag := range []string{"--version", "-v"} {
		stdout, stderr, code = run(t, nil, flag)
		assert.Zero(t, code)
		assert.Empty(t, stderr)
		assert.Regexp(t, `^cellserver [0-9]+\.[0-9]+\.[0-9]+\n$`, stdout)
	}
}

func TestFailedStartSaysWhy(t *testing.T) {
	busy, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer busy.Close()
	_, port, err := net.SplitHostPort(busy.Addr().String())
	require.NoError(t, err)
	unknown := file(t, "# ours\nport 7000\n\nmaxclient 5\n")
	wrong := file(t, "port 7000\nloglevel loud\n")
	unreadable := t.TempDir() // a directory: root may read any file

	for _, row := range []struct {
		name string
		env  []string
		args []string
		want []string
	}{
		{name: "an unknown flag", args: []string{"--maxclient", "5"}, want: []string{`"maxclient"`, `did you mean "maxclients"?`}},
		{name: "a bad value", args: []string{"--port", "99999"}, want: []string{"port", `"99999"`, "between 0 and 65535"}},
		{name: "a flag without its value", args: []string{"--port"}, want: []string{"port", "needs a value"}},
		{name: "a bad variable", env: []string{"CELLSERVER_TIMEOUT=soon"}, want: []string{"CELLSERVER_TIMEOUT", "soon"}},
		{name: "a missing file", args: []string{"/nonexistent/cell.conf"}, want: []string{"/nonexistent/cell.conf: no such file or directory"}},
		{name: "an unreadable file", args: []string{unreadable}, want: []string{unreadable, "directory"}},
		{name: "an unknown option in a file", args: []string{unknown}, want: []string{unknown + ":4: ", `"maxclient"`, `did you mean "maxclients"?`}},
		{name: "a bad value in a file", args: []string{wrong}, want: []string{wrong + ":2: ", "loglevel", "must be one of"}},
		{name: "a busy port", args: []string{"--port", port}, want: []string{"127.0.0.1:" + port + " is in use", "--port"}},
		{name: "an address that is not ours", args: []string{"--bind", "192.0.2.1", "--port", port}, want: []string{"192.0.2.1:" + port}},
		{name: "no address", args: []string{"--bind", ""}, want: []string{"bind"}},
		{name: "a log that cannot be written", args: []string{"--logfile", "/nonexistent/log"}, want: []string{"logfile", "/nonexistent/log"}},
	} {
		t.Run(row.name, func(t *testing.T) {
			stdout, stderr, code := run(t, row.env, row.args...)
			assert.Equal(t, 1, code)
			assert.Empty(t, stdout)
			for _, part := range row.want {
				assert.Contains(t, stderr, part)
			}
			assert.True(t, strings.HasPrefix(stderr, "cellserver: "), stderr)
			assert.Equal(t, 1, strings.Count(stderr, "\n"), "one line: %s", stderr)
		})
	}
}

func TestFlagsWinOverEnvironmentOverFile(t *testing.T) {
	conf := file(t, "maxclients 11\ntimeout 11\nmax-key-bytes 11\nclient-output-buffer-limit normal 2mb 1mb 60\n")
	port := freePort(t)
	// The port comes from the environment. If another process has taken it, try another one.
	var p *process
	for range 20 {
		p = launch(t, []string{"CELLSERVER_PORT=" + port, "CELLSERVER_MAXCLIENTS=22", "CELLSERVER_TIMEOUT=22",
			"CELLSERVER_MAXCLIENT=7", "OTHER=1"}, conf, "--maxclients", "33")
		require.Eventually(t, func() bool {
			text := p.log.String()
			return strings.Contains(text, "is ready") || strings.Contains(text, "is in use")
		}, patience, time.Millisecond)
		if strings.Contains(p.log.String(), "is ready") {
			break
		}
		port = freePort(t)
	}
	s := &server{process: p, addr: "127.0.0.1:" + port, port: port}
	got := s.client(t).ConfigGet(t.Context(), "*").Val()
	assert.Equal(t, port, got["port"], "from the environment")
	assert.Equal(t, "33", got["maxclients"], "a flag wins over the environment")
	assert.Equal(t, "22", got["timeout"], "the environment wins over the file")
	assert.Equal(t, "11", got["max-key-bytes"], "the file wins over the default")
	assert.Equal(t, "normal 2097152 1048576 60", got["client-output-buffer-limit"])
	assert.Equal(t, "1000000", got["zslide-max-log"], "the default")

	log := s.log.String()
	assert.Equal(t, 1, strings.Count(log, "level=WARN"), log)
	assert.Contains(t, log, "CELLSERVER_MAXCLIENT: ")
	assert.Contains(t, log, `did you mean \"maxclients\"?`)
}

func TestReadyLineHasACommandToPaste(t *testing.T) {
	s := start(t)
	assert.Contains(t, s.log.String(), `try="redis-cli -p `+s.port+` CL.THROTTLE user123 15 30 60 1"`)
	assert.Contains(t, s.log.String(), fmt.Sprintf(" pid=%d ", s.cmd.Process.Pid))
}

func TestLogFileIsAppendedTo(t *testing.T) {
	path := filepath.Join(t.TempDir(), "cell.log")
	require.NoError(t, os.WriteFile(path, []byte("what was there\n"), 0o600))
	var p *process
	text := func() string {
		b, err := os.ReadFile(path)
		require.NoError(t, err)
		return string(b)
	}
	for range 20 {
		p = launch(t, nil, "--logfile", path, "--port", freePort(t))
		require.Eventually(t, func() bool {
			return strings.Contains(text(), "is ready") || strings.Contains(p.log.String(), "is in use")
		}, patience, time.Millisecond)
		if strings.Contains(text(), "is ready") {
			break
		}
	}
	p.signal(syscall.SIGTERM)
	assert.Zero(t, p.exit())
	assert.Empty(t, p.log.String(), "the standard error")
	assert.True(t, strings.HasPrefix(text(), "what was there\n"), "it is appended to")
	assert.Contains(t, text(), "msg=stopped")
}

// The reader of the standard error may end: restarting journald, for example, must not end the server.
func TestClosedStandardErrorKeepsServing(t *testing.T) {
	var s *server
	for s == nil {
		port := freePort(t)
		r, w, err := os.Pipe()
		require.NoError(t, err)
		p := launchTo(t, w, nil, "--port", port)
		w.Close()
		line, err := bufio.NewReader(r).ReadString('\n')
		r.Close()
		switch {
		case strings.Contains(line, "is ready"):
			s = &server{process: p, addr: "127.0.0.1:" + port, port: port}
		default:
			require.Contains(t, line, "is in use", "%v", err)
		}
	}
	for range 2 { // each causes a line in the log
		c := s.raw(t)
		c.ask("*1\r\n:1", "-ERR Protocol error: expected '$', got ':'\r\n")
		c.Close()
	}
	c := s.raw(t)
	c.ask("PING", "+PONG\r\n")
	c.Close()
	s.signal(syscall.SIGTERM)
	assert.Zero(t, s.exit())
}

func TestEveryBoundAddressAnswers(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("needs a second loopback address, which only Linux has by itself")
	}
	s := start(t, "--bind", "127.0.0.1 127.0.0.2 -2001:db8::1")
	s.says(`address=127.0.0.2:` + s.port)
	for _, host := range []string{"127.0.0.1", "127.0.0.2"} {
		c := (&server{process: s.process, addr: host + ":" + s.port}).raw(t)
		c.ask("PING", "+PONG\r\n")
		c.Close()
	}
	s.signal(syscall.SIGTERM)
	assert.Zero(t, s.exit())
}

func TestConfigSetTakesEffectAtOnce(t *testing.T) {
	s := start(t)
	c := s.raw(t)
	t.Run("maxclients", func(t *testing.T) {
		c.ask("CONFIG SET maxclients 1", "+OK\r\n")
		refused := s.raw(t)
		said, err := io.ReadAll(refused.r)
		require.NoError(t, err)
		assert.Equal(t, "-ERR max number of clients reached\r\n", string(said))
		c.ask("CONFIG SET maxclients 2", "+OK\r\n")
		s.raw(t).ask("PING", "+PONG\r\n")
	})
	t.Run("zslide-max-log", func(t *testing.T) {
		c.ask("CONFIG SET zslide-max-log 2", "+OK\r\n")
		c.ask("CL.ZSLIDE z 5 3600", "*5\r\n:0\r\n:5\r\n:4\r\n:-1\r\n:3600\r\n")
		c.ask("CL.ZSLIDE z 5 3600", "*5\r\n:0\r\n:5\r\n:3\r\n:-1\r\n:3600\r\n")
		c.ask("CL.ZSLIDE z 5 3600", "-ERR the log of this key is full (zslide-max-log 2)\r\n")
		c.ask("CONFIG SET zslide-max-log 3", "+OK\r\n")
		c.ask("CL.ZSLIDE z 5 3600", "*5\r\n:0\r\n:5\r\n:2\r\n:-1\r\n:3600\r\n")
	})
	t.Run("max-key-bytes", func(t *testing.T) {
		c.ask("CONFIG SET max-key-bytes 3", "+OK\r\n")
		c.ask("CL.WINDOW long 5 60", "-ERR key is longer than max-key-bytes (3)\r\n")
		c.ask("CL.WINDOW not 5 60 0", "*5\r\n:0\r\n:5\r\n:5\r\n:-1\r\n:0\r\n")
	})
	t.Run("loglevel", func(t *testing.T) {
		c.ask("CONFIG SET maxclients 100", "+OK\r\n")
		// offend breaks the protocol, which is logged as a notice, and returns the address of its connection.
		offend := func() string {
			bad := s.raw(t)
			bad.ask("*1\r\n:1", "-ERR Protocol error: expected '$', got ':'\r\n")
			return bad.LocalAddr().String()
		}
		first := offend()
		s.says("client=" + first)
		c.ask("CONFIG SET loglevel warning", "+OK\r\n")
		silent := offend()
		c.ask("CONFIG SET loglevel notice", "+OK\r\n")
		last := offend()
		s.says("client=" + last)
		assert.NotContains(t, s.log.String(), "client="+silent)
	})
	t.Run("all or nothing", func(t *testing.T) {
		c.ask("CONFIG SET timeout 5 maxclients 0",
			"-ERR CONFIG SET failed (possibly related to argument 'maxclients') - argument must be between 1 and 4294967295 inclusive\r\n")
		c.ask("CONFIG GET timeout", "*2\r\n$7\r\ntimeout\r\n$1\r\n0\r\n")
	})
}
