// Package model is a plain model of the commands, to which tests compare a server. It is written from the description of
// the commands alone. It uses integers of arbitrary size, does one thing after the other, and is slow.
package model

import "slices"

// The kinds of buckets, as TYPE answers.
const (
	throttle = "throttle"
	window   = "window"
	zslide   = "zslide"
)

// limit has the parameters of a request.
type limit struct {
	kind     string
	most     number // the most that can be admitted at once
	interval number // of a throttle
	period   number // of the others
	align    bool
	offset   number
}

func (l *limit) capacity() number { return times(l.interval, l.most) }

// bucket is the value of a key. It is immutable: a change makes a new bucket.
type bucket struct {
	kind     string
	tat      number   // of a throttle
	start    number   // of a window
	end      number   // of a window
	used     number   // of a window
	log      []record // of a zslide: oldest first, no two at the same time
	period   number   // of a zslide: the period of the last stored request
	deadline number   // of EXPIRE; nil if there is none
}

// record is the sum of the quantities that a zslide admitted at one time.
type record struct{ at, quantity number }

// full returns the time at which the bucket is full again.
func (b *bucket) full() number {
	switch b.kind {
	case throttle:
		return b.tat
	case window:
		return b.end
	}
	return plus(b.log[len(b.log)-1].at, b.period)
}

func (b *bucket) expires() number {
	if b.deadline != nil {
		return lesser(b.deadline, b.full())
	}
	return b.full()
}

// withDeadline returns the bucket with a deadline. A deadline not before the bucket is full is dropped.
func (b *bucket) withDeadline(at number) *bucket {
	next := *b
	next.deadline = at
	if at != nil && !less(at, b.full()) {
		next.deadline = nil
	}
	return &next
}

// decision is the answer to a request. A retry of nil is shown as -1.
type decision struct {
	limited                 bool
	limit, remaining, reset number
	retry                   number
}

// outcome is the answer to a request and its effect on the bucket.
type outcome struct {
	decision
	standing decision // decision with the remaining and reset of the bucket before the request
	changed  bool     // the request is stored
	next     *bucket  // if changed, the new bucket; nil deletes the key
	cut      *bucket  // if not changed, the bucket after the cut; nil if it is not cut
	records  int      // how many records a zslide has afterwards
}

// ask decides on a quantity. b is nil if the key does not exist.
func ask(b *bucket, l *limit, now, quantity number) outcome {
	switch l.kind {
	case throttle:
		return askThrottle(b, l, now, quantity)
	case window:
		return askWindow(b, l, now, quantity)
	}
	return askSlide(b, l, now, quantity)
}

func admits(quantity, remaining number) bool {
	return !positive(quantity) || atMost(quantity, remaining)
}

func askThrottle(b *bucket, l *limit, now, quantity number) (o outcome) {
	debt := num(0)
	if b != nil {
		debt = clamp(minus(b.tat, now), num(0), l.capacity())
	}
	describe := func(debt number) decision {
		return decision{limit: l.most, remaining: floorDiv(minus(l.capacity(), debt), l.interval), reset: debt}
	}
	o.standing = describe(debt)
	o.standing.limited = !admits(quantity, o.standing.remaining)
	if o.standing.limited && atMost(quantity, l.most) {
		o.standing.retry = minus(plus(debt, times(l.interval, quantity)), l.capacity())
	}
	o.decision = o.standing
	if !o.limited && (positive(quantity) || quantity.Sign() < 0 && b != nil) {
		o.changed = true
		tat := greater(now, plus(plus(now, debt), times(l.interval, quantity)))
		o.decision = describe(minus(tat, now))
		if less(now, tat) {
			o.next = &bucket{kind: throttle, tat: tat}
		}
		return o
	}
	if b != nil && less(plus(now, l.capacity()), b.tat) {
		cut := *b
		cut.tat = plus(now, l.capacity())
		o.cut = cut.withDeadline(b.deadline)
	}
	return o
}

// describe returns the answer for a window or a log of which used is used. reset is the time until it is full again.
func (l *limit) describe(used, reset number) decision {
	d := decision{limit: l.most, remaining: greater(num(0), minus(l.most, used)), reset: num(0)}
	if positive(used) {
		d.reset = reset
	}
	return d
}

