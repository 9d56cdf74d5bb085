package acl

// set is a set of commands, by their Index. The sets of one table have the same length.
type set []uint64

func newSet(commands int) set { return make(set, (commands+63)/64) }

func (s set) has(i int) bool {
	word := uint(i) / 64
	return word < uint(len(s)) && s[word]&(1<<(uint(i)%64)) != 0
}

func (s set) add(i int) { s[i/64] |= 1 << (i % 64) }

// with adds all of another set.
func (s set) with(other set) {
	for i, word := range other {
		s[i] |= word
	}
}

// without removes all of another set.
func (s set) without(other set) {
	for i, word := range other {
		s[i] &^= word
	}
}

// covers reports whether s contains all of another set.
func (s set) covers(other set) bool {
	for i, word := range other {
		if word&^s[i] != 0 {
			return false
		}
	}
	return true
}

// ordered is a map that keeps the order of insertion. Adding and removing take constant time, so that applying rules
// takes time in proportion to their number.
type ordered[K comparable, V any] struct {
	entries []entry[K, V]
	at      map[K]int
}

type entry[K comparable, V any] struct {
	key     K
	value   V
	removed bool
}

// find returns a pointer to the value of a key, valid until the next put, or nil if there is none.
func (o *ordered[K, V]) find(key K) *V {
	if i, known := o.at[key]; known {
		return &o.entries[i].value
	}
	return nil
}

// put sets the value of a key. A new key is added at the end.
func (o *ordered[K, V]) put(key K, value V) {
	if there := o.find(key); there != nil {
		*there = value
		return
	}
	if o.at == nil {
		o.at = make(map[K]int)
	}
	o.at[key] = len(o.entries)
	o.entries = append(o.entries, entry[K, V]{key: key, value: value})
}

func (o *ordered[K, V]) remove(key K) (was bool) {
	i, was := o.at[key]
	if was {
		o.entries[i].removed = true
		delete(o.at, key)
	}
	return was
}

func (o *ordered[K, V]) clear() { *o = ordered[K, V]{} }

// each calls visit for each key, in order.
func (o *ordered[K, V]) each(visit func(key K, value V)) {
	for _, e := range o.entries {
		if !e.removed {
			visit(e.key, e.value)
		}
	}
}

// lower returns s with ASCII letters in lower case.
func lower(s string) string {
	for i := range len(s) {
		if 'A' <= s[i] && s[i] <= 'Z' {
			b := []byte(s)
			for j := i; j < len(b); j++ {
				if 'A' <= b[j] && b[j] <= 'Z' {
					b[j] += 'a' - 'A'
				}
			}
			return string(b)
		}
	}
	return s
}
