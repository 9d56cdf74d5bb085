package buckets

// The Generic Cell Rate Algorithm, in its virtual scheduling form (ITU-T I.371, annex A; ATM Forum TM 4.1, 4.4.2),
// counted in nanoseconds.
//
// The whole state is one timestamp, the theoretical arrival time (TAT): the moment at which the bucket would be full
// again. Its distance from now is the debt. Each admitted unit moves the TAT one emission interval into the future, and
// time passing pays the debt off; the debt may never exceed the capacity:
//
//	capacity  = interval * limit                      at most MaxPeriod, checked by NewThrottle
//	debt      = clamp(tat - now, 0, capacity)
//	remaining = (capacity - debt) / interval          rounded down
//	admitted  iff quantity <= remaining, or quantity <= 0
//	tat'      = max(now, now + debt + interval * quantity)
//
// A request of quantity units fits at the first moment t at which interval*quantity <= capacity - debt(t). Debt falls
// by one nanosecond per nanosecond, so the wait is exactly interval*quantity - (capacity - debt).
//
// The cut: a TAT further away than one capacity cannot come from this limit (the limit was changed, or the clock set
// back across a restart). The clamp reads it as a full capacity of debt, and TakeThrottle stores it as that.

// PeekThrottle answers for quantity and describes the bucket as it stands. A tat not after now is an untouched bucket.
func PeekThrottle(l Limit, tat, now, quantity int64) Decision {
	capacity := l.interval * l.limit
	debt := min(max(subSat(tat, now), 0), capacity)
	room := capacity - debt
	d := Decision{Limit: l.limit, Remaining: room / l.interval, RetryAfter: Never, ResetAfter: debt}
	if quantity > d.Remaining {
		d.refuse(quantity, subSat(mulSat(l.interval, quantity), room))
	}
	return d
}

// TakeThrottle decides on quantity and returns the TAT to keep. A returned TAT not after now means that nothing need be
// kept. A refused request, or one of quantity 0, returns the TAT it was given, but for the cut.
func TakeThrottle(l Limit, tat, now, quantity int64) (int64, Decision) {
	capacity := l.interval * l.limit
	d := PeekThrottle(l, tat, now, quantity)
	switch {
	case d.Limited || quantity == 0:
		return min(tat, addSat(now, capacity)), d
	case quantity > 0: // whole intervals of the room, so the remainder of the division stays what it was
		d.Remaining -= quantity
		d.ResetAfter += l.interval * quantity
	default:
		d.ResetAfter = max(0, addSat(d.ResetAfter, mulSat(l.interval, quantity)))
		d.Remaining = (capacity - d.ResetAfter) / l.interval
	}
	return addSat(now, d.ResetAfter), d
}
