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

func (s *session) counterOptions() counter.Options {
	return counter.Options{Now: s.now, Command: s.last.Name}
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
	c, fault := s.counterOptions().GetEx(words[2:])
	if fault == errSyntax {
		s.out.Error(fault)
		return
	}
	if c.Verb = counter.Read; fault != "" {
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
	c, fault := s.counterOptions().Set(words[3:])
	if fault != "" {
		s.out.Error(fault)
		return
	}
	if !s.assign(words[1:2], words[2], c) {
		return
	}
	switch {
	case c.Returns:
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
	at, fault := s.counterOptions().Expiry(words[2], unit, true)
	if fault != "" {
		s.out.Error(fault)
		return
	}
	if s.assign(words[1:2], words[3], counter.Change{How: counter.At, Expiry: at}) {
		s.out.OK()
	}
}

// increx is INCREX key [BYINT n] [LBOUND lo] [UBOUND hi] [SATURATE] [EX s | PX ms | EXAT t | PXAT t | PERSIST] [ENX].
func increx(s *session, words [][]byte) {
	c, fault := s.counterOptions().Increx(words[2:])
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

func mget(s *session, words [][]byte) {
	keys, places := distinct(words[1:], 1)
	s.many.Values = nil
	if s.srv.remote != nil {
		if !s.readApart(keys) {
			return
		}
	} else if !s.update(keys, &s.many) {
		return
	}
	s.out.Array(len(places))
	for _, at := range places {
		st := &s.many.Before[at]
		s.tally.LookUp(st.Kind != buckets.None)
		s.value(st)
	}
}

// readApart reads keys into s.many.Before one by one: a Remote store cannot read keys of several slots as one, and reads those of
// one slot faster so. It answers with the error if there is one, and reports whether there is none.
func (s *session) readApart(keys [][]byte) bool {
	ops, states := make([]buckets.Op, len(keys)), make([]counter.Many, len(keys))
	for i := range keys {
		ops[i] = buckets.Op{Code: buckets.OpUpdate, Keys: keys[i : i+1], Update: &states[i]}
	}
	s.store.Apply(s.srv.ctx, s.now, ops)
	s.many.Before = s.many.Before[:0]
	for i := range ops {
		if err := ops[i].Err; err != nil {
			s.out.Error(s.storeError(err))
			return false
		}
		s.many.Before = append(s.many.Before, states[i].Before...)
	}
	return true
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
