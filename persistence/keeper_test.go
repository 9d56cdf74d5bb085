package persistence_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"cellserver/buckets"
	"cellserver/buckets/memory"
	"cellserver/internal/testing/crashfs"
	"cellserver/persistence"
)

// The files of the keepers of tests.
const (
	keptIn       = "/data"
	snapshotName = "a.snapshot"
	journalName  = "a.journal"
	snapshotPath = keptIn + "/" + snapshotName
	journalPath  = keptIn + "/" + journalName
)

var (
	always     = persistence.Rules{Journal: true, Sync: persistence.SyncAlways, StopWrites: true}
	everySec   = persistence.Rules{Journal: true, Sync: persistence.SyncEverySecond, StopWrites: true}
	neverSync  = persistence.Rules{Journal: true, Sync: persistence.SyncNever, StopWrites: true}
	nothing    = persistence.Rules{StopWrites: true}
	savePoints = persistence.Rules{StopWrites: true, SavePoints: []persistence.SavePoint{
		{After: 300 * time.Second, Changes: 1}, {After: 60 * time.Second, Changes: 1000},
	}}
	// byHand saves only on request, or to retry a failed save.
	byHand = persistence.Rules{StopWrites: true, SavePoints: []persistence.SavePoint{{After: 1e6 * time.Second, Changes: 1e6}}}
)

const hour = 60 * minute

func limit(l buckets.Limit, err error) buckets.Limit {
	if err != nil {
		panic(err)
	}
	return l
}

var (
	throttled = limit(buckets.NewThrottle(99, 10, hour)) // 100 at once, full again in 10 hours
	windowed  = limit(buckets.NewWindow(1e6, 24*hour))
	slid      = limit(buckets.NewSlide(100, 24*hour))
)

// diary is a log handler that keeps the lines.
type diary struct {
	mu    sync.Mutex
	lines []string
	worst slog.Level
}

func (d *diary) Enabled(context.Context, slog.Level) bool { return true }
func (d *diary) WithAttrs([]slog.Attr) slog.Handler       { return d }
func (d *diary) WithGroup(string) slog.Handler            { return d }
func (d *diary) Handle(_ context.Context, r slog.Record) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s", r.Level, r.Message)
	r.Attrs(func(a slog.Attr) bool {
		fmt.Fprintf(&b, " %s", a)
		return true
	})
	d.lines, d.worst = append(d.lines, b.String()), max(d.worst, r.Level)
	return nil
}

// has reports whether a line contains all the parts.
func (d *diary) has(parts ...string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.ContainsFunc(d.lines, func(line string) bool {
		return !slices.ContainsFunc(parts, func(part string) bool { return !strings.Contains(line, part) })
	})
}

// complains reports whether a warning or an error was logged.
func (d *diary) complains() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.worst >= slog.LevelWarn
}

// kept is a store and its keeper.
type kept struct {
	*persistence.Keeper
	store *memory.Store
	diary *diary
}

func wallClock() int64 { return time.Now().UnixNano() }

func newKept(fsys persistence.FS, rules persistence.Rules, now func() int64) (kept, error) {
	return keeperOf(memory.NewStore(8), fsys, rules, now)
}

func keeperOf(store *memory.Store, fsys persistence.FS, rules persistence.Rules, now func() int64) (kept, error) {
	k := kept{store: store, diary: new(diary)}
	var err error
	k.Keeper, err = persistence.New(persistence.Config{
		FS: fsys, Dir: keptIn, Snapshot: snapshotName, Journal: journalName,
		Store: k.store, Now: now, Log: slog.New(k.diary),
	}, rules)
	return k, err
}

// begin loads fsys and starts a keeper, which is stopped at the end of the test at the latest.
func begin(t *testing.T, fsys persistence.FS, rules persistence.Rules) kept {
	t.Helper()
	k, err := newKept(fsys, rules, wallClock)
	require.NoError(t, err)
	k.begin(t)
	return k
}

func (k kept) begin(t *testing.T) {
	t.Helper()
	t.Cleanup(func() { _ = k.Stop(false) })
	require.NoError(t, k.Load())
	k.Start()
}

