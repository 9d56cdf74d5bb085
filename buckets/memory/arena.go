package memory

import (
	"encoding/binary"
	"math/bits"
	"slices"
)

// arena is the memory for the records of one shard: blocks without Go pointers, so that the garbage collector scans
// nothing however many records there are. Growing the arena copies nothing, except while the first block, which starts
// small, grows.
//
// A place is the address of a record: the number of its block in the upper bits, and the unit at which it begins in the
// lower bits. No block has the number 0, so that the places of the first units of block 0 can have other meanings. A
// record that is larger than a block has a block of its own, which is dropped with the record.
//
// A block holds records without gaps up to its length. The open block has room for more behind its length. Freed memory
// is a free piece, which begins like a record but has 0 for its kind:
//
//	0                       1 byte
//	units of the piece      3 bytes
//	next, previous piece    4 bytes each, in the list of its class; a piece of one or two units is in no list
type arena struct {
	blocks [][]byte
	shift  uint8 // a place is block<<shift | unit

	open   int      // number of the block that has room at its end, or 0
	size   int      // allocated bytes of all blocks
	live   int      // bytes of records
	lives  []int    // bytes of records in each block
	vacant []uint32 // unused numbers of blocks

	pieces *[classes]uint32 // head of the free list of each class; nil until the first piece is freed
	listed [2]uint64        // bit set of the classes whose free list is not empty
}

const (
	unit          = 4
	usualShift    = 10 // blocks of 4 KB
	smallestBlock = 64 // initial bytes of the first block
	listedUnits   = 3  // units of the smallest piece in a list; no record is smaller
	classes       = 105
)

func (a *arena) blockUnits() int { return 1 << a.shift }
func (a *arena) blockBytes() int { return unit << a.shift }

// at returns the memory from a place to the end of its block.
func (a *arena) at(place uint32) []byte {
	return a.blocks[place>>a.shift][int(place&(1<<a.shift-1))*unit:]
}

// rounded returns how many units are allocated for n units. Larger sizes are coarser, so that few different sizes exist
// and a record fits the piece that another one has freed.
func rounded(n int) int {
	if n <= 64 {
		return n
	}
	step := 1 << (bits.Len(uint(n-1)) - 4)
	return (n + step - 1) &^ (step - 1)
}

// classOf returns the lowest class whose pieces all have room for n units. It requires that n is rounded. All sizes from
// the last class on share that class.
func classOf(n int) int {
	if n <= 64 {
		return n
	}
	l := bits.Len(uint(n - 1))
	return min(64+(l-7)*8+n>>(l-4)-8, classes-1)
}

// classIn returns the class in which a piece of n units is listed: the highest class whose sizes all fit in the piece.
func classIn(n int) int {
	if n <= 64 {
		return n
	}
	l := bits.Len(uint(n))
	return classOf(n &^ (1<<(l-4) - 1))
}

// allocate allocates n units for a record and returns their place. It requires that n is rounded.
func (a *arena) allocate(n int) uint32 {
	if n > a.blockUnits() {
		b := a.add(n * unit)
		a.blocks[b] = a.blocks[b][:n*unit]
		return a.claim(uint32(b)<<a.shift, n)
	}
	class := a.piece(n)
	if class != classOf(n) && a.room() >= n*unit {
		class = 0
	}
	if class != 0 {
		place := a.pieces[class]
		has := a.unlink(place)
		a.claim(place, n)
		if has > n {
			a.link(place+uint32(n), has-n)
		}
		return place
	}
	if a.room() < n*unit {
		a.makeRoom(n * unit)
	}
	block := a.blocks[a.open]
	a.blocks[a.open] = block[:len(block)+n*unit]
	return a.claim(uint32(a.open)<<a.shift+uint32(len(block)/unit), n)
}

// claim counts the n units at place as live, and returns place.
func (a *arena) claim(place uint32, n int) uint32 {
	a.lives[place>>a.shift] += n * unit
	a.live += n * unit
	return place
}

// piece returns the lowest class that has a free piece with room for n units, or 0.
func (a *arena) piece(n int) int {
	class := classOf(n)
	if w := a.listed[class>>6] >> (class & 63); w != 0 {
		return class + bits.TrailingZeros64(w)
	}
	if class < 64 && a.listed[1] != 0 {
		return 64 + bits.TrailingZeros64(a.listed[1])
	}
	return 0
}

// room returns the number of free bytes at the end of the open block.
func (a *arena) room() int {
	if a.open == 0 {
		return 0
	}
	block := a.blocks[a.open]
	return cap(block) - len(block)
}

