package memory

import (
	"bytes"
	"context"
	"iter"
	"unsafe"

	"cellserver/buckets"
)

// A store has several databases. A shard has a table for each database of which it has keys, and one lock for all of them:
// which shard a key is in does not depend on its database. So moving a key to another database is a matter of one shard,
// and whoever holds the shards of some keys holds these keys in all databases.

// Numbers of databases.
const (
	DefaultDatabases = 16
	MaxDatabases     = 256
)

// database is what one shard has of one database. The hot fields come first; see shard.
type database struct {
	watches map[string]map[*watch]struct{} // the watches of each key; nil while no key is watched
	table

	dirty      []byte // the changed keys, each after its length (uvarint)
	sweepBlock int    // the block with which the next step of a sweep begins
	counted    int    // bytes that were last reported to the budget
}

// databaseBytes is what a database other than 0 takes beside its table. Database 0 is a part of its shard.
const databaseBytes = int(unsafe.Sizeof(database{}))

// SetDatabases sets the number of databases, from 1 to MaxDatabases. It must be called before the store is used.
func (s *Store) SetDatabases(n int) {
	handles := make([]*Store, max(1, min(n, MaxDatabases)))
	*s.databases = handles
	for i := range handles {
		handle := *s
		handle.db = int32(i)
		handles[i] = &handle
	}
	s.feed.next, s.feed.running = newDatabaseChanges(len(handles)), newDatabaseChanges(len(handles))
}

// Databases implements buckets.Databases.
func (s *Store) Databases() int { return len(*s.databases) }

// Used implements buckets.Databases.
func (s *Store) Used() (numbers []int) {
	used := make([]bool, s.Databases())
	s.eachShard(func(sh *shard) {
		for n, t := range sh.eachDatabase() {
			used[n] = used[n] || t.count > 0
		}
	})
	for n := range used {
		if used[n] {
			numbers = append(numbers, n)
		}
	}
	return numbers
}

// Database implements buckets.Databases.
func (s *Store) Database(n int) buckets.Store {
	if n < 0 || n >= s.Databases() {
		return nil
	}
	return s.database(int32(n))
}

// database returns the store of database n. It requires that there is one.
func (s *Store) database(n int32) *Store {
	switch {
	case n == s.db:
		return s
	case s.held:
		held := *s
		held.db = n
		return &held
	}
	return (*s.databases)[n]
}

// selectDatabase makes table that of database n. Nobody selects the database again that was selected before, so whoever
// locks the shard has to select one.
//
// It is not inlined into lockShard, where it would delay those who need nothing of it.
//
//go:noinline
func (s *shard) selectDatabase(n int32) {
	s.selected, s.table = n, s.databaseOf(int(n))
	if s.table != nil {
		return
	}
	if s.spare == nil {
		s.spare = &database{table: newTable(s.zero.seed, s.zero.geometry)}
	}
	s.table = s.spare
}

// near returns table. For a request of database 0 it computes the address instead of loading it, so that the processor need
// not wait for the pointer before it can look the key up. It must not be called within a call of within.
func (s *shard) near() *database {
	if s.selected == 0 {
		return &s.zero
	}
	return s.table
}

// databaseOf returns what the shard has of database n, or nil.
func (s *shard) databaseOf(n int) *database {
	switch {
	case n == 0:
		return &s.zero
	case n < len(s.others):
		return s.others[n]
	}
	return nil
}

// keepSelected makes the spare database, if it is selected, the one that others has from now on. It must be called before a
// key is stored or watched.
func (s *shard) keepSelected() {
	if s.table == s.spare && s.spare != nil {
		s.keep(int(s.selected), s.spare)
		s.spare = nil
		s.count(databaseBytes)
	}
}

// keep makes t database n, which is not 0.
func (s *shard) keep(n int, t *database) {
	for len(s.others) <= n {
		s.others = append(s.others, nil)
	}
	s.others[n] = t
}

// dropEmpty drops the databases that have no keys.
func (s *shard) dropEmpty() {
	for n := range s.others {
		s.dropIfEmpty(n)
	}
	s.selectDatabase(s.selected)
}

// dropIfEmpty drops database n if it has no keys. It leaves the selection undefined.
func (s *shard) dropIfEmpty(n int) {
	t := s.databaseOf(n)
	if n == 0 || t == nil || t.count > 0 || t.watches != nil || len(t.dirty) > 0 {
		return
	}
	s.within(t, func() {
		t.clear()
		s.account()
	})
	s.count(-databaseBytes)
	s.others[n] = nil
}

// eachDatabase visits what the shard has of each database, with its number. The loop must not add databases.
func (s *shard) eachDatabase() iter.Seq2[int, *database] {
	return func(yield func(int, *database) bool) {
		if !yield(0, &s.zero) {
			return
		}
		for n, t := range s.others {
			if t != nil && !yield(n, t) {
				return
			}
		}
	}
}

