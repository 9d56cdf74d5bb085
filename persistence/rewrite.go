package persistence

import (
	"errors"
	"fmt"
	"io"
	"path/filepath"
)

// errRestarted is returned by a rewrite during which restart was called.
var errRestarted = errors.New("the journal was turned on or off meanwhile")

// rewrite replaces the file by a new one, whose base is a copy of the store at now, and returns the number of keys in it. Changes
// during the rewrite go to the old file, if it can be written, and are copied from there.
//
// Before the new file replaces the old one, every change that its base may include has been written to both. So whatever is
// lost after that, loading restores the state of one moment.
func (j *journal) rewrite(now int64) (keys int64, err error) {
	const label = "journal rewrite"
	j.mu.Lock()
	restarts, generation, on := j.restarts, j.nextGeneration(), j.tracking
	j.mu.Unlock()
	if !on { // the journal was turned off since the rewrite was requested
		return 0, errRestarted
	}
	defer func() {
		if err != nil {
			err = j.failWithoutFile(restarts, err)
		}
	}()
	r, err := Replace(j.fsys, label, j.dir, j.name)
	if err != nil {
		return 0, err
	}
	defer r.Abort()
	f, err := NewWriter(r, JournalFile, now, generation)
	if err != nil {
		return 0, err
	}
	j.mu.Lock()
	var old File
	from := j.end
	if j.complete() {
		old = j.file
	}
	j.mu.Unlock()

	if keys, err = writeSnapshot(f, j.store, now); err != nil {
		return keys, err
	}
	size := f.Offset()
	if old != nil { // copies most of the changes before mu is locked, so that it is held for a short time only
		to, _ := j.size()
		n, err := io.Copy(r, io.NewSectionReader(old, from, max(0, to-from)))
		if err != nil {
			return keys, fmt.Errorf("reading %s: %w", j.name, err)
		}
		from, size = from+n, size+n
	}
	if err := r.Sync(); err != nil {
		return keys, err
	}

	j.mu.Lock()
	defer j.mu.Unlock()
	if j.restarts != restarts {
		return keys, errRestarted
	}
	if old != nil {
		n, err := j.copyRest(r, old, from)
		if err != nil {
			return keys, err
		}
		size += n
	} else {
		if err := j.writeRest(f); err != nil {
			return keys, err
		}
		size = f.Offset()
	}
	if err := r.Commit(); err != nil {
		switch {
		case r.renamed: // the new file has the name, so the old one is of no use
			err = j.abandonFile(err)
		case old == nil:
			err = j.failRewrite(err)
		}
		return keys, err
	}
	file, err := j.fsys.OpenAppend("journal", filepath.Join(j.dir, j.name))
	if err != nil {
		return keys, j.abandonFile(err)
	}
	j.use(file, size, generation)
	return keys, nil
}

// copyRest appends the latest changes to the old file, and copies everything after the offset from to the new file. It requires
// that mu is held.
func (j *journal) copyRest(to io.Writer, old File, from int64) (n int64, err error) {
	if err := j.append(false); err != nil || j.file != old { // the next rewrite does not use the old file
		return 0, errors.Join(errors.New("the old journal could not be written any more"), err)
	}
	if n, err = io.Copy(to, io.NewSectionReader(old, from, j.end-from)); err != nil {
		return n, fmt.Errorf("reading %s: %w", j.name, err)
	}
	return n, nil
}

// writeRest writes the latest changes to the new file. It requires that mu is held.
func (j *journal) writeRest(f *Writer) error {
	b := j.takeChanges() // the store returns each change once
	if j.file != nil && b.count > 0 {
		if j.pending = append(j.pending, b); j.pendingBytes() > maxPending {
			j.drop()
		}
	}
	if err := f.Changes(b.payload, b.count); err != nil {
		return j.failRewrite(err)
	}
	return nil
}

// failRewrite makes an error of a rewrite the fault, unless there is a file that repair can still recover. It requires
// that mu is held.
func (j *journal) failRewrite(err error) error {
	if j.file != nil {
		return err
	}
	return j.abandonFile(err)
}

// failWithoutFile makes why, the error of a rewrite, the fault if there is no file and no other fault. It returns why, or
// errRestarted if restart was called since restarts was read.
func (j *journal) failWithoutFile(restarts int, why error) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.restarts != restarts {
		return errRestarted
	}
	if j.file == nil && j.fault == nil {
		j.setFault(why)
	}
	return why
}
