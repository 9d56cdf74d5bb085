package limits

import "cellserver/buckets"

// Last is the request that a session read last, with the words behind its key. Most clients ask for the same limit again
// and again, and comparing words takes less time than parsing them.
type Last struct {
	Request
	Limit buckets.Limit

	words int // how many words are kept; 0 if none are
	ends  [keptWords]uint8
	bytes [keptBytes]byte
}

// The most that is kept. A longer request is parsed each time.
const (
	keptWords = 8
	keptBytes = 64
)

// Is reports whether words, which are those behind the key, ask for what they asked for last.
func (l *Last) Is(kind *Kind, words [][]byte) bool {
	if len(words) != l.words || kind != l.kind {
		return false
	}
	from := 0
	for i, w := range words {
		to := int(l.ends[i])
		if string(w) != string(l.bytes[from:to]) {
			return false
		}
		from = to
	}
	return true
}

// Parse reads a request of a limit command: its key and the words behind it. It returns the reply to words that are wrong,
// or "".
func (l *Last) Parse(kind *Kind, words [][]byte) (fault string) {
	l.words = 0
	l.Request = Request{kind: kind, Quantity: 1}
	n := kind.Words()
	if fault := l.parse(words[:n]); fault != "" {
		return fault
	}
	if len(words) > n {
		if fault := l.parseQuantity(words[n]); fault != "" {
			return fault
		}
		if fault := l.parseOptions(words[n+1:]); fault != "" {
			return fault
		}
	}
	l.key = nil // it is valid only until the next command is read
	var err error
	if l.Limit, err = kind.New(&l.values); err != nil {
		return "ERR " + err.Error()
	}
	l.keep(words[1:])
	return ""
}

// keep copies the words behind the key, if there is room for them.
func (l *Last) keep(words [][]byte) {
	if len(words) > keptWords {
		return
	}
	size := 0
	for i, w := range words {
		if size+len(w) > keptBytes {
			return
		}
		size += copy(l.bytes[size:], w)
		l.ends[i] = uint8(size)
	}
	l.words = len(words)
}
