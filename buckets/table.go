package buckets

import (
	"encoding/binary"
	"math/bits"
)

// table is the memory of one shard: records in one byte arena, and an index of where they are. Neither holds a Go
// pointer, so the garbage collector has nothing to follow however many keys there are.
//
// The index is a hash table with linear probing, a power of two long. A slot holds the tag of a key, the upper half of
// its hash, above the place of its record; 0 is an empty slot. The home of a tag is its upper bits, so the slots are
// nearly in the order of the tags, whatever the length: Scan relies on it.
//
// A record, padded to units of four bytes, is
//
//	kind, and whether it has a deadline    1 byte
//	length of the key                      1 to 3 bytes (uvarint)
//	state                                  8 bytes of TAT, or 24 of window, or 4 of the log's number
//	key
type table struct {
	// What every request touches comes first, so that it shares cache lines.
	index []uint64
	arena []byte // its first unit is never used, so that no place is 0
	shift uint8  // a tag's home is tag >> shift
	count int    // records
	moves uint32 // how often slots have got other contents: what was found since the last of them is still there

	// deadlines holds the rare EXPIRE deadlines, so that they cost nothing to the keys that have none.
	deadlines map[string]int64

	logs     []*slidingLog
	freeLogs []uint32 // numbers in logs that are nobody's
	logBytes int

	spare int                 // bytes of free records
	free  [freeClasses]uint32 // places of free records by their units, each holding the next
}

const (
	unit          = 4
	freeClasses   = 64 // larger free records wait for the next compaction
	smallestIndex = 8
	smallestArena = 64

	kindMask     = 0x0f
	deadlineFlag = 0x80
)

// tagOf is the part of a hash that the index uses; the shard was chosen by the lower part.
func tagOf(hash uint64) uint32 { return uint32(hash >> 32) }

func slotOf(tag, place uint32) uint64 { return uint64(tag)<<32 | uint64(place) }

func (t *table) home(tag uint32) int { return int(tag >> t.shift) }

// next returns the slot after i.
func (t *table) next(i int) int { return (i + 1) & (len(t.index) - 1) }

// find returns the slot of key.
func (t *table) find(hash uint64, key []byte) (slot int, ok bool) {
	if len(t.index) == 0 {
		return 0, false
	}
	tag := tagOf(hash)
	for i := t.home(tag); ; i = t.next(i) {
		s := t.index[i]
		if s == 0 {
			return 0, false
		}
		if uint32(s>>32) == tag && string(t.key(i)) == string(key) {
			return i, true
		}
	}
}

// touch reads where the key of hash is probably found, for nothing but to have it near. What several finds wait for, one
// after the other, they wait for together when all of it has been touched before.
func (t *table) touch(hash uint64) byte {
	if len(t.index) == 0 {
		return 0
	}
	return t.arena[int(uint32(t.index[t.home(tagOf(hash))]))*unit]
}

// record returns the record of a slot, to its end or beyond.
func (t *table) record(slot int) []byte { return t.arena[int(uint32(t.index[slot]))*unit:] }

// split returns the parts of a record.
func split(r []byte) (kind Kind, state, key []byte) {
	kind = Kind(r[0] & kindMask)
	size, head := int(r[1]), 2
	if size >= 0x80 {
		n, width := binary.Uvarint(r[1:])
		size, head = int(n), 1+width
	}
	after := head + stateBytes[kind]
	return kind, r[head:after], r[after : after+size]
}

// stateBytes is how much of a record is state, by kind.
var stateBytes = [kindMask + 1]int{Throttle: 8, Window: 24, Slide: 4}

func (t *table) key(slot int) []byte {
	_, _, key := split(t.record(slot))
	return key
}

// load reads the state of a slot.
func (t *table) load(slot int, st *state) Kind {
	kind, b, _ := split(t.record(slot))
	switch kind {
	case Throttle:
		st.tat = int64(binary.LittleEndian.Uint64(b))
	case Window:
		st.window.Start = int64(binary.LittleEndian.Uint64(b))
		st.window.End = int64(binary.LittleEndian.Uint64(b[8:]))
		st.window.Used = int64(binary.LittleEndian.Uint64(b[16:]))
	case Slide:
		st.log = t.logs[binary.LittleEndian.Uint32(b)]
	}
	return kind
}

