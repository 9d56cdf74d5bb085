package storetest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"cellserver/buckets"
)

// testRandomBatches applies random batches to a store and their operations, one by one, to the reference: results, errors and
// what the keys hold afterwards must be equal. So operations on one key are carried out in order, and a batch gives what its
// operations give one by one.
func testRandomBatches(t *testing.T, open Opener) {
	rapid.Check(t, func(rt *rapid.T) {
		w := &randomBatches{store: open(t), reference: newReference(maxLog), now: epoch}
		for range rapid.IntRange(1, 25).Draw(rt, "batches") {
			w.step(rt)
		}
	})
}

type randomBatches struct {
	store     buckets.Store
	reference *reference
	now       int64
}

var (
	randomKeys   = [][]byte{[]byte("a"), []byte("b"), {}, []byte(strings.Repeat("long", 50)), []byte("\x00\xff")}
	randomLimits = []buckets.Limit{
		throttle(4, 1, second), throttle(0, 3, 2*second), window(3, 2*second), aligned(2, second, second/2), slide(3, 2*second), slide(100, 50*second),
	}
)

func (w *randomBatches) step(t *rapid.T) {
	w.now += rapid.SampledFrom([]int64{0, 1, second / 3, second, 2 * second, 100 * second}).Draw(t, "later")
	ops := rapid.SliceOfN(rapid.Custom(w.op), 1, 8).Draw(t, "ops")
	want := make([]buckets.Op, len(ops))
	for i := range ops {
		want[i] = ops[i]
		want[i].Answers = make([]buckets.Decision, len(ops[i].Checks))
		w.reference.apply(w.now, &want[i])
	}
	w.store.Apply(context.Background(), w.now, ops)
	for i := range ops {
		requireSameResult(t, &want[i], &ops[i])
	}
	w.compareKeys(t)
}

// compareKeys compares what every key holds, and what a scan visits.
func (w *randomBatches) compareKeys(t *rapid.T) {
	kinds := make(map[string]buckets.Kind)
	for _, key := range randomKeys {
		want, got := buckets.Op{Code: buckets.OpGet, Key: key}, buckets.Op{Code: buckets.OpGet, Key: key}
		w.reference.apply(w.now, &want)
		applyOne(w.store, w.now, &got)
		requireSameResult(t, &want, &got)
		if got.N == 1 {
			kinds[string(key)] = got.Contents.Kind
		}
	}
	require.Equal(t, kinds, scanAll(t, w.store, w.now, 2), "what a scan visits")
	n, err := w.store.Len(context.Background(), w.now)
	require.NoError(t, err)
	require.GreaterOrEqual(t, n, int64(len(kinds)), "Len may count keys that have expired, but must count the others")
}

// requireSameResult compares what an operation sets. Tolerated: any Bytes that is not negative.
func requireSameResult(t require.TestingT, want, got *buckets.Op) {
	about := fmt.Sprintf("operation %d of %q %q", want.Code, want.Key, want.Keys)
	require.Equal(t, want.Err, got.Err, about)
	require.Equal(t, want.N, got.N, about)
	require.Equal(t, want.Which, got.Which, about)
	switch {
	case want.Err != nil:
	case want.Code == buckets.OpTake:
		require.Equal(t, want.Decision, got.Decision, about)
	case want.Code == buckets.OpTakeAll:
		require.Equal(t, want.Answers, got.Answers, about)
	case want.Code == buckets.OpStat || want.Code == buckets.OpGet:
		require.GreaterOrEqual(t, got.Contents.Bytes, int64(0), about)
		contents := got.Contents
		contents.Bytes = 0
		require.Equal(t, want.Contents, contents, about)
	}
}

