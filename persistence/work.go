package persistence

import (
	"errors"
	"io"
	"time"
)

// Start starts to write the journal, and to take snapshots and rewrite the journal when they are due, until Stop. It
// requires that Load has succeeded.
func (k *Keeper) Start() {
	k.started.Store(true)
	go k.flush()
}

const (
	// flushEvery is the interval at which the journal is written. Under everysec, a loss of power loses the changes of
	// about one interval and those during the sync.
	flushEvery = time.Second
	// retryAfter is the time from a failure to the next attempt.
	retryAfter = 5 * time.Second
)

// flush runs in the flusher's goroutine until Stop: it writes the journal each second and whenever it is woken, and
// checks each second whether a snapshot or a rewrite is due.
func (k *Keeper) flush() {
	defer close(k.stopped)
	tick := time.NewTicker(flushEvery)
	defer tick.Stop()
	for {
		due := false
		select {
		case <-k.quit:
			return
		case <-k.wake:
		case <-tick.C:
			due = true
		}
		k.flushRound(due)
		if due || k.needsFile() {
			k.runDue()
		}
	}
}

// needsFile reports whether the rules keep a journal whose file does not exist yet.
func (k *Keeper) needsFile() bool {
	complete, fault := k.journal.state()
	return k.rules.Load().Journal && !complete && fault == nil
}

// flushRound writes the journal once and ends the round that Commit waits for. If due is set, it also tries to repair a
// journal that has a fault.
func (k *Keeper) flushRound(due bool) {
	r := k.rules.Load()
	k.roundMu.Lock()
	t := k.nextRound
	k.nextRound = &round{done: make(chan struct{})}
	k.roundMu.Unlock()
	var err error
	if r.Journal {
		_, before := k.journal.state()
		if err = k.journal.write(r.Sync != SyncNever); err != nil && before != nil && due {
			if err = k.journal.repair(r.Sync != SyncNever); err == nil {
				k.c.Log.Info("the journal is written again, with all that it lacked", "file", k.c.Journal)
			}
		}
		if errors.Is(err, errNoFile) {
			k.roundMu.Lock() // this round ends with the next one, which may have a file
			next := k.nextRound
			k.roundMu.Unlock()
			go func() {
				select {
				case <-next.done:
					t.err = next.err
				case <-k.stopped:
					t.err = errStopped
				}
				close(t.done)
			}()
			return
		}
		if err != nil && before == nil {
			k.c.Log.Error("the journal cannot be written", "error", err)
			k.delayRetry(&k.retry.rewrite)
		}
	}
	t.err = err
	close(t.done)
}

// Commit waits until everything that was decided before the call is as durable as the rules promise. Under SyncAlways it
// waits for the next round; otherwise it returns at once. Its error says why the changes are not durable; it is nil if
// the rules do not stop writes in that case.
func (k *Keeper) Commit() error {
	r := k.rules.Load()
	if !r.Journal || r.Sync != SyncAlways {
		return nil
	}
	k.roundMu.Lock()
	t := k.nextRound
	k.roundMu.Unlock()
	k.wakeFlusher()
	select {
	case <-t.done:
	case <-k.stopped:
		return errStopped
	}
	if r.StopWrites {
		return t.err
	}
	return nil
}

var errStopped = errors.New("the journal has been closed")

// delayRetry sets the earliest time of the next attempt of a task that has just failed.
func (k *Keeper) delayRetry(what *int64) {
	k.mu.Lock()
	*what = k.c.Now() + int64(retryAfter)
	k.mu.Unlock()
}

// runDue starts a rewrite or a snapshot if the rules make one due.
func (k *Keeper) runDue() {
	r, now := k.rules.Load(), k.c.Now()
	changes := k.c.Store.Stats().Changes
	k.mu.Lock()
	since, last, failed, retry := changes-min(changes, k.changes), k.state.LastSave, k.state.SaveFailed, k.retry
	k.mu.Unlock()
	if r.Journal && now >= retry.rewrite {
		complete, _ := k.journal.state()
		size, base := k.journal.size()
		grown := float64(size-base) >= float64(base)/100*float64(r.RewritePercent)
		if !complete || r.RewritePercent > 0 && size >= r.RewriteMin && grown {
			_ = k.RewriteInBackground()
			return
		}
	}
	if now < retry.save {
		return
	}
	for _, p := range r.SavePoints { // after a failure the retry needs no further changes, because requests may be refused
		if failed || since >= p.Changes && since > 0 && now-last >= int64(p.After) {
			_ = k.SaveInBackground()
			return
		}
	}
}

// Save writes a snapshot and returns when it is durable. It returns ErrBusy while a snapshot or a rewrite is being
// written, and otherwise the error of writing.
func (k *Keeper) Save() error {
	if !k.writing.TryLock() {
		return ErrBusy
	}
	return k.save()
}

// SaveInBackground starts a Save and does not wait for it. It returns ErrBusy or nil; an error of writing is logged.
func (k *Keeper) SaveInBackground() error {
	if !k.writing.TryLock() {
		return ErrBusy
	}
	k.beginWriting(func(s *Status) { s.Saving = true })
	k.tasks.Go(func() { _ = k.save() }) // it logs its error
	return nil
}

// RewriteInBackground starts to rewrite the journal and does not wait for it. It returns ErrBusy while a snapshot or a
// rewrite is being written; an error of writing is logged.
func (k *Keeper) RewriteInBackground() error {
	if !k.writing.TryLock() {
		return ErrBusy
	}
	k.beginWriting(func(s *Status) { s.Rewriting = true })
	k.tasks.Go(k.rewrite)
	return nil
}

