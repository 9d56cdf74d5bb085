package transaction_test

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"cellserver/buckets"
	"cellserver/buckets/memory"
	"cellserver/resp/transaction"
)

// The queue gives back copies of what was added, in order, whatever becomes of the words; and so after Clear, too.
func TestQueueKeepsCopies(t *testing.T) {
	var q transaction.Queue[int]
	for round, n := range []int{3, 2000, 5} {
		var want []string
		word := make([]byte, 0, 16)
		for i := range n {
			word = fmt.Appendf(word[:0], "%d-%d", round, i)
			q.Add(i, [][]byte{word, nil, word[:1]})
			want = append(want, fmt.Sprintf("%d %s  %s", i, word, word[:1]))
		}
		clear(word[:cap(word)])
		var got []string
		q.Each(func(row int, words [][]byte) {
			got = append(got, fmt.Sprintf("%d %s", row, bytes.Join(words, []byte(" "))))
		})
		assert.Equal(t, want, got)
		assert.Equal(t, n, q.Len())
		assert.GreaterOrEqual(t, q.Size(), int64(n*3*8))
		q.Clear()
		assert.Zero(t, q.Len())
		assert.Zero(t, q.Size())
		q.Each(func(int, [][]byte) { t.Error("there is nothing in an empty queue") })
	}
}

// The next small transaction uses the memory of the last.
func TestQueueDoesNotAllocateAgain(t *testing.T) {
	var q transaction.Queue[*int]
	words := [][]byte{[]byte("CL.WINDOW"), []byte("k"), []byte("5"), []byte("60")}
	assert.Zero(t, testing.AllocsPerRun(100, func() {
		for range 10 {
			q.Add(nil, words)
		}
		q.Each(func(*int, [][]byte) {})
		q.Clear()
	}))
}

// A key is watched once, a change of any watched key is seen, and Clear ends all watches.
func TestWatches(t *testing.T) {
	store := memory.NewStore(1)
	ctx, now := t.Context(), int64(1_700_000_123)*1e9
	var w transaction.Watches
	w.Clear(nil) // of a session that watches nothing, on a store that cannot
	changed, err := w.Changed(ctx, nil, now)
	require.NoError(t, err)
	assert.False(t, changed)

	require.NoError(t, w.Add(ctx, store, now, 0, []byte("a")))
	once := w.Size()
	require.NoError(t, w.Add(ctx, store, now, 0, []byte("a")))
	assert.Equal(t, once, w.Size(), "the same key counts once")
	require.NoError(t, w.Add(ctx, store, now, 0, []byte("b")))
	assert.ElementsMatch(t, [][]byte{[]byte("a"), []byte("b")}, w.AppendKeys(nil))
	changed, err = w.Changed(ctx, store, now)
	require.NoError(t, err)
	assert.False(t, changed)

	limit, err := buckets.NewWindow(5, 60e9)
	require.NoError(t, err)
	ops := []buckets.Op{{Code: buckets.OpTake, Key: []byte("b"), Limit: &limit, Quantity: 1}}
	store.Apply(ctx, now, ops)
	require.NoError(t, ops[0].Err)
	changed, err = w.Changed(ctx, store, now)
	require.NoError(t, err)
	assert.True(t, changed)

	w.Clear(store)
	assert.Zero(t, w.Size())
	assert.Empty(t, w.AppendKeys(nil))
}