func (w *randomBatches) op(t *rapid.T) (op buckets.Op) {
	key := rapid.SampledFrom(randomKeys)
	quantity := rapid.SampledFrom([]int64{1, 1, 1, 0, 2, 3, 5, -1, -2, 101})
	limit := rapid.SampledFrom(randomLimits)
	op.Code = rapid.SampledFrom([]buckets.OpCode{
		buckets.OpTake, buckets.OpTake, buckets.OpTake, buckets.OpTake, buckets.OpTakeAll, buckets.OpTakeAll, buckets.OpStat, buckets.OpGet,
		buckets.OpExists, buckets.OpDelete, buckets.OpExpire, buckets.OpPersist, buckets.OpRename, buckets.OpUpdate, buckets.OpUpdate,
	}).Draw(t, "code")
	op.Key = key.Draw(t, "key")
	switch op.Code {
	case buckets.OpTake:
		l := limit.Draw(t, "limit")
		op.Limit, op.Quantity = &l, quantity.Draw(t, "quantity")
		op.Peek = rapid.IntRange(0, 3).Draw(t, "peek") == 0
	case buckets.OpTakeAll:
		for _, key := range rapid.Permutation(randomKeys).Draw(t, "keys")[:rapid.IntRange(1, len(randomKeys)).Draw(t, "checks")] {
			op.Checks = append(op.Checks, buckets.Check{Key: key, Limit: limit.Draw(t, "limit"), Quantity: quantity.Draw(t, "quantity")})
		}
		op.Answers = make([]buckets.Decision, len(op.Checks))
		op.Peek = rapid.IntRange(0, 3).Draw(t, "peek") == 0
	case buckets.OpExists, buckets.OpDelete:
		op.Keys = rapid.SliceOfN(key, 1, 4).Draw(t, "keys")
	case buckets.OpExpire:
		op.At = w.now + rapid.SampledFrom([]int64{-second, 0, 1, second / 2, second, 3 * second, 1000 * second}).Draw(t, "in")
		op.Condition = rapid.SampledFrom([]buckets.Condition{
			0, 0, buckets.IfNone, buckets.IfSome, buckets.IfLater, buckets.IfEarlier, buckets.IfSome | buckets.IfLater,
		}).Draw(t, "condition")
	case buckets.OpRename:
		op.To, op.IfFree = key.Draw(t, "to"), rapid.Bool().Draw(t, "if free")
	case buckets.OpUpdate:
		op.Keys = rapid.SliceOfN(key, 1, 3).Draw(t, "keys")
		update := randomUpdate{what: rapid.IntRange(0, 7).Draw(t, "update"), limit: limit.Draw(t, "limit")}
		op.Update = &update
		if rapid.Bool().Draw(t, "selective") {
			op.Update = &selectiveUpdate{randomUpdate: update, changes: rapid.SliceOfN(rapid.Bool(), 3, 3).Draw(t, "changes")}
		}
	}
	return op
}

// selectiveUpdate is a randomUpdate that changes only some of the states.
type selectiveUpdate struct {
	randomUpdate
	changes []bool
}

func (u *selectiveUpdate) Update(now int64, states []buckets.State) (changed bool, err error) {
	before := slices.Clone(states)
	changed, err = u.randomUpdate.Update(now, states)
	for i := range states {
		if !u.changes[i] {
			states[i] = before[i]
		}
	}
	return changed, err
}

func (u *selectiveUpdate) Changes(i int) bool { return u.changes[i] }

var errUpdate = errors.New("the updater fails")

// randomUpdate does one of several things to the states that it is given.
type randomUpdate struct {
	what  int
	limit buckets.Limit
}

func (u *randomUpdate) Update(now int64, states []buckets.State) (changed bool, err error) {
	switch u.what {
	case 0: // takes, of what is of its kind
		for i := range states {
			if kind := states[i].Kind; kind == u.limit.Kind() || kind == buckets.None {
				var d buckets.Decision
				effect, err := states[i].Take(&u.limit, now, 1, maxLog, &d)
				if err != nil {
					return false, err
				}
				changed = changed || effect != buckets.Unchanged
			}
		}
		return changed, nil
	case 1: // moves what each key holds to the next
		last := states[len(states)-1]
		copy(states[1:], states)
		states[0] = last
	case 2: // deletes the first, and makes the others windows
		for i := range states {
			states[i] = buckets.State{}
			if i > 0 {
				states[i] = buckets.Windowed(buckets.WindowState{Start: now, End: now + second, Used: 2})
			}
		}
	case 3: // stores a log
		states[0] = buckets.Logged(buckets.NewAdmissions(2*second, buckets.Admission{At: now - second, Quantity: 1}, buckets.Admission{At: now, Quantity: 2}))
	case 6: // stores numbers, some of which last
		for i := range states {
			states[i] = buckets.CountedFloat(float64(i)/2, []int64{now + second, buckets.NoExpiry, now + 2*second, now}[i%4])
		}
	case 7: // adds to counters, and keeps their expiry
		for i := range states {
			if states[i].Kind == buckets.Counter {
				states[i].Words[0]++
				changed = true
			}
		}
		return changed, nil
	case 4: // takes, and fails nevertheless
		for i := range states {
			var d buckets.Decision
			if states[i].Kind == u.limit.Kind() {
				_, _ = states[i].Take(&u.limit, now, 1, maxLog, &d)
			}
		}
		return false, errUpdate
	default: // takes, and has nothing stored
		var d buckets.Decision
		if states[0].Kind == u.limit.Kind() {
			_, _ = states[0].Take(&u.limit, now, 1, maxLog, &d)
		}
		return false, nil
	}
	return true, nil
}
