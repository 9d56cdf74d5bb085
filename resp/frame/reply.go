package frame

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/tidwall/redcon"

	"cellserver/buckets"
)

// Reply is the output of one connection, to which handlers append. In RESP2, maps are flat arrays, sets are arrays,
// booleans integers, doubles and verbatim strings bulks, and a null is a null bulk.
type Reply struct {
	Bytes []byte
	RESP3 bool
}

// Int appends an integer.
func (r *Reply) Int(n int64) { r.Bytes = redcon.AppendInt(r.Bytes, n) }

// Bulk appends a bulk string.
func (r *Reply) Bulk(b []byte) { r.Bytes = redcon.AppendBulk(r.Bytes, b) }

// BulkString appends a bulk string.
func (r *Reply) BulkString(s string) { r.Bytes = redcon.AppendBulkString(r.Bytes, s) }

// Array begins an array of n elements, which follow.
func (r *Reply) Array(n int) { r.Bytes = redcon.AppendArray(r.Bytes, n) }

// OK appends the status OK.
func (r *Reply) OK() { r.Bytes = redcon.AppendOK(r.Bytes) }

// Status appends a status, which has no line end in it.
func (r *Reply) Status(s string) { r.Bytes = redcon.AppendString(r.Bytes, s) }

// Error appends an error. Line ends in it become spaces.
func (r *Reply) Error(s string) { r.Bytes = redcon.AppendError(r.Bytes, s) }

// Errorf appends an error with a text as fmt.Sprintf makes it.
func (r *Reply) Errorf(f string, a ...any) { r.Error(fmt.Sprintf(f, a...)) }

// Flag appends 1 or 0.
func (r *Reply) Flag(yes bool) {
	if yes {
		r.Int(1)
	} else {
		r.Int(0)
	}
}

// Null appends a null.
func (r *Reply) Null() {
	if r.RESP3 {
		r.Bytes = append(r.Bytes, "_\r\n"...)
		return
	}
	r.Bytes = redcon.AppendNull(r.Bytes)
}

// NullArray appends the null of a missing array, which RESP2 spells differently.
func (r *Reply) NullArray() {
	if r.RESP3 {
		r.Null()
		return
	}
	r.Bytes = append(r.Bytes, "*-1\r\n"...)
}

// Map begins a map of n pairs.
func (r *Reply) Map(n int) {
	if !r.RESP3 {
		r.Array(2 * n)
		return
	}
	r.header('%', n)
}

// Set begins a set of n elements.
func (r *Reply) Set(n int) {
	if !r.RESP3 {
		r.Array(n)
		return
	}
	r.header('~', n)
}

// Push begins a push of n elements, which only clients of RESP3 understand.
func (r *Reply) Push(n int) { r.header('>', n) }

// Strings appends an array of bulk strings.
func (r *Reply) Strings(list []string) {
	r.Array(len(list))
	for _, s := range list {
		r.BulkString(s)
	}
}

// Statuses appends a set of statuses.
func (r *Reply) Statuses(names []string) {
	r.Set(len(names))
	for _, name := range names {
		r.Status(name)
	}
}

func (r *Reply) header(mark byte, n int) {
	r.Bytes = strconv.AppendInt(append(r.Bytes, mark), int64(n), 10)
	r.Bytes = append(r.Bytes, "\r\n"...)
}

// Double appends a number that may have a fraction.
func (r *Reply) Double(f float64) {
	s := strconv.FormatFloat(f, 'g', 17, 64)
	if math.IsInf(f, 0) {
		s = strings.ToLower(strings.TrimPrefix(s, "+"))
	}
	if !r.RESP3 {
		r.BulkString(s)
		return
	}
	r.Bytes = append(append(append(r.Bytes, ','), s...), "\r\n"...)
}

// Text appends a report for people, such as that of INFO.
func (r *Reply) Text(s string) {
	if !r.RESP3 {
		r.BulkString(s)
		return
	}
	r.header('=', len(s)+len("txt:"))
	r.Bytes = append(append(append(r.Bytes, "txt:"...), s...), "\r\n"...)
}

// decisionSize is the most bytes of a decision.
const decisionSize = len("*5\r\n:0\r\n") + 4*len(":-9223372036854775808\r\n")

// Decision appends the five integers of a limit command, times in whole units of unit nanoseconds, rounded up.
func (r *Reply) Decision(d *buckets.Decision, unit int64) {
	b := append(slices.Grow(r.Bytes, decisionSize), "*5\r\n:0\r\n"...)
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
	r.Bytes = appendAmount(b, buckets.CeilDiv(d.ResetAfter, unit))
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
