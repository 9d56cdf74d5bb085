package persistence

import (
	"bufio"
	"errors"
	"io"
	"path/filepath"
)

// replacementBuffer is how many bytes a Replacement buffers before it writes them. It is small because the kernel
// copies them without interruption, and requests wait meanwhile.
const replacementBuffer = 64 << 10

// syncEvery is after how many bytes a Replacement syncs the file. A single sync at the end would keep the kernel, and
// with it a processor, busy for milliseconds.
const syncEvery = 4 << 20

// Replacement is a file that replaces another one, completely or not at all. Until Commit it has a temporary name in
// the same directory.
type Replacement struct {
	fsys             FS
	label, dir       string
	temporary, final string
	file             File // nil once it is closed
	out              *bufio.Writer
	unsynced         int   // bytes written since the last Sync
	err              error // the first error, which every later call returns
	renamed          bool  // the new file has the final name, durably or not yet
}

// errReplacementDone is returned after Commit or Abort.
var errReplacementDone = errors.New("the file has been put in place, or given up, already")

// Replace begins to replace, or to create, the file name in dir. The call that opens the temporary file has the given
// label; the others have label followed by ": write", ": sync", ": close", ": rename", ": sync dir" and ": remove".
//
// Either Commit or Abort must be called.
func Replace(fsys FS, label, dir, name string) (*Replacement, error) {
	r := &Replacement{
		fsys: fsys, label: label, dir: dir,
		temporary: filepath.Join(dir, name+temporarySuffix),
		final:     filepath.Join(dir, name),
	}
	var err error
	if r.file, err = fsys.Create(label, r.temporary); err != nil {
		return nil, err
	}
	r.out = bufio.NewWriterSize(r.file, replacementBuffer)
	return r, nil
}

// Write appends to the file. Because of buffering, an error may concern the bytes of an earlier call.
func (r *Replacement) Write(b []byte) (int, error) {
	if r.err != nil {
		return 0, r.err
	}
	n, err := r.out.Write(b)
	r.err = err
	if r.unsynced += n; r.unsynced >= syncEvery && r.err == nil {
		r.err = r.Sync()
	}
	return n, r.err
}

// Sync makes what was written so far durable, so that Commit has less to do. Its call has the same label as that of
// Commit.
func (r *Replacement) Sync() error {
	if r.err == nil {
		r.err = r.out.Flush()
	}
	if r.err == nil {
		r.err = r.file.Sync(r.label + ": sync")
	}
	r.unsynced = 0
	return r.err
}

// Commit makes the file durable and gives it the final name, durably.
//
// On an error the old file is unchanged and the temporary one is removed, with one exception: if the directory cannot
// be synced in the end, the new file has the name, and after a loss of power either file may have it. Both are
// complete.
func (r *Replacement) Commit() error {
	if err := r.finish(); err != nil {
		r.Abort()
		return err
	}
	r.err = errReplacementDone
	return r.fsys.SyncDir(r.label+": sync dir", r.dir)
}

// finish does everything in Commit but syncing the directory. The rename, which comes last, cannot be undone.
func (r *Replacement) finish() error {
	if r.err != nil {
		return r.err
	}
	if err := r.out.Flush(); err != nil {
		return err
	}
	if err := r.file.Sync(r.label + ": sync"); err != nil {
		return err
	}
	file := r.file
	r.file = nil
	if err := file.Close(r.label + ": close"); err != nil {
		return err
	}
	if err := r.fsys.Rename(r.label+": rename", r.temporary, r.final); err != nil {
		return err
	}
	r.renamed = true
	return nil
}

// Abort closes and removes the temporary file. If that fails, the file is left for RemoveLeftovers. After Commit or
// Abort it does nothing.
func (r *Replacement) Abort() {
	if r.err == errReplacementDone {
		return
	}
	r.err = errReplacementDone
	if r.file != nil {
		_ = r.file.Close(r.label + ": close")
		r.file = nil
	}
	_ = r.fsys.Remove(r.label+": remove", r.temporary)
}

// WriteDurably replaces, or creates, the file name in dir by what write writes. If it returns nil, the file is complete
// and durable. On an error, including that of write, the old file is unchanged; see Commit for the one exception.
func WriteDurably(fsys FS, label, dir, name string, write func(io.Writer) error) error {
	r, err := Replace(fsys, label, dir, name)
	if err != nil {
		return err
	}
	defer r.Abort() // also if write panics
	if err := write(r); err != nil {
		return err
	}
	return r.Commit()
}
