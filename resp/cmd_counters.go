package resp

import (
	"math"

	"cellserver/buckets"
	"cellserver/resp/counter"
	"cellserver/resp/frame"
	"cellserver/resp/limits"
)

// changeCounter has the store carry out s.change on a key. It answers with the error if there is one, and reports whether there is
// none.
func (s *session) changeCounter(key [][]byte) bool { return s.update(key, &s.change) }

// storeCounter is changeCounter for a command that may make a key: one that is too long is refused.
func (s *session) storeCounter(key [][]byte) bool {
	if fault := s.bounds.keyFault(key[0]); fault != "" {
		s.out.Error(fault)
		return false
	}
	return s.changeCounter(key)
}

// value answers with the number that a state holds, or null.
func (s *session) value(st *buckets.State) {
	if !st.Kind.KeepsExpiry() {
		s.out.Null()
		return
	}
	var room [32]byte
	s.out.Bulk(st.AppendValue(room[:0]))
}

// counterValue reads the value of a counter. It answers with the error if there is one, and reports whether there is none.
func (s *session) counterValue(word []byte) (n int64, ok bool) {
	if n, ok = frame.ParseInt(word); !ok {
		s.out.Error(string(counter.ErrValue))
	}
	return n, ok
}

// integer reads an integer. It answers with the error if there is one, and reports whether there is none.
func (s *session) integer(word []byte) (n int64, ok bool) {
	if n, ok = frame.ParseInt(word); !ok {
		s.out.Error(errNotInteger)
	}
	return n, ok
}

// readCounter carries out c, which reads a counter, and reports whether it is there. As in Redis, a key of another type is
// found, too.
func (s *session) readCounter(key [][]byte, c counter.Change) (exists, ok bool) {
	s.change = c
	ok = s.changeCounter(key)
	exists = s.change.Before.Kind != buckets.None
	if ok || exists {
		s.tally.LookUp(exists)
	}
	return exists, ok
}

func getCounter(s *session, words [][]byte) {
	if _, ok := s.readCounter(words[1:2], counter.Change{Verb: counter.Read}); ok {
		s.value(&s.change.Before)
	}
}

func getDel(s *session, words [][]byte) {
	if _, ok := s.readCounter(words[1:2], counter.Change{Verb: counter.Delete}); ok {
		s.value(&s.change.Before)
	}
}

func strLen(s *session, words [][]byte) {
	if _, ok := s.readCounter(words[1:2], counter.Change{Verb: counter.Read}); ok {
		s.out.Int(int64(s.change.Length()))
	}
}

// getEx is GETEX key [EX s | PX ms | EXAT t | PXAT t | PERSIST]. As in Redis, an expiry that is out of range is no fault when
// there is no key.
func getEx(s *session, words [][]byte) {
	o, fault := s.counterOptions(words[2:], optPersist)
	if fault == errSyntax {
		s.out.Error(fault)
		return
	}
	c := counter.Change{Verb: counter.Read, How: o.How, Expiry: o.Expiry}
	if fault != "" {
		c.How = counter.Keep
	}
	exists, ok := s.readCounter(words[1:2], c)
	switch {
	case !ok:
	case fault != "" && exists:
		s.out.Error(fault)
	default:
		s.value(&s.change.Before)
	}
}

func incr(s *session, words [][]byte) { s.increase(words[1:2], 1) }
func decr(s *session, words [][]byte) { s.increase(words[1:2], -1) }

func incrBy(s *session, words [][]byte) {
	if n, ok := s.integer(words[2]); ok {
		s.increase(words[1:2], n)
	}
}

func decrBy(s *session, words [][]byte) {
	n, ok := s.integer(words[2])
	switch {
	case !ok:
	case n == math.MinInt64:
		s.out.Error(string(counter.ErrDecrementRange))
	default:
		s.increase(words[1:2], -n)
	}
}

func (s *session) increase(key [][]byte, by int64) {
	s.change = counter.Change{Verb: counter.Increase, Value: by}
	if s.storeCounter(key) {
		s.out.Int(s.change.After)
	}
}

// assign sets a counter. It answers with the error if there is one, and reports whether there is none.
func (s *session) assign(key [][]byte, text []byte, c counter.Change) (ok bool) {
	n, ok := s.counterValue(text)
	if !ok {
		return false
	}
	c.Verb, c.Value = counter.Assign, n
	s.change = c
	ok = s.storeCounter(key)
	s.change.Operand = nil // which points into the input
	if exists := s.change.Before.Kind != buckets.None; c.Returns && (ok || exists) {
		s.tally.LookUp(exists)
	}
	return ok
}

func set(s *session, words [][]byte) {
	o, fault := s.counterOptions(words[3:], optKeepTTL|optConditions)
	if fault != "" {
		s.out.Error(fault)
		return
	}
	if o.How == counter.Keep && !o.keepTTL {
		o.How = counter.Drop
	}
	if !s.assign(words[1:2], words[2], counter.Change{When: o.When, Operand: o.Operand, How: o.How, Expiry: o.Expiry, Returns: o.Returns}) {
		return
	}
	switch {
	case o.Returns:
		s.value(&s.change.Before)
	case s.change.Did:
		s.out.OK()
	default:
		s.out.Null()
	}
}

