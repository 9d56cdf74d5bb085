package counter

import "cellserver/buckets"

// Verb says what a Change does.
type Verb uint8

// The verbs.
const (
	Read     Verb = iota // GET, GETEX, STRLEN: changes the expiry at most
	Assign               // SET and its kin
	Increase             // INCR and its kin
	Bounded              // INCREX
	Delete               // GETDEL
)

// How says what becomes of the expiry of a key.
type How uint8

// What may become of an expiry.
const (
	Keep How = iota // as it is
	Drop            // the key never expires
	At              // the key expires at Change.Expiry
)

// When says on what SET depends.
type When uint8

// The conditions of SET.
const (
	Always  When = iota
	Absent       // NX: the key does not exist
	Present      // XX: it exists
	Equal        // IFEQ: it holds Change.Operand
)

// Change is what one command does to one key. It implements buckets.Updater.
type Change struct {
	Verb    Verb
	When    When
	Operand []byte // of Equal
	Value   int64  // of Assign; what Increase and Bounded add
	How     How
	Expiry  int64 // of At, in nanoseconds of Unix time
	Returns bool  // SET ... GET: the value before is asked for, which a key of another type does not have

	// Of Bounded.
	Low, High  int64 // the bounds
	Saturate   bool  // clamps the value to the bounds instead of refusing it
	IfNoExpiry bool  // ENX: sets the expiry only if the key has none

	Before  buckets.State // what the key held
	After   int64         // the integer that the key holds
	Applied int64         // of Bounded: how much was added
	Did     bool          // the change was made: false if a condition does not hold, or a bound forbids it
}

// Update implements buckets.Updater. Its errors are buckets.ErrWrongKind and Faults.
func (c *Change) Update(_ int64, states []buckets.State) (changed bool, err error) {
	st := &states[0]
	c.Before, c.After, c.Applied, c.Did = *st, 0, 0, false
	c.Before.Log = nil // which must not be kept
	switch c.Verb {
	case Assign:
		return c.assign(st)
	case Increase:
		c.After, err = Add(st, c.Value)
		c.Did = err == nil
		return c.Did, err
	case Bounded:
		return c.bounded(st)
	}
	switch {
	case !HoldsString(st):
		return false, buckets.ErrWrongKind
	case st.Kind == buckets.None:
		return false, nil
	case c.Verb == Delete:
		*st = buckets.State{}
		return true, nil
	}
	return c.expire(st), nil
}

// expire makes of the expiry of st what c says, and reports whether that changes it.
func (c *Change) expire(st *buckets.State) (changed bool) {
	had := st.Expiry()
	switch c.How {
	case Drop:
		st.SetExpiry(buckets.NoExpiry)
	case At:
		st.SetExpiry(c.Expiry)
		return true
	}
	return st.Expiry() != had
}

func (c *Change) assign(st *buckets.State) (changed bool, err error) {
	exists := st.Kind != buckets.None
	switch {
	case c.When == Absent && exists && !c.Returns:
		return false, nil
	case !HoldsString(st):
		return false, buckets.ErrWrongKind
	case c.When == Absent && exists, c.When == Present && !exists, c.When == Equal && !Same(st, c.Operand):
		return false, nil
	}
	expiry := buckets.NoExpiry
	if c.How == At {
		expiry = c.Expiry
	}
	Set(st, c.Value, expiry, c.How == Keep)
	c.After, c.Did = c.Value, true
	return true, nil
}

func (c *Change) bounded(st *buckets.State) (changed bool, err error) {
	n, err := Integer(st)
	if err != nil {
		return false, err
	}
	sum, beyond := saturated(n, c.Value)
	if c.After = n; !c.Saturate && (beyond || sum < c.Low || sum > c.High) {
		return false, nil
	}
	sum = min(max(sum, c.Low), c.High)
	applied := sum - n
	if (sum < n) != (applied < 0) {
		return false, ErrOverflow
	}
	c.After, c.Applied, c.Did = sum, applied, true
	expires := st.Kind.KeepsExpiry() && st.Expiry() != buckets.NoExpiry
	Set(st, sum, buckets.NoExpiry, true)
	if c.How != Keep && (!c.IfNoExpiry || !expires) {
		c.expire(st)
	}
	return true, nil
}

// Length returns how many bytes the text of the number had that the key held.
func (c *Change) Length() int {
	if c.Before.Kind == buckets.None {
		return 0
	}
	return digitsOf(&c.Before)
}

// Many assigns values to keys, all or none, or only reads them. It implements buckets.Updater.
type Many struct {
	Values []int64 // for each key; nil only reads
	Before []buckets.State
}

// Update implements buckets.Updater. Its error is buckets.ErrWrongKind, of assigning only.
func (m *Many) Update(_ int64, states []buckets.State) (changed bool, err error) {
	m.Before = m.Before[:0]
	for i := range states {
		before := states[i]
		before.Log = nil
		m.Before = append(m.Before, before)
	}
	if m.Values == nil {
		return false, nil
	}
	for i := range states {
		if !HoldsString(&states[i]) {
			return false, buckets.ErrWrongKind
		}
	}
	for i := range states {
		states[i] = buckets.Counted(m.Values[i], buckets.NoExpiry)
	}
	return true, nil
}
