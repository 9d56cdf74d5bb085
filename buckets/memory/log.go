package memory

import (
	"encoding/binary"
	"math"
	"math/bits"

	"cellserver/buckets"
)

// ringLog is a sliding log: a ring of packed admissions. Its memory is part of a record of the table, or separate until
// it is stored. The fields are the decoded head of the log. The zero value is an empty log.
//
// An admission is stored as the low bytes of its time, as many as distinguish all times within one period: five for a
// minute, six for a day. The head has the whole time of the newest admission; the others are not later than that, and
// earlier by less than these bytes can express. While every quantity is 1, which is the usual case, nothing else is
// stored. From the first other quantity on, each admission also has the running sum up to and including it, in eight
// bytes.
type ringLog struct {
	memory []byte // the head and the ring
	moved  bool   // memory is not the stored one, so the log must be stored again

	newest     int64  // nanoseconds of Unix time
	period     int64  // period of the last stored request, in nanoseconds
	first      int    // position of the oldest record in the ring
	n          int    // number of records
	size       int    // number of records that the ring has room for
	width      int8   // number of bytes of a time
	sums       bool   // records have running sums
	unreported uint32 // number of the newest records that have changed since Changes last reported them; allUnreported means all
	before     uint64 // the running sum before the oldest record, 0 without sums; only differences have a meaning
}

// The offsets of the fields in the head of a log.
const (
	headNewest = 0
	headPeriod = 8
	headFirst  = 16
	headN      = 20
	headSize   = 24
	headShape  = 28 // four bits of width, one of sums, three that are 0, and 24 of unreported
	logHead    = 32
	headBefore = 32 // with sums only
	sumsHead   = 40

	shapeWidth      = 0x0f
	shapeSums       = 0x10
	shapeUnreported = 8 // the first bit of unreported

	// allUnreported is the largest count that the head can hold. It means that all records are unreported.
	allUnreported = 1<<24 - 1

	smallestRing = 4
)

// getHead makes g the log that is stored in b. It assigns the fields one by one, because the compiler would build a
// composite literal first and then copy it.
func (g *ringLog) getHead(b []byte) {
	g.memory, g.moved = b, false
	g.newest = int64(binary.LittleEndian.Uint64(b[headNewest:]))
	g.period = int64(binary.LittleEndian.Uint64(b[headPeriod:]))
	g.first = int(binary.LittleEndian.Uint32(b[headFirst:]))
	g.n = int(binary.LittleEndian.Uint32(b[headN:]))
	g.size = int(binary.LittleEndian.Uint32(b[headSize:]))
	shape := binary.LittleEndian.Uint32(b[headShape:])
	g.width, g.sums, g.unreported, g.before = int8(shape&shapeWidth), shape&shapeSums != 0, shape>>shapeUnreported, 0
	if g.sums {
		g.before = binary.LittleEndian.Uint64(b[headBefore:])
	}
}

// putHead writes the head of g to b.
func (g *ringLog) putHead(b []byte) {
	binary.LittleEndian.PutUint64(b[headNewest:], uint64(g.newest))
	binary.LittleEndian.PutUint64(b[headPeriod:], uint64(g.period))
	binary.LittleEndian.PutUint32(b[headFirst:], uint32(g.first))
	binary.LittleEndian.PutUint32(b[headN:], uint32(g.n))
	binary.LittleEndian.PutUint32(b[headSize:], uint32(g.size))
	binary.LittleEndian.PutUint32(b[headShape:], g.shape())
	if g.sums {
		binary.LittleEndian.PutUint64(b[headBefore:], g.before)
	}
}

// shape returns width, sums and unreported as the head encodes them.
func (g *ringLog) shape() uint32 {
	shape := uint32(g.width) | g.unreported<<shapeUnreported
	if g.sums {
		shape |= shapeSums
	}
	return shape
}

// logBytesOf returns how many bytes the log at the beginning of b takes.
func logBytesOf(b []byte) int {
	shape := binary.LittleEndian.Uint32(b[headShape:])
	return logBytes(int(binary.LittleEndian.Uint32(b[headSize:])), int8(shape&shapeWidth), shape&shapeSums != 0)
}

// logBytes returns how many bytes a log takes.
func logBytes(size int, width int8, sums bool) int {
	if sums {
		return sumsHead + size*(int(width)+8)
	}
	return logHead + size*int(width)
}

// Len implements buckets.Log.
func (g *ringLog) Len() int { return g.n }

// Period implements buckets.Log.
func (g *ringLog) Period() int64 { return g.period }

// at returns the offset of record i in memory.
func (g *ringLog) at(i int) int {
	i += g.first
	if i >= g.size {
		i -= g.size
	}
	return logBytes(i, g.width, g.sums)
}

// Time implements buckets.Log.
func (g *ringLog) Time(i int) int64 {
	return g.newest - int64(g.age(i))
}

// age returns by how many nanoseconds record i is older than the newest record.
func (g *ringLog) age(i int) uint64 {
	// Load the eight bytes that end with the time and shift out those before it. They exist, because the head precedes
	// the ring.
	b, shift := g.memory[g.at(i)+int(g.width)-8:], 64-8*uint(g.width)
	return (uint64(g.newest) - binary.LittleEndian.Uint64(b)>>shift) << shift >> shift
}

// setTime writes the low width bytes of a time to b.
func setTime(b []byte, t int64, width int8) {
	for ; width > 0; width-- {
		b[0] = byte(t)
		b, t = b[1:], t>>8
	}
}

