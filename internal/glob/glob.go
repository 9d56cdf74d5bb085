// Package glob matches patterns as Redis does: * stands for any bytes, ? for one, [abc] and [^a-z] for one of a class, and
// \ makes the next byte stand for itself.
package glob

import "math"

// MaxSteps is how many elements of a pattern, or bytes of its classes, MatchBounded tries on one text.
const MaxSteps = 1 << 16

// Match reports whether s matches a pattern. It does not recurse and takes at most len(pattern) * len(s) steps: only the
// last star is ever tried again. It is for patterns of operators.
func Match[P ~string | ~[]byte](pattern P, s []byte) bool { return match(pattern, s, math.MaxInt) }

// MatchBounded is Match for patterns of clients. A pattern that takes more than MaxSteps steps does not match: whoever writes
// one wants to keep the server busy, or the keys locked. Redis gives up, too, in its way.
func MatchBounded(pattern, s []byte) bool { return match(pattern, s, MaxSteps) }

func match[P ~string | ~[]byte](pattern P, s []byte, most int) bool {
	p, i, steps := 0, 0, 0
	star, from := -1, 0 // the last star, and where in s what follows it is tried
	for i < len(s) {
		if p < len(pattern) && pattern[p] == '*' {
			for p < len(pattern) && pattern[p] == '*' {
				p++
			}
			if p == len(pattern) {
				return true
			}
			star, from = p, i
			continue
		}
		if p < len(pattern) {
			matches, width := one(pattern[p:], s[i])
			if steps += width; steps > most {
				return false
			}
			if matches {
				p += width
				i++
				continue
			}
		}
		if star < 0 {
			return false
		}
		from++
		p, i = star, from
	}
	for p < len(pattern) && pattern[p] == '*' {
		p++
	}
	return p == len(pattern)
}

// one matches c against the first element of pattern, which is no star, and returns the element's length.
func one[P ~string | ~[]byte](pattern P, c byte) (matches bool, width int) {
	switch pattern[0] {
	case '?':
		return true, 1
	case '\\':
		if len(pattern) > 1 {
			return pattern[1] == c, 2
		}
	case '[':
		return class(pattern, c)
	}
	return pattern[0] == c, 1
}

// class matches c against the class that pattern begins with. A class that does not end, ends with the pattern.
func class[P ~string | ~[]byte](pattern P, c byte) (matches bool, width int) {
	i := 1
	negated := i < len(pattern) && pattern[i] == '^'
	if negated {
		i++
	}
	for i < len(pattern) && pattern[i] != ']' {
		switch {
		case pattern[i] == '\\' && i+1 < len(pattern):
			matches = matches || pattern[i+1] == c
			i += 2
		case i+2 < len(pattern) && pattern[i+1] == '-':
			lo, hi := min(pattern[i], pattern[i+2]), max(pattern[i], pattern[i+2])
			matches = matches || lo <= c && c <= hi
			i += 3
		default:
			matches = matches || pattern[i] == c
			i++
		}
	}
	return matches != negated, min(i+1, len(pattern))
}
