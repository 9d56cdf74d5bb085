package memory

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"cellserver/buckets"
)

// updateFunc is a function that is an Updater.
type updateFunc func(now int64, states []buckets.State) (bool, error)

func (f updateFunc) Update(now int64, states []buckets.State) (bool, error) { return f(now, states) }

// putStates returns an Updater that replaces all states.
func putStates(to ...buckets.State) updateFunc {
	return func(_ int64, states []buckets.State) (bool, error) {
		copy(states, to)
		return true, nil
	}
}

func openWindow(used int64) buckets.State {
	return buckets.Windowed(buckets.WindowState{Start: epoch, End: epoch + 60*second, Used: used})
}

// logOf returns a log of n records of 1, the last one at epoch.
func logOf(n int) buckets.State {
	var records []buckets.Admission
	for i := range n {
		records = append(records, buckets.Admission{At: epoch - int64(n-1-i), Quantity: 1})
	}
	return buckets.Logged(buckets.NewAdmissions(60*second, records...))
}

func keyBytes(names ...string) (keys [][]byte) {
	for _, name := range names {
		keys = append(keys, []byte(name))
	}
	return keys
}

// An update of keys in one shard and in several is reported to the journal and to watches, drops deadlines, and can
// change kinds.
func TestUpdateIsJournaledWatchedAndDropsDeadlines(t *testing.T) {
	for _, keys := range [][]string{{"a"}, {"a", "b"}, {"c", "b", "a", "none"}} {
		eachShape(t, func(t *testing.T, s *Store) {
			states := make(map[string]string)
			for i, key := range keys {
				if key == "none" {
					continue
				}
				l := []buckets.Limit{throttle(t, 9, 1, 60*second), slide(t, 9, 60*second), window(t, 9, 60*second)}[i%3]
				mustTake(t, s, epoch, key, l, 1)
				require.True(t, s.ExpireAt(epoch, []byte(key), epoch+second, 0))
			}
			s.Track(textEncoder{})
			for key, state := range copyAsText(t, s, epoch) {
				states[key] = state
			}
			var watches []buckets.Watch
			for _, key := range keys {
				w, err := s.Watch(context.Background(), epoch, []byte(key))
				require.NoError(t, err)
				watches = append(watches, w)
			}
			before := s.Stats().Changes
			require.NoError(t, s.Update(epoch, keyBytes(keys...), putStates(logOf(3), openWindow(2), buckets.Throttled(epoch+second), logOf(1))))
			checkInvariants(t, s)
			assert.EqualValues(t, len(keys), s.Stats().Changes-before, "each key is one change")
			for i, w := range watches {
				changed, err := s.Changed(context.Background(), epoch, w)
				require.NoError(t, err)
				assert.True(t, changed, keys[i])
				s.Unwatch(w)
			}
			out, n := s.Changes(nil)
			assert.Equal(t, len(keys), n)
			replay(t, states, out)
			assert.Equal(t, copyAsText(t, s, epoch), states)
			for i, key := range keys {
				held, found := s.Get(epoch, []byte(key))
				require.True(t, found)
				assert.Zero(t, held.Deadline, key)
				assert.Equal(t, []buckets.Kind{buckets.Slide, buckets.Window, buckets.Throttle, buckets.Slide}[i], held.Kind)
			}

			require.NoError(t, s.Update(epoch, keyBytes(keys...), putStates(make([]buckets.State, len(keys))...)))
			assert.Zero(t, s.Keys(), "a zero state deletes the key")
			out, _ = s.Changes(nil)
			replay(t, states, out)
			assert.Empty(t, states)
			checkInvariants(t, s)
		})
	}
}

// An update that fails, or reports no change, leaves the store and the journal unchanged, whatever it did to the states
// that it was given.
func TestFailedUpdateChangesNothing(t *testing.T) {
	failure := errors.New("failure")
	for _, result := range []error{failure, nil} {
		eachShape(t, func(t *testing.T, s *Store) {
			l := slide(t, 9, 60*second)
			for _, key := range []string{"a", "b"} {
				for i := range int64(3) {
					mustTake(t, s, epoch+i, key, l, 1+i%2) // running sums, which an addition to the newest record changes in place
				}
			}
			s.Track(textEncoder{})
			before := dump(s, epoch)
			for _, keys := range [][]string{{"a"}, {"a", "b"}, {"none", "a", "b"}} {
				err := s.Update(epoch, keyBytes(keys...), updateFunc(func(now int64, states []buckets.State) (bool, error) {
					for i := range states {
						var d buckets.Decision
						_, err := states[i].Take(&l, now, 2, 100, &d)
						require.NoError(t, err)
					}
					return result != nil, result
				}))
				require.Equal(t, result, err)
			}
			require.Equal(t, buckets.ErrSameKey, s.Update(epoch, keyBytes("a", "b", "a"), putStates(openWindow(1))))
			assert.Equal(t, before, dump(s, epoch))
			out, n := s.Changes(nil)
			assert.Zero(t, n, "%s", out)
			checkInvariants(t, s)
		})
	}
}

