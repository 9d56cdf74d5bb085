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

// SyncPolicy says when what has been written to the journal is made durable.
type SyncPolicy int

// The policies, by the names of appendfsync.
const (
	SyncEverySecond SyncPolicy = iota // everysec
	SyncAlways                        // always: before a reply is sent
	SyncNever                         // no: when the system pleases
)

// SavePoint asks for a snapshot when so many changes are at least so old.
type SavePoint struct {
	After   time.Duration
	Changes uint64
}

// Rules are what a Keeper keeps, and may change while it works.
type Rules struct {
	SavePoints     []SavePoint
	Journal        bool
	Sync           SyncPolicy
	StopWrites     bool  // requests that change something are refused while the disk does not take them
	RewritePercent int64 // the journal is rewritten when it has grown by so much of its base; 0 is never
	RewriteMin     int64 // and has at least so many bytes
}

// keeps reports whether anything is to be kept.
func (r *Rules) keeps() bool { return r.Journal || len(r.SavePoints) > 0 }

// Config is what a Keeper is made of. All of it must be given.
type Config struct {
	FS       FS
	Dir      string
	Snapshot string // file names in Dir
	Journal  string
	Store    *memory.Store
	Now      func() int64 // the decision clock: nanoseconds of Unix time
	Log      *slog.Logger
}

// ErrBusy is returned when a snapshot or a rewrite is asked for while one is being written.
var ErrBusy = errors.New("a snapshot or a rewrite is being written already")

// Keeper keeps a store on disk: it loads what is there, writes the journal, and takes snapshots.
type Keeper struct {
	c       Config
	rules   atomic.Pointer[Rules]
	journal journal
	loading atomic.Pointer[Progress] // nil when nothing is being loaded

	rulesMu sync.Mutex // one change of the rules at a time
	lock    io.Closer  // of the directory

	writing sync.Mutex // one snapshot or rewrite at a time
	tasks   sync.WaitGroup

	mu      sync.Mutex
	state   Status
	changes uint64 // that the last snapshot had
	retry   retry

	abandoned chan struct{} // closed by Abandon
	abandon   sync.Once

	wake      chan struct{} // the flusher has something to do
	quit      chan struct{}
	stopped   chan struct{}
	roundMu   sync.Mutex
	nextRound *round // the turn of the flusher that those who come now wait for
	started   atomic.Bool

	isLoading  atomic.Bool
	saveFailed atomic.Bool
	stopOnce   sync.Once
}

// retry is when what has failed may be tried again. A journal that cannot be written keeps nobody from taking snapshots.
type retry struct{ save, rewrite int64 }

// turn is one round of the flusher: done is closed when what had been decided before it began is durable, or err says why
// it is not.
type round struct {
	done chan struct{}
	err  error
}

// Status is what INFO tells.
type Status struct {
	LastSave     int64 // nanoseconds of Unix time; that of the start before there is one
	SaveFailed   bool
	Saving       bool
	SaveTook     time.Duration // the last one; below 0 before there is one
	SaveBegan    int64         // the one under way
	Rewriting    bool
	RewriteTook  time.Duration
	RewriteBad   bool
	Saved        uint64 // the changes that the last snapshot had, of those that the store counts
	Journal      bool
	JournalFault error // why the journal is not written, or not yet again
	JournalSize  int64 // bytes
	JournalBase  int64 // bytes that it had when it was new

	Loading     bool
	LoadTotal   int64 // bytes
	LoadDone    int64
	LoadKeys    int64
	LoadStarted int64
}

// New makes a Keeper, which is loading until Load succeeds. When its rules keep anything it takes the directory for
// itself, and returns ErrLocked if another process has it.
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

// lockDirectory locks the directory, if it is not locked already.
func (k *Keeper) lockDirectory() (err error) {
	if k.lock == nil {
		k.lock, err = k.c.FS.Lock("lock", k.c.Dir)
	}
	return err
}

// unlockDirectory unlocks the directory.
func (k *Keeper) unlockDirectory() error {
	lock := k.lock
	k.lock = nil
	return lock.Close()
}

