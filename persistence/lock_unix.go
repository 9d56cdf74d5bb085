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

// lockName is the file that is locked where a directory itself cannot be. It stays when the lock ends: whoever removed it
// could be removing one that the next process has just opened.
const lockName = "cellserver.lock"

// lockDir locks the directory itself, which leaves nothing behind. Some network file systems lock only what is open for
// writing, which a directory never is: there a file in it is locked. All processes come to the same choice, as the file
// system makes it.
//
// The system ends the lock with the process. No child inherits it, since Go closes its files in whatever it executes.
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

// closedOn returns f, or closes it when there is an error.
func closedOn(err error, f *os.File) (io.Closer, error) {
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// flock locks what f has open, or returns ErrLocked, wrapped, when another process holds the lock.
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
