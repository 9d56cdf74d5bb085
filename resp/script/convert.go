package script

import (
	"bytes"
	"strconv"

	"cellserver/resp/frame"
)

// AppendReply appends the reply to the wrapper with digest d, given the reply to its command in RESP2. A reply goes through Lua's
// types: an integer becomes a float64 and back, a null false, and [n] of an array its element.
func (w *Wrapper) AppendReply(out *frame.Reply, d Digest, reply []byte) {
	if reply[0] == '-' && !w.Protected {
		out.Error(string(reply[1:len(reply)-2]) + Place(d, w.Line))
		return
	}
	mark := len(out.Bytes)
	if w.braced {
		out.Array(1)
	}
	if !w.indexed {
		appendElement(out, reply)
		return
	}
	var element []byte
	switch reply[0] {
	case ':':
		w.raise(out, mark, d, "number")
		return
	case '$', '*':
		if reply[1] == '-' {
			w.raise(out, mark, d, "boolean") // a null is false
			return
		}
		if reply[0] == '*' {
			element = elementOf(reply, w.index)
		}
	}
	if element != nil {
		appendElement(out, element)
		return
	}
	out.Bytes = out.Bytes[:mark]
	if w.braced {
		out.Array(0) // nil ends a table
	} else {
		out.Null()
	}
}

func (w *Wrapper) raise(out *frame.Reply, mark int, d Digest, typeName string) {
	out.Bytes = out.Bytes[:mark]
	out.Errorf(errorInLua, w.indexLine, "attempt to index a "+typeName+" value"+Place(d, w.indexLine))
}

// header reads the first line of an element in RESP2, and returns the number in it and what is behind it.
func header(b []byte) (n int64, rest []byte) {
	end := bytes.IndexByte(b, '\n')
	n, _ = strconv.ParseInt(string(b[1:end-1]), 10, 64)
	return n, b[end+1:]
}

// skip returns what is behind the element that b begins with.
func skip(b []byte) []byte {
	n, rest := header(b)
	switch b[0] {
	case '$':
		if n >= 0 {
			rest = rest[n+2:]
		}
	case '*':
		for ; n > 0; n-- {
			rest = skip(rest)
		}
	}
	return rest
}

// elementOf returns the element of an array with an index from 1, or nil.
func elementOf(b []byte, index int) []byte {
	n, rest := header(b)
	if index < 1 || int64(index) > n {
		return nil
	}
	for ; index > 1; index-- {
		rest = skip(rest)
	}
	return rest
}

// appendElement appends the element that b begins with, as it is when it has gone through Lua, and returns what is behind it.
func appendElement(out *frame.Reply, b []byte) (rest []byte) {
	n, rest := header(b)
	switch b[0] {
	case ':':
		out.Int(truncated(float64(n)))
	case '$':
		if n < 0 {
			out.Null()
			return rest
		}
		out.Bulk(rest[:n])
		rest = rest[n+2:]
	case '*':
		if n < 0 {
			out.Null()
			return rest
		}
		out.Array(int(n))
		for ; n > 0; n-- {
			rest = appendElement(out, rest)
		}
	default: // a status or an error
		out.Bytes = append(out.Bytes, b[:len(b)-len(rest)]...)
	}
	return rest
}
