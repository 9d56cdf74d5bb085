package memory

import (
	"math/bits"
	"runtime"
	"sync"

	"cellserver/buckets"
)

// A batch of requests overlaps its cache misses: it locks the shards of all keys, then reads a slot of the index for each
// key, then the beginning of each record, and only then decides. The reads of one step are independent, so the processor
// fetches their memory in parallel.

// batchSize is the largest number of requests that are decided while their shards are locked.
const batchSize = 64

// batchAbove is the size of a store in bytes above which a batch is faster than single requests by more than it costs to
// collect one. It is several times the size of the cache of a core. BenchmarkStoreBatch measures it.
const batchAbove = 8 << 20

// Batches implements buckets.Batcher.
func (s *Store) Batches() bool { return s.budget.used.Load() > batchAbove }

// batch is the scratch memory of takeBatch.
type batch struct {
	hashes [batchSize]uint64
	shards [batchSize]int32
	locks  []uint64 // bit set of shards
}

var batches = sync.Pool{New: func() any { return new(batch) }}

// takeBatch carries out ops in order. It requires that all are OpTake and that there are at most batchSize.
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

	var near uint32 // uses the results of the reads, so that the compiler keeps them
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

// lockAll locks the shards of a bit set, in the order of their numbers, and selects the database of the store.
func (s *Store) lockAll(locks []uint64) {
	for i, word := range locks {
		for ; word != 0; word &= word - 1 {
			s.lockShard(i<<6 + bits.TrailingZeros64(word))
		}
	}
}

// unlockAll unlocks the shards that lockAll has locked, and clears the bit set.
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

// takes returns how many ops, counted from the first, are OpTake; at most batchSize.
func takes(ops []buckets.Op) int {
	n := 0
	for n < len(ops) && n < batchSize && ops[n].Code == buckets.OpTake {
		n++
	}
	return n
}
