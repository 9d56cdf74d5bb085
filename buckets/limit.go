package buckets

import (
	"math"
	"math/bits"
)

// MaxPeriod is the longest period, and the longest time in which a full bucket may refill: 4611686018 seconds (146 years)
// in nanoseconds. It is half of the range of int64, so that a time of this century plus a period does not overflow.
const MaxPeriod int64 = 4611686018 * 1e9

// Error is a constant error of this package.
type Error string

// Error returns the text.
func (e Error) Error() string { return string(e) }

// Errors of the constructors of Limit.
const (
	// ErrBurstRange is returned when max_burst is negative, or so large that max_burst + 1 overflows an int64.
	ErrBurstRange = Error("max_burst must be between 0 and 9223372036854775806")
	// ErrCountRange is returned when the count of requests per period is below 1.
	ErrCountRange = Error("count must be between 1 and 9223372036854775807")
	// ErrLimitRange is returned when the limit of a window is below 1.
	ErrLimitRange = Error("limit must be between 1 and 9223372036854775807")
	// ErrPeriodRange is returned when a period is below 1 ns or above MaxPeriod.
	ErrPeriodRange = Error("period must be a number of seconds greater than 0 and at most 4611686018")
	// ErrOffsetRange is returned when the offset of calendar windows is further from 0 than MaxPeriod.
	ErrOffsetRange = Error("offset must be a number of seconds")
	// ErrRateTooFast is returned when rounding the emission interval down to whole nanoseconds would change the rate by
	// more than one percent.
	ErrRateTooFast = Error("rate is too fast: count does not divide period")
	// ErrBurstTooLarge is returned when a full bucket would take longer than MaxPeriod to refill.
	ErrBurstTooLarge = Error("max_burst is too large for this rate: a full bucket must refill within 4611686018 seconds")
)

// Errors of a Store. The operation that fails has changed nothing.
const (
	// ErrWrongKind is returned when the key holds a bucket of another kind than the limit.
	ErrWrongKind = Error("the key holds another kind of bucket")
	// ErrLogFull is returned when admitting a request would need one more record than a sliding log may have.
	ErrLogFull = Error("the log of this key is full")
	// ErrNoMemory is returned when a request needs memory beyond the limit of the store, and the store may not evict
	// keys.
	ErrNoMemory = Error("out of memory")
	// ErrNoKey is returned when the key to rename does not exist.
	ErrNoKey = Error("no such key")
	// ErrNoDatabase is returned when there is no database of the given number.
	ErrNoDatabase = Error("no such database")
	// ErrSameKey is returned when an update names a key twice.
	ErrSameKey = Error("the same key is named twice")
	// ErrUnknownOp is returned for an OpCode that the store does not know.
	ErrUnknownOp = Error("unknown operation")
	// ErrCrossSlot is returned when an operation names several keys that the store keeps apart from each other, so that it
	// cannot change them as one.
	ErrCrossSlot = Error("the keys are in different slots")
	// ErrNotOffered is returned for an operation that the store cannot carry out.
	ErrNotOffered = Error("the store does not offer this")
	// ErrForeignValue is returned when a key of the store holds a value that this program has not written.
	ErrForeignValue = Error("the key holds a value that cellserver has not written")
	// ErrTooFewReplicas is returned when a change was made, but too few replicas of the store have confirmed it in time.
	ErrTooFewReplicas = Error("not enough good replicas to write")
)

// Unavailable is the error of an operation that a Remote store could not carry out, because the other program is away, too
// slow, or refuses. The operation may still have changed the key if Unknown is set: then the request was sent, and the
// answer is missing.
type Unavailable struct {
	Reason  string
	Unknown bool
}

// Error returns the reason.
func (e *Unavailable) Error() string { return e.Reason }

// exactBelow is the emission interval, in nanoseconds, from which on rounding down changes a rate by at most one percent.
// A shorter interval must be exact.
const exactBelow = 100

// Limit is one checked limit: a kind and its parameters. The zero Limit has the kind None and decides nothing. Make one
// with NewThrottle, NewWindow, NewAlignedWindow or NewSlide.
type Limit struct {
	kind     Kind
	aligned  bool  // Window: windows start on the calendar
	limit    int64 // the most that can be admitted at once
	interval int64 // Throttle: the emission interval in nanoseconds
	period   int64 // Window, Slide: nanoseconds
	offset   int64 // aligned Window: a time at which a window starts, in nanoseconds of Unix time
}

// Kind returns the algorithm that decides for this limit.
func (l *Limit) Kind() Kind { return l.kind }

// Max returns the most that can be admitted at once.
func (l *Limit) Max() int64 { return l.limit }

// Period returns the period in nanoseconds of a Window or a Slide limit, and 0 for others.
func (l *Limit) Period() int64 { return l.period }

// FullAfter returns when a bucket of this limit that is full is full again, if quantity is taken at now.
func (l *Limit) FullAfter(now, quantity int64) int64 {
	return algorithms[l.kind].fullAfter(l, now, quantity)
}

// NewThrottle makes a GCRA limit of count requests per period (nanoseconds) on average, and maxBurst more at once.
//
// The emission interval, period / count, is rounded down to whole nanoseconds. An interval below 100 ns must be exact
// (ErrRateTooFast). A full bucket must refill within MaxPeriod (ErrBurstTooLarge).
func NewThrottle(maxBurst, count, period int64) (Limit, error) {
	switch {
	case maxBurst < 0 || maxBurst == math.MaxInt64:
		return Limit{}, ErrBurstRange
	case count < 1:
		return Limit{}, ErrCountRange
	case period < 1 || period > MaxPeriod:
		return Limit{}, ErrPeriodRange
	}
	interval := period / count
	if interval < exactBelow && (interval == 0 || period%count != 0) {
		return Limit{}, ErrRateTooFast
	}
	limit := maxBurst + 1
	if over, capacity := bits.Mul64(uint64(limit), uint64(interval)); over != 0 || capacity > uint64(MaxPeriod) {
		return Limit{}, ErrBurstTooLarge
	}
	return Limit{kind: Throttle, limit: limit, interval: interval}, nil
}

// NewWindow makes a fixed window: at most limit in a window of period nanoseconds. A window opens with its first
// admission.
func NewWindow(limit, period int64) (Limit, error) {
	return newWindow(Limit{kind: Window, limit: limit, period: period})
}

// NewAlignedWindow makes a fixed window whose windows start at offset + n*period of Unix time, in nanoseconds, for every
// integer n.
func NewAlignedWindow(limit, period, offset int64) (Limit, error) {
	if offset < -MaxPeriod || offset > MaxPeriod {
		return Limit{}, ErrOffsetRange
	}
	return newWindow(Limit{kind: Window, limit: limit, period: period, aligned: true, offset: offset})
}

// NewSlide makes an exact sliding window: at most limit in any interval of period nanoseconds.
func NewSlide(limit, period int64) (Limit, error) {
	return newWindow(Limit{kind: Slide, limit: limit, period: period})
}

func newWindow(l Limit) (Limit, error) {
	switch {
	case l.limit < 1:
		return Limit{}, ErrLimitRange
	case l.period < 1 || l.period > MaxPeriod:
		return Limit{}, ErrPeriodRange
	}
	return l, nil
}