// Without eviction, an update of several keys that needs memory beyond the limit stores none of them. One that needs no
// memory is stored.
func TestUpdateBeyondTheMemoryLimitStoresNothing(t *testing.T) {
	eachShape(t, func(t *testing.T, s *Store) {
		large := bytes.Repeat([]byte{'l'}, 5000)
		for _, key := range []string{"a", "b"} {
			mustTake(t, s, epoch, key, window(t, 9, 60*second), 1)
		}
		s.SetMemory(1, false)
		before := dump(s, epoch)
		for _, keys := range [][][]byte{{large}, {[]byte("a"), large}, {[]byte("a"), []byte("b")}} {
			long := logOf(5000)
			require.Equal(t, buckets.ErrNoMemory, s.Update(epoch, keys, putStates(long, long)))
			assert.Equal(t, before, dump(s, epoch))
			checkInvariants(t, s)
		}
		require.NoError(t, s.Update(epoch, keyBytes("a", "b"), putStates(openWindow(5), openWindow(6))), "a state of its size needs none")
		require.NoError(t, s.Update(epoch, append(keyBytes("a"), large), putStates(buckets.State{}, buckets.Throttled(epoch))), "nor does a full bucket")
		_, found := s.Stat(epoch, []byte("a"))
		assert.False(t, found)
	})
}

// With eviction, an update makes room and stores every key, even if it has to evict its own keys.
func TestUpdateEvictsToMakeRoomForAllItsKeys(t *testing.T) {
	eachShape(t, func(t *testing.T, s *Store) {
		for i := range 300 {
			mustTake(t, s, epoch, fmt.Sprint("old ", i), throttle(t, 9, 1, second), 1)
		}
		s.SetMemory(s.Bytes(), true)
		var keys [][]byte
		var states []buckets.State
		for i := range 20 {
			keys, states = append(keys, fmt.Appendf(nil, "old %d", i)), append(states, logOf(100))
		}
		require.NoError(t, s.Update(epoch, keys, putStates(states...)))
		checkInvariants(t, s)
		for _, key := range keys[len(keys)-1:] {
			held, found := s.Get(epoch, key)
			require.True(t, found)
			assert.EqualValues(t, 100, held.Field("records"))
		}
	})
}

// A ring log and a plain list give the same decisions for any requests.
func TestRingLogAnswersAsAdmissions(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := somePolicy(buckets.Slide).Draw(t, "policy")
		limits := append(rapid.SliceOfN(variation(p), 0, 2).Draw(t, "variations"), p)
		plain := buckets.Logged(new(buckets.Admissions))
		packed := buckets.Logged(new(ringLog))
		now := epoch
		for range rapid.IntRange(1, 60).Draw(t, "requests") {
			now += rapid.SampledFrom([]int64{0, 0, 1, p.period / 5, p.period - 1, p.period, -1}).Draw(t, "later")
			now = max(0, now%horizon)
			l := limitOf(t, rapid.SampledFrom(limits).Draw(t, "limit"))
			quantity := rapid.SampledFrom([]int64{1, 1, 1, 0, 2, 5, -1, -3}).Draw(t, "quantity")
			most := rapid.SampledFrom([]int{1000, 3}).Draw(t, "max log")
			var want, got buckets.Decision
			plain.Peek(&l, now, quantity, &want)
			packed.Peek(&l, now, quantity, &got)
			require.Equal(t, want, got)
			effect, wantErr := plain.Take(&l, now, quantity, most, &want)
			did, err := packed.Take(&l, now, quantity, most, &got)
			require.Equal(t, wantErr, err)
			require.Equal(t, effect, did)
			require.Equal(t, want, got)
			require.Equal(t, plain.FullAt(), packed.FullAt())
			require.Equal(t, plain.AppendFields(nil, now), packed.AppendFields(nil, now))
			a, b := plain.Log, packed.Log
			require.Equal(t, a.Len(), b.Len())
			for i := range a.Len() {
				require.Equal(t, a.Time(i), b.Time(i))
				require.Equal(t, a.Before(i+1)-a.Before(i), b.Before(i+1)-b.Before(i))
			}
		}
	})
}
