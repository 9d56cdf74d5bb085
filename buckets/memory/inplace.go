package memory

import (
	"encoding/binary"
	"math"

	"cellserver/buckets"
)

// Fast path: the key has a record and keeps it; update the state in place. This includes a state that has expired and
// restarts. Every other request takes the general path, shard.decide.

// outcome is the result of an update in place.
type outcome uint8

const (
	notInPlace outcome = iota // nothing was changed; the request needs the general path
	ringFull                  // nothing was changed; the ring has no room for another record
	unchanged                 // decided; the state is unchanged
	changed
	restarted // decided; the state had expired and was replaced
)

// takeInPlace either does what the general path does and returns true, or changes nothing and returns false.
func (s *shard) takeInPlace(place uint32, hash uint64, keyBytes int, l *buckets.Limit, now, quantity int64, maxLog int, d *buckets.Decision) bool {
	t := s.near()
	r := t.at(place)
	if buckets.Kind(r[0]&^dirtyFlag) != l.Kind() || keyBytes >= shortKey || t.watches != nil {
		return false
	}
	b, did := r[2+keyBytes:], notInPlace
	switch l.Kind() {
	case buckets.Throttle:
		did = throttleInPlace(l, b[:8], now, quantity, d)
	case buckets.Window:
		did = windowInPlace(l, b[:24], now, quantity, d)
	case buckets.Slide:
		if did = slideInPlace(l, b, now, quantity, maxLog, d); did == ringFull {
			if place = s.enlarge(place, hash, keyBytes); place == 0 {
				return false
			}
			did = slideInPlace(l, s.table.at(place)[2+keyBytes:], now, quantity, maxLog, d)
		}
	}
	if did >= changed {
		s.markDirty(place)
		if did == restarted {
			s.expired++
		}
	}
	return did != notInPlace
}

// enlarge moves a log to a larger record and returns its place. It returns 0 if the limit on memory does not allow that.
func (s *shard) enlarge(place uint32, hash uint64, keyBytes int) uint32 {
	var g ringLog
	g.getHead(s.table.at(place)[2+keyBytes:])
	size := grownRing(g.size)
	units := recordUnits(keyBytes, logBytes(size, g.width, g.sums))
	if !s.budget.allows(s.table.growth(units, false)) {
		return 0
	}
	place = s.table.enlarge(place, tagOf(hash), units, size)
	s.account()
	return place
}

// throttleInPlace decides on the TAT in b and writes the TAT to keep.
func throttleInPlace(l *buckets.Limit, b []byte, now, quantity int64, d *buckets.Decision) outcome {
	tat := int64(binary.LittleEndian.Uint64(b))
	kept := l.TakeThrottle(tat, now, quantity, d)
	if kept <= now {
		return notInPlace
	}
	binary.LittleEndian.PutUint64(b, uint64(kept))
	switch {
	case tat <= now:
		return restarted
	case kept != tat || quantity != 0 && !d.Limited:
		return changed
	}
	return unchanged
}

// windowInPlace decides on the window in b, and writes the window to keep.
func windowInPlace(l *buckets.Limit, b []byte, now, quantity int64, d *buckets.Decision) outcome {
	w := getWindow(b)
	ended := w.End <= now
	did := l.TakeWindow(&w, now, quantity, d)
	switch {
	case w.End <= now:
		return notInPlace
	case !did:
		return unchanged
	}
	putWindow(b, w)
	if ended {
		return restarted
	}
	return changed
}

// dropLimit is the number of records to drop from which on slideInPlace leaves the request to the general path. Few
// records expire between two requests.
const dropLimit = 8

