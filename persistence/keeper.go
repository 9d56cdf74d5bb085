package persistence

import (
	"cellserver/buckets/memory"
	"errors"
	"io"
	"io/fs"
	"log/slog"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"
)

// SyncPolicy says when changes in the journal are made durable.
type SyncPolicy int

// The policies, with their names as values of appendfsync.
const (
	SyncEverySecond SyncPolicy = iota // everysec
	SyncAlways                        // always: before a reply is sent
	SyncNever                         // no: when the operating system writes them
)

// SavePoint makes a snapshot due when there are at least Changes changes since the last one, which was taken at least
// After ago.
type SavePoint struct {
	After   time.Duration
	Changes uint64
}

// Rules say what a Keeper keeps on disk. They may change while it runs.
type Rules struct {
	SavePoints     []SavePoint
	Journal        bool
	Sync           SyncPolicy
	StopWrites     bool  // see Refusal
	RewritePercent int64 // by how many percent of its base the journal grows before it is rewritten; 0 is never
	RewriteMin     int64 // the size in bytes below which it is not rewritten
}

// keeps reports whether the rules keep anything.
func (r *Rules) keeps() bool { return r.Journal || len(r.SavePoints) > 0 }

// Config is what New needs. No field may be zero.
type Config struct {
	FS       FS
	Dir      string
	Snapshot string // file names in Dir
	Journal  string
	Store    *memory.Store
	Now      func() int64 // the decision clock, in nanoseconds of Unix time
	Log      *slog.Logger
}

// ErrBusy is returned when a snapshot or a rewrite is requested while either is being written.
var ErrBusy = errors.New("a snapshot or a rewrite is being written already")

// Keeper keeps a store on disk: it loads the files, appends changes to the journal, and takes snapshots. Its methods
// may be called by many goroutines at once, unless they say otherwise.
type Keeper struct {
	c       Config
	rules   atomic.Pointer[Rules]
	journal journal
	loading atomic.Pointer[Progress] // nil when no file is being loaded

	rulesMu sync.Mutex // one change of the rules at a time
	lock    io.Closer  // the lock of the directory

	writing sync.Mutex // one snapshot or rewrite at a time
	tasks   sync.WaitGroup

	mu      sync.Mutex
	state   Status
	changes uint64 // the store's count of changes at the last snapshot
	retry   retry

	abandoned chan struct{} // closed by Abandon
	abandon   sync.Once

	wake      chan struct{} // wakes the flusher before its next tick
	quit      chan struct{}
	stopped   chan struct{}
	roundMu   sync.Mutex
	nextRound *round // the round of flushing that Commit waits for
	started   atomic.Bool

	isLoading  atomic.Bool
	saveFailed atomic.Bool
	stopOnce   sync.Once
}

// retry has the times, in nanoseconds of Unix time, before which what has failed is not tried again. A journal that
// cannot be written does not delay snapshots.
type retry struct{ save, rewrite int64 }

// round is one round of the flusher. done is closed when everything that was decided before the round began is durable,
// or when err says why it is not.
type round struct {
	done chan struct{}
	err  error
}

// Status is the state of a Keeper, for INFO. Times are nanoseconds of Unix time, sizes bytes.
type Status struct {
	LastSave     int64 // when the last snapshot began; the time of New before there is one
	SaveFailed   bool
	Saving       bool
	SaveTook     time.Duration // of the last one; negative before there is one
	SaveBegan    int64         // when the last snapshot or rewrite began
	Rewriting    bool
	RewriteTook  time.Duration
	RewriteBad   bool
	Saved        uint64 // the store's count of changes at the last snapshot
	Journal      bool
	JournalFault error // why the journal cannot be written
	JournalSize  int64 // bytes
	JournalBase  int64 // its size when it was loaded or rewritten

	Loading     bool
	LoadTotal   int64 // bytes
	LoadDone    int64
	LoadKeys    int64
	LoadStarted int64
}

// New makes a Keeper, which is loading until Load succeeds. If the rules keep anything, New locks the directory, and
// returns ErrLocked if another process has locked it.
func New(c Config, r Rules) (*Keeper, error) {
	k := &Keeper{
		c: c, abandoned: make(chan struct{}), wake: make(chan struct{}, 1), quit: make(chan struct{}), stopped: make(chan struct{}),
		nextRound: &round{done: make(chan struct{})},
		journal:   journal{fsys: c.FS, dir: c.Dir, name: c.Journal, store: c.Store},
	}
	k.rules.Store(&r)
	k.isLoading.Store(true)
	k.state = Status{LastSave: c.Now(), SaveTook: -1, RewriteTook: -1}
	if r.keeps() {
		if err := k.lockDirectory(); err != nil {
			return nil, err
		}
	}
	return k, nil
}

