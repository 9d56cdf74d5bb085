package persistence_test

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"cellserver/buckets"
	"cellserver/buckets/memory"
	"cellserver/internal/testing/crashfs"
	"cellserver/persistence"
)

// counted encodes changes like the journal does and counts the amendments.
type counted struct{ amends *int }

func (counted) AppendSet(dst []byte, e *buckets.Entry) []byte { return persistence.AppendSet(dst, e) }
func (counted) AppendDelete(dst []byte, db int, key []byte) []byte {
	return persistence.AppendDelete(dst, db, key)
}
func (counted) AppendFlush(dst []byte, db int) []byte  { return persistence.AppendFlush(dst, db) }
func (counted) AppendFlushAll(dst []byte) []byte       { return persistence.AppendFlushAll(dst) }
func (counted) AppendSwap(dst []byte, a, b int) []byte { return persistence.AppendSwap(dst, a, b) }
func (c counted) AppendAmend(dst []byte, e *buckets.Entry) []byte {
	*c.amends++
	return persistence.AppendAmend(dst, e)
}

// contents returns the contents of a store at now by key; of logs, the records that have not left.
func contents(t require.TestingT, store *memory.Store, now int64) map[string]string {
	all := make(map[string]string)
	require.NoError(t, store.Copy(now, func(p *memory.Part) error {
		p.Each(func(e *buckets.Entry) {
			key := string(e.Key)
			if e.Database != 0 {
				key = fmt.Sprint(e.Database, ":", key)
			}
			if e.Kind != buckets.Slide {
				all[key] = string(persistence.AppendSet(nil, e))
				return
			}
			var b strings.Builder
			fmt.Fprint(&b, e.Deadline, e.Log.Period())
			for i := range e.Log.Len() {
				if e.Log.Time(i)+e.Log.Period() > now {
					fmt.Fprintf(&b, " %d:%d", e.Log.Time(i), e.Log.Before(i+1)-e.Log.Before(i))
				}
			}
			all[key] = b.String()
		})
		return nil
	}))
	return all
}

// section is a section of changes.
type section struct {
	payload []byte
	count   int
	swaps   uint64 // how many swaps of databases there were when it ended
}

// history is a store with the sections of its journal, its contents after each section, and copies of it.
type history struct {
	t        *rapid.T
	store    *memory.Store
	now      int64
	sections []section
	states   []map[string]string // before the first section, and after each
	times    []int64             // the times of states
	copies   []copied
	amends   *int
	swaps    uint64 // how many there were at the beginning
}

// copied is a copy of the store, as the base of a journal, and the number of sections before it.
type copied struct {
	base   []byte
	before int
	exact  bool // nothing had changed since the last section
	swaps  uint64
}

// begin makes the contents of the store the base of the journal.
func (h *history) begin() {
	h.store.Track(counted{h.amends})
	h.swaps = h.store.Swaps()
	h.sections, h.copies = nil, nil
	h.states, h.times = []map[string]string{contents(h.t, h.store, h.now)}, []int64{h.now}
	h.copy(true)
}

func (h *history) copy(exact bool) {
	var b bytes.Buffer
	_, err := persistence.WriteSnapshot(&b, h.store, h.now, 1)
	require.NoError(h.t, err)
	file := b.Bytes()
	file[12] = byte(persistence.JournalFile)
	sum(file[:28])
	h.copies = append(h.copies, copied{file, len(h.sections), exact, h.store.Swaps()})
}

// gather writes a section with the changes, if there are any.
func (h *history) gather() {
	payload, count := h.store.Changes(nil)
	if count == 0 { // only time has passed
		last := len(h.sections)
		h.states, h.times = h.states[:last], h.times[:last]
	} else {
		h.sections = append(h.sections, section{payload, count, h.store.Swaps()})
	}
	h.states, h.times = append(h.states, contents(h.t, h.store, h.now)), append(h.times, h.now)
}

// replayed returns a store that has loaded a copy and then sections of the journal.
func (h *history) replayed(c copied, now int64, sections ...section) *memory.Store {
	file := bytes.NewBuffer(slices.Clone(c.base))
	w := persistence.ResumeJournal(file, int64(file.Len()))
	for _, s := range sections {
		require.NoError(h.t, w.Changes(s.payload, s.count))
	}
	store := memory.NewStore(2)
	require.NoError(h.t, persistence.Load(bytes.NewReader(file.Bytes()), int64(file.Len()), store, now))
	return store
}

// swapsBefore returns how many swaps of databases are in the sections before n.
func (h *history) swapsBefore(n int) uint64 {
	if n == 0 {
		return h.swaps
	}
	return h.sections[n-1].swaps
}

