package persistence

import (
	"errors"
	"fmt"
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
func (changeEncoder) AppendDelete(dst []byte, db int, key []byte) []byte {
	return AppendDelete(dst, db, key)
}
func (changeEncoder) AppendFlush(dst []byte, db int) []byte  { return AppendFlush(dst, db) }
func (changeEncoder) AppendFlushAll(dst []byte) []byte       { return AppendFlushAll(dst) }
func (changeEncoder) AppendSwap(dst []byte, a, b int) []byte { return AppendSwap(dst, a, b) }

// journal is the file to which changes are appended. mu is held while changes are appended, and while a rewritten file
// replaces the old one.
//
// While the store is tracked and there is no file, the store still lists changes; the next rewrite creates the file.
type journal struct {
	fsys      FS
	dir, name string
	store     *memory.Store

	mu         sync.Mutex
	tracking   bool // the store lists changes (see memory.Store.Track)
	file       File // nil while there is none, or its contents cannot be trusted
	w          *Writer
	end        int64 // offset of the end of the last whole section
	base       int64 // size of the file in bytes when it was loaded or rewritten
	generation uint64
	latest     uint64 // the highest generation that a file in the directory has or may have
	fault      error  // why nothing is appended, although a journal is kept
	restarts   int    // counts restarts; a rewrite that began before the last one starts over
	buffer     []byte // memory for the next changeSet

	// The store returns each change once, so changes stay pending until they are durable: a failed sync may lose them
	// from the file.
	pending        []changeSet
	pendingWritten int // number of the first pending changeSets that are in the file
	synced         position

	// Copies of fields for readers that do not hold mu.
	shownFault           atomic.Pointer[JournalFault] // fault
	shownSize, shownBase atomic.Int64
}

// changeSet has the changes between two writes: the payload of one section, or of a batch of sections.
type changeSet struct {
	payload []byte
	count   int
}

// position is an offset up to which the file is durable. The zero position means that no such offset is known from which the
// file could be written again, because not all later changes are pending.
type position struct {
	end        int64
	generation uint64
}

// errNoFile is returned while the store is tracked and the first rewrite has not created the file.
var errNoFile = errors.New("the journal has not been written yet")

// restart makes the store list changes, or stop listing them if enc is nil, and closes the file. Changes made while the store
// does not list them are only in a file that is begun after restart.
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

// use makes file the file of the journal. It requires that mu is held, and that file is synced and size bytes long.
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

// complete reports whether the file has all changes or will have them after the next write. It requires that mu is held.
func (j *journal) complete() bool { return j.file != nil && j.fault == nil }

// write appends the changes since the last write. Loading applies all of them or none. With sync they are durable when write
// returns.
//
// After an error, nothing is written until repair or a rewrite has succeeded.
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
		case j.synced != (position{}) && j.pendingBytes() <= maxKeptBuffer: // the changes stay pending until a sync
			return nil
		default:
			j.synced = position{}
		}
	}
	if len(j.pending) > 0 && cap(j.pending[0].payload) <= maxKeptBuffer {
		j.buffer = j.pending[0].payload
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

// undo makes an error of writing the fault, and cuts off a partly written section.
func (j *journal) undo(err error) error {
	j.w = nil // the file may have a part of a section beyond end
	j.setFault(fmt.Errorf("writing %s: %w", j.name, err))
	_ = j.truncate() // otherwise repair does
	return j.fault
}

// undoSince undoes the writes after p, because a sync failed: the system may have dropped them, so that they never reach the
// disk even if a later sync succeeds. If some of them are no longer pending, and so cannot be written again, undoSince abandons
// the file.
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

// truncate truncates the file at end, and makes a writer that appends there.
func (j *journal) truncate() error {
	if err := j.file.Truncate("journal: truncate", j.end); err != nil {
		return err
	}
	j.w = ResumeJournal(j.file, j.end)
	return nil
}

// repair clears a fault of the file: it cuts off a partly written section, and appends the pending changes and those made since.
// The disk needs room for these changes only, and not for a second file. repair returns the fault if it remains.
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

// snapshotGeneration returns the generation for a snapshot that is about to be taken. If the journal is complete, it is that of
// the journal, which then has everything in the snapshot and all later changes, so loading prefers the journal.
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
		bytes += cap(b.payload)
	}
	return bytes
}

// takeChanges returns the changes that the store has listed since the last call, as a payload.
func (j *journal) takeChanges() changeSet {
	payload, count := j.store.Changes(j.buffer[:0])
	if j.buffer = nil; count == 0 {
		j.buffer = payload
	}
	return changeSet{payload, count}
}

func (j *journal) setFault(err error) {
	if j.fault = err; err == nil {
		j.shownFault.Store(nil)
		return
	}
	j.shownFault.Store(&JournalFault{err})
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