// lockDirectory locks the directory, unless it is locked already. It requires that rulesMu is held.
func (k *Keeper) lockDirectory() (err error) {
	if k.lock == nil {
		k.lock, err = k.c.FS.Lock("lock", k.c.Dir)
	}
	return err
}

// unlockDirectory unlocks the directory. It requires that rulesMu is held, and that the directory is locked.
func (k *Keeper) unlockDirectory() error {
	lock := k.lock
	k.lock = nil
	return lock.Close()
}

// holdDirectory locks the directory until release is called, for a snapshot that is requested while the rules keep
// nothing.
func (k *Keeper) holdDirectory() (release func(), err error) {
	k.rulesMu.Lock()
	defer k.rulesMu.Unlock()
	if k.lock != nil {
		return func() {}, nil
	}
	if err := k.lockDirectory(); err != nil {
		return nil, err
	}
	if _, _, err := k.readGenerations(); err != nil { // another process may have written files meanwhile
		return nil, errors.Join(err, k.unlockDirectory())
	}
	return func() {
		k.rulesMu.Lock()
		defer k.rulesMu.Unlock()
		if rules := k.Rules(); !rules.keeps() {
			_ = k.unlockDirectory()
		}
	}, nil
}

// Load loads the journal, if the rules keep one and its file is not older than the snapshot, and otherwise the
// snapshot. It logs its progress each second. Its errors are those of Reader, which say what to run, those of FS, and
// ErrAbandoned. After an error only Stop may be called, which leaves the files as they are.
func (k *Keeper) Load() error {
	defer k.loading.Store(nil) // Status shows the progress until Load returns
	rules := k.rules.Load()
	if rules.keeps() {
		if err := RemoveLeftovers(k.c.FS, k.c.Dir, k.c.Snapshot, k.c.Journal); err != nil {
			return err
		}
	}
	useJournal, err := k.chooseJournal(rules.Journal)
	if err != nil {
		return err
	}
	var journal *Reader
	if useJournal {
		if journal, err = k.loadFile(k.c.Journal, JournalFile); err != nil {
			return err
		}
	}
	if !useJournal {
		if _, err := k.loadFile(k.c.Snapshot, SnapshotFile); err != nil {
			return err
		}
	}
	k.rulesMu.Lock()
	defer k.rulesMu.Unlock()
	if k.Rules().Journal { // the rules may have changed meanwhile
		k.journal.restart(changeEncoder{})
		if journal != nil && journal.Version() == formatVersion {
			if err := k.journal.resume(journal.Offset(), journal.Generation()); err != nil {
				return err
			}
		} // otherwise the flusher writes the file
	}
	k.markSaved(false)
	if moved := k.c.Store.Clamp(k.c.Now()); moved > 0 { // must follow Track and markSaved, because the clamped states are changes
		k.c.Log.Warn("the clock was set back since these were kept: what is later than now is made now", "keys", moved)
	}
	k.isLoading.Store(false)
	return nil
}

// Abandon makes Load, now or later, return ErrAbandoned. As after any error of Load, only Stop may be called then.
func (k *Keeper) Abandon() { k.abandon.Do(func() { close(k.abandoned) }) }

// loadFile loads a file, and returns the Reader at its end, or nil if there is no file. It cuts off the torn tail of a
// journal.
func (k *Keeper) loadFile(name string, kind FileKind) (*Reader, error) {
	path := filepath.Join(k.c.Dir, name)
	file, err := k.c.FS.Open("load", path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	} else if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close("load: close") }() // it was only read
	size, err := file.Size("load: size")
	if err != nil {
		return nil, err
	}
	progress := new(Progress)
	k.loading.Store(progress)
	began := k.c.Now()
	k.mu.Lock()
	k.state.LoadStarted = began
	k.mu.Unlock()
	stop := k.report(name, progress)
	f, err := load(file, size, path, k.c.Store, k.c.Now(), progress, k.abandoned)
	stop()
	var torn *TornError
	switch {
	case f != nil && f.Kind() != kind:
		return nil, &kindError{path, f.Kind(), kind}
	case errors.As(err, &torn):
		k.c.Log.Warn("the journal ends in the middle of a write, which is cut off", "file", path, "offset", torn.Offset, "bytes", torn.Lost)
		if err := k.cut(path, torn.Offset); err != nil {
			return nil, err
		}
	case err != nil:
		return nil, err
	}
	k.c.Log.Info("loaded", "file", path, "keys", k.keys(), "entries", progress.Keys.Load(),
		"took", time.Duration(k.c.Now()-began).Round(time.Millisecond))
	return f, nil
}

