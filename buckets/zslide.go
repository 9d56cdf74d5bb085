package buckets

// The exact sliding window: at any time, at most limit was admitted in the last period.
//
// The state is a log of admissions, oldest first. A record made at t is in the window while now < t + period, and leaves
// it at t + period exactly. With S the sum of the quantities in the window, a quantity above 0 is admitted iff quantity
// <= limit - S. A refused quantity fits as soon as the oldest records, which leave first, add up to quantity - (limit -
// S). Running sums allow a binary search for that record.
//
// A log also stores the period of the last stored request. Records that have left the window of the stored period are
// gone for good, so a longer period does not bring them back. The period of a request can only make fewer records
// visible. So the smaller of the two periods decides:
//
//	span     = min(period of the request, period stored)
//	visible  = records with now < t + span
//
// A record later than now, which is possible when the clock was set back across a restart, counts as now.

// Log is a read-only view of a sliding log. Its records are in order of time, the oldest first.
type Log interface {
	// Len returns the number of records.
	Len() int
	// Time returns when record i was admitted, in nanoseconds of Unix time.
	Time(i int) int64
	// Before returns the sum of the quantities of the records before i (0 <= i <= Len), modulo 2^64 and from an arbitrary
	// base: only differences have a meaning.
	Before(i int) uint64
	// Period returns the period of the last stored request, in nanoseconds.
	Period() int64
}

// EditableLog is a Log that a decision can change.
type EditableLog interface {
	Log
	// Apply carries out an edit at now. If the edit is Stored, period becomes the period of the log. It requires that the
	// edit is Stored if it does more than drop records.
	Apply(e LogEdit, now, period int64)
}

// LogEdit says how a decision changes a log. The steps are carried out in the order of the fields.
type LogEdit struct {
	Drop  int   // remove this many of the oldest records, which have left the window
	Clear bool  // remove all records
	Back  int64 // take this much back from the newest records, reducing or removing them
	Add   int64 // add this much at now: to the newest record if that is not before now, otherwise as a new record
	Grows bool  // Add needs a new record
	// Stored reports that the request was admitted and changed the log; the log keeps its period. No request can observe
	// the change of an edit that is not Stored.
	Stored bool
}

// Outgrows reports whether the edit would leave more than most records in log.
func (e *LogEdit) Outgrows(log Log, most int) bool { return e.Grows && log.Len()-e.Drop+1 > most }

// slideView is a log as one request sees it.
type slideView struct {
	log   Log
	now   int64
	span  int64
	first int // index of the oldest record in the window; n if the window is empty
	n     int
	sum   int64
	last  int64 // time of the newest record
}

// Gone returns how many of the oldest records have left a window of span nanoseconds. It searches from the oldest record
// in doubling steps, so it takes constant time if none has left, and otherwise logarithmic time in the number of those
// that have.
func Gone(log Log, now, span int64) int {
	left := func(i int) bool { return addSat(min(log.Time(i), now), span) <= now }
	n := log.Len()
	if n == 0 || !left(0) {
		return 0
	}
	lo, step := 0, 1 // invariant: left(lo)
	for lo+step < n && left(lo+step) {
		lo += step
		step *= 2
	}
	hi := min(lo+step, n) // hi has not left, or hi == n
	for lo+1 < hi {
		if mid := int(uint(lo+hi) / 2); left(mid) {
			lo = mid
		} else {
			hi = mid
		}
	}
	return hi
}

// load fills in the view.
func (v *slideView) load(l *Limit, log Log, now int64) {
	v.log, v.now, v.span, v.n = log, now, l.period, log.Len()
	if v.n > 0 {
		v.span = min(l.period, log.Period())
		v.first = Gone(log, now, v.span)
		v.sum = int64(log.Before(v.n) - log.Before(v.first))
		v.last = log.Time(v.n - 1)
	}
}

// leaves returns the time from now until record i leaves a window of span nanoseconds.
func (v *slideView) leaves(i int, span int64) int64 {
	return addSat(min(v.log.Time(i), v.now), span) - v.now
}

// oldestReaching returns the first record i for which the visible records up to and including i add up to at least need. It
// requires that 0 < need <= sum.
func (v *slideView) oldestReaching(need int64) int {
	base := v.log.Before(v.first)
	lo, hi := v.first, v.n-1
	if int64(v.log.Before(lo+1)-base) >= need {
		return lo
	}
	for lo < hi {
		mid := int(uint(lo+hi) / 2)
		if int64(v.log.Before(mid+1)-base) >= need {
			hi = mid
		} else {
			lo = mid + 1
		}
	}
	return lo
}

// answer fills in d with the answer to quantity.
func (v *slideView) answer(l *Limit, quantity int64, d *Decision) {
	room := l.limit - v.sum
	*d = Decision{Limit: l.limit, Remaining: max(0, room), RetryAfter: Never}
	if v.sum > 0 {
		d.ResetAfter = addSat(min(v.last, v.now), v.span) - v.now
	}
	if quantity > 0 && quantity > room {
		d.Limited = true
		if quantity <= l.limit {
			d.RetryAfter = v.leaves(v.oldestReaching(quantity-room), v.span)
		}
	}
}