func (k *Keeper) beginWriting(what func(s *Status)) {
	k.mu.Lock()
	defer k.mu.Unlock()
	what(&k.state)
	k.state.SaveBegan = k.c.Now()
}

// endWriting updates the status and unlocks writing under one lock, so that a caller who sees the new status can start
// the next snapshot or rewrite. It requires that writing is held.
func (k *Keeper) endWriting(what func(s *Status)) {
	k.mu.Lock()
	defer k.mu.Unlock()
	what(&k.state)
	k.writing.Unlock()
}

// save writes a snapshot. It requires that writing is held, and unlocks it.
func (k *Keeper) save() error {
	began := k.c.Now()
	k.beginWriting(func(s *Status) { s.Saving = true })
	changes := k.c.Store.Stats().Changes
	keys, err := k.writeSnapshotFile(began)
	took := time.Duration(k.c.Now() - began)
	if err != nil {
		k.delayRetry(&k.retry.save)
	}
	k.saveFailed.Store(err != nil)
	k.endWriting(func(s *Status) {
		s.Saving, s.SaveTook, s.SaveFailed = false, took, err != nil
		if err == nil {
			k.changes, s.LastSave = changes, began
		}
	})
	if err != nil {
		k.c.Log.Error("the snapshot could not be written", "file", k.c.Snapshot, "error", err)
		return err
	}
	k.c.Log.Info("saved", "file", k.c.Snapshot, "keys", keys, "took", took.Round(time.Millisecond))
	return nil
}

func (k *Keeper) writeSnapshotFile(now int64) (keys int64, err error) {
	release, err := k.holdDirectory()
	if err != nil {
		return 0, err
	}
	defer release()
	write := func(generation uint64) error {
		return WriteDurably(k.c.FS, "snapshot", k.c.Dir, k.c.Snapshot, func(w io.Writer) (err error) {
			keys, err = WriteSnapshot(w, k.c.Store, now, generation)
			return err
		})
	}
	generation, complete := k.journal.snapshotGeneration()
	if err := write(generation); err != nil || !complete {
		return keys, err
	}
	switch err := k.journal.write(true); {
	case err == nil:
		return keys, nil // the journal is preferred when loading, and has everything that the snapshot has
	case !errors.Is(err, errNoFile):
		k.c.Log.Error("the journal cannot be written", "error", err)
		k.delayRetry(&k.retry.rewrite)
	}
	// The journal lacks changes that the snapshot has. A snapshot of a higher generation is loaded instead of it.
	generation, _ = k.journal.snapshotGeneration()
	return keys, write(generation)
}

// rewrite rewrites the journal. It requires that writing is held, and unlocks it.
func (k *Keeper) rewrite() {
	began := k.c.Now()
	k.beginWriting(func(s *Status) { s.Rewriting = true })
	keys, err := k.journal.rewrite(began)
	took := time.Duration(k.c.Now() - began)
	restarted := errors.Is(err, errRestarted)
	if err != nil && !restarted {
		k.delayRetry(&k.retry.rewrite)
	}
	k.endWriting(func(s *Status) { s.Rewriting, s.RewriteTook, s.RewriteBad = false, took, err != nil && !restarted })
	switch {
	case restarted:
		k.wakeFlusher() // starts over, if a journal is still kept
		return
	case err != nil:
		k.c.Log.Error("the journal could not be rewritten", "file", k.c.Journal, "error", err)
		return
	}
	size, _ := k.journal.size()
	k.c.Log.Info("rewrote the journal", "file", k.c.Journal, "keys", keys, "bytes", size, "took", took.Round(time.Millisecond))
	k.wakeFlusher() // Commit may wait for the file
}

// markSaved records that everything in the store is on disk. If now is set, it also sets the time of the last snapshot.
func (k *Keeper) markSaved(now bool) {
	changes := k.c.Store.Stats().Changes
	k.mu.Lock()
	defer k.mu.Unlock()
	k.changes = changes
	if now {
		k.state.LastSave = k.c.Now()
	}
}

// Stop writes the journal a last time, takes a snapshot if save is true, and unlocks the directory. It writes nothing
// if Load has not succeeded, because the store holds less than the files then. It requires that no requests are decided
// any more. Its errors are those of writing; a second call does nothing.
func (k *Keeper) Stop(save bool) (err error) {
	k.stopOnce.Do(func() {
		close(k.quit)
		if k.started.Load() {
			<-k.stopped
		}
		k.tasks.Wait()
		loaded := !k.isLoading.Load()
		if loaded && k.Rules().Journal {
			if err = k.journal.write(true); err != nil && !errors.Is(err, errNoFile) {
				k.c.Log.Error("the journal cannot be written", "error", err)
				err = k.journal.repair(true)
			}
			if err != nil { // there is no file
				k.writing.Lock()
				k.rewrite()
				err = k.journal.write(true)
			}
			if err != nil {
				k.c.Log.Error("the journal could not be written at the end", "error", err)
			}
		}
		if save && loaded {
			err = errors.Join(err, k.Save())
		}
		k.journal.mu.Lock()
		k.journal.drop()
		k.journal.mu.Unlock()
		if k.lock != nil {
			err = errors.Join(err, k.lock.Close())
		}
	})
	return err
}
