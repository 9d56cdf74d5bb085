package counter

import (
	"fmt"
	"math"

	"cellserver/buckets"
	"cellserver/resp/frame"
)

// millisecond is in nanoseconds.
const millisecond = int64(1e6)

// Options reads the options of commands on counters. Its methods return the error reply if the options are wrong, or "".
type Options struct {
	Now     int64  // nanoseconds of Unix time, from which relative times count
	Command string // the name of the command, for its errors
}

// Expiry reads an expiry in units of so many milliseconds, counted from o.Now if it is relative.
func (o Options) Expiry(word []byte, unit int64, relative bool) (at int64, fault string) {
	n, ok := frame.ParseInt(word)
	if !ok {
		return 0, frame.ErrNotInteger
	}
	base := int64(0)
	if relative {
		base = o.Now / millisecond
	}
	if n <= 0 || n > math.MaxInt64/unit || n*unit > math.MaxInt64-base {
		return 0, fmt.Sprintf(frame.ErrInvalidExpire, o.Command)
	}
	if relative {
		base = o.Now
	}
	if ms := n * unit; ms <= (math.MaxInt64-1-base)/millisecond {
		return base + ms*millisecond, ""
	}
	return buckets.NoExpiry - 1, "" // Redis's milliseconds go further
}

// Set reads the options of SET in any order. As in Redis, one may be repeated where it does not contradict itself.
func (o Options) Set(words [][]byte) (c Change, fault string) {
	c.How = Drop
	var expiry expiryOption
	for i := 0; i < len(words); i++ {
		switch w, more := words[i], i+1 < len(words); {
		case setCondition(&c, w):
		case frame.Is(w, "IFEQ") && more && (c.When == Always || c.When == Equal):
			i++
			c.When, c.Operand = Equal, words[i]
		case frame.Is(w, "KEEPTTL") && expiry.word == nil:
			c.How = Keep
		case c.How == Drop && more && expiry.accepts(w):
			i++
			expiry.word, expiry.value = w, words[i]
		default:
			return c, frame.ErrSyntax
		}
	}
	return c, o.applyExpiry(&c, expiry)
}

// setCondition reads NX, XX and GET into c. It reports false if w is another word, or contradicts what c has.
func setCondition(c *Change, w []byte) bool {
	when := Always
	switch {
	case frame.Is(w, "GET"):
		c.Returns = true
		return true
	case frame.Is(w, "NX"):
		when = Absent
	case frame.Is(w, "XX"):
		when = Present
	}
	if when == Always || c.When != Always && c.When != when {
		return false
	}
	c.When = when
	return true
}

// GetEx reads the options of GETEX in any order.
func (o Options) GetEx(words [][]byte) (c Change, fault string) {
	var expiry expiryOption
	for i := 0; i < len(words); i++ {
		switch w := words[i]; {
		case frame.Is(w, "PERSIST") && expiry.word == nil:
			c.How = Drop
		case c.How == Keep && i+1 < len(words) && expiry.accepts(w):
			i++
			expiry.word, expiry.value = w, words[i]
		default:
			return c, frame.ErrSyntax
		}
	}
	return c, o.applyExpiry(&c, expiry)
}

// expiryOption is EX, PX, EXAT or PXAT, and the value behind it; word is nil if there is none.
type expiryOption struct{ word, value []byte }

// accepts reports whether w says an expiry, and none of another word has been read.
func (e *expiryOption) accepts(w []byte) bool {
	return isExpiry(w) && (e.word == nil || equalFold(e.word, w))
}

// applyExpiry makes c set the expiry, if one has been read.
func (o Options) applyExpiry(c *Change, e expiryOption) (fault string) {
	if e.word == nil {
		return ""
	}
	c.How = At
	c.Expiry, fault = o.expiryOf(e.word, e.value)
	return fault
}

func isExpiry(w []byte) bool {
	return frame.Is(w, "EX") || frame.Is(w, "PX") || frame.Is(w, "EXAT") || frame.Is(w, "PXAT")
}

// equalFold reports whether two of the words that isExpiry accepts are the same: they differ in length or in their first letter.
func equalFold(a, b []byte) bool { return len(a) == len(b) && a[0]|0x20 == b[0]|0x20 }

// expiryOf reads the value behind EX, PX, EXAT or PXAT.
func (o Options) expiryOf(word, value []byte) (at int64, fault string) {
	unit := int64(1)
	if word[0]|0x20 == 'e' {
		unit = 1000
	}
	return o.Expiry(value, unit, len(word) == 2)
}

// Increx reads the options of INCREX, each of which may be said once.
func (o Options) Increx(words [][]byte) (c Change, fault string) {
	c = Change{Verb: Bounded, Value: 1, Low: math.MinInt64, High: math.MaxInt64}
	for said := 0; len(words) > 0; {
		which := increxWord(words[0])
		if which == 0 || said&which != 0 {
			return c, frame.ErrSyntax
		}
		said |= which
		taken, fault := o.increxOption(&c, which, words)
		if fault != "" {
			return c, fault
		}
		words = words[taken:]
	}
	switch {
	case c.IfNoExpiry && c.How == Drop:
		return c, frame.ErrSyntax
	case c.IfNoExpiry && c.How == Keep:
		return c, string(ErrENX)
	case c.Low > c.High:
		return c, string(ErrBounds)
	}
	return c, ""
}

// increxOption reads the option of INCREX with which words begin into c, and returns how many words it has.
func (o Options) increxOption(c *Change, which int, words [][]byte) (taken int, fault string) {
	switch {
	case which == saidSaturate:
		c.Saturate = true
		return 1, ""
	case which == saidENX:
		c.IfNoExpiry = true
		return 1, ""
	case frame.Is(words[0], "PERSIST"):
		c.How = Drop
		return 1, ""
	case len(words) == 1:
		return 0, frame.ErrSyntax
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
		c.How = At
		c.Expiry, fault = o.expiryOf(words[0], v)
	}
	if !ok {
		fault = frame.ErrNotInteger
	}
	return 2, fault
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
