package persistence

import (
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"sync"
	"sync/atomic"

	"cellserver/buckets"
	"cellserver/buckets/memory"
)

// changeEncoder encodes the changes of the store as entries of a journal.
type changeEncoder struct{}

func (changeEncoder) AppendSet(dst []byte, e *buckets.Entry) []byte   { return AppendSet(dst, e) }
func (changeEncoder) AppendAmend(dst []byte, e *buckets.Entry) []byte { return AppendAmend(dst, e) }
func (changeEncoder) AppendDelete(dst, key []byte) []byte             { return AppendDelete(dst, key) }

// journal is the file that changes are appended to. mu is held while changes are appended, and while a rewritten file
// replaces the old one.
//
// While the store is tracked and there is no file, the store goes on noting changes; the next rewrite creates the file.
type journal struct {
	fsys      FS
	dir, name string
	store     *memory.Store

	mu         sync.Mutex
	tracking   bool // the store notes what changes (see memory.Store.Track)
	file       File // nil while there is none, or it cannot be trusted
	w          *Writer
	end        int64 // offset in the file at which the last whole section ends
	base       int64 // size of the file in bytes when it was loaded or rewritten
	generation uint64
	latest     uint64 // the highest generation that a file in the directory has or may have
	fault      error  // why nothing is appended although a journal is kept
	restarts   int    // a rewrite that began before the last restart starts over
	buffer     []byte // to be reused for the next changeSet

	// The store returns each change once, so changes stay pending until they are durable: a failed sync may lose them
	// from the file.
	pending        []changeSet
	pendingWritten int // the first so many of pending are in the file
	synced         position

	// Copies that are read without mu.
	shownFault           atomic.Pointer[JournalFault] // fault
	shownSize, shownBase atomic.Int64
}

// changeSet is what has changed between two writes: the payload of one section, or of a batch of sections.
type changeSet struct {
	payload []byte
	count   int
	buffer  []byte // that contains payload
}

// position is an offset in the file up to which everything is durable. The zero position means that there is none from
// which the file could be written again: not all changes since the last one are pending.
type position struct {
	end        int64
	generation uint64
}

// errNoFile is returned while the store is tracked and the first rewrite has not created the file.
var errNoFile = errors.New("the journal has not been written yet")

// errRestarted is returned by a rewrite during which restart was called.
var errRestarted = errors.New("the journal was turned on or off meanwhile")

// restart makes the store note changes, or stop noting them if enc is nil, and closes the file. Changes of the time in
// between are not noted, so only a file that is begun after restart has them.
func (j *journal) restart(enc memory.Encoder) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.store.Track(enc)
	j.tracking = enc != nil
	j.drop()
	j.setFault(nil)
	j.restarts++
}

// resume makes the journal append to a file that has been loaded up to offset, which is its size.
func (j *journal) resume(offset int64, generation uint64) error {
	file, err := j.fsys.OpenAppend("journal", filepath.Join(j.dir, j.name))
	if err != nil {
		return err
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	j.use(file, offset, generation)
	return nil
}

// use makes file the one that is appended to. It requires that mu is held, and that file is synced and size bytes long.
func (j *journal) use(file File, size int64, generation uint64) {
	j.drop()
	j.file, j.w, j.base = file, ResumeJournal(file, size), size
	j.end, j.generation, j.synced = size, generation, position{size, generation}
	j.latest = max(j.latest, generation)
	j.setFault(nil)
	j.shownSize.Store(size)
	j.shownBase.Store(size)
}

// drop closes the file and forgets pending changes. It requires that mu is held.
func (j *journal) drop() {
	if j.file != nil {
		_ = j.file.Close("journal: close") // everything that matters has been synced
	}
	j.file, j.w, j.pending, j.pendingWritten, j.synced = nil, nil, nil, 0, position{}
	j.shownSize.Store(0)
	j.shownBase.Store(0)
}

// complete reports whether the file has all changes, or gets them with the next write. It requires that mu is held.
func (j *journal) complete() bool { return j.file != nil && j.fault == nil }

// write appends the changes since the last write, of which loading applies all or none. With sync they are durable when
// write returns.
//
// After an error nothing is written before repair or a rewrite has succeeded.
func (j *journal) write(sync bool) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.append(sync)
}

