package cluster

import (
	"bytes"
	"math"
	"strconv"
	"strings"
	"time"

	"cellserver/buckets"
)

// margin is how much longer than asked an engine may keep a value: it counts in milliseconds, from when the command arrives.
const margin = 2 * int64(time.Millisecond)

// tombstoneTTL is for how many milliseconds the engine keeps the value of a key that was deleted.
const tombstoneTTL = 1

// outcomes are what is to be done when the locks are given up.
type outcomes struct {
	calls  []*call // that have all their results
	lines  []*line // that have requests to send
	parked []*line // that have requests to send a little later
	routed []route
}

// route is a line whose requests go to a server that is not, or not yet, known to have its slot.
type route struct {
	line *line
	node *node
}

func (s *Store) outcomes() *outcomes { return s.pool.outcomes.Get().(*outcomes) }

func (o *outcomes) release(s *Store) { s.pool.outcomes.Put(o) }

// deliver does it.
func (o *outcomes) deliver(s *Store) {
	for i, c := range o.calls {
		c.done <- struct{}{}
		o.calls[i] = nil
	}
	o.calls = o.calls[:0]
	for _, r := range o.routed {
		if !r.node.hot.submit(s, r.node, []*line{r.line}) {
			o.parked = append(o.parked, r.line)
		}
	}
	clear(o.routed)
	o.routed = o.routed[:0]
	if len(o.lines) > 0 {
		s.dispatch(o.lines)
		clear(o.lines)
		o.lines = o.lines[:0]
	}
	if len(o.parked) > 0 {
		s.park(o.parked)
		clear(o.parked)
		o.parked = o.parked[:0]
	}
	s.table.trim(s.rules.Load().CacheBytes)
}

// The functions below require the lock of the line's shard.

// gather moves requests of a line that is queued to those that are decided together. It reports false if none waits.
func (s *Store) gather(sh *shard, l *line) bool {
	r := l.waiting.first
	if r == nil {
		s.table.rest(sh, l)
		return false
	}
	for n := 0; r != nil && n < maxGroup; n++ {
		next := r.next
		l.waiting.remove(r)
		l.decided.push(r)
		r = next
	}
	l.place = flying
	return true
}

// decide decides the group of a line on what was last seen. It returns the time of the last decision, and whether the
// record has changed.
func (s *Store) decide(l *line, p *hotPath, shift int64) (at int64, changed bool) {
	if !l.parsed {
		l.parsed = true
		if l.foreign = false; !l.known {
			l.record = record{}
		} else {
			l.foreign = l.record.parse(l.value) != nil
		}
	}
	maxLog := s.rules.Load().MaxLog
	for r := l.decided.first; r != nil; r = r.next {
		at = p.lift(r.now + shift)
		if l.foreign {
			r.op.Err = buckets.ErrForeignValue
			continue
		}
		at = l.record.load(at)
		when := at
		if r.op.Code == buckets.OpTake && !s.config.OwnTime {
			when = l.record.timeFor(r.op.Limit, at)
		}
		if r.apply(&l.record, when, maxLog) {
			changed = true
		}
	}
	return at, changed
}

// apply carries out the operation of a request.
func (r *request) apply(rec *record, at int64, maxLog int) (changed bool) {
	if r.op.Code == buckets.OpUpdate {
		// A panic of an Updater is the caller's, whose goroutine this is not.
		defer func() {
			if r.panicked = recover(); r.panicked != nil {
				r.op.Err, changed = buckets.ErrUnknownOp, false
			}
		}()
	}
	return applyOne(r.op, rec, at, maxLog)
}

// change says what has to be set for the group of a line that was decided. It fills in what a flight says of it.
func (s *Store) change(l *line, f *flight, at int64, changed bool) {
	f.mode, f.at, f.new, f.ttl = read, at, f.new[:0], 0
	if !changed {
		return
	}
	there := l.found && at < l.until // in the engine, as far as that is known
	if f.new = l.record.appendValue(f.new, at); len(f.new) == 0 {
		if there && len(l.value) > 0 {
			f.mode, f.ttl = replace, tombstoneTTL
		}
		return
	}
	f.ttl = s.ttl(&l.record, at)
	switch {
	case !there:
		f.mode = create
	case !bytes.Equal(f.new, l.value):
		f.mode = replace
	}
}

// plan decides the group of a line, and returns the command that is to confirm the answers. The command refers to memory
// of the line and of the flight.
func (s *Store) plan(l *line, p *hotPath, shift int64, f *flight) swap {
	f.line = l
	at, changed := s.decide(l, p, shift)
	s.change(l, f, at, changed)
	l.reading = f.mode == read
	return swap{key: l.key, slot: l.slot, mode: f.mode, old: l.value, new: f.new, ttl: f.ttl}
}