// growth returns by how many bytes allocating n units would grow the arena. It requires that n is rounded.
func (a *arena) growth(n int) int {
	switch {
	case n > a.blockUnits():
		return n * unit
	case len(a.blocks) == 0:
		return max(smallestBlock, n*unit)
	case a.piece(n) != 0, a.room() >= n*unit:
		return 0
	case a.growable() && len(a.blocks[a.open])+n*unit <= a.blockBytes():
		return a.grown(n*unit) - cap(a.blocks[a.open])
	}
	return a.blockBytes()
}

// growable reports whether the open block is the only block and has not reached the full size of a block.
func (a *arena) growable() bool {
	return a.open != 0 && a.size == cap(a.blocks[a.open]) && a.size < a.blockBytes()
}

// grown returns the size of the first block after it grows by more bytes: half as much again, or what is needed if that
// is more. It exceeds the size of a block only if that much is needed.
func (a *arena) grown(more int) int {
	need := len(a.blocks[a.open]) + more
	return max(need, min(a.size+a.size/2, a.blockBytes()))
}

// makeRoom gives the open block room for this many bytes, or opens another block. It requires that bytes is at most a
// block.
func (a *arena) makeRoom(bytes int) {
	if a.growable() && len(a.blocks[a.open])+bytes <= a.blockBytes() {
		old := a.blocks[a.open]
		bigger := allocate(a.grown(bytes))
		if cap(bigger) > a.blockBytes() {
			bigger = bigger[:0:a.blockBytes()]
		}
		a.blocks[a.open] = append(bigger, old...)
		a.size += cap(bigger) - cap(old)
		return
	}
	a.closeOpenBlock()
	size := a.blockBytes()
	if a.size == 0 {
		size = max(min(smallestBlock, size), bytes)
	}
	a.open = a.add(size)
}

// allocate returns memory with a capacity of at least size bytes, including what Go's allocator adds when it rounds up.
func allocate(size int) []byte { return slices.Grow([]byte(nil), size) }

// closeOpenBlock turns the room at the end of the open block into a free piece.
func (a *arena) closeOpenBlock() {
	if a.open == 0 {
		return
	}
	block := a.blocks[a.open]
	if end := cap(block) &^ (unit - 1); len(block) < end {
		a.blocks[a.open] = block[:end]
		a.link(uint32(a.open)<<a.shift+uint32(len(block)/unit), (end-len(block))/unit)
	}
	a.open = 0
}

// add adds an empty block of size bytes and returns its number.
func (a *arena) add(size int) int {
	if a.next() > 1<<(32-a.shift) {
		panic("a shard has more blocks than places have numbers for") // 16 GB in one shard
	}
	if len(a.blocks) == 0 {
		a.blocks, a.lives = make([][]byte, 1, 2), make([]int, 1, 2)
	}
	block := allocate(size)
	if size == a.blockBytes() {
		block = block[:0:size] // a place cannot address more
	}
	a.size += cap(block)
	if n := len(a.vacant); n > 0 {
		b := a.vacant[n-1]
		a.vacant = a.vacant[:n-1]
		a.blocks[b], a.lives[b] = block, 0
		return int(b)
	}
	a.blocks, a.lives = append(a.blocks, block), append(a.lives, 0)
	return len(a.blocks) - 1
}

// next returns the length of the table of blocks after one more block is added.
func (a *arena) next() int {
	if len(a.vacant) > 0 {
		return len(a.blocks)
	}
	return max(len(a.blocks), 1) + 1
}

// drop removes a block. It requires that none of its free pieces is in a list.
func (a *arena) drop(b int) {
	a.size -= cap(a.blocks[b])
	a.live -= a.lives[b]
	a.blocks[b], a.lives[b] = nil, 0
	a.vacant = append(a.vacant, uint32(b))
	if a.open == b {
		a.open = 0
	}
}

// renumber gives the blocks the lowest numbers, without gaps. It changes all places.
func (a *arena) renumber() {
	blocks, lives := make([][]byte, 1, len(a.blocks)-len(a.vacant)), make([]int, 1, len(a.blocks)-len(a.vacant))
	open := 0
	for b, block := range a.blocks {
		if block == nil {
			continue
		}
		if b == a.open {
			open = len(blocks)
		}
		blocks, lives = append(blocks, block), append(lives, a.lives[b])
	}
	a.blocks, a.lives, a.open, a.vacant = blocks, lives, open, nil
	a.pieces, a.listed = nil, [2]uint64{}
	for b, block := range a.blocks {
		for at := 0; at < len(block); {
			n := unitsOf(block[at:])
			if block[at] == 0 {
				a.link(uint32(b)<<a.shift+uint32(at/unit), n)
			}
			at += n * unit
		}
	}
}

