package memory

import (
	"cellserver/buckets"
	"fmt"
	"hash/maphash"
	"testing"

	"github.com/stretchr/testify/require"
)

// FuzzTable compares a store of one shard with a Go map. Each byte adds, changes, reads, removes, renames or expires one
// of a few keys of different lengths, or gives it a deadline.
func FuzzTable(f *testing.F) {
	f.Add([]byte("abcdefghijklmnopqrstuvwxyz"), int64(0))
	f.Add([]byte{0, 8, 16, 24, 32, 1, 9, 17, 25, 2, 10, 18, 3, 11, 4, 5, 6, 7, 255, 254, 253}, int64(0))
	f.Add([]byte("the quick brown fox jumps over the lazy dog and then some more of it"), int64(600))
	f.Fuzz(func(t *testing.T, steps []byte, limit int64) {
		if len(steps) > 2000 {
			steps = steps[:2000]
		}
		g := tiny
		if len(steps) > 0 && steps[0]&1 != 0 {
			g = usual
		}
		s := newStore(1, g, maphash.MakeSeed())
		if limit > 0 && limit < 1<<20 {
			s.SetMemory(limit, false) // requests that are refused for lack of memory change nothing
		}
		l := window(t, 1<<40, 1<<40)
		used := make(map[string]int64)
		now := epoch
		name := func(b byte) string { return fmt.Sprintf("%0*d", 1+int(b)%37*int(b)%150, b) }
		for i, b := range steps {
			key := name(b >> 3 << 3)
			switch b & 7 {
			case 0, 1, 2, 3:
				if _, err := s.Take(now, []byte(key), l, int64(b)+1, false); err == nil {
					used[key] += int64(b) + 1
				} else {
					require.ErrorIs(t, err, buckets.ErrNoMemory)
				}
			case 4:
				_, there := used[key]
				require.Equal(t, there, s.Delete(now, []byte(key)))
				delete(used, key)
			case 5:
				to := name(byte(i))
				renamed, err := s.Rename(now, []byte(key), []byte(to), false)
				_, there := used[key]
				require.Equal(t, there, renamed)
				require.Equal(t, there, err == nil)
				if there && to != key {
					used[to] = used[key]
					delete(used, key)
				}
			case 6:
				_, there := used[key]
				require.Equal(t, there, s.ExpireAt(now, []byte(key), now+10, 0))
				if there {
					now += 10 // only this key has expired
					delete(used, key)
				}
			case 7:
				if b == 255 {
					s.flush()
					clear(used)
				}
				s.Sweep(now)
			}
			c, there := s.Get(now, []byte(key))
			want, wanted := used[key]
			require.Equal(t, wanted, there, "step %d: %q", i, key)
			require.Equal(t, want, c.Field("used"))
		}
		require.EqualValues(t, len(used), s.Live(now))
		seen := make(map[string]bool)
		for cursor := uint64(0); ; {
			cursor = s.scan(now, cursor, 3, func(key []byte, _ buckets.Kind) {
				require.False(t, seen[string(key)], "each key once")
				seen[string(key)] = true
			})
			if cursor == 0 {
				break
			}
		}
		require.Len(t, seen, len(used))
		checkInvariants(t, s)
	})
}