func setNX(s *session, words [][]byte) {
	if s.assign(words[1:2], words[2], counter.Change{When: counter.Absent, How: counter.Drop}) {
		s.out.Flag(s.change.Did)
	}
}

func getSet(s *session, words [][]byte) {
	if s.assign(words[1:2], words[2], counter.Change{How: counter.Drop, Returns: true}) {
		s.value(&s.change.Before)
	}
}

func setEx(s *session, words [][]byte)  { s.assignFor(words, 1000) }
func psetEx(s *session, words [][]byte) { s.assignFor(words, 1) }

// assignFor sets a counter for a time in units of so many milliseconds.
func (s *session) assignFor(words [][]byte, unit int64) {
	at, fault := s.counterExpiry(words[2], unit, true)
	if fault != "" {
		s.out.Error(fault)
		return
	}
	if s.assign(words[1:2], words[3], counter.Change{How: counter.At, Expiry: at}) {
		s.out.OK()
	}
}

// counterExpiry reads an expiry in units of so many milliseconds, counted from now if it is relative.
func (s *session) counterExpiry(word []byte, unit int64, relative bool) (at int64, fault string) {
	n, ok := frame.ParseInt(word)
	if !ok {
		return 0, errNotInteger
	}
	base := int64(0)
	if relative {
		base = s.now / millisecond
	}
	if n <= 0 || n > math.MaxInt64/unit || n*unit > math.MaxInt64-base {
		return 0, sprintf(errInvalidExpire, s.last.Name)
	}
	if relative {
		base = s.now
	}
	if ms := n * unit; ms <= (math.MaxInt64-1-base)/millisecond {
		return base + ms*millisecond, ""
	}
	return buckets.NoExpiry - 1, "" // Redis's milliseconds go further
}

// What counterOptions accepts beside an expiry.
const (
	optPersist    = 1 << iota // PERSIST
	optKeepTTL                // KEEPTTL
	optConditions             // NX, XX, IFEQ and GET
	optBounds                 // what INCREX has
)

// counterOption is what the options of SET, GETEX and INCREX say.
type counterOption struct {
	counter.Change
	keepTTL bool
}

// counterOptions reads options in any order. As in Redis, one may be repeated where it does not contradict itself.
func (s *session) counterOptions(words [][]byte, accepts int) (o counterOption, fault string) {
	var expiry, value []byte // the word that says it, and its value
	for i := 0; i < len(words); i++ {
		w, more := words[i], i+1 < len(words)
		switch {
		case accepts&optConditions != 0 && frame.Is(w, "NX") && (o.When == counter.Always || o.When == counter.Absent):
			o.When = counter.Absent
		case accepts&optConditions != 0 && frame.Is(w, "XX") && (o.When == counter.Always || o.When == counter.Present):
			o.When = counter.Present
		case accepts&optConditions != 0 && frame.Is(w, "IFEQ") && more && (o.When == counter.Always || o.When == counter.Equal):
			i++
			o.When, o.Operand = counter.Equal, words[i]
		case accepts&optConditions != 0 && frame.Is(w, "GET"):
			o.Returns = true
		case accepts&optKeepTTL != 0 && frame.Is(w, "KEEPTTL") && expiry == nil:
			o.keepTTL = true
		case accepts&optPersist != 0 && frame.Is(w, "PERSIST") && expiry == nil:
			o.How = counter.Drop
		case isExpiry(w) && more && !o.keepTTL && o.How != counter.Drop && (expiry == nil || equalFold(expiry, w)):
			i++
			expiry, value = w, words[i]
		default:
			return o, errSyntax
		}
	}
	if expiry == nil {
		return o, ""
	}
	o.How = counter.At
	o.Expiry, fault = s.counterExpiryOf(expiry, value)
	return o, fault
}

func isExpiry(w []byte) bool {
	return frame.Is(w, "EX") || frame.Is(w, "PX") || frame.Is(w, "EXAT") || frame.Is(w, "PXAT")
}

// equalFold reports whether two of the words that isExpiry accepts are the same: they differ in length or in their first letter.
func equalFold(a, b []byte) bool { return len(a) == len(b) && a[0]|0x20 == b[0]|0x20 }

// counterExpiryOf reads the value behind EX, PX, EXAT or PXAT.
func (s *session) counterExpiryOf(word, value []byte) (at int64, fault string) {
	unit := int64(1)
	if word[0]|0x20 == 'e' {
		unit = 1000
	}
	return s.counterExpiry(value, unit, len(word) == 2)
}

// increx is INCREX key [BYINT n] [LBOUND lo] [UBOUND hi] [SATURATE] [EX s | PX ms | EXAT t | PXAT t | PERSIST] [ENX].
func increx(s *session, words [][]byte) {
	c, fault := s.increxOptions(words[2:])
	if fault != "" {
		s.out.Error(fault)
		return
	}
	s.change = c
	if !s.storeCounter(words[1:2]) {
		return
	}
	s.out.Array(2)
	s.out.Int(s.change.After)
	s.out.Int(s.change.Applied)
}