// release frees the n units of a record.
func (a *arena) release(place uint32, n int) {
	b := int(place >> a.shift)
	if cap(a.blocks[b]) > a.blockBytes() {
		a.drop(b)
		return
	}
	a.lives[b] -= n * unit
	a.live -= n * unit
	// Merge the pieces that follow. Free memory at the end of the open block becomes room.
	for {
		rest := a.at(place)[n*unit:]
		if len(rest) == 0 || rest[0] != 0 {
			if len(rest) == 0 && b == a.open {
				a.blocks[b] = a.blocks[b][:len(a.blocks[b])-n*unit]
				return
			}
			break
		}
		n += a.unlink(place + uint32(n))
	}
	a.link(place, n)
}

// pieceUnits returns the number of units of a free piece.
func pieceUnits(piece []byte) int { return int(binary.LittleEndian.Uint32(piece) >> 8) }

// link makes a free piece of n units at place, and adds it to the list of its class unless it is too small.
func (a *arena) link(place uint32, n int) {
	b := a.at(place)
	binary.LittleEndian.PutUint32(b, uint32(n)<<8)
	if n < listedUnits {
		return
	}
	if a.pieces == nil {
		a.pieces = new([classes]uint32)
	}
	class := classIn(n)
	first := a.pieces[class]
	binary.LittleEndian.PutUint32(b[4:], first)
	binary.LittleEndian.PutUint32(b[8:], 0)
	if first != 0 {
		binary.LittleEndian.PutUint32(a.at(first)[8:], place)
	}
	a.pieces[class] = place
	a.listed[class>>6] |= 1 << (class & 63)
}

// unlink removes a free piece from its list, if it is in one, and returns its number of units.
func (a *arena) unlink(place uint32) int {
	b := a.at(place)
	n := pieceUnits(b)
	if n < listedUnits {
		return n
	}
	next, previous := binary.LittleEndian.Uint32(b[4:]), binary.LittleEndian.Uint32(b[8:])
	if next != 0 {
		binary.LittleEndian.PutUint32(a.at(next)[8:], previous)
	}
	if previous != 0 {
		binary.LittleEndian.PutUint32(a.at(previous)[4:], next)
		return n
	}
	class := classIn(n)
	if a.pieces[class] = next; next == 0 {
		a.listed[class>>6] &^= 1 << (class & 63)
	}
	return n
}

// wasteful reports whether so little of the blocks is live that evacuating a block is worth its cost.
func (a *arena) wasteful() bool {
	return a.size > 4*smallestBlock && (4*a.live < a.size || 2*a.live+a.blockBytes() < a.size)
}

// emptiest returns the block with the fewest live bytes, or 0. It leaves out blocks that belong to one record. It also
// leaves out the open block unless it is the only one: its records would only move to the next open block.
func (a *arena) emptiest() (block int) {
	for b := 1; b < len(a.blocks); b++ {
		switch size := cap(a.blocks[b]); {
		case size == 0 || size > a.blockBytes() || b == a.open && size < a.size:
		case block == 0 || a.lives[b] < a.lives[block]:
			block = b
		}
	}
	return block
}

// evacuate moves the records of block b to other blocks and drops b. It calls move for each record; the bytes of the
// record are at both places during the call.
func (a *arena) evacuate(b int, move func(from, to uint32)) {
	block, first := a.blocks[b], uint32(b)<<a.shift
	if a.open == b {
		a.open = 0
	}
	for at := 0; at < len(block); {
		n := unitsOf(block[at:])
		if block[at] == 0 {
			a.unlink(first + uint32(at/unit))
			binary.LittleEndian.PutUint32(block[at:], uint32(n)<<8) // unlisted, so that release does not merge it
		}
		at += n * unit
	}
	if a.open == 0 && a.size == cap(block) && a.lives[b] > 0 { // the only block: replace it by one that is little larger than its records
		a.open = a.add(min(a.lives[b]+a.lives[b]/4, a.blockBytes()))
	}
	for at := 0; at < len(block); {
		n := unitsOf(block[at:])
		if block[at] != 0 {
			to := a.allocate(n)
			copy(a.at(to)[:n*unit], block[at:])
			move(first+uint32(at/unit), to)
			binary.LittleEndian.PutUint32(block[at:], uint32(n)<<8) // now a piece, so that a walk over the blocks meets the record once
		}
		at += n * unit
	}
	a.drop(b)
}
