package persistence_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"cellserver/buckets"
	"cellserver/buckets/memory"
	"cellserver/internal/testing/crashfs"
	"cellserver/persistence"
)

// stored is a key and its encoded state.
type stored struct {
	key    string
	what   string // encoded as an entry of a file
	expiry int64
}

// state is the contents of a store at one time, sorted by key.
type state []stored

// stateOf returns the state of a store, and how much of the keys a and b together is used.
func stateOf(t testing.TB, store *memory.Store, now int64) (all state, sum int64) {
	require.NoError(t, store.Copy(now, func(p *memory.Part) error {
		p.Each(func(e *buckets.Entry) {
			all = append(all, stored{fmt.Sprint(e.Database, " ", string(e.Key)), string(persistence.AppendSet(nil, e)), expiryOf(e)})
			if key := string(e.Key); key == "a" || key == "b" {
				sum += e.Window().Used
			}
		})
		return nil
	}))
	slices.SortFunc(all, func(x, y stored) int { return strings.Compare(x.key, y.key) })
	return all, sum
}

func expiryOf(e *buckets.Entry) (at int64) {
	at = e.FullAt()
	if e.Deadline != 0 {
		at = min(at, e.Deadline)
	}
	return at
}

// at returns the encoding of the keys of a state that have not expired at now.
func (s state) at(now int64) string {
	var b strings.Builder
	for _, e := range s {
		if e.expiry > now {
			b.WriteString(e.what) // includes the key
		}
	}
	return b.String()
}

// pairSum is how much of the keys a and b together is used, until both expire.
const pairSum = 100

// start is the initial content of the disk for a script.
type start struct {
	name  string
	files func(t testing.TB) *crashfs.FS
}

var starts = []start{
	{"an empty directory", func(testing.TB) *crashfs.FS { return crashfs.New() }},
	{"a snapshot", func(t testing.TB) *crashfs.FS {
		fsys := crashfs.New()
		file, _ := writeFile(t, persistence.SnapshotFile, keptBase(60, 40), nil)
		fsys.WriteFile(snapshotPath, file)
		return fsys
	}},
	{"a torn journal and an older snapshot", func(t testing.TB) *crashfs.FS {
		fsys := crashfs.New()
		file, _ := writeFile(t, persistence.SnapshotFile, keptBase(55, 45), nil)
		fsys.WriteFile(snapshotPath, file)
		file, _ = writeFile(t, persistence.JournalFile, keptBase(60, 40), units{
			{window("a", scriptStart, scriptStart+24*hour, 50), window("b", scriptStart, scriptStart+24*hour, 50)},
			{forget("user:1")}, {throttle("user:2", scriptStart+hour), forget("user:1")},
		})
		fsys.WriteFile(journalPath, file[:len(file)-3])
		fsys.WriteFile(journalPath+".tmp", []byte("half"))
		return fsys
	}},
}

// scriptStart is the initial time of a synctest bubble.
var scriptStart = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC).UnixNano()

func keptBase(a, b int64) units {
	from, to := scriptStart, scriptStart+24*hour
	return units{
		{window("a", from, to, a), window("b", from, to, b), throttle("user:0", from+hour)},
		{throttle("user:1", from+hour), slide("login:0", hour, []int64{from - minute, from}, []int64{1, 2})},
		{slide("long:0", 24*hour, longTimes[:], slices.Repeat([]int64{1}, len(longTimes)))},
	}
}

// longTimes are the times of a log that is long enough for its changes to be written as amendments.
var longTimes = func() (times [50]int64) {
	for i := range times {
		times[i] = scriptStart - 2*minute + int64(i)*int64(time.Second)
	}
	return times
}()

// script runs a keeper through everything it can do, in a bubble, and records every state of the store.
type script struct {
	kept
	t     *testing.T
	fsys  *watchedFS
	rules persistence.Rules

	mu        sync.Mutex
	history   []state // the first one is the state of the files
	promised  int     // index of the newest state that must survive
	plans     map[string]func()
	reported  bool   // an error was reported, by a call or by Status
	stoppedAt int    // number of calls before Stop
	mend      func() // called when the failure has lasted for long; may be nil
	recovers  int    // the call from which on none fails; 0 means that all may fail
}

func newScript(t *testing.T, from start, rules persistence.Rules) *script {
	fsys := from.files(t)
	s := &script{t: t, fsys: &watchedFS{FS: fsys}, rules: rules, plans: map[string]func(){}}
	k, err := loadAt(t, fsys.Crash(crashfs.Outcome{}), rules, scriptStart)
	require.NoError(t, err)
	first, _ := stateOf(t, k.store, scriptStart)
	s.history = []state{first}
	s.fsys.before(func(label string) {
		s.mu.Lock()
		plan := s.plans[label]
		delete(s.plans, label)
		s.mu.Unlock()
		if plan != nil {
			plan()
		}
	})
	return s
}

// do does one atomic operation on the store and records the new state.
func (s *script) do(what func(now int64)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := wallClock()
	what(now)
	all, sum := stateOf(s.t, s.store, now)
	s.history = append(s.history, all)
	if sum != 0 {
		require.EqualValues(s.t, pairSum, sum, "the script is wrong")
	}
}

