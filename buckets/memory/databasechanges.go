package memory

import "slices"

// databaseChanges are the flushes and swaps of whole databases since a call of Changes. In the output of the next call they
// stand before the changes of keys: a flush discards the keys that are listed as changed in its database, and a swap takes
// them along, so what is listed describes the databases as they are after all flushes and swaps. Their order among
// themselves does not matter either: they come to some databases being flushed, and then being put in another order.
type databaseChanges struct {
	any     bool
	was     []int  // for each database its number at the last call
	flushed []bool // by the number at the last call
}

func newDatabaseChanges(databases int) databaseChanges {
	c := databaseChanges{was: make([]int, databases), flushed: make([]bool, databases)}
	for n := range c.was {
		c.was[n] = n
	}
	return c
}

func (c *databaseChanges) flush(n int) { c.any, c.flushed[c.was[n]] = true, true }

func (c *databaseChanges) flushAll() {
	for n := range c.was {
		c.flush(n)
	}
}

func (c *databaseChanges) swap(a, b int) {
	c.any = true
	c.was[a], c.was[b] = c.was[b], c.was[a]
}

// append encodes the changes.
func (c *databaseChanges) append(enc Encoder, dst []byte) (out []byte, count int) {
	if !c.any {
		return dst, 0
	}
	if !slices.Contains(c.flushed, false) {
		return enc.AppendFlushAll(dst), 1
	}
	for n, flushed := range c.flushed {
		if flushed {
			dst = enc.AppendFlush(dst, n)
			count++
		}
	}
	have := newDatabaseChanges(len(c.was))
	for n, was := range c.was {
		if have.was[n] != was {
			m := slices.Index(have.was, was)
			dst = enc.AppendSwap(dst, n, m)
			have.swap(n, m)
			count++
		}
	}
	return dst, count
}
