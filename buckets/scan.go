package buckets

// A scan's cursor is a shard's number in its upper part and a tag in its lower: the keys of that shard whose tags are
// not below it, and the shards after it, are still to be visited. The cursor 0 starts from the beginning; it is also
// what a finished scan returns.
//
// A key's tag never changes, and each step visits all keys of a range of tags, so every key that lives through the
// whole scan is visited exactly once, whatever is added or removed meanwhile and however the index grows or shrinks.
// Nothing is remembered between calls, and cursors stay below 2^53 for the clients that hold them in a float.
const cursorTagBits = 32

// Scan visits about count keys that have not expired, calling visit for each, and returns the cursor to go on with: 0
// when all have been visited. Cursors that it did not return are harmless. visit must not call the store, nor keep key.
func (s *Store) Scan(now int64, cursor uint64, count int, visit func(key []byte, kind Kind)) uint64 {
	tag := uint32(cursor)
	for n := cursor >> cursorTagBits; n < uint64(len(s.shards)); n++ {
		s.visit(int(n), func(sh *shard) { tag, count = sh.scan(now, tag, count, visit) })
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
func (s *shard) scan(now int64, from uint32, count int, visit func(key []byte, kind Kind)) (uint32, int) {
	now = s.at(now)
	if s.table.count == 0 {
		return 0, count
	}
	var key []byte
	for home := s.table.home(from); home < len(s.table.index); home++ {
		if count <= 0 {
			return uint32(home) << s.table.shift, count
		}
		// What has this home stands behind it, before the next empty slot.
		for slot := home; s.table.index[slot] != 0; slot = s.table.next(slot) {
			tag := uint32(s.table.index[slot] >> 32)
			if s.table.home(tag) != home || tag < from {
				continue
			}
			count--
			if kind := s.look(slot); s.expiry(slot, kind) > now {
				key = append(key[:0], s.table.key(slot)...)
				visit(key, kind)
			}
		}
	}
	return 0, count
}
