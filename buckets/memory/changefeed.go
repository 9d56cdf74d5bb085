package memory

import (
	"encoding/binary"
	"sync"
	"sync/atomic"

	"cellserver/buckets"
)

// Encoder makes bytes of changes. It must not call the store.
type Encoder interface {
	AppendSet(dst []byte, e *buckets.Entry) []byte
	// AppendAmend is AppendSet for a log of which only the records that are in Log are new, and others remain: see Kept.
	AppendAmend(dst []byte, e *buckets.Entry) []byte
	AppendDelete(dst, key []byte) []byte
}

// tracking is what a store knows of its changes beyond what its shards note.
type changeFeed struct {
	encoder atomic.Pointer[Encoder] // nil while nobody wants to know

	mu           sync.Mutex // taken with shards locked, and nothing is locked after it
	flushPending bool       // there was a Flush that the next gathering is to tell of
	reportsFlush bool       // the gathering under way tells of a Flush
	out          []byte     // of the gathering under way
	count        int
}

// A record whose change has been noted bears the dirtyFlag, so that each key is noted once.

// markDirty notes the key of a record that has changed.
func (s *shard) markDirty(place uint32) {
	s.changes++
	if !s.tracked {
		return
	}
	if r := s.table.at(place); r[0]&dirtyFlag == 0 {
		r[0] |= dirtyFlag
		s.appendDirtyKey(keyOf(r))
	}
}

// noteGone notes the key of a record that is about to be removed.
func (s *shard) markDeleted(place uint32) {
	s.changes++
	if r := s.table.at(place); s.tracked && r[0]&dirtyFlag == 0 {
		s.appendDirtyKey(keyOf(r))
	}
}

func (s *shard) appendDirtyKey(key []byte) {
	s.dirty = binary.AppendUvarint(s.dirty, uint64(len(key)))
	s.dirty = append(s.dirty, key...)
}

// keptDirty is the most room that is kept for the next keys to be noted.
const maxIdleDirty = 64 << 10

// gather encodes the states of the keys that have been noted.
func (s *shard) appendChanges(enc Encoder, dst []byte) (out []byte, count int) {
	var st state
	var e buckets.Entry
	var tail logTail
	for left := s.dirty; len(left) > 0; {
		size, n := binary.Uvarint(left)
		key := left[n:][:size]
		left = left[n:][size:]
		place := s.table.find(s.table.hash(key), key)
		if place == 0 {
			dst = enc.AppendDelete(dst, key)
			count++
			continue
		}
		r := s.table.at(place)
		if r[0]&dirtyFlag == 0 { // it was noted twice, as it was removed and made anew
			continue
		}
		r[0] &^= dirtyFlag
		count++
		dst = appendChange(enc, dst, r, s.table.deadline(place), &st, &e, &tail)
	}
	if s.dirty = s.dirty[:0]; cap(s.dirty) > maxIdleDirty {
		s.dirty = nil
	}
	return dst, count
}

// Track begins to note which keys change, for Changes, with an encoder; nil ends it. What was noted before is forgotten.
// What the store holds now has to be known to whoever is told of the changes, or is copied for them later.
func (s *Store) Track(enc Encoder) {
	t := s.feed
	t.mu.Lock()
	t.flushPending = false
	if enc == nil {
		t.encoder.Store(nil)
	} else {
		t.encoder.Store(&enc)
	}
	t.mu.Unlock()
	s.eachShard(func(sh *shard) {
		sh.tracked, sh.dirty = enc != nil, nil
		sh.table.each(func(_ uint32, r []byte) {
			if r[0] &^= dirtyFlag; buckets.Kind(r[0] & kindMask).HasLog() {
				_, _, body := split(r)
				markReported(body)
			}
		})
	})
}

// beforeFlush remembers that everything is about to be forgotten, with all shards locked: the gathering under way tells of
// it if it has seen nothing yet; otherwise it sees the rest first, and the next one tells.
func (s *Store) beforeFlush() {
	t := s.feed
	t.mu.Lock()
	p := s.scans.active[changeScan].Load()
	switch {
	case t.encoder.Load() == nil:
	case p != nil && !s.visitedAny(changeScan, p):
		t.reportsFlush, p = true, nil
	default:
		t.flushPending = true
	}
	t.mu.Unlock()
	s.visitAll(changeScan, p)
	s.visitAll(copyScan, s.scans.active[copyScan].Load())
}

// Changes appends to dst what has changed since it was called last: for each key, its state now or that it is gone. An
// operation on several keys is in it wholly or not at all. Of a sliding log that has been told of before, or was there when
// Track was called, it may be an amendment. flushed says that everything was forgotten first. Keys that
// expired or were evicted are not in it. It returns dst when nothing is tracked.
func (s *Store) Changes(dst []byte) (out []byte, count int, flushed bool) {
	t := s.feed
	enc := t.encoder.Load()
	if enc == nil {
		return dst, 0, false
	}
	_ = s.runScan(changeScan, func(p *consistentScan) {
		t.mu.Lock()
		defer t.mu.Unlock()
		t.out, t.count = dst, 0
		t.reportsFlush, t.flushPending = t.flushPending, false
		s.scans.active[changeScan].Store(p)
	}, func(_ int, sh *shard) {
		if len(sh.dirty) == 0 {
			return
		}
		t.mu.Lock()
		defer t.mu.Unlock()
		more := 0
		t.out, more = sh.appendChanges(*enc, t.out)
		t.count += more
	}, func(int) error { return nil })
	t.mu.Lock()
	defer t.mu.Unlock()
	out, t.out = t.out, nil
	return out, t.count, t.reportsFlush
}
