package memory

import (
	"math/bits"
	"slices"
)

// index finds the places of records by the tags of their keys. It is a hash table with linear probing and holds no
// keys, not even whole tags: a slot is the lower bits of a tag above a place, 32 bits together. The home of a tag is its
// share of the slots, so they are nearly in the order of the tags, whatever their number: Scan relies on it.
//
// What has been taken out leaves removedSlot behind, so that nothing has to be moved (the homes of what follows are
// not known without its keys); it goes when the index is made anew.
type index struct {
	slots  []uint32
	bits   uint8 // of a slot are the place
	filled int   // slots that are not empty
}

const (
	emptySlot   = 0
	removedSlot = 1

	smallestIndex = 8
)

// tagOf is the part of a hash that the index uses; the shard was chosen by the lower part.
func tagOf(hash uint64) uint32 { return uint32(hash >> 32) }

// home returns the slot from which a tag is looked for.
func (x *index) home(tag uint32) int { return int(uint64(tag) * uint64(len(x.slots)) >> 32) }

// firstTag returns the lowest tag whose home is not before slot.
func (x *index) firstTag(slot int) uint64 {
	return (uint64(slot)<<32 + uint64(len(x.slots)) - 1) / uint64(len(x.slots))
}

// place returns the place in a slot's content.
func (x *index) place(content uint32) uint32 { return content & (1<<x.bits - 1) }

// addSlot adds a record. It requires that there is an empty slot.
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

// slot returns the slot of a record that is in it.
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
	// Nothing is looked for beyond it, nor beyond what was removed before it.
	for {
		x.slots[i] = emptySlot
		x.filled--
		if i = (i + n - 1) % n; x.slots[i] != removedSlot {
			return
		}
	}
}

// overfull reports whether another record needs a larger index. The index is made anew when more than 13/16 of it are
// filled, or less than a quarter is in use, with 20/13 slots for each record: while it grows it is between 13/20 and 13/16
// full.
func (x *index) overfull() bool { return 16*(x.filled+1) > 13*len(x.slots) }

func (x *index) underfull(records int) bool {
	return len(x.slots) > 4*smallestIndex && 4*records < len(x.slots)
}

// slotsFor returns how many slots there are when it is made for so many records.
func slotsFor(records int) int { return max(smallestIndex, 20*records/13+1) }

// clear makes it an empty one for so many records in places below places, which take at least so many bits.
func (x *index) clear(records, places int, least uint8) {
	n := slotsFor(records)
	slots := slices.Grow([]uint32(nil), n)
	*x = index{slots: slots[:min(cap(slots), n+n/8)], bits: max(least, uint8(min(bits.Len(uint(places)), 32)))}
}
