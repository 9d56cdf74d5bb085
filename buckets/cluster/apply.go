package cluster

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"cellserver/buckets"
)

// call is one run of operations of an Apply that waits. Calls are used again.
type call struct {
	requests []request
	left     atomic.Int32  // requests without their results, and one more while they are being queued
	done     chan struct{} // gets one value when there are none left, from whoever has seen to the last of them
	key      []byte        // of the engine, for one operation at a time
	lines    []*line       // to send

	list       *callList
	prev, next *call
	due        int64 // Local
}

// callList is a part of the calls that wait, in about the order in which they are due.
type callList struct {
	mu          sync.Mutex
	first, last *call
	closed      bool
	_           [64]byte
}

const callLists = 16

// Apply carries out ops. Those on one key each go out together; one on several keys waits for those before it.
func (s *Store) Apply(ctx context.Context, now int64, ops []buckets.Op) {
	if err := ctx.Err(); err != nil {
		for i := range ops {
			ops[i].Err = err
		}
		return
	}
	if s.engine.mistimed(now) {
		err := s.untimed()
		for i := range ops {
			ops[i].Err = err
			s.fail(now, &ops[i])
		}
		return
	}
	for from := 0; from < len(ops); {
		to := from
		for to < len(ops) && isAlone(&ops[to]) {
			to++
		}
		if to > from {
			s.applyRun(ctx, now, ops[from:to])
		}
		if to < len(ops) {
			op := &ops[to]
			switch op.Code {
			case buckets.OpExists, buckets.OpDelete:
				s.applyParts(ctx, now, op)
			default:
				s.applyTogether(ctx, now, op)
			}
			to++
		}
		from = to
	}
	for i := range ops {
		if ops[i].Err != nil {
			s.fail(now, &ops[i])
		}
	}
}

// untimed is the error of what cannot be decided because the time of the engine is not known, or was not when the caller asked for it.
func (s *Store) untimed() error {
	if why := s.engine.why(); why != "" {
		return &buckets.Unavailable{Reason: awayBecause + why}
	}
	return &buckets.Unavailable{Reason: "the time of the engine is not known yet"}
}

// isAlone reports whether an operation names one key.
func isAlone(op *buckets.Op) bool {
	_, single := isSingle(op)
	return single
}

// applyParts carries out an OpExists or an OpDelete key by key.
func (s *Store) applyParts(ctx context.Context, now int64, op *buckets.Op) {
	op.N, op.Err = 0, nil
	if len(op.Keys) == 0 {
		return
	}
	parts := make([]buckets.Op, len(op.Keys))
	for i := range parts {
		parts[i] = buckets.Op{Code: op.Code, Keys: op.Keys[i : i+1]}
	}
	s.applyRun(ctx, now, parts)
	for i := range parts {
		op.N += parts[i].N
		if parts[i].Err != nil && op.Err == nil {
			op.Err = parts[i].Err
		}
	}
	var away *buckets.Unavailable
	if op.Err != nil && op.Code == buckets.OpDelete && op.N > 0 && errors.As(op.Err, &away) {
		op.Err = &buckets.Unavailable{Reason: away.Reason, Unknown: true} // some keys are deleted
	}
}

// applyRun carries out operations that name one key each.
func (s *Store) applyRun(ctx context.Context, now int64, ops []buckets.Op) {
	c := s.pool.calls.Get().(*call)
	if cap(c.requests) < len(ops) {
		c.requests = make([]request, len(ops))
	}
	c.requests = c.requests[:len(ops)]
	c.left.Store(int32(len(ops)) + 1)
	local := s.config.Local()
	rules := s.rules.Load()
	answered := int32(1)
	for i := range ops {
		if !s.enqueue(c, &c.requests[i], now, local, rules, &ops[i]) {
			answered++
		}
	}
	if len(c.lines) > 0 {
		s.dispatch(c.lines)
		clear(c.lines)
		c.lines = c.lines[:0]
	}
	if c.left.Add(-answered) > 0 {
		s.wait(ctx, c, local+int64(rules.Timeout))
	}
	var panicked any
	for i := range c.requests {
		if p := c.requests[i].panicked; p != nil {
			panicked = p
		}
		c.requests[i] = request{}
	}
	if len(c.requests) > 1024 {
		c.requests = nil
	}
	s.pool.calls.Put(c)
	if panicked != nil {
		panic(panicked)
	}
}

// enqueue answers an operation from what was last seen of its key, or has it wait. It reports whether it waits.
func (s *Store) enqueue(c *call, r *request, now, local int64, rules *Rules, op *buckets.Op) bool {
	key, _ := isSingle(op)
	c.key = s.engineKey(c.key[:0], key)
	slot := s.engine.slot(c.key)
	n := s.engine.node(slot)
	load := &s.lost
	if n != nil {
		load = &n.hot.requests
	}
	hash, sh := s.table.shard(c.key)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	l := sh.find(hash, c.key)
	if l != nil && n != nil && op.Code == buckets.OpTake && rules.RefusalCache > 0 && n.ready() && l.refuses(op, n, now, local-int64(rules.RefusalCache)) {
		l.busy()
		s.table.rest(sh, l)
		s.count.local.Add(1)
		op.Err = nil
		return false
	}
	if n != nil {
		if why := n.hot.down.Load(); why != nil {
			op.Err = &buckets.Unavailable{Reason: *why}
			return false
		}
	}
	if load.Add(1) > maxWaiting {
		load.Add(-1)
		op.Err = errTooMany
		return false
	}
	if l == nil {
		l = s.table.add(sh, hash, c.key, slot)
	}
	*r = request{op: op, call: c, shard: sh, line: l, load: load, now: now}
	l.waiting.push(r)
	if l.place == idle {
		l.busy()
		l.place = queued
		c.lines = append(c.lines, l)
	}
	return true
}

