package persistence

import (
	"bufio"
	"errors"
	"io"
	"path/filepath"
)

// replacementBuffer is how many bytes a Replacement gathers before it writes them: so few that the copying, in which the
// kernel lets nobody interrupt it, does not keep requests waiting.
const replacementBuffer = 64 << 10

// syncEvery is after how many bytes a Replacement makes durable what has been written. At the end, the kernel would have
// all of it to do at once, and let nobody else have that processor for milliseconds.
const syncEvery = 4 << 20

// Replacement is a file that is being written to take the place of another one, whole or not at all. Until Commit it has
// a temporary name in the same directory.
type Replacement struct {
	fsys             FS
	label, dir       string
	temporary, final string
	file             File // nil once it is closed
	out              *bufio.Writer
	unsynced         int   // bytes written since the last Sync
	err              error // of the first failure, which every later call returns
	renamed          bool  // the new file has the name, for now or for good
}

// errReplacementDone is the error of using a Replacement after its end.
var errReplacementDone = errors.New("the file has been put in place, or given up, already")

// Replace begins to replace the file name in dir, or to make it. Its calls bear label followed by ": write", ": sync",
// ": close", ": rename", ": sync dir" and ": remove"; that which opens the temporary file bears label alone.
//
// Commit or Abort ends it.
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

// Write appends to the file. An error may come later than the bytes that it is about.
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

// Sync makes what was written so far durable, so that Commit has less to do. Its call bears the label of Commit's.
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

// Commit makes what was written durable and puts it in the place of the old file, and returns when that is durable, too.
//
// On an error the old file is what it was and the temporary one is removed, with one exception: when the directory cannot
// be synced at last, the new file is in place, but after a loss of power either may be found. Both are whole.
func (r *Replacement) Commit() error {
	if err := r.finish(); err != nil {
		r.Abort()
		return err
	}
	r.err = errReplacementDone
	return r.fsys.SyncDir(r.label+": sync dir", r.dir)
}

// finish does all of Commit that can still be undone, and the renaming, with which it cannot.
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

// Abort gives up, and removes the temporary file as well as it can: what it cannot remove is left for RemoveLeftovers. It
// does nothing after Commit or another Abort.
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

// WriteDurably replaces the file name in dir by what write writes, or makes it: whole and durable when nil is returned. On
// an error, write's own among them, the old file is what it was; see Commit for the one exception.
func WriteDurably(fsys FS, label, dir, name string, write func(io.Writer) error) error {
	r, err := Replace(fsys, label, dir, name)
	if err != nil {
		return err
	}
	defer r.Abort() // also when write panics
	if err := write(r); err != nil {
		return err
	}
	return r.Commit()
}
