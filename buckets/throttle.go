package buckets

import "encoding/binary"

// The Generic Cell Rate Algorithm, in its virtual scheduling form (ITU-T I.371, annex A; ATM Forum TM 4.1, 4.4.2), in
// nanoseconds.
//
// The state is one timestamp, the theoretical arrival time (TAT): the time at which the bucket is full again. The debt is
// the distance from now to the TAT. Each admitted unit moves the TAT one emission interval into the future, and the debt
// falls as time passes. The debt never exceeds the capacity:
//
//	capacity  = interval * limit                      at most MaxPeriod, checked by NewThrottle
//	debt      = clamp(tat - now, 0, capacity)
//	remaining = (capacity - debt) / interval          rounded down
//	admitted  iff quantity <= remaining, or quantity <= 0
//	tat'      = max(now, now + debt + interval * quantity)
//
// A request of quantity units fits from the first time t at which interval*quantity <= capacity - debt(t). The debt falls
// by one nanosecond per nanosecond, so the wait is exactly interval*quantity - (capacity - debt).
//
// The cut: a TAT later than now + capacity cannot come from this limit. The limit was changed, or the clock was set back
// across a restart. The clamp treats such a TAT as a debt of the full capacity, and TakeThrottle stores now + capacity.

// balance returns the debt at now, the rest of the capacity in nanoseconds, and the same in whole emission intervals.
func (l *Limit) balance(tat, now int64) (debt, room, remaining int64) {
	capacity := l.interval * l.limit
	debt = min(max(subSat(tat, now), 0), capacity)
	room = capacity - debt
	return debt, room, int64(uint64(room) / uint64(l.interval))
}

// PeekThrottle fills in d with the answer to quantity, and changes nothing. A tat not after now means a full bucket.
func (l *Limit) PeekThrottle(tat, now, quantity int64, d *Decision) {
	debt, room, remaining := l.balance(tat, now)
	*d = Decision{Limit: l.limit, Remaining: remaining, RetryAfter: Never, ResetAfter: debt}
	if quantity > remaining {
		d.Refuse(quantity, mulSat(l.interval, quantity)-room)
	}
}

// TakeThrottle decides on quantity and returns the TAT to keep. A TAT not after now need not be kept. For a request that
// is refused, or of quantity 0, it returns tat unchanged, except that it cuts a TAT beyond the capacity.
func (l *Limit) TakeThrottle(tat, now, quantity int64, d *Decision) int64 {
	debt, room, remaining := l.balance(tat, now)
	*d = Decision{Limit: l.limit, Remaining: remaining, RetryAfter: Never, ResetAfter: debt}
	switch {
	case quantity > remaining:
		d.Refuse(quantity, mulSat(l.interval, quantity)-room)
		return l.cutThrottle(tat, now, d)
	case quantity == 0:
		return l.cutThrottle(tat, now, d)
	case quantity > 0: // room shrinks by whole intervals, so the remainder of the division is unchanged
		d.Remaining -= quantity
		d.ResetAfter += l.interval * quantity
	default:
		d.ResetAfter = max(0, addSat(debt, mulSat(l.interval, quantity)))
		d.Remaining = (l.interval*l.limit - d.ResetAfter) / l.interval
	}
	return addSat(now, d.ResetAfter)
}

// cutThrottle returns the TAT to keep of a bucket from which nothing is taken.
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
	fields: func(dst []Field, st *State, _ int64) []Field {
		return append(dst, Field{Name: "tat", Value: st.Words[0]})
	},
}