// append is write. It requires that mu is held.
func (j *journal) append(sync bool) error {
	switch {
	case j.fault != nil:
		return j.fault
	case j.file == nil:
		return errNoFile
	}
	if b := j.takeChanges(); b.count > 0 {
		j.pending = append(j.pending, b)
	}
	return j.writePending(sync)
}

// writePending appends the pending changes that are not in the file, and with sync makes them durable. It requires that
// mu is held.
func (j *journal) writePending(sync bool) error {
	for ; j.pendingWritten < len(j.pending); j.pendingWritten++ {
		if err := j.w.Changes(j.pending[j.pendingWritten].payload, j.pending[j.pendingWritten].count); err != nil {
			return j.undo(err)
		}
		j.advance()
	}
	if reached := (position{j.end, j.generation}); j.synced != reached {
		switch {
		case sync:
			if err := j.file.Sync("journal: sync"); err != nil {
				return j.undoSince(j.synced, err)
			}
			j.synced = reached
		case j.synced != (position{}) && j.pendingBytes() <= maxKeptBuffer: // they stay pending until somebody syncs
			return nil
		default:
			j.synced = position{}
		}
	}
	if len(j.pending) > 0 && cap(j.pending[0].buffer) <= maxKeptBuffer {
		j.buffer = j.pending[0].buffer
	}
	clear(j.pending)
	j.pending, j.pendingWritten = j.pending[:0], 0
	return nil
}

// advance sets end to the offset of the writer.
func (j *journal) advance() {
	j.end = j.w.Offset()
	j.shownSize.Store(j.end)
}

// undo makes an error of writing the fault, and cuts off the part of a section that was written.
func (j *journal) undo(err error) error {
	j.w = nil // the file may have a part of a section beyond end
	j.setFault(fmt.Errorf("writing %s: %w", j.name, err))
	_ = j.truncate() // otherwise repair does
	return j.fault
}

// undoSince undoes what was written after p, because a sync failed: the system may have dropped it, so that it never
// reaches the disk even if a later sync succeeds. If it is not pending any more, and so cannot be written again,
// undoSince abandons the file.
func (j *journal) undoSince(p position, err error) error {
	if p == (position{}) {
		return j.abandonFile(err)
	}
	j.end, j.generation, j.pendingWritten = p.end, p.generation, 0
	j.shownSize.Store(j.end)
	return j.undo(err)
}

// abandonFile closes the file and makes an error the fault, which only a rewrite clears.
func (j *journal) abandonFile(err error) error {
	j.drop()
	j.setFault(fmt.Errorf("writing %s: %w", j.name, err))
	return j.fault
}

// truncate cuts the file off at end, and makes a writer that appends there.
func (j *journal) truncate() error {
	if err := j.file.Truncate("journal: truncate", j.end); err != nil {
		return err
	}
	j.w = ResumeJournal(j.file, j.end)
	return nil
}

// repair clears a fault of the file: it cuts off a partly written section, and appends the pending changes and those
// since. The disk needs room for these changes only, and not for a second file. The error is the fault, if that
// remains.
func (j *journal) repair(sync bool) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.fault == nil || j.file == nil {
		return j.fault
	}
	if j.w == nil {
		if err := j.truncate(); err != nil {
			return j.undo(err)
		}
	}
	if j.latest > j.generation { // a snapshot of a higher generation was written, or is being written
		generation := j.nextGeneration()
		if err := j.w.Generation(generation); err != nil {
			return j.undo(err)
		}
		j.generation = generation
		j.advance()
	}
	if err := j.writePending(sync); err != nil {
		return err
	}
	j.restarts++ // a rewrite under way lacks the changes that are taken from the store here
	j.setFault(nil)
	return j.append(sync)
}

