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
	on         bool // the store notes what changes
	file       File // nil while there is none, or it cannot be trusted any more
	out        *Writer
	end        int64 // where the last whole write ends in the file
	base       int64 // size of the file when it was loaded or rewritten
	generation uint64
	latest     uint64 // the highest generation that any file in the directory has, or may have
	fault      error  // why there is no file, or nothing is appended to it, though it should be
	restarts   int    // whoever began to write a file before the last one has to begin anew
	spare      []byte // for the next changes

	// The store tells its changes once: those that a failure may undo are kept until they are durable.
	kept   []batch
	there  int // so many of kept are in the file
	synced mark

	// For those who do not wait.
	trouble              atomic.Pointer[JournalFault] // fault
	shownSize, shownBase atomic.Int64
}

// batch is what has changed between two writes: the payload of one section.
type batch struct {
	payload []byte
	count   int
	buffer  []byte // that payload is in
}

// mark is a place in the file up to which everything is durable. The zero mark is no such place: of what was written
// since the last one, not all has been kept.
type mark struct {
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
	j.on = enc != nil
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
	j.take(file, offset, generation)
	return nil
}

// take makes file, which is synced and ends at size, the one that is appended to.
func (j *journal) take(file File, size int64, generation uint64) {
	j.drop()
	j.file, j.out, j.base = file, ResumeJournal(file, size), size
	j.end, j.generation, j.synced = size, generation, mark{size, generation}
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
	j.file, j.out, j.kept, j.there, j.synced = nil, nil, nil, 0, mark{}
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
	if b := j.changes(); b.count > 0 {
		j.kept = append(j.kept, b)
	}
	return j.appendKept(sync)
}

// appendKept appends those of kept that are not in the file, and with sync makes them durable.
func (j *journal) appendKept(sync bool) error {
	for ; j.there < len(j.kept); j.there++ {
		if err := j.out.Changes(j.kept[j.there].payload, j.kept[j.there].count); err != nil {
			return j.undo(err)
		}
		j.wrote()
	}
	if reached := (mark{j.end, j.generation}); j.synced != reached {
		switch {
		case sync:
			if err := j.file.Sync("journal: sync"); err != nil {
				return j.undoSince(j.synced, err)
			}
			j.synced = reached
		case j.synced != (mark{}) && j.keptBytes() <= keptPayload: // which is enough unless nobody ever syncs
			return nil
		default:
			j.synced = mark{}
		}
	}
	if len(j.kept) > 0 && cap(j.kept[0].buffer) <= keptPayload {
		j.spare = j.kept[0].buffer
	}
	clear(j.kept)
	j.kept, j.there = j.kept[:0], 0
	return nil
}

// wrote says that the file is whole up to where out is.
func (j *journal) wrote() {
	j.end = j.out.Offset()
	j.shownSize.Store(j.end)
}

// undo makes an error of writing the fault, and cuts off what has been written of the section.
func (j *journal) undo(err error) error {
	j.out = nil // there may be a part of a section beyond end
	j.setFault(fmt.Errorf("writing %s: %w", j.name, err))
	_ = j.cut() // or else recover does
	return j.fault
}

// undoSince is undo when what has been written since m may never reach the disk, even if a later sync succeeds: the system
// may have dropped it. It has to be written anew. When it has not been kept, the file is given up.
func (j *journal) undoSince(m mark, err error) error {
	if m == (mark{}) {
		return j.giveUp(err)
	}
	j.end, j.generation, j.there = m.end, m.generation, 0
	j.shownSize.Store(j.end)
	return j.undo(err)
}

// giveUp lets go of the file and makes an error the fault: only a rewrite mends it.
func (j *journal) giveUp(err error) error {
	j.drop()
	j.setFault(fmt.Errorf("writing %s: %w", j.name, err))
	return j.fault
}