// loadAt loads fsys at a time and returns the error of loading.
func loadAt(t *testing.T, fsys persistence.FS, rules persistence.Rules, now int64) (kept, error) {
	t.Helper()
	k, err := newKept(fsys, rules, func() int64 { return now })
	require.NoError(t, err)
	return k, k.Load()
}

// afterCrash loads fsys after a crash that lost everything that was not synced.
func afterCrash(t *testing.T, fsys *crashfs.FS, rules persistence.Rules) kept {
	t.Helper()
	k, err := loadAt(t, fsys.Crash(crashfs.Outcome{Bytes: crashfs.BytesLost, Names: crashfs.NamesLost}), rules, wallClock())
	require.NoError(t, err)
	return k
}

// take takes 1 from key at the current time.
func (k kept) take(t *testing.T, key string) {
	t.Helper()
	d, err := k.store.Take(wallClock(), []byte(key), windowed, 1, false)
	require.NoError(t, err)
	require.False(t, d.Limited)
}

// taken returns how much was taken from key in the last day.
func (k kept) taken(key string) int64 {
	d, err := k.store.Take(wallClock(), []byte(key), windowed, 0, true)
	if err != nil {
		return -1
	}
	return d.Limit - d.Remaining
}

// tick lets a second pass and waits until all goroutines are idle.
func tick() { pass(time.Second) }

func pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// calls returns the number of calls with a label.
func calls(fsys *crashfs.FS, label string) (n int) {
	for _, l := range fsys.Labels() {
		if l == label {
			n++
		}
	}
	return n
}

var errBroken = errors.New("the disk is broken")

// watchedFS is a file system that calls functions before and after its calls.
type watchedFS struct {
	*crashfs.FS
	mu           sync.Mutex
	watch, after func(label string) // called before and after each call; may be nil
}

// before sets the function that is called before every call.
func (w *watchedFS) before(watch func(label string)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.watch = watch
}

func (w *watchedFS) do(label string, call func() error) error {
	w.mu.Lock()
	watch := w.watch
	w.mu.Unlock()
	if watch != nil {
		watch(label)
	}
	err := call()
	if w.after != nil {
		w.after(label)
	}
	return err
}

func (w *watchedFS) open(label string, open func() (persistence.File, error)) (f persistence.File, err error) {
	err = w.do(label, func() error { f, err = open(); return err })
	if err != nil {
		return nil, err
	}
	return &watchedFile{f, w, label}, nil
}

func (w *watchedFS) Create(label, path string) (persistence.File, error) {
	return w.open(label, func() (persistence.File, error) { return w.FS.Create(label, path) })
}

func (w *watchedFS) OpenAppend(label, path string) (persistence.File, error) {
	return w.open(label, func() (persistence.File, error) { return w.FS.OpenAppend(label, path) })
}

func (w *watchedFS) Open(label, path string) (persistence.File, error) {
	return w.open(label, func() (persistence.File, error) { return w.FS.Open(label, path) })
}

func (w *watchedFS) Rename(label, from, to string) error {
	return w.do(label, func() error { return w.FS.Rename(label, from, to) })
}

func (w *watchedFS) Remove(label, path string) error {
	return w.do(label, func() error { return w.FS.Remove(label, path) })
}

func (w *watchedFS) SyncDir(label, dir string) error {
	return w.do(label, func() error { return w.FS.SyncDir(label, dir) })
}

func (w *watchedFS) Truncate(label, path string, size int64) error {
	return w.do(label, func() error { return w.FS.Truncate(label, path, size) })
}

func (w *watchedFS) Lock(label, dir string) (c io.Closer, err error) {
	err = w.do(label, func() error { c, err = w.FS.Lock(label, dir); return err })
	return c, err
}

type watchedFile struct {
	persistence.File
	fs    *watchedFS
	label string
}

func (f *watchedFile) Write(b []byte) (n int, err error) {
	err = f.fs.do(f.label+": write", func() error { n, err = f.File.Write(b); return err })
	return n, err
}

