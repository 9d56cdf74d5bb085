package resp_test

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strconv"
)

// value is one value of RESP2 or RESP3, with its bytes.
type value struct {
	mark  byte
	head  []byte  // its first line
	text  []byte  // content of a bulk or a verbatim string, including the line end
	items []value // elements of an aggregate; the keys and values of a map alternate
}

var errShort = errors.New("the value does not end")

// readValue parses the value at the start of b and returns the rest. It accepts only what the protocol allows.
func readValue(b []byte) (v value, rest []byte, err error) {
	end := bytes.Index(b, []byte("\r\n"))
	if end < 1 {
		return v, nil, errShort
	}
	v.mark, v.head, rest = b[0], b[:end+2], b[end+2:]
	line := string(b[1:end])
	if bytes.ContainsAny(b[1:end], "\r\n") {
		return v, nil, fmt.Errorf("a line within a line: %q", line)
	}
	n := 0
	switch v.mark {
	case '+', '-':
		return v, rest, nil
	case ':':
		_, err = strconv.ParseInt(line, 10, 64)
		return v, rest, err
	case ',':
		_, err = strconv.ParseFloat(line, 64)
		return v, rest, err
	case '_':
		if line != "" {
			err = fmt.Errorf("not a null: %q", line)
		}
		return v, rest, err
	case '#':
		if line != "t" && line != "f" {
			err = fmt.Errorf("not a boolean: %q", line)
		}
		return v, rest, err
	case '$', '*', '=', '%', '~':
		if n, err = strconv.Atoi(line); err != nil || n < -1 || n < 0 && v.mark != '$' && v.mark != '*' {
			return v, nil, fmt.Errorf("not a length: %q", line)
		}
	default:
		return v, nil, fmt.Errorf("no value begins with %q", v.mark)
	}
	switch {
	case n < 0:
		return v, rest, nil
	case v.mark == '$' || v.mark == '=':
		if len(rest) < n+2 {
			return v, nil, errShort
		}
		v.text, rest = rest[:n+2], rest[n+2:]
		if !bytes.HasSuffix(v.text, []byte("\r\n")) || v.mark == '=' && (n < 4 || v.text[3] != ':') {
			return v, nil, fmt.Errorf("not a string: %q", v.text)
		}
		return v, rest, nil
	case v.mark == '%':
		n *= 2
	}
	for range n {
		var item value
		if item, rest, err = readValue(rest); err != nil {
			return v, nil, err
		}
		v.items = append(v.items, item)
	}
	return v, rest, nil
}

func (v *value) appendTo(b []byte) []byte {
	b = append(append(b, v.head...), v.text...)
	for i := range v.items {
		b = v.items[i].appendTo(b)
	}
	return b
}

// sort sorts the elements of every array that consists of bulks.
func (v *value) sort() {
	bulks := v.mark == '*'
	for i := range v.items {
		bulks = bulks && v.items[i].mark == '$'
		v.items[i].sort()
	}
	if bulks {
		slices.SortFunc(v.items, func(a, b value) int { return bytes.Compare(a.text, b.text) })
	}
}

// inOrder returns replies with sorted arrays of bulks. It leaves bytes that are no reply unchanged.
func inOrder(replies []byte) []byte {
	var sorted []byte
	for rest := replies; len(rest) > 0; {
		v, after, err := readValue(rest)
		if err != nil {
			return append(sorted, rest...)
		}
		v.sort()
		sorted, rest = v.appendTo(sorted), after
	}
	return sorted
}
