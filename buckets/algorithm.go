package buckets

// Kind names the algorithm a bucket belongs to. A key holds one kind.
type Kind uint8

// The kinds of bucket.
const (
	None     Kind = iota // no bucket
	Throttle             // GCRA: one timestamp
	Window               // fixed window: one counter
	Slide                // exact sliding window: a log of admissions
	Counter              // an integer that requests set and change
	Float                // the same, of a number that is no integer
)

// algorithm is the row of a kind. To add an algorithm, add its kind above, a row in the table below, and a file that
// opens with the derivation, has the constructor of its Limit, and ends with the row. Stores, files and commands read the
// table.
type algorithm struct {
	name     string // what CL.GET calls the kind
	typeName string // what TYPE answers; "" is name
	encoding string // what OBJECT ENCODING answers
	words    int    // how many of State.Words the kind uses; 0 for a kind with a log

	// keepsExpiry says that the second of the words is when the key expires, which EXPIRE changes, and that no Limit decides
	// on the kind: peek, take and fullAfter are nil.
	keepsExpiry bool

	// peek answers for quantity and changes nothing.
	peek func(l *Limit, st *State, now, quantity int64, d *Decision)
	// take decides on quantity and changes st to the state to keep.
	take func(l *Limit, st *State, now, quantity int64, maxLog int, d *Decision) (Effect, error)
	// fullAt returns when the bucket is full again.
	fullAt func(st *State) int64
	// fullAfter returns when a bucket of l that is full is full again, if quantity is taken at now.
	fullAfter func(l *Limit, now, quantity int64) int64
	// outgrows reports whether an admitted quantity of l would leave more than maxLog records. It is nil for a kind
	// without a log.
	outgrows func(l *Limit, st *State, now, quantity int64, maxLog int) bool
	// ahead reports whether the state is later than now by more than any request can have left it. clamp changes such a
	// state to one that is not ahead. Both are nil for a kind whose limit cuts the state anyway.
	ahead func(st *State, now int64) bool
	clamp func(st *State, now int64)
	// fields appends what CL.GET shows of the state at now.
	fields func(dst []Field, st *State, now int64) []Field

	code   byte                               // the code of the kind in files; see persistence/FORMAT.md
	encode func(dst []byte, st *State) []byte // appends the state in the format of the files
	decode func(d *Decoder, st *State)        // reads what encode appends
}

// algorithms is the table of kinds.
var algorithms = [...]algorithm{
	None:     {name: "none"},
	Throttle: throttleRow,
	Window:   windowRow,
	Slide:    slideRow,
	Counter:  counterRow,
	Float:    floatRow,
}

// String returns the name of the kind, such as throttle, or none. Counter and Float have the same.
func (k Kind) String() string { return algorithms[k].name }

// Type returns the name that TYPE answers, such as throttle, or string for a counter.
func (k Kind) Type() string {
	if name := algorithms[k].typeName; name != "" {
		return name
	}
	return algorithms[k].name
}

// KeepsExpiry reports whether the state of a key of this kind says when the key expires, as a counter's does. The key of
// another kind expires when its bucket is full, or at an earlier deadline that the store keeps beside the state.
func (k Kind) KeepsExpiry() bool { return expiries[k%maxKinds] }

// Encoding returns the name that OBJECT ENCODING answers for a key of this kind.
func (k Kind) Encoding() string { return algorithms[k].encoding }

// Words returns how many of State.Words a key of this kind uses. 0 means that its state is a log.
func (k Kind) Words() int { return int(words[k%maxKinds]) }

// maxKinds is above the number of kinds that there can be: a code has four bits and is not 0.
const maxKinds = CodeBits + 1

// words holds algorithm.words of each kind. Stores look it up for every record that they read, so it is kept apart from
// the rows, which are large.
var words [maxKinds]uint8

// expiries says of each kind whether it keeps its expiry, apart from the rows for the same reason.
var expiries [maxKinds]bool

func init() {
	for k := range algorithms {
		words[k], expiries[k] = uint8(algorithms[k].words), algorithms[k].keepsExpiry
	}
}

// Known reports whether k is a kind that a key may hold.
func (k Kind) Known() bool { return k > None && int(k) < len(algorithms) }

// HasLog reports whether the state of a key of this kind is a log.
func (k Kind) HasLog() bool { return k != None && algorithms[k].words == 0 }

// KindCount is the number of kinds including None. An array of this length has an element for each kind.
const KindCount = len(algorithms)

// Kinds returns the kinds that a key may hold, in the order of their numbers.
func Kinds() []Kind {
	kinds := make([]Kind, 0, KindCount-1)
	for k := None + 1; int(k) < KindCount; k++ {
		kinds = append(kinds, k)
	}
	return kinds
}