// save writes the state of a slot. A log is changed where it is; only its number stands in the record.
func (t *table) save(slot int, st *state) {
	kind, b, _ := split(t.record(slot))
	put(kind, b, st)
}

func put(kind Kind, b []byte, st *state) {
	switch kind {
	case Throttle:
		binary.LittleEndian.PutUint64(b, uint64(st.tat))
	case Window:
		binary.LittleEndian.PutUint64(b, uint64(st.window.Start))
		binary.LittleEndian.PutUint64(b[8:], uint64(st.window.End))
		binary.LittleEndian.PutUint64(b[16:], uint64(st.window.Used))
	}
}

// insert adds a record and returns its slot. There must be none of that key.
func (t *table) insert(hash uint64, key []byte, kind Kind, st *state) int {
	if 4*(t.count+1) > 3*len(t.index) {
		t.resize(max(smallestIndex, 2*len(t.index)))
	}
	var head [4]byte
	head[0] = byte(kind)
	n := 1 + binary.PutUvarint(head[1:], uint64(len(key)))
	place := t.allocate(n + stateBytes[kind] + len(key))
	r := t.arena[int(place)*unit:]
	copy(r, head[:n])
	copy(r[n+stateBytes[kind]:], key)
	body := r[n : n+stateBytes[kind]]
	if kind == Slide {
		binary.LittleEndian.PutUint32(body, t.addLog(st.log))
	} else {
		put(kind, body, st)
	}
	t.count++
	return t.point(slotOf(tagOf(hash), place))
}

// point puts a slot's content where it is looked for.
func (t *table) point(s uint64) int {
	t.moves++
	i := t.home(uint32(s >> 32))
	for t.index[i] != 0 {
		i = t.next(i)
	}
	t.index[i] = s
	return i
}

// remove forgets the record of a slot. Another one may stand in that slot afterwards.
func (t *table) remove(slot int) {
	r := t.record(slot)
	kind, body, key := split(r)
	if r[0]&deadlineFlag != 0 {
		delete(t.deadlines, string(key))
	}
	if kind == Slide {
		t.removeLog(binary.LittleEndian.Uint32(body))
	}
	t.release(uint32(t.index[slot]), units(r))
	t.unpoint(slot)
	t.count--
	switch {
	case t.count == 0:
		*t = table{moves: t.moves}
	case len(t.index) > smallestIndex && 8*t.count < len(t.index):
		t.resize(len(t.index) / 2)
	}
	if t.spare > smallestArena && 2*t.spare > len(t.arena) {
		t.compact(0)
	}
}

// unpoint empties a slot, and moves what was pushed past it back to where it is looked for.
func (t *table) unpoint(i int) {
	t.moves++
	mask := len(t.index) - 1
	for j := t.next(i); t.index[j] != 0; j = t.next(j) {
		if home := t.home(uint32(t.index[j] >> 32)); (j-home)&mask >= (j-i)&mask {
			t.index[i] = t.index[j]
			i = j
		}
	}
	t.index[i] = 0
}

// resize makes an index of n slots.
func (t *table) resize(n int) {
	old := t.index
	t.index = make([]uint64, n)
	t.shift = uint8(32 - bits.TrailingZeros(uint(n)))
	for _, s := range old {
		if s != 0 {
			t.point(s)
		}
	}
}

// units is how many units a record takes.
func units(r []byte) int {
	_, state, key := split(r)
	head := 2
	if len(key) >= 0x80 {
		head += uvarintMore(len(key))
	}
	return (head + len(state) + len(key) + unit - 1) / unit
}

func uvarintMore(n int) int {
	var b [binary.MaxVarintLen64]byte
	return binary.PutUvarint(b[:], uint64(n)) - 1
}

