package memory

import (
	"cellserver/buckets"
	"fmt"
	"maps"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// textEncoder encodes changes as lines of text: a key and its state.
type textEncoder struct{}

func (textEncoder) AppendSet(dst []byte, e *buckets.Entry) []byte {
	return fmt.Appendf(dst, "%s=%s\n", shownKey(e.Database, e.Key), shownEntry(e))
}
func (textEncoder) AppendAmend(dst []byte, e *buckets.Entry) []byte {
	return fmt.Appendf(dst, "%s~%d %d %s\n", shownKey(e.Database, e.Key), e.Kept.Oldest, e.Kept.Newest, shownEntry(e))
}
func (textEncoder) AppendDelete(dst []byte, db int, key []byte) []byte {
	return fmt.Appendf(dst, "%s=\n", shownKey(db, key))
}
func (textEncoder) AppendFlush(dst []byte, db int) []byte { return fmt.Appendf(dst, "flush %d\n", db) }
func (textEncoder) AppendFlushAll(dst []byte) []byte      { return append(dst, "flush all\n"...) }
func (textEncoder) AppendSwap(dst []byte, a, b int) []byte {
	return fmt.Appendf(dst, "swap %d %d\n", a, b)
}

// shownKey returns the key of database 0 as it is, and the number of another database before its key.
func shownKey(db int, key []byte) string {
	if db == 0 {
		return fmt.Sprintf("%q", key)
	}
	return fmt.Sprintf("%d:%q", db, key)
}

// databaseOf returns the number of the database of a key that shownKey has returned, and the key.
func databaseOf(t testing.TB, shown string) (db int, key string) {
	number, quoted, found := strings.Cut(shown, ":\"")
	if !found || strings.HasPrefix(shown, "\"") {
		return 0, shown
	}
	db, err := strconv.Atoi(number)
	require.NoError(t, err)
	return db, "\"" + quoted
}

func shownEntry(e *buckets.Entry) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d,%d,%d", e.Kind, e.Deadline, e.Words)
	if e.Kind == buckets.Slide {
		fmt.Fprintf(&b, ",%d", e.Log.Period())
		for i := range e.Log.Len() {
			fmt.Fprintf(&b, " %d:%d", e.Log.Time(i), e.Log.Before(i+1)-e.Log.Before(i))
		}
	}
	return b.String()
}

// copyAsText returns the contents of a store by key, as textEncoder encodes them.
func copyAsText(t testing.TB, s *Store, now int64) map[string]string {
	all := make(map[string]string)
	require.NoError(t, s.Copy(now, func(p *Part) error {
		p.Each(func(e *buckets.Entry) { all[shownKey(e.Database, e.Key)] = shownEntry(e) })
		return nil
	}))
	return all
}

// amended returns the state of a log after an amendment, as text.
func amended(t testing.TB, state, amend string) string {
	var kept buckets.Kept
	_, err := fmt.Sscan(amend, &kept.Oldest, &kept.Newest)
	require.NoError(t, err)
	_, amend, _ = strings.Cut(amend, " ")
	_, amend, _ = strings.Cut(amend, " ")
	logAt := strings.Index(amend, "],") + 2
	head, added, _ := strings.Cut(amend[logAt:], " ")
	all := []string{amend[:logAt] + head}
	_, had, _ := strings.Cut(state, "],")
	_, had, _ = strings.Cut(had, " ")
	for _, record := range strings.Fields(had) {
		var at, quantity int64
		_, err := fmt.Sscanf(record, "%d:%d", &at, &quantity)
		require.NoError(t, err)
		if kept.Oldest <= at && at <= kept.Newest {
			all = append(all, record)
		}
	}
	return strings.Join(append(all, strings.Fields(added)...), " ")
}

