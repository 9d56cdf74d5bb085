// Package buckets decides whether a request may happen now. It holds the rate limits themselves: what a limit is, what is
// stored of a key, how a request is decided, and what a store of many keys must be able to do.
//
// # Limits and decisions
//
// A [Limit] holds the checked parameters of one algorithm:
//
//   - [NewThrottle]: GCRA, a token bucket. So many requests per period on average, and a burst beyond that at once.
//   - [NewWindow] and [NewAlignedWindow]: a fixed window. So many requests, until the window ends.
//   - [NewSlide]: an exact sliding window. Never more than so many requests in any period.
//
// A [State] is what one key holds. [State.Take] decides on a request and changes the state; [State.Peek] answers without
// changing it. Both fill in a [Decision]: admitted or refused, how much is left, how long to wait. The zero State is a
// bucket that nothing has been taken from. A bucket that is full again at [State.FullAt] needs no state any more, so a store
// may forget the key.
//
// # Time
//
// Time is an argument: now is int64 nanoseconds of Unix time, and periods are int64 nanoseconds. This package reads no clock,
// so tests choose any time they like. All arithmetic is in integers that saturate; nothing overflows and nothing is rounded
// before the result is shown.
//
// # Stores
//
// [Store] is the contract of a store of many keys: [Store.Apply] carries out a batch of operations ([Op]), each atomic by
// itself, and what only some stores can do are interfaces beside it ([Decider], [Batcher], [Atomic], [Watcher]). Package
// cellserver/buckets/memory implements all of them in memory. [State.AppendBinary] and [State.UnmarshalBinary] are for a
// store that keeps states elsewhere; the format is described in persistence/FORMAT.md.
//
// # Files
//
// Each algorithm is one file (throttle.go, window.go, zslide.go), which opens with its derivation and ends with its row in the
// table of algorithm.go. Everything may import this package, and it imports none of the others.
package buckets
