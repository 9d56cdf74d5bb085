package buckets

// MaxWords is the largest number of words that the state of a kind without a log uses.
const MaxWords = 3

// State is what one key holds: nothing (the zero State), or the state of one kind.
type State struct {
	Kind Kind
	// Words is the state of a kind without a log. Throttle: the TAT. Window: the start, the end, and how much is used.
	// Counter and Float: the number, and the expiry.
	Words [MaxWords]int64
	// Log is the state of a kind with a log; nil is an empty log. Take changes it in place if it is an EditableLog, and
	// replaces it otherwise.
	Log Log
}

// Effect says what Take did to a state.
type Effect uint8

// The effects of Take.
const (
	Unchanged Effect = iota // no request can observe a change
	Cut                     // the state was cut to the limit; nothing was taken
	Stored                  // the request was admitted and changed the state
)

// Field is one named value of a state, for display. Times are nanoseconds of Unix time.
type Field struct {
	Name  string
	Value int64
	Text  string // instead of Value, if it is not empty: a number that is no integer
}

// Peek fills in d with the answer to quantity of l at now, and changes nothing: Remaining and ResetAfter describe the
// bucket as it is. It requires that st is of the kind of l, or holds nothing.
func (st *State) Peek(l *Limit, now, quantity int64, d *Decision) {
	algorithms[l.kind].peek(l, st, now, quantity, d)
}

// Take decides on quantity of l at now and changes st to the state to keep. A state whose FullAt is not after now need
// not be kept. It requires that st is of the kind of l, or holds nothing.
//
// Take returns ErrLogFull, and leaves st unchanged, if an admitted request would leave more than maxLog records in the
// log.
func (st *State) Take(l *Limit, now, quantity int64, maxLog int, d *Decision) (Effect, error) {
	effect, err := algorithms[l.kind].take(l, st, now, quantity, maxLog, d)
	if effect != Unchanged {
		st.Kind = l.kind
	}
	return effect, err
}

// FullAt returns when the bucket is full again, in nanoseconds of Unix time. The key expires then.
func (st *State) FullAt() int64 {
	if st.Kind == None {
		return 0
	}
	return algorithms[st.Kind].fullAt(st)
}

// AppendFields appends the named values of the state at now.
func (st *State) AppendFields(dst []Field, now int64) []Field {
	if st.Kind == None {
		return dst
	}
	return algorithms[st.Kind].fields(dst, st, now)
}
