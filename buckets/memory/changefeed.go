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
	// AppendAmend encodes an amendment of a log: Log has the new records, and Kept says which other records remain.
	AppendAmend(dst []byte, e *buckets.Entry) []byte
	AppendDelete(dst, key []byte) []byte
}

// changeFeed is the state of Changes, except for the lists of changed keys, which the shards hold.
type changeFeed struct {
	encoder atomic.Pointer[Encoder] // nil while changes are not tracked

	mu           sync.Mutex // may be locked while shards are locked; no other lock is taken while it is held
	flushPending bool       // the next call of Changes is to report a Flush
	reportsFlush bool       // the running call of Changes is to report a Flush
	out          []byte     // output of the running call of Changes
	count        int
}

// A record has the dirtyFlag while its key is listed in shard.dirty, so that each key is listed once.

// markDirty lists the key of a record as changed.
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

// markDeleted lists the key of a record that is about to be removed.
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

// maxIdleDirty is the largest capacity of shard.dirty, in bytes, that is kept for the next changes.
const maxIdleDirty = 64 << 10

// appendChanges encodes the states of the listed keys, and clears the list.
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
		if r[0]&dirtyFlag == 0 { // the key is listed twice, because it was removed and inserted again
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

// Track makes the store list the keys that change, for Changes to encode with enc. With nil it stops. Changes listed
// before are discarded, so the reader of the changes needs a copy of the store as its starting point.
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

// beforeFlush prepares the change feed for a Flush. A running call of Changes that has visited no shard reports the Flush
// itself. Otherwise the call first visits the remaining shards, and the next call reports the Flush. It requires that all
// shards are locked.
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

// Changes appends to dst the changes since the last call: the state of each changed key, or its deletion. An operation on
// several keys is contained entirely or not at all. A sliding log that the reader knows, from Track or an earlier call,
// may be encoded as an amendment. flushed reports that all keys were deleted before these changes. Expired and evicted
// keys are not reported. While the store is not tracked, Changes returns dst.
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