// keys returns the number of keys in all databases.
func (k *Keeper) keys() (n int64) {
	for _, db := range k.c.Store.Used() {
		n += k.c.Store.Database(db).Stats().Keys
	}
	return n
}

// cut cuts a file to its first size bytes, durably.
func (k *Keeper) cut(path string, size int64) error {
	if err := k.c.FS.Truncate("cut", path, size); err != nil {
		return err
	}
	file, err := k.c.FS.OpenAppend("cut: open", path)
	if err != nil {
		return err
	}
	return errors.Join(file.Sync("cut: sync"), file.Close("cut: close"))
}

// report logs the progress of loading each second until stop is called.
func (k *Keeper) report(name string, p *Progress) (stop func()) {
	quit, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		tick := time.NewTicker(time.Second)
		defer tick.Stop()
		for began := time.Now(); ; {
			select {
			case <-quit:
				return
			case <-tick.C:
			}
			passed, part := time.Since(began), float64(p.Done.Load())/float64(max(1, p.Total.Load()))
			k.c.Log.Info("loading", "file", name, "percent", int(100*part), "keys", p.Keys.Load(),
				"keys_per_second", int64(float64(p.Keys.Load())/passed.Seconds()),
				"left", time.Duration(float64(passed)*(1/max(part, 0.001)-1)).Round(time.Second))
		}
	}()
	return func() { close(quit); <-done }
}

// Rules returns the rules in force.
func (k *Keeper) Rules() Rules { return *k.rules.Load() }

// SetRules changes the rules. If they begin to keep something, it locks the directory first, and returns ErrLocked if
// another process has locked it. On an error nothing has changed.
func (k *Keeper) SetRules(r Rules) error {
	k.rulesMu.Lock()
	defer k.rulesMu.Unlock()
	before := k.Rules()
	if r.keeps() && k.lock == nil {
		if err := k.lockDirectory(); err != nil {
			return err
		}
		if _, _, err := k.readGenerations(); err != nil { // another process may have written files meanwhile
			return errors.Join(err, k.unlockDirectory())
		}
	}
	if r.Journal && !before.Journal {
		k.journal.restart(changeEncoder{}) // must precede any rewrite: changes between its copy and the first tracked change would be lost
	}
	k.rules.Store(&r)
	if !r.Journal && before.Journal {
		k.journal.restart(nil)
	}
	k.wakeFlusher()
	return nil
}

// wakeFlusher makes the flusher begin its next round now.
func (k *Keeper) wakeFlusher() {
	select {
	case k.wake <- struct{}{}:
	default:
	}
}

// Status returns the current status. It takes no lock of the store, and none that is held while one waits for the
// store: it is also called while the whole store is locked.
func (k *Keeper) Status() Status {
	k.mu.Lock()
	s := k.state
	s.Saved = k.changes
	k.mu.Unlock()
	s.Journal = k.Rules().Journal
	s.JournalSize, s.JournalBase = k.journal.shownSize.Load(), k.journal.shownBase.Load()
	if fault := k.journal.shownFault.Load(); fault != nil {
		s.JournalFault = fault.Err
	}
	if p := k.loading.Load(); p != nil {
		s.Loading, s.LoadTotal, s.LoadDone, s.LoadKeys = true, p.Total.Load(), p.Done.Load(), p.Keys.Load()
	}
	return s
}

// Unsaved returns the number of changes since the last snapshot.
func (k *Keeper) Unsaved() uint64 {
	changes := k.c.Store.Stats().Changes
	return changes - min(changes, k.Status().Saved)
}

// Loading reports whether Load has not succeeded yet.
func (k *Keeper) Loading() bool { return k.isLoading.Load() }

// Refusal returns why requests that change something must be refused now: ErrSaveFailed, a *JournalFault, or nil if
// they need not be. It does not block.
func (k *Keeper) Refusal() error {
	r := k.rules.Load()
	if !r.StopWrites {
		return nil
	}
	if fault := k.journal.shownFault.Load(); fault != nil && r.Journal {
		return fault
	}
	if k.saveFailed.Load() && len(r.SavePoints) > 0 {
		return ErrSaveFailed
	}
	return nil
}

// ErrSaveFailed is the Refusal while the last snapshot has failed.
var ErrSaveFailed = errors.New("the last snapshot could not be written")

// JournalFault is the Refusal while the journal cannot be written.
type JournalFault struct{ Err error }

// Error returns the text.
func (f *JournalFault) Error() string { return f.Err.Error() }

// Unwrap returns the error of the journal.
func (f *JournalFault) Unwrap() error { return f.Err }