// replayDatabaseChange applies a flush or a swap, or returns false.
func replayDatabaseChange(t testing.TB, to map[string]string, line string) bool {
	var a, b int
	if line == "flush all" {
		clear(to)
		return true
	}
	if n, _ := fmt.Sscanf(line, "flush %d", &a); n == 1 {
		for shown := range to {
			if db, _ := databaseOf(t, shown); db == a {
				delete(to, shown)
			}
		}
		return true
	}
	if n, _ := fmt.Sscanf(line, "swap %d %d", &a, &b); n != 2 {
		return false
	}
	swapped := make(map[string]string)
	for shown, state := range to {
		db, key := databaseOf(t, shown)
		switch db {
		case a:
			db = b
		case b:
			db = a
		default:
			continue
		}
		delete(to, shown)
		if db != 0 {
			key = fmt.Sprintf("%d:%s", db, key)
		}
		swapped[key] = state
	}
	maps.Copy(to, swapped)
	return true
}

// replay applies the output of Changes.
func replay(t testing.TB, to map[string]string, changes []byte) {
	for line := range strings.Lines(string(changes)) {
		line = strings.TrimSuffix(line, "\n")
		if replayDatabaseChange(t, to, line) {
			continue
		}
		if key, amend, found := strings.Cut(line, "~"); found {
			to[key] = amended(t, to[key], amend)
			continue
		}
		key, state, found := strings.Cut(line, "=")
		require.True(t, found)
		if state == "" {
			delete(to, key)
		} else {
			to[key] = state
		}
	}
}

// Replaying the changes of a store, or restoring its copy, gives its contents after any operations.
func TestChangesAndCopiesEqualTheStore(t *testing.T) {
	for _, shards := range shapes {
		t.Run(fmt.Sprintf("%d shards", shards), func(t *testing.T) {
			s := newStore(shards, tiny, seed)
			random := rand.New(rand.NewPCG(uint64(shards), 1))
			limits := []buckets.Limit{throttle(t, 9, 1, 3600*second), window(t, 10, 3600*second), slide(t, 10, 3600*second)}
			name := func() []byte { return fmt.Appendf(nil, "k%0*d", random.IntN(3)*70, random.IntN(40)) }
			before := name()
			_, err := s.Take(epoch, before, limits[0], 1, false)
			require.NoError(t, err)
			s.Track(textEncoder{})
			held := copyAsText(t, s, epoch)
			for round := range 300 {
				for range random.IntN(30) {
					now := epoch + int64(round)*1000
					switch key := name(); random.IntN(12) {
					case 0:
						s.Delete(now, key)
					case 1:
						_, _ = s.Rename(now, key, name(), false)
					case 2:
						s.ExpireAt(now, key, now+int64(random.IntN(3))*second, 0)
					case 3:
						s.Persist(now, key)
					case 4:
						if random.IntN(20) == 0 {
							s.flush()
						}
					case 5:
						_, _ = s.TakeAll(now, []buckets.Check{
							{Key: key, Limit: limits[0], Quantity: 1}, {Key: []byte("other"), Limit: limits[1], Quantity: 1},
						}, false, make([]buckets.Decision, 2))
					default:
						_, _ = s.Take(now, key, limits[random.IntN(3)], int64(random.IntN(14))-3, random.IntN(9) == 0)
					}
				}
				changes, _ := s.Changes(nil)
				replay(t, held, changes)
				require.Equal(t, copyAsText(t, s, epoch), held)
				if round%10 == 0 {
					checkInvariants(t, s)
				}
			}
			_, count := s.Changes(nil)
			assert.Zero(t, count, "told once")

			again := newStore(8, tiny, seed)
			require.NoError(t, s.Copy(epoch, func(p *Part) error {
				p.Each(func(e *buckets.Entry) {
					again.Restore(epoch, e)
					again.Restore(epoch, e) // restoring twice must equal restoring once
				})
				return nil
			}))
			assert.Equal(t, copyAsText(t, s, epoch), copyAsText(t, again, epoch))
			checkInvariants(t, again)
			for key := range held {
				var name string
				_, err := fmt.Sscanf(key, "%q", &name)
				require.NoError(t, err)
				again.Forget(0, []byte(name))
			}
			assert.Empty(t, copyAsText(t, again, epoch))
			s.Track(nil)
			_, err = s.Take(epoch, before, limits[0], -1, false)
			_ = err
			_, count = s.Changes(nil)
			assert.Zero(t, count)
		})
	}
}