var errTooMany = &buckets.Unavailable{Reason: "too many requests wait for the engine"}

// refuses decides an OpTake on what was last seen of its key, if that is a refusal that the engine need not confirm: nothing
// else waits for the key, it was seen after since, and the refusal changes nothing. It requires the lock.
func (l *line) refuses(op *buckets.Op, n *node, now, since int64) bool {
	if l.place != idle || !l.known || !l.parsed || l.foreign || l.seen <= since || op.Peek || op.Quantity <= 0 || l.record.state.Kind != op.Limit.Kind() {
		return false
	}
	r := l.record
	at := r.load(n.hot.at(n, now))
	if r.state.Kind == buckets.None {
		return false
	}
	if !n.engine.config.OwnTime {
		at = r.timeFor(op.Limit, at)
	}
	r.state.Peek(op.Limit, at, op.Quantity, &op.Decision)
	// A TAT beyond the capacity would be cut, which is a change.
	return op.Decision.Limited && (r.state.Kind != buckets.Throttle || r.state.FullAt() <= op.Limit.FullAfter(at, op.Limit.Max()))
}

// wait waits until the requests of a call have their results, or until ctx ends.
func (s *Store) wait(ctx context.Context, c *call, due int64) {
	list := c.list
	list.mu.Lock()
	closed := list.closed
	c.due, c.prev, c.next = due, list.last, nil
	if list.last == nil {
		list.first = c
	} else {
		list.last.next = c
	}
	list.last = c
	list.mu.Unlock()

	if closed {
		c.abandon(errStoreClosed)
	} else if ended := ctx.Done(); ended == nil {
		<-c.done
	} else {
		select {
		case <-c.done:
		case <-ended:
			c.abandon(ctx.Err())
		}
	}

	list.mu.Lock()
	if c.prev == nil {
		list.first = c.next
	} else {
		c.prev.next = c.next
	}
	if c.next == nil {
		list.last = c.prev
	} else {
		c.next.prev = c.prev
	}
	c.prev, c.next = nil, nil
	list.mu.Unlock()
}

// abandon ends the requests of a call that have no results, in the goroutine that waits for it.
func (c *call) abandon(err error) {
	var out outcomes
	c.cancel(&out, func(*request) error { return err })
	if len(out.calls) == 0 { // somebody else saw to the last one
		<-c.done
	}
}

// cancel ends the requests of a call that have no results.
func (c *call) cancel(out *outcomes, why func(r *request) error) (ended int) {
	for i := range c.requests {
		r := &c.requests[i]
		if r.shard == nil {
			continue
		}
		r.shard.mu.Lock()
		if r.list != nil {
			r.op.Err = why(r)
			r.end(out)
			ended++
		}
		r.shard.mu.Unlock()
	}
	return ended
}

// expire ends the requests of calls that are due at now, with err or else with the reason for which they have waited.
func (s *Store) expire(now int64, err error) {
	var out outcomes
	reason := func(r *request) error { return err }
	if err == nil {
		reason = s.late
	}
	for i := range s.calls {
		list := &s.calls[i]
		list.mu.Lock()
		list.closed = list.closed || err != nil
		ended := 0
		for c := list.first; c != nil && c.due <= now; c = c.next {
			ended += c.cancel(&out, reason)
		}
		if err == nil {
			s.count.timeouts.Add(uint64(ended))
		}
		for _, c := range out.calls {
			c.done <- struct{}{}
		}
		out.calls = out.calls[:0]
		list.mu.Unlock()
	}
}

// late says why the time of a request is up. It requires the lock.
func (s *Store) late(r *request) error {
	l := r.line
	if r.list == &l.decided && !l.reading {
		return &buckets.Unavailable{Reason: "the engine has not answered within store-timeout", Unknown: true}
	}
	switch {
	case l.trouble != nil:
		return &buckets.Unavailable{Reason: "the engine was not able to decide within store-timeout: " + l.trouble.Error()}
	case r.load == &s.lost:
		if why := s.engine.why(); why != "" {
			return &buckets.Unavailable{Reason: awayBecause + why}
		}
	}
	return &buckets.Unavailable{Reason: "the engine has not answered within store-timeout"}
}

// watchdog ends what is due, and looks after the paths and what waits for one.
func (s *Store) watchdog() {
	period := func() time.Duration {
		return min(max(s.rules.Load().Timeout/10, time.Millisecond), 50*time.Millisecond)
	}
	ticker := time.NewTicker(period())
	defer ticker.Stop()
	for {
		select {
		case <-s.ended:
			return
		case <-s.ruled:
			ticker.Reset(period())
			continue
		case <-ticker.C:
		}
		now := s.config.Local()
		s.expire(now+int64(period())/2, nil)
		s.resend()
		s.table.trim(s.rules.Load().CacheBytes) // while no engine answers, nobody else does
		s.mu.Lock()
		s.scratch = s.scratch[:0]
		for p := range s.paths {
			s.scratch = append(s.scratch, p)
		}
		s.mu.Unlock()
		for _, p := range s.scratch {
			p.check(now)
		}
	}
}

// resend sends what was parked.
func (s *Store) resend() {
	s.mu.Lock()
	lines := s.parked
	s.parked = nil
	s.mu.Unlock()
	s.dispatch(s.awaited(lines))
}

// awaited returns the lines for which requests wait. The others rest.
func (s *Store) awaited(lines []*line) []*line {
	kept := lines[:0]
	for _, l := range lines {
		sh := s.table.of(l)
		sh.mu.Lock()
		if l.waiting.first == nil {
			s.table.rest(sh, l)
		} else {
			kept = append(kept, l)
		}
		sh.mu.Unlock()
	}
	return kept
}
