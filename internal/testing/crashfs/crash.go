package crashfs

import (
	"maps"
	"math/rand/v2"
	"path/filepath"
	"slices"
)

// Bytes is what a loss of power leaves of the bytes that were written since the last Sync of their file.
type Bytes int

// What may be left of them. For each there is a disk, and a file system, that does so.
const (
	BytesLost   Bytes = iota // nothing
	BytesPrefix              // what was done first, up to a byte chosen at random
	BytesZeros               // every length; of the bytes those up to one chosen at random, and zeros for the others
	BytesKept                // everything
)

// Names is what a loss of power leaves of the creations, renamings and removals since the last SyncDir of their directory.
type Names int

// What may be left of them.
const (
	NamesLost Names = iota // nothing
	NamesSome              // each at random, but none whose name an earlier one that did not happen had to do with
	NamesKept              // everything
)

// Outcome is one way in which a machine may come back.
type Outcome struct {
	Bytes Bytes
	Names Names
	Seed  uint64 // what is chosen at random depends on it, and on nothing else
}

// Outcomes returns each combination of what may be left, those that choose at random with as many seeds as are asked for.
func Outcomes(seeds int) (all []Outcome) {
	for b := BytesLost; b <= BytesKept; b++ {
		for n := NamesLost; n <= NamesKept; n++ {
			times := 1
			if b == BytesPrefix || b == BytesZeros || n == NamesSome {
				times = seeds
			}
			for seed := range times {
				all = append(all, Outcome{Bytes: b, Names: n, Seed: uint64(seed)})
			}
		}
	}
	return all
}

// Crash returns the file system as it may be found after the power went off at this moment. The one it is called on goes
// on as if nothing had happened.
func (f *FS) Crash(o Outcome) *FS {
	f.mu.Lock()
	defer f.mu.Unlock()
	random := rand.New(rand.NewPCG(o.Seed, 0))
	names := maps.Clone(f.durable)
	undone := map[string]bool{}
	for _, c := range f.pending {
		happened := o.Names == NamesKept || o.Names == NamesSome && random.IntN(2) == 0
		if !happened || undone[c.from] || undone[c.to] {
			for _, name := range []string{c.from, c.to} {
				if name != "" {
					undone[name] = true
				}
			}
			continue
		}
		c.apply(names)
	}
	found := New()
	for _, path := range slices.Sorted(maps.Keys(names)) { // in order, so that a seed means the same each time
		found.WriteFile(path, names[path].crash(o.Bytes, random))
	}
	return found
}

// crash returns what is left of the bytes of a file.
func (n *inode) crash(left Bytes, random *rand.Rand) []byte {
	data := slices.Clone(n.durable)
	if left == BytesLost || len(n.since) == 0 {
		return data
	}
	steps := 0 // one for each byte and each truncation
	for _, w := range n.since {
		steps += w.steps()
	}
	good := steps
	if left != BytesKept {
		good = random.IntN(steps + 1)
	}
	for _, w := range n.since {
		if take := min(good, w.steps()); take < w.steps() {
			if left == BytesPrefix {
				return w.first(take).apply(data)
			}
			w.data = slices.Clone(w.data)
			clear(w.data[min(take, len(w.data)):])
		}
		good -= min(good, w.steps())
		data = w.apply(data)
	}
	return data
}

func (w write) steps() int {
	if w.truncate {
		return 1
	}
	return len(w.data)
}

// first returns the change as far as it gets in some steps, fewer than it has.
func (w write) first(steps int) write {
	if w.truncate {
		return write{} // not at all
	}
	w.data = w.data[:steps]
	if steps == 0 {
		return write{}
	}
	return w
}

// change is one change of names: a creation has no from, a removal no to. All of it is in one directory.
type change struct {
	from, to string
	node     *inode
}

func (c change) dir() string {
	if c.from != "" {
		return filepath.Dir(c.from)
	}
	return filepath.Dir(c.to)
}

func (c change) apply(names map[string]*inode) {
	if c.from != "" {
		delete(names, c.from)
	}
	if c.to != "" {
		names[c.to] = c.node
	}
}

// apply makes a change that the program sees at once.
func (f *FS) apply(c change) {
	c.apply(f.names)
	f.pending = append(f.pending, c)
}
