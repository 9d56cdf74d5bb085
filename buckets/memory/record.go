package memory

import (
	"encoding/binary"

	"cellserver/buckets"
)

// A record, padded to units of four bytes, is
//
//	kind and flags        1 byte, not 0
//	length of the key     1 to 3 bytes (uvarint)
//	key
//	state                 8 bytes of TAT; 24 of window; or a sliding log (see ringLog)

const (
	kindMask     = 0x0f
	deadlineFlag = 0x80 // it has a deadline, which stands in a table of its own
	dirtyFlag    = 0x40 // its key is among the changed ones (Track)

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
func split(r []byte) (kind buckets.Kind, key, state []byte) {
	kind, key = buckets.Kind(r[0]&kindMask), keyOf(r)
	state = r[1+lengthBytes(len(key))+len(key):]
	if n := kind.Words(); n > 0 {
		return kind, key, state[:8*n]
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
func write(r, key []byte, flags byte, st *state) {
	r[0] = byte(st.Kind) | flags
	n := 1 + binary.PutUvarint(r[1:], uint64(len(key)))
	n += copy(r[n:], key)
	if st.Kind.Words() == 0 {
		copy(r[n:], st.ring.memory)
	}
	st.put(r[n:])
}

func putWindow(b []byte, w buckets.WindowState) {
	_ = b[23]
	binary.LittleEndian.PutUint64(b, uint64(w.Start))
	binary.LittleEndian.PutUint64(b[8:], uint64(w.End))
	binary.LittleEndian.PutUint64(b[16:], uint64(w.Used))
}

func getWindow(b []byte) buckets.WindowState {
	_ = b[23]
	return buckets.WindowState{
		Start: int64(binary.LittleEndian.Uint64(b)),
		End:   int64(binary.LittleEndian.Uint64(b[8:])),
		Used:  int64(binary.LittleEndian.Uint64(b[16:])),
	}
}
