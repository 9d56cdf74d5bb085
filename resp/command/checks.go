package command

import (
	"cellserver/buckets"
	"cellserver/resp/frame"
)

// Parameters returns how many words a kind of limit needs, its key included.
func Parameters(kind buckets.Kind) int {
	if kind == buckets.Throttle {
		return 4
	}
	return 3
}

// maxChecks is the most checks of one CL.ALL.
const maxChecks = buckets.MaxChecks

// kindNamed returns the kind of limit that CL.ALL names with word, or None.
func kindNamed(word []byte) buckets.Kind {
	switch {
	case frame.Is(word, "THROTTLE"):
		return buckets.Throttle
	case frame.Is(word, "WINDOW"):
		return buckets.Window
	case frame.Is(word, "ZSLIDE"):
		return buckets.Slide
	}
	return buckets.None
}

// EachCheck cuts the words behind CL.ALL into checks, each with the number of its words, up to the options at the end.
// It returns the options, or the fault of words that are no checks.
func EachCheck(words [][]byte, visit func(kind buckets.Kind, words [][]byte) (fault string)) (options [][]byte, fault string) {
	for n := 0; len(words) > 0; n++ {
		kind := kindNamed(words[0])
		if kind == buckets.None {
			if n > 0 && (frame.Is(words[0], "PEEK") || frame.Is(words[0], "MS")) {
				return words, ""
			}
			return nil, frame.ErrSyntax
		}
		size := 2 + Parameters(kind) // its kind and its quantity beside its parameters
		if kind == buckets.Window && len(words) > size && frame.Is(words[size], "ALIGN") {
			size += 2
		}
		switch {
		case n == maxChecks:
			return nil, errTooManyChecks
		case len(words) < size:
			return nil, frame.ErrSyntax
		}
		if fault := visit(kind, words[1:size]); fault != "" {
			return nil, fault
		}
		words = words[size:]
	}
	return nil, ""
}

// keysOfAll returns the keys of CL.ALL.
func keysOfAll(words [][]byte) (names [][]byte) {
	_, fault := EachCheck(words[1:], func(_ buckets.Kind, words [][]byte) string {
		names = append(names, words[0])
		return ""
	})
	if fault != "" {
		return nil
	}
	return names
}