// Words of INCREX, each of which may be said once.
const (
	saidSaturate = 1 << iota
	saidENX
	saidIncrement
	saidLow
	saidHigh
	saidExpiry
)

// increxWord returns which of the words of INCREX w is; 0 if it is none.
func increxWord(w []byte) int {
	switch {
	case frame.Is(w, "SATURATE"):
		return saidSaturate
	case frame.Is(w, "ENX"):
		return saidENX
	case frame.Is(w, "BYINT"), frame.Is(w, "BYFLOAT"):
		return saidIncrement
	case frame.Is(w, "LBOUND"):
		return saidLow
	case frame.Is(w, "UBOUND"):
		return saidHigh
	case frame.Is(w, "PERSIST"), isExpiry(w):
		return saidExpiry
	}
	return 0
}

func (s *session) increxOptions(words [][]byte) (c counter.Change, fault string) {
	c = counter.Change{Verb: counter.Bounded, Value: 1, Low: math.MinInt64, High: math.MaxInt64}
	for said := 0; len(words) > 0; {
		which := increxWord(words[0])
		if which == 0 || said&which != 0 {
			return c, errSyntax
		}
		said |= which
		taken, fault := s.increxOption(&c, which, words)
		if fault != "" {
			return c, fault
		}
		words = words[taken:]
	}
	switch {
	case c.IfNoExpiry && c.How == counter.Drop:
		return c, errSyntax
	case c.IfNoExpiry && c.How == counter.Keep:
		return c, string(counter.ErrENX)
	case c.Low > c.High:
		return c, string(counter.ErrBounds)
	}
	return c, ""
}

// increxOption reads the option of INCREX with which words begin into c, and returns how many words it has.
func (s *session) increxOption(c *counter.Change, which int, words [][]byte) (taken int, fault string) {
	switch {
	case which == saidSaturate:
		c.Saturate = true
		return 1, ""
	case which == saidENX:
		c.IfNoExpiry = true
		return 1, ""
	case frame.Is(words[0], "PERSIST"):
		c.How = counter.Drop
		return 1, ""
	case len(words) == 1:
		return 0, errSyntax
	}
	ok := true
	switch v := words[1]; which {
	case saidIncrement:
		c.Value, ok = frame.ParseInt(v)
		ok = ok && frame.Is(words[0], "BYINT")
	case saidLow:
		c.Low, ok = frame.ParseInt(v)
	case saidHigh:
		c.High, ok = frame.ParseInt(v)
	default:
		c.How = counter.At
		c.Expiry, fault = s.counterExpiryOf(words[0], v)
	}
	if !ok {
		fault = errNotInteger
	}
	return 2, fault
}

func mget(s *session, words [][]byte) {
	keys, places := distinct(words[1:], 1)
	s.many.Values = nil
	if !s.update(keys, &s.many) {
		return
	}
	s.out.Array(len(places))
	for _, at := range places {
		st := &s.many.Before[at]
		s.tally.LookUp(st.Kind != buckets.None)
		s.value(st)
	}
}

func mset(s *session, words [][]byte) {
	pairs := words[1:]
	if len(pairs)%2 != 0 {
		s.out.Errorf(errArity, s.last.Name)
		return
	}
	keys, places := distinct(pairs, 2)
	values := make([]int64, len(keys))
	for i, at := range places {
		if fault := s.bounds.keyFault(pairs[2*i]); fault != "" {
			s.out.Error(fault)
			return
		}
		var ok bool
		if values[at], ok = s.counterValue(pairs[2*i+1]); !ok { // the last of a key that is named twice stays
			return
		}
	}
	s.many.Values = values
	if s.update(keys, &s.many) {
		s.out.OK()
	}
}

// distinct returns the keys that are every step-th of words, each once, and for each of those words where its key is among
// them.
func distinct(words [][]byte, step int) (keys [][]byte, places []int) {
	at := make(map[string]int, len(words)/step)
	for i := 0; i < len(words); i += step {
		place, twice := at[string(words[i])]
		if !twice {
			place = len(keys)
			at[string(words[i])] = place
			keys = append(keys, words[i])
		}
		places = append(places, place)
	}
	return keys, places
}

var throttleKind = limits.KindOf(buckets.Throttle)

// gcra is GCRA key max_burst tokens period [TOKENS n]: CL.THROTTLE by the name that clients have a typed call for.
func gcra(s *session, words [][]byte) {
	if len(words) == 5 {
		s.limit(throttleKind, words[1:])
		return
	}
	if len(words) != 7 || !frame.Is(words[5], "TOKENS") {
		s.out.Error(errSyntax)
		return
	}
	n, ok := frame.ParseLooseInt(words[6])
	switch {
	case !ok:
		s.out.Error(errNotInteger)
	case n < 0:
		s.out.Error(errNotPositive)
	default:
		words[5] = words[6]
		s.limit(throttleKind, words[1:6])
	}
}
