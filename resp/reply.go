package resp

import (
	"math"
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

// decision appends the five integers of a limit command, times in whole units of unit nanoseconds, rounded up.
func (r *reply) decision(d buckets.Decision, unit int64) {
	r.array(5)
	r.int(boolInt(d.Limited))
	r.int(d.Limit)
	r.int(d.Remaining)
	if d.RetryAfter == buckets.Never {
		r.int(-1)
	} else {
		r.int(buckets.CeilDiv(d.RetryAfter, unit))
	}
	r.int(buckets.CeilDiv(d.ResetAfter, unit))
}
