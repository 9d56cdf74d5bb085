package frame

import (
	"bytes"
	"fmt"
	"sync"
)

const (
	readSize = 16 << 10 // the room offered to one read
	// maxLine is the longest inline command, and the longest header line, that is waited for.
	maxLine = 64 << 10
	// maxMultibulk is the most arguments that one command may have.
	maxMultibulk = 1 << 20
	// strangerArgs is the most arguments of a client that has not authenticated: it has a name and a password to say.
	strangerArgs = 10
)

// Limits bounds what one command may cost before it has fully arrived. Sizes are bytes.
type Limits struct {
	MaxBulk     int64 // proto-max-bulk-len: one argument
	QueryBuffer int64 // client-query-buffer-limit: one command that has not fully arrived
	Stranger    bool  // the client has not authenticated: few arguments, and errors that say so
}

// span is an argument's place in the buffer, counted from the start of its frame.
type span struct{ from, to uint32 }

// Reader cuts the bytes of one connection into commands, in whatever pieces they arrive.
//
// It remembers where it stopped, so a command that arrives one byte at a time costs no more than one that arrives
// whole. It believes no length before the bytes are there: memory follows what was received.
//
// redcon's ReadNextCommand is not behind it: that panics on a negative bulk length, loops on a huge count and starts a
// command again with every piece. What is left for it to do after checking all that is nothing; the two are compared
// on well-formed input by FuzzFramesLikeRedcon instead.
type Reader struct {
	buf        []byte
	start, end int // what has arrived and was not consumed
	before     int // start of the command that Next returned last
	pos        int // where parsing goes on
	scanned    int // there is no line end between pos and here

	missing int // arguments that the frame at start still lacks; 0 between frames
	bulk    int // length of the argument being read; -1 before its header
	spans   []span
	args    [][]byte
	inline  []byte // the arguments of an inline command, unquoted
}

var buffers = sync.Pool{New: func() any { return new([readSize]byte) }}

// Space returns room for what arrives next. Advance says how much of it was filled.
func (r *Reader) Space() []byte {
	switch {
	case r.buf == nil:
		r.buf = buffers.Get().(*[readSize]byte)[:]
	case r.start == r.end:
		r.rebase(0)
	case r.end < len(r.buf):
	case r.start > 0:
		copy(r.buf, r.buf[r.start:r.end])
		r.rebase(r.end - r.start)
	default:
		r.buf = append(r.buf, make([]byte, len(r.buf))...)
	}
	return r.buf[r.end:]
}

// rebase moves the bookkeeping to a frame that now starts at 0 and of which n bytes have arrived.
func (r *Reader) rebase(n int) {
	r.pos -= r.start
	r.scanned -= r.start
	r.start, r.end = 0, n
}

// Advance adds the first n bytes of Space to what has arrived.
func (r *Reader) Advance(n int) { r.end += n }

// Idle releases the buffer if it is empty, so that a silent connection holds none.
func (r *Reader) Idle() {
	if r.buf == nil || r.start != r.end {
		return
	}
	r.rebase(0)
	if len(r.buf) == readSize {
		buffers.Put((*[readSize]byte)(r.buf))
	}
	r.buf = nil
	if cap(r.spans) > 64 || cap(r.args) > 64 {
		r.spans, r.args = nil, nil
	}
	clear(r.args[:cap(r.args)]) // they point into what is given back
	r.inline = nil
}

// Unread makes the next call of Next return the same command again.
func (r *Reader) Unread() { r.start, r.pos, r.scanned = r.before, r.before, r.before }

// Buffered returns the number of bytes that have arrived and were not consumed.
func (r *Reader) Buffered() int { return r.end - r.start }

// Next returns the words of the next command, or none if it has not fully arrived. They are valid until Space is
// called. After an error the connection is of no more use.
func (r *Reader) Next(l *Limits) ([][]byte, error) {
	for {
		args, err := r.frame(l)
		if err != nil {
			return nil, err
		}
		size := r.end - r.start
		if args != nil {
			size = r.pos - r.start
		}
		if int64(size) > l.QueryBuffer {
			return nil, ErrQueryBuffer
		}
		if args == nil {
			return nil, nil
		}
		r.before = r.start
		r.start = r.pos
		r.scanned = r.pos
		if len(args) > 0 {
			return args, nil
		}
	}
}

// frame parses on from where it stopped. It returns no arguments while the frame is not whole, and an empty list for a
// frame that says nothing.
func (r *Reader) frame(l *Limits) ([][]byte, error) {
	if r.missing == 0 {
		if r.pos == r.end {
			return nil, nil
		}
		if r.buf[r.pos] != '*' {
			return r.inlineFrame()
		}
		if args := r.wholeFrame(l.Stranger); args != nil {
			return args, nil
		}
		if args, begun, err := r.begin(l); !begun || err != nil {
			return args, err
		}
	}
	for r.missing > 0 {
		if r.bulk < 0 {
			if begun, err := r.beginBulk(l); !begun || err != nil {
				return nil, err
			}
		}
		after := r.pos + r.bulk
		if r.end > after && r.buf[after] != '\r' || r.end > after+1 && r.buf[after+1] != '\n' {
			return nil, ProtocolError(errBulkLength)
		}
		if r.end < after+2 {
			return nil, nil
		}
		r.spans = append(r.spans, span{uint32(r.pos - r.start), uint32(after - r.start)})
		r.pos, r.scanned, r.bulk = after+2, after+2, -1
		r.missing--
	}
	r.args = r.args[:0]
	frame := r.buf[r.start:r.pos]
	for _, s := range r.spans {
		r.args = append(r.args, frame[s.from:s.to:s.to])
	}
	return r.args, nil
}

