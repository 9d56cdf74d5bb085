package resp

import (
	"runtime/debug"

	"cellserver/buckets"
	"cellserver/resp/limits"
)

// batch is what a session has parsed and authorised of the limit commands that arrived together, and has not decided. They
// are decided by one Apply, before anything is answered that comes behind them.
type batch struct {
	collects bool // limit commands are collected
	n        int
	ops      []buckets.Op
	asks     []collected
	limits   []buckets.Limit // what ops point at; as many as the limits change
	keys     []byte          // the keys of ops, copied: the next request may overwrite an inline command
}

// collected is what is needed to answer one op.
type collected struct {
	row  *entry
	unit int64 // of its times
}

// batchMost is the most requests that are decided together.
const batchMost = 64

// begin says whether limit commands are collected from here on: if the store cannot decide at once, or is faster when it
// decides together.
func (b *batch) begin(srv *Server) {
	b.collects = srv.direct == nil || srv.batcher != nil && srv.batcher.Batches()
}

// mayCollect reports whether the limit command at hand may be decided with others: there are others, and nothing else looks at
// its reply.
func (s *session) mayCollect() bool {
	return s.batch.collects && (s.batch.n > 0 || s.in.Buffered() > 0) &&
		!s.tx.running && !s.silenced() && !s.caching && s.srv.monitors.Load() == nil
}

// collect adds a request to the batch. r has been checked, and same says that its limit is that of the request before.
func (s *session) collect(key []byte, r *limits.Last, same bool) {
	b := &s.batch
	if b.ops == nil {
		b.ops, b.asks = make([]buckets.Op, batchMost), make([]collected, batchMost)
		b.limits = make([]buckets.Limit, 0, batchMost)
	}
	if !same || b.n == 0 {
		b.limits = append(b.limits, r.Limit)
	}
	from := len(b.keys)
	b.keys = append(b.keys, key...)
	op := &b.ops[b.n]
	op.Code, op.Key, op.Limit = buckets.OpTake, b.keys[from:], &b.limits[len(b.limits)-1]
	op.Quantity, op.Peek = r.Quantity, r.Peek
	b.asks[b.n] = collected{s.last, r.Unit()}
	if b.n++; b.n == batchMost {
		s.decide()
	}
}

// decide decides what has been collected, and answers it.
func (s *session) decide() {
	b := &s.batch
	if b.n == 0 {
		return
	}
	s.errorCounted = true // its errors are counted here
	ops, done := b.ops[:b.n], 0
	defer func() {
		b.n, b.limits, b.keys = 0, b.limits[:0], b.keys[:0]
		if p := recover(); p != nil {
			s.srv.log.Error("a batch of limit commands panicked", "client", s.client.addr, "panic", p, "stack", string(debug.Stack()))
			for _, a := range b.asks[done:len(ops)] {
				s.failed(a.row, errInternal)
			}
		}
	}()
	s.store.Apply(s.srv.ctx, s.now, ops)
	for ; done < len(ops); done++ {
		op, a := &ops[done], &b.asks[done]
		if op.Err != nil {
			s.failed(a.row, s.storeError(op.Err))
			continue
		}
		s.answerDecision(&op.Decision, op.Quantity, op.Peek, a.unit)
	}
}

// failed answers a collected command with an error, and counts it.
func (s *session) failed(row *entry, text string) {
	row.Failed.Add(1)
	s.srv.stats.Error(text)
	s.out.Error(text)
}

// answerDecision answers a limit command that was decided.
func (s *session) answerDecision(d *buckets.Decision, quantity int64, peek bool, unit int64) {
	if peek {
		s.tally.LookUp(d.ResetAfter > 0) // no key is a full bucket
	}
	s.uncommitted = s.uncommitted || d.Cut || !d.Limited && quantity != 0 && !peek
	s.out.Decision(d, unit)
}

// fault answers a limit command that asks for something that there is not, behind what has been collected.
func (s *session) fault(text string) {
	if s.batch.n == 0 {
		s.out.Error(text)
		return
	}
	s.decide()
	s.failed(s.last, text)
}
