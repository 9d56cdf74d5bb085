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

// cannotSyncDirs is true where syncing a directory may be refused, as on Windows, which does not open one for writing.
const cannotSyncDirs = true

const lockName = "cellserver.lock"

// lockDir makes a file that must not exist yet. One that a process left when it was killed is removed first; Windows
// does not remove a file that somebody has open, so the file of a process that lives stays.
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
