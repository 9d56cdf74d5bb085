package memory

import "cellserver/buckets"

// A scan's cursor is a shard's number in its upper part and a tag in its lower: the keys of that shard whose tags are
// not below it, and the shards after it, are still to be visited. The cursor 0 starts from the beginning; it is also
// what a finished scan returns.
//
// A key's tag never changes, and each step visits all keys of a range of tags, so every key that lives through the
// whole scan is visited exactly once, whatever is added or removed meanwhile and however the index grows or shrinks.
// The store keeps nothing between calls. Cursors stay below 2^53, for clients that hold them in a float.
const cursorTagBits = 32

// scan visits about count keys that have not expired, calling visit for each, and returns the cursor to go on with: 0
// when all have been visited. Cursors that it did not return are harmless. visit must not call the store, nor keep key.
func (s *Store) scan(now int64, cursor uint64, count int, visit func(key []byte, kind buckets.Kind)) uint64 {
	tag := uint32(cursor)
	for n := cursor >> cursorTagBits; n < uint64(len(s.shards)); n++ {
		s.withShard(int(n), func(sh *shard) { tag, count = sh.scan(now, tag, count, visit) })
		if tag > 0 {
			return n<<cursorTagBits | uint64(tag)
		}
		if count <= 0 && n+1 < uint64(len(s.shards)) {
			return (n + 1) << cursorTagBits
		}
	}
	return 0
}

// scan visits about count keys whose tags are from on, and returns the tag to go on from and what is left of count. A
// tag of 0 means that nothing is left in this shard.
func (s *shard) scan(now int64, from uint32, count int, visit func(key []byte, kind buckets.Kind)) (uint32, int) {
	now = s.advance(now)
	if s.table.count == 0 {
		return 0, count
	}
	// Those whose homes are from first on, and before end, stand from first on, up to the first empty slot at or after
	// end; at the end of the index they go on at its beginning.
	first, n := s.table.home(from), len(s.table.slots)
	end := n
	var key []byte
	for i := first; i < end || s.table.slots[i%n] != emptySlot; i++ {
		content := s.table.slots[i%n]
		if content <= removedSlot {
			continue
		}
		place := s.table.place(content)
		r := s.table.at(place)
		tag := s.table.tag(r)
		home := s.table.home(tag)
		if wrapped := home > i%n; wrapped != (i >= n) || tag < from || home >= end {
			continue
		}
		if count--; count <= 0 && i < end {
			end = min(i+1, n)
		}
		if kind := s.load(place); s.expiry(place, kind) > now {
			key = append(key[:0], keyOf(r)...)
			visit(key, kind)
		}
	}
	if end == n {
		return 0, count
	}
	return uint32(s.table.firstTag(end)), count
}
