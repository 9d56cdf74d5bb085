package buckets

// table is the memory of one shard: entries in one dense slice, and an index of their places.
//
// The last entry fills the place of a removed one, and new ones go to the end. An entry therefore only ever moves to a
// lower place, which is all that Scan relies on.
type table struct {
	places  map[string]int
	entries []entry
	// deadlines holds the rare EXPIRE deadlines, so that they cost nothing to the keys that have none.
	deadlines map[string]int64
	bytes     int
}

type entry struct {
	key      string
	state    state
	kind     Kind
	deadline bool // there is one in deadlines
}

const entryBytes = 16 + 40 + 8 + 40 // the entry, and its share of the index

func (t *table) find(key []byte) (int, bool) {
	i, ok := t.places[string(key)]
	return i, ok
}

// insert adds an entry; what its state holds outside itself is counted by whoever made it grow.
func (t *table) insert(key []byte, kind Kind, st state) {
	if t.places == nil {
		t.places = make(map[string]int)
		t.deadlines = make(map[string]int64)
	}
	k := string(key)
	t.places[k] = len(t.entries)
	t.entries = append(t.entries, entry{key: k, kind: kind, state: st})
	t.bytes += entryBytes + len(k)
}

func (t *table) remove(i int) {
	e := &t.entries[i]
	t.bytes -= entryBytes + len(e.key) + algorithms[e.kind].bytes(&e.state)
	delete(t.places, e.key)
	if e.deadline {
		delete(t.deadlines, e.key)
	}
	last := len(t.entries) - 1
	if i != last {
		t.entries[i] = t.entries[last]
		t.places[t.entries[i].key] = i
	}
	t.entries[last] = entry{}
	t.entries = t.entries[:last]
	if last == 0 {
		*t = table{}
	}
}

// setDeadline sets the deadline of entry i, or removes it when at is 0.
func (t *table) setDeadline(i int, at int64) {
	e := &t.entries[i]
	e.deadline = at != 0
	if e.deadline {
		t.deadlines[e.key] = at
	} else {
		delete(t.deadlines, e.key)
	}
}
