package memory

import (
	"cellserver/buckets"
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// disableInPlace makes every request to a store take the general path, as it does while a key of the shard is watched.
func disableInPlace(s *Store) {
	for n := range s.shards {
		s.shards[n].zero.watches = map[string]map[*watch]struct{}{"nobody's": nil}
	}
}

// dumpTables returns the contents and the counters of all shards, except for the places of records and duplicates in the
// list of changed keys.
func dumpTables(s *Store) string {
	sh := &s.shards[0]
	var of []string
	sh.table.each(func(place uint32, r []byte) {
		kind, key, body := split(r)
		if kind == buckets.Slide {
			var g ringLog
			g.getHead(body)
			body = slices.Clone(body[:logBytes(0, g.width, g.sums)])
			for i := range g.n {
				body = fmt.Appendf(body, " %d through %d", g.Time(i), g.Before(i+1))
			}
		}
		of = append(of, fmt.Sprintf("%q, flags %x, until %d: %q", key, r[0], sh.table.deadline(place), body))
	})
	for left := sh.table.dirty; len(left) > 0; {
		size, n := binary.Uvarint(left)
		of = append(of, fmt.Sprintf("noted: %q", left[n:][:size]))
		left = left[n:][size:]
	}
	slices.Sort(of)
	return fmt.Sprintf("latest %d, %d changes, %d expired, %d keys, %d units\n%s", sh.latest, sh.changes, sh.expired, sh.table.count,
		sh.table.live/unit, strings.Join(slices.Compact(of), "\n"))
}

// storePair is two stores that get the same requests: one updates in place when it can, the other never does.
type storePair struct {
	short, long *Store
	now         int64
	last        buckets.Decision
	watches     [][2]*watch

	limited bool // memory is limited; this ends with the first key that expires, because the stores free its record differently
}

// both calls do with both stores and requires equal results.
func both[T any](t *rapid.T, w *storePair, do func(s *Store) T) T {
	got, want := do(w.short), do(w.long)
	require.Equal(t, want, got)
	return got
}

type answer struct {
	d   buckets.Decision
	err error
}

// advance lets time pass: usually so little that nothing expires, and sometimes backwards.
func (w *storePair) advance(t *rapid.T, period int64) {
	var step int64
	switch rapid.IntRange(0, 9).Draw(t, "clock") {
	case 0, 1, 2:
	case 3, 4:
		step = 1
	case 5, 6:
		step = rapid.Int64Range(0, period/8+1).Draw(t, "a while")
	case 7:
		step = rapid.SampledFrom([]int64{w.last.RetryAfter, w.last.RetryAfter - 1, w.last.ResetAfter, w.last.ResetAfter - 1}).Draw(t, "until")
	case 8:
		step = rapid.Int64Range(0, period).Draw(t, "long")
	case 9:
		step = -rapid.Int64Range(0, period/4+1).Draw(t, "back")
	}
	w.now = max(0, addSat(w.now, step))
}

// quantity draws a quantity, which is usually 1.
func (w *storePair) quantity(t *rapid.T, l buckets.Limit) int64 {
	room := w.last.Remaining
	return rapid.OneOf(
		rapid.Just(int64(1)), rapid.Just(int64(1)), rapid.Just(int64(1)),
		rapid.SampledFrom([]int64{0, 2, 3, -1, -2}),
		rapid.SampledFrom([]int64{room, addSat(room, 1), -room, l.Max(), addSat(l.Max(), 1), math.MaxInt64, math.MinInt64}),
	).Draw(t, "quantity")
}

func (w *storePair) setMaxLog(records int64) {
	w.short.SetMaxLog(records)
	w.long.SetMaxLog(records)
}

func (w *storePair) step(t *rapid.T, keys []string, policies []policy) {
	key := []byte(rapid.SampledFrom(keys).Draw(t, "key"))
	p := rapid.SampledFrom(policies).Draw(t, "policy")
	w.advance(t, p.period)
	switch action := rapid.IntRange(0, 39).Draw(t, "action"); action {
	default:
		l, peek := limitOf(t, p), action == 30
		quantity := w.quantity(t, l)
		var a answer
		a.d, a.err = w.short.Take(w.now, key, l, quantity, peek)
		d, err := w.long.Take(w.now, key, l, quantity, peek)
		if w.limited && err == buckets.ErrNoMemory && w.long.shards[0].expired > 0 {
			return // the general path has removed an expired record, whose memory the fast path keeps
		}
		require.Equal(t, answer{d, err}, a)
		t.Logf("at %d: %d of %q, %+v, peek=%t: %+v", w.now, quantity, key, p, peek, a)
		w.last = a.d
	case 31:
		at := rapid.SampledFrom([]int64{w.now, addSat(w.now, 1), addSat(w.now, w.last.ResetAfter/2), addSat(w.now, w.last.ResetAfter)}).Draw(t, "deadline")
		at = min(at, math.MaxInt64-millisecond)
		both(t, w, func(s *Store) bool { return s.ExpireAt(w.now, key, at, 0) })
		t.Logf("at %d: expire %q at %d", w.now, key, at)
	case 32:
		both(t, w, func(s *Store) bool { return s.Persist(w.now, key) })
		t.Logf("at %d: persist %q", w.now, key)
	case 33:
		if rapid.IntRange(0, 3).Draw(t, "delete") == 0 {
			both(t, w, func(s *Store) bool { return s.Delete(w.now, key) })
			t.Logf("at %d: delete %q", w.now, key)
		}
	case 28:
		maxLog := rapid.SampledFrom([]int64{DefaultMaxLog, 20, 3, 0}).Draw(t, "max log")
		w.setMaxLog(maxLog)
		t.Logf("logs of %d records", maxLog)
	case 29: // as loaded from a file that was written on a clock ahead of this one
		ahead := addSat(w.now, rapid.SampledFrom([]int64{-p.period / 2, -1, 0, 1, p.period / 2, 2 * p.period}).Draw(t, "ahead"))
		e := buckets.Entry{Key: key}
		start, end := ahead-p.period/2, ahead+1
		switch p.kind {
		case buckets.Throttle:
			e.State = buckets.Throttled(ahead)
		case buckets.Window:
			e.State = buckets.Windowed(buckets.WindowState{Start: start, End: end, Used: 1})
		case buckets.Slide:
			e.State = buckets.Logged(oldLog{[]int64{w.now - p.period/2, ahead}, p.period})
		}
		if end > start && ahead >= w.now-p.period/2 {
			both(t, w, func(s *Store) bool { s.Restore(w.now, &e); return true })
			t.Logf("at %d: restore %+v", w.now, e)
		}
	case 34:
		both(t, w, func(s *Store) bool { sweepAll(s, w.now); return true })
		t.Logf("at %d: sweep", w.now)
	case 35:
		both(t, w, func(s *Store) map[string]string {
			all := make(map[string]string)
			changes, _ := s.Changes(nil)
			for line := range strings.Lines(string(changes)) {
				key, state, _ := strings.Cut(line, "=")
				all[key] = state
			}
			return all
		})
		t.Log("changes are gathered")
	case 36:
		encoder := rapid.SampledFrom([]Encoder{nil, textEncoder{}, textEncoder{}}).Draw(t, "track")
		both(t, w, func(s *Store) bool { s.Track(encoder); return true })
		t.Logf("track: %v", encoder)
	case 37:
		room := rapid.SampledFrom([]int64{0, 0, 1, 200}).Draw(t, "memory")
		if !w.limited {
			break
		}
		both(t, w, func(s *Store) int64 {
			if room == 0 {
				s.SetMemory(0, false)
			} else {
				s.SetMemory(s.Bytes()+room, false)
			}
			return s.Bytes()
		})
		t.Logf("memory: %d more", room)
	case 38:
		if len(w.watches) < 2 {
			w.watches = append(w.watches, [2]*watch{w.short.watch(w.now, key), w.long.watch(w.now, key)})
			t.Logf("at %d: watch %q", w.now, key)
		}
	case 39:
		for _, of := range w.watches {
			require.Equal(t, w.long.changed(w.now, of[1]), w.short.changed(w.now, of[0]))
			w.short.unwatch(of[0])
			w.long.unwatch(of[1])
		}
		w.watches = nil
	}
	require.Equal(t, dumpTables(w.long), dumpTables(w.short))
}

// equalsGeneralPath makes requests for a policy and its variations, and compares the two paths.
func equalsGeneralPath(t *rapid.T, p policy) {
	g := rapid.SampledFrom([]geometry{tiny, usual}).Draw(t, "geometry")
	w := &storePair{short: newStore(1, g, seed), long: newStore(1, g, seed)}
	disableInPlace(w.long)
	policies := slices.Repeat([]policy{p}, 10)
	policies = append(policies, variation(p).Draw(t, "variation"), somePolicy(buckets.Throttle+p.kind%3).Draw(t, "another kind"))
	w.now = rapid.SampledFrom([]int64{epoch, epoch, epoch, 0, horizon, math.MaxInt64 - p.period, math.MaxInt64 - p.period/2, math.MaxInt64}).Draw(t, "start")
	w.setMaxLog(rapid.SampledFrom([]int64{DefaultMaxLog, DefaultMaxLog, 3, 20}).Draw(t, "max log"))
	// The shortest key that cannot be updated in place, the longest one that can, and two others.
	keys := []string{strings.Repeat("m", shortKey), strings.Repeat("l", shortKey-1), "k", ""}
	keys = keys[rapid.IntRange(0, len(keys)-1).Draw(t, "keys"):]
	w.limited = rapid.Bool().Draw(t, "limited")
	for range rapid.IntRange(1, 200).Draw(t, "requests") {
		w.step(t, keys, policies)
		if w.limited && w.long.shards[0].expired > 0 {
			break
		}
	}
}

// For any request, time and state, an update in place gives what the general path gives.
func TestInPlaceEqualsGeneralPath(t *testing.T) { eachKind(t, equalsGeneralPath) }

func FuzzInPlace(f *testing.F) {
	f.Fuzz(rapid.MakeFuzz(func(t *rapid.T) { equalsGeneralPath(t, somePolicy(someKind.Draw(t, "kind")).Draw(t, "policy")) }))
}

// The same holds for busy logs, whose records leave as others are added, and leave in great number after a pause.
func TestInPlaceLogEqualsGeneralPath(t *testing.T) {
	for _, limit := range []int64{1, 5, 40, 1000} {
		t.Run(fmt.Sprint("limit ", limit), func(t *testing.T) {
			for seeding := range uint64(4) {
				random := rand.New(rand.NewPCG(seeding, uint64(limit)))
				g := []geometry{usual, tiny}[seeding/2]
				short, long := newStore(1, g, seed), newStore(1, g, seed)
				disableInPlace(long)
				period := []int64{second, 60 * second, 999, 86400 * second}[seeding]
				l, other := slide(t, limit, period), slide(t, limit, 300*period)
				now := epoch
				for n := range 3000 {
					if random.IntN(100) == 0 { // another period, for which times may need more bytes
						l, other = other, l
					}
					step := random.Int64N(1 + 4*l.Period()/min(limit, 300))
					switch random.IntN(50) {
					case 0:
						step = random.Int64N(2 * l.Period())
					case 1, 2, 3, 4, 5:
						step = 0
					case 6:
						step = -random.Int64N(l.Period())
					}
					now += step
					quantity := int64(1)
					if seeding%2 == 0 && random.IntN(4) == 0 || random.IntN(300) == 0 {
						quantity = random.Int64N(6) - 1 // gives some logs running sums
					}
					key := fmt.Appendf(nil, "%0*d", 10*int(seeding), random.IntN(3)) // three keys in one shard, whose records move each other
					want, wantErr := long.Take(now, key, l, quantity, false)
					got, err := short.Take(now, key, l, quantity, false)
					require.Equal(t, wantErr, err)
					require.Equal(t, want, got)
					require.Equal(t, dumpTables(long), dumpTables(short))
					if n%20 == 0 {
						checkInvariants(t, short)
					}
				}
			}
		})
	}
}
