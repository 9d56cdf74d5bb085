package resp

import (
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/tidwall/redcon"

	"cellserver/buckets"
)

// reply is the output of one connection, to which handlers append. In RESP2, maps are flat arrays, sets are arrays,
// booleans integers, doubles and verbatim strings bulks, and a null is a null bulk.
type reply struct {
	b     []byte
	resp3 bool
}

func (r *reply) int(n int64)               { r.b = redcon.AppendInt(r.b, n) }
func (r *reply) bulk(b []byte)             { r.b = redcon.AppendBulk(r.b, b) }
func (r *reply) bulkString(s string)       { r.b = redcon.AppendBulkString(r.b, s) }
func (r *reply) array(n int)               { r.b = redcon.AppendArray(r.b, n) }
func (r *reply) ok()                       { r.b = redcon.AppendOK(r.b) }
func (r *reply) status(s string)           { r.b = redcon.AppendString(r.b, s) }
func (r *reply) error(s string)            { r.b = redcon.AppendError(r.b, s) }
func (r *reply) errorf(f string, a ...any) { r.error(sprintf(f, a...)) }

// flag is the 1 or 0 of commands whose question is yes or no.
func (r *reply) flag(yes bool) { r.int(boolInt(yes)) }

func boolInt(yes bool) int64 {
	if yes {
		return 1
	}
	return 0
}

func (r *reply) null() {
	if r.resp3 {
		r.b = append(r.b, "_\r\n"...)
		return
	}
	r.b = redcon.AppendNull(r.b)
}

// nullArray is what RESP2 has for an array that is missing.
func (r *reply) nullArray() {
	if r.resp3 {
		r.null()
		return
	}
	r.b = append(r.b, "*-1\r\n"...)
}

// mapOf begins a map of n pairs.
func (r *reply) mapOf(n int) {
	if !r.resp3 {
		r.array(2 * n)
		return
	}
	r.header('%', n)
}

// setOf begins a set of n elements.
func (r *reply) setOf(n int) {
	if !r.resp3 {
		r.array(n)
		return
	}
	r.header('~', n)
}

func (r *reply) header(mark byte, n int) {
	r.b = strconv.AppendInt(append(r.b, mark), int64(n), 10)
	r.b = append(r.b, "\r\n"...)
}

// double is a number that may have a fraction.
func (r *reply) double(f float64) {
	s := strconv.FormatFloat(f, 'g', 17, 64)
	if math.IsInf(f, 0) {
		s = strings.ToLower(strings.TrimPrefix(s, "+"))
	}
	if !r.resp3 {
		r.bulkString(s)
		return
	}
	r.b = append(append(append(r.b, ','), s...), "\r\n"...)
}

// text is a report for people: INFO and its like.
func (r *reply) text(s string) {
	if !r.resp3 {
		r.bulkString(s)
		return
	}
	r.header('=', len(s)+len("txt:"))
	r.b = append(append(append(r.b, "txt:"...), s...), "\r\n"...)
}

// decisionSize is the most bytes of a decision.
const decisionSize = len("*5\r\n:0\r\n") + 4*len(":-9223372036854775808\r\n")

// decision appends the five integers of a limit command, times in whole units of unit nanoseconds, rounded up.
func (r *reply) decision(d *buckets.Decision, unit int64) {
	b := append(slices.Grow(r.b, decisionSize), "*5\r\n:0\r\n"...)
	if d.Limited {
		b[len(b)-3] = '1'
	}
	b = appendAmount(b, d.Limit)
	b = appendAmount(b, d.Remaining)
	if d.RetryAfter == buckets.Never {
		b = append(b, ":-1\r\n"...)
	} else {
		b = appendAmount(b, buckets.CeilDiv(d.RetryAfter, unit))
	}
	r.b = appendAmount(b, buckets.CeilDiv(d.ResetAfter, unit))
}

// appendAmount is redcon's AppendInt for an integer that is not negative, in a third of the time: these are most of what
// is ever sent. There is room for it.
func appendAmount(b []byte, n int64) []byte {
	if n <= 9 {
		return append(b, ':', byte('0'+n), '\r', '\n')
	}
	digits := 2
	for most := int64(99); n > most && digits < 19; most = most*10 + 9 {
		digits++
	}
	end := len(b) + 1 + digits
	b = b[:end+2]
	b[end], b[end+1] = '\r', '\n'
	i := end
	for ; n > 99; n /= 100 {
		i -= 2
		two := n % 100 * 2
		b[i], b[i+1] = pairs[two], pairs[two+1]
	}
	if n > 9 {
		i--
		b[i] = byte('0' + n%10)
		n /= 10
	}
	b[i-1] = byte('0' + n)
	b[end-digits-1] = ':'
	return b
}

// pairs are the numbers from 00 to 99.
const pairs = "00010203040506070809" +
	"10111213141516171819" +
	"20212223242526272829" +
	"30313233343536373839" +
	"40414243444546474849" +
	"50515253545556575859" +
	"60616263646566676869" +
	"70717273747576777879" +
	"80818283848586878889" +
	"90919293949596979899"