// begin reads the count of arguments that a frame begins with, and reports whether there are any to be read: not while the
// count is not whole, and not for a frame that says nothing, whose arguments it returns.
func (r *Reader) begin(l *Limits) (args [][]byte, begun bool, err error) {
	n, whole, err := r.header(errMultibulkHeader, errMultibulkLength)
	switch {
	case !whole || err != nil:
		return nil, false, err
	case n > maxMultibulk:
		return nil, false, ProtocolError(errMultibulkLength)
	case l.Stranger && n > strangerArgs:
		return nil, false, ProtocolError(errStrangerArgs)
	case n <= 0:
		return [][]byte{}, false, nil
	}
	r.missing, r.bulk, r.spans = int(n), -1, r.spans[:0]
	return nil, true, nil
}

// beginBulk reads the length that an argument begins with, and reports whether it is whole.
func (r *Reader) beginBulk(l *Limits) (begun bool, err error) {
	if r.pos == r.end {
		return false, nil
	}
	if c := r.buf[r.pos]; c != '$' {
		return false, ProtocolError(fmt.Sprintf(errExpectedBulk, []byte{c}))
	}
	n, whole, err := r.header(errBulkHeader, errBulkLength)
	switch {
	case !whole || err != nil:
		return false, err
	case l.Stranger && n > 0 && n > l.MaxBulk:
		return false, ProtocolError(errStrangerBulk)
	case n < 0 || n > l.MaxBulk:
		return false, ProtocolError(errBulkLength)
	}
	r.bulk = int(n)
	return true, nil
}

// wholeFrame is the short way for what nearly all frames are: arrived whole, with short words, and nothing wrong with it.
// It returns nothing for any other frame, and has not moved then.
func (r *Reader) wholeFrame(stranger bool) [][]byte {
	b := r.buf[r.pos:r.end]
	n, at := shortHeader(b)
	if at == 0 || n == 0 || stranger && n > strangerArgs {
		return nil
	}
	args := r.args[:0]
	for range n {
		b = b[at:]
		if len(b) < 6 || b[0] != '$' {
			return nil
		}
		var to, from int
		if first := b[1] - '1'; first < 9 && b[2] == '\r' && b[3] == '\n' { // of one digit, as most are
			from = 4
			to = from + 1 + int(first)
		} else if second := b[2] - '0'; first < 9 && second < 10 && b[3] == '\r' && b[4] == '\n' {
			from = 5
			to = from + 10*(1+int(first)) + int(second)
		} else {
			var size int64
			if size, from = shortHeader(b); from == 0 {
				return nil
			}
			to = from + int(size)
		}
		if to+2 > len(b) || b[to] != '\r' || b[to+1] != '\n' {
			return nil
		}
		args = append(args, b[from:to:to])
		at = to + 2
	}
	r.args = args
	r.pos = r.end - len(b) + at
	return args
}

// header parses the line at pos, a mark and a length, and moves past it. It is not whole while its end has not arrived.
func (r *Reader) header(tooLong, invalid ProtocolError) (n int64, whole bool, err error) {
	if n, size := shortHeader(r.buf[r.pos:r.end]); size > 0 {
		r.pos += size
		r.scanned = r.pos
		return n, true, nil
	}
	line, whole, long := r.line()
	switch {
	case long:
		return 0, false, tooLong
	case !whole:
		return 0, false, nil
	case len(line) == 0 || line[len(line)-1] != '\r':
		return 0, false, invalid
	}
	n, ok := ParseInt(line[1 : len(line)-1])
	if !ok {
		return 0, false, invalid
	}
	return n, true, nil
}

// shortHeader parses a header of one to three digits, which nearly all are, and returns its length: 0 when it is not one.
func shortHeader(b []byte) (n int64, size int) {
	if len(b) < 6 || b[1] == '0' {
		return 0, 0
	}
	for i := 1; i < 5; i++ {
		c := b[i]
		if c == '\r' && b[i+1] == '\n' && i > 1 {
			return n, i + 2
		}
		if c -= '0'; c > 9 {
			return 0, 0
		}
		n = n*10 + int64(c)
	}
	return 0, 0
}

// line returns the line at pos without its line feed and moves past it, or says that it is not whole or too long.
func (r *Reader) line() (line []byte, whole, long bool) {
	most := min(r.end, r.pos+maxLine)
	i := -1
	if r.scanned < most {
		i = bytes.IndexByte(r.buf[r.scanned:most], '\n')
	}
	if i < 0 {
		r.scanned = most
		return nil, false, r.end-r.pos >= maxLine
	}
	end := r.scanned + i
	line = r.buf[r.pos:end]
	r.pos, r.scanned = end+1, end+1
	return line, true, false
}

// inlineFrame parses a command typed as a line.
func (r *Reader) inlineFrame() ([][]byte, error) {
	line, whole, long := r.line()
	switch {
	case long:
		return nil, ProtocolError(errInlineTooBig)
	case !whole:
		return nil, nil
	}
	if n := len(line); n > 0 && line[n-1] == '\r' {
		line = line[:n-1]
	}
	var ok bool
	r.args, r.inline, ok = splitArgs(r.args[:0], r.inline[:0], line)
	if !ok {
		return nil, ProtocolError(errUnbalanced)
	}
	if len(r.args) == 0 {
		return [][]byte{}, nil
	}
	return r.args, nil
}
