package script

import (
	"bytes"
	"math"
	"strconv"

	"cellserver/buckets"
	"cellserver/resp/frame"
)

// kind is the type of a value in a script.
type kind uint8

const (
	isNil kind = iota
	isFalse
	isTrue
	isNumber
	isText
	isStatus // the table that redis.call returns for a status
)

// value is a value of Lua, as far as the known scripts have any.
type value struct {
	kind   kind
	number float64
	text   []byte
}

var (
	luaNil   = value{}
	luaFalse = value{kind: isFalse}
	luaTrue  = value{kind: isTrue}
)

func num(f float64) value        { return value{kind: isNumber, number: f} }
func integer(n int64) value      { return num(float64(n)) }
func text(b []byte) value        { return value{kind: isText, text: b} }
func (v value) truthy() bool     { return v.kind > isFalse }
func (v value) is(s string) bool { return v.kind == isText && string(v.text) == s }

// typeName is what Lua's type() answers.
func (v value) typeName() string {
	switch v.kind {
	case isNil:
		return "nil"
	case isFalse, isTrue:
		return "boolean"
	case isNumber:
		return "number"
	case isText:
		return "string"
	}
	return "table"
}

// equal is Lua's ==, which converts nothing.
func equal(a, b value) bool {
	switch {
	case a.kind != b.kind:
		return false
	case a.kind == isNumber:
		return a.number == b.number
	case a.kind == isText:
		return bytes.Equal(a.text, b.text)
	}
	return true
}

// toNumber is Lua's tonumber: nil for what is no number.
func (v value) toNumber() value {
	if v.kind == isText {
		if f, ok := parseNumber(v.text); ok {
			return num(f)
		}
	}
	if v.kind == isNumber {
		return v
	}
	return luaNil
}

// orZero is "v or 0".
func (v value) orZero() value {
	if v.truthy() {
		return v
	}
	return num(0)
}

// integer returns the integer that the text of v is for a command of Redis, which is given a number as %.17g.
func (v value) integer() (int64, bool) {
	if v.kind == isText {
		return frame.ParseInt(v.text)
	}
	return buckets.IntegerOf(v.number)
}

// luaMax and luaMin are math.max and math.min of two numbers: the first stays unless the second is above or below it, and NaN
// is neither.
func luaMax(a, b float64) float64 {
	if b > a {
		return b
	}
	return a
}

func luaMin(a, b float64) float64 {
	if b < a {
		return b
	}
	return a
}

// truncated is the integer that Redis replies for a number: toward zero, and the lowest where a conversion on x86-64 overflows.
func truncated(f float64) int64 {
	if f >= -(1<<63) && f < 1<<63 { // false for NaN
		return int64(f)
	}
	return math.MinInt64
}

// appendNumber appends f as C's %.<digits>g (ISO C, 7.21.6.1).
func appendNumber(dst []byte, f float64, digits int) []byte {
	if math.IsInf(f, 0) || math.IsNaN(f) || digits == 17 {
		return buckets.AppendFloat(dst, f)
	}
	return strconv.AppendFloat(dst, f, 'g', digits, 64)
}

// parseNumber converts a text to a number as Lua 5.1 does where C's strtod reads it (ISO C, 7.22.1.3): decimal, hexadecimal,
// infinite and NaN, with white space around it. As in C, a NUL ends the text.
func parseNumber(b []byte) (f float64, ok bool) {
	if n, ok := frame.ParseInt(b); ok && len(b) <= 15 {
		return float64(n), true
	}
	if nul := bytes.IndexByte(b, 0); nul >= 0 {
		b = b[:nul]
	}
	b = bytes.Trim(b, " \t\n\v\f\r")
	digits, negative := b, false
	if len(b) > 0 && (b[0] == '-' || b[0] == '+') {
		digits, negative = b[1:], b[0] == '-'
	}
	f, ok = parseUnsigned(digits)
	if negative {
		f = math.Copysign(f, -1)
	}
	return f, ok
}

func parseUnsigned(b []byte) (f float64, ok bool) {
	switch {
	case bytes.EqualFold(b, []byte("inf")), bytes.EqualFold(b, []byte("infinity")):
		return math.Inf(1), true
	case isNaN(b):
		return math.Copysign(math.NaN(), 1), true
	}
	s, hex := string(b), len(b) > 1 && b[0] == '0' && b[1]|0x20 == 'x'
	if !isNumeral(s, hex) {
		return 0, false
	}
	if hex && !bytes.ContainsAny(b, "pP") {
		s += "p0" // which Go insists on
	}
	f, err := strconv.ParseFloat(s, 64)
	return f, err == nil || math.IsInf(f, 0)
}

// isNumeral reports whether s has only what a decimal or hexadecimal number may have: Go takes more, such as underscores and names.
func isNumeral(s string, hex bool) bool {
	if s == "" {
		return false
	}
	for i := range len(s) {
		switch c := s[i]; {
		case '0' <= c && c <= '9', c == '.':
		case c == '+' || c == '-':
			if i == 0 {
				return false
			}
		case c|0x20 == 'e' || hex && ('a' <= c|0x20 && c|0x20 <= 'f' || c|0x20 == 'p' || c|0x20 == 'x'):
		default:
			return false
		}
	}
	return true
}

// isNaN reports whether b is nan, or nan with letters and digits in parentheses behind it.
func isNaN(b []byte) bool {
	if len(b) < 3 || !bytes.EqualFold(b[:3], []byte("nan")) {
		return false
	}
	rest := b[3:]
	if len(rest) == 0 {
		return true
	}
	if len(rest) < 2 || rest[0] != '(' || rest[len(rest)-1] != ')' {
		return false
	}
	for _, c := range rest[1 : len(rest)-1] {
		if !isAlphanumeric(c) {
			return false
		}
	}
	return true
}

// isAlphanumeric reports whether c can be in a name.
func isAlphanumeric(c byte) bool {
	return '0' <= c && c <= '9' || 'a' <= c|0x20 && c|0x20 <= 'z' || c == '_'
}
