package crashfs

import (
	"io"
	"io/fs"
	"slices"
	"syscall"
)

// inode is a file, whatever its name.
type inode struct {
	data    []byte  // as the program sees it
	durable []byte  // as of the last Sync
	since   []write // what turned durable into data
	clean   int     // so many bytes at the beginning have been durable throughout
	doomed  bool    // a Sync failed, and what it was about is still there
}

// write is one change of a file's bytes: a cut or lengthening to size, or data at off.
type write struct {
	truncate bool
	size     int // truncate
	off      int
	data     []byte
}

func newInode(data []byte) *inode {
	return &inode{data: slices.Clone(data), durable: slices.Clone(data), clean: len(data)}
}

func (n *inode) truncate(size int) {
	n.do(write{truncate: true, size: size}, size)
	if size <= n.clean {
		n.doomed = false
	}
}

func (n *inode) writeAt(b []byte, off int) {
	if len(b) > 0 {
		n.do(write{off: off, data: slices.Clone(b)}, off)
	}
}

// do makes a change, which leaves the bytes before from as they are.
func (n *inode) do(w write, from int) {
	n.data = w.apply(n.data)
	n.since = append(n.since, w)
	n.clean = min(n.clean, from)
}

func (n *inode) sync() {
	if n.doomed {
		return
	}
	for _, w := range n.since {
		n.durable = w.apply(n.durable)
	}
	n.since, n.clean = nil, len(n.durable)
}

// apply returns b after the change. It may change b.
func (w write) apply(b []byte) []byte {
	if w.truncate {
		return resize(b, w.size)
	}
	b = resize(b, max(len(b), w.off+len(w.data)))
	copy(b[w.off:], w.data)
	return b
}

func resize(b []byte, size int) []byte {
	if size <= len(b) {
		return b[:size]
	}
	return append(b, make([]byte, size-len(b))...)
}

// file is an open file.
type file struct {
	fs          *FS
	node        *inode
	label, path string
	writable    bool
	appends     bool
	at          int // where the next write goes, unless it appends
	closed      bool
}

// begin counts a call and returns what is wrong with it.
func (f *file) begin(op, label string) error {
	if err := f.fs.call(label); err != nil {
		return err
	}
	return f.usable(op)
}

func (f *file) usable(op string) error {
	if f.closed {
		return &fs.PathError{Op: op, Path: f.path, Err: fs.ErrClosed}
	}
	return nil
}

// Write implements io.Writer.
func (f *file) Write(b []byte) (int, error) {
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	half, failure := f.fs.callWrite(f.label + ": write")
	if err := f.usable("write"); err != nil {
		return 0, err
	}
	if !f.writable {
		return 0, &fs.PathError{Op: "write", Path: f.path, Err: fs.ErrPermission}
	}
	switch {
	case failure != nil && half:
		b = b[:len(b)/2]
	case failure != nil:
		b = nil
	}
	if f.appends {
		f.at = len(f.node.data)
	}
	more := f.at + len(b) - len(f.node.data)
	if lacks := more - f.fs.room(more); lacks > 0 && failure == nil {
		b = b[:len(b)-lacks]
		failure = &fs.PathError{Op: "write", Path: f.path, Err: syscall.ENOSPC}
	}
	f.node.writeAt(b, f.at)
	f.at += len(b)
	return len(b), failure
}

// ReadAt implements io.ReaderAt.
func (f *file) ReadAt(b []byte, off int64) (int, error) {
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	if err := f.begin("read", f.label+": read"); err != nil {
		return 0, err
	}
	if off < 0 {
		return 0, &fs.PathError{Op: "read", Path: f.path, Err: fs.ErrInvalid}
	}
	n := 0
	if off < int64(len(f.node.data)) {
		n = copy(b, f.node.data[off:])
	}
	if n < len(b) {
		return n, io.EOF
	}
	return n, nil
}

// Sync implements persistence.File.
func (f *file) Sync(label string) error {
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	if err := f.fs.call(label); err != nil {
		f.node.doomed = true
		return err
	}
	if err := f.usable("sync"); err != nil {
		return err
	}
	f.node.sync()
	return nil
}

// Truncate implements persistence.File. It also lengthens, with zeros.
func (f *file) Truncate(label string, size int64) error {
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	if err := f.begin("truncate", label); err != nil {
		return err
	}
	if !f.writable || size < 0 {
		return &fs.PathError{Op: "truncate", Path: f.path, Err: fs.ErrInvalid}
	}
	if more := int(size) - len(f.node.data); more > f.fs.room(more) {
		return &fs.PathError{Op: "truncate", Path: f.path, Err: syscall.ENOSPC}
	}
	f.node.truncate(int(size))
	return nil
}

// Close implements persistence.File.
func (f *file) Close(label string) error {
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	err := f.begin("close", label)
	f.closed = true
	return err
}

// Size implements persistence.File.
func (f *file) Size(label string) (int64, error) {
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	if err := f.begin("size", label); err != nil {
		return 0, err
	}
	return int64(len(f.node.data)), nil
}
