package keyspace

import (
	"strconv"

	"cellserver/buckets"
	"cellserver/internal/glob"
	"cellserver/resp/frame"
)

const errInvalidCursor = "ERR invalid cursor"

// Scan is what SCAN cursor [MATCH pattern] [COUNT count] [TYPE type] asks for.
type Scan struct {
	Cursor  uint64
	Count   int64
	pattern []byte // nil if every key matches
	ofKind  bool   // only keys of a type match
	kind    string // the name of the type
}

// Parse parses the words behind SCAN. It returns the error, or "".
func (q *Scan) Parse(words [][]byte) (fault string) {
	var err error
	if q.Cursor, err = strconv.ParseUint(string(words[0]), 10, 64); err != nil {
		return errInvalidCursor
	}
	q.Count = 10
	for opts := words[1:]; len(opts) > 0; opts = opts[2:] {
		if len(opts) < 2 {
			return frame.ErrSyntax
		}
		switch {
		case frame.Is(opts[0], "MATCH"):
			q.pattern = opts[1]
		case frame.Is(opts[0], "TYPE"):
			lower, _ := frame.AppendLower(make([]byte, 0, len(opts[1])), opts[1])
			q.kind, q.ofKind = string(lower), true
		case frame.Is(opts[0], "COUNT"):
			if q.Count, fault = parseCount(opts[1], 1); fault != "" {
				return fault
			}
		default:
			return frame.ErrSyntax
		}
	}
	return ""
}

// Matches reports whether SCAN answers with a key.
func (q *Scan) Matches(key []byte, k buckets.Kind) bool {
	return (!q.ofKind || k.Type() == q.kind) && (q.pattern == nil || glob.MatchBounded(q.pattern, key))
}

// SamplesFault returns the error of the options of MEMORY USAGE, [SAMPLES count], or "".
func SamplesFault(opts [][]byte) string {
	for ; len(opts) > 0; opts = opts[2:] {
		if len(opts) < 2 || !frame.Is(opts[0], "SAMPLES") {
			return frame.ErrSyntax
		}
		if _, fault := parseCount(opts[1], 0); fault != "" {
			return fault
		}
	}
	return ""
}

// parseCount parses an integer that is least at least.
func parseCount(word []byte, least int64) (n int64, fault string) {
	n, ok := frame.ParseInt(word)
	switch {
	case !ok:
		return 0, frame.ErrNotInteger
	case n < least:
		return 0, frame.ErrSyntax
	}
	return n, ""
}

// chunkSize is about how many bytes of keys a List has in one piece.
const chunkSize = 64 << 10

// List collects keys, rendered, until their number is known. It is split into chunks, because one buffer would be copied as it
// grows, and a copy of many megabytes delays other goroutines.
type List struct {
	n      int
	chunks [][]byte // the full ones
	last   frame.Reply
}

// Add adds a copy of a key.
func (l *List) Add(key []byte) {
	if len(l.last.Bytes) >= chunkSize {
		l.chunks = append(l.chunks, l.last.Bytes)
		l.last.Bytes = make([]byte, 0, chunkSize+len(key)+32)
	}
	l.n++
	l.last.Bulk(key)
}

// Append appends an array of the keys. It calls send after each chunk that is not the last, which may take the bytes away.
func (l *List) Append(out *frame.Reply, send func()) {
	out.Array(l.n)
	for i, chunk := range l.chunks {
		out.Bytes = append(out.Bytes, chunk...)
		l.chunks[i] = nil // the memory is freed while the rest is sent
		send()
	}
	out.Bytes = append(out.Bytes, l.last.Bytes...)
}
