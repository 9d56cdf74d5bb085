package persistence

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// FS is all that this package asks of a file system. Everything that has to survive goes through it, so that a test can
// make exactly one call fail, or take the power away after any of them: internal/testing/crashfs does both.
//
// Every call has a label, which says what the call is for: "snapshot: sync". Labels mean nothing to the operating system.
// Errors are those of package os: errors.Is knows fs.ErrNotExist, and the text names the path.
//
// Nothing is durable before it has been synced: the bytes of a file by File.Sync, its name by SyncDir.
type FS interface {
	// Create opens a file for writing and reading that is empty now, whether or not it existed. Only its owner may read
	// it. Its writes bear label + ": write", its reads label + ": read".
	Create(label, path string) (File, error)
	// OpenAppend opens a file that exists for reading, and for writing at its end. Writes and reads bear labels as in
	// Create.
	OpenAppend(label, path string) (File, error)
	// Open opens a file that exists for reading. Reads bear label + ": read".
	Open(label, path string) (File, error)
	// Rename gives a file another name in the same directory, and takes that name from whichever file had it.
	Rename(label, from, to string) error
	// Remove forgets a file.
	Remove(label, path string) error
	// SyncDir returns once the names of the files in dir are durable.
	SyncDir(label, dir string) error
	// Truncate cuts a file to its first size bytes. That is durable after the next Sync of that file.
	Truncate(label, path string, size int64) error
	// ReadDir returns the names in dir, sorted.
	ReadDir(label, dir string) ([]string, error)
	// Lock makes this process the only one to use dir, until the lock is closed or the process ends, however that
	// ends. ErrLocked is returned at once when another one does.
	Lock(label, dir string) (io.Closer, error)
}

// File is an open file of an FS.
type File interface {
	io.Writer
	io.ReaderAt

	// Sync returns once all that was written is durable. When it fails, the file must be given up: the system may have
	// dropped what it could not write, so that the next Sync succeeds although the bytes are lost.
	Sync(label string) error
	// Truncate cuts the file to its first size bytes. That is durable after the next Sync.
	Truncate(label string, size int64) error
	// Close closes the file, and makes nothing durable.
	Close(label string) error
	// Size returns the length of the file in bytes.
	Size(label string) (int64, error)
}

// ErrLocked is returned by FS.Lock when another process uses the directory. What is returned wraps it and says which
// directory and, where that can be known, which process.
var ErrLocked = errors.New("in use by another cellserver")

// OS is the file system of the operating system.
var OS FS = osFS{}

type osFS struct{}

func (osFS) Create(_, path string) (File, error) {
	return openFile(path, os.O_RDWR|os.O_CREATE|os.O_TRUNC)
}

func (osFS) OpenAppend(_, path string) (File, error) { return openFile(path, os.O_RDWR|os.O_APPEND) }

func (osFS) Open(_, path string) (File, error) { return openFile(path, os.O_RDONLY) }

func (osFS) Rename(_, from, to string) error {
	return withSpareProcessor(func() error { return os.Rename(from, to) }) // it may free what had that name
}

func (osFS) Remove(_, path string) error {
	return withSpareProcessor(func() error { return os.Remove(path) })
}

func (osFS) Truncate(_, path string, size int64) error { return os.Truncate(path, size) }

func (osFS) ReadDir(_, dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	names := make([]string, len(entries))
	for i, e := range entries {
		names[i] = e.Name()
	}
	return names, nil
}

func (osFS) Lock(_, dir string) (io.Closer, error) { return lockDir(dir) }

func (osFS) SyncDir(_, dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	err = withSpareProcessor(d.Sync)
	if cannotSyncDirs || errors.Is(err, syscall.EINVAL) || errors.Is(err, errors.ErrUnsupported) {
		err = nil // a system, or a file system of it, that has no such call and keeps names in its own way
	}
	return errors.Join(err, d.Close())
}

// osFile is an open file of the operating system.
type osFile struct{ f *os.File }

func openFile(path string, flags int) (File, error) {
	f, err := os.OpenFile(path, flags, 0o600)
	if err != nil {
		return nil, err
	}
	return osFile{f}, nil
}

func (f osFile) Write(b []byte) (int, error) { return f.f.Write(b) }

func (f osFile) ReadAt(b []byte, off int64) (int, error) { return f.f.ReadAt(b, off) }

func (f osFile) Sync(string) error { return withSpareProcessor(f.f.Sync) }

func (f osFile) Truncate(_ string, size int64) error {
	return withSpareProcessor(func() error { return f.f.Truncate(size) })
}

func (f osFile) Close(string) error { return f.f.Close() }

func (f osFile) Size(string) (int64, error) {
	info, err := f.f.Stat()
	if err != nil {
		return 0, err
	}
	return info.Size(), nil
}

// temporarySuffix makes the name that a file has until it is whole. It is always the same one, and not that of the
// process: only one process uses a directory (see FS.Lock), so at most one leftover can exist for each name, the next
// attempt writes over it, and a start knows what to remove without looking for patterns among other people's files.
const temporarySuffix = ".tmp"

// RemoveLeftovers removes what attempts to write the files of these names left behind when the process or the machine
// stopped in their midst. It is called with the directory locked. Its calls bear "leftovers: remove".
func RemoveLeftovers(fsys FS, dir string, names ...string) error {
	for _, name := range names {
		err := fsys.Remove("leftovers: remove", filepath.Join(dir, name+temporarySuffix))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}
