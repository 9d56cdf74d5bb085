package memory

import (
	"fmt"
	"testing"

	"cellserver/buckets"
	"cellserver/internal/testing/storetest"
)

// The store keeps the contract of buckets.Store with any number of shards, and with blocks and indexes so small that
// records move all the time.
func TestContract(t *testing.T) {
	for _, shards := range []int{1, 8, 256} {
		t.Run(fmt.Sprintf("%d shards", shards), func(t *testing.T) {
			storetest.Test(t, func(t testing.TB) buckets.Store {
				s := seeded(shards)
				s.SetMaxLog(storetest.MaxLog)
				return s
			})
		})
	}
	t.Run("in batches", func(t *testing.T) {
		storetest.Test(t, func(t testing.TB) buckets.Store {
			s := seeded(8)
			s.SetMaxLog(storetest.MaxLog)
			s.budget.used.Add(batchAbove + 1) // makes the store appear large enough for batches
			return s
		})
	})
	t.Run("as it is made", func(t *testing.T) {
		storetest.Test(t, func(t testing.TB) buckets.Store {
			s := NewStore(1)
			s.SetMaxLog(storetest.MaxLog)
			return s
		})
	})
}