// within calls do while t is selected.
func (s *shard) within(t *database, do func()) {
	selected := s.table
	s.table = t
	do()
	s.table = selected
}

// records returns how many records the shard has in all databases.
func (s *shard) records() (n int) {
	for _, t := range s.eachDatabase() {
		n += t.count
	}
	return n
}

// lockAllShards locks all shards, and returns what unlocks them.
func (s *Store) lockAllShards() (unlock func()) {
	for i := range s.shards {
		s.lockShard(i)
	}
	return func() {
		for i := range s.shards {
			s.unlockShard(&s.shards[i])
		}
	}
}

// FlushAll implements buckets.Databases.
func (s *Store) FlushAll(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	defer s.lockAllShards()()
	s.beforeDatabaseChange(0, func(c *databaseChanges) { c.flushAll() })
	for i := range s.shards {
		sh := &s.shards[i]
		for _, t := range sh.eachDatabase() {
			sh.within(t, sh.flush)
		}
		sh.dropEmpty()
	}
	return nil
}

// Swap implements buckets.Databases.
func (s *Store) Swap(ctx context.Context, now int64, a, b int) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if max(a, b) >= s.Databases() || min(a, b) < 0 {
		return buckets.ErrNoDatabase
	}
	if a == b {
		return nil
	}
	defer s.lockAllShards()()
	s.beforeDatabaseChange(1, func(c *databaseChanges) { c.swap(a, b) })
	for i := range s.shards {
		s.shards[i].swap(now, a, b)
		s.shards[i].selectDatabase(s.db)
	}
	s.shards[0].changes++ // or nobody would know that there is something to save
	return nil
}

// swap swaps two databases. The watches stay where they are, and those of a key that exists in either database are
// notified. It leaves the selection undefined.
func (s *shard) swap(now int64, a, b int) {
	now = s.advance(now)
	if s.databaseOf(a) == nil && s.databaseOf(b) == nil {
		return
	}
	var at [2]*database
	for i, n := range [2]int{a, b} {
		s.selectDatabase(int32(n))
		s.keepSelected()
		at[i] = s.table
	}
	for i, t := range at {
		for key := range t.watches {
			s.touchBySwap(t, at[1-i], key, now)
		}
	}
	*at[0], *at[1] = *at[1], *at[0]
	at[0].watches, at[1].watches = at[1].watches, at[0].watches
	s.dropIfEmpty(a) // at once: a swap concerns all shards, and few may have keys of either database
	s.dropIfEmpty(b)
}

// touchBySwap notifies the watches of a key in t if the key exists in t or in the database that replaces t. A key that has
// expired there does not exist, and is removed, so that it is not taken for one that expires later.
func (s *shard) touchBySwap(t, replaces *database, key string, now int64) {
	exists := false
	for _, in := range [2]*database{t, replaces} {
		s.within(in, func() {
			_, kind := s.findLive(in.hash([]byte(key)), []byte(key), now)
			exists = exists || kind != buckets.None
		})
	}
	if exists {
		s.within(t, func() { s.notifyWatches([]byte(key)) })
	}
}

// Move moves a key, with its state and its deadline, to another database. It reports whether it has: it does not if the
// key does not exist, or exists there. It returns buckets.ErrNoDatabase if there is no such database.
func (s *Store) Move(now int64, key []byte, db int) (bool, error) {
	if db < 0 || db >= s.Databases() {
		return false, buckets.ErrNoDatabase
	}
	hash, sh := s.lockKey(key)
	defer s.unlockShard(sh)
	now = sh.advance(now)
	place, kind := sh.findLive(hash, key, now)
	if kind == buckets.None || int32(db) == s.db {
		return false, nil
	}
	var moved state
	moved.detach(&sh.found)
	deadline := sh.table.deadline(place)

	sh.selectDatabase(int32(db))
	defer sh.selectDatabase(s.db)
	if _, kind := sh.findLive(hash, key, now); kind != buckets.None {
		return false, nil
	}
	place = sh.insert(hash, key, &moved)
	if deadline != 0 {
		sh.setDeadline(place, deadline)
	}
	sh.markDirty(place)

	sh.selectDatabase(s.db)
	sh.deleteRecord(sh.table.find(hash, key))
	return true, nil
}

// detach makes st a copy of a state that a shard has found, to be inserted under another name.
func (st *state) detach(from *state) {
	*st = *from
	if st.Kind.Words() == 0 {
		st.ring.memory = bytes.Clone(from.ring.memory)
		st.Log = &st.ring
		st.ring.unreported = allUnreported // the journal has none of the records under the new name
	}
}
