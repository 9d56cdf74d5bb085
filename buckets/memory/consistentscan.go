package memory

import (
	"maps"
	"sync"
	"sync/atomic"

	"cellserver/buckets"
)

// A consistentScan visits every shard once, locking one at a time, and yet sees each operation on several keys either
// entirely or not at all: a multi-key operation on partly visited shards first makes the scan visit the rest. Operations
// on one key need no such care.
//
// There are two kinds: the copy for a snapshot, and the collection of changes for the journal.
type consistentScan struct {
	number     uint64
	visitShard func(n int, sh *shard) // called in the goroutine that holds the lock of the shard
}

type scanKind int

const (
	copyScan scanKind = iota
	changeScan
	scanKinds
)

// consistentScans are the running scans of a Store, at most one of each kind.
type consistentScans struct {
	active  [scanKinds]atomic.Pointer[consistentScan]
	started atomic.Uint64
	mu      [scanKinds]sync.Mutex // held while a scan of the kind runs
}

// runScan runs a scan. begin publishes it, or returns false, for which runScan returns ErrSwapped; other goroutines may
// visit shards for the scan before begin returns. runScan calls after for each shard in order, with the shard unlocked,
// until after returns an error.
func (s *Store) runScan(kind scanKind, begin func(p *consistentScan) bool, visit func(n int, sh *shard), after func(n int) error) error {
	s.scans.mu[kind].Lock()
	defer s.scans.mu[kind].Unlock()
	p := &consistentScan{number: s.scans.started.Add(1), visitShard: visit}
	if !begin(p) {
		return ErrSwapped
	}
	defer s.scans.active[kind].Store(nil)
	for n := range s.shards {
		s.withShard(n, func(sh *shard) { p.visit(kind, n, sh) })
		if err := after(n); err != nil {
			return err
		}
	}
	return nil
}

// visit visits a shard unless the scan has visited it. It requires that sh.mu is held.
func (p *consistentScan) visit(kind scanKind, n int, sh *shard) {
	if sh.visitedBy[kind] != p.number {
		sh.visitedBy[kind] = p.number
		p.visitShard(n, sh)
	}
}

// completeVisit makes each running scan that has visited some of the shards, but not all, visit the rest. It must be
// called before any of the shards is changed. It requires that the shards are locked.
func (s *Store) completeVisit(shards []int32) {
	for kind := range scanKinds {
		p := s.scans.active[kind].Load()
		if p == nil {
			continue
		}
		visited := 0
		for _, n := range shards {
			if s.shards[n].visitedBy[kind] == p.number {
				visited++
			}
		}
		if visited > 0 && visited < len(shards) {
			for _, n := range shards {
				p.visit(kind, int(n), &s.shards[n])
			}
		}
	}
}

// visitAll makes a scan, if it is not nil, visit all shards. It requires that all shards are locked.
func (s *Store) visitAll(kind scanKind, p *consistentScan) {
	for n := range s.shards {
		if p != nil {
			p.visit(kind, n, &s.shards[n])
		}
	}
}

// visitedAny reports whether a scan has visited any shard. It requires that all shards are locked.
func (s *Store) visitedAny(kind scanKind, p *consistentScan) bool {
	for n := range s.shards {
		if s.shards[n].visitedBy[kind] == p.number {
			return true
		}
	}
	return false
}

// Part is a copy of a part of a store.
type Part struct {
	databases []databaseCopy
	blocks    [][]byte // of all databases
	memory    []byte   // the copied blocks
	now       int64
}

// databaseCopy is the copy of what a shard has of one database.
type databaseCopy struct {
	number    int
	blocks    int // how many of Part.blocks are of this database
	deadlines map[string]int64
}

// Each calls visit for every key that had not expired when the copy was made. The entry is valid until visit returns.
func (p *Part) Each(visit func(e *buckets.Entry)) {
	var st state
	var e buckets.Entry
	blocks := p.blocks
	for i := range p.databases {
		of := &p.databases[i]
		e.Database = of.number
		for _, block := range blocks[:of.blocks] {
			p.eachInBlock(block, of.deadlines, &e, &st, visit)
		}
		blocks = blocks[of.blocks:]
	}
}

