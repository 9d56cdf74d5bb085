package limits

import (
	"bytes"

	"cellserver/buckets"
	"cellserver/resp/frame"
)

// All is what CL.ALL asks. Its memory is used again for the next.
type All struct {
	Checks []buckets.Check
	Options

	requests []Request
}

// Parse reads the words behind CL.ALL. keyFault returns what is wrong with a key, or "". Parse returns the reply to words
// that are wrong, or "". Keys in a.Checks are valid as long as words are.
func (a *All) Parse(words [][]byte, keyFault func(key []byte) string) (fault string) {
	requests := a.requests[:0]
	options, fault := eachCheck(words, func(kind *Kind, words [][]byte) string {
		if len(requests) == cap(requests) {
			requests = append(requests, Request{})[:len(requests)]
		}
		r := &requests[:len(requests)+1][len(requests)] // in place, because a Request is large
		*r = Request{kind: kind}
		size := kind.Words()
		if fault := keyFault(words[0]); fault != "" {
			return fault
		}
		if fault := r.parse(words[:size]); fault != "" {
			return fault
		}
		for i := range requests {
			if bytes.Equal(requests[i].key, r.key) {
				return errKeyTwice
			}
		}
		if fault := r.parseQuantity(words[size]); fault != "" {
			return fault
		}
		requests = requests[:len(requests)+1]
		return r.parseOptions(words[size+1:]) // ALIGN
	})
	a.requests = requests
	if fault != "" {
		return fault
	}
	var last Request
	if fault := last.parseOptions(options); fault != "" {
		return fault
	}
	a.Options = last.Options
	return a.check()
}

// check makes a.Checks of the requests.
func (a *All) check() (fault string) {
	for cap(a.Checks) < len(a.requests) {
		a.Checks = append(a.Checks[:cap(a.Checks)], buckets.Check{})
	}
	a.Checks = a.Checks[:len(a.requests)]
	for i := range a.requests {
		r, c := &a.requests[i], &a.Checks[i]
		var err error
		if c.Limit, err = r.kind.New(&r.values); err != nil {
			return "ERR " + err.Error()
		}
		c.Key, c.Quantity = r.key, r.Quantity
	}
	return ""
}

// Forget drops the keys, which point into the words that were parsed.
func (a *All) Forget() {
	for i := range a.requests {
		a.requests[i].key = nil
	}
	for i := range a.Checks {
		a.Checks[i].Key = nil
	}
}

// Keys returns the keys among the words behind CL.ALL, or none if those words ask for no checks.
func Keys(words [][]byte) (keys [][]byte) {
	_, fault := eachCheck(words, func(_ *Kind, words [][]byte) string {
		keys = append(keys, words[0])
		return ""
	})
	if fault != "" {
		return nil
	}
	return keys
}

// eachCheck cuts the words behind CL.ALL into checks, and calls visit with the words behind the kind of each. It returns
// the options at the end, or the reply to words that are no checks.
func eachCheck(words [][]byte, visit func(kind *Kind, words [][]byte) (fault string)) (options [][]byte, fault string) {
	for n := 0; len(words) > 0; n++ {
		kind := kindNamed(words[0])
		if kind == nil {
			if n > 0 && (frame.Is(words[0], "PEEK") || frame.Is(words[0], "MS")) {
				return words, ""
			}
			return nil, frame.ErrSyntax
		}
		size := 1 + kind.Words() + 1 // the kind, the key with the parameters, the quantity
		if kind.Aligns && len(words) > size && frame.Is(words[size], "ALIGN") {
			size += 2
		}
		switch {
		case n == buckets.MaxChecks:
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
