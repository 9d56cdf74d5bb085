package acl

// glob reports whether s matches a pattern as Redis reads it: * any bytes, ? one, [abc] [^a-z] one of a class, and
// \ for the next byte itself. It does not recurse, and takes at most len(pattern) * len(s) steps: only the last star
// is ever tried again.
func glob(pattern string, s []byte) bool {
	p, i := 0, 0
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
			if matches, width := globOne(pattern[p:], s[i]); matches {
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
func globOne(pattern string, c byte) (matches bool, width int) {
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
func globClass(pattern string, c byte) (matches bool, width int) {
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
