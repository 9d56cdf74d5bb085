package memory

import (
	"hash/maphash"

	"cellserver/buckets"
)

// table is the memory of one shard: the records in an arena, and an index of their places. Neither holds a Go pointer for
// a key.
type table struct {
	count int // number of records
	index
	arena
	geometry
	moves uint32 // counts the events that change or reuse places: a place stays valid while moves is unchanged
	seed  maphash.Seed

	// deadlines holds the deadlines of EXPIRE. They are rare, and here they cost nothing for the keys that have none.
	deadlines map[string]int64

	lasting int // records of keys that never expire
}

// geometry has the sizes of blocks and slots: the usual ones, or small ones that let tests reach rare cases.
type geometry struct {
	blockShift uint8 // log2 of the units of a block
	placeBits  uint8 // minimum of index.bits; the other bits of a slot are those of the tag
}

var usual = geometry{blockShift: usualShift}

func newTable(seed maphash.Seed, g geometry) table {
	return table{arena: arena{shift: g.blockShift}, geometry: g, seed: seed}
}

func (t *table) hash(key []byte) uint64 { return maphash.Bytes(t.seed, key) }

// tag returns the tag of a record.
func (t *table) tag(r []byte) uint32 { return tagOf(t.hash(keyOf(r))) }

// find returns the place of the record of key, or 0.
func (t *table) find(hash uint64, key []byte) uint32 {
	if t.count == 0 {
		return 0
	}
	tag := tagOf(hash)
	want := tag << t.bits
	for i := t.home(tag); ; {
		s := t.slots[i]
		if place := s ^ want; place>>t.bits == 0 && s > removedSlot && is(t.at(place), key) {
			return place
		} else if s == emptySlot {
			return 0
		}
		if i++; i == len(t.slots) {
			i = 0
		}
	}
}

// prefetch reads the memory where the record of hash probably is, to load it into the cache. Calling it for several keys
// before looking them up overlaps their cache misses.
func (t *table) prefetch(hash uint64) byte {
	if t.count == 0 {
		return 0
	}
	place := t.place(t.slots[t.home(tagOf(hash))])
	if place <= removedSlot {
		return 0
	}
	return t.at(place)[0]
}

// load reads the state of a record into st.
func (t *table) load(place uint32, st *state) buckets.Kind {
	kind, _, b := split(t.at(place))
	st.get(kind, b)
	return kind
}

// save writes the state of a record and returns the place of the record, which moves if the size of its log has changed.
func (t *table) save(place uint32, st *state) uint32 {
	r := t.at(place)
	kind, key, b := split(r)
	if kind.Words() > 0 || !st.ring.moved {
		t.lasting -= lasts(kind, b)
		st.put(b)
		t.lasting += lasts(kind, b)
		return place
	}
	tag, flags, had := t.tag(r), r[0]&^kindMask, recordUnits(len(key), len(b))
	to := t.allocate(recordUnits(len(key), len(st.ring.memory)))
	write(t.at(to), key, flags, st)
	t.move(tag, place, to)
	t.release(place, had)
	t.moves++
	t.load(to, st)
	return to
}

// enlarge moves a log to a record of the given units, whose ring has room for size records, and returns its place.
func (t *table) enlarge(place, tag uint32, units, size int) uint32 {
	r := t.at(place)
	_, key, b := split(r)
	had := recordUnits(len(key), len(b))
	var g ringLog
	g.getHead(b)
	to := t.allocate(units)
	head := 1 + lengthBytes(len(key)) + len(key)
	moved := t.at(to)
	copy(moved, r[:head])
	g.copyRing(moved[head+logBytes(0, g.width, g.sums):])
	g.first, g.size = 0, size
	g.putHead(moved[head:])
	t.move(tag, place, to)
	t.release(place, had)
	t.moves++
	return to
}

// insert adds a record and returns its place. It requires that the table has no record of key.
func (t *table) insert(hash uint64, key []byte, st *state) uint32 {
	if t.overfull() {
		t.reindex(t.count + 1)
	}
	place := t.allocate(recordUnits(len(key), st.size()))
	write(t.at(place), key, 0, st)
	t.addSlot(tagOf(hash), place)
	t.count++
	if st.Kind.KeepsExpiry() && st.Expiry() == buckets.NoExpiry {
		t.lasting++
	}
	return place
}

// allocate returns a place with room for n units that fits a slot of the index. It requires that n is rounded.
func (t *table) allocate(n int) uint32 {
	if t.placeOverflows() && t.arena.growth(n) > 0 {
		t.reindex(t.count)
	}
	return t.arena.allocate(n)
}