func (f *watchedFile) ReadAt(b []byte, off int64) (n int, err error) {
	err = f.fs.do(f.label+": read", func() error { n, err = f.File.ReadAt(b, off); return err })
	return n, err
}

func (f *watchedFile) Sync(label string) error {
	return f.fs.do(label, func() error { return f.File.Sync(label) })
}

func (f *watchedFile) Truncate(label string, size int64) error {
	return f.fs.do(label, func() error { return f.File.Truncate(label, size) })
}

func (f *watchedFile) Close(label string) error {
	return f.fs.do(label, func() error { return f.File.Close(label) })
}

func (f *watchedFile) Size(label string) (n int64, err error) {
	err = f.fs.do(label, func() error { n, err = f.File.Size(label); return err })
	return n, err
}

// once returns a function for before that calls do at the first call with a label.
func once(label string, do func()) func(string) {
	var first sync.Once
	return func(l string) {
		if l == label {
			first.Do(do)
		}
	}
}

// gate returns a function for before that blocks every call with a label until open is called.
func gate(label string) (watch func(string), open func()) {
	held := make(chan struct{})
	return func(l string) {
		if l == label {
			<-held
		}
	}, sync.OnceFunc(func() { close(held) })
}

func TestEverysecSyncsEachSecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fsys := crashfs.New()
		k := begin(t, fsys, everySec)
		tick()
		assert.Equal(t, []string{journalName}, fsys.Names(keptIn), "a journal is begun")
		for round := range 3 {
			for range 9 {
				k.take(t, "a")
				require.NoError(t, k.Commit(), "it waits for nothing")
				pass(100 * time.Millisecond)
			}
			assert.Equal(t, round, calls(fsys, "journal: write"))
			pass(100 * time.Millisecond)
			assert.Equal(t, round+1, calls(fsys, "journal: write"))
			assert.Equal(t, round+1, calls(fsys, "journal: sync"))
			assert.EqualValues(t, 9*(round+1), afterCrash(t, fsys, everySec).taken("a"))
		}
		before := fsys.Calls()
		pass(time.Minute)
		assert.Equal(t, before, fsys.Calls(), "nothing has changed")
		k.take(t, "a")
		require.NoError(t, k.Stop(false))
		assert.EqualValues(t, 28, afterCrash(t, fsys, everySec).taken("a"))
		assert.False(t, k.diary.complains())
	})
}

func TestAppendfsyncNoNeverSyncs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fsys := crashfs.New()
		k := begin(t, fsys, neverSync)
		tick()
		for n := range 60 {
			k.take(t, "a")
			require.NoError(t, k.Commit())
			tick()
			require.Equal(t, n+1, calls(fsys, "journal: write"))
		}
		assert.Zero(t, calls(fsys, "journal: sync"))
		assert.Zero(t, afterCrash(t, fsys, neverSync).taken("a"))
		require.NoError(t, k.Stop(false))
		assert.Equal(t, 1, calls(fsys, "journal: sync"))
		assert.EqualValues(t, 60, afterCrash(t, fsys, neverSync).taken("a"))
	})
}

func TestCommitWaitsForTheSync(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fsys := &watchedFS{FS: crashfs.New()}
		k := begin(t, fsys, always)
		tick()
		watch, open := gate("journal: sync")
		fsys.before(watch)
		k.take(t, "a")
		done := make(chan error, 1)
		go func() { done <- k.Commit() }()
		pass(time.Minute)
		assert.Equal(t, 1, calls(fsys.FS, "journal: write"))
		assert.Empty(t, done)
		assert.Zero(t, afterCrash(t, fsys.FS, always).taken("a"))
		open()
		require.NoError(t, <-done)
		assert.EqualValues(t, 1, afterCrash(t, fsys.FS, always).taken("a"))

		before := fsys.Calls()
		require.NoError(t, k.Commit())
		assert.Equal(t, before, fsys.Calls(), "it is durable already")
	})
}

