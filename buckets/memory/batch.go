package memory

import (
	"math/bits"
	"runtime"
	"sync"

	"cellserver/buckets"
)

// A batch of requests for different keys waits for memory once instead of once for each: the shards of all of them are
// locked, then all slots of their indexes are read, then the beginnings of all records, and only then is each decided. The
// processor fetches what the reads of one step ask for at the same time.

// batchSize is the most requests that are decided with their shards locked.
const batchSize = 64

// batchAbove is how many bytes a store holds when a batch is faster than one request after the other by more than it costs to
// collect one: several times what a core's own cache holds. BenchmarkStoreBatch measures it.
const batchAbove = 8 << 20

// Batches implements buckets.Batcher.
func (s *Store) Batches() bool { return s.budget.used.Load() > batchAbove }

// batch is the room that takeBatch needs.
type batch struct {
	hashes [batchSize]uint64
	shards [batchSize]int32
	locks  []uint64 // a bit for each shard
}

var batches = sync.Pool{New: func() any { return new(batch) }}

// takeBatch carries out ops, which are all OpTake and at most batchSize, in order.
func (s *Store) takeBatch(now int64, ops []buckets.Op) {
	b := batches.Get().(*batch)
	defer batches.Put(b)
	words := (len(s.shards) + 63) / 64
	if len(b.locks) < words {
		b.locks = make([]uint64, words)
	}
	locks := b.locks[:words]
	for i := range ops {
		hash, n := s.locate(ops[i].Key)
		b.hashes[i], b.shards[i] = hash, int32(n)
		locks[n>>6] |= 1 << (n & 63)
	}
	s.lockAll(locks)
	defer s.unlockAll(locks)

	var near uint32 // kept alive, or the reads would be left out
	for i := range ops {
		near |= s.shards[b.shards[i]].table.peekSlot(b.hashes[i])
	}
	for i := range ops {
		near |= uint32(s.shards[b.shards[i]].table.prefetch(b.hashes[i]))
	}
	runtime.KeepAlive(near)

	maxLog := int(s.maxLog.Load())
	for i := range ops {
		op, sh := &ops[i], &s.shards[b.shards[i]]
		op.Err = sh.take(b.hashes[i], op.Key, op.Limit, sh.advance(now), op.Quantity, op.Peek, maxLog, &op.Decision)
	}
}

// lockAll locks the shards whose bits are set, in the order of their numbers.
func (s *Store) lockAll(locks []uint64) {
	for i, word := range locks {
		for ; word != 0; word &= word - 1 {
			s.shards[i<<6+bits.TrailingZeros64(word)].mu.Lock()
		}
	}
}

// unlockAll unlocks what lockAll has locked, and clears the bits.
func (s *Store) unlockAll(locks []uint64) {
	for i, word := range locks {
		for ; word != 0; word &= word - 1 {
			s.shards[i<<6+bits.TrailingZeros64(word)].mu.Unlock()
		}
		locks[i] = 0
	}
}

// peekSlot reads the slot at which the search for a key begins.
func (t *table) peekSlot(hash uint64) uint32 {
	if t.count == 0 {
		return 0
	}
	return t.slots[t.home(tagOf(hash))]
}

// takes returns how many ops from the beginning on are OpTake, at most batchSize.
func takes(ops []buckets.Op) int {
	n := 0
	for n < len(ops) && n < batchSize && ops[n].Code == buckets.OpTake {
		n++
	}
	return n
}
