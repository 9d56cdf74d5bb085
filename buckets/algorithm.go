package buckets

// algorithm is the row of a kind. Adding an algorithm takes a file that opens with the derivation and ends with its row,
// the row's place in the table below, and a constructor of its Limit. Stores, files and commands read the table.
type algorithm struct {
	name     string // what TYPE answers
	encoding string // what OBJECT ENCODING answers
	words    int    // of State.Words that the kind uses; a kind with a log uses none

	// peek answers for quantity and changes nothing.
	peek func(l *Limit, st *State, now, quantity int64, d *Decision)
	// take decides on quantity and changes st to what is to be kept.
	take func(l *Limit, st *State, now, quantity int64, maxLog int, d *Decision) (Effect, error)
	// fullAt returns when the bucket is full again.
	fullAt func(st *State) int64
	// fields appends what CL.GET shows of the state at now.
	fields func(dst []Field, st *State, now int64) []Field

	code   byte                               // of the kind, in files; see persistence/FORMAT.md
	encode func(dst []byte, st *State) []byte // appends the state as files hold it
	decode func(d *Decoder, st *State)        // reads it
}

// algorithms is the table of kinds.
var algorithms = [...]algorithm{
	None:     {name: "none"},
	Throttle: throttleRow,
	Window:   windowRow,
	Slide:    slideRow,
}

// String returns the name that TYPE answers, such as throttle, or none.
func (k Kind) String() string { return algorithms[k].name }

// Encoding returns the name that OBJECT ENCODING answers for a key of this kind.
func (k Kind) Encoding() string { return algorithms[k].encoding }

// Words returns how many of State.Words a key of this kind uses. 0 means that its state is a log.
func (k Kind) Words() int { return algorithms[k].words }

// Known reports whether k is a kind that a key may hold.
func (k Kind) Known() bool { return k > None && int(k) < len(algorithms) }

// KindNamed returns the kind that TYPE calls name, or None.
func KindNamed(name string) Kind {
	for k := range algorithms {
		if algorithms[k].name == name {
			return Kind(k)
		}
	}
	return None
}