// Before implements buckets.Log.
func (g *ringLog) Before(i int) uint64 {
	switch {
	case !g.sums:
		return uint64(i)
	case i == 0:
		return g.before
	}
	return binary.LittleEndian.Uint64(g.memory[g.at(i-1)+int(g.width):])
}

func (g *ringLog) setThrough(i int, sum uint64) {
	binary.LittleEndian.PutUint64(g.memory[g.at(i)+int(g.width):], sum)
}

// drop removes the n oldest records. It shrinks the ring if less than a quarter of it is then in use.
func (g *ringLog) drop(n int) {
	if g.sums {
		g.before = g.Before(n)
	}
	g.first = (g.first + n) % g.size
	g.n -= n
	if g.n == 0 {
		*g = ringLog{period: g.period}
	} else if g.size > 4*smallestRing && 4*g.n < g.size {
		g.rebuild(grownRing(g.n), g.width, g.sums, math.MaxInt64)
	}
}

// grownRing returns the size of a larger ring for a ring of n records.
func grownRing(n int) int { return n + n/4 + smallestRing }

// Apply implements buckets.EditableLog.
func (g *ringLog) Apply(e buckets.LogEdit, now, period int64) {
	if !e.Stored {
		if e.Drop > 0 {
			g.drop(e.Drop)
		}
		return
	}
	g.period = period
	if e.Clear {
		*g = ringLog{period: period}
		return
	}
	if e.Drop > 0 {
		g.drop(e.Drop)
	}
	if g.n > 0 && g.newest > now { // the clock was set back: records later than now become records at now
		g.rebuild(g.size, g.width, g.sums, now)
	}
	if e.Back > 0 {
		g.back(e.Back)
	}
	if e.Add > 0 {
		g.add(now, e.Add, e.Grows)
	}
}

// back takes quantity back from the newest records. It requires that the sum of the log exceeds quantity.
func (g *ringLog) back(quantity int64) {
	n := g.n
	if !g.sums {
		n -= int(quantity)
		quantity = 0
	}
	for quantity > 0 {
		newest := int64(g.Before(n) - g.Before(n-1))
		if newest > quantity {
			g.setThrough(n-1, g.Before(n)-uint64(quantity))
			break
		}
		n--
		quantity -= newest
	}
	g.newest, g.unreported, g.n = g.Time(n-1), g.unreportedAfterRemove(g.n-n), n
}

// add adds quantity at now, as a new record or to the newest one.
func (g *ringLog) add(now, quantity int64, newRecord bool) {
	size, width, sums := g.size, g.width, g.sums || !newRecord || quantity != 1
	if newRecord {
		if g.n == g.size {
			size = grownRing(g.size)
		}
		width = max(g.width, timeWidth(g.period))
	}
	if size != g.size || width != g.width || sums != g.sums {
		g.rebuild(size, width, sums, math.MaxInt64)
	}
	through := g.Before(g.n) + uint64(quantity)
	if newRecord {
		g.n++
		g.newest = now
		setTime(g.memory[g.at(g.n-1):], now, g.width)
	}
	g.unreported = g.unreportedAfterAdd(newRecord)
	if g.sums {
		g.setThrough(g.n-1, through)
	}
}

// bytesAfterAdd returns how many bytes the log takes after quantity is added at now, or 0 if that needs no new memory.
func (g *ringLog) bytesAfterAdd(now, period, quantity int64) int {
	to := ringLog{size: g.size, width: g.width, sums: g.sums || quantity != 1}
	if g.n == 0 || g.newest < now {
		to.width = max(g.width, timeWidth(period))
		if g.n == g.size && !g.dropsSome(now, min(period, g.period)) {
			to.size = grownRing(g.size)
		}
	} else {
		to.sums = true
	}
	if to.size == g.size && to.width == g.width && to.sums == g.sums {
		return 0
	}
	return logBytes(to.size, to.width, to.sums)
}

// dropsSome reports whether some records, but not all, have left a window of span nanoseconds.
func (g *ringLog) dropsSome(now, span int64) bool {
	left := buckets.Gone(g, now, span)
	return 0 < left && left < g.n
}

// timeWidth returns how many bytes of a time are stored: enough to distinguish all times within a period. No record is a
// whole period older than the newest, because adding a record drops those that have left the window.
func timeWidth(period int64) int8 { return int8(bits.Len64(uint64(period-1)|1)+7) / 8 }

// rebuild copies the records to a new ring of the given shape. Records later than latest get the time latest.
func (g *ringLog) rebuild(size int, width int8, sums bool, latest int64) {
	to := *g
	to.memory, to.moved = make([]byte, logBytes(size, width, sums)), true
	to.size, to.width, to.sums = size, width, sums
	to.first, to.newest = 0, min(g.newest, latest)
	if width == g.width && sums == g.sums && to.newest == g.newest {
		g.copyRing(to.memory[to.at(0):])
	} else {
		for i := range g.n {
			setTime(to.memory[to.at(i):], min(g.Time(i), latest), width)
			if sums {
				to.setThrough(i, g.Before(i+1))
			}
		}
	}
	*g = to
}

// copyRing copies the packed records to the beginning of another ring.
func (g *ringLog) copyRing(to []byte) {
	until := min(g.first+g.n, g.size)
	n := copy(to, g.memory[g.at(0):logBytes(until, g.width, g.sums)])
	copy(to[n:], g.memory[logBytes(0, g.width, g.sums):logBytes(g.first+g.n-until, g.width, g.sums)])
}
