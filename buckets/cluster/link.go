package cluster

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"time"
)

// link is a connection on which one question after the other is asked: which servers there are, what time it is. Replies are
// those of RESP2, and are not trusted.
type link struct {
	conn net.Conn
	in   *bufio.Reader
	left int // bytes that the reply may still have
}

const (
	// answerTimeout is the longest that a link waits for a reply.
	answerTimeout = time.Second
	// maxReply is the size of the largest reply that a link reads: the slots of a very large cluster.
	maxReply = 8 << 20
	maxLine  = 1 << 10
	maxDepth = 5
)

// refusal is an error that a server has answered with, as it came: see engine.reason.
type refusal string

func (r refusal) Error() string { return string(r) }

var errMalformed = errors.New("the reply is malformed or too long")

func newLink(conn net.Conn) *link { return &link{conn: conn, in: bufio.NewReader(conn)} }

func (l *link) close() { _ = l.conn.Close() }

// ask sends commands together, and returns their replies: a string, an int64, a []any of such, nil or a refusal. After an error the
// link is of no more use. When ctx ends, so does the wait.
func (l *link) ask(ctx context.Context, commands ...[]string) ([]any, error) {
	if err := l.conn.SetDeadline(time.Time{}); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	stop := context.AfterFunc(ctx, func() { _ = l.conn.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	var out []byte
	for _, words := range commands {
		out = fmt.Appendf(out, "*%d\r\n", len(words))
		for _, w := range words {
			out = fmt.Appendf(out, "$%d\r\n%s\r\n", len(w), w)
		}
	}
	if _, err := l.conn.Write(out); err != nil {
		return nil, err
	}
	replies := make([]any, len(commands))
	for i := range replies {
		var err error
		l.left = maxReply
		if replies[i], err = l.reply(maxDepth); err != nil {
			return nil, err
		}
	}
	if !stop() {
		return nil, ctx.Err()
	}
	return replies, nil
}

// line reads a line, and returns it without its end.
func (l *link) line() (string, error) {
	var line []byte
	for {
		b, err := l.in.ReadByte()
		if err != nil {
			return "", err
		}
		if line = append(line, b); len(line) > maxLine {
			return "", errMalformed
		}
		if b == '\n' {
			break
		}
	}
	if l.left -= len(line); l.left < 0 || len(line) < 3 || line[len(line)-2] != '\r' {
		return "", errMalformed
	}
	return string(line[:len(line)-2]), nil
}

func (l *link) reply(depth int) (any, error) {
	line, err := l.line()
	if err != nil {
		return nil, err
	}
	switch rest := line[1:]; line[0] {
	case '+':
		return rest, nil
	case '-':
		return refusal(rest), nil
	case ':':
		n, err := strconv.ParseInt(rest, 10, 64)
		if err != nil {
			return nil, errMalformed
		}
		return n, nil
	case '$':
		return l.bulk(rest)
	case '*':
		return l.array(rest, depth)
	}
	return nil, errMalformed
}

func (l *link) bulk(length string) (any, error) {
	n, err := strconv.Atoi(length)
	if err == nil && n == -1 {
		return nil, nil
	}
	if err != nil || n < 0 || n > l.left {
		return nil, errMalformed
	}
	l.left -= n
	// Memory comes as the bytes do, not as the length claims.
	text, err := io.ReadAll(io.LimitReader(l.in, int64(n)))
	if err != nil {
		return nil, err
	}
	var end [2]byte
	if _, err := io.ReadFull(l.in, end[:]); err != nil {
		return nil, err
	}
	if len(text) < n || end != [2]byte{'\r', '\n'} {
		return nil, errMalformed
	}
	return string(text), nil
}

func (l *link) array(length string, depth int) (any, error) {
	n, err := strconv.Atoi(length)
	if err == nil && n == -1 {
		return nil, nil
	}
	if err != nil || n < 0 || depth == 0 {
		return nil, errMalformed
	}
	items := []any{}
	for range n {
		item, err := l.reply(depth - 1)
		if err != nil {
			return nil, err
		}
		items = append(items, item)
	}
	return items, nil
}

// maxReason is the length of the longest text of a server that is shown.
const maxReason = 160

// clean returns a text of a server as it can be shown and logged: short, and of printable ASCII.
func clean(s string) string {
	b := []byte(s[:min(len(s), maxReason)])
	for i, c := range b {
		if c < ' ' || c > '~' {
			b[i] = '?'
		}
	}
	return string(b)
}
