package importer

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"cellserver/buckets"
	"cellserver/buckets/cluster"
	"cellserver/buckets/memory"
	"cellserver/persistence"
)

// engineTarget is a target that is a Valkey or Redis, as the option store names one. It keeps states and deadlines exactly.
type engineTarget struct {
	store  *cluster.Store
	loader *cluster.Loader
}

// enginePatience is how long an engine may take until it can be written to.
const enginePatience = 5 * time.Second

// openEngine connects to the engine.
func openEngine(ctx context.Context, c Config, p *plan) (*engineTarget, error) {
	store, err := c.Engine(&p.engine.Store)
	if err != nil {
		return nil, err
	}
	wait, cancel := context.WithTimeout(ctx, enginePatience)
	defer cancel()
	if err := store.Ready(wait); err != nil {
		return nil, errors.Join(err, store.Close())
	}
	return &engineTarget{store, store.NewLoader(p.replace)}, nil
}

func (e *engineTarget) put(ctx context.Context, found []bucket, counts *counts) error {
	for _, b := range found {
		if err := e.loader.Add(ctx, &buckets.Entry{Key: []byte(b.key), State: buckets.Throttled(b.tat)}); err != nil {
			e.tell(counts)
			return err
		}
	}
	err := e.loader.Flush(ctx)
	e.tell(counts)
	return err
}

// tell counts what was done so far.
func (e *engineTarget) tell(counts *counts) {
	done := e.loader.Loaded()
	counts.Taken = done.Written
	counts.skipped[exists] = done.Kept
	counts.skipped[expired] = done.Expired
}

func (e *engineTarget) close() error { return e.store.Close() }
func (e *engineTarget) abort() error { return e.store.Close() }

// runFile imports a file into an engine. The whole file is read first, so that one that is not sound changes nothing.
func (p *plan) runFile(ctx context.Context, c Config, progress *progress) error {
	loaded, err := readFile(p.sourceFile)
	if err != nil {
		return err
	}
	var out *engineTarget
	if !p.dryRun {
		if out, err = openEngine(ctx, c, p); err != nil {
			return p.fault(ctx, p.target, err, progress)
		}
	}
	progress.begun = true
	err = loaded.Copy(time.Now().UnixNano(), func(part *memory.Part) (err error) {
		part.Each(func(e *buckets.Entry) {
			switch {
			case err != nil || ctx.Err() != nil:
			case out == nil:
				progress.Scanned++
				progress.Taken++
			default:
				progress.Scanned++
				err = out.loader.Add(context.WithoutCancel(ctx), e)
				out.tell(&progress.counts)
				progress.step()
			}
		})
		return errors.Join(err, ctx.Err())
	})
	if out == nil {
		progress.whole = err == nil
		return err
	}
	err = errors.Join(err, out.loader.Flush(context.WithoutCancel(ctx)))
	out.tell(&progress.counts)
	if err = errors.Join(err, out.close()); err != nil {
		return p.fault(ctx, p.target, err, progress)
	}
	progress.whole = true
	return nil
}

// readFile loads a snapshot or a journal whose keys are all of database 0, without what has expired.
func readFile(name string) (*memory.Store, error) {
	file, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }() // it was only read
	stat, err := file.Stat()
	if err != nil {
		return nil, err
	}
	store, now := memory.NewStore(memory.DefaultShards), time.Now().UnixNano()
	store.SetDatabases(memory.MaxDatabases)
	torn, err := persistence.LoadFile(file, stat.Size(), name, store, now, new(persistence.Progress))
	if err != nil {
		return nil, fmt.Errorf("nothing was written: %w", err)
	}
	if torn != nil {
		return nil, fmt.Errorf("nothing was written: %w: stop the server that writes it, or import what `cellserver check --repair` makes of it", torn)
	}
	for _, n := range store.Used() {
		if n != 0 {
			return nil, fmt.Errorf("nothing was written: %s has keys of database %d, and an engine for --store has database 0 only", name, n)
		}
	}
	store.Clamp(now)
	return store, nil
}
