package memory

import "cellserver/buckets"

// The cursor of a scan has the number of a shard in its upper part and a tag in its lower part. The keys of that shard
// with this tag or a higher one, and the shards after it, are still to be visited. The cursor 0 begins a scan, and also
// means that it is finished.
//
// The tag of a key never changes, and each step visits all keys of a range of tags. So every key that exists during the
// whole scan is visited exactly once, whatever is added or removed meanwhile and however the index is rebuilt. The store
// keeps no state between calls. Cursors stay below 2^53, for clients that store them in a float.
const cursorTagBits = 32

// scan visits about count keys that have not expired, and returns the cursor for the next call, or 0 when all have been
// visited. A cursor that it did not return is harmless. visit must not call the store and must not keep key.
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

// scan visits about count keys whose tags are at least from. It returns the tag to continue with, or 0 when the shard has
// no more keys, and the rest of count.
func (s *shard) scan(now int64, from uint32, count int, visit func(key []byte, kind buckets.Kind)) (uint32, int) {
	now = s.advance(now)
	if s.table.count == 0 {
		return 0, count
	}
	// The keys whose homes are in [first, end) are in the slots from first up to the first empty slot at or after end. At
	// the end of the index they wrap around to its beginning.
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
