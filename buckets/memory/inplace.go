package memory

import (
	"encoding/binary"
	"math"

	"cellserver/buckets"
)

// The short way of what most requests are: a bucket of which there is a record, and will be. It is changed where it
// stands, also when what is there has expired and begins anew. Everything else goes the long way: see shard.decide.

// outcome is what came of a short way.
type outcome uint8

const (
	notInPlace outcome = iota // nothing: it has to be the long way
	ringFull                  // nothing: the log has no room for another record
	unchanged                 // it is decided, and nothing has changed
	changed
	restarted // what was there had expired, and something else is there now
)

// takeThere does what the long way would do, or nothing, and reports which.
func (s *shard) takeInPlace(place uint32, hash uint64, keyBytes int, l *buckets.Limit, now, quantity int64, maxLog int, d *buckets.Decision) bool {
	r := s.table.at(place)
	if buckets.Kind(r[0]&^dirtyFlag) != l.Kind() || keyBytes >= shortKey || s.watches != nil {
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

// enlarge gives a log room for more records and returns where it is then, or 0 if there is no memory for it.
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

// throttleThere decides on the TAT that is stored in b, and stores what is to be kept.
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

// windowThere does the same with the window that is stored in b.
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

// mostLeft is one more than slideThere drops at most: that more have left is rare, but after a silence.
const dropLimit = 8

// slideThere does the same with the log that is stored in b, if it is asked for the period that it was stored with, and
// what is added has room where it is. See takeSlide, of which this is what remains then.
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
	full := g.period - since // until the newest leaves: what is earlier than it by as much has left
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
		wait := int64(0)
		if 0 < quantity && quantity <= l.Max() {
			need := int(quantity - room)
			if g.sums && need > 1 { // it would have to be searched for
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

	newRecord, kept := since > 0, g.n-drop
	switch {
	case drop > 0 && g.size > 4*smallestRing && 4*kept < g.size: // dropping makes it smaller
		return notInPlace
	case newRecord && (kept >= maxLog || g.width < timeWidth(g.period)):
		return notInPlace
	case !g.sums && (!newRecord || quantity != 1):
		return notInPlace
	case newRecord && kept == g.size:
		return ringFull
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

// slideAnew begins a log anew of which everything has left, if it is of the size that a new one has.
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
