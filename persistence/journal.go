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

// changeEncoder makes the store's changes entries of a journal.
type changeEncoder struct{}

func (changeEncoder) AppendSet(dst []byte, e *buckets.Entry) []byte   { return AppendSet(dst, e) }
func (changeEncoder) AppendAmend(dst []byte, e *buckets.Entry) []byte { return AppendAmend(dst, e) }
func (changeEncoder) AppendDelete(dst, key []byte) []byte             { return AppendDelete(dst, key) }

// journal is the file that changes are appended to. mu is held while they are, and while one file takes the place of
// another.
//
// A store that is tracked without a file goes on noting what changes; a rewrite makes the file that takes it.
type journal struct {
	fsys      FS
	dir, name string
	store     *memory.Store

	mu         sync.Mutex
	tracking   bool // the store notes what changes
	file       File // nil while there is none, or it cannot be trusted any more
	w          *Writer
	end        int64 // where the last whole write ends in the file
	base       int64 // size of the file when it was loaded or rewritten
	generation uint64
	latest     uint64 // the highest generation that any file in the directory has, or may have
	fault      error  // why there is no file, or nothing is appended to it, though it should be
	restarts   int    // whoever began to write a file before the last one has to begin anew
	buffer     []byte // for the next changes

	// The store tells its changes once: those that a failure may undo are kept until they are durable.
	pending        []changeSet
	pendingWritten int // so many of kept are in the file
	synced         position

	// For those who do not wait.
	shownFault           atomic.Pointer[JournalFault] // fault
	shownSize, shownBase atomic.Int64
}

// batch is what has changed between two writes: the payload of one section.
type changeSet struct {
	payload []byte
	count   int
	buffer  []byte // that payload is in
}

// mark is a place in the file up to which everything is durable. The zero mark is no such place: of what was written
// since the last one, not all has been kept.
type position struct {
	end        int64
	generation uint64
}

// errNoFile is returned while a journal has yet to be written.
var errNoFile = errors.New("the journal has not been written yet")

// errRestarted is returned by a rewrite that has been overtaken by a restart.
var errRestarted = errors.New("the journal was turned on or off meanwhile")

// restart begins to note what changes, or ends it when enc is nil, and lets go of the file: what was not noted in between
// is in none but one that is begun after this.
func (j *journal) restart(enc memory.Encoder) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.store.Track(enc)
	j.tracking = enc != nil
	j.drop()
	j.setFault(nil)
	j.restarts++
}

// resume goes on with a file that has been loaded up to offset.
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

// take makes file, which is synced and ends at size, the one that is appended to.
func (j *journal) use(file File, size int64, generation uint64) {
	j.drop()
	j.file, j.w, j.base = file, ResumeJournal(file, size), size
	j.end, j.generation, j.synced = size, generation, position{size, generation}
	j.latest = max(j.latest, generation)
	j.setFault(nil)
	j.shownSize.Store(size)
	j.shownBase.Store(size)
}

// drop lets go of the file.
func (j *journal) drop() {
	if j.file != nil {
		_ = j.file.Close("journal: close") // what matters has been synced
	}
	j.file, j.w, j.pending, j.pendingWritten, j.synced = nil, nil, nil, 0, position{}
	j.shownSize.Store(0)
	j.shownBase.Store(0)
}

// complete reports whether the file has, or is about to get, all that changes.
func (j *journal) complete() bool { return j.file != nil && j.fault == nil }

// write appends what has changed since the last time, in one section, so that it is loaded wholly or not at all; with
// sync it is durable when write returns.
//
// After an error nothing is written until recover, or a rewrite, has made the file whole.
func (j *journal) write(sync bool) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.append(sync)
}

// append is write with mu held.
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

// writePending appends those of kept that are not in the file, and with sync makes them durable.
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
		case j.synced != (position{}) && j.pendingBytes() <= maxKeptBuffer: // which is enough unless nobody ever syncs
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

// wrote says that the file is whole up to where out is.
func (j *journal) advance() {
	j.end = j.w.Offset()
	j.shownSize.Store(j.end)
}

// undo makes an error of writing the fault, and cuts off what has been written of the section.
func (j *journal) undo(err error) error {
	j.w = nil // there may be a part of a section beyond end
	j.setFault(fmt.Errorf("writing %s: %w", j.name, err))
	_ = j.truncate() // or else recover does
	return j.fault
}