// allocate returns the place of room for a record of size bytes: one that was freed, or at the end of the arena.
func (t *table) allocate(size int) uint32 {
	n := (size + unit - 1) / unit
	if n < freeClasses && t.free[n] != 0 {
		place := t.free[n]
		t.free[n] = binary.LittleEndian.Uint32(t.arena[int(place)*unit:])
		t.spare -= n * unit
		return place
	}
	if len(t.arena) == 0 {
		t.arena = make([]byte, unit, smallestArena)
	}
	at := len(t.arena)
	t.arena = extend(t.arena, n*unit)
	return uint32(at / unit)
}

// growth returns how many bytes adding a record would allocate.
func (t *table) growth(kind Kind, keyBytes int) (bytes int) {
	if 4*(t.count+1) > 3*len(t.index) {
		bytes = 8 * max(smallestIndex, len(t.index))
	}
	n := (1 + 1 + uvarintMore(keyBytes) + stateBytes[kind] + keyBytes + unit - 1) / unit
	if n < freeClasses && t.free[n] != 0 {
		return bytes
	}
	return bytes + extended(t.arena, n*unit) - cap(t.arena)
}

// extend lengthens b by n bytes.
func extend(b []byte, n int) []byte {
	if size := extended(b, n); size > cap(b) {
		bigger := make([]byte, len(b), size)
		copy(bigger, b)
		b = bigger
	}
	return b[:len(b)+n]
}

// extended returns what the capacity of b is when it is n bytes longer. A large one grows by a quarter when it must, so
// that little of it lies idle.
func extended(b []byte, n int) int {
	if len(b)+n <= cap(b) {
		return cap(b)
	}
	more := cap(b)
	if more > 4096 {
		more /= 4
	}
	return max(len(b)+n, cap(b)+more)
}

// release keeps the room of a record for one of the same size.
func (t *table) release(place uint32, n int) {
	t.spare += n * unit
	if n < freeClasses {
		binary.LittleEndian.PutUint32(t.arena[int(place)*unit:], t.free[n])
		t.free[n] = place
	}
}

// compact moves the records into an arena whose free room is all at its end: none, or what makes it as large as most.
func (t *table) compact(most int) {
	arena := make([]byte, unit, max(most, len(t.arena)-t.spare))
	for i, s := range t.index {
		if s == 0 {
			continue
		}
		r := t.record(i)
		t.index[i] = slotOf(uint32(s>>32), uint32(len(arena)/unit))
		arena = append(arena, r[:units(r)*unit]...)
	}
	t.arena, t.spare, t.free = arena, 0, [freeClasses]uint32{}
}

func (t *table) addLog(g *slidingLog) uint32 {
	t.logBytes += g.bytes()
	if n := len(t.freeLogs); n > 0 {
		number := t.freeLogs[n-1]
		t.freeLogs = t.freeLogs[:n-1]
		t.logs[number] = g
		return number
	}
	t.logs = append(t.logs, g)
	return uint32(len(t.logs) - 1)
}

func (t *table) removeLog(number uint32) {
	t.logBytes -= t.logs[number].bytes()
	t.logs[number] = nil
	t.freeLogs = append(t.freeLogs, number)
}

// deadline returns the deadline of a slot, or 0.
func (t *table) deadline(slot int) int64 {
	if t.record(slot)[0]&deadlineFlag == 0 {
		return 0
	}
	return t.deadlines[string(t.key(slot))]
}

// setDeadline sets the deadline of a slot, or removes it when at is 0.
func (t *table) setDeadline(slot int, at int64) {
	r := t.record(slot)
	if at == 0 {
		r[0] &^= deadlineFlag
		delete(t.deadlines, string(t.key(slot)))
		return
	}
	if t.deadlines == nil {
		t.deadlines = make(map[string]int64)
	}
	r[0] |= deadlineFlag
	t.deadlines[string(t.key(slot))] = at
}

// bytes returns what the table holds: arena, index and logs as they are allocated.
func (t *table) bytes() int { return cap(t.arena) + 8*len(t.index) + t.logBytes }
