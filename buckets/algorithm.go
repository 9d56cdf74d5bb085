package buckets

// effect says what a decision did to the state it was given.
type effect uint8

const (
	unchanged effect = iota
	cut              // the state was cut to its limit, though the request was not stored
	stored           // the request was admitted and changed the state
)

// state is what a key holds: one field of it, by its kind.
type state struct {
	tat    int64
	window WindowState
	log    *slidingLog
}

// algorithm is one kind of bucket. Adding one means a file of pure functions, a row in the table below, and a
// constructor of its Limit.
type algorithm struct {
	name     string // what TYPE answers
	encoding string // what OBJECT ENCODING answers

	// peek answers without changing anything.
	peek func(st *state, l Limit, now, quantity int64) Decision
	// take decides and changes st to what is to be kept. A log of more than maxLog records is ErrLogFull.
	take func(st *state, l Limit, now, quantity int64, maxLog int) (Decision, effect, error)
	// fits reports whether an admitted request would not outgrow maxLog; nil where nothing can.
	fits func(st *state, l Limit, now, quantity int64, maxLog int) bool
	// full returns when the bucket is full again, which is when its key expires.
	full func(st *state) int64
	// bytes returns what st holds outside itself.
	bytes func(st *state) int
}

var algorithms = [...]algorithm{
	Throttle: {
		name:     "throttle",
		encoding: "tat",
		peek: func(st *state, l Limit, now, quantity int64) Decision {
			return PeekThrottle(l, st.tat, now, quantity)
		},
		take: func(st *state, l Limit, now, quantity int64, _ int) (Decision, effect, error) {
			tat, d := TakeThrottle(l, st.tat, now, quantity)
			did := unchanged
			switch {
			case !d.Limited && quantity != 0:
				did = stored
			case tat != st.tat:
				did = cut
			}
			st.tat = tat
			return d, did, nil
		},
		full:  func(st *state) int64 { return st.tat },
		bytes: func(*state) int { return 0 },
	},
	Window: {
		name:     "window",
		encoding: "counter",
		peek: func(st *state, l Limit, now, quantity int64) Decision {
			return PeekWindow(l, st.window, now, quantity)
		},
		take: func(st *state, l Limit, now, quantity int64, _ int) (Decision, effect, error) {
			w, d := TakeWindow(l, st.window, now, quantity)
			did := unchanged
			if w != st.window {
				did = stored
			}
			st.window = w
			return d, did, nil
		},
		full:  func(st *state) int64 { return st.window.End },
		bytes: func(*state) int { return 0 },
	},
	Slide: {
		name:     "zslide",
		encoding: "log",
		peek: func(st *state, l Limit, now, quantity int64) Decision {
			return PeekSlide(l, st.log, now, quantity)
		},
		take: func(st *state, l Limit, now, quantity int64, maxLog int) (Decision, effect, error) {
			edit, d := TakeSlide(l, st.log, now, quantity)
			if edit.outgrows(st.log, maxLog) {
				return Decision{}, unchanged, ErrLogFull
			}
			if !edit.Stored {
				if edit.Drop > 0 {
					st.log.drop(edit.Drop)
				}
				return d, unchanged, nil
			}
			if st.log == nil {
				st.log = new(slidingLog)
			}
			st.log.apply(edit, now, l.period)
			return d, stored, nil
		},
		fits: func(st *state, l Limit, now, quantity int64, maxLog int) bool {
			edit, _ := TakeSlide(l, st.log, now, quantity)
			return !edit.outgrows(st.log, maxLog)
		},
		full:  func(st *state) int64 { return st.log.full() },
		bytes: func(st *state) int { return st.log.bytes() },
	},
}

// String returns the name TYPE answers: throttle, window or zslide; none for no bucket.
func (k Kind) String() string {
	if k == None || int(k) >= len(algorithms) {
		return "none"
	}
	return algorithms[k].name
}

// Encoding returns the name OBJECT ENCODING answers for a bucket of this kind.
func (k Kind) Encoding() string { return algorithms[k].encoding }

// KindNamed returns the kind that TYPE calls name, or None.
func KindNamed(name string) Kind {
	for k := Throttle; int(k) < len(algorithms); k++ {
		if algorithms[k].name == name {
			return k
		}
	}
	return None
}
