package buckets

import (
	"encoding/binary"
	"math"
	"math/bits"
)

// slidingLog is the log of one sliding window: a ring of packed records. Its memory is part of a record of the table, or
// a piece of its own until it is stored; the fields are its head, read. The zero value is an empty log.
//
// A record is the time of an admission, as an offset from base in as few bytes as two periods need: five for a minute,
// six for a day. While every quantity is 1, as it mostly is, that is all; from the first other one on each record also
// has the running sum through it, in eight bytes.
type slidingLog struct {
	memory []byte // the head, and room for size records
	moved  bool   // memory is not where it was stored

	base   int64  // nanoseconds of Unix time
	before uint64 // the running sum before the oldest; only differences mean something
	period int64  // of the request that was stored last
	first  int    // where the oldest is
	n      int    // records
	size   int    // records that there is room for
	width  int8   // bytes of an offset
	sums   bool   // records have running sums
}

const (
	logHead      = 3*8 + 3*4 + 2
	smallestRing = 4
)

// getHead makes g the log that is stored in b.
func (g *slidingLog) getHead(b []byte) {
	*g = slidingLog{
		memory: b,
		base:   int64(binary.LittleEndian.Uint64(b)),
		before: binary.LittleEndian.Uint64(b[8:]),
		period: int64(binary.LittleEndian.Uint64(b[16:])),
		first:  int(binary.LittleEndian.Uint32(b[24:])),
		n:      int(binary.LittleEndian.Uint32(b[28:])),
		size:   int(binary.LittleEndian.Uint32(b[32:])),
		width:  int8(b[36]),
		sums:   b[37] != 0,
	}
}

// putHead writes the head of g.
func (g *slidingLog) putHead(b []byte) {
	binary.LittleEndian.PutUint64(b, uint64(g.base))
	binary.LittleEndian.PutUint64(b[8:], g.before)
	binary.LittleEndian.PutUint64(b[16:], uint64(g.period))
	binary.LittleEndian.PutUint32(b[24:], uint32(g.first))
	binary.LittleEndian.PutUint32(b[28:], uint32(g.n))
	binary.LittleEndian.PutUint32(b[32:], uint32(g.size))
	b[36], b[37] = byte(g.width), 0
	if g.sums {
		b[37] = 1
	}
}

// logBytesOf returns how many bytes the log takes that begins here.
func logBytesOf(b []byte) int {
	record := int(b[36])
	if b[37] != 0 {
		record += 8
	}
	return logHead + record*int(binary.LittleEndian.Uint32(b[32:]))
}

// Len implements Log.
func (g *slidingLog) Len() int { return g.n }

// Period implements Log.
func (g *slidingLog) Period() int64 { return g.period }

// at returns where in memory record i is.
func (g *slidingLog) at(i int) int {
	i += g.first
	if i >= g.size {
		i -= g.size
	}
	return logHead + i*g.recordBytes()
}

func (g *slidingLog) recordBytes() int {
	if g.sums {
		return int(g.width) + 8
	}
	return int(g.width)
}

// largest is the largest offset that fits.
func (g *slidingLog) largest() int64 { return math.MaxInt64 >> max(0, 63-8*int(g.width)) }

// Time implements Log.
func (g *slidingLog) Time(i int) int64 {
	// The eight bytes that end where the offset ends: what is before it belongs to the log too.
	end := g.at(i) + int(g.width)
	return g.base + int64(binary.LittleEndian.Uint64(g.memory[end-8:])>>(64-8*uint(g.width)))
}

func (g *slidingLog) setTime(i int, t int64) {
	b := g.memory[g.at(i):]
	for j, offset := 0, t-g.base; j < int(g.width); j, offset = j+1, offset>>8 {
		b[j] = byte(offset)
	}
}

// Before implements Log.
func (g *slidingLog) Before(i int) uint64 {
	switch {
	case !g.sums:
		return uint64(i)
	case i == 0:
		return g.before
	}
	return binary.LittleEndian.Uint64(g.memory[g.at(i-1)+int(g.width):])
}

func (g *slidingLog) setThrough(i int, sum uint64) {
	binary.LittleEndian.PutUint64(g.memory[g.at(i)+int(g.width):], sum)
}

// full returns when the newest record leaves the window; an empty log has been full for ever.
func (g *slidingLog) full() int64 {
	if g.n == 0 {
		return 0
	}
	return addSat(g.Time(g.n-1), g.period)
}

// drop forgets the n oldest records, and gives room back when three quarters of it lie idle.
func (g *slidingLog) drop(n int) {
	g.before = g.Before(n)
	g.first = (g.first + n) % g.size
	g.n -= n
	if g.n == 0 {
		*g = slidingLog{period: g.period}
	} else if g.size > 4*smallestRing && 4*g.n < g.size {
		g.rebuild(larger(g.n), g.width, g.sums, math.MaxInt64)
	}
}

// larger returns the size of a ring that has got room beyond n records.
func larger(n int) int { return n + n/4 + smallestRing }

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
			size = larger(g.size)
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

// needs returns how many bytes the log takes when quantity has been added at now, or 0 if that is what it takes already.
// Of what has left the window by then it knows nothing.
func (g *slidingLog) needs(now, period, quantity int64) int {
	to := slidingLog{size: g.size, width: g.width, sums: g.sums || quantity != 1}
	if g.n == 0 || g.Time(g.n-1) < now {
		to.width = max(g.width, offsetBytes(period))
		if g.n == g.size {
			to.size = larger(g.size)
		}
	} else {
		to.sums = true
	}
	if to.size == g.size && to.width == g.width && to.sums == g.sums {
		return 0
	}
	return logHead + to.size*to.recordBytes()
}

// offsetBytes is how many bytes an offset takes: enough for two periods, so that the records are given a new base at most
// once a period.
func offsetBytes(period int64) int8 { return int8((bits.Len64(uint64(period)) + 8) / 8) }

// rebuild moves the records into a new ring, from its beginning on, counted from the oldest. None is later than latest
// afterwards.
func (g *slidingLog) rebuild(size int, width int8, sums bool, latest int64) {
	to := slidingLog{moved: true, size: size, n: g.n, base: g.base, period: g.period, width: width, sums: sums}
	to.memory = make([]byte, logHead+size*to.recordBytes())
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
