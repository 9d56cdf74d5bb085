package resp

import (
	"math"

	"cellserver/buckets"
)

// request is one limit that a client asks about, as its words say it.
type request struct {
	kind     buckets.Kind
	key      []byte
	burst    int64 // THROTTLE
	most     int64 // count of THROTTLE, limit of the others
	period   int64 // nanoseconds
	quantity int64

	align, peek, ms bool
	offset          int64 // nanoseconds
}

// parameters is how many words a kind of limit needs, its key included.
func parameters(kind buckets.Kind) int {
	if kind == buckets.Throttle {
		return 4
	}
	return 3
}

// parse reads the key and the parameters, from left to right. A fault is the wire text of what is wrong.
func (r *request) parse(words [][]byte, l *Limits) (fault string) {
	r.key = words[0]
	if fault := l.keyFault(r.key); fault != "" {
		return fault
	}
	numbers := words[1:]
	var ok bool
	low := errLimit
	if r.kind == buckets.Throttle {
		if r.burst, ok = parseInt(numbers[0]); !ok {
			return errNotInteger
		}
		if r.burst < 0 || r.burst == math.MaxInt64 {
			return errBurst
		}
		numbers, low = numbers[1:], errCount
	}
	if r.most, ok = parseInt(numbers[0]); !ok {
		return errNotInteger
	}
	if r.most < 1 {
		return low
	}
	if r.period, ok = parseSeconds(numbers[1]); !ok || r.period == 0 {
		return errPeriod
	}
	return ""
}

// parseOptions reads what follows the quantity: each option once, in any order.
func (r *request) parseOptions(words [][]byte) (fault string) {
	for i := 0; i < len(words); i++ {
		switch w := words[i]; {
		case is(w, "PEEK") && !r.peek:
			r.peek = true
		case is(w, "MS") && !r.ms:
			r.ms = true
		case is(w, "ALIGN") && r.kind == buckets.Window && !r.align && i+1 < len(words):
			i++
			r.align = true
			var ok bool
			if r.offset, ok = parseOffset(words[i]); !ok {
				return errOffset
			}
		default:
			return errSyntax
		}
	}
	return ""
}

// limit returns the checked limit.
func (r *request) limit() (buckets.Limit, error) {
	switch {
	case r.kind == buckets.Throttle:
		return buckets.NewThrottle(r.burst, r.most, r.period)
	case r.kind == buckets.Slide:
		return buckets.NewSlide(r.most, r.period)
	case r.align:
		return buckets.NewAlignedWindow(r.most, r.period, r.offset)
	}
	return buckets.NewWindow(r.most, r.period)
}

// unit is what times are told in, in nanoseconds.
func (r *request) unit() int64 {
	if r.ms {
		return millisecond
	}
	return second
}

// The limit commands: CL.<KIND> key parameters... [quantity [options...]].
func throttle(s *session, words [][]byte) { s.limit(buckets.Throttle, words[1:]) }
func window(s *session, words [][]byte)   { s.limit(buckets.Window, words[1:]) }
func zslide(s *session, words [][]byte)   { s.limit(buckets.Slide, words[1:]) }

func (s *session) limit(kind buckets.Kind, words [][]byte) {
	r := request{kind: kind, quantity: 1}
	n := parameters(kind)
	if fault := r.parse(words[:n], s.limits); fault != "" {
		s.out.error(fault)
		return
	}
	if len(words) > n {
		var ok bool
		if r.quantity, ok = parseInt(words[n]); !ok {
			s.out.error(errNotInteger)
			return
		}
		if fault := r.parseOptions(words[n+1:]); fault != "" {
			s.out.error(fault)
			return
		}
	}
	l, err := r.limit()
	if err != nil {
		s.out.error(limitError(err, 0))
		return
	}
	d, err := s.srv.store.Take(s.now, r.key, l, r.quantity, r.peek)
	if err != nil {
		s.out.error(limitError(err, s.srv.store.MaxLog()))
		return
	}
	s.out.decision(d, r.unit())
}
