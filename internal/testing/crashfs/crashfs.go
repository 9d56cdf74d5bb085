// Package crashfs is a file system in memory for tests, on which calls fail and the power goes off when a test says so. It
// implements persistence.FS. The idea is that of the crashable memory file system of cockroachdb/pebble.
//
// # What is durable
//
// A program sees at once what it has done. What a loss of power leaves of it is less:
//
//   - The bytes and the length of a file are durable as of its last Sync. What was written or truncated since may be lost,
//     may have been done up to some byte, may have left the length without the bytes (which read as zeros then, as on
//     file systems that keep a journal of lengths only), or may all be there. See Bytes.
//   - The names in a directory are durable as of its last SyncDir. Each creation, renaming and removal since may or may
//     not have happened, where a later one of the same name presupposes the earlier one. A renaming happens whole or not
//     at all: at no time is there neither the old file nor the new one under the name that is being taken. See Names.
//   - Names and bytes know nothing of each other. A file that was renamed and its directory synced, but which was not
//     synced itself, is found under its new name and may be empty. A file that was synced, but whose directory was not,
//     may not be found.
//   - A Sync that failed has lost what it should have made durable, though the program goes on seeing it: no later Sync of
//     that file makes anything durable, even though it returns nil, until the file has been cut back to bytes that were
//     durable before, or emptied, and written anew. So it is on Linux.
//
// Crash returns such a file system and leaves the one it is called on as it is: a test can look at many outcomes of one
// run, and the program under test may go on writing to what no longer matters. What Crash returns has been found on the
// disk, so all of it is durable; nothing there is locked or fails, and no call has been counted.
//
// # What fails
//
// Every call through the interface is counted, reads included, and its label is recorded; see Calls and Labels. Fail,
// FailLabel and FailFrom choose which ones fail. A call that fails changes nothing, with these exceptions: a write has
// written half of its bytes, a Sync has done what is said above, and a Close has closed. Limit makes the disk full, so that a write fails after any part of it. WriteFile, ReadFile and Names
// are for the test itself; they are not counted and do not fail.
//
// Every directory exists. A file has one name, and can be renamed only within its directory, which is all that persistence
// does. A file that is removed, or loses its name to another one, goes on to exist for those who have it open.
//
// An FS may be used by many goroutines at once.
package crashfs

import (
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"slices"
	"sync"
	"syscall"

	"cellserver/persistence"
)

// FS is a file system. Make one with New.
type FS struct {
	mu      sync.Mutex
	names   map[string]*inode // by path, as the program sees them
	durable map[string]*inode // as a loss of power would leave them at least
	pending []change          // of names, not yet durable, oldest first
	locked  map[string]bool   // by directory
	labels  []string          // of all calls
	seen    map[string]int    // how many calls had a label
	faults  []fault
	limited bool
	limit   int // of bytes, if limited
}

var _ persistence.FS = (*FS)(nil)

// New makes a file system without files.
func New() *FS {
	return &FS{
		names: map[string]*inode{}, durable: map[string]*inode{}, locked: map[string]bool{}, seen: map[string]int{},
	}
}

// WriteFile puts a durable file in place, as a run long ago may have left it.
func (f *FS) WriteFile(path string, data []byte) {
	f.mu.Lock()
	defer f.mu.Unlock()
	path = filepath.Clean(path)
	n := newInode(data)
	f.names[path], f.durable[path] = n, n
	f.pending = slices.DeleteFunc(f.pending, func(c change) bool { return c.from == path || c.to == path })
}

// ReadFile returns what the program would read in a file.
func (f *FS) ReadFile(path string) ([]byte, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	n, err := f.find("read", path)
	if err != nil {
		return nil, err
	}
	return slices.Clone(n.data), nil
}

// Names returns the names in dir that the program would see, sorted.
func (f *FS) Names(dir string) []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.list(dir)
}

func (f *FS) list(dir string) []string {
	var names []string
	for path := range f.names {
		if filepath.Dir(path) == filepath.Clean(dir) {
			names = append(names, filepath.Base(path))
		}
	}
	slices.Sort(names)
	return names
}

