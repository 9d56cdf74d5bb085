package buckets

import (
	"encoding/binary"
	"math"
	"math/bits"
)

// slidingLog is the log of one sliding window: a ring of packed records in one block without Go pointers. A nil
// *slidingLog is an empty one.
//
// A record is the time of an admission, as an offset from base in as few bytes as two periods need: five for a minute,
// six for a day. While every quantity is 1, as it mostly is, that is all; from the first other one on each record also
// has the running sum through it, in eight bytes.
type slidingLog struct {
	ring   []byte // room for size records, and slack behind the last so that eight bytes can be read anywhere
	size   int    // records that there is room for
	head   int    // where the oldest is
	n      int    // records
	base   int64  // nanoseconds of Unix time
	before uint64 // the running sum before the oldest; only differences mean something
	period int64  // of the request that was stored last
	width  int8   // bytes of an offset
	sums   bool   // records have running sums
}

const (
	logBytes     = 88 // of the struct
	slack        = 8
	smallestRing = 4
)

// Len implements Log.
func (g *slidingLog) Len() int {
	if g == nil {
		return 0
	}
	return g.n
}

// Period implements Log.
func (g *slidingLog) Period() int64 { return g.period }

// at returns the bytes of record i, and whatever follows them.
func (g *slidingLog) at(i int) []byte {
	i += g.head
	if i >= g.size {
		i -= g.size
	}
	return g.ring[i*g.recordBytes():]
}

func (g *slidingLog) recordBytes() int {
	if g.sums {
		return int(g.width) + 8
	}
	return int(g.width)
}

// largest is the largest offset that fits.
func (g *slidingLog) largest() int64 { return int64(g.mask() &^ (1 << 63)) }

func (g *slidingLog) mask() uint64 { return ^uint64(0) >> (64 - 8*g.width) }

// Time implements Log.
func (g *slidingLog) Time(i int) int64 {
	return g.base + int64(binary.LittleEndian.Uint64(g.at(i))&g.mask())
}

func (g *slidingLog) setTime(i int, t int64) {
	b := g.at(i)
	for j, offset := 0, t-g.base; j < int(g.width); j, offset = j+1, offset>>8 {
		b[j] = byte(offset)
	}
}

// Before implements Log.
func (g *slidingLog) Before(i int) uint64 {
	switch {
	case g == nil:
		return 0
	case !g.sums:
		return uint64(i)
	case i == 0:
		return g.before
	}
	return binary.LittleEndian.Uint64(g.at(i - 1)[g.width:])
}

func (g *slidingLog) setThrough(i int, sum uint64) {
	binary.LittleEndian.PutUint64(g.at(i)[g.width:], sum)
}

// full returns when the newest record leaves the window; an empty log has been full for ever.
func (g *slidingLog) full() int64 {
	if g.Len() == 0 {
		return 0
	}
	return addSat(g.Time(g.n-1), g.period)
}

func (g *slidingLog) bytes() int {
	if g == nil {
		return 0
	}
	return logBytes + cap(g.ring)
}

// drop forgets the n oldest records, and gives room back when three quarters of it lie idle.
func (g *slidingLog) drop(n int) {
	g.before = g.Before(n)
	g.head = (g.head + n) % g.size
	g.n -= n
	if g.n == 0 {
		*g = slidingLog{period: g.period}
	} else if g.size > 4*smallestRing && 4*g.n < g.size {
		g.rebuild(g.n+g.n/4+smallestRing, g.width, g.sums, math.MaxInt64)
	}
}

// apply carries out an edit that is Stored.
func (g *slidingLog) apply(e *LogEdit, now, period int64) {
	g.period = period
	if e.Clear {
		*g = slidingLog{period: period}
		return
	}
	if e.Drop > 0 {
		g.drop(e.Drop)
	}
	if g.n > 0 && g.Time(g.n-1) > now { // it counts as now, and from here on is
		g.rebuild(g.size, g.width, g.sums, now)
	}
	if e.Back > 0 {
		g.back(e.Back)
	}
	if e.Add > 0 {
		g.add(now, e.Add, e.Grows)
	}
}

// back takes quantities back from the newest records.
func (g *slidingLog) back(quantity int64) {
	if !g.sums {
		g.n -= int(quantity)
		return
	}
	for quantity > 0 {
		newest := int64(g.Before(g.n) - g.Before(g.n-1))
		if newest > quantity {
			g.setThrough(g.n-1, g.Before(g.n)-uint64(quantity))
			return
		}
		g.n--
		quantity -= newest
	}
}

// add admits quantity at now: as a record of its own, or into the newest.
func (g *slidingLog) add(now, quantity int64, own bool) {
	size, width, sums := g.size, g.width, g.sums || !own || quantity != 1
	if own {
		if g.n == g.size {
			size = g.size + g.size/4 + smallestRing
		}
		if g.n == 0 {
			g.base = now
		}
		width = max(g.width, offsetBytes(g.period))
	}
	if size != g.size || width != g.width || sums != g.sums || now-g.base > g.largest() {
		g.rebuild(size, width, sums, now)
	}
	through := g.Before(g.n) + uint64(quantity)
	if own {
		g.n++
		g.setTime(g.n-1, now)
	}
	if g.sums {
		g.setThrough(g.n-1, through)
	}
}

// offsetBytes is how many bytes an offset takes: enough for two periods, so that the records are given a new base at most
// once a period.
func offsetBytes(period int64) int8 { return int8((bits.Len64(uint64(period)) + 8) / 8) }

// rebuild moves the records into a new ring, from its beginning on, counted from the oldest. None is later than latest
// afterwards.
func (g *slidingLog) rebuild(size int, width int8, sums bool, latest int64) {
	to := slidingLog{size: size, n: g.n, base: g.base, period: g.period, width: width, sums: sums}
	to.ring = make([]byte, size*to.recordBytes()+slack)
	if g.n > 0 {
		to.base = min(g.Time(0), latest)
	}
	if g.sums {
		to.before = g.before
	}
	for i := range g.n {
		to.setTime(i, min(g.Time(i), latest))
		if sums {
			to.setThrough(i, g.Before(i+1))
		}
	}
	*g = to
}
