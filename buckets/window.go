package buckets

import (
	"encoding/binary"
	"math"
)

// The fixed window: at most limit in each window of length period.
//
// A window opens with the first admission of a positive quantity and ends one period later. The next admission after that
// opens a new window. Aligned windows lie on the calendar instead; the window of a request at now starts at
//
//	floor((now - offset) / period) * period + offset
//
// If a request has another period than the stored window, the window ends at its start plus the period of the request,
// but not later than its stored end. The next admission stores this end. An aligned request adopts the stored count if
// the stored start lies in the window of the request. A start later than now, which is possible when the clock was set
// back across a restart, counts as now, so that a request waits at most one period.

// WindowState is the state of a fixed window: the half-open interval [Start, End) in nanoseconds of Unix time, and how
// much of the limit is used in it. In a state that is stored, Used is above 0.
type WindowState struct {
	Start, End, Used int64
}

// inForce returns the window of a request at now, and the time at which its count is forgotten if nothing more is
// admitted. In a window that has not opened, Used is 0.
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

// PeekWindow fills in d with the answer to quantity, changes nothing, and returns the window in force. The zero
// WindowState is an unused window.
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

// TakeWindow decides on quantity, changes s to the state to keep, and reports whether it did. It does not for a request
// that is refused or of quantity 0, nor for a refund when nothing is used. The zero WindowState need not be kept.
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
		return append(dst,
			Field{Name: "start", Value: st.Words[0]}, Field{Name: "end", Value: st.Words[1]}, Field{Name: "used", Value: st.Words[2]})
	},
}
