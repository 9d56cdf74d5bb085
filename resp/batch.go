package resp

import (
	"runtime/debug"

	"cellserver/buckets"
	"cellserver/resp/limits"
)

// batch collects limit commands that arrive together and are parsed and authorised. One Apply decides them, before the
// session answers another kind of command, and at the end of what was read.
type batch struct {
	collects bool // limit commands are collected
	n        int
	ops      []buckets.Op
	asks     []collected
	limits   []buckets.Limit // ops point into it; equal limits in a row are one
	keys     []byte          // copies of the keys of ops, because reading the next command may overwrite an inline one
}

// collected is what the reply to one op needs.
type collected struct {
	row  *entry
	unit int64 // of the times, in nanoseconds
}

// batchMost is the most requests of one Apply.
const batchMost = 64

// begin starts a batch. Limit commands are collected if the store cannot decide one directly, or is faster with several.
func (b *batch) begin(srv *Server) {
	b.collects = srv.direct == nil || srv.batcher != nil && srv.batcher.Batches()
}

// mayCollect reports whether the current limit command may join the batch: there are other commands, and nothing else needs
// its reply now.
func (s *session) mayCollect() bool {
	return s.batch.collects && (s.batch.n > 0 || s.in.Buffered() > 0) &&
		!s.tx.running && !s.inScript && !s.silenced() && !s.caching && s.srv.monitors.Load() == nil
}

// collect adds r, which is parsed and authorised, to the batch. same says that its limit is that of the previous request.
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

// decide decides the batch and appends the replies.
func (s *session) decide() {
	b := &s.batch
	if b.n == 0 {
		return
	}
	s.errorCounted = true // failed counts the errors of a batch
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
	if s.srv.remote != nil {
		s.now = s.srv.now() // for the command behind the batch
		s.settle(s.now)
	}
	for ; done < len(ops); done++ {
		op, a := &ops[done], &b.asks[done]
		if op.Err != nil {
			s.failed(a.row, s.storeError(op.Err))
			continue
		}
		s.answerDecision(&op.Decision, op.Quantity, op.Peek, a.unit)
	}
}

// failed appends an error as the reply to a collected command, and counts it.
func (s *session) failed(row *entry, text string) {
	row.Failed.Add(1)
	s.srv.stats.Error(text)
	s.out.Error(text)
}

// answerDecision appends the reply to a limit command.
func (s *session) answerDecision(d *buckets.Decision, quantity int64, peek bool, unit int64) {
	if peek {
		s.tally.LookUp(d.ResetAfter > 0) // a full bucket and no key are the same
	}
	s.uncommitted = s.uncommitted || d.Cut || !d.Limited && quantity != 0 && !peek
	s.out.Decision(d, unit)
}

// fault answers a limit command whose words are wrong, after deciding the batch.
func (s *session) fault(text string) {
	if s.batch.n == 0 {
		s.out.Error(text)
		return
	}
	s.decide()
	s.failed(s.last, text)
}
