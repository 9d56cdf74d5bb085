package test

import (
	"bufio"
	"crypto/tls"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"cellserver/internal/testing/testenv"
)

// socketPath returns a short path for a Unix socket: the system limits its length.
func socketPath(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "cell")
	require.NoError(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	return filepath.Join(dir, "s")
}

// startOnSocket starts a server that listens on a Unix socket only.
func startOnSocket(t *testing.T, path string, args ...string) *process {
	t.Helper()
	p := launch(t, nil, append(args, "--port", "0", "--unixsocket", path)...)
	p.says(` is ready" address=` + path)
	return p
}

// pingAt sends PING to a Unix socket.
func pingAt(t *testing.T, path string) error {
	t.Helper()
	c, err := net.Dial("unix", path)
	if err != nil {
		return err
	}
	defer c.Close()
	require.NoError(t, c.SetDeadline(time.Now().Add(patience)))
	if _, err := io.WriteString(c, "PING\r\n"); err != nil {
		return err
	}
	_, err = io.ReadFull(c, make([]byte, 7))
	return err
}

func TestUnixSocketServesAndIsRemovedAtTheEnd(t *testing.T) {
	path := socketPath(t)
	p := startOnSocket(t, path)
	c := redis.NewClient(&redis.Options{Network: "unix", Addr: path})
	defer c.Close()
	ctx := t.Context()
	assert.Equal(t, []int64{0, 5, 4, -1, 60}, integers(t, c, "CL.WINDOW", "k", 5, 60))
	list := c.ClientList(ctx).Val()
	assert.Contains(t, list, " addr="+path+":0 laddr="+path+":0 ", "as Redis has it")
	assert.Contains(t, list, " flags=U ")
	assert.Equal(t, "0", c.InfoMap(ctx).Val()["Server"]["tcp_port"])
	assert.Equal(t, map[string]string{"unixsocket": path, "unixsocketperm": "0"}, c.ConfigGet(ctx, "unixsocket*").Val())
	assert.ErrorContains(t, c.ConfigSet(ctx, "unixsocket", "/tmp/other").Err(), "can't set immutable config")

	cli := testenv.Tool(t, "redis-cli")
	assert.Equal(t, "PONG\n", converse(t, "", cli, "-s", path, "PING"))
	require.NoError(t, c.Close())
	p.signal(syscall.SIGTERM)
	assert.Zero(t, p.exit())
	_, err := os.Lstat(path)
	assert.ErrorIs(t, err, fs.ErrNotExist, "it is removed at the end")
}

func TestUnixSocketHasThePermissionsOfItsOption(t *testing.T) {
	for _, perm := range []fs.FileMode{0o700, 0o770, 0o777, 0o600} {
		t.Run(fmt.Sprintf("%o", perm), func(t *testing.T) {
			path := socketPath(t)
			startOnSocket(t, path, "--unixsocketperm", fmt.Sprintf("%o", perm))
			file, err := os.Lstat(path)
			require.NoError(t, err)
			assert.Equal(t, fs.ModeSocket|perm, file.Mode())
			assert.NoError(t, pingAt(t, path))
		})
	}
	t.Run("what the umask leaves", func(t *testing.T) {
		path := socketPath(t)
		before := syscall.Umask(0o027) // the server inherits it; the tests of this package do not run in parallel
		defer syscall.Umask(before)
		startOnSocket(t, path)
		file, err := os.Lstat(path)
		require.NoError(t, err)
		assert.Equal(t, fs.ModeSocket|0o750, file.Mode())
	})
}

func TestUnixSocketReplacesOnlyAStaleSocket(t *testing.T) {
	refused := func(t *testing.T, path string, want ...string) {
		t.Helper()
		stdout, stderr, code := run(t, nil, "--port", "0", "--unixsocket", path)
		assert.Equal(t, 1, code)
		assert.Empty(t, stdout)
		for _, part := range append(want, "cellserver: unixsocket: ") {
			assert.Contains(t, stderr, part)
		}
		assert.Equal(t, 1, strings.Count(stderr, "\n"), "one line: %s", stderr)
	}
	t.Run("and stale is replaced", func(t *testing.T) {
		path := socketPath(t)
		p := startOnSocket(t, path)
		p.signal(syscall.SIGKILL)
		assert.Equal(t, -1, p.exit())
		_, err := os.Lstat(path)
		require.NoError(t, err, "nobody removed it")
		startOnSocket(t, path)
		assert.NoError(t, pingAt(t, path))
	})
	t.Run("and in use stays", func(t *testing.T) {
		path := socketPath(t)
		startOnSocket(t, path)
		refused(t, path, path, "is in use: is another server running?")
		assert.NoError(t, pingAt(t, path))
	})
	t.Run("and no socket stays", func(t *testing.T) {
		path := socketPath(t)
		require.NoError(t, os.WriteFile(path, []byte("precious"), 0o600))
		refused(t, path, path, "no socket: it is not replaced")
		kept, err := os.ReadFile(path)
		require.NoError(t, err)
		assert.Equal(t, "precious", string(kept))
	})
	t.Run("and a link stays, wherever it leads", func(t *testing.T) {
		path := socketPath(t)
		require.NoError(t, os.Symlink("nowhere", path))
		refused(t, path, path, "no socket")
		_, err := os.Readlink(path)
		assert.NoError(t, err)
	})
	t.Run("and a directory stays", func(t *testing.T) {
		path := socketPath(t)
		require.NoError(t, os.Mkdir(path, 0o700))
		refused(t, path, path, "no socket")
	})
	t.Run("and was replaced meanwhile is not removed at the end", func(t *testing.T) {
		path := socketPath(t)
		first := startOnSocket(t, path)
		require.NoError(t, os.Remove(path))
		startOnSocket(t, path)
		first.signal(syscall.SIGTERM)
		assert.Zero(t, first.exit())
		assert.NoError(t, pingAt(t, path))
	})
	t.Run("in a directory that is not", func(t *testing.T) {
		refused(t, "/nonexistent/s", "/nonexistent/s", "no such file")
	})
	t.Run("under too long a name", func(t *testing.T) {
		refused(t, filepath.Join(t.TempDir(), strings.Repeat("x", 200)), "longer than a socket's may be")
	})
}

