package model

import (
	"fmt"
	"math"
	"regexp"
	"strings"
)

// maxPeriod is the longest period, in nanoseconds.
var maxPeriod = times(num(4611686018), num(1e9))

var (
	someInteger = regexp.MustCompile(`\A[+-]?[0-9]+\z`)
	redisInt    = regexp.MustCompile(`\A(0|-?[1-9][0-9]*)\z`)
	someSeconds = regexp.MustCompile(`\A\+?[0-9]+(\.[0-9]{1,9})?\z`)
)

func decimal(text string) (number, bool) {
	n, ok := num(0).SetString(text, 10)
	return n, ok && n.IsInt64()
}

// integer parses an integer of a limit command.
func integer(word string) (number, bool) {
	if !someInteger.MatchString(word) {
		return nil, false
	}
	return decimal(strings.TrimPrefix(word, "+"))
}

// plainInteger parses an integer as Redis does.
func plainInteger(word string) (number, bool) {
	if !redisInt.MatchString(word) {
		return nil, false
	}
	return decimal(word)
}

// seconds parses a period and returns it in nanoseconds.
func seconds(word string) (number, bool) {
	if !someSeconds.MatchString(word) {
		return nil, false
	}
	whole, fraction, _ := strings.Cut(strings.TrimPrefix(word, "+"), ".")
	n, ok := num(0).SetString(whole+(fraction + "000000000")[:9], 10)
	return n, ok && atMost(n, maxPeriod)
}

const (
	notAnInteger = "-ERR value is not an integer or out of range\r\n"
	syntaxError  = "-ERR syntax error\r\n"
	wrongKind    = "-WRONGTYPE Operation against a key holding the wrong kind of value\r\n"
	badPeriod    = "-ERR period must be a number of seconds greater than 0 and at most 4611686018\r\n"
	badBurst     = "-ERR max_burst must be between 0 and 9223372036854775806\r\n"
	badCount     = "-ERR count must be between 1 and 9223372036854775807\r\n"
	badLimit     = "-ERR limit must be between 1 and 9223372036854775807\r\n"
	badOffset    = "-ERR offset must be a number of seconds\r\n"
	tooFast      = "-ERR rate is too fast: count does not divide period\r\n"
	tooLong      = "-ERR max_burst is too large for this rate: a full bucket must refill within 4611686018 seconds\r\n"
	keyTwice     = "-ERR a key may appear once\r\n"
	tooMany      = "-ERR at most 64 checks\r\n"
)

// request is a limit command, or one check of CL.ALL.
type request struct {
	limit
	key      string
	quantity number
	peek, ms bool
	rate     string // the error of the rate, or ""
}

func arguments(kind string) int {
	if kind == throttle {
		return 4
	}
	return 3
}

// read parses a key and the numbers after it. fault is the error reply, or "".
func (r *request) read(kind string, words []string, maxKey int) (fault string) {
	r.kind, r.key = kind, words[0]
	if len(r.key) > maxKey {
		return fmt.Sprintf("-ERR key is longer than max-key-bytes (%d)\r\n", maxKey)
	}
	words = words[1:]
	var ok bool
	low := badLimit
	if kind == throttle {
		low = badCount
		burst, ok := integer(words[0])
		if !ok {
			return notAnInteger
		}
		if burst.Sign() < 0 || same(burst, num(math.MaxInt64)) {
			return badBurst
		}
		r.most = plus(burst, num(1))
		words = words[1:]
	}
	count, ok := integer(words[0])
	if !ok {
		return notAnInteger
	}
	if !positive(count) {
		return low
	}
	if r.period, ok = seconds(words[1]); !ok || !positive(r.period) {
		return badPeriod
	}
	if kind != throttle {
		r.most = count
		return ""
	}
	r.interval = floorDiv(r.period, count)
	exact := same(times(r.interval, count), r.period)
	switch {
	case !positive(r.interval) || less(r.interval, num(100)) && !exact:
		r.rate = tooFast
	case less(maxPeriod, r.capacity()):
		r.rate = tooLong
	}
	return ""
}

// options parses the words after the quantity.
func (r *request) options(words []string) (fault string) {
	for i := 0; i < len(words); i++ {
		switch w := strings.ToUpper(words[i]); {
		case w == "PEEK" && !r.peek:
			r.peek = true
		case w == "MS" && !r.ms:
			r.ms = true
		case w == "ALIGN" && r.kind == window && !r.align && i+1 < len(words):
			i++
			r.align = true
			unsigned := strings.TrimPrefix(words[i], "-")
			var ok bool
			if r.offset, ok = seconds(unsigned); !ok || unsigned != words[i] && strings.HasPrefix(unsigned, "+") {
				return badOffset
			}
			if unsigned != words[i] {
				r.offset = num(0).Neg(r.offset)
			}
		default:
			return syntaxError
		}
	}
	return ""
}

// readOne parses a limit command.
func readOne(kind string, words []string, maxKey int) (r request, fault string) {
	n := arguments(kind)
	if fault := r.read(kind, words[:n], maxKey); fault != "" {
		return r, fault
	}
	r.quantity = num(1)
	if len(words) > n {
		var ok bool
		if r.quantity, ok = integer(words[n]); !ok {
			return r, notAnInteger
		}
		if fault := r.options(words[n+1:]); fault != "" {
			return r, fault
		}
	}
	return r, r.rate
}

// readAll parses CL.ALL. last has the options at its end.
func readAll(words []string, maxKey int) (checks []request, last request, fault string) {
	kinds := map[string]string{"THROTTLE": throttle, "WINDOW": window, "ZSLIDE": zslide}
	for len(words) > 0 {
		kind := kinds[strings.ToUpper(words[0])]
		if kind == "" {
			if w := strings.ToUpper(words[0]); len(checks) > 0 && (w == "PEEK" || w == "MS") {
				break
			}
			return nil, last, syntaxError
		}
		if len(checks) == 64 {
			return nil, last, tooMany
		}
		n := 1 + arguments(kind)
		align := kind == window && len(words) > n+1 && strings.EqualFold(words[n+1], "ALIGN")
		if len(words) < n+1 || align && len(words) < n+3 {
			return nil, last, syntaxError
		}
		var r request
		if fault := r.read(kind, words[1:n], maxKey); fault != "" {
			return nil, last, fault
		}
		for i := range checks {
			if checks[i].key == r.key {
				return nil, last, keyTwice
			}
		}
		var ok bool
		if r.quantity, ok = integer(words[n]); !ok {
			return nil, last, notAnInteger
		}
		words = words[n+1:]
		if align {
			if fault := r.options(words[:2]); fault != "" {
				return nil, last, fault
			}
			words = words[2:]
		}
		checks = append(checks, r)
	}
	if fault := last.options(words); fault != "" {
		return nil, last, fault
	}
	for i := range checks {
		if checks[i].rate != "" {
			return nil, last, checks[i].rate
		}
	}
	return checks, last, ""
}
