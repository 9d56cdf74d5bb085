package memory

import (
	"testing"
	"unsafe"

	"github.com/stretchr/testify/assert"

	"cellserver/buckets"
)

// A shard that is not a whole number of cache lines puts the hot fields of some shards on three lines instead of two, and
// one of an even number has all of them compete for the same sets of the cache.
func TestAShardIsAnOddNumberOfCacheLines(t *testing.T) {
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