// find returns the file at path, or the error of an operation that needs one.
func (f *FS) find(op, path string) (*inode, error) {
	n := f.names[filepath.Clean(path)]
	if n == nil {
		return nil, &fs.PathError{Op: op, Path: path, Err: fs.ErrNotExist}
	}
	return n, nil
}

// Create implements persistence.FS. Emptying a file that exists is as durable as truncating it.
func (f *FS) Create(label, path string) (persistence.File, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.call(label); err != nil {
		return nil, err
	}
	path = filepath.Clean(path)
	n := f.names[path]
	if n == nil {
		n = newInode(nil)
		f.apply(change{to: path, node: n})
	} else {
		n.truncate(0)
	}
	return &file{fs: f, node: n, label: label, path: path, writable: true}, nil
}

// OpenAppend implements persistence.FS.
func (f *FS) OpenAppend(label, path string) (persistence.File, error) {
	return f.open(label, path, true)
}

// Open implements persistence.FS.
func (f *FS) Open(label, path string) (persistence.File, error) { return f.open(label, path, false) }

func (f *FS) open(label, path string, writable bool) (persistence.File, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.call(label); err != nil {
		return nil, err
	}
	n, err := f.find("open", path)
	if err != nil {
		return nil, err
	}
	return &file{fs: f, node: n, label: label, path: path, writable: writable, appends: writable}, nil
}

// Rename implements persistence.FS. Another directory is an error.
func (f *FS) Rename(label, from, to string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.call(label); err != nil {
		return err
	}
	n, err := f.find("rename", from)
	if err != nil {
		return err
	}
	from, to = filepath.Clean(from), filepath.Clean(to)
	if filepath.Dir(from) != filepath.Dir(to) {
		return fmt.Errorf("rename %s %s: into another directory", from, to)
	}
	if from != to {
		f.apply(change{from: from, to: to, node: n})
	}
	return nil
}

// Remove implements persistence.FS.
func (f *FS) Remove(label, path string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.call(label); err != nil {
		return err
	}
	if _, err := f.find("remove", path); err != nil {
		return err
	}
	f.apply(change{from: filepath.Clean(path)})
	return nil
}

// Truncate implements persistence.FS. It also lengthens, with zeros.
func (f *FS) Truncate(label, path string, size int64) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.call(label); err != nil {
		return err
	}
	n, err := f.find("truncate", path)
	if err != nil {
		return err
	}
	if size < 0 {
		return &fs.PathError{Op: "truncate", Path: path, Err: fs.ErrInvalid}
	}
	if more := int(size) - len(n.data); more > f.room(more) {
		return &fs.PathError{Op: "truncate", Path: path, Err: syscall.ENOSPC}
	}
	n.truncate(int(size))
	return nil
}

// SyncDir implements persistence.FS.
func (f *FS) SyncDir(label, dir string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.call(label); err != nil {
		return err
	}
	f.pending = slices.DeleteFunc(f.pending, func(c change) bool {
		if c.dir() != filepath.Clean(dir) {
			return false
		}
		c.apply(f.durable)
		return true
	})
	return nil
}

// ReadDir implements persistence.FS.
func (f *FS) ReadDir(label, dir string) ([]string, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.call(label); err != nil {
		return nil, err
	}
	return f.list(dir), nil
}

// Lock implements persistence.FS: this FS is the machine, and whoever locks is a process of its own.
func (f *FS) Lock(label, dir string) (io.Closer, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.call(label); err != nil {
		return nil, err
	}
	dir = filepath.Clean(dir)
	if f.locked[dir] {
		return nil, fmt.Errorf("dir %s is %w", dir, persistence.ErrLocked)
	}
	f.locked[dir] = true
	return &lock{fs: f, dir: dir}, nil
}

// lock is a directory that is locked.
type lock struct {
	fs  *FS // nil once it is closed
	dir string
}

// Close ends the lock.
func (l *lock) Close() error {
	if l.fs == nil {
		return fs.ErrClosed
	}
	l.fs.mu.Lock()
	defer l.fs.mu.Unlock()
	delete(l.fs.locked, l.dir)
	l.fs = nil
	return nil
}
