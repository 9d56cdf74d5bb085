package persistence

import (
	"errors"
	"fmt"
	"io"
	"path/filepath"

	"cellserver/buckets/memory"
)

// errOldJournal is returned by a rewrite when the file that it is to replace can no longer be written.
var errOldJournal = errors.New("the old journal could not be written any more")

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
	old, from, keys, err := j.writeBase(f, now)
	if err != nil {
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

// writeBase writes the base of the new file. It returns the file whose later changes are to be copied behind the base, and the
// offset at which they begin; the file is nil if there is none that can be written.
//
// Those changes begin before the copy that the base is made of. Applying them again to a base that has them does no harm, except
// for swaps of databases. So writeBase first takes the changes from the store, with all swaps so far, and starts over if there
// is another swap before the copy begins.
func (j *journal) writeBase(f *Writer, now int64) (old File, from, keys int64, err error) {
	for {
		swaps := j.store.Swaps()
		if old, from, err = j.takeSwaps(); err != nil {
			return nil, 0, 0, err
		}
		keys, err = writeSnapshot(f, func(visit func(*memory.Part) error) error { return j.store.CopySince(now, swaps, visit) })
		if !errors.Is(err, memory.ErrSwapped) {
			return old, from, keys, err
		}
	}
}

// takeSwaps takes the changes so far from the store, with the swaps among them. It returns the file, or nil if it cannot be
// written, and the offset at which later changes begin.
func (j *journal) takeSwaps() (old File, from int64, err error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	switch {
	case j.complete():
		if err := j.append(false); err != nil { // the next rewrite does not use the old file
			return nil, 0, errors.Join(errOldJournal, err)
		}
		return j.file, j.end, nil
	case !j.tracking:
		return nil, 0, errRestarted
	}
	j.keepPending(j.takeChanges())
	return nil, 0, nil
}

// keepPending keeps changes for repair to write to the file, if there is one and they are not too many. It requires that mu is
// held.
func (j *journal) keepPending(b changeSet) {
	if j.file != nil && b.count > 0 {
		if j.pending = append(j.pending, b); j.pendingBytes() > maxPending {
			j.drop()
		}
	}
}

// copyRest appends the latest changes to the old file, and copies everything after the offset from to the new file. It requires
// that mu is held.
func (j *journal) copyRest(to io.Writer, old File, from int64) (n int64, err error) {
	if err := j.append(false); err != nil || j.file != old { // the next rewrite does not use the old file
		return 0, errors.Join(errOldJournal, err)
	}
	if n, err = io.Copy(to, io.NewSectionReader(old, from, j.end-from)); err != nil {
		return n, fmt.Errorf("reading %s: %w", j.name, err)
	}
	return n, nil
}

// writeRest writes the latest changes to the new file. It requires that mu is held.
func (j *journal) writeRest(f *Writer) error {
	b := j.takeChanges() // the store returns each change once
	j.keepPending(b)
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