// undoSince is undo when what has been written since m may never reach the disk, even if a later sync succeeds: the system
// may have dropped it. It has to be written anew. When it has not been kept, the file is given up.
func (j *journal) undoSince(p position, err error) error {
	if p == (position{}) {
		return j.abandonFile(err)
	}
	j.end, j.generation, j.pendingWritten = p.end, p.generation, 0
	j.shownSize.Store(j.end)
	return j.undo(err)
}

// giveUp lets go of the file and makes an error the fault: only a rewrite mends it.
func (j *journal) abandonFile(err error) error {
	j.drop()
	j.setFault(fmt.Errorf("writing %s: %w", j.name, err))
	return j.fault
}

// cut cuts the file to its whole part, after which out goes on with it.
func (j *journal) truncate() error {
	if err := j.file.Truncate("journal: truncate", j.end); err != nil {
		return err
	}
	j.w = ResumeJournal(j.file, j.end)
	return nil
}

// recover makes a file whole that could not be written, and goes on with it: it cuts off what was written in part, and
// appends what has changed since. For this the disk needs room for the changes, and for no more. On an error, which is
// the fault, all is as it was.
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
	if j.latest > j.generation { // somebody has, or is about to get, a snapshot that is newer than this file was
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
	j.restarts++ // a file that is being written does not have what the store tells now
	j.setFault(nil)
	return j.append(sync)
}

// next returns a generation that is higher than those of all files.
func (j *journal) nextGeneration() uint64 {
	j.latest = min(j.latest+1, MaxGeneration)
	return j.latest
}

// snapshotGeneration returns the generation of a snapshot that is about to be taken: that of the journal if the journal is
// complete, since it then has all that the snapshot has, and what comes later.
func (j *journal) snapshotGeneration() (generation uint64, complete bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.complete() {
		return j.generation, true
	}
	return j.nextGeneration(), false
}

// maxKeptBuffer is the most room that is kept for the next changes, and maxPending the most that is kept of changes while
// they cannot be written.
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

// changes returns what the store tells of its changes, as the payload of a section.
func (j *journal) takeChanges() changeSet {
	// There is room for the Flush in front that is only known about at the end.
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

// missing says why there is no file, if there is none. It returns why, or errRestarted when that is why.
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

// size returns how long the file is, and how long it was when it was new; 0 when there is none.
func (j *journal) size() (now, base int64) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.file == nil {
		return 0, 0
	}
	return j.end, j.base
}

// state returns whether there is a file that is appended to, and why there is none if there should be.
func (j *journal) state() (complete bool, fault error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.complete(), j.fault
}

// rewrite makes a new file of what the store holds, and goes on with it. Meanwhile changes go to the old one, if there is
// one that can be written, and are copied from there.
//
// When the new file takes the place of the old one, all that its snapshot may have seen is in changes that both have: so
// whatever is lost after that, what is loaded is of one moment.
func (j *journal) rewrite(now int64) (keys int64, err error) {
	const label = "journal rewrite"
	j.mu.Lock()
	restarts, generation, on := j.restarts, j.nextGeneration(), j.tracking
	j.mu.Unlock()
	if !on { // it was turned off after somebody asked for this
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
	if old != nil { // most of it while others may still write
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
		if err := j.append(false); err != nil || j.file != old { // begin anew, without it
			return keys, errors.Join(errors.New("the old journal could not be written any more"), err)
		}
		n, err := io.Copy(r, io.NewSectionReader(old, from, j.end-from))
		if err != nil {
			return keys, fmt.Errorf("reading %s: %w", j.name, err)
		}
		size += n
	} else {
		b := j.takeChanges() // what has changed is told only once
		if j.file != nil && b.count > 0 {
			if j.pending = append(j.pending, b); j.pendingBytes() > maxPending {
				j.drop()
			}
		}
		if err := f.Changes(b.payload, b.count); err != nil {
			return keys, j.failRewrite(err)
		}
		size = f.Offset()
	}
	if err := r.Commit(); err != nil {
		switch {
		case r.renamed: // the file that is written to has lost its name
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

// failRewrite makes an error of a rewrite the fault, unless there is a file that recover may still make whole.
func (j *journal) failRewrite(err error) error {
	if j.file != nil {
		return err
	}
	return j.abandonFile(err)
}
