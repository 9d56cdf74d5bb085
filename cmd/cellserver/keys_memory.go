package main

import (
	"errors"
	"log/slog"

	"cellserver/buckets"
	"cellserver/buckets/memory"
	"cellserver/cmd/cellserver/options"
	"cellserver/internal/clock"
	"cellserver/internal/disk"
	"cellserver/persistence"
	"cellserver/resp"
)

// memoryKeys are keys in the memory of this process, which a keeper keeps on disk.
type memoryKeys struct {
	log     *slog.Logger
	clock   *clock.Clock
	memory  *memory.Store
	keeper  *persistence.Keeper
	sweeper *sweeper // nil until start
	limits  []any    // for the log
}

// openMemory makes the store, and the keeper that locks its directory. It loads nothing.
func openMemory(s options.Settings, log *slog.Logger) (*memoryKeys, error) {
	k := &memoryKeys{
		log: log, clock: clock.New(), memory: memory.NewStore(memory.DefaultShards),
		limits: []any{"maxmemory", s.MaxMemory, "maxmemory-policy", s.MaxMemoryPolicy},
	}
	k.memory.SetDatabases(int(s.Databases))
	var err error
	k.keeper, err = persistence.New(persistence.Config{
		FS: persistence.OS, Dir: s.Dir, Snapshot: s.Snapshot, Journal: s.Journal, Store: k.memory, Now: k.now, Log: log,
	}, s.Disk)
	if err != nil {
		return nil, err
	}
	return k, nil
}

func (k *memoryKeys) store() buckets.Store { return k.memory }
func (k *memoryKeys) now() int64           { return k.clock.Now() }
func (k *memoryKeys) disk() resp.Disk      { return disk.Of(k.keeper) }
func (k *memoryKeys) describe() []any      { return k.limits }

func (k *memoryKeys) apply(s options.Settings) error {
	if err := k.keeper.SetRules(s.Disk); err != nil {
		return err
	}
	s.Bound(k.memory)
	setRuntimeMemory(s.MaxMemory)
	return nil
}

// load loads the snapshot or the journal.
func (k *memoryKeys) load() error {
	err := k.keeper.Load()
	if errors.Is(err, persistence.ErrAbandoned) {
		k.log.Info("stopped while loading: what is on disk stays as it is")
		return errAbandoned
	}
	return err
}

func (k *memoryKeys) abandon() { k.keeper.Abandon() }

// start starts to write the journal and the snapshots, and to remove expired keys.
func (k *memoryKeys) start(sample func()) {
	k.keeper.Start()
	k.sweeper = startSweeper(k.memory, k.now, sample)
}

func (k *memoryKeys) close(save bool) error {
	if k.sweeper != nil {
		k.sweeper.stop()
	}
	return k.keeper.Stop(save)
}