// request does one operation and waits until its reply may be sent.
func (s *script) request(what func(now int64)) {
	s.do(what)
	if !s.wrong(s.Commit()) && s.rules.Sync == persistence.SyncAlways && s.rules.Journal {
		s.promise()
	}
	s.observe()
}

// promise records that the current state must survive.
func (s *script) promise() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.promised = len(s.history) - 1
}

func (s *script) wrong(err error) bool {
	if err != nil {
		s.reported = true
	}
	return err != nil
}

// observe checks whether an error is reported, and that all ways of asking report the same.
func (s *script) observe() {
	synctest.Wait()
	status, refusal := s.Status(), s.Refusal()
	s.reported = s.reported || status.JournalFault != nil || status.SaveFailed || status.RewriteBad
	switch {
	case status.JournalFault != nil:
		require.IsType(s.t, &persistence.JournalFault{}, refusal)
		require.ErrorIs(s.t, refusal, status.JournalFault)
	case status.SaveFailed && len(s.rules.SavePoints) > 0:
		require.ErrorIs(s.t, refusal, persistence.ErrSaveFailed)
	default:
		require.NoError(s.t, refusal)
	}
}

// sound reports whether the current state is durable according to the rules. It requires that the last change was at least a
// second ago.
func (s *script) sound() bool {
	status := s.Status()
	switch {
	case s.rules.Journal:
		return status.JournalFault == nil && status.JournalSize > 0 && s.rules.Sync != persistence.SyncNever
	default:
		return !status.SaveFailed && s.Unsaved() == 0
	}
}

func (s *script) tick() {
	tick()
	s.observe()
	if s.sound() {
		s.promise()
	}
}

// planned schedules an operation before the next call with a label.
func (s *script) planned(label string, what func(now int64)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.plans[label] = func() { s.do(what) }
}

func (s *script) nothingPlanned() {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.plans)
}

// The operations on the store.

func (s *script) seed(now int64) {
	if _, there := s.store.Get(now, []byte("a")); !there {
		s.takeAll(now, 60, 40)
	}
	if c, _ := s.store.Get(now, []byte("long:0")); c.Field("records") < int64(len(longTimes)) {
		for i := range int64(len(longTimes)) {
			_, err := s.store.Take(now+i, []byte("long:0"), slid, 1, false)
			require.NoError(s.t, err)
		}
	}
}

func (s *script) takeAll(now, a, b int64) {
	which, err := s.store.TakeAll(now, []buckets.Check{
		{Key: []byte("a"), Limit: windowed, Quantity: a}, {Key: []byte("b"), Limit: windowed, Quantity: b},
	}, false, make([]buckets.Decision, 2))
	require.NoError(s.t, err)
	require.Zero(s.t, which)
}

func (s *script) move(n int64) func(int64) {
	return func(now int64) { s.takeAll(now, -n, n) }
}

func (s *script) use(key string, l buckets.Limit, n int64) func(int64) {
	return func(now int64) {
		_, err := s.store.Take(now, []byte(key), l, n, false)
		require.NoError(s.t, err)
	}
}

// update stores a counter in a database.
func (s *script) update(now int64, db int, key string, value, expiry int64) {
	set := settingCounter(buckets.Counted(value, expiry))
	require.NoError(s.t, s.store.Database(db).(*memory.Store).Update(now, [][]byte{[]byte(key)}, set))
}

// settingCounter is a buckets.Updater that stores one state.
type settingCounter buckets.State

func (set settingCounter) Update(_ int64, states []buckets.State) (bool, error) {
	states[0] = buckets.State(set)
	return true, nil
}

// databases changes keys of other databases, counters among them.
func (s *script) databases(now int64) {
	for db := range 3 {
		s.update(now, db, "hits:0", int64(db), buckets.NoExpiry)
		s.update(now, db, "hits:1", -1, now+hour)
	}
	other := s.store.Database(2).(*memory.Store)
	_, err := other.Take(now, []byte("login:0"), slid, 2, false)
	require.NoError(s.t, err)
	other.ExpireAt(now, []byte("login:0"), now+minute, 0)
	moved, err := s.store.Move(now, []byte("hits:0"), 3)
	require.NoError(s.t, err)
	require.True(s.t, moved)
	other.ExpireAt(now, []byte("hits:0"), now+minute, 0)
	other.Persist(now, []byte("hits:1"))
}

// swap swaps databases, between two changes of a key of one of them.
func (s *script) swap(now int64) {
	s.update(now, 1, "hits:0", now, buckets.NoExpiry)
	require.NoError(s.t, s.store.Swap(s.t.Context(), now, 1, 2))
	s.update(now, 1, "hits:1", now, now+hour)
}

// batch does several operations as EXEC does, while all shards are held.
func (s *script) batch(what ...func(h *memory.Held, now int64)) func(int64) {
	return func(now int64) {
		h := s.store.Hold(now, nil, true)
		defer h.Release()
		for _, f := range what {
			f(h, now)
		}
	}
}

