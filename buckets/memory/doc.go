// Package memory is a [buckets.Store] in the memory of one process. The server runs on it, and so can any Go program that
// wants rate limits without a server: [NewStore], then [Store.Take] for one limit, or [Store.Apply] for several at once.
//
// All methods may be called concurrently, and each operation is atomic, also one on several keys. None of them reads a clock:
// the caller passes the time as nanoseconds of Unix time. If two callers pass their readings in the wrong order, the store
// decides at the later one.
//
// # What the caller has to do
//
// A key whose bucket is full again is removed when a request uses it. To remove the keys that no request uses, the program calls
// [Store.Sweep] from a goroutine: each call does one step, which takes some tens of microseconds at most. [Store.SetMemory]
// bounds the memory of the keys; without it there is no bound.
//
// # How it is built
//
// The keys are spread over 2^k shards by a hash with a random seed. Each shard is a mutex and, for each database of which it has
// keys, an arena and an index:
//
//   - The arena holds the records, one for each key: the key and its state, as bytes in blocks without pointers. The
//     garbage collector does not scan them, so ten million keys cost it nothing.
//   - The index is a hash table of integers that finds the record of a key.
//   - The log of a sliding window is a ring in the record of its key.
//
// A key is in the same shard in every database, so moving it to another one concerns one shard. What concerns no key is common to
// all databases: the sweep, the bound on memory, copies and changes.
//
// An operation on several keys locks their shards in the order of their numbers. A request of one limit on a key that has a
// record changes the record in place and allocates nothing.
//
// # Persistence
//
// This package does not use files. Package persistence takes snapshots with [Store.Copy], which copies one shard at a time,
// journals the changes with [Store.Track] and [Store.Changes], and loads with [Store.Restore], [Store.Amend] and related methods.
package memory
