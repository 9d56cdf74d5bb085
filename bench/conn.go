package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"time"
)

// conn is a connection. It is not safe for concurrent use.
type conn struct {
	net.Conn
	r *bufio.Reader
	w []byte // commands that are to be written
}

func dial(addr string) (*conn, error) {
	c, err := net.DialTimeout("tcp", addr, time.Second)
	if err != nil {
		return nil, err
	}
	return &conn{Conn: c, r: bufio.NewReaderSize(c, 64<<10)}, nil
}

func (c *conn) close() { c.Close() }

// replyTimeout is how long do waits for a reply.
const replyTimeout = time.Minute

// do sends one command and returns the strings and integers of its reply, in order.
func (c *conn) do(args ...string) (reply []string, err error) {
	c.SetDeadline(time.Now().Add(replyTimeout))
	if _, err := c.Write(appendCommand(nil, args...)); err != nil {
		return nil, err
	}
	_, err = readReply(c.r, func(b []byte) { reply = append(reply, string(b)) })
	return reply, err
}

// info returns the fields of a section of INFO.
func (c *conn) info(section string) (map[string]string, error) {
	reply, err := c.do("INFO", section)
	if err != nil {
		return nil, err
	}
	fields := map[string]string{}
	for line := range strings.Lines(strings.Join(reply, "")) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), ":"); ok {
			fields[name] = value
		}
	}
	return fields, nil
}

// number returns an integer field of a section of INFO.
func (c *conn) number(section, field string) (int64, error) {
	fields, err := c.info(section)
	if err != nil {
		return 0, err
	}
	n, err := strconv.ParseInt(fields[field], 10, 64)
	if err != nil {
		return 0, fmt.Errorf("INFO %s: %s is %q", section, field, fields[field])
	}
	return n, nil
}

// size returns the number of keys.
func (c *conn) size() (int64, error) {
	reply, err := c.do("DBSIZE")
	if err != nil {
		return 0, err
	}
	return strconv.ParseInt(reply[0], 10, 64)
}

func appendCommand(b []byte, args ...string) []byte {
	b = append(b, '*')
	b = strconv.AppendInt(b, int64(len(args)), 10)
	b = append(b, "\r\n"...)
	for _, a := range args {
		b = appendText(b, a)
	}
	return b
}

// appendText appends a bulk string.
func appendText(b []byte, text string) []byte {
	b = append(b, '$')
	b = strconv.AppendInt(b, int64(len(text)), 10)
	b = append(b, "\r\n"...)
	b = append(b, text...)
	return append(b, "\r\n"...)
}

// keyBytes is the length of the keys of the measurements: "k:" and eleven digits.
const keyBytes = 13

// template is a command that is sent for many keys. It is encoded once, so that sending it costs little.
type template struct {
	raw []byte
	key int // where the key's digits are; 0 for a command without one
}

// newTemplate encodes a command. The argument KEY stands for the key.
func newTemplate(args ...string) template {
	placeholder := "k:" + strings.Repeat("?", keyBytes-2)
	for i, a := range args {
		if a == "KEY" {
			args[i] = placeholder
		}
	}
	t := template{raw: appendCommand(nil, args...)}
	if at := bytes.Index(t.raw, []byte(placeholder)); at >= 0 {
		t.key = at + len("k:")
	}
	return t
}

// appendTo appends the command for one key.
func (t template) appendTo(b []byte, key int64) []byte {
	start := len(b)
	b = append(b, t.raw...)
	if t.key == 0 {
		return b
	}
	digits := b[start+t.key:][:keyBytes-2]
	for i := len(digits) - 1; i >= 0; i-- {
		digits[i] = byte('0' + key%10)
		key /= 10
	}
	return b
}

// replyError is an error reply of the server.
type replyError string

func (e replyError) Error() string { return "the server answered: " + string(e) }

// readReply reads one RESP2 reply and returns the first integer in it. It calls visit, if it is not nil, with every string
// and integer; the slice is valid until visit returns.
func readReply(r *bufio.Reader, visit func([]byte)) (first int64, err error) {
	line, err := r.ReadSlice('\n')
	if err != nil {
		return 0, err
	}
	if len(line) < 3 {
		return 0, fmt.Errorf("not a reply: %q", line)
	}
	kind, body := line[0], line[1:len(line)-2]
	switch kind {
	case '+':
		if visit != nil {
			visit(body)
		}
		return 0, nil
	case '-':
		return 0, replyError(body)
	}
	n, err := parseInt(body)
	if err != nil {
		return 0, fmt.Errorf("not a reply: %q", line)
	}
	switch kind {
	case ':':
		if visit != nil {
			visit(body)
		}
		return n, nil
	case '$':
		if n < 0 {
			return 0, nil
		}
		if visit == nil {
			_, err = r.Discard(int(n) + 2)
			return 0, err
		}
		text := make([]byte, n+2)
		if _, err := io.ReadFull(r, text); err != nil {
			return 0, err
		}
		visit(text[:n])
		return 0, nil
	case '*':
		for i := range n {
			v, err := readReply(r, visit)
			if err != nil {
				return 0, err
			}
			if i == 0 {
				first = v
			}
		}
		return first, nil
	}
	return 0, fmt.Errorf("not a reply: %q", line)
}

var errNotInteger = errors.New("not an integer")

// parseInt parses a decimal integer without the allocation of strconv.ParseInt.
func parseInt(b []byte) (n int64, err error) {
	negative := len(b) > 0 && b[0] == '-'
	if negative {
		b = b[1:]
	}
	if len(b) == 0 || len(b) > 18 {
		return 0, errNotInteger
	}
	for _, c := range b {
		if c < '0' || c > '9' {
			return 0, errNotInteger
		}
		n = n*10 + int64(c-'0')
	}
	if negative {
		n = -n
	}
	return n, nil
}