// slideInPlace decides on the log in b and writes the log to keep. It handles requests with the stored period on a ring
// that has room for the record, and computes the same as Limit.TakeSlide.
func slideInPlace(l *buckets.Limit, b []byte, now, quantity int64, maxLog int, d *buckets.Decision) outcome {
	var g ringLog
	g.getHead(b)
	since := now - g.newest
	if g.period != l.Period() || since < 0 || now > math.MaxInt64-g.period || quantity < 0 {
		return notInPlace
	}
	if since >= g.period {
		return restartSlide(l, &g, now, quantity, maxLog, d)
	}
	full := g.period - since // time until the newest record leaves the window; a record that is older than the newest by at least this much has left it
	drop := 0
	for g.age(drop) >= uint64(full) {
		if drop++; drop == dropLimit {
			return notInPlace
		}
	}
	through, before := g.Before(g.n), g.Before(drop)
	room := l.Max() - int64(through-before)
	if quantity == 0 || quantity > room {
		if drop > 0 {
			return notInPlace
		}
		return refuseSlide(l, &g, quantity, room, full, d)
	}

	newRecord, kept := since > 0, g.n-drop
	if did := g.fitsInPlace(newRecord, drop, quantity, maxLog); did != changed {
		return did
	}
	if drop > 0 {
		if g.sums {
			binary.LittleEndian.PutUint64(b[headBefore:], before)
		}
		if g.first += drop; g.first >= g.size {
			g.first -= g.size
		}
		g.n = kept
		binary.LittleEndian.PutUint32(b[headFirst:], uint32(g.first))
	}
	if newRecord {
		setTime(b[g.at(g.n):], now, g.width)
		g.n++
		binary.LittleEndian.PutUint64(b[headNewest:], uint64(now))
	}
	binary.LittleEndian.PutUint32(b[headN:], uint32(g.n))
	g.unreported = g.unreportedAfterAdd(newRecord)
	binary.LittleEndian.PutUint32(b[headShape:], g.shape())
	if g.sums {
		g.setThrough(g.n-1, through+uint64(quantity))
	}
	*d = buckets.Decision{Limit: l.Max(), Remaining: room - quantity, RetryAfter: buckets.Never, ResetAfter: g.period}
	return changed
}

// refuseSlide answers a request that takes nothing from a log of which no record has left the window. full is the time
// until the newest record leaves it, and room is the rest of the limit.
func refuseSlide(l *buckets.Limit, g *ringLog, quantity, room, full int64, d *buckets.Decision) outcome {
	wait := int64(0)
	if 0 < quantity && quantity <= l.Max() {
		need := int(quantity - room)
		if g.sums && need > 1 { // a binary search is left to the general path
			return notInPlace
		}
		wait = full - int64(g.age(need-1))
	}
	*d = buckets.Decision{Limit: l.Max(), Remaining: max(0, room), RetryAfter: buckets.Never, ResetAfter: full}
	if quantity > 0 {
		d.Refuse(quantity, wait)
	}
	return unchanged
}

// fitsInPlace returns changed if the ring takes quantity without being rebuilt, after its drop oldest records are
// dropped, and otherwise notInPlace or ringFull.
func (g *ringLog) fitsInPlace(newRecord bool, drop int, quantity int64, maxLog int) outcome {
	kept := g.n - drop
	switch {
	case drop > 0 && g.size > 4*smallestRing && 4*kept < g.size: // dropping would shrink the ring
		return notInPlace
	case newRecord && (kept >= maxLog || g.width < timeWidth(g.period)):
		return notInPlace
	case !g.sums && (!newRecord || quantity != 1):
		return notInPlace
	case newRecord && kept == g.size:
		return ringFull
	}
	return changed
}

// restartSlide replaces a log whose records have all left the window, if its ring has the size of a new one.
func restartSlide(l *buckets.Limit, g *ringLog, now, quantity int64, maxLog int, d *buckets.Decision) outcome {
	if quantity != 1 || maxLog < 1 || g.sums || g.size != smallestRing || g.width != timeWidth(g.period) {
		return notInPlace
	}
	g.newest, g.first, g.n, g.unreported = now, 0, 1, 1
	setTime(g.memory[g.at(0):], now, g.width)
	g.putHead(g.memory)
	*d = buckets.Decision{Limit: l.Max(), Remaining: l.Max() - 1, RetryAfter: buckets.Never, ResetAfter: g.period}
	return restarted
}
