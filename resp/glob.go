package resp

// maxGlobSteps is how many elements of a pattern, or bytes of its classes, are tried on one text. Whoever writes a pattern
// that takes more wants to keep the server busy, or the keys locked: it does not match. Redis gives up, too, in its way.
const maxGlobSteps = 1 << 16

// globMatch reports whether s matches a pattern as Redis reads it: * any bytes, ? one, [abc] [^a-z] one of a class, and
// \ for the next byte itself. It does not recurse, only the last star is ever tried again, and it takes maxGlobSteps steps
// at most.
func globMatch(pattern, s []byte) bool {
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
			matches, width := globOne(pattern[p:], s[i])
			if steps += width; steps > maxGlobSteps {
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

// globOne matches c against the first element of pattern, which is no star, and returns the element's length.
func globOne(pattern []byte, c byte) (matches bool, width int) {
	switch pattern[0] {
	case '?':
		return true, 1
	case '\\':
		if len(pattern) > 1 {
			return pattern[1] == c, 2
		}
	case '[':
		return globClass(pattern, c)
	}
	return pattern[0] == c, 1
}

// globClass matches c against the class that pattern begins with. A class that does not end, ends with the pattern.
func globClass(pattern []byte, c byte) (matches bool, width int) {
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
