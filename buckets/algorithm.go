package buckets

// algorithm is what a kind of bucket is called. Adding one means a file of pure functions, a row in the table below, its
// cases in the methods of state, and a constructor of its Limit.
type algorithm struct {
	name     string // what TYPE answers
	encoding string // what OBJECT ENCODING answers
}

var algorithms = [...]algorithm{
	None:     {name: "none"},
	Throttle: {name: "throttle", encoding: "tat"},
	Window:   {name: "window", encoding: "counter"},
	Slide:    {name: "zslide", encoding: "log"},
}

// String returns the name TYPE answers: throttle, window or zslide; none for no bucket.
func (k Kind) String() string { return algorithms[k].name }

// Encoding returns the name OBJECT ENCODING answers for a bucket of this kind.
func (k Kind) Encoding() string { return algorithms[k].encoding }

// KindNamed returns the kind that TYPE calls name, or None.
func KindNamed(name string) Kind {
	for k := range algorithms {
		if algorithms[k].name == name {
			return Kind(k)
		}
	}
	return None
}

// effect says what a decision did to the state it was given.
type effect uint8

const (
	unchanged effect = iota
	cut              // the state was cut to its limit, though the request was not stored
	stored           // the request was admitted and changed the state
)

// state is what a key holds: one field of it, by its kind. Its methods are the way from the store to the algorithms; they
// are switches, not tables of functions, so that nothing they are given has to live on the heap.
type state struct {
	tat    int64
	window WindowState
	log    slidingLog
}

// peek answers without changing anything.
func (st *state) peek(l *Limit, now, quantity int64, d *Decision) {
	switch l.kind {
	case Throttle:
		l.peekThrottle(st.tat, now, quantity, d)
	case Window:
		l.peekWindow(st.window, now, quantity, d)
	case Slide:
		l.peekSlide(&st.log, now, quantity, d)
	}
}

// take decides and changes st to what is to be kept. A log of more than maxLog records is ErrLogFull.
func (st *state) take(l *Limit, now, quantity int64, maxLog int, d *Decision) (effect, error) {
	switch l.kind {
	case Throttle:
		before := st.tat
		st.tat = l.takeThrottle(before, now, quantity, d)
		switch {
		case !d.Limited && quantity != 0:
			return stored, nil
		case st.tat != before:
			return cut, nil
		}
	case Window:
		if l.takeWindow(&st.window, now, quantity, d) {
			return stored, nil
		}
	case Slide:
		return st.takeSlide(l, now, quantity, maxLog, d)
	}
	return unchanged, nil
}

func (st *state) takeSlide(l *Limit, now, quantity int64, maxLog int, d *Decision) (effect, error) {
	var edit LogEdit
	l.takeSlide(&st.log, now, quantity, &edit, d)
	switch {
	case edit.outgrows(&st.log, maxLog):
		*d = Decision{}
		return unchanged, ErrLogFull
	case !edit.Stored:
		if edit.Drop > 0 {
			st.log.drop(edit.Drop)
		}
		return unchanged, nil
	}
	st.log.apply(&edit, now, l.period)
	return stored, nil
}

// fits reports whether an admitted request would not outgrow maxLog.
func (st *state) fits(l *Limit, now, quantity int64, maxLog int) bool {
	if l.kind != Slide {
		return true
	}
	var edit LogEdit
	var d Decision
	l.takeSlide(&st.log, now, quantity, &edit, &d)
	return !edit.outgrows(&st.log, maxLog)
}

// full returns when the bucket is full again, which is when its key expires.
func (st *state) full(kind Kind) int64 {
	switch kind {
	case Throttle:
		return st.tat
	case Window:
		return st.window.End
	}
	return st.log.full()
}
