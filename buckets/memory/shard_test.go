package memory

import (
	"testing"
	"unsafe"

	"github.com/stretchr/testify/assert"

	"cellserver/buckets"
)

// If the size of a shard is not a whole number of cache lines, the hot fields of some shards are on three lines instead
// of two. If that number is even, the hot fields of all shards compete for the same sets of the cache.
func TestShardSizeIsAnOddNumberOfCacheLines(t *testing.T) {
	if size := unsafe.Sizeof(shard{}); unsafe.Sizeof(uintptr(0)) == 8 {
		assert.EqualValues(t, 64, size%128, "the size is %d", size)
	}
}

func TestTakeDoesNotAllocate(t *testing.T) {
	store := NewStore(1)
	limit, err := buckets.NewThrottle(1000, 1000, 1e9)
	assert.NoError(t, err)
	key := []byte("k")
	assert.Zero(t, testing.AllocsPerRun(100, func() {
		_, err = store.Take(1, key, limit, 1, false)
	}))
	assert.NoError(t, err)
}