// placeOverflows reports whether the number of the next block may not fit a slot.
func (t *table) placeOverflows() bool { return t.next()<<t.shift > 1<<t.bits }

// reindex rebuilds the index with room for this many records.
func (t *table) reindex(records int) {
	t.index.clear(records, 2*t.next()<<t.shift, t.placeBits)
	t.each(func(place uint32, r []byte) { t.addSlot(t.tag(r), place) })
}

// each visits all records.
func (t *table) each(visit func(place uint32, r []byte)) {
	for b := range t.blocks {
		t.eachInBlock(b, visit)
	}
}

// eachInBlock visits the records of block b. visit may remove the record that it is given.
func (t *table) eachInBlock(b int, visit func(place uint32, r []byte)) {
	for at := 0; b < len(t.blocks) && at < len(t.blocks[b]); {
		r := t.blocks[b][at:]
		n := unitsOf(r)
		if r[0] != 0 {
			visit(uint32(b)<<t.shift+uint32(at/unit), r)
		}
		at += n * unit
	}
}

// remove removes a record. The other records keep their places. It frees no block; see shrink and tidy.
func (t *table) remove(place uint32) {
	r := t.at(place)
	kind, key, state := split(r)
	t.lasting -= lasts(kind, state)
	if r[0]&deadlineFlag != 0 {
		delete(t.deadlines, string(key))
	}
	t.index.remove(t.tag(r), place)
	t.release(place, recordUnits(len(key), len(state)))
	t.count--
	t.moves++
}

// shrink rebuilds the index if it is far too large, and the table of blocks if most numbers are unused.
func (t *table) shrink() {
	switch {
	case t.count == 0:
		t.clear()
	case t.underfull(t.count) || len(t.vacant) > 16 && 4*len(t.vacant) > 3*len(t.blocks):
		t.renumber()
		t.reindex(t.count)
		t.moves++
	}
}

// clear removes all records and frees their memory.
func (t *table) clear() {
	moves := t.moves
	*t = newTable(t.seed, t.geometry)
	t.moves = moves + 1
}

// tidy evacuates the emptiest block if the arena is wasteful. It reports whether it did.
func (t *table) tidy() bool {
	if !t.wasteful() {
		return false
	}
	t.evacuate()
	return true
}

// evacuate moves the records of the emptiest block to others and frees the block.
func (t *table) evacuate() {
	b := t.emptiest()
	if b == 0 {
		return
	}
	// The index must not be rebuilt while records move, so rebuild it first if the number of a new block would not fit a
	// slot.
	if places := (t.next() + 1) << t.shift; places > 1<<t.bits {
		t.reindex(t.count)
	}
	t.arena.evacuate(b, func(from, to uint32) { t.move(t.tag(t.at(to)), from, to) })
	t.moves++
}

// deadline returns the deadline of a record, or 0.
func (t *table) deadline(place uint32) int64 {
	r := t.at(place)
	if r[0]&deadlineFlag == 0 {
		return 0
	}
	return t.deadlines[string(keyOf(r))]
}

// setDeadline sets the deadline of a record, or removes it when at is 0.
func (t *table) setDeadline(place uint32, at int64) {
	r := t.at(place)
	if at == 0 {
		r[0] &^= deadlineFlag
		delete(t.deadlines, string(keyOf(r)))
		return
	}
	if t.deadlines == nil {
		t.deadlines = make(map[string]int64)
	}
	r[0] |= deadlineFlag
	t.deadlines[string(keyOf(r))] = at
}

// bytes returns the allocated bytes of the table.
func (t *table) bytes() int {
	n := t.size + 4*cap(t.slots) + 24*cap(t.blocks) + 8*cap(t.lives) + 4*cap(t.vacant)
	if t.pieces != nil {
		n += 4 * classes
	}
	return n
}

// growth returns how many bytes a new record, or a new place for a record, may add. It is an upper bound: it includes
// what Go's allocator rounds up, and the tables of blocks and pieces.
func (t *table) growth(units int, added bool) int {
	bytes := t.arena.growth(units)
	if added && t.overfull() || bytes > 0 && t.placeOverflows() {
		bytes += max(0, 4*slotsFor(t.count+1)*9/8-4*cap(t.slots))
	}
	if bytes == 0 {
		return 0
	}
	return bytes + bytes/8 + 4*classes + 32*len(t.blocks)
}