// nextGeneration returns a generation that is higher than those of all files. It requires that mu is held.
func (j *journal) nextGeneration() uint64 {
	j.latest = min(j.latest+1, MaxGeneration)
	return j.latest
}

// snapshotGeneration returns the generation of a snapshot that is about to be taken. That is the generation of the
// journal if the journal is complete, because it then has everything that the snapshot has and what comes later;
// loading prefers it.
func (j *journal) snapshotGeneration() (generation uint64, complete bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.complete() {
		return j.generation, true
	}
	return j.nextGeneration(), false
}

// Bounds of memory, in bytes: maxKeptBuffer of the buffer that is reused for the next changes, and maxPending of the
// changes that stay pending during a rewrite while the file cannot be written.
const (
	maxKeptBuffer = 1 << 20
	maxPending    = 64 << 20
)

func (j *journal) pendingBytes() (bytes int) {
	for _, b := range j.pending {
		bytes += cap(b.buffer)
	}
	return bytes
}

// takeChanges returns the changes that the store has noted since the last call, as a payload.
func (j *journal) takeChanges() changeSet {
	// The flush entry goes in front, and whether there is one is known only at the end.
	buffer := AppendFlush(j.buffer[:0])
	j.buffer = nil
	front := len(buffer)
	buffer, count, flushed := j.store.Changes(buffer)
	switch {
	case flushed:
		return changeSet{buffer, count + 1, buffer}
	case count == 0:
		j.buffer = buffer[:0]
	}
	return changeSet{buffer[front:], count, buffer}
}

func (j *journal) setFault(err error) {
	if j.fault = err; err == nil {
		j.shownFault.Store(nil)
		return
	}
	j.shownFault.Store(&JournalFault{err})
}

// failWithoutFile makes why, the error of a rewrite, the fault if there is no file and no other fault. It returns why,
// or errRestarted if restart was called since restarts was read.
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

// size returns the size of the file in bytes, now and when it was loaded or rewritten. Both are 0 if there is no file.
func (j *journal) size() (now, base int64) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.file == nil {
		return 0, 0
	}
	return j.end, j.base
}

// state returns whether the journal is complete, and the fault.
func (j *journal) state() (complete bool, fault error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.complete(), j.fault
}

// rewrite replaces the file by a new one, whose base is what the store holds at now, and returns the number of keys in
// it. Meanwhile changes go to the old file, if that can be written, and are copied from there.
//
// Before the new file replaces the old one, every change that its base may include has been written to both. So
// whatever is lost after that, loading restores a state of one moment.
func (j *journal) rewrite(now int64) (keys int64, err error) {
	const label = "journal rewrite"
	j.mu.Lock()
	restarts, generation, on := j.restarts, j.nextGeneration(), j.tracking
	j.mu.Unlock()
	if !on { // the journal was turned off after the rewrite was requested
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
	if old != nil { // copies most of the changes while others may still write
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
		case r.renamed: // the new file has the name; the old one cannot be used any more
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

// copyRest appends the latest changes to the old file, and copies what has been appended to it since from to a rewrite. It
// requires that mu is held.
func (j *journal) copyRest(to io.Writer, old File, from int64) (n int64, err error) {
	if err := j.append(false); err != nil || j.file != old { // the next rewrite does without the old file
		return 0, errors.Join(errors.New("the old journal could not be written any more"), err)
	}
	if n, err = io.Copy(to, io.NewSectionReader(old, from, j.end-from)); err != nil {
		return n, fmt.Errorf("reading %s: %w", j.name, err)
	}
	return n, nil
}

// writeRest writes the latest changes to a rewrite. It requires that mu is held.
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

// failRewrite makes an error of a rewrite the fault, unless there is a file that repair may still mend. It requires
// that mu is held.
func (j *journal) failRewrite(err error) error {
	if j.file != nil {
		return err
	}
	return j.abandonFile(err)
}
