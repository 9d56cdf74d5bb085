package memory

import (
	"hash/maphash"

	"cellserver/buckets"
)

// table is the memory of one shard: records in an arena, and an index of where they are. Neither holds a Go pointer for
// a key.
type table struct {
	count int // records
	index
	arena
	geometry
	moves uint32 // how often a place has come to mean something else: what was found since the last of them is still there
	seed  maphash.Seed

	// deadlines holds the rare EXPIRE deadlines, so that they cost nothing to the keys that have none.
	deadlines map[string]int64
}

// geometry is how large things are: the usual one, or one that makes tests meet what is rare.
type geometry struct {
	blockShift uint8 // units of a block, as a power of two
	placeBits  uint8 // bits of a slot that are a place, at least: what is left of a tag tells keys apart before their records do
}

var usual = geometry{blockShift: usualShift}

func newTable(seed maphash.Seed, g geometry) table {
	return table{arena: arena{shift: g.blockShift}, geometry: g, seed: seed}
}

func (t *table) hash(key []byte) uint64 { return maphash.Bytes(t.seed, key) }

// tag returns the tag of a record.
func (t *table) tag(r []byte) uint32 { return tagOf(t.hash(keyOf(r))) }

// find returns the place of key's record, or 0.
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

// prefetch reads the memory where the record of hash probably is, so that the cache has it. Calling it for several keys
// before they are looked up lets their memory accesses overlap.
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

// load reads the state of a record.
func (t *table) load(place uint32, st *state) buckets.Kind {
	kind, _, b := split(t.at(place))
	st.get(kind, b)
	return kind
}

// save writes the state of a record, which moves if its log has got another size. It returns where it is then.
func (t *table) save(place uint32, st *state) uint32 {
	r := t.at(place)
	kind, key, b := split(r)
	if kind.Words() > 0 || !st.ring.moved {
		st.put(b)
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

// enlarge moves a log to a record of so many units, with room for size records, and returns where it is then.
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

// insert adds a record and returns its place. There must be none of that key.
func (t *table) insert(hash uint64, key []byte, st *state) uint32 {
	if t.overfull() {
		t.reindex(t.count + 1)
	}
	place := t.allocate(recordUnits(len(key), st.size()))
	write(t.at(place), key, 0, st)
	t.addSlot(tagOf(hash), place)
	t.count++
	return place
}

// allocate returns room for n units, rounded, at a place that the index can hold.
func (t *table) allocate(n int) uint32 {
	if t.placeOverflows() && t.arena.growth(n) > 0 {
		t.reindex(t.count)
	}
	return t.arena.allocate(n)
}

// placeOverflows reports whether the next block may have a number that does not fit a slot.
func (t *table) placeOverflows() bool { return t.next()<<t.shift > 1<<t.bits }

// reindex rebuilds the index for so many records.
func (t *table) reindex(records int) {
	t.index.clear(records, 2*t.next()<<t.shift, t.placeBits)
	t.each(func(place uint32, r []byte) { t.addSlot(t.tag(r), place) })
}

// each visits all records.
func (t *table) each(visit func(place uint32, r []byte)) {
	for b := range t.blocks {
		t.in(b, visit)
	}
}

// in visits the records of a block. visit may remove the one it is given.
func (t *table) in(b int, visit func(place uint32, r []byte)) {
	for at := 0; b < len(t.blocks) && at < len(t.blocks[b]); {
		r := t.blocks[b][at:]
		n := unitsOf(r)
		if r[0] != 0 {
			visit(uint32(b)<<t.shift+uint32(at/unit), r)
		}
		at += n * unit
	}
}

// remove removes a record. The others keep their places, and no memory is given back: see shrink and tidy.
func (t *table) remove(place uint32) {
	r := t.at(place)
	_, key, state := split(r)
	if r[0]&deadlineFlag != 0 {
		delete(t.deadlines, string(key))
	}
	t.index.remove(t.tag(r), place)
	t.release(place, recordUnits(len(key), len(state)))
	t.count--
	t.moves++
}

// shrink makes the index anew if it has become far too large, and the table of the blocks.
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

// clear forgets everything.
func (t *table) clear() {
	moves := t.moves
	*t = newTable(t.seed, t.geometry)
	t.moves = moves + 1
}

// tidy gives a block back if many are mostly free, after moving what is left in the emptiest. It reports whether it did.
func (t *table) tidy() bool {
	if !t.wasteful() {
		return false
	}
	t.evacuate()
	return true
}

// evacuate moves what is left in the emptiest block elsewhere and gives it back.
func (t *table) evacuate() {
	b := t.emptiest()
	if b == 0 {
		return
	}
	// While records move the index must not be made anew, so it is now if a block that is added had no number in it.
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

// bytes returns what the table holds, as it is allocated.
func (t *table) bytes() int {
	n := t.size + 4*cap(t.slots) + 24*cap(t.blocks) + 8*cap(t.lives) + 4*cap(t.vacant)
	if t.pieces != nil {
		n += 4 * classes
	}
	return n
}

// growth returns how many bytes adding a record, or giving it another place, would add: rather too many than too few, for
// what Go's allocator rounds up and for the tables of blocks and pieces.
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
