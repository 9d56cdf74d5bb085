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
//	state                 8 bytes of TAT; 24 of window; 16 of counter; or a sliding log (see ringLog)

const (
	kindMask     = 0x0f
	deadlineFlag = 0x80 // the key has a deadline, which is in table.deadlines
	dirtyFlag    = 0x40 // the key is listed in shard.dirty

	shortKey = 0x80 // the length of a key below this takes one byte
)

// keyOf returns the key of the record at the beginning of r.
func keyOf(r []byte) []byte {
	if size := int(r[1]); size < shortKey {
		return r[2 : 2+size]
	}
	size, width := binary.Uvarint(r[1:])
	return r[1+width:][:size]
}

// is reports whether r begins with the record of key.
func is(r, key []byte) bool {
	if size := len(key); size < shortKey {
		return int(r[1]) == size && string(r[2:2+size]) == string(key)
	}
	return int(r[1]) >= shortKey && string(keyOf(r)) == string(key)
}

// split returns the parts of the record at the beginning of r.
func split(r []byte) (kind buckets.Kind, key, state []byte) {
	kind, key = buckets.Kind(r[0]&kindMask), keyOf(r)
	state = r[1+lengthBytes(len(key))+len(key):]
	if n := kind.Words(); n > 0 {
		return kind, key, state[:8*n]
	}
	return kind, key, state[:logBytesOf(state)]
}

// lasts returns 1 if the state in a record of the given kind says that its key never expires, and 0 otherwise.
func lasts(kind buckets.Kind, state []byte) int {
	if kind.KeepsExpiry() && int64(binary.LittleEndian.Uint64(state[8:])) == buckets.NoExpiry {
		return 1
	}
	return 0
}

// lengthBytes returns how many bytes the length of a key takes.
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

// unitsOf returns how many units the record or free piece at the beginning of r takes.
func unitsOf(r []byte) int {
	if r[0] == 0 {
		return pieceUnits(r)
	}
	_, key, state := split(r)
	return recordUnits(len(key), len(state))
}

// write writes the record of key to r, which must have room for it.
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
