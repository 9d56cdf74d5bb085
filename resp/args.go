package resp

import (
	"bytes"
	"fmt"
	"math"
	"strings"

	"cellserver/buckets"
)

func sprintf(format string, args ...any) string { return fmt.Sprintf(format, args...) }

const (
	second      = int64(1e9)
	millisecond = int64(1e6)
)

// ParseLooseInt parses [+-]?[0-9]+ within int64, and nothing else: the integers of limit commands.
func ParseLooseInt(b []byte) (int64, bool) {
	negative := false
	if len(b) > 0 && (b[0] == '-' || b[0] == '+') {
		negative = b[0] == '-'
		b = b[1:]
	}
	if len(b) == 0 {
		return 0, false
	}
	var n uint64
	for _, c := range b {
		d := uint64(c - '0')
		if d > 9 || n > math.MaxInt64/10 {
			return 0, false
		}
		n = n*10 + d // at most MaxInt64 + 2
	}
	switch {
	case negative && n <= -math.MinInt64:
		return -int64(n), true
	case n <= math.MaxInt64:
		return int64(n), true
	}
	return 0, false
}

// ParseInt parses an integer as Redis reads one: digits with an optional minus, no plus, no leading zeros, within
// int64. Only limit commands take what ParseLooseInt takes beyond that.
func ParseInt(b []byte) (int64, bool) {
	if len(b) == 0 || len(b) > 20 {
		return 0, false
	}
	digits := b
	if b[0] == '-' {
		digits = b[1:]
	}
	if len(digits) == 0 || digits[0]-'0' > 9 || digits[0] == '0' && len(b) > 1 {
		return 0, false
	}
	return ParseLooseInt(b)
}

// ParseSeconds parses \+?[0-9]+(\.[0-9]{1,9})? seconds into nanoseconds, at most buckets.MaxPeriod.
func ParseSeconds(b []byte) (int64, bool) {
	if len(b) > 0 && b[0] == '+' {
		b = b[1:]
	}
	whole := 0
	for whole < len(b) && b[whole]-'0' <= 9 {
		whole++
	}
	s, ok := ParseLooseInt(b[:whole])
	if !ok || s > buckets.MaxPeriod/second {
		return 0, false
	}
	ns := s * second
	if rest := b[whole:]; len(rest) > 0 {
		if rest[0] != '.' || len(rest) < 2 || len(rest) > 10 {
			return 0, false
		}
		for unit, digits := second/10, rest[1:]; len(digits) > 0; unit, digits = unit/10, digits[1:] {
			d := digits[0] - '0'
			if d > 9 {
				return 0, false
			}
			ns += int64(d) * unit
		}
	}
	return ns, ns <= buckets.MaxPeriod
}

// ParseOffset parses the offset of calendar windows: seconds with an optional minus.
func ParseOffset(b []byte) (int64, bool) {
	if len(b) > 0 && b[0] == '-' {
		if len(b) > 1 && b[1] == '+' {
			return 0, false
		}
		ns, ok := ParseSeconds(b[1:])
		return -ns, ok
	}
	return ParseSeconds(b)
}

// Is reports whether b is the word in any case. The word itself is given in upper case.
func Is(b []byte, word string) bool {
	if len(b) != len(word) {
		return false
	}
	for i, c := range b {
		if 'a' <= c && c <= 'z' {
			c -= 'a' - 'A'
		}
		if c != word[i] {
			return false
		}
	}
	return true
}

// SplitArgs splits a line into words as Redis does for inline commands and configuration files: separated by white
// space, and quoted with " (where a backslash begins \n, \xff and the like) or with a single quote (where it only stands
// before another). It reports whether the quotes match.
func SplitArgs(line string) ([]string, bool) {
	args, _, ok := splitArgs(nil, nil, []byte(line))
	words := make([]string, len(args))
	for i, a := range args {
		words[i] = string(a)
	}
	return words, ok
}

// splitArgs appends the words of line to args, their bytes taken from room, and returns both. A closing quote must be
// followed by white space or the end. As in Redis, a NUL ends the line.
func splitArgs(args [][]byte, room, line []byte) ([][]byte, []byte, bool) {
	if nul := bytes.IndexByte(line, 0); nul >= 0 {
		line = line[:nul]
	}
	// A word never grows by being unquoted, so room is never moved while args point into it.
	if cap(room) < len(line) {
		room = make([]byte, 0, len(line))
	}
	for i := 0; ; {
		for i < len(line) && isSpace(line[i]) {
			i++
		}
		if i == len(line) {
			return args, room, true
		}
		from := len(room)
		for i < len(line) && !endsWord(line[i]) {
			if line[i] != '"' && line[i] != '\'' {
				room = append(room, line[i])
				i++
				continue
			}
			var n int
			room, n = unquote(room, line[i:])
			if i += n; n == 0 || i < len(line) && !isSpace(line[i]) {
				return args, room, false
			}
			break
		}
		args = append(args, room[from:len(room):len(room)])
	}
}

// unquote appends what the quoted string at the beginning of b stands for, and returns its length in b: 0 when it does
// not end.
func unquote(dst, b []byte) ([]byte, int) {
	quote := b[0]
	for i := 1; i < len(b); i++ {
		c := b[i]
		switch {
		case c == quote:
			return dst, i + 1
		case c != '\\' || i+1 == len(b):
			dst = append(dst, c)
		case quote == '\'':
			if b[i+1] == '\'' {
				i++
				c = '\''
			}
			dst = append(dst, c)
		case b[i+1] == 'x' && i+3 < len(b) && hexDigit(b[i+2]) >= 0 && hexDigit(b[i+3]) >= 0:
			dst = append(dst, byte(hexDigit(b[i+2])<<4|hexDigit(b[i+3])))
			i += 3
		default:
			i++
			c = b[i]
			if n := strings.IndexByte("nrtba", c); n >= 0 {
				c = "\n\r\t\b\a"[n]
			}
			dst = append(dst, c)
		}
	}
	return dst, 0
}

// hexDigit returns the value of a hexadecimal digit, or -1.
func hexDigit(c byte) int {
	switch {
	case '0' <= c && c <= '9':
		return int(c - '0')
	case 'a' <= c && c <= 'f':
		return int(c-'a') + 10
	case 'A' <= c && c <= 'F':
		return int(c-'A') + 10
	}
	return -1
}

// isSpace is C's isspace.
func isSpace(c byte) bool { return c == ' ' || '\t' <= c && c <= '\r' }

func endsWord(c byte) bool { return c == ' ' || c == '\n' || c == '\r' || c == '\t' }
