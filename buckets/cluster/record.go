package cluster

import (
	"encoding/binary"
	"time"

	"cellserver/buckets"
)

// record is what a key holds: a state, and the deadline that EXPIRE has set. The zero record is no key.
type record struct {
	state    buckets.State
	deadline int64 // nanoseconds of Unix time, before the time at which the state is full; 0 is none
}

// The value of a key in the engine is an entry of the snapshot format without its key: the code of the kind, in which the
// highest bit says that there is a deadline; the deadline; the state. persistence/FORMAT.md specifies the parts. An empty
// value is no key: it stands for a key that was deleted, until the engine expires it.

// hasDeadline is the bit of the first byte that says that a deadline follows.
const hasDeadline = 0x80

// appendValue appends the value of a record at now. It appends nothing for a record that is no key, or has expired.
func (r *record) appendValue(dst []byte, now int64) []byte {
	if !r.lives(now) {
		return dst
	}
	code := r.state.Kind.Code()
	if r.deadline == 0 {
		return r.state.AppendBody(append(dst, code))
	}
	dst = binary.LittleEndian.AppendUint64(append(dst, code|hasDeadline), uint64(r.deadline))
	return r.state.AppendBody(dst)
}

// parse reads a value. It accepts exactly what appendValue appends; the value of a server is not trusted. After an error, which
// is buckets.ErrForeignValue, the record is no key.
func (r *record) parse(value []byte) error {
	*r = record{}
	if len(value) == 0 {
		return nil
	}
	read := record{}
	if value[0]&hasDeadline != 0 {
		d := buckets.Decoder{Src: value, At: 1}
		read.deadline = d.Int64()
		if d.Flaw != "" || read.deadline <= 0 {
			return buckets.ErrForeignValue
		}
		// UnmarshalBinary wants the code directly before the state.
		value = append([]byte{value[0] &^ hasDeadline}, value[d.At:]...)
	}
	if read.state.UnmarshalBinary(value) != nil {
		return buckets.ErrForeignValue
	}
	full := read.state.FullAt()
	if full <= 0 || read.deadline != 0 && (read.deadline >= full || read.state.Kind.KeepsExpiry()) {
		return buckets.ErrForeignValue
	}
	*r = read
	return nil
}

// expiry returns when the key expires, in nanoseconds of Unix time; 0 for no key.
func (r *record) expiry() int64 {
	full := r.state.FullAt()
	if r.deadline != 0 {
		return min(full, r.deadline)
	}
	return full
}

// lives reports whether the record is a key at now.
func (r *record) lives(now int64) bool { return r.state.Kind != buckets.None && r.expiry() > now }

// maxSkew is how much later than now a state may be because the clock of the cellserver that wrote it is ahead. A state
// that is later than that was written before the engine's clock was set back.
const maxSkew = int64(time.Second)

// load makes the record what it is at now: no key if it has expired. It returns the time to decide at, which is later than
// now if the record was decided at a later time: the time of a key does not go back.
func (r *record) load(now int64) int64 {
	if r.state.Kind != buckets.None && r.state.Ahead(now) {
		if last := r.last(); last-now <= maxSkew {
			now = last
		} else {
			r.state.Clamp(now)
			r.store(r.state, r.deadline, now)
		}
	}
	if !r.lives(now) {
		*r = record{}
	}
	return now
}

// last returns the latest time that the state speaks of as past. It requires a state that may be Ahead.
func (r *record) last() int64 {
	if log := r.state.Log; log != nil {
		return log.Time(log.Len() - 1)
	}
	return r.state.Window().Start
}

// store sets what the key holds from now on.
func (r *record) store(state buckets.State, deadline, now int64) {
	*r = record{state, deadline}
	switch full := r.state.FullAt(); { // not of state, which would be moved to the heap
	case r.state.Kind == buckets.None || full <= now:
		*r = record{}
	case deadline >= full:
		r.deadline = 0
	}
}

// timeFor returns the time at which a request of l is decided: now, or later. A TAT that is further away than a bucket of l is large
// was most likely left by another cellserver, whose clock is a little ahead: then the time is the one at which the bucket was emptied.
// If the TAT were cut at now, as that of a larger limit is, each look at an empty bucket from here would give back what the clocks
// differ by, and the server whose clock is ahead would take it. The price is that what is left of a larger limit is paid off first
// if that takes less than maxSkew.
func (r *record) timeFor(l *buckets.Limit, now int64) int64 {
	if r.state.Kind != buckets.Throttle || l.Kind() != buckets.Throttle {
		return now
	}
	if ahead := r.state.FullAt() - l.FullAfter(now, l.Max()); ahead > 0 && ahead <= maxSkew {
		return now + ahead
	}
	return now
}