// cut cuts the file to its whole part, after which out goes on with it.
func (j *journal) cut() error {
	if err := j.file.Truncate("journal: truncate", j.end); err != nil {
		return err
	}
	j.out = ResumeJournal(j.file, j.end)
	return nil
}

// recover makes a file whole that could not be written, and goes on with it: it cuts off what was written in part, and
// appends what has changed since. For this the disk needs room for the changes, and for no more. On an error, which is
// the fault, all is as it was.
func (j *journal) recover(sync bool) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.fault == nil || j.file == nil {
		return j.fault
	}
	if j.out == nil {
		if err := j.cut(); err != nil {
			return j.undo(err)
		}
	}
	if j.latest > j.generation { // somebody has, or is about to get, a snapshot that is newer than this file was
		generation := j.next()
		if err := j.out.Generation(generation); err != nil {
			return j.undo(err)
		}
		j.generation = generation
		j.wrote()
	}
	if err := j.appendKept(sync); err != nil {
		return err
	}
	j.restarts++ // a file that is being written does not have what the store tells now
	j.setFault(nil)
	return j.append(sync)
}

// next returns a generation that is higher than those of all files.
func (j *journal) next() uint64 {
	j.latest = min(j.latest+1, MaxGeneration)
	return j.latest
}

// forSnapshot returns the generation of a snapshot that is about to be taken: that of the journal if the journal is
// complete, since it then has all that the snapshot has, and what comes later.
func (j *journal) forSnapshot() (generation uint64, complete bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.complete() {
		return j.generation, true
	}
	return j.next(), false
}

// keptPayload is the most room that is kept for the next changes, and keptChanges the most that is kept of changes while
// they cannot be written.
const (
	keptPayload = 1 << 20
	keptChanges = 64 << 20
)

func (j *journal) keptBytes() (bytes int) {
	for _, b := range j.kept {
		bytes += cap(b.buffer)
	}
	return bytes
}

// changes returns what the store tells of its changes, as the payload of a section.
func (j *journal) changes() batch {
	// There is room for the Flush in front that is only known about at the end.
	buffer := AppendFlush(j.spare[:0])
	j.spare = nil
	front := len(buffer)
	buffer, count, flushed := j.store.Changes(buffer)
	switch {
	case flushed:
		return batch{buffer, count + 1, buffer}
	case count == 0:
		j.spare = buffer[:0]
	}
	return batch{buffer[front:], count, buffer}
}

func (j *journal) setFault(err error) {
	if j.fault = err; err == nil {
		j.trouble.Store(nil)
		return
	}
	j.trouble.Store(&JournalFault{err})
}

// missing says why there is no file, if there is none. It returns why, or errRestarted when that is why.
func (j *journal) missing(restarts int, why error) error {
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
	restarts, generation, on := j.restarts, j.next(), j.on
	j.mu.Unlock()
	if !on { // it was turned off after somebody asked for this
		return 0, errRestarted
	}
	defer func() {
		if err != nil {
			err = j.missing(restarts, err)
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
		b := j.changes() // what has changed is told only once
		if j.file != nil && b.count > 0 {
			if j.kept = append(j.kept, b); j.keptBytes() > keptChanges {
				j.drop()
			}
		}
		if err := f.Changes(b.payload, b.count); err != nil {
			return keys, j.stillWithout(err)
		}
		size = f.Offset()
	}
	if err := r.Commit(); err != nil {
		switch {
		case r.inPlace: // the file that is written to has lost its name
			err = j.giveUp(err)
		case old == nil:
			err = j.stillWithout(err)
		}
		return keys, err
	}
	file, err := j.fsys.OpenAppend("journal", filepath.Join(j.dir, j.name))
	if err != nil {
		return keys, j.giveUp(err)
	}
	j.take(file, size, generation)
	return keys, nil
}

// stillWithout makes an error of a rewrite the fault, unless there is a file that recover may still make whole.
func (j *journal) stillWithout(err error) error {
	if j.file != nil {
		return err
	}
	return j.giveUp(err)
}