// The first Commit waits until the journal has a file.
func TestCommitWaitsForTheJournal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fsys := crashfs.New()
		k := begin(t, fsys, always)
		k.take(t, "a")
		began := time.Now()
		require.NoError(t, k.Commit())
		assert.Zero(t, time.Since(began))
		assert.EqualValues(t, 1, afterCrash(t, fsys, always).taken("a"))
	})
}

func TestCommitsShareASync(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fsys := &watchedFS{FS: crashfs.New()}
		k := begin(t, fsys, always)
		tick()
		watch, open := gate("journal: sync")
		fsys.before(watch)
		var requests sync.WaitGroup
		request := func() {
			k.take(t, "a")
			assert.NoError(t, k.Commit())
			assert.GreaterOrEqual(t, afterCrash(t, fsys.FS, always).taken("a"), int64(1))
		}
		requests.Go(request)
		synctest.Wait() // the flusher is in its sync
		for range 49 {
			requests.Go(request)
		}
		synctest.Wait()
		open()
		requests.Wait()
		assert.Equal(t, 2, calls(fsys.FS, "journal: sync"), "one alone, and one for the others")
		assert.EqualValues(t, 50, afterCrash(t, fsys.FS, always).taken("a"))
	})
}

func TestCommitReturnsWhyTheJournalFailed(t *testing.T) {
	for _, label := range []string{"journal: write", "journal: sync"} {
		t.Run(label, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				fsys := crashfs.New()
				k := begin(t, fsys, always)
				k.take(t, "a")
				require.NoError(t, k.Commit())
				synctest.Wait()
				fsys.FailLabel(label, calls(fsys, label)+1, errBroken)
				k.take(t, "a")
				require.ErrorIs(t, k.Commit(), errBroken)
				began := time.Now()
				var fault *persistence.JournalFault
				require.ErrorAs(t, k.Refusal(), &fault)
				require.ErrorIs(t, fault, errBroken)
				assert.Equal(t, "writing a.journal: the disk is broken", fault.Error())
				require.ErrorIs(t, k.Status().JournalFault, errBroken)
				assert.True(t, k.diary.has("ERROR", "the journal cannot be written", "the disk is broken"))
				require.ErrorIs(t, k.Commit(), errBroken)

				lenient := always
				lenient.StopWrites = false
				require.NoError(t, k.SetRules(lenient))
				require.NoError(t, k.Commit(), "requests go on all the same")
				require.NoError(t, k.Refusal())
				require.NoError(t, k.SetRules(always))

				for k.Refusal() != nil {
					pass(100 * time.Millisecond)
					require.Less(t, time.Since(began), time.Minute)
				}
				assert.LessOrEqual(t, time.Since(began), time.Second)
				assert.Equal(t, 1, calls(fsys, "journal rewrite"), "for which there may be no room")
				assert.True(t, k.diary.has("INFO", "the journal is written again"))
				require.NoError(t, k.Status().JournalFault)
				assert.EqualValues(t, 2, afterCrash(t, fsys, always).taken("a"))
				k.take(t, "a")
				require.NoError(t, k.Commit())
				assert.EqualValues(t, 3, afterCrash(t, fsys, always).taken("a"))
			})
		})
	}
}

// A Commit that waits when the keeper is stopped returns an error instead of waiting forever.
func TestStopEndsCommitsThatWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fsys := &watchedFS{FS: crashfs.New()}
		k := begin(t, fsys, always)
		watch, open := gate("journal rewrite")
		fsys.before(watch)
		done := make(chan error, 1)
		go func() { done <- k.Commit() }()
		synctest.Wait()
		k.take(t, "a")
		stopped := make(chan error, 1)
		go func() { stopped <- k.Stop(false) }()
		synctest.Wait()
		assert.EqualError(t, <-done, "the journal has been closed")
		open()
		require.NoError(t, <-stopped)
		assert.EqualValues(t, 1, afterCrash(t, fsys.FS, always).taken("a"))
		assert.EqualError(t, k.Commit(), "the journal has been closed")
		require.NoError(t, k.Stop(true), "it does nothing twice")
		assert.Equal(t, []string{journalName}, fsys.Names(keptIn))
	})
}

