package buckets

// A scan's cursor is a shard's number in its upper part and a place in that shard's table, plus one, in its lower: the
// entries below that place, and the shards after this one, are still to be visited. A place of 0 stands for the end of
// the table, so the cursor 0 starts from the beginning; it is also what a finished scan returns.
//
// Each shard is visited from its end downwards. An entry only ever moves to a lower place, so one that has not been
// visited cannot slip behind the cursor: every key that lives through the whole scan is visited, some perhaps twice.
// Nothing is remembered between calls, and cursors stay below 2^53 for the clients that hold them in a float.
const cursorPlaces = 32

// Scan visits about count keys that have not expired, calling visit for each, and returns the cursor to go on with: 0
// when all have been visited. Cursors that it did not return are harmless. visit must not call the store, nor keep key.
func (s *Store) Scan(now int64, cursor uint64, count int, visit func(key []byte, kind Kind)) uint64 {
	place := int(cursor & (1<<cursorPlaces - 1))
	for n := cursor >> cursorPlaces; n < uint64(len(s.shards)); n++ {
		place, count = s.shards[n].scan(now, place, count, visit)
		if place > 0 {
			return n<<cursorPlaces | uint64(place)
		}
		if count <= 0 && n+1 < uint64(len(s.shards)) {
			return (n + 1) << cursorPlaces
		}
	}
	return 0
}

// scan visits up to count entries below place (0: the end), and returns where to go on and what is left of count. 0
// means that nothing is left in this shard.
func (s *shard) scan(now int64, place, count int, visit func(key []byte, kind Kind)) (int, int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now = s.at(now)
	var key []byte
	i := len(s.table.entries)
	if place > 0 {
		i = min(i, place)
	}
	for ; i > 0 && count > 0; count-- {
		i--
		if e := &s.table.entries[i]; s.expiry(i) > now {
			key = append(key[:0], e.key...)
			visit(key, e.kind)
		}
	}
	return i, count
}