// While several goroutines move units between pairs of keys, copies and changes never lose or duplicate a unit, and never
// show half a Flush.
func TestConsistentScansSeeMultiKeyOperationsWhole(t *testing.T) {
	const keys, total = 60, 30
	s := newStore(256, usual, seed)
	l := window(t, 1_000_000, 3600*second)
	key := func(i int) []byte { return fmt.Appendf(nil, "key:%d", i) }
	begin := func() {
		for i := range keys {
			_, err := s.Take(epoch, key(i), l, total, false)
			require.NoError(t, err)
		}
	}
	begin()
	s.Track(textEncoder{})
	sum := func(all map[string]string) (n int) {
		for _, state := range all {
			var kind, deadline, start, end, used int
			_, err := fmt.Sscanf(state, "%d,%d,[%d %d %d]", &kind, &deadline, &start, &end, &used)
			require.NoError(t, err)
			n += used
		}
		return n
	}
	var movers sync.WaitGroup
	stop := make(chan struct{})
	for m := range 3 {
		movers.Go(func() {
			random := rand.New(rand.NewPCG(uint64(m), 2))
			for {
				select {
				case <-stop:
					return
				default:
				}
				a := random.IntN(keys)
				b := (a + 1 + random.IntN(keys-1)) % keys
				from, to := key(a), key(b)
				switch random.IntN(4) {
				case 0:
					h := s.Hold(epoch, [][]byte{from, to}, false)
					if c, there := h.Get(epoch, from); there && c.Field("used") > 1 {
						_, _ = h.Take(epoch, from, l, -1, false)
						_, _ = h.Take(epoch, to, l, 1, false)
					}
					h.Release()
				case 1:
					if random.IntN(4) == 0 {
						h := s.Hold(epoch, nil, true)
						h.flush()
						for i := range keys {
							_, _ = h.Take(epoch, key(i), l, total, false)
						}
						h.Release()
					}
				default:
					_, _ = s.TakeAll(epoch, []buckets.Check{
						{Key: from, Limit: l, Quantity: -1}, {Key: to, Limit: l, Quantity: 1},
					}, false, make([]buckets.Decision, 2))
				}
			}
		})
	}
	_, _ = s.Changes(nil) // operations that run now are in the copy or in the next changes
	var copier sync.WaitGroup
	copier.Go(func() {
		for range 200 {
			assert.Equal(t, keys*total, sum(copyAsText(t, s, epoch)), "a copy")
		}
	})
	held := copyAsText(t, s, epoch)
	for round := range 1000 {
		changes, _ := s.Changes(nil)
		replay(t, held, changes)
		if round > 0 { // the first changes may be in the copy already
			require.Equal(t, keys*total, sum(held), "changes, round %d", round)
		}
	}
	copier.Wait()
	close(stop)
	movers.Wait()
	changes, _ := s.Changes(nil)
	replay(t, held, changes)
	assert.Equal(t, copyAsText(t, s, epoch), held)
	checkInvariants(t, s)
}

// A Flush between the shards of a call of Changes is reported by the right call: replaying the changes gives the
// contents.
func TestFlushDuringChangesIsReportedByTheRightCall(t *testing.T) {
	s := newStore(256, usual, seed)
	l := window(t, 1_000_000, 3600*second)
	s.Track(textEncoder{})
	held := make(map[string]string)
	for round := range 2000 {
		var flusher sync.WaitGroup
		flusher.Go(func() {
			for i := range 30 {
				_, _ = s.Take(epoch, fmt.Appendf(nil, "%d", (round+i*7)%40), l, 1, false)
				if i == 15 {
					s.flush()
				}
			}
		})
		for range 3 {
			changes, _ := s.Changes(nil)
			replay(t, held, changes)
		}
		flusher.Wait()
		changes, _ := s.Changes(nil)
		replay(t, held, changes)
		require.Equal(t, copyAsText(t, s, epoch), held, "round %d", round)
	}
}
