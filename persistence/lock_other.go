//go:build !(darwin || dragonfly || freebsd || illumos || linux || netbsd || openbsd)

package persistence

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// cannotSyncDirs is true on systems that may refuse to sync a directory, such as Windows, which does not open one for
// writing.
const cannotSyncDirs = true

const lockName = "cellserver.lock"

// lockDir creates a file that must not exist. It removes a file that a killed process has left first; Windows does not
// remove an open file, so that of a running process stays.
func lockDir(dir string) (io.Closer, error) {
	path := filepath.Join(dir, lockName)
	_ = os.Remove(path)
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	switch {
	case errors.Is(err, fs.ErrExist), errors.Is(err, fs.ErrPermission):
		return nil, fmt.Errorf("dir %s is %w: %w", dir, ErrLocked, err)
	case err != nil:
		return nil, err
	}
	return lockFile{f}, nil
}

type lockFile struct{ f *os.File }

func (l lockFile) Close() error { return errors.Join(l.f.Close(), os.Remove(l.f.Name())) }
