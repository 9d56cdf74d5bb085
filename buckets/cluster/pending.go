package cluster

import (
	"context"

	"cellserver/buckets"
)

// What the transactions of several keys will replace.

func (s *Store) applyTogether(_ context.Context, _ int64, op *buckets.Op) {
	op.Err = buckets.ErrNotOffered
}

func (s *Store) watchSwap(_ context.Context, _ *node, sw *swap) {
	sw.err = &buckets.Unavailable{Reason: "the engine has no IFEQ"}
}
