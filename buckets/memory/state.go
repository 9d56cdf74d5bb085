package memory

import (
	"encoding/binary"

	"cellserver/buckets"
)

// state is the state of a key in a form that a shard works on. For a kind with a log, State.Log is ring, which reads the
// record in place.
type state struct {
	buckets.State
	ring ringLog
}

// get reads the state of a record of the given kind from b. A log keeps b as its memory.
func (st *state) get(kind buckets.Kind, b []byte) {
	st.Kind, st.Words = kind, [buckets.MaxWords]int64{}
	n := kind.Words()
	if n == 0 {
		st.ring.getHead(b)
		st.Log = &st.ring
		return
	}
	st.Log = nil
	for i := range n {
		st.Words[i] = int64(binary.LittleEndian.Uint64(b[8*i:]))
	}
}

// put writes the state to b, which must have its size. Of a log it writes the head only; the ring is in place.
func (st *state) put(b []byte) {
	n := st.Kind.Words()
	if n == 0 {
		st.ring.putHead(b)
		return
	}
	for i := range n {
		binary.LittleEndian.PutUint64(b[8*i:], uint64(st.Words[i]))
	}
}

// size returns how many bytes of a record the state takes.
func (st *state) size() int {
	if n := st.Kind.Words(); n > 0 {
		return 8 * n
	}
	return len(st.ring.memory)
}

// copyFrom makes st a copy of from that shares no memory with it.
func (st *state) copyFrom(from *buckets.State) {
	*st = state{State: *from}
	if from.Kind.Words() == 0 && from.Kind != buckets.None {
		st.ring.restore(from.Log)
		st.Log = &st.ring
	}
}
