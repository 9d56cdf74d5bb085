package cluster

import (
	"context"
	"math/rand/v2"
	"sync"
	"testing"

	"cellserver/buckets"
	"cellserver/internal/testing/storetest"
)

// mapStore is the smallest store of values: a map. It shows that the operations on records, and the values that are made of
// them, keep the contract, whatever an engine does.
type mapStore struct {
	mu     sync.Mutex
	latest int64 // time does not go back
	values map[string][]byte
}

// Apply implements buckets.Store.
func (s *mapStore) Apply(ctx context.Context, now int64, ops []buckets.Op) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range ops {
		if ops[i].Err = ctx.Err(); ops[i].Err != nil {
			continue
		}
		s.latest = max(s.latest, now)
		entries := make(map[string]*entry)
		applyAny(&ops[i], s.latest, storetest.MaxLog, func(key []byte) *entry {
			e := entries[string(key)]
			if e == nil {
				e = new(entry)
				if err := e.parse(s.values[string(key)]); err != nil {
					panic(err)
				}
				e.load(s.latest)
				entries[string(key)] = e
			}
			return e
		})
		for key, e := range entries {
			if e.changed {
				s.values[key] = e.appendValue(nil, s.latest)
			}
		}
	}
}

// Scan implements buckets.Store. It visits every key in one call.
func (s *mapStore) Scan(ctx context.Context, now int64, _ uint64, _ int, visit func(key []byte, kind buckets.Kind)) (next uint64, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for key, value := range s.values {
		var r record
		if err := r.parse(value); err != nil {
			return 0, err
		}
		if ctx.Err() == nil && r.lives(max(now, s.latest)) {
			visit([]byte(key), r.state.Kind)
		}
	}
	return 0, ctx.Err()
}

// RandomKey implements buckets.Store.
func (s *mapStore) RandomKey(ctx context.Context, now int64, dst []byte) (key []byte, found bool, err error) {
	var all [][]byte
	if _, err = s.Scan(ctx, now, 0, 0, func(key []byte, _ buckets.Kind) { all = append(all, key) }); len(all) == 0 {
		return dst, false, err
	}
	return append(dst, all[rand.IntN(len(all))]...), true, nil
}

// Len implements buckets.Store.
func (s *mapStore) Len(ctx context.Context, now int64) (n int64, err error) {
	_, err = s.Scan(ctx, now, 0, 0, func([]byte, buckets.Kind) { n++ })
	return n, err
}

// Flush implements buckets.Store.
func (s *mapStore) Flush(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if ctx.Err() == nil {
		clear(s.values)
	}
	return ctx.Err()
}

// Stats implements buckets.Store.
func (s *mapStore) Stats() buckets.Stats { return buckets.Stats{} }

// The operations keep the contract when every key is read from its value, and written to it when it has changed.
func TestOperations(t *testing.T) {
	storetest.Test(t, func(testing.TB) buckets.Store { return &mapStore{values: make(map[string][]byte)} })
}
