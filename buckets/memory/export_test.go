package memory

import "cellserver/buckets"

// ApplyBatch decides ops as one batch, whatever Batches reports. It requires that there are at most 64, all of them
// OpTake.
func (s *Store) ApplyBatch(now int64, ops []buckets.Op) { s.takeBatch(now, ops) }
