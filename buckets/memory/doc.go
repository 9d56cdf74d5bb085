// Package memory is a [buckets.Store] in the memory of one process. The server runs on it, and so can any Go program that
// wants rate limits without a server: [NewStore], then [Store.Take] for one limit, or [Store.Apply] for several at once.
//
// All methods may be called at the same time, and each operation is atomic, also one on several keys. None of them reads a
// clock: the caller passes the time as nanoseconds of Unix time. Should two callers bring their readings in the wrong order,
// the store decides at the later one.
//
// # What the caller has to do
//
// Keys whose bucket is full again are forgotten when a request meets them. For those that nobody asks for, the program calls
// [Store.Sweep] from a goroutine of its own: each call does one step, which takes some tens of microseconds at most.
// [Store.SetMemory] bounds what the keys may take; without it there is no bound.
//
// # How it is built
//
// The keys are spread over 2^k shards by a hash with a random seed. Each shard is a mutex, an arena, and an index:
//
//   - The arena holds the records, one for each key: the key, its state and its expiry, as bytes in blocks without pointers.
//     The garbage collector does not look into them, so ten million keys cost it nothing.
//   - The index is a table of integers that finds the record of a key by its hash.
//   - The log of a sliding window is a ring in the record of its key.
//
// An operation on several keys locks their shards in the order of their numbers. A request of one limit on a key that has a
// record changes the record in place and allocates nothing.
//
// # Persistence
//
// The package knows no files. Package persistence takes snapshots with [Store.Copy], which copies one shard at a time, follows
// the changes with [Store.Track] and [Store.Changes], and loads with [Store.Restore] and its kin.
package memory
