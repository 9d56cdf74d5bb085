package main

import (
	"context"
	"io"
	"net"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

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
