package cluster

import (
	"context"

	"cellserver/buckets"
)

// Atomically implements buckets.Atomic. run works on a copy of what the keys hold, and runs again if another program has
// changed one of them before the copy was stored.
func (s *Store) Atomically(ctx context.Context, now int64, keys [][]byte, everything bool, run func(held buckets.Store)) error {
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case everything:
		return buckets.ErrNotOffered
	case s.engine.mistimed(now):
		return s.untimed()
	case len(keys) == 0:
		run(&overlay{store: s, transaction: &transaction{store: s}})
		return nil
	}
	all := s.engineKeys(keys)
	ctx, cancel := s.withTimeout(ctx)
	defer cancel()
	unlock, err := s.together.locks.lock(ctx, all)
	if err != nil {
		return s.tooLate(ctx, nil)
	}
	defer unlock()
	decided := uint64(0)
	err = s.transact(ctx, now, all, func() {}, func(t *transaction) {
		held := &overlay{store: s, transaction: t}
		run(held)
		decided = held.decided
	})
	if err == nil {
		s.count.decisions.Add(decided)
	}
	return err
}

// overlay is what run of Atomically uses: a Store of the keys that a transaction holds. It asks the engine for watches only.
type overlay struct {
	store       *Store
	transaction *transaction
	decided     uint64
}

var (
	_ buckets.Store   = (*overlay)(nil)
	_ buckets.Watcher = (*overlay)(nil)
)

// Apply implements buckets.Store. An operation on a key that is not held fails with ErrNotOffered.
func (o *overlay) Apply(ctx context.Context, now int64, ops []buckets.Op) {
	for i := range ops {
		if ops[i].Err = ctx.Err(); ops[i].Err == nil {
			o.transaction.apply(&ops[i], now)
			o.decided++
		}
	}
}

// Scan implements buckets.Store.
func (o *overlay) Scan(context.Context, int64, uint64, int, func(key []byte, kind buckets.Kind)) (uint64, error) {
	return 0, buckets.ErrNotOffered
}

// RandomKey implements buckets.Store.
func (o *overlay) RandomKey(_ context.Context, _ int64, dst []byte) ([]byte, bool, error) {
	return dst, false, buckets.ErrNotOffered
}

// Len implements buckets.Store.
func (o *overlay) Len(context.Context, int64) (int64, error) { return 0, buckets.ErrNotOffered }

// Flush implements buckets.Store.
func (o *overlay) Flush(context.Context) error { return buckets.ErrNotOffered }

// Stats implements buckets.Store.
func (o *overlay) Stats() buckets.Stats { return o.store.Stats() }

// Watch implements buckets.Watcher.
func (o *overlay) Watch(ctx context.Context, now int64, key []byte) (buckets.Watch, error) {
	return o.store.Watch(ctx, now, key)
}

// Changed implements buckets.Watcher. What changes after it has reported that nothing has, and before the transaction is
// done, undoes the transaction: its keys were read before.
func (o *overlay) Changed(ctx context.Context, now int64, w buckets.Watch) (bool, error) {
	return o.store.Changed(ctx, now, w)
}

// Unwatch implements buckets.Watcher.
func (o *overlay) Unwatch(w buckets.Watch) { o.store.Unwatch(w) }