// check replays, on top of each copy, every run of sections that begins at or before the copy and ends at or after it, if the
// copy has none of the swaps in these sections, and all that were before.
func (h *history) check() {
	for _, c := range h.copies {
		for to := range h.states {
			if to < c.before || to == c.before && !c.exact {
				continue
			}
			for from := range c.before + 1 {
				if h.swapsBefore(from) != c.swaps {
					continue
				}
				tail := h.sections[from:to]
				got := contents(h.t, h.replayed(c, h.times[to], tail...), h.times[to])
				require.Equal(h.t, h.states[to], got, "a copy behind %d, sections %d to %d", c.before, from, to)
				if (from+to)%3 == 0 && h.swapsBefore(to) == c.swaps {
					got = contents(h.t, h.replayed(c, h.times[to], append(slices.Clone(tail), tail...)...), h.times[to])
					require.Equal(h.t, h.states[to], got, "twice: a copy behind %d, sections %d to %d", c.before, from, to)
				}
			}
		}
	}
}

// step does a random operation on the store, usually on a log.
func (h *history) step(key func() []byte, limits []buckets.Limit) {
	t := h.t
	db := rapid.SampledFrom([]int{0, 0, 0, 1, 2}).Draw(t, "database")
	store := h.store.Database(db).(*memory.Store)
	h.now += rapid.SampledFrom([]int64{0, 0, 1, 1000, int64(time.Second), 7 * int64(time.Second), minute}).Draw(t, "passes")
	take := func(quantity int64) {
		_, _ = store.Take(h.now, key(), rapid.SampledFrom(limits).Draw(t, "limit"), quantity, false) // the key may hold another kind
	}
	switch rapid.IntRange(0, 39).Draw(t, "does") {
	case 0:
		store.Delete(h.now, key())
	case 1:
		_, _ = store.Rename(h.now, key(), key(), false) // the key may not exist
	case 2:
		store.ExpireAt(h.now, key(), h.now+rapid.Int64Range(0, 2*minute).Draw(t, "deadline"), 0)
	case 3:
		store.Persist(h.now, key())
	case 4:
		if rapid.IntRange(0, 3).Draw(t, "flush") == 0 {
			require.NoError(h.t, store.Flush(context.Background()))
		}
	case 5:
		_, _ = store.Take(h.now, key(), windowed, 1, false)
	case 6:
		take(0)
	case 7, 8, 9:
		take(-rapid.Int64Range(1, 6).Draw(t, "back"))
	case 10:
		h.now += hour
	case 13:
		_, _ = store.Move(h.now, key(), (db+1)%3) // the key may not exist
	case 14:
		require.NoError(h.t, store.Swap(context.Background(), h.now, db, (db+1)%3))
	case 11, 12:
		take(rapid.Int64Range(2, 300).Draw(t, "quantity"))
	default:
		for range rapid.IntRange(1, 8).Draw(t, "times") {
			h.now += rapid.SampledFrom([]int64{0, 1, 1e6}).Draw(t, "between")
			take(1)
		}
	}
}

// For any operations on logs: the journal from any section that is not after a copy, replayed on the copy up to any
// section after it, once or twice, gives the contents of the store at that section.
func TestReplayedAmendmentsRestoreTheStore(t *testing.T) {
	amends := 0
	limits := []buckets.Limit{
		limit(buckets.NewSlide(400, 3*minute)), limit(buckets.NewSlide(400, 3*minute)),
		limit(buckets.NewSlide(300, minute)), limit(buckets.NewSlide(500, 10*hour)), limit(buckets.NewSlide(20, 10*int64(time.Second))),
	}
	rapid.Check(t, func(t *rapid.T) {
		h := &history{t: t, store: memory.NewStore(2), now: t0, amends: &amends}
		keys := rapid.IntRange(1, 3).Draw(t, "keys")
		key := func() []byte { return fmt.Appendf(nil, "log:%d", rapid.IntRange(1, keys).Draw(t, "key")) }
		for range rapid.IntRange(0, 40).Draw(t, "steps before") {
			h.step(key, limits)
		}
		h.begin()
		for range rapid.IntRange(1, 40).Draw(t, "steps") {
			h.step(key, limits)
			switch rapid.IntRange(0, 15).Draw(t, "then") {
			case 0, 1, 2, 3:
				h.gather()
			case 4:
				h.copy(false)
			case 5:
				h.gather()
				h.copy(true)
			case 6: // a restart, perhaps with the clock set back
				h.gather()
				if rapid.Bool().Draw(t, "restart") {
					h.check()
					h.now -= rapid.SampledFrom([]int64{0, 1, 10 * int64(time.Second), 2 * minute}).Draw(t, "set back")
					h.store = h.replayed(h.copies[0], h.now, h.sections...)
					h.begin()
				}
			}
		}
		h.gather()
		h.check()
	})
	assert.Positive(t, amends)
	t.Logf("%d amendments", amends)
}

