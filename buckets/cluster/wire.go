package cluster

import (
	"bytes"
	"errors"
	"strconv"
)

// The part of RESP2 that the hot path speaks: it sends SET, GET, ASKING and WAIT, and reads bulks, errors, integers and simple
// strings.

// The heads of the frames, up to the length of the key.
const (
	getHead     = "*2\r\n$3\r\nGET\r\n$"
	setHead     = "\r\n$3\r\nSET\r\n$"
	ifeqWord    = "$4\r\nIFEQ\r\n$"
	nxWords     = "$2\r\nNX\r\n$3\r\nGET\r\n"
	getWord     = "$3\r\nGET\r\n"
	pxWord      = "$2\r\nPX\r\n$"
	askingFrame = "*1\r\n$6\r\nASKING\r\n"
	waitHead    = "*3\r\n$4\r\nWAIT\r\n$"
)

// appendBulk appends a bulk without the dollar that begins it.
func appendBulk(dst, bulk []byte) []byte {
	dst = strconv.AppendInt(dst, int64(len(bulk)), 10)
	dst = append(dst, "\r\n"...)
	dst = append(dst, bulk...)
	return append(dst, "\r\n"...)
}

// appendNumber appends an integer as a bulk without the dollar that begins it.
func appendNumber(dst []byte, n int64) []byte {
	var digits [20]byte
	return appendBulk(dst, strconv.AppendInt(digits[:0], n, 10))
}

// appendFrame appends the command of a swap.
func appendFrame(dst []byte, sw *swap) []byte {
	if sw.mode == read {
		return appendBulk(append(dst, getHead...), sw.key)
	}
	words := byte('5') // SET key new NX GET
	if sw.mode == replace {
		words++
	}
	if sw.ttl != 0 {
		words += 2
	}
	dst = append(dst, '*', words)
	dst = appendBulk(append(dst, setHead...), sw.key)
	dst = appendBulk(append(dst, '$'), sw.new)
	if sw.mode == replace {
		dst = appendBulk(append(dst, ifeqWord...), sw.old)
		dst = append(dst, getWord...)
	} else {
		dst = append(dst, nxWords...)
	}
	if sw.ttl != 0 {
		dst = appendNumber(append(dst, pxWord...), sw.ttl)
	}
	return dst
}

// appendWait appends a WAIT for replicas, for so many milliseconds.
func appendWait(dst []byte, replicas int, milliseconds int64) []byte {
	dst = appendNumber(append(dst, waitHead...), int64(replicas))
	return appendNumber(append(dst, '$'), milliseconds)
}

// The limits of what the engine may answer.
const (
	maxReplyLine = 64 << 10  // bytes of a line
	maxReplyBulk = 512 << 20 // bytes of a bulk; Redis's proto-max-bulk-len
)

var (
	errProtocol   = errors.New("the engine sent what is no reply to the command")
	errReplyLarge = errors.New("the engine sent a reply that is too large")
)

// reply is one reply of the engine.
type reply struct {
	kind byte // the byte that begins it; 0 while it has not arrived in full
	null bool // of a bulk
	n    int64
	text []byte // of a bulk, an error, a simple string: memory of the buffer that was parsed
}

// parseReply reads the first reply in b, and returns how many bytes it has. If they have not all arrived, the reply has no
// kind, and size is how many it will have at least, as far as that is known. It reads no arrays and nothing of RESP3: the
// hot path asks for none.
func parseReply(b []byte) (r reply, size int, err error) {
	if len(b) == 0 {
		return r, 1, nil
	}
	switch b[0] {
	case '$', '-', ':', '+':
	default:
		return r, 0, errProtocol
	}
	end := bytes.IndexByte(b[:min(len(b), maxReplyLine)], '\n')
	if end < 0 {
		if len(b) >= maxReplyLine {
			return r, 0, errReplyLarge
		}
		return r, len(b) + 1, nil
	}
	if end < 2 || b[end-1] != '\r' {
		return r, 0, errProtocol
	}
	line := b[1 : end-1]
	switch b[0] {
	case '-', '+':
		return reply{kind: b[0], text: line}, end + 1, nil
	case ':':
		n, ok := parseLength(line)
		if !ok {
			return r, 0, errProtocol
		}
		return reply{kind: ':', n: n}, end + 1, nil
	}
	if len(line) == 2 && line[0] == '-' && line[1] == '1' {
		return reply{kind: '$', null: true}, end + 1, nil
	}
	n, ok := parseLength(line)
	switch {
	case !ok:
		return r, 0, errProtocol
	case n > maxReplyBulk:
		return r, 0, errReplyLarge
	}
	size = end + 1 + int(n) + 2
	if len(b) < size {
		return r, size, nil
	}
	if b[size-2] != '\r' || b[size-1] != '\n' {
		return r, 0, errProtocol
	}
	return reply{kind: '$', text: b[end+1 : size-2]}, size, nil
}

// parseLength reads an integer that is not negative.
func parseLength(b []byte) (n int64, ok bool) {
	if len(b) == 0 || len(b) > 18 {
		return 0, false
	}
	for _, c := range b {
		if c < '0' || c > '9' {
			return 0, false
		}
		n = n*10 + int64(c-'0')
	}
	return n, true
}

// engineError is an error reply: a word in capitals and what follows it.
type engineError string

func (e engineError) Error() string { return string(e) }

// maxErrorText is how much of an error of the engine is shown.
const maxErrorText = 200

// newEngineError returns an error reply as one line of printable text.
func newEngineError(text []byte) engineError {
	clean := make([]byte, 0, min(len(text), maxErrorText))
	for _, c := range text[:min(len(text), maxErrorText)] {
		if c < ' ' || c > '~' {
			c = '?'
		}
		clean = append(clean, c)
	}
	return engineError(clean)
}
