package resp

import (
	"bytes"
	"math"
	"strconv"

	"cellserver/buckets"
	"cellserver/resp/command"
	"cellserver/resp/frame"
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

// parse reads the key and the parameters, from left to right. A fault is the wire text of what is wrong.
func (r *request) parse(words [][]byte) (fault string) {
	r.key = words[0]
	numbers := words[1:]
	var ok bool
	low := errLimit
	if r.kind == buckets.Throttle {
		if r.burst, ok = frame.ParseLooseInt(numbers[0]); !ok {
			return errNotInteger
		}
		if r.burst < 0 || r.burst == math.MaxInt64 {
			return errBurst
		}
		numbers, low = numbers[1:], errCount
	}
	if r.most, ok = frame.ParseLooseInt(numbers[0]); !ok {
		return errNotInteger
	}
	if r.most < 1 {
		return low
	}
	if r.period, ok = frame.ParseSeconds(numbers[1]); !ok || r.period == 0 {
		return errPeriod
	}
	return ""
}

// parseOptions reads what follows the quantity: each option once, in any order.
func (r *request) parseOptions(words [][]byte) (fault string) {
	for i := 0; i < len(words); i++ {
		switch w := words[i]; {
		case frame.Is(w, "PEEK") && !r.peek:
			r.peek = true
		case frame.Is(w, "MS") && !r.ms:
			r.ms = true
		case frame.Is(w, "ALIGN") && r.kind == buckets.Window && !r.align && i+1 < len(words):
			i++
			r.align = true
			var ok bool
			if r.offset, ok = frame.ParseOffset(words[i]); !ok {
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
	key := words[0]
	if fault := s.bounds.keyFault(key); fault != "" {
		s.fault(fault)
		return
	}
	r := &s.asked
	same := r.means(kind, words[1:])
	if !same {
		if fault := r.learn(kind, words); fault != "" {
			s.fault(fault)
			return
		}
	}
	if fault := s.refundFault(r.quantity); fault != "" {
		s.fault(fault)
		return
	}
	if s.mayCollect() {
		s.collect(key, r, same)
		return
	}
	s.decide() // somebody has begun to monitor since it was collected
	d := &s.decided
	if s.direct != nil {
		*d = buckets.Decision{}
		if err := s.direct.Decide(s.now, key, &r.checked, r.quantity, r.peek, d); err != nil {
			s.out.Error(s.storeError(err))
			return
		}
	} else {
		op, ok := s.do(buckets.Op{Code: buckets.OpTake, Key: key, Limit: &r.checked, Quantity: r.quantity, Peek: r.peek})
		if !ok {
			return
		}
		*d = op.Decision
	}
	s.answerDecision(d, r.quantity, r.peek, r.unit())
}

// known is a limit that was asked about last, and the words behind the key that said it: most clients say the same
// again and again, and comparing words is quicker than understanding them.
type known struct {
	request
	checked buckets.Limit
	words   int // 0 when nothing is known
	ends    [knownWords]uint8
	bytes   [knownBytes]byte
}

// The most that is remembered. A request that says more is understood anew every time.
const (
	knownWords = 8
	knownBytes = 64
)

// means reports whether the words behind a key are the known ones.
func (k *known) means(kind buckets.Kind, words [][]byte) bool {
	if len(words) != k.words || kind != k.kind {
		return false
	}
	from := 0
	for i, w := range words {
		to := int(k.ends[i])
		if string(w) != string(k.bytes[from:to]) {
			return false
		}
		from = to
	}
	return true
}

// learn understands the key and the words behind it, and remembers them if they say something.
func (k *known) learn(kind buckets.Kind, words [][]byte) (fault string) {
	k.words = 0
	k.request = request{kind: kind, quantity: 1}
	n := command.Parameters(kind)
	if fault := k.parse(words[:n]); fault != "" {
		return fault
	}
	if len(words) > n {
		var ok bool
		if k.quantity, ok = frame.ParseLooseInt(words[n]); !ok {
			return errNotInteger
		}
		if fault := k.parseOptions(words[n+1:]); fault != "" {
			return fault
		}
	}
	k.key = nil
	var err error
	if k.checked, err = k.limit(); err != nil {
		return "ERR " + err.Error()
	}
	words = words[1:]
	if len(words) > knownWords {
		return ""
	}
	size := 0
	for i, w := range words {
		if size+len(w) > knownBytes {
			return ""
		}
		size += copy(k.bytes[size:], w)
		k.ends[i] = uint8(size)
	}
	k.words = len(words)
	return ""
}

// parseAll reads the words of CL.ALL into requests, and returns the options that stand at the end, or what is wrong.
func (s *session) parseAll(words [][]byte) (last request, fault string) {
	requests := s.requests[:0]
	options, fault := command.EachCheck(words[1:], func(kind buckets.Kind, words [][]byte) string {
		if len(requests) == cap(requests) {
			requests = append(requests, request{})[:len(requests)]
		}
		r := &requests[:len(requests)+1][len(requests)] // in place: it is large
		*r = request{kind: kind}
		size := command.Parameters(kind)
		if fault := s.bounds.keyFault(words[0]); fault != "" {
			return fault
		}
		if fault := r.parse(words[:size]); fault != "" {
			return fault
		}
		for i := range requests {
			if bytes.Equal(requests[i].key, r.key) {
				return errKeyTwice
			}
		}
		var ok bool
		if r.quantity, ok = frame.ParseLooseInt(words[size]); !ok {
			return errNotInteger
		}
		requests = requests[:len(requests)+1]
		if len(words) == size+1 {
			return ""
		}
		return r.parseOptions(words[size+1:]) // ALIGN
	})
	s.requests = requests
	if fault == "" {
		fault = last.parseOptions(options)
	}
	return last, fault
}

// all is CL.ALL kind key parameters... quantity ... [PEEK] [MS].
func all(s *session, words [][]byte) {
	last, fault := s.parseAll(words)
	if fault != "" {
		s.out.Error(fault)
		return
	}
	requests := s.requests
	n := len(requests)
	for len(s.checks) < n {
		s.checks = append(s.checks, buckets.Check{})
		s.answers = append(s.answers, buckets.Decision{})
	}
	checks := s.checks[:n]
	for i := range requests {
		r, c := &requests[i], &checks[i]
		var err error
		if c.Limit, err = r.limit(); err != nil {
			s.out.Error("ERR " + err.Error())
			return
		}
		c.Key, c.Quantity = r.key, r.quantity
	}
	for i := range requests {
		if fault := s.refundFault(requests[i].quantity); fault != "" {
			s.out.Error(fault)
			return
		}
	}
	op := &s.all[0]
	op.Code, op.Checks, op.Answers, op.Peek = buckets.OpTakeAll, checks, s.answers, last.peek
	s.store.Apply(s.srv.ctx, s.now, s.all[:])
	for i := range requests { // the keys point into the input
		requests[i].key, checks[i].Key = nil, nil
	}
	if op.Err != nil {
		s.out.Error(s.storeError(op.Err))
		return
	}
	which := op.Which
	s.wrote = s.wrote || which == 0 && !last.peek
	s.out.Array(2 + n)
	s.out.Flag(which > 0)
	s.out.Int(int64(which))
	for i := range s.answers[:n] {
		if last.peek {
			s.tally.LookUp(s.answers[i].ResetAfter > 0)
		}
		s.wrote = s.wrote || s.answers[i].Cut
		s.out.Decision(&s.answers[i], last.unit())
	}
}

// get is CL.GET key [STRINGS]. With STRINGS, integers are bulk strings: JavaScript's numbers hold no time in nanoseconds.
func get(s *session, words [][]byte) {
	asStrings := len(words) == 3 && frame.Is(words[2], "STRINGS")
	if len(words) > 2 && !asStrings {
		s.out.Error(errSyntax)
		return
	}
	op, ok := s.do(buckets.Op{Code: buckets.OpGet, Key: words[1]})
	if !ok {
		return
	}
	s.tally.LookUp(op.N > 0)
	if op.N == 0 {
		s.out.Null()
		return
	}
	c := &op.Contents
	fields := append(c.Fields, buckets.Field{Name: "expires", Value: c.Expiry}, buckets.Field{Name: "bytes", Value: c.Bytes})
	out := &s.out
	number := out.Int
	if asStrings {
		number = func(n int64) { out.BulkString(strconv.FormatInt(n, 10)) }
	}
	out.Map(2 + len(fields))
	out.BulkString("kind")
	out.BulkString(c.Kind.String())
	for _, f := range fields {
		out.BulkString(f.Name)
		number(f.Value)
	}
	out.BulkString("deadline")
	if c.Deadline == 0 {
		out.Null()
	} else {
		number(c.Deadline)
	}
}
