package memory

import (
	"encoding/binary"
	"sync"
	"sync/atomic"

	"cellserver/buckets"
)

// Encoder encodes changes. It must not call the store.
type Encoder interface {
	AppendSet(dst []byte, e *buckets.Entry) []byte
	// AppendAmend encodes an amendment of a log: Log has the new records, and Kept says which of the others remain.
	AppendAmend(dst []byte, e *buckets.Entry) []byte
	AppendDelete(dst, key []byte) []byte
}

// changeFeed is the state of Changes beyond the changed keys of each shard.
type changeFeed struct {
	encoder atomic.Pointer[Encoder] // nil while changes are not tracked

	mu           sync.Mutex // locked while shards are locked; no lock is taken while it is held
	flushPending bool       // the next call of Changes reports a Flush
	reportsFlush bool       // the running call of Changes reports a Flush
	out          []byte     // of the running call of Changes
	count        int
}

// A record has the dirtyFlag while its key is in shard.dirty, so that each key is there once.

// markDirty records that a record has changed.
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

// markDeleted records that a record is about to be removed.
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

// maxIdleDirty is the capacity of shard.dirty, in bytes, beyond which it is not kept for the next changes.
const maxIdleDirty = 64 << 10

// appendChanges encodes the states of the changed keys, and forgets that they have changed.
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
		if r[0]&dirtyFlag == 0 { // the key is listed twice: it was removed and inserted again
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

// Track makes the store record which keys change, for Changes to encode with enc; nil ends it. It forgets what was recorded
// before. The reader of the changes has to know what the store holds now, from a copy.
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

// beforeFlush records that everything is about to be deleted. It requires that all shards are locked. A running call of
// Changes that has visited no shard reports the flush itself; otherwise it visits the rest first, and the next call reports
// it.
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

// Changes appends to dst what has changed since the last call: for each key its state, or that it is deleted. An operation
// on several keys is in the changes entirely or not at all. A sliding log that the reader knows from Track or an earlier
// call may be encoded as an amendment. flushed reports that everything was deleted before these changes. Keys that expired
// or were evicted are not among them. While nothing is tracked Changes returns dst.
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