// view returns the window of a request at now, and how much of it is used.
func (l *limit) view(b *bucket, now number) (start, end, used number) {
	if l.align {
		start = plus(times(floorDiv(minus(now, l.offset), l.period), l.period), l.offset)
		end = plus(start, l.period)
		if b != nil && atMost(start, b.start) && less(b.start, end) {
			return start, end, b.used
		}
		return start, end, num(0)
	}
	if b != nil {
		if end = lesser(b.end, plus(b.start, l.period)); less(now, end) {
			return b.start, end, b.used
		}
	}
	return now, plus(now, l.period), num(0)
}

func askWindow(b *bucket, l *limit, now, quantity number) (o outcome) {
	start, end, used := l.view(b, now)
	forgotten := end // the count may be forgotten before the window of the calendar ends
	if positive(used) {
		forgotten = lesser(end, b.end)
	}
	o.standing = l.describe(used, minus(forgotten, now))
	o.standing.limited = !admits(quantity, minus(l.most, used))
	if o.standing.limited && atMost(quantity, l.most) {
		o.standing.retry = minus(forgotten, now)
	}
	o.decision = o.standing
	if o.limited || quantity.Sign() == 0 || quantity.Sign() < 0 && used.Sign() == 0 {
		return o
	}
	o.changed = true
	used = greater(num(0), plus(used, quantity))
	o.decision = l.describe(used, minus(end, now))
	if positive(used) {
		o.next = &bucket{kind: window, start: start, end: end, used: used}
	}
	return o
}

func sum(log []record) number {
	all := num(0)
	for _, r := range log {
		all = plus(all, r.quantity)
	}
	return all
}

// within returns the records that have not left a window of the given period.
func within(log []record, period, now number) (in []record) {
	for _, r := range log {
		if less(now, plus(r.at, period)) {
			in = append(in, r)
		}
	}
	return in
}

func askSlide(b *bucket, l *limit, now, quantity number) (o outcome) {
	var log []record
	period := l.period
	if b != nil {
		period = lesser(period, b.period)
		log = within(b.log, period, now)
	}
	describe := func(log []record, period number) decision {
		reset := num(0)
		if len(log) > 0 {
			reset = minus(plus(log[len(log)-1].at, period), now)
		}
		return l.describe(sum(log), reset)
	}
	o.standing = describe(log, period)
	o.standing.limited = !admits(quantity, minus(l.most, sum(log)))
	if o.standing.limited && atMost(quantity, l.most) {
		for i, r := range log { // wait until enough of the oldest records have left
			if atMost(plus(sum(log[i+1:]), quantity), l.most) {
				o.standing.retry = minus(plus(r.at, period), now)
				break
			}
		}
	}
	o.decision = o.standing
	if o.limited || quantity.Sign() == 0 || quantity.Sign() < 0 && len(log) == 0 {
		return o
	}
	o.changed = true
	if positive(quantity) {
		log = merged(append(slices.Clone(log), record{now, quantity}))
	} else {
		log = takeBack(slices.Clone(log), new0().Neg(quantity))
	}
	o.records = len(log)
	o.decision = describe(log, l.period)
	if len(log) > 0 {
		o.next = &bucket{kind: zslide, log: log, period: l.period}
	}
	return o
}

func new0() number { return num(0) }

// merged returns a log in which records with the same time are one record.
func merged(log []record) (all []record) {
	for _, r := range log {
		if n := len(all); n > 0 && same(all[n-1].at, r.at) {
			all[n-1].quantity = plus(all[n-1].quantity, r.quantity)
			continue
		}
		all = append(all, r)
	}
	return all
}

// takeBack takes quantity back from the newest records, reducing or removing them.
func takeBack(log []record, quantity number) []record {
	for len(log) > 0 && positive(quantity) {
		newest := &log[len(log)-1]
		part := lesser(quantity, newest.quantity)
		newest.quantity, quantity = minus(newest.quantity, part), minus(quantity, part)
		if newest.quantity.Sign() == 0 {
			log = log[:len(log)-1]
		}
	}
	return log
}

// loaded returns the bucket as it is after loading at now: times later than now become now, except for a TAT and a
// deadline.
func (b *bucket) loaded(now number) *bucket {
	next := *b
	switch b.kind {
	case window:
		if less(now, b.start) {
			next.start, next.end = now, minus(b.end, minus(b.start, now))
		}
	case zslide:
		next.log = nil
		for _, r := range b.log {
			next.log = append(next.log, record{lesser(r.at, now), r.quantity})
		}
		next.log = merged(next.log)
	}
	return next.withDeadline(b.deadline)
}
