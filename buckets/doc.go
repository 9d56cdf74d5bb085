// Package buckets decides whether a request may happen now, and keeps the state those decisions rest on.
//
// It has two halves. The decisions are pure functions of values, one file per algorithm: given a [Limit], what is
// stored, the time and a quantity, they return what to store and a [Decision]. They read no clock, allocate nothing,
// and cannot fail. The [Store] is the sharded map that holds what they return, and the key space around it.
//
// Time is an argument everywhere: int64 nanoseconds of Unix time. Nothing in this package reads a clock.
package buckets
