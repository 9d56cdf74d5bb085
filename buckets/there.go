package buckets

import (
	"encoding/binary"
	"math"
)

// The short way of what most requests are: a bucket that is there, and there to stay, in a record that need not move. It
// is changed where it stands. Everything else goes the long way: see shard.decide.

// takeThere does what the long way would do, or nothing, and reports which.
func (s *shard) takeThere(place uint32, keyBytes int, l *Limit, now, quantity int64, maxLog int, d *Decision) bool {
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
	case Slide:
		done, changed = l.slideThere(b, now, quantity, maxLog, d)
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

// mostLeft is one more than slideThere drops at most: that more have left is rare, but after a silence.
const mostLeft = 8

// slideThere does the same with the log that is stored in b, if it is asked for the period that it was stored with, and
// what is added has room where it is. See takeSlide, of which this is what remains then.
func (l *Limit) slideThere(b []byte, now, quantity int64, maxLog int, d *Decision) (done, changed bool) {
	var g slidingLog
	g.getHead(b)
	since := now - g.newest
	if g.period != l.period || uint64(since) >= uint64(g.period) || now > math.MaxInt64-g.period || quantity < 0 {
		return false, false // a newest that is later than now is as if it were far too early
	}
	full := g.period - since // until the newest leaves: what is earlier than it by as much has left
	drop := 0
	for g.earlier(drop) >= uint64(full) {
		if drop++; drop == mostLeft {
			return false, false
		}
	}
	through, before := g.Before(g.n), g.Before(drop)
	room := l.limit - int64(through-before)
	if quantity == 0 || quantity > room {
		if drop > 0 {
			return false, false
		}
		wait := int64(0)
		if 0 < quantity && quantity <= l.limit {
			need := int(quantity - room)
			if g.sums && need > 1 { // it would have to be searched for
				return false, false
			}
			wait = full - int64(g.earlier(need-1))
		}
		*d = Decision{Limit: l.limit, Remaining: max(0, room), RetryAfter: Never, ResetAfter: full}
		if quantity > 0 {
			d.refuse(quantity, wait)
		}
		return true, false
	}

	own, left := g.newest < now, g.n-drop
	switch {
	case drop > 0 && g.size > 4*smallestRing && 4*left < g.size: // dropping makes it smaller
		return false, false
	case own && (left == g.size || left >= maxLog || g.width < timeBytes(g.period)):
		return false, false
	case !g.sums && (!own || quantity != 1):
		return false, false
	}
	if drop > 0 {
		if g.sums {
			binary.LittleEndian.PutUint64(b[headBefore:], before)
		}
		if g.first += drop; g.first >= g.size {
			g.first -= g.size
		}
		g.n = left
		binary.LittleEndian.PutUint32(b[headFirst:], uint32(g.first))
	}
	if own {
		setTime(b[g.at(g.n):], now, g.width)
		g.n++
		binary.LittleEndian.PutUint64(b[headNewest:], uint64(now))
	}
	binary.LittleEndian.PutUint32(b[headN:], uint32(g.n))
	if g.sums {
		g.setThrough(g.n-1, through+uint64(quantity))
	}
	*d = Decision{Limit: l.limit, Remaining: room - quantity, RetryAfter: Never, ResetAfter: g.period}
	return true, true
}
