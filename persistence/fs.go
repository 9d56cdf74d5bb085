package persistence

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// FS is the file system that this package needs. Everything that must be durable goes through it, so that a test can
// make any single call fail, or lose power after it: internal/testing/crashfs does both.
//
// Every call has a label that says its purpose, such as "snapshot: sync"; OS ignores it. Errors are those of package
// os: errors.Is finds fs.ErrNotExist, and the text names the path.
//
// Nothing is durable before it is synced: the bytes of a file by File.Sync, its name by SyncDir.
type FS interface {
	// Create creates a file, or truncates the one that exists, and opens it for writing and reading. Only its owner may
	// read it. Its writes have label + ": write", its reads label + ": read".
	Create(label, path string) (File, error)
	// OpenAppend opens an existing file for reading, and for writing at its end. Writes and reads have labels as in
	// Create.
	OpenAppend(label, path string) (File, error)
	// Open opens an existing file for reading. Reads have label + ": read".
	Open(label, path string) (File, error)
	// Rename renames a file within its directory, and replaces a file that has the new name.
	Rename(label, from, to string) error
	// Remove removes a file.
	Remove(label, path string) error
	// SyncDir makes the names of the files in dir durable.
	SyncDir(label, dir string) error
	// Truncate cuts a file to its first size bytes, durably after the next Sync of that file.
	Truncate(label, path string, size int64) error
	// ReadDir returns the names in dir, sorted.
	ReadDir(label, dir string) ([]string, error)
	// Lock locks dir for this process until the lock is closed or the process ends, in whatever way. It returns
	// ErrLocked at once if another process has locked dir.
	Lock(label, dir string) (io.Closer, error)
}

// File is an open file of an FS.
type File interface {
	io.Writer
	io.ReaderAt

	// Sync makes everything that was written durable. After an error, what was written since the last Sync must be
	// written again: the system may have dropped it, so that the next Sync succeeds although the bytes are lost.
	Sync(label string) error
	// Truncate cuts the file to its first size bytes, durably after the next Sync.
	Truncate(label string, size int64) error
	// Close closes the file. It makes nothing durable.
	Close(label string) error
	// Size returns the size of the file in bytes.
	Size(label string) (int64, error)
}

// ErrLocked is wrapped by the error of FS.Lock when another process has locked the directory. The text names the
// directory and, where the system tells it, the process.
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
	return withSpareProcessor(func() error { return os.Rename(from, to) }) // it may free the blocks of the file that had that name
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
		err = nil // the operating system or the file system cannot sync directories
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

// temporarySuffix is appended to the name of a file until the file is complete. It does not vary: only one process uses
// a directory (see FS.Lock), so that at most one leftover exists for each name, which the next attempt overwrites and
// RemoveLeftovers finds without a pattern that might match files of others.
const temporarySuffix = ".tmp"

// RemoveLeftovers removes the temporary files that were left in dir when the process or the machine stopped while it
// wrote the files of these names. It requires that the directory is locked. Its calls have the label "leftovers:
// remove".
func RemoveLeftovers(fsys FS, dir string, names ...string) error {
	for _, name := range names {
		err := fsys.Remove("leftovers: remove", filepath.Join(dir, name+temporarySuffix))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}
