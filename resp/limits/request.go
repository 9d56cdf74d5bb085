package limits

import (
	"cellserver/buckets"
	"cellserver/resp/frame"
)

// The texts of faults that no package below this one has.
const (
	errPeriod        = "ERR " + string(buckets.ErrPeriodRange)
	errOffset        = "ERR " + string(buckets.ErrOffsetRange)
	errKeyTwice      = "ERR a key may appear once"
	errTooManyChecks = "ERR at most 64 checks"
)

// The units in which replies tell times, in nanoseconds.
const (
	second      = int64(1e9)
	millisecond = int64(1e6)
)

// Request is one limit that a client asks about.
type Request struct {
	kind     *Kind
	key      []byte
	values   Values
	Quantity int64
	Options
}

// Options change what a request does or how its reply looks.
type Options struct {
	Peek bool // decides and changes nothing
	MS   bool // times are in milliseconds
}

// Unit returns the unit of the times in the reply, in nanoseconds.
func (o *Options) Unit() int64 {
	if o.MS {
		return millisecond
	}
	return second
}

// parse reads the key and the parameters from left to right. It returns the reply to words that are wrong, or "".
func (r *Request) parse(words [][]byte) (fault string) {
	r.key = words[0]
	var ok bool
	for i := range r.kind.Integers {
		p := &r.kind.Integers[i]
		n, ok := frame.ParseLooseInt(words[1+i])
		if !ok {
			return frame.ErrNotInteger
		}
		if n < p.Min || n > p.Max {
			return p.Fault
		}
		r.values.Integers[i] = n
	}
	if r.values.Period, ok = frame.ParseSeconds(words[1+len(r.kind.Integers)]); !ok || r.values.Period == 0 {
		return errPeriod
	}
	return ""
}

// parseQuantity reads the quantity.
func (r *Request) parseQuantity(word []byte) (fault string) {
	var ok bool
	if r.Quantity, ok = frame.ParseLooseInt(word); !ok {
		return frame.ErrNotInteger
	}
	return ""
}

// parseOptions reads what follows the quantity: each option at most once, in any order.
func (r *Request) parseOptions(words [][]byte) (fault string) {
	v := &r.values
	for i := 0; i < len(words); i++ {
		switch w := words[i]; {
		case frame.Is(w, "PEEK") && !r.Peek:
			r.Peek = true
		case frame.Is(w, "MS") && !r.MS:
			r.MS = true
		case r.kind != nil && r.kind.Aligns && frame.Is(w, "ALIGN") && !v.Aligned && i+1 < len(words):
			i++
			v.Aligned = true
			var ok bool
			if v.Offset, ok = frame.ParseOffset(words[i]); !ok {
				return errOffset
			}
		default:
			return frame.ErrSyntax
		}
	}
	return ""
}