// PeekSlide fills in d with the answer to quantity, and changes nothing.
func (l *Limit) PeekSlide(log Log, now, quantity int64, d *Decision) {
	var v slideView
	v.load(l, log, now)
	v.answer(l, quantity, d)
}

// TakeSlide decides on quantity and sets edit to the change of the log. It requires that edit is zero. The edit is not
// Stored for a request that is refused or of quantity 0, nor for a refund when nothing is in the window.
func (l *Limit) TakeSlide(log Log, now, quantity int64, edit *LogEdit, d *Decision) {
	var v slideView
	v.load(l, log, now)
	v.answer(l, quantity, d)
	switch {
	case d.Limited || quantity == 0 || (quantity < 0 && v.sum == 0):
		if v.n > 0 {
			edit.Drop = Gone(log, now, log.Period())
		}
	case quantity > 0:
		edit.Drop, edit.Stored = v.first, true
		edit.Add = quantity
		edit.Grows = v.first == v.n || v.last < now
		d.Remaining -= quantity
		d.ResetAfter = l.period
	case quantity <= -v.sum:
		edit.Clear, edit.Stored = true, true
		d.Remaining, d.ResetAfter = l.limit, 0
	default:
		edit.Drop, edit.Stored = v.first, true
		edit.Back = -quantity
		kept := v.sum - edit.Back
		d.Remaining = max(0, l.limit-kept)
		d.ResetAfter = v.leaves(v.oldestReaching(kept), l.period)
	}
}

// LogFullAt returns when the newest record of a log leaves the window of the stored period; 0 for an empty log.
func LogFullAt(log Log) int64 {
	n := log.Len()
	if n == 0 {
		return 0
	}
	return addSat(log.Time(n-1), log.Period())
}

// Logged returns the state of a Slide key that holds log.
func Logged(log Log) State { return State{Kind: Slide, Log: log} }

var emptyLog Log = new(Admissions)

// log returns the state's log for reading.
func (st *State) log() Log {
	if st.Log == nil {
		return emptyLog
	}
	return st.Log
}

// editable returns the state's log for changing.
func (st *State) editable() EditableLog {
	if log, ok := st.Log.(EditableLog); ok {
		return log
	}
	log := copyLog(st.log())
	st.Log = log
	return log
}

// LogGrowth reports whether admitting quantity of l would leave more than maxLog records. It is false for kinds without a
// log.
func (st *State) LogGrowth(l *Limit, now, quantity int64, maxLog int) bool {
	outgrows := algorithms[l.kind].outgrows
	return outgrows != nil && outgrows(l, st, now, quantity, maxLog)
}

var slideRow = algorithm{
	name: "zslide", encoding: "log", code: 3,
	peek: func(l *Limit, st *State, now, quantity int64, d *Decision) {
		l.PeekSlide(st.log(), now, quantity, d)
	},
	take: func(l *Limit, st *State, now, quantity int64, maxLog int, d *Decision) (Effect, error) {
		var edit LogEdit
		log := st.editable()
		l.TakeSlide(log, now, quantity, &edit, d)
		switch {
		case edit.Outgrows(log, maxLog):
			*d = Decision{}
			return Unchanged, ErrLogFull
		case edit.Stored || edit.Drop > 0:
			log.Apply(edit, now, l.period)
		}
		if edit.Stored {
			return Stored, nil
		}
		return Unchanged, nil
	},
	fullAt:    func(st *State) int64 { return LogFullAt(st.log()) },
	fullAfter: func(l *Limit, now, _ int64) int64 { return addSat(now, l.period) },
	outgrows: func(l *Limit, st *State, now, quantity int64, maxLog int) bool {
		var edit LogEdit
		var d Decision
		log := st.log()
		l.TakeSlide(log, now, quantity, &edit, &d)
		return edit.Outgrows(log, maxLog)
	},
	ahead: func(st *State, now int64) bool {
		log := st.log()
		return log.Len() > 0 && log.Time(log.Len()-1) > now
	},
	clamp: func(st *State, now int64) {
		log := st.log()
		first := 0
		for log.Time(first) < now {
			first++
		}
		st.Log = clampedLog{Log: log, now: now, first: first}
	},
	encode: func(dst []byte, st *State) []byte { return appendLog(dst, st.Log) },
	decode: func(d *Decoder, st *State) { st.Log = d.slide() },
	fields: func(dst []Field, st *State, now int64) []Field {
		log := st.log()
		first, n := Gone(log, now, log.Period()), log.Len()
		if first == n {
			return dst
		}
		return append(dst,
			Field{Name: "records", Value: int64(n - first)}, Field{Name: "sum", Value: int64(log.Before(n) - log.Before(first))},
			Field{Name: "oldest", Value: log.Time(first)}, Field{Name: "newest", Value: log.Time(n - 1)})
	},
}