// The bytes that an admission adds to the journal do not depend on the length of the log.
func TestAnAdmissionTakesFewBytesInTheJournal(t *testing.T) {
	for _, test := range []struct {
		name    string
		records int
		fill    int64 // the quantity of the existing records
		take    func(i int) (wait time.Duration, quantity int64)
	}{
		{"1000 records", 1000, 1, func(int) (time.Duration, int64) { return time.Millisecond, 1 }},
		{"200000 records", 200_000, 1, func(int) (time.Duration, int64) { return time.Millisecond, 1 }},
		{"from the first record on", 0, 1, func(int) (time.Duration, int64) { return time.Second, 1 }},
		{"from the first record on, hours apart", 0, 1, func(int) (time.Duration, int64) { return 5 * time.Hour, 1 }},
		{"from the first record on, large quantities", 0, 1, func(i int) (time.Duration, int64) { return time.Minute, 1 << (i % 40) }},
		{"at the same time", 20_000, 1, func(int) (time.Duration, int64) { return 0, 1 }},
		{"quantities", 20_000, 3, func(i int) (time.Duration, int64) { return time.Second, int64(1000 + i) }},
		{"refunds", 20_000, 1, func(i int) (time.Duration, int64) { return time.Second, int64(1 - 3*(i%2)) }},
		{"what leaves", 20_000, 1, func(i int) (time.Duration, int64) {
			if i == 0 {
				return 400*24*time.Hour - 20*time.Second, 1
			}
			return 100 * time.Millisecond, 1
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				fsys := crashfs.New()
				k := begin(t, fsys, always)
				slid := limit(buckets.NewSlide(1<<50, 400*24*hour))
				key := []byte("log:0123456789")
				now := wallClock()
				for range test.records {
					now += 1e6
					_, err := k.store.Take(now, key, slid, test.fill, false)
					require.NoError(t, err)
				}
				require.NoError(t, k.Commit())
				most := int64(0)
				for i := range 100 {
					wait, quantity := test.take(i)
					now += int64(wait)
					before := k.Status().JournalSize
					_, err := k.store.Take(now, key, slid, quantity, false)
					require.NoError(t, err)
					require.NoError(t, k.Commit())
					added := k.Status().JournalSize - before
					require.Positive(t, added)
					most = max(most, added-int64(len(key)))
				}
				t.Logf("at most %d bytes and the key", most)
				assert.Less(t, most, int64(100))
				want := contents(t, k.store, now)
				found, err := loadAt(t, fsys.Crash(crashfs.Outcome{}), always, now)
				require.NoError(t, err)
				assert.Equal(t, want, contents(t, found.store, now))
			})
		})
	}
}

// A log that has expired at the time of loading, according to the base of the journal, is complete when later sections
// amend it.
func TestALogThatExpiredBeforeLoadingIsAmended(t *testing.T) {
	var times, ones []int64
	for i := range int64(40) {
		times, ones = append(times, t0+i), append(ones, 1)
	}
	base := units{{slide("a", minute, times, ones), slide("b", hour, times, ones).until(t0 + minute), slide("c", minute, times, ones)}}
	file, _ := writeFile(t, persistence.JournalFile, base, units{
		{amend("a", hour, t0+1, t0+39, []int64{t0 + 50*int64(time.Second)}, []int64{1})},
		{amend("b", hour, t0, t0+39, nil, nil)},
	})
	store := memory.NewStore(2)
	now := t0 + 2*minute
	require.NoError(t, persistence.Load(bytes.NewReader(file), int64(len(file)), store, now))
	assert.ElementsMatch(t, []string{"a", "b"}, slices.Collect(maps.Keys(contents(t, store, now))))
	assert.EqualValues(t, 2, store.Stats().Keys, "what has expired is not kept")
	c, there := store.Get(now, []byte("a"))
	require.True(t, there)
	assert.EqualValues(t, 40, c.Field("records"))
	assert.Equal(t, t0+1, c.Field("oldest"))
	c, there = store.Get(now, []byte("b"))
	require.True(t, there)
	assert.Zero(t, c.Deadline, "a request dropped it")
}

// Sections that are lost from a journal lose only their own records.
func TestLostSectionsLoseOnlyTheirOwnRecords(t *testing.T) {
	times := []int64{t0, t0 + 1, t0 + 2}
	file, offsets := writeFile(t, persistence.JournalFile, units{{slide("a", hour, times, []int64{1, 1, 1}), throttle("w", t0+hour)}}, units{
		{amend("a", hour, t0, t0+2, []int64{t0 + 5}, []int64{1})},
		{amend("a", hour, t0+1, t0+5, []int64{t0 + 7}, []int64{2}), amend("b", hour, t0, t0+5, []int64{t0 + 6}, []int64{1})},
		{amend("w", hour, t0, t0+5, []int64{t0 + 7}, []int64{2}), amend("gone", hour, t0, t0+5, nil, nil)},
	})
	file[offsets[2]+30]++
	repaired, _, lost, err := repair(file)
	require.NoError(t, err)
	assert.EqualValues(t, 1, lost)
	store := memory.NewStore(2)
	require.NoError(t, persistence.Load(bytes.NewReader(repaired), int64(len(repaired)), store, t0+10))
	got := contents(t, store, t0+10)
	assert.Equal(t, fmt.Sprintf("0%d %d:1 %d:1 %d:2", hour, t0+1, t0+2, t0+7), strings.TrimSpace(strings.Replace(got["a"], "0 ", "0", 1)))
	assert.Equal(t, fmt.Sprintf("0%d %d:1", hour, t0+6), strings.Replace(got["b"], "0 ", "0", 1), "a log of what is known")
	assert.Equal(t, string(appendAll(throttle("w", t0+hour))), got["w"], "another kind is left alone")
	assert.Len(t, got, 3)
}
