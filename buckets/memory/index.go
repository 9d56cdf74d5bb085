package memory

import (
	"math/bits"
	"slices"
)

// index finds the place of a record by the tag of its key. It is a hash table with linear probing. It holds no keys and
// not even whole tags: a slot has 32 bits, the low bits of a tag above a place. The home slot of a tag is proportional to
// the tag, so the slots are nearly in the order of the tags whatever their number; Scan relies on that.
//
// Removing a record leaves removedSlot behind, because moving the slots that follow would need their whole tags.
// Rebuilding the index drops these slots.
type index struct {
	slots  []uint32
	bits   uint8 // number of low bits of a slot that hold the place
	filled int   // number of slots that are not empty, including removed ones
}

const (
	emptySlot   = 0
	removedSlot = 1

	smallestIndex = 8
)

// tagOf returns the part of a hash that the index uses. The low bits of the hash choose the shard.
func tagOf(hash uint64) uint32 { return uint32(hash >> 32) }

// home returns the slot at which the search for a tag begins.
func (x *index) home(tag uint32) int { return int(uint64(tag) * uint64(len(x.slots)) >> 32) }

// firstTag returns the lowest tag whose home is at or after slot.
func (x *index) firstTag(slot int) uint64 {
	return (uint64(slot)<<32 + uint64(len(x.slots)) - 1) / uint64(len(x.slots))
}

// place returns the place in the content of a slot.
func (x *index) place(content uint32) uint32 { return content & (1<<x.bits - 1) }

// addSlot adds a record. It requires that a slot is free.
func (x *index) addSlot(tag, place uint32) {
	i := x.home(tag)
	for x.slots[i] > removedSlot {
		if i++; i == len(x.slots) {
			i = 0
		}
	}
	if x.slots[i] == emptySlot {
		x.filled++
	}
	x.slots[i] = tag<<x.bits | place
}

// slot returns the slot of a record. It requires that the index contains the record.
func (x *index) slot(tag, place uint32) int {
	i, content := x.home(tag), tag<<x.bits|place
	for x.slots[i] != content {
		if i++; i == len(x.slots) {
			i = 0
		}
	}
	return i
}

// move changes the place of a record.
func (x *index) move(tag, from, to uint32) { x.slots[x.slot(tag, from)] = tag<<x.bits | to }

// remove removes a record.
func (x *index) remove(tag, place uint32) {
	i, n := x.slot(tag, place), len(x.slots)
	if x.slots[(i+1)%n] != emptySlot {
		x.slots[i] = removedSlot
		return
	}
	// The next slot is empty, so no search passes this slot or the removed slots before it: empty them.
	for {
		x.slots[i] = emptySlot
		x.filled--
		if i = (i + n - 1) % n; x.slots[i] != removedSlot {
			return
		}
	}
}

// overfull reports whether adding a record needs a larger index. The index is rebuilt with 20/13 slots for each record
// when more than 13/16 of the slots would be filled, or when less than a quarter is in use. So while it grows, between
// 13/20 and 13/16 of it are filled.
func (x *index) overfull() bool { return 16*(x.filled+1) > 13*len(x.slots) }

func (x *index) underfull(records int) bool {
	return len(x.slots) > 4*smallestIndex && 4*records < len(x.slots)
}

// slotsFor returns the number of slots of an index that is built for this many records.
func slotsFor(records int) int { return max(smallestIndex, 20*records/13+1) }

// clear empties the index, and makes it large enough for this many records at places below places. Places get at least
// least bits.
func (x *index) clear(records, places int, least uint8) {
	n := slotsFor(records)
	slots := slices.Grow([]uint32(nil), n)
	*x = index{slots: slots[:min(cap(slots), n+n/8)], bits: max(least, uint8(min(bits.Len(uint(places)), 32)))}
}
