package memory

import (
	"context"

	"cellserver/buckets"
)

// The methods of buckets.Store. They wait only for locks that are held for microseconds, so they check the context once,
// at the beginning.

var (
	_ buckets.Store   = (*Store)(nil)
	_ buckets.Decider = (*Store)(nil)
	_ buckets.Batcher = (*Store)(nil)
	_ buckets.Atomic  = (*Store)(nil)
	_ buckets.Watcher = (*Store)(nil)

	_ buckets.Databases  = (*Store)(nil)
	_ buckets.TTLSampler = (*Store)(nil)
)

// Apply implements buckets.Store.
func (s *Store) Apply(ctx context.Context, now int64, ops []buckets.Op) {
	if err := ctx.Err(); err != nil {
		for i := range ops {
			ops[i].Err = err
		}
		return
	}
	for len(ops) > 0 {
		n := 1
		if len(ops) > 1 && !s.held && s.Batches() {
			n = max(1, takes(ops))
		}
		if n > 1 {
			s.takeBatch(now, ops[:n])
		} else {
			ops[0].Err = nil
			s.apply(now, &ops[0])
		}
		ops = ops[n:]
	}
}

func (s *Store) apply(now int64, op *buckets.Op) {
	switch op.Code {
	case buckets.OpTake:
		op.Err = s.Decide(now, op.Key, op.Limit, op.Quantity, op.Peek, &op.Decision)
	case buckets.OpTakeAll:
		op.Which, op.Err = s.TakeAll(now, op.Checks, op.Peek, op.Answers)
	case buckets.OpStat:
		var found bool
		op.Contents.Info, found = s.Stat(now, op.Key)
		op.N = count(found)
	case buckets.OpGet:
		var found bool
		op.Contents, found = s.Get(now, op.Key)
		op.N = count(found)
	case buckets.OpExists:
		op.N = s.countKeys(now, op.Keys, func(held *Store, key []byte) bool {
			_, found := held.Stat(now, key)
			return found
		})
	case buckets.OpDelete:
		op.N = s.countKeys(now, op.Keys, func(held *Store, key []byte) bool { return held.Delete(now, key) })
	case buckets.OpExpire:
		op.N = count(s.ExpireAt(now, op.Key, op.At, op.Condition))
	case buckets.OpPersist:
		op.N = count(s.Persist(now, op.Key))
	case buckets.OpRename:
		var renamed bool
		renamed, op.Err = s.Rename(now, op.Key, op.To, op.IfFree)
		op.N = count(renamed)
	case buckets.OpMove:
		var moved bool
		moved, op.Err = s.Move(now, op.Key, op.DB)
		op.N = count(moved)
	case buckets.OpUpdate:
		op.Err = s.Update(now, op.Keys, op.Update)
	default:
		op.Err = buckets.ErrUnknownOp
	}
}

func count(yes bool) int64 {
	if yes {
		return 1
	}
	return 0
}

// countKeys returns the number of keys for which is reports true. It locks all of their shards first.
func (s *Store) countKeys(now int64, keys [][]byte, is func(held *Store, key []byte) bool) (n int64) {
	held := s
	if len(keys) > 1 {
		h := s.Hold(now, keys, false)
		defer h.Release()
		held = &h.Store
	}
	for _, key := range keys {
		n += count(is(held, key))
	}
	return n
}

// Scan implements buckets.Store.
func (s *Store) Scan(ctx context.Context, now int64, cursor uint64, count int, visit func(key []byte, kind buckets.Kind)) (uint64, error) {
	if err := ctx.Err(); err != nil {
		return cursor, err
	}
	return s.scan(now, cursor, count, visit), nil
}

// RandomKey implements buckets.Store.
func (s *Store) RandomKey(ctx context.Context, now int64, dst []byte) ([]byte, bool, error) {
	if err := ctx.Err(); err != nil {
		return dst, false, err
	}
	key, found := s.randomKey(now, dst)
	return key, found, nil
}

// Len implements buckets.Store.
func (s *Store) Len(ctx context.Context, _ int64) (int64, error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	return s.Keys(), nil
}

// Flush implements buckets.Store.
func (s *Store) Flush(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	s.flush()
	return nil
}

// Atomically implements buckets.Atomic. It calls run once, while the shards of the keys are locked.
func (s *Store) Atomically(ctx context.Context, now int64, keys [][]byte, everything bool, run func(held buckets.Store)) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	h := s.Hold(now, keys, everything)
	defer h.Release()
	run(&h.Store)
	return nil
}

// Watch implements buckets.Watcher.
func (s *Store) Watch(ctx context.Context, now int64, key []byte) (buckets.Watch, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	return s.watch(now, key), nil
}

// Changed implements buckets.Watcher.
func (s *Store) Changed(ctx context.Context, now int64, w buckets.Watch) (bool, error) {
	if err := ctx.Err(); err != nil {
		return false, err
	}
	return s.changed(now, w.(*watch)), nil
}

// Unwatch implements buckets.Watcher.
func (s *Store) Unwatch(w buckets.Watch) { s.unwatch(w.(*watch)) }
