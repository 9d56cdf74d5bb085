package buckets

import (
	"encoding/binary"
	"math"
)

// The fixed window: at most limit per window of period.
//
// A window opens with the first admission of a positive quantity and ends one period later; the next admission opens
// the next. Aligned windows lie on the calendar instead: the one asked for starts at
//
//	floor((now - offset) / period) * period + offset
//
// Asked with another period than it was stored with, an open window ends at its start plus the period asked, but never
// later than it was stored to end: the smaller of the two is in force, and the next admission stores it. Under ALIGN
// the stored count carries over when the stored start lies in the window asked. A start later than now (the clock was
// set back across a restart) counts as now, so that a request waits at most one period.

// WindowState is what is kept of a fixed window: the half-open span [Start, End) in nanoseconds of Unix time, and how
// much of it is used. Used is above 0 in every state that is kept.
type WindowState struct {
	Start, End, Used int64
}

// inForce returns the window that a request at now falls into, and the time at which its count will be forgotten if
// nothing more is admitted. Nothing is used in a window that has yet to open.
func (l *Limit) inForce(s WindowState, now int64) (w WindowState, forgotten int64) {
	open := s.Used > 0 && now < s.End
	if l.aligned {
		start := floorDiv(now-l.offset, l.period)*l.period + l.offset
		w = WindowState{Start: start, End: start + l.period}
		if first := min(s.Start, now); open && start <= first && first < w.End {
			w.Used = s.Used
			return w, min(w.End, s.End)
		}
		return w, w.End
	}
	if open {
		end := min(s.End, addSat(min(s.Start, now), l.period))
		if now < end {
			return WindowState{Start: min(s.Start, now), End: end, Used: s.Used}, end
		}
	}
	end := addSat(now, l.period)
	return WindowState{Start: now, End: end}, end
}

// PeekWindow answers for quantity, describes the window as it stands, and returns the window in force. The zero
// WindowState is a window unused.
func (l *Limit) PeekWindow(s WindowState, now, quantity int64, d *Decision) WindowState {
	w, forgotten := l.inForce(s, now)
	room := l.limit - w.Used
	*d = Decision{Limit: l.limit, Remaining: max(0, room), RetryAfter: Never}
	if w.Used > 0 {
		d.ResetAfter = forgotten - now
	}
	if quantity > 0 && quantity > room {
		d.Refuse(quantity, forgotten-now)
	}
	return w
}

// TakeWindow decides on quantity, changes s to what is to be kept, and reports whether it did: not for a request that is
// refused or of quantity 0, nor for a refund that finds nothing used. The zero WindowState need not be kept.
func (l *Limit) TakeWindow(s *WindowState, now, quantity int64, d *Decision) bool {
	w := l.PeekWindow(*s, now, quantity, d)
	if d.Limited || quantity == 0 || (quantity < 0 && w.Used == 0) {
		return false
	}
	w.Used = max(0, w.Used+quantity)
	d.Remaining = max(0, l.limit-w.Used)
	if w.Used == 0 {
		d.ResetAfter = 0
		w = WindowState{}
	} else {
		d.ResetAfter = w.End - now
	}
	*s = w
	return true
}

// Windowed returns the state of a Window key.
func Windowed(w WindowState) State {
	return State{Kind: Window, Words: [MaxWords]int64{w.Start, w.End, w.Used}}
}

// Window returns the state of a Window key.
func (st *State) Window() WindowState {
	return WindowState{Start: st.Words[0], End: st.Words[1], Used: st.Words[2]}
}

var windowRow = algorithm{
	name: "window", encoding: "counter", words: 3, code: 2,
	peek: func(l *Limit, st *State, now, quantity int64, d *Decision) {
		l.PeekWindow(st.Window(), now, quantity, d)
	},
	take: func(l *Limit, st *State, now, quantity int64, _ int, d *Decision) (Effect, error) {
		w := st.Window()
		if !l.TakeWindow(&w, now, quantity, d) {
			return Unchanged, nil
		}
		st.Words = [MaxWords]int64{w.Start, w.End, w.Used}
		return Stored, nil
	},
	fullAt:    func(st *State) int64 { return st.Words[1] },
	fullAfter: func(l *Limit, now, _ int64) int64 { return addSat(now, l.period) },
	ahead:     func(st *State, now int64) bool { return st.Words[0] > now },
	clamp: func(st *State, now int64) {
		w := st.Window()
		*st = Windowed(WindowState{Start: now, End: addSat(now, subSat(w.End, w.Start)), Used: w.Used})
	},
	encode: func(dst []byte, st *State) []byte {
		w := st.Window()
		dst = binary.LittleEndian.AppendUint64(dst, uint64(w.Start))
		dst = binary.AppendUvarint(dst, uint64(w.End)-uint64(w.Start))
		return binary.AppendUvarint(dst, uint64(w.Used))
	},
	decode: func(d *Decoder, st *State) {
		start := d.Int64()
		length := d.Uvarint()
		end := d.After(start, length)
		used := d.Uvarint()
		st.Words = [MaxWords]int64{start, end, int64(used)}
		d.FailIf(length == 0, "a window that ends as it starts")
		d.FailIf(used == 0 || used > math.MaxInt64, "a window whose use is 0 or beyond 63 bits")
	},
	fields: func(dst []Field, st *State, _ int64) []Field {
		return append(dst, Field{"start", st.Words[0]}, Field{"end", st.Words[1]}, Field{"used", st.Words[2]})
	},
}
