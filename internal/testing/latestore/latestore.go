// Package latestore is a store for tests that behaves as one on another machine may: it answers late, decides the
// operations of a batch in any order that the contract allows, and fails when it is told to. It offers no way to decide
// without a batch.
package latestore

import (
	"context"
	"math/rand/v2"
	"runtime"
	"sync"

	"cellserver/buckets"
	"cellserver/buckets/memory"
)

// Store keeps its keys in a memory store, which it hides.
type Store struct {
	inner buckets.Store
	// Fail returns the error that an operation fails with, or nil. It may be nil itself.
	Fail func(op *buckets.Op) error
	// Conflicts is how many times Atomically calls run in vain before it counts.
	Conflicts int

	batches *batches    // of all databases
	one     *sync.Mutex // of a store that only one goroutine may use at a time; nil for others
}

type batches struct {
	mu    sync.Mutex
	sizes []int // how many operations each Apply had
}

var (
	_ buckets.Store      = (*Store)(nil)
	_ buckets.Atomic     = (*Store)(nil)
	_ buckets.Watcher    = (*Store)(nil)
	_ buckets.Databases  = (*Store)(nil)
	_ buckets.TTLSampler = (*Store)(nil)
)

// New returns a Store that keeps its keys in inner.
func New(inner *memory.Store) *Store { return &Store{inner: inner, batches: new(batches)} }

// of returns a Store on inner that fails as this one does now.
func (s *Store) of(inner buckets.Store) *Store {
	return &Store{inner: inner, Fail: s.Fail, Conflicts: s.Conflicts, batches: s.batches, one: s.one}
}

// Batches returns how many operations each call of Apply had so far.
func (s *Store) Batches() []int {
	s.batches.mu.Lock()
	defer s.batches.mu.Unlock()
	return append([]int(nil), s.batches.sizes...)
}

// Apply carries out each operation in a goroutine of its own, as soon as those before it that share a key with it are done.
func (s *Store) Apply(ctx context.Context, now int64, ops []buckets.Op) {
	s.batches.mu.Lock()
	s.batches.sizes = append(s.batches.sizes, len(ops))
	s.batches.mu.Unlock()
	done := make([]chan struct{}, len(ops))
	last := make(map[string]chan struct{}) // of the operations so far that name a key
	var all sync.WaitGroup
	for i := range ops {
		done[i] = make(chan struct{})
		var before []chan struct{}
		for _, key := range keysOf(&ops[i]) {
			if c := last[string(key)]; c != nil && c != done[i] { // it may name a key twice
				before = append(before, c)
			}
			last[string(key)] = done[i]
		}
		all.Go(func() {
			defer close(done[i])
			for _, c := range before {
				<-c
			}
			for range rand.IntN(4) {
				runtime.Gosched()
			}
			s.apply(ctx, now, &ops[i])
		})
	}
	all.Wait()
}

func (s *Store) apply(ctx context.Context, now int64, op *buckets.Op) {
	if s.Fail != nil {
		if err := s.Fail(op); err != nil {
			op.Err = err
			return
		}
	}
	if s.one != nil {
		s.one.Lock()
		defer s.one.Unlock()
	}
	one := []buckets.Op{*op}
	s.inner.Apply(ctx, now, one)
	*op = one[0]
}

func keysOf(op *buckets.Op) [][]byte {
	keys := append([][]byte(nil), op.Keys...)
	if op.Code != buckets.OpTakeAll && op.Code != buckets.OpDelete && op.Code != buckets.OpExists && op.Code != buckets.OpUpdate {
		keys = append(keys, op.Key)
	}
	if op.Code == buckets.OpRename {
		keys = append(keys, op.To)
	}
	for i := range op.Checks {
		keys = append(keys, op.Checks[i].Key)
	}
	return keys
}

// Scan implements buckets.Store.
func (s *Store) Scan(ctx context.Context, now int64, cursor uint64, count int, visit func(key []byte, kind buckets.Kind)) (uint64, error) {
	runtime.Gosched()
	return s.inner.Scan(ctx, now, cursor, count, visit)
}

// RandomKey implements buckets.Store.
func (s *Store) RandomKey(ctx context.Context, now int64, dst []byte) ([]byte, bool, error) {
	return s.inner.RandomKey(ctx, now, dst)
}

// Len implements buckets.Store.
func (s *Store) Len(ctx context.Context, now int64) (int64, error) { return s.inner.Len(ctx, now) }

// Flush implements buckets.Store.
func (s *Store) Flush(ctx context.Context) error { return s.inner.Flush(ctx) }

// Stats implements buckets.Store.
func (s *Store) Stats() buckets.Stats { return s.inner.Stats() }

// MeanTTL implements buckets.TTLSampler.
func (s *Store) MeanTTL(now int64) int64 { return s.inner.(buckets.TTLSampler).MeanTTL(now) }

// Atomically implements buckets.Atomic. It first calls run as often as Conflicts says on a store on which everything fails.
func (s *Store) Atomically(ctx context.Context, now int64, keys [][]byte, everything bool, run func(held buckets.Store)) error {
	for range s.Conflicts {
		failing := s.of(s.inner)
		failing.Fail = func(*buckets.Op) error { return context.DeadlineExceeded }
		run(failing)
	}
	return s.inner.(buckets.Atomic).Atomically(ctx, now, keys, everything, func(held buckets.Store) {
		late := s.of(held)
		late.one = new(sync.Mutex)
		run(late)
	})
}

// Databases implements buckets.Databases.
func (s *Store) Databases() int { return s.inner.(buckets.Databases).Databases() }

// Used implements buckets.Databases.
func (s *Store) Used() []int { return s.inner.(buckets.Databases).Used() }

// Database implements buckets.Databases.
func (s *Store) Database(n int) buckets.Store {
	inner := s.inner.(buckets.Databases).Database(n)
	if inner == nil {
		return nil
	}
	return s.of(inner)
}

// FlushAll implements buckets.Databases.
func (s *Store) FlushAll(ctx context.Context) error { return s.inner.(buckets.Databases).FlushAll(ctx) }

// Swap implements buckets.Databases.
func (s *Store) Swap(ctx context.Context, now int64, a, b int) error {
	return s.inner.(buckets.Databases).Swap(ctx, now, a, b)
}

// Watch implements buckets.Watcher.
func (s *Store) Watch(ctx context.Context, now int64, key []byte) (buckets.Watch, error) {
	return s.inner.(buckets.Watcher).Watch(ctx, now, key)
}

// Changed implements buckets.Watcher.
func (s *Store) Changed(ctx context.Context, now int64, w buckets.Watch) (bool, error) {
	return s.inner.(buckets.Watcher).Changed(ctx, now, w)
}

// Unwatch implements buckets.Watcher.
func (s *Store) Unwatch(w buckets.Watch) { s.inner.(buckets.Watcher).Unwatch(w) }
