// Package buckets decides whether a request may happen now. It holds the rate limits themselves: the parameters of a limit,
// the state of a key, the decision on a request, and the contract of a store of many keys.
//
// # Limits and decisions
//
// A [Limit] holds the checked parameters of one algorithm:
//
//   - [NewThrottle]: GCRA, a token bucket. On average count requests per period, and a burst beyond that at once.
//   - [NewWindow] and [NewAlignedWindow]: a fixed window. At most limit requests until the window ends.
//   - [NewSlide]: an exact sliding window. At most limit requests in any period.
//
// A [State] is what one key holds. [State.Take] decides on a request and changes the state; [State.Peek] answers without
// changing it. Both fill in a [Decision]: admitted or refused, how much is left, how long to wait. The zero State is a full
// bucket. A bucket that is full again at [State.FullAt] needs no state any more, so a store may forget the key.
//
// # Time
//
// Time is an argument: now is int64 nanoseconds of Unix time, and periods are int64 nanoseconds. This package reads no clock,
// so tests choose any time they like. All arithmetic is on integers and saturates. Times are rounded only when a reply
// shows them.
//
// # Stores
//
// [Store] is the contract of a store of many keys. [Store.Apply] carries out a batch of operations ([Op]), each of which is
// atomic. What only some stores can do is in further interfaces ([Decider], [Batcher], [Atomic], [Watcher]). Package
// cellserver/buckets/memory implements all of them in memory. [State.AppendBinary] and [State.UnmarshalBinary] are for a
// store that keeps states elsewhere; persistence/FORMAT.md describes the format.
//
// # Files
//
// Each algorithm is one file (throttle.go, window.go, zslide.go), which opens with its derivation and ends with its row in the
// table of algorithm.go. Every package may import this one, and it imports none of the others.
package buckets
