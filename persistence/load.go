package persistence

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"sync"
	"sync/atomic"

	"cellserver/buckets"
	"cellserver/buckets/memory"
)

// Progress says how much of a file has been loaded. It may be read while the file is loaded.
type Progress struct {
	Total atomic.Int64 // bytes of the file
	Done  atomic.Int64 // bytes that have been read
	Keys  atomic.Int64 // entries that have been applied
}

// ErrAbandoned is returned by Load after Abandon.
var ErrAbandoned = errors.New("loading was abandoned")

// DatabaseError is returned for a file that has keys of a database that the store does not have.
type DatabaseError struct {
	File      string
	Database  int // the number
	Databases int // how many the store has
}

// Error returns the text.
func (e *DatabaseError) Error() string {
	return fmt.Sprintf("%s has keys of database %d, and there are only %d databases: start with databases %d, or more",
		e.File, e.Database, e.Databases, e.Database+1)
}

// load applies a file of size bytes to the store, on all processors: first the records of the base, in any order, then
// the changes of a journal in theirs. It leaves out what has expired at now. abandon ends it with ErrAbandoned.
//
// Its errors are those of Reader. Everything before the error has been applied: a *TornError is of a journal that is
// sound up to its offset.
func load(r io.ReaderAt, size int64, name string, store *memory.Store, now int64, p *Progress, abandon <-chan struct{}) (*Reader, error) {
	p.Total.Store(size)
	f, err := NewReader(r, size, name)
	if err != nil {
		return nil, err
	}
	l := &loader{
		f: f, store: store, now: now, progress: p, work: make(chan Section), buffers: make(chan []byte, 64), abandon: abandon,
	}
	err = l.run()
	if l.mayHoldExpired.Load() {
		store.ForgetExpiredLogs(now)
	}
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return f, err
}

type loader struct {
	f        *Reader
	store    *memory.Store
	now      int64
	progress *Progress
	work     chan Section
	buffers  chan []byte     // of sections that have been applied, to be reused
	abandon  <-chan struct{} // closed to end the loading

	mayHoldExpired atomic.Bool // whether the store may hold logs that have expired

	workers sync.WaitGroup
	mu      sync.Mutex
	err     error // of the sections that could not be applied
}

func (l *loader) run() error {
	for range runtime.GOMAXPROCS(0) {
		l.workers.Go(func() {
			for s := range l.work {
				l.apply(s)
			}
		})
	}
	wait := sync.OnceFunc(func() {
		close(l.work)
		l.workers.Wait()
	})
	defer wait()
	for l.firstError() == nil {
		select {
		case <-l.abandon:
			return ErrAbandoned
		default:
		}
		s, err := l.f.Next(l.buffer())
		if err != nil {
			wait()
			return errors.Join(l.firstError(), err)
		}
		l.progress.Done.Store(l.f.Offset())
		switch s.Type {
		case RecordsSection:
			l.work <- s
		case EndSection:
			wait() // changes are applied after the whole base
		case GenerationSection:
			l.recycle(s.Payload)
		default:
			l.apply(s)
		}
	}
	wait()
	return l.firstError()
}

func (l *loader) buffer() []byte {
	select {
	case b := <-l.buffers:
		return b[:cap(b)]
	default:
		return make([]byte, min(sectionBytes+sectionBytes/4, l.progress.Total.Load()))
	}
}

func (l *loader) firstError() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.err
}

// apply applies a section. It decodes entries as it applies them, so that those before a malformed one are applied:
// where the CRC of a section is right, a malformed entry is a defect of what wrote it, and loading fails.
func (l *loader) apply(s Section) {
	n := int64(0)
	err := l.f.Entries(s, func(op Op, e *buckets.Entry) error {
		if highest := max(e.Database, e.With); highest >= l.store.Databases() {
			return &DatabaseError{l.f.name, highest, l.store.Databases()}
		}
		switch n++; {
		case op == OpAmend:
			l.store.Amend(e)
			l.mayHoldExpired.Store(true)
		case op == OpSet && e.Kind.HasLog() && l.f.Kind() == JournalFile:
			l.store.RestoreExpired(e)
			l.mayHoldExpired.Store(true)
		case op == OpSet:
			l.store.Restore(l.now, e)
		case op == OpDelete:
			l.store.Forget(e.Database, e.Key)
		case op == OpFlushAll:
			return l.store.FlushAll(context.Background())
		case op == OpFlush:
			return l.store.Database(e.Database).Flush(context.Background())
		case op == OpSwap:
			return l.store.Swap(context.Background(), 0, e.Database, e.With)
		}
		return nil
	})
	l.progress.Keys.Add(n)
	if err != nil {
		l.mu.Lock()
		var database *DatabaseError
		if l.err == nil || !errors.As(err, &database) { // one is enough
			l.err = errors.Join(l.err, err)
		}
		l.mu.Unlock()
	}
	l.recycle(s.Payload)
}

// recycle keeps the memory of a payload for another section.
func (l *loader) recycle(payload []byte) {
	select {
	case l.buffers <- payload:
	default:
	}
}
