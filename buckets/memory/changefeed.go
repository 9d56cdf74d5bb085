package memory

import (
	"encoding/binary"
	"slices"
	"sync"
	"sync/atomic"

	"cellserver/buckets"
)

// Encoder encodes changes. It must not call the store.
type Encoder interface {
	AppendSet(dst []byte, e *buckets.Entry) []byte
	// AppendAmend encodes an amendment of a log: Log has the new records, and Kept says which other records remain.
	AppendAmend(dst []byte, e *buckets.Entry) []byte
	AppendDelete(dst []byte, db int, key []byte) []byte
	// AppendFlush encodes that all keys of a database were deleted.
	AppendFlush(dst []byte, db int) []byte
	// AppendFlushAll encodes that all keys of all databases were deleted.
	AppendFlushAll(dst []byte) []byte
	// AppendSwap encodes that two databases, a and b, were swapped.
	AppendSwap(dst []byte, a, b int) []byte
}

// changeFeed is the state of Changes, except for the lists of changed keys, which the shards hold.
type changeFeed struct {
	encoder atomic.Pointer[Encoder] // nil while changes are not tracked

	swaps atomic.Uint64 // number of swaps of databases

	mu      sync.Mutex      // may be locked while shards are locked; no other lock is taken while it is held
	next    databaseChanges // that the next call of Changes is to report
	running databaseChanges // that the running call of Changes is to report
	out     []byte          // output of the running call of Changes
	count   int
}

// A record has the dirtyFlag while its key is listed in database.dirty, so that each key is listed once.

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
	t := s.table
	t.dirty = binary.AppendUvarint(t.dirty, uint64(len(key)))
	t.dirty = append(t.dirty, key...)
}

// maxIdleDirty is the largest capacity of database.dirty, in bytes, that is kept for the next changes.
const maxIdleDirty = 64 << 10

// appendChanges encodes the states of the listed keys of database db, and clears the list.
func (t *database) appendChanges(db int, enc Encoder, dst []byte) (out []byte, count int) {
	var st state
	e := buckets.Entry{Database: db}
	var tail logTail
	for left := t.dirty; len(left) > 0; {
		size, n := binary.Uvarint(left)
		key := left[n:][:size]
		left = left[n:][size:]
		place := t.find(t.hash(key), key)
		if place == 0 {
			dst = enc.AppendDelete(dst, db, key)
			count++
			continue
		}
		r := t.at(place)
		if r[0]&dirtyFlag == 0 { // the key is listed twice, because it was removed and inserted again
			continue
		}
		r[0] &^= dirtyFlag
		count++
		dst = appendChange(enc, dst, r, t.deadline(place), &st, &e, &tail)
	}
	if t.dirty = t.dirty[:0]; cap(t.dirty) > maxIdleDirty {
		t.dirty = nil
	}
	return dst, count
}

// Track makes the store list the keys that change, for Changes to encode with enc. With nil it stops. Changes listed
// before are discarded, so the reader of the changes needs a copy of the store as its starting point.
func (s *Store) Track(enc Encoder) {
	t := s.feed
	t.mu.Lock()
	t.next = newDatabaseChanges(s.Databases())
	if enc == nil {
		t.encoder.Store(nil)
	} else {
		t.encoder.Store(&enc)
	}
	t.mu.Unlock()
	s.eachShard(func(sh *shard) {
		sh.tracked = enc != nil
		for _, of := range sh.eachDatabase() {
			of.dirty = nil
			of.each(func(_ uint32, r []byte) {
				if r[0] &^= dirtyFlag; buckets.Kind(r[0] & kindMask).HasLog() {
					_, _, body := split(r)
					markReported(body)
				}
			})
		}
	})
}

// beforeDatabaseChange prepares the change feed for a flush or a swap of databases, which change notes. A running call of
// Changes that has visited no shard reports the change itself. Otherwise the call first visits the remaining shards, and the
// next call reports the change. swaps is how many databases are swapped. It requires that all shards are locked.
func (s *Store) beforeDatabaseChange(swaps uint64, change func(c *databaseChanges)) {
	t := s.feed
	t.mu.Lock()
	t.swaps.Add(swaps)
	p := s.scans.active[changeScan].Load()
	switch {
	case t.encoder.Load() == nil:
	case p != nil && !s.visitedAny(changeScan, p):
		change(&t.running)
		p = nil
	default:
		change(&t.next)
	}
	copies := s.scans.active[copyScan].Load()
	t.mu.Unlock()
	s.visitAll(changeScan, p)
	s.visitAll(copyScan, copies)
}

// Changes appends to dst the changes since the last call: the state of each changed key, or its deletion. An operation on
// several keys is contained entirely or not at all. A sliding log that the reader knows, from Track or an earlier call,
// may be encoded as an amendment. Flushes and swaps of databases come before the changes of keys. Expired and evicted keys
// are not reported. count is the number of changes that were encoded. While the store is not tracked, Changes returns dst.
func (s *Store) Changes(dst []byte) (out []byte, count int) {
	t := s.feed
	enc := t.encoder.Load()
	if enc == nil {
		return dst, 0
	}
	front := len(dst)
	_ = s.runScan(changeScan, func(p *consistentScan) bool {
		t.mu.Lock()
		defer t.mu.Unlock()
		t.out, t.count = dst, 0
		t.running, t.next = t.next, newDatabaseChanges(s.Databases())
		s.scans.active[changeScan].Store(p)
		return true
	}, func(_ int, sh *shard) {
		for db, of := range sh.eachDatabase() {
			if len(of.dirty) == 0 {
				continue
			}
			t.mu.Lock()
			more := 0
			t.out, more = of.appendChanges(db, *enc, t.out)
			t.count += more
			t.mu.Unlock()
		}
	}, func(int) error { return nil })
	t.mu.Lock()
	defer t.mu.Unlock()
	out, t.out = t.out, nil
	if before, more := t.running.append(*enc, nil); more > 0 { // which databases were flushed is known only now
		out, t.count = slices.Insert(out, front, before...), t.count+more
	}
	return out, t.count
}
