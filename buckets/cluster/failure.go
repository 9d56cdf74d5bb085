package cluster

import (
	"errors"
	"time"

	"cellserver/buckets"
)

// fail answers an operation that has failed because of the engine as the rules say.
func (s *Store) fail(now int64, op *buckets.Op) {
	var away *buckets.Unavailable
	if !errors.As(op.Err, &away) {
		if errors.Is(op.Err, buckets.ErrTooFewReplicas) {
			s.count.failures.Add(1)
		}
		return
	}
	s.count.failures.Add(1)
	if op.Code != buckets.OpTake && op.Code != buckets.OpTakeAll {
		return
	}
	switch rules := s.rules.Load(); rules.Failure {
	case FailAdmit:
		s.failures.Add("answer", "admit", "err", away.Reason)
		admit(op, now, rules.MaxLog)
		s.count.admitted.Add(1)
	case FailRefuse:
		s.failures.Add("answer", "refuse", "err", away.Reason)
		refuse(op)
		s.count.refused.Add(1)
	}
}

// admit answers an OpTake or an OpTakeAll as full buckets do.
func admit(op *buckets.Op, now int64, maxLog int) {
	fresh := make(map[string]*entry)
	applyAny(op, now, maxLog, func(key []byte) *entry {
		r := fresh[string(key)]
		if r == nil {
			r = new(entry)
			fresh[string(key)] = r
		}
		return r
	})
}

// retryRefused is the RetryAfter of what is refused because the engine has failed, in nanoseconds.
const retryRefused = int64(time.Second)

// refuse refuses an OpTake or an OpTakeAll, unless it asks for nothing.
func refuse(op *buckets.Op) {
	op.Err = nil
	if op.Code == buckets.OpTake {
		refused(op.Limit, op.Quantity, &op.Decision)
		return
	}
	op.Which = 0
	for i := range op.Checks {
		c, d := &op.Checks[i], &op.Answers[i]
		refused(&c.Limit, c.Quantity, d)
		if d.Limited && (op.Which == 0 || d.RefusesLonger(&op.Answers[op.Which-1])) {
			op.Which = i + 1
		}
	}
}

func refused(l *buckets.Limit, quantity int64, d *buckets.Decision) {
	*d = buckets.Decision{Limit: l.Max(), RetryAfter: buckets.Never, ResetAfter: retryRefused}
	if quantity > 0 {
		d.Refuse(quantity, retryRefused)
	}
}