func TestStopRepairsTheJournalOnceMore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fsys := crashfs.New()
		k := begin(t, fsys, everySec)
		tick()
		k.take(t, "a")
		fsys.FailLabel("journal: sync", 1, errBroken)
		tick()
		require.Error(t, k.Refusal())
		k.take(t, "a")
		require.NoError(t, k.Stop(false))
		assert.EqualValues(t, 2, afterCrash(t, fsys, everySec).taken("a"))
	})
	synctest.Test(t, func(t *testing.T) {
		fsys := crashfs.New()
		k := begin(t, fsys, everySec)
		tick()
		k.take(t, "a")
		fsys.FailFrom(fsys.Calls()+1, errBroken)
		require.ErrorIs(t, k.Stop(true), errBroken)
		assert.True(t, k.diary.has("ERROR", "the journal could not be written at the end"))
		assert.True(t, k.diary.has("ERROR", "the snapshot could not be written"))
	})
}

func TestALockedDirectoryIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fsys := crashfs.New()
		other, err := fsys.Lock("", keptIn)
		require.NoError(t, err)
		for _, rules := range []persistence.Rules{always, savePoints} {
			before := fsys.Calls()
			_, err = newKept(fsys, rules, wallClock)
			require.ErrorIs(t, err, persistence.ErrLocked)
			assert.Equal(t, before+1, fsys.Calls(), "nothing is touched")
		}

		k := begin(t, fsys, nothing)
		k.take(t, "a")
		for _, rules := range []persistence.Rules{always, savePoints} {
			require.ErrorIs(t, k.SetRules(rules), persistence.ErrLocked)
			assert.Equal(t, nothing, k.Rules())
		}
		require.NoError(t, k.Commit())
		pass(time.Minute)
		require.NoError(t, k.Refusal())
		assert.False(t, k.Status().Journal)
		require.ErrorIs(t, k.Save(), persistence.ErrLocked)
		assert.True(t, k.Status().SaveFailed)
		assert.Empty(t, fsys.Names(keptIn))

		require.NoError(t, other.Close())
		require.NoError(t, k.SetRules(always))
		require.NoError(t, k.Commit())
		assert.EqualValues(t, 1, afterCrash(t, fsys, always).taken("a"))
		_, err = fsys.Lock("", keptIn)
		require.ErrorIs(t, err, persistence.ErrLocked)
		require.NoError(t, k.Stop(false))
		_, err = fsys.Lock("", keptIn)
		require.NoError(t, err)
	})
}

func TestASaveWithoutRulesLocksTheDirectoryMeanwhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fsys := &watchedFS{FS: crashfs.New()}
		lock := func() error {
			l, err := fsys.FS.Lock("", keptIn)
			if err == nil {
				require.NoError(t, l.Close())
			}
			return err
		}
		k := begin(t, fsys, nothing)
		k.take(t, "a")
		require.NoError(t, lock())
		fsys.before(once("snapshot: sync", func() { assert.ErrorIs(t, lock(), persistence.ErrLocked) }))
		require.NoError(t, k.Save())
		assert.Equal(t, 1, calls(fsys.FS, "snapshot: sync"))
		require.NoError(t, lock())

		fsys.before(once("snapshot: sync", func() { assert.NoError(t, k.SetRules(byHand)) }))
		require.NoError(t, k.Save())
		require.ErrorIs(t, lock(), persistence.ErrLocked, "it is needed from now on")
		require.NoError(t, k.Save())
		require.ErrorIs(t, lock(), persistence.ErrLocked)
		require.NoError(t, k.Stop(true))
		require.NoError(t, lock())
		assert.EqualValues(t, 1, afterCrash(t, fsys.FS, byHand).taken("a"))
	})
}

