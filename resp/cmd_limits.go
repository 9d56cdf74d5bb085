package resp

import (
	"cellserver/buckets"
	"cellserver/resp/frame"
	"cellserver/resp/limits"
)

// withLimits adds the handlers of the commands that ask for one limit: CL.<KIND> key parameters... [quantity [options...]].
func withLimits(handlers map[string]func(s *session, words [][]byte)) map[string]func(s *session, words [][]byte) {
	kinds := limits.Kinds()
	for i := range kinds {
		kind := &kinds[i]
		handlers[kind.Name()] = func(s *session, words [][]byte) { s.limit(kind, words[1:]) }
	}
	return handlers
}

// limit answers one request of a limit. The session parses words that differ from those of its last request only.
func (s *session) limit(kind *limits.Kind, words [][]byte) {
	key := words[0]
	if fault := s.bounds.keyFault(key); fault != "" {
		s.fault(fault)
		return
	}
	r := &s.asked
	same := r.Is(kind, words[1:])
	if !same {
		if fault := r.Parse(kind, words); fault != "" {
			s.fault(fault)
			return
		}
	}
	if r.Quantity < 0 {
		if fault := s.refundFault(r.Quantity); fault != "" {
			s.fault(fault)
			return
		}
	}
	if s.mayCollect() {
		s.collect(key, r, same)
		return
	}
	if s.batch.n > 0 { // a client may have sent MONITOR since the batch was collected
		s.decide()
	}
	d := &s.decided
	if s.direct != nil {
		if err := s.direct.Decide(s.now, key, &r.Limit, r.Quantity, r.Peek, d); err != nil {
			s.out.Error(s.storeError(err))
			return
		}
	} else {
		op, ok := s.do(buckets.Op{Code: buckets.OpTake, Key: key, Limit: &r.Limit, Quantity: r.Quantity, Peek: r.Peek})
		if !ok {
			return
		}
		*d = op.Decision
	}
	s.answerDecision(d, r.Quantity, r.Peek, r.Unit())
}

// limitAll is CL.ALL kind key parameters... quantity ... [PEEK] [MS].
func limitAll(s *session, words [][]byte) {
	asked := &s.askedAll
	if fault := asked.Parse(words[1:], s.bounds.keyFault); fault != "" {
		s.out.Error(fault)
		return
	}
	checks := asked.Checks
	n := len(checks)
	for i := range checks {
		if fault := s.refundFault(checks[i].Quantity); fault != "" {
			s.out.Error(fault)
			return
		}
	}
	for len(s.answers) < n {
		s.answers = append(s.answers, buckets.Decision{})
	}
	op := &s.all[0]
	op.Code, op.Checks, op.Answers, op.Peek = buckets.OpTakeAll, checks, s.answers, asked.Peek
	s.store.Apply(s.srv.ctx, s.now, s.all[:])
	asked.Forget()
	if op.Err != nil {
		s.out.Error(s.storeError(op.Err))
		return
	}
	which := op.Which
	s.uncommitted = s.uncommitted || which == 0 && !asked.Peek
	s.out.Array(2 + n)
	s.out.Flag(which > 0)
	s.out.Int(int64(which))
	for i := range s.answers[:n] {
		if asked.Peek {
			s.tally.LookUp(s.answers[i].ResetAfter > 0)
		}
		s.uncommitted = s.uncommitted || s.answers[i].Cut
		s.out.Decision(&s.answers[i], asked.Unit())
	}
}

// limitGet is CL.GET key [STRINGS].
func limitGet(s *session, words [][]byte) {
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
	limits.AppendContents(&s.out, &op.Contents, asStrings)
}
