package cluster

import (
	"context"
	"errors"
	"sync"

	"github.com/redis/go-redis/v9"

	"cellserver/buckets"
)

// maxWatches is how many keys clients of one process may watch at a time in one server. Each takes a connection, of which
// Redis and Valkey have 10000 by default.
const maxWatches = 1000

// errWatches is returned when a client wants to watch one more.
var errWatches = &buckets.Unavailable{Reason: "too many keys are watched"}

// clientWatch is a watch of a key: a connection of its own, on which the engine watches it.
type clientWatch struct {
	key []byte // with the prefix

	mu      sync.Mutex
	eye     *eye // nil after Unwatch
	changed bool // or nobody knows whether it has
}

// eye is a connection that watches one key, and what the key held when that began.
type eye struct {
	node  *node
	conn  *redis.Conn
	value string
	found bool
	until int64 // when the key expires, on the clock of the server; 0 if there was none
}

func (e *eye) close() { _ = e.conn.Close() }

// Watch implements buckets.Watcher. It returns an error if the clients of this process watch too many keys.
func (s *Store) Watch(ctx context.Context, now int64, key []byte) (buckets.Watch, error) {
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	if s.engine.mistimed(now) {
		return nil, s.untimed()
	}
	ctx, cancel := s.withTimeout(ctx)
	defer cancel()
	w := &clientWatch{key: s.engineKey(nil, key)}
	if n := s.engine.node(s.engine.slot(w.key)); n != nil && n.watches.Load() >= maxWatches {
		return nil, errWatches
	}
	var err error
	if w.eye, err = s.open(ctx, now, w.key); err != nil {
		return nil, err
	}
	if w.eye.node.watches.Add(1) > maxWatches {
		s.Unwatch(w)
		return nil, errWatches
	}
	return w, nil
}

// open returns an eye on a key.
func (s *Store) open(ctx context.Context, now int64, key []byte) (e *eye, err error) {
	err = s.reach(ctx, key, func(n *node, asking bool) error {
		t := &transaction{store: s, node: n, conn: n.watching.EphemeralConn(), asking: asking}
		var err error
		if e, err = t.open(ctx, now, key); err != nil {
			_ = t.conn.Close()
		}
		return err
	})
	return e, err
}

// open watches a key on the connection of the transaction, which becomes that of the eye.
func (t *transaction) open(ctx context.Context, now int64, key []byte) (*eye, error) {
	for {
		value, found, err := t.watch(ctx, key, true)
		if err != nil {
			return nil, err
		}
		e := &eye{node: t.node, conn: t.conn, value: string(value), found: found}
		var r record
		if !found || r.parse(value) != nil {
			return e, nil
		}
		r.load(t.node.hot.at(t.node, now))
		if e.until = r.expiry(); e.until > 0 {
			return e, nil
		}
		// It has expired by our clock. Remove it now, so that the engine's removal of it is not taken for a change.
		if err := t.store.execute(ctx, t.conn, t.asking, [][]any{{"del", key}}); err != nil && !errors.Is(err, buckets.ErrTooFewReplicas) {
			return nil, err
		}
	}
}

// Changed implements buckets.Watcher. It may report a change that nobody can see: a request that was refused and has cut
// the state to its limit. If the connection of the watch broke, it reports a change, because there may have been one.
func (s *Store) Changed(ctx context.Context, now int64, w buckets.Watch) (bool, error) {
	if ctx.Err() != nil {
		return false, ctx.Err()
	}
	c := w.(*clientWatch)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.changed || c.eye == nil {
		return true, nil
	}
	if c.eye.until > 0 && c.eye.until <= c.eye.node.hot.at(c.eye.node, now) {
		c.changed = true
		return true, nil
	}
	ctx, cancel := s.withTimeout(ctx)
	defer cancel()
	// To ask is to end the watch, so another one begins first.
	next, err := s.open(ctx, now, c.key)
	if err != nil {
		return false, err
	}
	if next.node != c.eye.node || next.found != c.eye.found || next.value != c.eye.value {
		next.close()
		c.changed = true
		return true, nil
	}
	err = s.execute(ctx, c.eye.conn, false, nil)
	c.eye.close()
	c.eye, next = next, nil
	c.changed = err != nil // it was told, or it cannot be known any more
	if err != nil && !errors.Is(err, errConflict) && ctx.Err() != nil {
		return false, s.tooLate(ctx, nil)
	}
	return c.changed, nil
}

// Unwatch implements buckets.Watcher. It closes the connection of the watch, and waits for nothing.
func (s *Store) Unwatch(w buckets.Watch) {
	c := w.(*clientWatch)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.eye != nil {
		c.eye.node.watches.Add(-1)
		c.eye.close()
		c.eye = nil
	}
}