// Turning the journal off and on again loses nothing, at any step of its work.
func TestAJournalTurnedOffAndOnIsComplete(t *testing.T) {
	rewrite := func(k kept) {
		assert.NoError(t, k.RewriteInBackground())
		synctest.Wait()
	}
	offAndOn := func(t *testing.T, k kept) {
		k.take(t, "before")
		assert.NoError(t, k.SetRules(nothing))
		assert.False(t, k.Status().Journal)
		k.take(t, "off")
		assert.NoError(t, k.SetRules(everySec))
		k.take(t, "after")
	}
	check := func(t *testing.T, fsys *crashfs.FS, k kept) {
		synctest.Wait()
		require.NoError(t, k.Refusal())
		tick()
		k.take(t, "at the end")
		tick()
		require.NoError(t, k.Refusal())
		found := afterCrash(t, fsys, everySec)
		for _, key := range []string{"before", "off", "after", "at the end"} {
			assert.EqualValues(t, 1, found.taken(key), key)
		}
		assert.False(t, k.diary.complains())
		assert.False(t, k.Status().RewriteBad)
	}
	t.Run("at rest", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			fsys := crashfs.New()
			k := begin(t, fsys, everySec)
			tick()
			offAndOn(t, k)
			check(t, fsys, k)
		})
	})
	t.Run("off for long", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			fsys := crashfs.New()
			k := begin(t, fsys, everySec)
			tick()
			k.take(t, "before")
			tick()
			require.NoError(t, k.SetRules(nothing))
			before := fsys.Calls()
			k.take(t, "off")
			pass(time.Minute)
			assert.Equal(t, before, fsys.Calls())
			assert.Zero(t, k.Status().JournalSize)
			require.NoError(t, k.SetRules(everySec))
			k.take(t, "after")
			check(t, fsys, k)
		})
	})
	for _, label := range []string{"journal rewrite", "journal rewrite: write", "journal rewrite: sync"} {
		t.Run("during the first rewrite, at "+label, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				fsys := &watchedFS{FS: crashfs.New()}
				k := begin(t, fsys, everySec)
				fsys.before(once(label, func() { offAndOn(t, k) }))
				tick()
				check(t, fsys.FS, k)
			})
		})
		t.Run("during a rewrite, at "+label, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				fsys := &watchedFS{FS: crashfs.New()}
				k := begin(t, fsys, everySec)
				tick()
				fsys.before(once(label, func() { offAndOn(t, k) }))
				rewrite(k)
				check(t, fsys.FS, k)
			})
		})
		t.Run("off during the first rewrite, at "+label+", and on later", func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				fsys := &watchedFS{FS: crashfs.New()}
				k := begin(t, fsys, everySec)
				k.take(t, "before")
				fsys.before(once(label, func() { assert.NoError(t, k.SetRules(nothing)) }))
				pass(time.Minute)
				assert.NoError(t, k.Status().JournalFault)
				k.take(t, "off")
				require.NoError(t, k.SetRules(everySec))
				k.take(t, "after")
				check(t, fsys.FS, k)
			})
		})
	}
	t.Run("while it is broken", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			fsys := crashfs.New()
			k := begin(t, fsys, everySec)
			tick()
			k.take(t, "before")
			fsys.FailLabel("journal: sync", 1, errBroken)
			tick()
			require.Error(t, k.Refusal())
			require.NoError(t, k.SetRules(nothing))
			require.NoError(t, k.Status().JournalFault)
			k.take(t, "off")
			require.NoError(t, k.SetRules(everySec))
			require.NoError(t, k.Refusal())
			k.take(t, "after")
			pass(6 * time.Second)
			found := afterCrash(t, fsys, everySec)
			for _, key := range []string{"before", "off", "after"} {
				assert.EqualValues(t, 1, found.taken(key), key)
			}
		})
	})
}

// A changed sync policy takes effect at once.
func TestANewSyncPolicyTakesEffectAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fsys := crashfs.New()
		k := begin(t, fsys, neverSync)
		tick()
		k.take(t, "a")
		tick()
		assert.Zero(t, afterCrash(t, fsys, always).taken("a"))
		require.NoError(t, k.SetRules(always))
		require.NoError(t, k.Commit())
		assert.EqualValues(t, 1, afterCrash(t, fsys, always).taken("a"), "what was written before is synced, too")
		require.NoError(t, k.SetRules(everySec))
		k.take(t, "a")
		tick()
		assert.EqualValues(t, 2, afterCrash(t, fsys, always).taken("a"))
	})
}