// eachInBlock is Each for one block. e, whose Database is set, and st are scratch memory.
func (p *Part) eachInBlock(block []byte, deadlines map[string]int64, e *buckets.Entry, st *state, visit func(e *buckets.Entry)) {
	for at := 0; at < len(block); {
		r := block[at:]
		at += unitsOf(r) * unit
		if r[0] == 0 {
			continue
		}
		deadline := int64(0)
		if r[0]&deadlineFlag != 0 {
			deadline = deadlines[string(keyOf(r))]
		}
		if full := fill(e, r, deadline, st); full > p.now && (deadline == 0 || deadline > p.now) {
			visit(e)
		}
	}
}

// fill sets e, except for its Database, to the contents of a record and returns when its bucket is full. st is the memory
// of the state.
func fill(e *buckets.Entry, r []byte, deadline int64, st *state) int64 {
	kind, key, body := split(r)
	st.get(kind, body)
	*e = buckets.Entry{Database: e.Database, Key: key, Deadline: deadline, State: st.State}
	return st.FullAt()
}

// Copy copies the store, locking one shard at a time, and calls visit with each part. An operation on several keys is in
// the copy entirely or not at all. A part is valid until visit returns. An error of visit ends the copy, and Copy returns
// it.
func (s *Store) Copy(now int64, visit func(p *Part) error) error {
	return s.copy(now, func(p *consistentScan) bool {
		s.scans.active[copyScan].Store(p)
		return true
	}, visit)
}

// ErrSwapped is returned by CopySince. Nothing has been copied.
const ErrSwapped = buckets.Error("databases were swapped meanwhile")

// Swaps returns how often databases have been swapped.
func (s *Store) Swaps() uint64 { return s.feed.swaps.Load() }

// CopySince is Copy, unless databases have been swapped since Swaps returned swaps: then it returns ErrSwapped. A reader of
// Changes that starts from a copy needs it. Applying changes to a copy that has them already does no harm, except for a swap.
// So it calls Swaps, discards Changes, and calls CopySince: no swap that the copy has is in later changes.
func (s *Store) CopySince(now int64, swaps uint64, visit func(p *Part) error) error {
	return s.copy(now, func(p *consistentScan) bool {
		s.feed.mu.Lock() // no swap is between noting that it happens and looking for this scan
		defer s.feed.mu.Unlock()
		if s.Swaps() != swaps {
			return false
		}
		s.scans.active[copyScan].Store(p)
		return true
	}, visit)
}

// copy is Copy. begin publishes the scan, or reports that there is to be none.
func (s *Store) copy(now int64, begin func(p *consistentScan) bool, visit func(p *Part) error) error {
	var mu sync.Mutex
	parts := make(map[int]*Part) // parts of shards that are copied ahead of their turn, and the current part
	var spare *Part
	return s.runScan(copyScan, begin, func(n int, sh *shard) {
		mu.Lock()
		part := spare
		spare = nil
		mu.Unlock()
		if part == nil {
			part = new(Part)
		}
		sh.copyTo(part, now)
		mu.Lock()
		parts[n] = part
		mu.Unlock()
	}, func(n int) error {
		mu.Lock()
		part := parts[n]
		delete(parts, n)
		mu.Unlock()
		err := visit(part)
		mu.Lock()
		spare = part
		mu.Unlock()
		return err
	})
}

// copyTo copies the shard to part, and reuses the memory of part if it is large enough.
func (s *shard) copyTo(part *Part, now int64) {
	size := 0
	for _, of := range s.eachDatabase() {
		for _, block := range of.blocks {
			size += len(block)
		}
	}
	if cap(part.memory) < size {
		part.memory = make([]byte, 0, size+size/8)
	}
	part.memory, part.blocks, part.databases = part.memory[:0], part.blocks[:0], part.databases[:0]
	for number, of := range s.eachDatabase() {
		for _, block := range of.blocks {
			from := len(part.memory)
			part.memory = append(part.memory, block...)
			part.blocks = append(part.blocks, part.memory[from:])
		}
		part.databases = append(part.databases, databaseCopy{number, len(of.blocks), maps.Clone(of.deadlines)})
	}
	part.now = max(now, s.latest)
}
