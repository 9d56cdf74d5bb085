package frame

import (
	"bytes"
	"strings"
)

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

// AppendLower appends b in lower case, if dst has room for it without growing.
func AppendLower(dst, b []byte) ([]byte, bool) {
	if len(dst)+len(b) > cap(dst) {
		return dst, false
	}
	for _, c := range b {
		if 'A' <= c && c <= 'Z' {
			c += 'a' - 'A'
		}
		dst = append(dst, c)
	}
	return dst, true
}
