//go:build darwin || dragonfly || freebsd || illumos || linux || netbsd || openbsd

package persistence

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"syscall"
)

const cannotSyncDirs = false

// lockName is the file that is locked on file systems that cannot lock a directory. It stays when the lock ends: a
// process that removed it could remove one that the next process has just opened.
const lockName = "cellserver.lock"

// lockDir locks the directory itself, which leaves no file behind. Some network file systems lock only files that are
// open for writing, which a directory never is; there it locks the file lockName. All processes make the same choice,
// because the file system decides it.
//
// The system releases the lock when the process ends. No child inherits it, because Go opens files with O_CLOEXEC.
func lockDir(dir string) (io.Closer, error) {
	d, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	err = flock(d, dir)
	if err == nil || errors.Is(err, ErrLocked) {
		return closedOn(err, d)
	}
	if err := d.Close(); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(filepath.Join(dir, lockName), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	return closedOn(flock(f, dir), f)
}

// closedOn returns f, or closes f if there is an error.
func closedOn(err error, f *os.File) (io.Closer, error) {
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// flock locks the file that f has open. Its error wraps ErrLocked if another process has locked it.
func flock(f *os.File, dir string) error {
	for {
		err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		switch {
		case err == nil:
			return nil
		case errors.Is(err, syscall.EINTR):
		case errors.Is(err, syscall.EWOULDBLOCK):
			if pid := lockHolder(f); pid != "" {
				return fmt.Errorf("dir %s is %w (pid %s)", dir, ErrLocked, pid)
			}
			return fmt.Errorf("dir %s is %w", dir, ErrLocked)
		default:
			return &os.PathError{Op: "flock", Path: f.Name(), Err: err}
		}
	}
}
