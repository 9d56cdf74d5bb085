package buckets

import "encoding/binary"

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

// standing returns the debt at now, the room that is left of the capacity, and how many whole intervals that is.
func (l *Limit) standing(tat, now int64) (debt, room, remaining int64) {
	capacity := l.interval * l.limit
	debt = min(max(subSat(tat, now), 0), capacity)
	room = capacity - debt
	return debt, room, int64(uint64(room) / uint64(l.interval))
}

// PeekThrottle answers for quantity and describes the bucket as it stands. A tat not after now is an untouched bucket.
func (l *Limit) PeekThrottle(tat, now, quantity int64, d *Decision) {
	debt, room, remaining := l.standing(tat, now)
	*d = Decision{Limit: l.limit, Remaining: remaining, RetryAfter: Never, ResetAfter: debt}
	if quantity > remaining {
		d.Refuse(quantity, mulSat(l.interval, quantity)-room)
	}
}

// TakeThrottle decides on quantity, and returns the TAT to keep. A returned TAT not after now need not be kept. A request
// that is refused, or of quantity 0, returns the TAT that it was given, but for the cut.
func (l *Limit) TakeThrottle(tat, now, quantity int64, d *Decision) int64 {
	debt, room, remaining := l.standing(tat, now)
	*d = Decision{Limit: l.limit, Remaining: remaining, RetryAfter: Never, ResetAfter: debt}
	switch {
	case quantity > remaining:
		d.Refuse(quantity, mulSat(l.interval, quantity)-room)
		return l.cutThrottle(tat, now, d)
	case quantity == 0:
		return l.cutThrottle(tat, now, d)
	case quantity > 0: // whole intervals of the room, so the remainder of the division stays what it was
		d.Remaining -= quantity
		d.ResetAfter += l.interval * quantity
	default:
		d.ResetAfter = max(0, addSat(debt, mulSat(l.interval, quantity)))
		d.Remaining = (l.interval*l.limit - d.ResetAfter) / l.interval
	}
	return addSat(now, d.ResetAfter)
}

// cutThrottle returns the TAT to keep of a bucket that nothing is taken from.
func (l *Limit) cutThrottle(tat, now int64, d *Decision) int64 {
	most := addSat(now, l.interval*l.limit)
	d.Cut = tat > most
	return min(tat, most)
}

// Throttled returns the state of a Throttle key with the given TAT, in nanoseconds of Unix time.
func Throttled(tat int64) State { return State{Kind: Throttle, Words: [MaxWords]int64{tat}} }

var throttleRow = algorithm{
	name: "throttle", encoding: "tat", words: 1, code: 1,
	peek: func(l *Limit, st *State, now, quantity int64, d *Decision) {
		l.PeekThrottle(st.Words[0], now, quantity, d)
	},
	take: func(l *Limit, st *State, now, quantity int64, _ int, d *Decision) (Effect, error) {
		before := st.Words[0]
		st.Words[0] = l.TakeThrottle(before, now, quantity, d)
		switch {
		case !d.Limited && quantity != 0:
			return Stored, nil
		case st.Words[0] != before:
			return Cut, nil
		}
		return Unchanged, nil
	},
	fullAt: func(st *State) int64 { return st.Words[0] },
	fullAfter: func(l *Limit, now, quantity int64) int64 {
		return addSat(now, mulSat(l.interval, quantity))
	},
	encode: func(dst []byte, st *State) []byte { return binary.LittleEndian.AppendUint64(dst, uint64(st.Words[0])) },
	decode: func(d *Decoder, st *State) { st.Words[0] = d.Int64() },
	fields: func(dst []Field, st *State, _ int64) []Field { return append(dst, Field{"tat", st.Words[0]}) },
}
