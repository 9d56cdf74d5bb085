package frame

import "slices"

// TestReader cuts bytes into commands, without a session.
type TestReader struct {
	in     Reader
	limits Limits
	room   int
}

// NewTestReader returns a TestReader whose buffer has room for the given number of bytes at first; 0 is the usual size.
func NewTestReader(room int) *TestReader {
	return &TestReader{limits: Limits{MaxBulk: 1 << 20, QueryBuffer: 8 << 20}, room: room}
}

// Feed returns the commands that have fully arrived with in. After an error the reader is of no more use.
func (r *TestReader) Feed(in []byte) (commands [][]string, err error) {
	for len(in) > 0 {
		if r.in.buf == nil && r.room > 0 {
			r.in.buf = make([]byte, r.room)
		}
		n := copy(r.in.Space(), in)
		r.in.Advance(n)
		in = in[n:]
		for {
			words, err := r.in.Next(&r.limits)
			if err != nil {
				return commands, err
			}
			if words == nil {
				break
			}
			var command []string
			for _, w := range words {
				command = append(command, string(w))
			}
			commands = append(commands, command)
		}
		r.in.Idle()
	}
	return commands, nil
}

// AppendAmount appends an integer that is not negative, as a decision has it.
func AppendAmount(b []byte, n int64) []byte {
	return appendAmount(slices.Grow(b, decisionSize), n)
}
