package persistence

import (
	"errors"
	"io"
	"time"
)

// Start begins to write the journal and to take snapshots when they are due. Stop ends it.
func (k *Keeper) Start() {
	k.started.Store(true)
	go k.flush()
}

const (
	// every is how often the journal is written, and how much everysec may lose, but for what the disk adds.
	flushEvery = time.Second
	// retryAfter is how long after a failure the next attempt is made.
	retryAfter = 5 * time.Second
)

// flush writes the journal until Stop: every second, and under appendfsync always whenever somebody waits for it. It also
// looks every second whether a snapshot or a rewrite is due.
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

// needsFile reports whether a journal is kept of which there is no file yet.
func (k *Keeper) needsFile() bool {
	complete, fault := k.journal.state()
	return k.rules.Load().Journal && !complete && fault == nil
}

// turn is one round of writing the journal. If due, one that could not be written is tried again.
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
			k.roundMu.Lock() // until there is one: they wait together with those who have come meanwhile
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

// Commit returns when what has been decided before is as durable as the rules promise: at once, but under appendfsync
// always. Its error says why it is not; it is nil when the rules have it that requests go on all the same.
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

// delayRetry says that what has just failed is not to be tried again at once.
func (k *Keeper) delayRetry(what *int64) {
	k.mu.Lock()
	*what = k.c.Now() + int64(retryAfter)
	k.mu.Unlock()
}

// runDue begins a rewrite or a snapshot if the rules ask for one.
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
	for _, p := range r.SavePoints { // after a failure there may be no changes that one could wait for: they are refused
		if failed || since >= p.Changes && since > 0 && now-last >= int64(p.After) {
			_ = k.SaveInBackground()
			return
		}
	}
}

// Save writes a snapshot, and returns when it is durable. It is ErrBusy while one, or a rewrite, is being written.
func (k *Keeper) Save() error {
	if !k.writing.TryLock() {
		return ErrBusy
	}
	return k.save()
}

// SaveInBackground begins to write a snapshot, as Save does.
func (k *Keeper) SaveInBackground() error {
	if !k.writing.TryLock() {
		return ErrBusy
	}
	k.beginWriting(func(s *Status) { s.Saving = true })
	k.tasks.Go(func() { _ = k.save() }) // it tells the log
	return nil
}

// RewriteInBackground begins to make the journal anew. It is ErrBusy while that, or a snapshot, is being written.
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

// end says that a snapshot or a rewrite has ended: whoever sees that in the status may begin the next one.
func (k *Keeper) endWriting(what func(s *Status)) {
	k.mu.Lock()
	defer k.mu.Unlock()
	what(&k.state)
	k.writing.Unlock()
}

// save writes a snapshot. The caller holds writing, and does not any more when it returns.
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
		return keys, nil // the journal, which is loaded, has all that the snapshot has
	case !errors.Is(err, errNoFile):
		k.c.Log.Error("the journal cannot be written", "error", err)
		k.delayRetry(&k.retry.rewrite)
	}
	// It does not, and will not before it is written again: a snapshot that is loaded instead of it is needed.
	generation, _ = k.journal.snapshotGeneration()
	return keys, write(generation)
}

// rewrite makes the journal anew. The caller holds writing, and does not any more when it returns.
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
		k.wakeFlusher() // to begin anew, if there is still to be a journal
		return
	case err != nil:
		k.c.Log.Error("the journal could not be rewritten", "file", k.c.Journal, "error", err)
		return
	}
	size, _ := k.journal.size()
	k.c.Log.Info("rewrote the journal", "file", k.c.Journal, "keys", keys, "bytes", size, "took", took.Round(time.Millisecond))
	k.wakeFlusher() // somebody may wait for it
}

// markSaved says that what the store holds now is on disk.
func (k *Keeper) markSaved(now bool) {
	changes := k.c.Store.Stats().Changes
	k.mu.Lock()
	defer k.mu.Unlock()
	k.changes = changes
	if now {
		k.state.LastSave = k.c.Now()
	}
}

// Stop writes the journal a last time, and a snapshot if save says so, and lets go of the directory. It writes nothing if
// Load has not succeeded: what the store holds then is less than what is on disk. Nobody may call it while requests are
// still decided on.
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
			if err != nil { // there is no file yet, or none any more
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