func (s *script) moveHeld(n int64) func(int64) {
	return func(now int64) {
		h := s.store.Hold(now, [][]byte{[]byte("a"), []byte("b"), []byte("c")}, false)
		defer h.Release()
		for _, x := range []struct {
			key string
			n   int64
		}{{"a", -n}, {"b", n}, {"c", 1}} {
			_, err := h.Take(now, []byte(x.key), windowed, x.n, false)
			require.NoError(s.t, err)
		}
	}
}

// takeMany takes from so many keys that their changes span several sectors.
func (s *script) takeMany(h *memory.Held, now int64) {
	for i := range 50 {
		_, err := h.Take(now, fmt.Appendf(nil, "many:%d", i), throttled, 1, false)
		require.NoError(s.t, err)
	}
}

// play runs the script. err is an error of starting, after which the script goes no further.
func (s *script) play() (stopped error, err error) {
	s.kept, err = newKept(s.fsys, s.rules, wallClock)
	if s.wrong(err) {
		return nil, err
	}
	if err := s.Load(); s.wrong(err) {
		return s.Stop(!s.rules.Journal), err
	}
	s.Start()
	defer func() { _ = s.Stop(false) }()
	s.observe()

	s.request(s.seed)
	s.request(s.move(1))
	s.tick()
	s.request(s.use("user:0", throttled, 2))
	s.request(s.moveHeld(5))
	s.request(s.use("login:0", slid, 3))
	s.request(s.use("long:0", slid, 1))
	s.do(s.move(2)) // a change without a Commit
	s.tick()
	s.request(func(now int64) { s.store.Delete(now, []byte("user:0")) })
	s.request(func(now int64) { _, _ = s.store.Rename(now, []byte("login:0"), []byte("login:1"), false) })
	s.request(func(now int64) { s.store.ExpireAt(now, []byte("c"), now+3*int64(time.Second), 0) })
	s.request(s.databases)
	s.request(s.use("long:0", slid, -3))
	s.do(s.use("long:0", slid, 2))
	s.tick()

	s.planned("snapshot", s.move(3))
	s.planned("snapshot: write", s.use("long:0", slid, 1))
	s.planned("snapshot: sync", s.move(5))
	before := len(s.history) - 1
	if !s.wrong(s.Save()) && !s.rules.Journal {
		s.promised = max(s.promised, before)
	}
	s.nothingPlanned()
	s.request(s.move(1))
	s.tick()

	if s.rules.Journal {
		s.do(s.swap)
		s.planned("journal: write", s.swap) // after these changes are taken from the store, and before the copy begins
		s.planned("journal rewrite", s.use("long:0", slid, 1))
		s.planned("journal rewrite: write", s.batch(func(h *memory.Held, now int64) {
			_, err := h.Take(now, []byte("long:0"), slid, -2, false)
			require.NoError(s.t, err)
			_, err = h.Take(now, []byte("long:0"), slid, 1, false)
			require.NoError(s.t, err)
			require.NoError(s.t, h.Swap(s.t.Context(), now, 2, 3))
		}))
		s.planned("journal rewrite: sync", s.swap)
		s.wrong(s.RewriteInBackground())
		synctest.Wait()
		s.nothingPlanned()
		s.observe()
		if status := s.Status(); !status.RewriteBad && status.JournalFault == nil {
			s.promise()
		}
	}
	s.do(s.move(2))
	s.do(s.use("user:3", throttled, 1))
	s.tick()
	s.do(func(int64) { _ = s.store.Database(1).Flush(context.Background()) })
	s.do(s.swap)
	s.request(func(int64) { _ = s.store.FlushAll(context.Background()) })
	s.request(s.seed)
	s.tick()
	s.request(s.batch(func(h *memory.Held, now int64) {
		_ = h.Flush(context.Background())
		for key, n := range map[string]int64{"a": 70, "b": 30} {
			_, err := h.Take(now, []byte(key), windowed, n, false)
			require.NoError(s.t, err)
		}
	}, s.takeMany))
	s.do(s.move(7))
	s.tick()
	s.request(s.batch(s.takeMany)) // another large section, which may make a rewrite or a snapshot due
	s.do(s.use("login:2", slid, 1))
	s.tick()
	s.tick()

	if s.mend != nil {
		s.mend()
	}
	for range 90 { // enough for many attempts
		if s.recovers == 0 || s.Refusal() == nil {
			break
		}
		tick()
	}
	if s.recovers > 0 && s.fsys.Calls() >= s.recovers {
		require.NoError(s.t, s.Status().JournalFault)
		require.False(s.t, s.Status().SaveFailed && len(s.rules.SavePoints) > 0)
		require.NoError(s.t, s.Refusal())
		s.request(s.move(1))
		s.tick()
		require.NoError(s.t, s.Refusal())
		if s.rules.Journal && s.rules.Sync != persistence.SyncNever {
			require.Equal(s.t, len(s.history)-1, s.promised)
		}
	}
	s.do(s.move(9))
	s.stoppedAt = s.fsys.Calls()
	if stopped = s.Stop(!s.rules.Journal || len(s.rules.SavePoints) > 0); stopped == nil {
		s.promise()
	}
	return stopped, nil
}
