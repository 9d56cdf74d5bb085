package cluster

import (
	"bytes"
	"context"
	"errors"
	"strings"

	"github.com/redis/go-redis/v9"

	"cellserver/buckets"
)

// watchSwap carries out a swap on an engine without IFEQ: WATCH and GET, and if the key holds what it should, MULTI, SET and
// EXEC. What it finds means the same as with IFEQ. sw.err is as the server has sent it if it may be tried again, or elsewhere.
func (s *Store) watchSwap(ctx context.Context, n *node, sw *swap) {
	sw.won, sw.found, sw.value, sw.err = false, false, nil, nil
	var wait backoff
	asking := false
	for {
		err := s.trySwap(ctx, n, asking, sw)
		switch {
		case err == nil || errors.Is(err, buckets.ErrTooFewReplicas):
			sw.err = err
			return
		case isUnknown(err):
			sw.err = err
			return
		case isReply(err):
			if to := s.importer(n, err); to != nil && !asking {
				n, asking = to, true
				continue
			}
			sw.err = err
			return
		}
		// A conflict, or a connection that broke before anything was changed.
		if errors.Is(err, errConflict) {
			s.count.conflicts.Add(1)
			wait.pause(ctx, 0)
		} else {
			wait.pause(ctx, troubleWait)
		}
		if ctx.Err() != nil {
			text := string(newEngineError([]byte(plain(err))))
			sw.err = &buckets.Unavailable{Reason: "the engine was not able to decide within store-timeout: " + text}
			return
		}
	}
}

// importer returns the server that an ASK reply names, or nil.
func (s *Store) importer(n *node, err error) *node {
	if words := strings.Fields(err.Error()); len(words) == 3 && words[0] == "ASK" {
		return s.engine.at(n, words[2])
	}
	return nil
}

// isUnknown reports whether err says that the engine may have made a change.
func isUnknown(err error) bool {
	var away *buckets.Unavailable
	return errors.As(err, &away) && away.Unknown
}

// trySwap tries a swap once.
func (s *Store) trySwap(ctx context.Context, n *node, asking bool, sw *swap) error {
	conn := n.client.Conn()
	defer func() { _ = conn.Close() }()
	t := transaction{store: s, node: n, conn: conn, asking: asking}
	value, found, err := t.watch(ctx, sw.key, sw.mode != read)
	if err != nil {
		return err
	}
	sw.found, sw.value = found, value
	switch {
	case sw.mode == read, sw.mode == create && found, sw.mode == replace && (!found || !bytes.Equal(value, sw.old)):
		return nil
	}
	err = s.execute(ctx, conn, asking, [][]any{setCommand(sw.key, sw.new, sw.ttl)})
	sw.won = err == nil || errors.Is(err, buckets.ErrTooFewReplicas)
	return err
}

// watch reads a key, and watches it before that if change is set.
func (t *transaction) watch(ctx context.Context, key []byte, change bool) (value []byte, found bool, err error) {
	pipe := t.conn.Pipeline()
	var watched *redis.Cmd
	if change {
		pipe.Do(ctx, "unwatch")
		watched = t.ask(ctx, pipe, "watch", []any{key})
	}
	read := t.ask(ctx, pipe, "get", []any{key})
	_, _ = pipe.Exec(ctx)
	t.store.count.roundTrips.Add(1)
	t.store.count.commands.Add(1)
	if watched != nil && watched.Err() != nil {
		return nil, false, watched.Err()
	}
	text, err := read.Text()
	if errors.Is(err, redis.Nil) {
		return nil, false, nil
	}
	return []byte(text), err == nil, err
}
