package keyspace

import (
	"cellserver/buckets"
	"cellserver/resp/frame"
)

// A store that is no buckets.Databases has database 0 only.

// Database returns the store of database n, or nil if there is none. store may be of any database.
func Database(store buckets.Store, n int) buckets.Store {
	if all, ok := store.(buckets.Databases); ok {
		return all.Database(n)
	}
	if n == 0 {
		return store
	}
	return nil
}

const errDBRange = "ERR value is out of range, value must between -2147483648 and 2147483647"

// ParseDatabase parses the number of a database. fault is the error, or "". There may be no such database.
func ParseDatabase(word []byte) (n int, fault string) {
	i, ok := frame.ParseInt(word)
	switch {
	case !ok:
		return 0, frame.ErrNotInteger
	case i != int64(int32(i)):
		return 0, errDBRange
	}
	return int(i), ""
}

// EachUsed calls visit for every database that has keys, in the order of their numbers, with its number and its store.
func EachUsed(store buckets.Store, visit func(n int, store buckets.Store)) {
	all, ok := store.(buckets.Databases)
	if !ok {
		visit(0, store)
		return
	}
	for _, n := range all.Used() {
		visit(n, all.Database(n))
	}
}

// Stats returns the counters of a store, of all databases.
func Stats(store buckets.Store) buckets.Stats {
	sum := store.Stats()
	sum.Keys, sum.Deadlines, sum.Lasting, sum.Index = 0, 0, 0, 0
	EachUsed(store, func(_ int, store buckets.Store) {
		of := store.Stats()
		sum.Keys += of.Keys
		sum.Deadlines += of.Deadlines
		sum.Lasting += of.Lasting
		sum.Index += of.Index
	})
	return sum
}
