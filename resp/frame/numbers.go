package frame

import (
	"math"

	"cellserver/buckets"
)

// second is in nanoseconds.
const second = int64(1e9)

// ParseLooseInt parses [+-]?[0-9]+ within int64, and nothing else: the integers of limit commands.
func ParseLooseInt(b []byte) (int64, bool) {
	negative := false
	if len(b) > 0 && (b[0] == '-' || b[0] == '+') {
		negative = b[0] == '-'
		b = b[1:]
	}
	if len(b) == 0 {
		return 0, false
	}
	var n uint64
	for _, c := range b {
		d := uint64(c - '0')
		if d > 9 || n > math.MaxInt64/10 {
			return 0, false
		}
		n = n*10 + d // at most MaxInt64 + 2
	}
	switch {
	case negative && n <= -math.MinInt64:
		return -int64(n), true
	case n <= math.MaxInt64:
		return int64(n), true
	}
	return 0, false
}

// ParseInt parses an integer as Redis reads one: digits with an optional minus, no plus, no leading zeros, within
// int64. Only limit commands take what ParseLooseInt takes beyond that.
func ParseInt(b []byte) (int64, bool) {
	if len(b) == 0 || len(b) > 20 {
		return 0, false
	}
	digits := b
	if b[0] == '-' {
		digits = b[1:]
	}
	if len(digits) == 0 || digits[0]-'0' > 9 || digits[0] == '0' && len(b) > 1 {
		return 0, false
	}
	return ParseLooseInt(b)
}

// ParseSeconds parses \+?[0-9]+(\.[0-9]{1,9})? seconds into nanoseconds, at most buckets.MaxPeriod.
func ParseSeconds(b []byte) (int64, bool) {
	if len(b) > 0 && b[0] == '+' {
		b = b[1:]
	}
	whole := 0
	for whole < len(b) && b[whole]-'0' <= 9 {
		whole++
	}
	s, ok := ParseLooseInt(b[:whole])
	if !ok || s > buckets.MaxPeriod/second {
		return 0, false
	}
	ns := s * second
	if rest := b[whole:]; len(rest) > 0 {
		if rest[0] != '.' || len(rest) < 2 || len(rest) > 10 {
			return 0, false
		}
		for unit, digits := second/10, rest[1:]; len(digits) > 0; unit, digits = unit/10, digits[1:] {
			d := digits[0] - '0'
			if d > 9 {
				return 0, false
			}
			ns += int64(d) * unit
		}
	}
	return ns, ns <= buckets.MaxPeriod
}

// ParseOffset parses the offset of calendar windows: seconds with an optional minus.
func ParseOffset(b []byte) (int64, bool) {
	if len(b) > 0 && b[0] == '-' {
		if len(b) > 1 && b[1] == '+' {
			return 0, false
		}
		ns, ok := ParseSeconds(b[1:])
		return -ns, ok
	}
	return ParseSeconds(b)
}
