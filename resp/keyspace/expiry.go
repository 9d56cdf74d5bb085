// Package keyspace reads the arguments of the commands on keys and databases, and computes what they answer. It knows nothing of
// connections.
package keyspace

import (
	"fmt"
	"math"

	"cellserver/buckets"
	"cellserver/resp/frame"
)

// millisecond is in nanoseconds.
const millisecond = int64(1e6)

// The errors of conditions, in Redis's words.
const (
	errNXWithOthers = "ERR NX and XX, GT or LT options at the same time are not compatible"
	errGTWithLT     = "ERR GT and LT options at the same time are not compatible"
	errExpireOption = "ERR Unsupported option %s"
)

// ParseCondition parses NX, XX, GT and LT. fault is the error, or "".
func ParseCondition(words [][]byte) (c buckets.Condition, fault string) {
	for _, w := range words {
		switch {
		case frame.Is(w, "NX"):
			c |= buckets.IfNone
		case frame.Is(w, "XX"):
			c |= buckets.IfSome
		case frame.Is(w, "GT"):
			c |= buckets.IfLater
		case frame.Is(w, "LT"):
			c |= buckets.IfEarlier
		default:
			return 0, fmt.Sprintf(errExpireOption, w)
		}
	}
	switch {
	case c&buckets.IfNone != 0 && c != buckets.IfNone:
		return 0, errNXWithOthers
	case c&buckets.IfLater != 0 && c&buckets.IfEarlier != 0:
		return 0, errGTWithLT
	}
	return c, ""
}

// ParseDeadline parses a time in units of unit milliseconds that counts from base nanoseconds of Unix time, and returns it in
// nanoseconds of Unix time. command is the name for the error; fault is the error, or "".
func ParseDeadline(word []byte, unit, base int64, command string) (at int64, fault string) {
	n, ok := frame.ParseInt(word)
	if !ok {
		return 0, frame.ErrNotInteger
	}
	// A time that overflows in milliseconds is refused as in Redis. One that overflows only in nanoseconds is later than any
	// bucket can be full, and becomes the latest time at which a key expires.
	if n > math.MaxInt64/unit || n < math.MinInt64/unit || n*unit > math.MaxInt64-base/millisecond {
		return 0, fmt.Sprintf(frame.ErrInvalidExpire, command)
	}
	if ms := n * unit; ms <= (math.MaxInt64-base)/millisecond {
		return base + max(ms, -base/millisecond)*millisecond, ""
	}
	return buckets.NoExpiry - 1, ""
}

// The replies to TTL, PTTL, EXPIRETIME and PEXPIRETIME for a key that expires. Milliseconds are rounded up; seconds are rounded to
// the nearest from milliseconds, as in Redis.

// TTL returns the seconds until a key expires.
func TTL(i buckets.Info) int64 { return nearestSecond(PTTL(i)) }

// PTTL returns the milliseconds until a key expires.
func PTTL(i buckets.Info) int64 { return buckets.CeilDiv(i.Expiry-i.Now, millisecond) }

// ExpireTime returns the second of Unix time at which a key expires.
func ExpireTime(i buckets.Info) int64 { return nearestSecond(PExpireTime(i)) }

// PExpireTime returns the millisecond of Unix time at which a key expires.
func PExpireTime(i buckets.Info) int64 { return buckets.CeilDiv(i.Expiry, millisecond) }

func nearestSecond(ms int64) int64 { return (ms + 500) / 1000 }
