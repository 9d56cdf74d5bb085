package fuzz

import (
	"bufio"
	"io"
	"strconv"
	"strings"
)

// ReadReply reads one reply of RESP2 or RESP3 and returns it as it was written.
func ReadReply(r *bufio.Reader) (string, error) {
	line, err := r.ReadString('\n')
	if err != nil {
		return line, err
	}
	n, _ := strconv.Atoi(strings.TrimSpace(line[1:]))
	switch line[0] {
	case '$', '=':
		if n < 0 {
			return line, nil
		}
		text := make([]byte, n+2)
		_, err = io.ReadFull(r, text)
		return line + string(text), err
	case '%':
		n *= 2
	case '*', '>', '~':
	default:
		return line, nil
	}
	all := line
	for range n {
		item, err := ReadReply(r)
		if err != nil {
			return all, err
		}
		all += item
	}
	return all, nil
}
