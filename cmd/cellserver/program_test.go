package main

import (
	"bufio"
	"context"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"cellserver/internal/testing/engines"
	"cellserver/persistence"
)

// If a part fails to start, those before it are stopped: the directory is unlocked and no goroutine is left.
func TestAStartThatFailsStopsWhatItStarted(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer taken.Close()
	_, port, err := net.SplitHostPort(taken.Addr().String())
	require.NoError(t, err)
	for name, c := range map[string]struct {
		files map[string]string
		args  []string
		err   string
	}{
		"the server: the users are wrong": {
			files: map[string]string{"users.acl": "user alice nonsense\n"},
			args:  []string{"--aclfile", "users.acl", "--port", "0", "--unixsocket", "socket"}, err: "aclfile: ",
		},
		"the listeners: the port is in use": {args: []string{"--port", port}, err: "is in use"},
		"loading: the snapshot is no snapshot": {
			files: map[string]string{"dump.cell": "this is no snapshot, but long enough for one"},
			args:  []string{"--port", "0", "--unixsocket", "socket"}, err: "is corrupt at byte 0",
		},
	} {
		t.Run(name, func(t *testing.T) {
			defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
			dir := t.TempDir()
			t.Chdir(dir)
			for file, text := range c.files {
				require.NoError(t, os.WriteFile(filepath.Join(dir, file), []byte(text), 0o600))
			}
			err := run(context.Background(), append(c.args, "--save", "1 1"), io.Discard, io.Discard)
			require.ErrorContains(t, err, c.err)
			lock, err := persistence.OS.Lock("lock", dir)
			require.NoError(t, err)
			require.NoError(t, lock.Close())
			assert.NoFileExists(t, "socket")
		})
	}
}

// With the keys in an engine, no goroutine is left after a start that fails, nor after a server that has run, whether or not the engine
// was there.
func TestNothingIsLeftOfAStoreInAnEngine(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer taken.Close()
	_, port, err := net.SplitHostPort(taken.Addr().String())
	require.NoError(t, err)
	there := engines.Standalone(t, engines.Valkey81).Addr()
	for name, engine := range map[string]string{"there": there, "not there": "127.0.0.1:1"} {
		t.Run(name, func(t *testing.T) {
			defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
			t.Chdir(t.TempDir())
			require.ErrorContains(t, run(t.Context(), []string{"--store", "valkey://" + engine, "--port", port}, io.Discard, io.Discard), "is in use")

			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			r, w := io.Pipe()
			ended := make(chan error, 1)
			go func() {
				ended <- run(ctx, []string{"--store", "valkey://" + engine, "--port", "0", "--unixsocket", "socket"}, io.Discard, w)
				w.Close()
			}()
			for lines := bufio.NewScanner(r); lines.Scan(); {
				if text := lines.Text(); strings.Contains(text, " is ready") || strings.Contains(text, "cannot be reached") {
					cancel()
				}
			}
			require.NoError(t, <-ended)
			assert.NoFileExists(t, "socket")
		})
	}
}
