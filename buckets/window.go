package buckets

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
// set back across a restart) counts as now, so that nobody waits longer than one period.

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

// PeekWindow answers for quantity and describes the window as it stands. The zero WindowState is a window unused.
func PeekWindow(l Limit, s WindowState, now, quantity int64) (d Decision) {
	l.peekWindow(s, now, quantity, &d)
	return d
}

// TakeWindow decides on quantity and returns the state to keep; the zero WindowState means that nothing need be kept.
// A refused request, one of quantity 0, and a refund that finds nothing used return the state they were given.
func TakeWindow(l Limit, s WindowState, now, quantity int64) (kept WindowState, d Decision) {
	l.takeWindow(&s, now, quantity, &d)
	return s, d
}

// peekWindow returns the window in force, too.
func (l *Limit) peekWindow(s WindowState, now, quantity int64, d *Decision) WindowState {
	w, forgotten := l.inForce(s, now)
	room := l.limit - w.Used
	*d = Decision{Limit: l.limit, Remaining: max(0, room), RetryAfter: Never}
	if w.Used > 0 {
		d.ResetAfter = forgotten - now
	}
	if quantity > 0 && quantity > room {
		d.refuse(quantity, forgotten-now)
	}
	return w
}

// takeWindow changes s to what is to be kept, and reports whether it did.
func (l *Limit) takeWindow(s *WindowState, now, quantity int64, d *Decision) bool {
	w := l.peekWindow(*s, now, quantity, d)
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