// holdDirectory is lockDirectory for as long as release is not called: somebody wants a snapshot, though the rules keep nothing.
func (k *Keeper) holdDirectory() (release func(), err error) {
	k.rulesMu.Lock()
	defer k.rulesMu.Unlock()
	if k.lock != nil {
		return func() {}, nil
	}
	if err := k.lockDirectory(); err != nil {
		return nil, err
	}
	if _, _, err := k.readGenerations(); err != nil { // another process may have had it meanwhile
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

// Load loads what is there: the journal if one is kept and there is one that is not older than the snapshot, or else the
// snapshot. It reports its progress to the log while that takes long. Its errors are those of Reader, and say what to run; the Keeper is good for nothing but
// Stop then, which leaves the files alone.
func (k *Keeper) Load() error {
	defer k.loading.Store(nil) // its progress stands for as long as it is loading
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
		} // or else the flusher writes the file
	}
	k.markSaved(false)
	if moved := k.c.Store.Clamp(k.c.Now()); moved > 0 { // after it is tracked and counted: these are changes
		k.c.Log.Warn("the clock was set back since these were kept: what is later than now is made now", "keys", moved)
	}
	k.isLoading.Store(false)
	return nil
}

// Abandon ends a Load that is under way, or is to come. Like after any other error of Load, only Stop may follow.
func (k *Keeper) Abandon() { k.abandon.Do(func() { close(k.abandoned) }) }

// loadFile loads a file if it is there, and returns what has read it to its end; nil if it is not there. The torn tail of
// a journal is cut off.
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
	k.c.Log.Info("loaded", "file", path, "keys", k.c.Store.Stats().Keys, "entries", progress.Keys.Load(),
		"took", time.Duration(k.c.Now()-began).Round(time.Millisecond))
	return f, nil
}

// cut cuts a file off at size, durably.
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

// report tells the log now and then how far loading is.
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

// SetRules changes the rules. When they come to keep something, the directory is taken first; on an error nothing has
// changed.
func (k *Keeper) SetRules(r Rules) error {
	k.rulesMu.Lock()
	defer k.rulesMu.Unlock()
	before := k.Rules()
	if r.keeps() && k.lock == nil {
		if err := k.lockDirectory(); err != nil {
			return err
		}
		if _, _, err := k.readGenerations(); err != nil { // another process may have had it meanwhile
			return errors.Join(err, k.unlockDirectory())
		}
	}
	if r.Journal && !before.Journal {
		k.journal.restart(changeEncoder{}) // before anybody may write it: what is copied before it is noted would be lost
	}
	k.rules.Store(&r)
	if !r.Journal && before.Journal {
		k.journal.restart(nil)
	}
	k.wakeFlusher()
	return nil
}

// wakeFlusher wakes the flusher.
func (k *Keeper) wakeFlusher() {
	select {
	case k.wake <- struct{}{}:
	default:
	}
}

// Status returns how things stand. It asks neither the store nor anybody who may be waiting for it: it is also called
// with the whole store locked.
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

// Unsaved returns how many changes there have been since the last snapshot.
func (k *Keeper) Unsaved() uint64 {
	changes := k.c.Store.Stats().Changes
	return changes - min(changes, k.Status().Saved)
}

// Loading reports whether what was kept is still being loaded.
func (k *Keeper) Loading() bool { return k.isLoading.Load() }

// Refusal says why requests that change something are refused now: ErrSaveFailed or a *JournalFault; nil when they are
// not. It waits for nobody.
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

// ErrSaveFailed is the Refusal while the last snapshot that was asked for could not be written.
var ErrSaveFailed = errors.New("the last snapshot could not be written")

// JournalFault is the Refusal while the journal cannot be written.
type JournalFault struct{ Err error }

// Error returns the text.
func (f *JournalFault) Error() string { return f.Err.Error() }

// Unwrap returns what failed.
func (f *JournalFault) Unwrap() error { return f.Err }
