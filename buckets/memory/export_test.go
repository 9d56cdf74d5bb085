package memory

import "cellserver/buckets"

// ApplyBatch decides ops, at most 64 and all OpTake, as a batch whatever Batches says.
func (s *Store) ApplyBatch(now int64, ops []buckets.Op) { s.takeBatch(now, ops) }
