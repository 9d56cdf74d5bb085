package buckets

import "encoding/binary"

// A record, padded to units of four bytes, is
//
//	kind and flags        1 byte, not 0
//	length of the key     1 to 3 bytes (uvarint)
//	key
//	state                 8 bytes of TAT; 24 of window; or a sliding log (see slidingLog)

const (
	kindMask     = 0x0f
	deadlineFlag = 0x80 // it has a deadline, which stands in a table of its own
	dirtyFlag    = 0x40 // that it has changed is noted (Track)

	shortKey = 0x80 // keys below this length have one byte of it
)

// keyOf returns the key of a record, which may be followed by anything.
func keyOf(r []byte) []byte {
	if size := int(r[1]); size < shortKey {
		return r[2 : 2+size]
	}
	size, width := binary.Uvarint(r[1:])
	return r[1+width:][:size]
}

// is reports whether a record is that of key.
func is(r, key []byte) bool {
	if size := len(key); size < shortKey {
		return int(r[1]) == size && string(r[2:2+size]) == string(key)
	}
	return int(r[1]) >= shortKey && string(keyOf(r)) == string(key)
}

// split returns the parts of a record.
func split(r []byte) (kind Kind, key, state []byte) {
	kind, key = Kind(r[0]&kindMask), keyOf(r)
	state = r[1+lengthBytes(len(key))+len(key):]
	switch kind {
	case Throttle:
		return kind, key, state[:8]
	case Window:
		return kind, key, state[:24]
	}
	return kind, key, state[:logBytesOf(state)]
}

// lengthBytes is how many bytes the length of a key takes.
func lengthBytes(size int) (n int) {
	for n = 1; size >= 0x80; size >>= 7 {
		n++
	}
	return n
}

// stateBytes returns how many bytes of a record a state takes.
func stateBytes(kind Kind, st *state) int {
	switch kind {
	case Throttle:
		return 8
	case Window:
		return 24
	}
	return len(st.log.memory)
}

// recordUnits returns how many units are allocated for a record.
func recordUnits(keyBytes, stateBytes int) int {
	return rounded((1 + lengthBytes(keyBytes) + keyBytes + stateBytes + unit - 1) / unit)
}

// unitsOf returns how many units the record or piece takes that begins here.
func unitsOf(r []byte) int {
	if r[0] == 0 {
		return pieceUnits(r)
	}
	_, key, state := split(r)
	return recordUnits(len(key), len(state))
}

// write makes the record of key, for which there is room.
func write(r, key []byte, kind Kind, flags byte, st *state) {
	r[0] = byte(kind) | flags
	n := 1 + binary.PutUvarint(r[1:], uint64(len(key)))
	n += copy(r[n:], key)
	if kind == Slide {
		copy(r[n:], st.log.memory)
	}
	put(kind, r[n:], st)
}

// put writes a state over the one of its size that is there. Of a log it writes the head; the rest is where it should be.
func put(kind Kind, b []byte, st *state) {
	switch kind {
	case Throttle:
		binary.LittleEndian.PutUint64(b, uint64(st.tat))
	case Window:
		putWindow(b, st.window)
	case Slide:
		st.log.putHead(b)
	}
}

// get reads a state. A log is read where it is.
func get(kind Kind, b []byte, st *state) {
	switch kind {
	case Throttle:
		st.tat = int64(binary.LittleEndian.Uint64(b))
	case Window:
		st.window = getWindow(b)
	case Slide:
		st.log.getHead(b)
	}
}

func putWindow(b []byte, w WindowState) {
	_ = b[23]
	binary.LittleEndian.PutUint64(b, uint64(w.Start))
	binary.LittleEndian.PutUint64(b[8:], uint64(w.End))
	binary.LittleEndian.PutUint64(b[16:], uint64(w.Used))
}

func getWindow(b []byte) WindowState {
	_ = b[23]
	return WindowState{
		Start: int64(binary.LittleEndian.Uint64(b)),
		End:   int64(binary.LittleEndian.Uint64(b[8:])),
		Used:  int64(binary.LittleEndian.Uint64(b[16:])),
	}
}
