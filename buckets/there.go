package buckets

import "encoding/binary"

// The short way of what most requests are: a bucket that is there, and there to stay, in a record that need not move. It
// is changed where it stands. Everything else goes the long way: see shard.decide.

// takeThere does what the long way would do, or nothing, and reports which.
func (s *shard) takeThere(place uint32, keyBytes int, l *Limit, now, quantity int64, d *Decision) bool {
	r := s.table.at(place)
	if Kind(r[0]&^dirtyFlag) != l.kind || keyBytes >= shortKey || s.watches != nil {
		return false
	}
	b := r[2+keyBytes:]
	done, changed := false, false
	switch l.kind {
	case Throttle:
		done, changed = l.throttleThere(b[:8], now, quantity, d)
	case Window:
		done, changed = l.windowThere(b[:24], now, quantity, d)
	}
	if changed {
		s.note(place)
	}
	return done
}

// throttleThere decides on the TAT that is stored in b. It reports whether that was all there is to do, and whether it
// has changed what is stored.
func (l *Limit) throttleThere(b []byte, now, quantity int64, d *Decision) (done, changed bool) {
	tat := int64(binary.LittleEndian.Uint64(b))
	if tat <= now {
		return false, false
	}
	kept := l.takeThrottle(tat, now, quantity, d)
	if kept <= now {
		return false, false
	}
	binary.LittleEndian.PutUint64(b, uint64(kept))
	return true, kept != tat || quantity != 0 && !d.Limited
}

// windowThere does the same with the window that is stored in b.
func (l *Limit) windowThere(b []byte, now, quantity int64, d *Decision) (done, changed bool) {
	w := getWindow(b)
	if w.End <= now {
		return false, false
	}
	if !l.takeWindow(&w, now, quantity, d) {
		return true, false
	}
	if w.End <= now {
		return false, false
	}
	putWindow(b, w)
	return true, true
}
