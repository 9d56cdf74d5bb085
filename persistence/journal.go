package persistence

import (
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"sync"
	"sync/atomic"

	"cellserver/buckets"
)

// changeEncoder makes the store's changes entries of a journal.
type changeEncoder struct{}

func (changeEncoder) AppendSet(dst []byte, e *buckets.Entry) []byte { return AppendSet(dst, e) }
func (changeEncoder) AppendDelete(dst, key []byte) []byte           { return AppendDelete(dst, key) }

// journal is the file that changes are appended to. mu is held while they are, and while one file takes the place of
// another.
//
// A store that is tracked without a file goes on noting what changes; a rewrite makes the file that takes it.
type journal struct {
	fsys      FS
	dir, name string
	store     *buckets.Store

	mu       sync.Mutex
	file     File // nil while there is none, or it cannot be trusted any more
	out      *Writer
	synced   bool  // nothing has been written since the last sync
	base     int64 // size of the file when it was loaded or rewritten
	fault    error // why there is no file, when there should be one
	restarts int   // whoever began to write a file before the last one has to begin anew
	payload  []byte

	// For those who do not wait.
	trouble              atomic.Pointer[JournalFault] // fault
	shownSize, shownBase atomic.Int64
}

// errNoFile is returned while a journal has yet to be written.
var errNoFile = errors.New("the journal has not been written yet")

// errRestarted is returned by a rewrite that has been overtaken by a restart.
var errRestarted = errors.New("the journal was turned on or off meanwhile")

// restart begins to note what changes, or ends it when enc is nil, and lets go of the file: what was not noted in between
// is in none but one that is begun after this.
func (j *journal) restart(enc buckets.Encoder) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.store.Track(enc)
	j.drop()
	j.setFault(nil)
	j.restarts++
}

// resume goes on with a file that has been loaded up to offset.
func (j *journal) resume(offset int64) error {
	file, err := j.fsys.OpenAppend("journal", filepath.Join(j.dir, j.name))
	if err != nil {
		return err
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	j.take(file, offset)
	return nil
}

// take makes file, which is synced and ends at size, the one that is appended to.
func (j *journal) take(file File, size int64) {
	j.drop()
	j.file, j.out, j.synced, j.base = file, ResumeJournal(file, size), true, size
	j.setFault(nil)
	j.shownSize.Store(size)
	j.shownBase.Store(size)
}

// drop lets go of the file.
func (j *journal) drop() {
	if j.file != nil {
		_ = j.file.Close("journal: close") // what matters has been synced
	}
	j.file, j.out = nil, nil
	j.shownSize.Store(0)
	j.shownBase.Store(0)
}

// write appends what has changed since the last time, in one section, so that it is loaded wholly or not at all; with
// sync it is durable when write returns.
//
// After an error the file ends with a part of a section, or with something that may never reach the disk: nothing more is
// written to it, and a rewrite has to make a new one.
func (j *journal) write(sync bool) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.append(sync)
}

// append is write with mu held.
func (j *journal) append(sync bool) error {
	switch {
	case j.file == nil && j.fault != nil:
		return j.fault
	case j.file == nil:
		return errNoFile
	}
	payload, count := j.changes()
	if count > 0 {
		if err := j.out.Changes(payload, count); err != nil {
			return j.fail(err)
		}
		j.synced = false
		j.shownSize.Store(j.out.Offset())
	}
	if sync && !j.synced {
		if err := j.file.Sync("journal: sync"); err != nil {
			return j.fail(err)
		}
		j.synced = true
	}
	return nil
}

// keptPayload is the most room that is kept for the next changes.
const keptPayload = 1 << 20

// changes returns what the store tells of its changes, as the payload of a section.
func (j *journal) changes() (payload []byte, count int) {
	if cap(j.payload) > keptPayload {
		j.payload = nil
	}
	// There is room for the Flush in front that is only known about at the end.
	var flushed bool
	j.payload, count, flushed = j.store.Changes(AppendFlush(j.payload[:0]))
	if flushed {
		return j.payload, count + 1
	}
	return j.payload[len(AppendFlush(nil)):], count
}

func (j *journal) fail(err error) error {
	j.drop()
	j.setFault(fmt.Errorf("writing %s: %w", j.name, err))
	return j.fault
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
	return j.out.Offset(), j.base
}

// state returns whether there is a file, and why there is none if there should be.
func (j *journal) state() (there bool, fault error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.file != nil, j.fault
}

// rewrite makes a new file of what the store holds, and goes on with it. Meanwhile changes go to the old one, if there is
// one, and are copied from there.
//
// When the new file takes the place of the old one, all that its snapshot may have seen is in changes that both have: so
// whatever is lost after that, what is loaded is of one moment.
func (j *journal) rewrite(now int64) (keys int64, err error) {
	const label = "journal rewrite"
	j.mu.Lock()
	restarts := j.restarts
	j.mu.Unlock()
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
	f, err := NewWriter(r, JournalFile, now, 0)
	if err != nil {
		return 0, err
	}
	j.mu.Lock()
	old, from := j.file, int64(0)
	if old != nil {
		from = j.out.Offset()
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
	if j.file != nil {
		err = j.append(false)
	}
	switch {
	case err != nil:
		return keys, err
	case old != nil && j.file != old:
		return keys, errors.New("the old journal could not be written any more") // begin anew, without it
	case old != nil:
		n, err := io.Copy(r, io.NewSectionReader(old, from, j.out.Offset()-from))
		if err != nil {
			return keys, fmt.Errorf("reading %s: %w", j.name, err)
		}
		size += n
	default:
		payload, count := j.changes()
		if err := f.Changes(payload, count); err != nil {
			return keys, j.fail(err) // what has changed is told only once
		}
		size = f.Offset()
	}
	if err := r.Commit(); err != nil {
		if old == nil || r.inPlace { // there is no file, or the one that is written to has lost its name
			err = j.fail(err)
		}
		return keys, err
	}
	file, err := j.fsys.OpenAppend("journal", filepath.Join(j.dir, j.name))
	if err != nil {
		return keys, j.fail(err)
	}
	j.take(file, size)
	return keys, nil
}
