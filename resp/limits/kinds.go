// Package limits reads what limit commands ask for: the words behind CL.THROTTLE, CL.WINDOW, CL.ZSLIDE and CL.ALL.
// It also writes what CL.GET answers.
package limits

import (
	"math"

	"cellserver/buckets"
	"cellserver/resp/frame"
)

// Kind is a row: a kind of limit as clients ask for it. The row of a kind makes its command, CL.<Word>, its place in CL.ALL
// and its part of the documentation:
//
//	CL.<Word> key integers... period [quantity [ALIGN offset] [PEEK] [MS]]
type Kind struct {
	Kind     buckets.Kind
	Word     string    // names the kind in CL.ALL
	Integers []Integer // the parameters before the period
	Aligns   bool      // takes ALIGN

	// New makes a checked limit of parameters that are in their ranges.
	New func(v *Values) (buckets.Limit, error)

	Summary string
	Cost    string
}

// Integer is a parameter that is an integer.
type Integer struct {
	Name     string
	Min, Max int64
	Fault    string // the reply to an integer that is out of range
}

// Values are the parameters of a limit. Times are in nanoseconds.
type Values struct {
	Integers [maxIntegers]int64 // in the order of Kind.Integers
	Period   int64
	Aligned  bool
	Offset   int64 // of aligned windows
}

// maxIntegers is the most integers that a kind has.
const maxIntegers = 2

var limitOfWindow = Integer{Name: "limit", Min: 1, Max: math.MaxInt64, Fault: "ERR " + string(buckets.ErrLimitRange)}

// kinds is the table.
var kinds = [...]Kind{
	{
		Kind: buckets.Throttle, Word: "THROTTLE",
		Integers: []Integer{
			{Name: "max_burst", Min: 0, Max: math.MaxInt64 - 1, Fault: "ERR " + string(buckets.ErrBurstRange)},
			{Name: "count", Min: 1, Max: math.MaxInt64, Fault: "ERR " + string(buckets.ErrCountRange)},
		},
		New: func(v *Values) (buckets.Limit, error) {
			return buckets.NewThrottle(v.Integers[0], v.Integers[1], v.Period)
		},
		Summary: "Ask a GCRA limit: count requests per period of seconds on average, and max_burst more at once.",
		Cost:    "O(1)",
	},
	{
		Kind: buckets.Window, Word: "WINDOW", Integers: []Integer{limitOfWindow}, Aligns: true,
		New: func(v *Values) (buckets.Limit, error) {
			if v.Aligned {
				return buckets.NewAlignedWindow(v.Integers[0], v.Period, v.Offset)
			}
			return buckets.NewWindow(v.Integers[0], v.Period)
		},
		Summary: "Ask a fixed window: at most limit per window of period seconds, opened by its first admission or on the calendar.",
		Cost:    "O(1)",
	},
	{
		Kind: buckets.Slide, Word: "ZSLIDE", Integers: []Integer{limitOfWindow},
		New: func(v *Values) (buckets.Limit, error) {
			return buckets.NewSlide(v.Integers[0], v.Period)
		},
		Summary: "Ask an exact sliding window: at most limit in any period seconds.",
		Cost:    "O(1) amortised; O(log N) with N admissions in the window for a quantity above 1 that is refused",
	},
}

// Kinds returns the rows, in the order of the documentation.
func Kinds() []Kind { return kinds[:] }

// KindOf returns the row of a kind, or nil if it is no limit's.
func KindOf(kind buckets.Kind) *Kind {
	for i := range kinds {
		if kinds[i].Kind == kind {
			return &kinds[i]
		}
	}
	return nil
}

// Name returns the name of the command: cl.throttle.
func (k *Kind) Name() string { return "cl." + k.Kind.String() }

// Words returns how many words a request needs: its key and its parameters.
func (k *Kind) Words() int { return 2 + len(k.Integers) }

// kindNamed returns the row that CL.ALL names with word, or nil.
func kindNamed(word []byte) *Kind {
	for i := range kinds {
		if frame.Is(word, kinds[i].Word) {
			return &kinds[i]
		}
	}
	return nil
}
