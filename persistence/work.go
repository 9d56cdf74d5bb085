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
	every = time.Second
	// retryAfter is how long after a failure the next attempt is made.
	retryAfter = 5 * time.Second
)

// flush writes the journal until Stop: every second, and under appendfsync always whenever somebody waits for it. It also
// looks every second whether a snapshot or a rewrite is due.
func (k *Keeper) flush() {
	defer close(k.stopped)
	tick := time.NewTicker(every)
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
		k.turn()
		if due || k.homeless() {
			k.whatIsDue()
		}
	}
}

// homeless reports whether a journal is kept of which there is no file yet.
func (k *Keeper) homeless() bool {
	there, fault := k.journal.state()
	return k.rules.Load().Journal && !there && fault == nil
}

// turn is one round of writing the journal.
func (k *Keeper) turn() {
	r := k.rules.Load()
	k.waiters.Lock()
	t := k.waiting
	k.waiting = &turn{done: make(chan struct{})}
	k.waiters.Unlock()
	var err error
	if r.Journal {
		_, before := k.journal.state()
		if err = k.journal.write(r.Sync != SyncNever); errors.Is(err, errNoFile) {
			k.waiters.Lock() // until there is one: they wait together with those who have come meanwhile
			next := k.waiting
			k.waiters.Unlock()
			go func() {
				<-next.done
				t.err = next.err
				close(t.done)
			}()
			return
		}
		if err != nil && before == nil {
			k.c.Log.Error("the journal cannot be written", "error", err)
			k.putOff()
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
	k.waiters.Lock()
	t := k.waiting
	k.waiters.Unlock()
	k.poke()
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

// putOff says that what has just failed is not to be tried again at once.
func (k *Keeper) putOff() {
	k.mu.Lock()
	k.retry = k.c.Now() + int64(retryAfter)
	k.mu.Unlock()
}

// whatIsDue begins a rewrite or a snapshot if the rules ask for one.
func (k *Keeper) whatIsDue() {
	r, now := k.rules.Load(), k.c.Now()
	changes := k.c.Store.Stats().Changes
	k.mu.Lock()
	since, last, wait, failed := changes-min(changes, k.changes), k.state.LastSave, k.retry, k.state.SaveFailed
	k.mu.Unlock()
	if now < wait {
		return
	}
	if r.Journal {
		there, _ := k.journal.state()
		size, base := k.journal.size()
		if !there || r.RewritePercent > 0 && size >= r.RewriteMin && size-base >= base/100*r.RewritePercent {
			_ = k.RewriteInBackground()
			return
		}
	}
	for _, p := range r.SavePoints {
		if since >= p.Changes && since > 0 && (failed || now-last >= int64(p.After)) {
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
	defer k.writing.Unlock()
	return k.save()
}

// SaveInBackground begins to write a snapshot, as Save does.
func (k *Keeper) SaveInBackground() error {
	if !k.writing.TryLock() {
		return ErrBusy
	}
	k.begin(func(s *Status) { s.Saving = true })
	k.tasks.Go(func() {
		defer k.writing.Unlock()
		_ = k.save() // it tells the log
	})
	return nil
}

// RewriteInBackground begins to make the journal anew. It is ErrBusy while that, or a snapshot, is being written.
func (k *Keeper) RewriteInBackground() error {
	if !k.writing.TryLock() {
		return ErrBusy
	}
	k.begin(func(s *Status) { s.Rewriting = true })
	k.tasks.Go(func() {
		defer k.writing.Unlock()
		k.rewrite()
	})
	return nil
}

func (k *Keeper) begin(what func(s *Status)) {
	k.mu.Lock()
	defer k.mu.Unlock()
	what(&k.state)
	k.state.SaveBegan = k.c.Now()
}

func (k *Keeper) save() error {
	began := k.c.Now()
	k.begin(func(s *Status) { s.Saving = true })
	changes := k.c.Store.Stats().Changes
	keys, err := k.writeFile(began)
	took := time.Duration(k.c.Now() - began)
	k.mu.Lock()
	k.state.Saving, k.state.SaveTook, k.state.SaveFailed = false, took, err != nil
	k.saveFailed.Store(err != nil)
	if err == nil {
		k.changes, k.state.LastSave = changes, began
	}
	k.mu.Unlock()
	if err != nil {
		k.putOff()
		k.c.Log.Error("the snapshot could not be written", "file", k.c.Snapshot, "error", err)
		return err
	}
	k.c.Log.Info("saved", "file", k.c.Snapshot, "keys", keys, "took", took.Round(time.Millisecond))
	return nil
}

func (k *Keeper) writeFile(now int64) (keys int64, err error) {
	release, err := k.useDir()
	if err != nil {
		return 0, err
	}
	defer release()
	err = WriteDurably(k.c.FS, "snapshot", k.c.Dir, k.c.Snapshot, func(w io.Writer) (err error) {
		keys, err = WriteSnapshot(w, k.c.Store, now)
		return err
	})
	return keys, err
}

func (k *Keeper) rewrite() {
	began := k.c.Now()
	k.begin(func(s *Status) { s.Rewriting = true })
	keys, err := k.journal.rewrite(began)
	took := time.Duration(k.c.Now() - began)
	k.mu.Lock()
	k.state.Rewriting, k.state.RewriteTook, k.state.RewriteBad = false, took, err != nil
	k.mu.Unlock()
	if err != nil {
		k.journal.missing(err)
		k.putOff()
		k.c.Log.Error("the journal could not be rewritten", "file", k.c.Journal, "error", err)
		return
	}
	size, _ := k.journal.size()
	k.c.Log.Info("rewrote the journal", "file", k.c.Journal, "keys", keys, "bytes", size, "took", took.Round(time.Millisecond))
	k.poke() // somebody may wait for it
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

// Stop writes the journal a last time, and a snapshot if save says so, and lets go of the directory. Nobody may call it
// while requests are still decided on.
func (k *Keeper) Stop(save bool) (err error) {
	k.stopOnce.Do(func() {
		close(k.quit)
		if k.started.Load() {
			<-k.stopped
		}
		k.tasks.Wait()
		if k.Rules().Journal {
			if k.homeless() {
				k.rewrite()
			}
			if err = k.journal.write(true); err != nil {
				k.c.Log.Error("the journal could not be written at the end", "error", err)
			}
		}
		k.journal.mu.Lock()
		k.journal.drop()
		k.journal.mu.Unlock()
		if save {
			err = errors.Join(err, k.Save())
		}
		if k.lock != nil {
			err = errors.Join(err, k.lock.Close())
		}
	})
	return err
}