// settle ends a flight with the value that the key has, or had before it was set. If held is set, a change waits for replicas.
func (s *Store) settle(sh *shard, f *flight, p *hotPath, found bool, value []byte, held bool, local int64, out *outcomes) {
	l := f.line
	l.doubted, l.asking = false, false
	switch f.mode {
	case create, replace:
		if f.mode == create && found || f.mode == replace && (!found || !bytes.Equal(value, l.value)) {
			break
		}
		s.count.changes.Add(1)
		if len(f.new) <= cap(l.value) && len(f.new) <= smallBytes {
			l.value = append(l.value[:0], f.new...)
		} else {
			l.value, f.new = f.new, l.value
		}
		l.known, l.found, l.foreign, l.parsed, l.seen = true, true, false, true, local
		if l.until = math.MaxInt64; f.ttl != 0 {
			l.until = addSat(f.at, f.ttl*int64(time.Millisecond)+margin)
		}
		if held {
			f.won = true
			return
		}
		s.finish(sh, l, nil, out)
		return
	case read:
		if l.known && found == l.found && bytes.Equal(value, l.value) {
			l.seen = local
			s.finish(sh, l, nil, out)
			return
		}
	}
	if f.mode != read && l.known {
		s.count.conflicts.Add(1)
	}
	l.see(found, value, f.at, local, int64(s.config.Slack))
	if f.mode == create {
		l.until = math.MaxInt64 // it was there, even if it has expired by our clock: the next command replaces it
	}
	at, changed := s.decide(l, p, p.node.shift())
	if s.change(l, f, at, changed); f.mode == read {
		s.finish(sh, l, nil, out) // the answers follow from what the key holds now
		return
	}
	s.again(l, out)
}

// finish ends the requests of the group, with err if it is not nil, and has those that wait sent.
func (s *Store) finish(sh *shard, l *line, err error, out *outcomes) {
	n := uint64(0)
	l.parsed = l.parsed && err == nil // the record is as it was decided
	for r := l.decided.first; r != nil; r = l.decided.first {
		if err != nil {
			r.op.Err = err
		}
		n++
		r.end(out)
	}
	if err == nil {
		s.count.decisions.Add(n)
	}
	if l.waiting.first != nil {
		l.place = queued
		out.lines = append(out.lines, l)
		return
	}
	s.table.rest(sh, l)
}

// end takes a request that has its result from its list.
func (r *request) end(out *outcomes) {
	r.list.remove(r)
	r.load.Add(-1)
	if r.call.left.Add(-1) == 0 {
		out.calls = append(out.calls, r.call)
	}
}

// again has the group of a line, which was not carried out, wait before the others.
func (s *Store) again(l *line, out *outcomes) {
	l.unite()
	out.lines = append(out.lines, l)
}

// unite puts the group of a line, which was not carried out, before what waits. The line is queued then.
func (l *line) unite() {
	l.place, l.parsed = queued, false
	for r := l.decided.last; r != nil; r = l.decided.last {
		l.decided.remove(r)
		l.waiting.pushFirst(r)
	}
}

// setback ends a flight with an error of the engine, which has done nothing.
func (s *Store) setback(sh *shard, f *flight, p *hotPath, err engineError, out *outcomes) {
	l := f.line
	word, rest, _ := strings.Cut(string(err), " ")
	switch word {
	case "MOVED", "ASK":
		s.redirect(l, p, word == "ASK", rest, err, out)
	case "TRYAGAIN", "LOADING", "CLUSTERDOWN", "READONLY", "MASTERDOWN", "BUSY":
		s.engine.refresh()
		l.asking, l.trouble = false, err
		l.unite()
		out.parked = append(out.parked, l)
		if word == "READONLY" || word == "MASTERDOWN" {
			p.suspect(err)
		}
	case "WRONGTYPE":
		l.lose()
		s.finish(sh, l, buckets.ErrForeignValue, out)
	case "OOM":
		s.finish(sh, l, &buckets.Unavailable{Reason: "the engine is out of memory: " + string(err)}, out)
	default:
		l.lose()
		s.finish(sh, l, &buckets.Unavailable{Reason: "the engine refuses: " + string(err)}, out)
	}
}

// redirect sends the group of a line where a MOVED or ASK reply says: at once the first time, and later in the hope that the
// servers agree.
func (s *Store) redirect(l *line, p *hotPath, ask bool, where string, err engineError, out *outcomes) {
	number, addr, _ := strings.Cut(where, " ")
	slot, bad := strconv.ParseUint(number, 10, 16)
	var n *node
	switch {
	case bad != nil || uint16(slot) != l.slot:
		s.engine.refresh()
	case ask:
		n = s.engine.at(p.node, addr)
	default:
		n = s.engine.moved(p.node, uint16(slot), addr)
	}
	l.trouble = err
	l.unite()
	l.asking = ask && n != nil && !l.doubted
	if n == nil || l.doubted {
		l.doubted = false // the next one is followed again
		out.parked = append(out.parked, l)
		return
	}
	l.doubted = true
	out.routed = append(out.routed, route{l, n})
}

func addSat(a, b int64) int64 { // of b that is not negative
	if a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}
