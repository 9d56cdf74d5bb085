package cluster

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"cellserver/buckets"
	"cellserver/internal/testing/engines"
)

// inStack reports whether a goroutine that is in this state has a function in its stack.
func inStack(state, function string) bool {
	all := make([]byte, 1<<20)
	for _, stack := range strings.Split(string(all[:runtime.Stack(all, true)]), "\n\n") {
		head, calls, _ := strings.Cut(stack, "\n")
		if strings.Contains(head, "["+state) && strings.Contains(calls, function) {
			return true
		}
	}
	return false
}

// A connection breaks while a caller makes a batch that is too large for it to write itself: nobody is left with the right to write.
func TestConnectionBreaksWhileALargeBatchIsMade(t *testing.T) {
	n := engines.Standalone(t, engines.Valkey81)
	s := openAt(t, n.Addr(), nil)
	l := mustLimit(buckets.NewWindow(10, 60*second))
	require.NoError(t, apply(t, s, takeOp("k", l, 1)).Err)
	p := &s.engine.node(0).hot

	ops := make([]buckets.Op, 10)
	for i := range ops {
		ops[i] = takeOp(strings.Repeat("k", 4000)+string(rune('a'+i)), l, 1)
	}
	last := s.engineKey(nil, ops[len(ops)-1].Key)
	_, sh := s.table.shard(last)
	locked := func(do func()) {
		p.mu.Lock()
		defer p.mu.Unlock()
		do()
	}
	require.Eventually(t, func() (mine bool) { // so that all of them are in one batch
		locked(func() { mine, p.gathering = !p.gathering, true })
		return mine
	}, 10*time.Second, time.Millisecond)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		s.Apply(context.Background(), s.Now(), ops)
	}()
	queued := func() (n int) {
		locked(func() { n = len(p.queue) - p.next })
		return n
	}
	require.Eventually(t, func() bool { return queued() == len(ops) }, 10*time.Second, time.Millisecond)
	sh.mu.Lock() // so that the batch is not made in full
	free := sync.OnceFunc(sh.mu.Unlock)
	defer free()
	flushed := make(chan struct{})
	go func() {
		defer close(flushed)
		locked(func() {
			p.gathering = false
			p.flush(true)
		})
	}()
	var broken *pipe
	require.Eventually(t, func() bool {
		writing := false
		locked(func() { broken, writing = p.pipe, p.writing })
		return writing
	}, 10*time.Second, time.Millisecond)
	broken.kill(errors.New("broken by the test"))
	require.Eventually(t, func() bool { return inStack("sync.Cond.Wait", "cluster.(*hotPath).serve(") }, 10*time.Second, time.Millisecond)
	free()

	<-flushed
	<-ended
	for i := range ops {
		assert.NoError(t, ops[i].Err)
	}
	assert.NoError(t, apply(t, s, takeOp("k", l, 1)).Err)
}

// While the engine hangs, what is remembered of the keys that are asked for stays within its bound.
func TestMemoryWhileTheEngineHangs(t *testing.T) {
	n := engines.Standalone(t, engines.Valkey81)
	const limit = 64 << 10
	s := openAt(t, n.Addr(), func(_ *Config, r *Rules) { r.Timeout, r.CacheBytes = 10*time.Millisecond, limit })
	require.Eventually(t, func() bool {
		return apply(t, s, takeOp("k", mustLimit(buckets.NewWindow(10, 60*second)), 1)).Err == nil
	}, 10*time.Second, time.Millisecond)
	n.Pause()
	defer n.Resume()
	ops := make([]buckets.Op, 2000)
	require.Greater(t, len(ops)*int(lineBytes), 2*limit)
	down := &s.engine.node(0).hot.down
	for round := 0; down.Load() == nil; round++ {
		for i := range ops {
			ops[i] = takeOp(fmt.Sprint("key", round, ".", i), mustLimit(buckets.NewWindow(10, 60*second)), 1)
		}
		s.Apply(context.Background(), s.Now(), ops)
		require.Error(t, ops[0].Err)
	}
	bytes := func() int64 { return s.Stats().Bytes }
	assert.Eventually(t, func() bool { return bytes() <= limit }, 10*time.Second, time.Millisecond, "%d", bytes())
}
