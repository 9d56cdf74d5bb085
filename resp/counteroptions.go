package resp

import (
	"cellserver/buckets"
	"cellserver/resp/counter"
	"cellserver/resp/frame"
	"math"
)

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

// setOptions reads the options of SET in any order. As in Redis, one may be repeated where it does not contradict itself.
func (s *session) setOptions(words [][]byte) (c counter.Change, fault string) {
	c.How = counter.Drop
	var expiry expiryOption
	for i := 0; i < len(words); i++ {
		switch w, more := words[i], i+1 < len(words); {
		case setCondition(&c, w):
		case frame.Is(w, "IFEQ") && more && (c.When == counter.Always || c.When == counter.Equal):
			i++
			c.When, c.Operand = counter.Equal, words[i]
		case frame.Is(w, "KEEPTTL") && expiry.word == nil:
			c.How = counter.Keep
		case c.How == counter.Drop && more && expiry.accepts(w):
			i++
			expiry.word, expiry.value = w, words[i]
		default:
			return c, errSyntax
		}
	}
	return c, s.applyExpiry(&c, expiry)
}

// setCondition reads NX, XX and GET into c. It reports false if w is another word, or contradicts what c has.
func setCondition(c *counter.Change, w []byte) bool {
	when := counter.Always
	switch {
	case frame.Is(w, "GET"):
		c.Returns = true
		return true
	case frame.Is(w, "NX"):
		when = counter.Absent
	case frame.Is(w, "XX"):
		when = counter.Present
	}
	if when == counter.Always || c.When != counter.Always && c.When != when {
		return false
	}
	c.When = when
	return true
}

// getExOptions reads the options of GETEX in any order.
func (s *session) getExOptions(words [][]byte) (c counter.Change, fault string) {
	var expiry expiryOption
	for i := 0; i < len(words); i++ {
		switch w := words[i]; {
		case frame.Is(w, "PERSIST") && expiry.word == nil:
			c.How = counter.Drop
		case c.How == counter.Keep && i+1 < len(words) && expiry.accepts(w):
			i++
			expiry.word, expiry.value = w, words[i]
		default:
			return c, errSyntax
		}
	}
	return c, s.applyExpiry(&c, expiry)
}

// expiryOption is EX, PX, EXAT or PXAT, and the value behind it; word is nil if there is none.
type expiryOption struct{ word, value []byte }

// accepts reports whether w says an expiry, and none of another word has been read.
func (e *expiryOption) accepts(w []byte) bool {
	return isExpiry(w) && (e.word == nil || equalFold(e.word, w))
}

// applyExpiry makes c set the expiry, if one has been read.
func (s *session) applyExpiry(c *counter.Change, e expiryOption) (fault string) {
	if e.word == nil {
		return ""
	}
	c.How = counter.At
	c.Expiry, fault = s.counterExpiryOf(e.word, e.value)
	return fault
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