func TestStartWithoutAnAddressFails(t *testing.T) {
	_, stderr, code := run(t, nil, "--port", "0")
	assert.Equal(t, 1, code)
	assert.Equal(t, "cellserver: there is nothing to listen on: port and tls-port are 0, and no unixsocket is named\n", stderr)
}

func TestUnixSocketAndPortShareTheirKeys(t *testing.T) {
	path := socketPath(t)
	s := start(t, "--unixsocket", path)
	s.raw(t).ask("CL.WINDOW k 5 3600 5", "*5\r\n:0\r\n:5\r\n:0\r\n:-1\r\n:3600\r\n")
	c := redis.NewClient(&redis.Options{Network: "unix", Addr: path})
	defer c.Close()
	assert.Equal(t, int64(1), c.DBSize(t.Context()).Val())
}

// otherAddress returns an address of this machine that is not on the loopback interface.
func otherAddress(t *testing.T) string {
	t.Helper()
	addresses, err := net.InterfaceAddrs()
	require.NoError(t, err)
	for _, a := range addresses {
		if n, ok := a.(*net.IPNet); ok && n.IP.To4() != nil && n.IP.IsGlobalUnicast() {
			return n.IP.String()
		}
	}
	t.Skip("this machine has no address but the loopback interface's; resp tests this with made-up ones")
	return ""
}

func TestProtectedModeDeniesOtherHostsWithoutAPassword(t *testing.T) {
	host := otherAddress(t)
	s := startSecret(t, "--bind", "127.0.0.1 "+host)
	// said returns the first line of the reply to PING over a connection from another address.
	said := func(secretly bool) string {
		t.Helper()
		addr := net.JoinHostPort(host, s.port)
		if secretly {
			addr = net.JoinHostPort(host, s.tlsPort)
		}
		c, err := net.Dial("tcp", addr)
		require.NoError(t, err)
		defer c.Close()
		require.NoError(t, c.SetDeadline(time.Now().Add(patience)))
		if secretly {
			c = tls.Client(c, s.config(t))
		}
		_, err = io.WriteString(c, "PING\r\n")
		require.NoError(t, err)
		r := bufio.NewReader(c)
		line, err := r.ReadString('\n')
		require.NoError(t, err)
		if strings.HasPrefix(line, "-DENIED") {
			rest, err := io.ReadAll(r)
			assert.NoError(t, err, "it ends in order")
			assert.Empty(t, rest)
		}
		return line
	}
	local := s.server.client(t)
	ctx := t.Context()
	for _, secretly := range []bool{false, true} {
		text := said(secretly)
		assert.True(t, strings.HasPrefix(text, "-DENIED Redis is running in protected mode because protected mode is enabled and "+
			"no password is set for the default user. In this mode connections are only accepted from the loopback interface."), text)
		assert.Contains(t, text, "'CONFIG SET protected-mode no'")
		assert.NotContains(t, text, "CONFIG REWRITE", "which does not exist")
	}
	assert.Equal(t, "PONG", local.Ping(ctx).Val())
	assert.Equal(t, "2", local.InfoMap(ctx).Val()["Stats"]["rejected_connections"])

	require.NoError(t, local.ConfigSet(ctx, "protected-mode", "no").Err())
	assert.Equal(t, "+PONG\r\n", said(false))
	assert.Equal(t, "+PONG\r\n", said(true))
	require.NoError(t, local.ConfigSet(ctx, "protected-mode", "yes").Err())
	assert.Contains(t, said(false), "-DENIED ")
	require.NoError(t, local.ConfigSet(ctx, "requirepass", "a long password").Err())
	assert.Contains(t, said(false), "-NOAUTH ", "a password protects enough")
	assert.Contains(t, said(true), "-NOAUTH ")
}
