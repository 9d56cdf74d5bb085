package main

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"os"
	"syscall"
	"time"
)

// flow is a connection of an openLoop.
type flow struct {
	file *os.File
	fd   int
	out  []byte          // to be written
	in   []byte          // the beginning of an incomplete reply
	due  []time.Duration // due times of the commands without a reply, oldest first
	head int             // index in due of the oldest command
}

func (f *flow) waiting() int { return len(f.due) - f.head }

// answered removes the oldest command and returns its due time.
func (f *flow) answered() time.Duration {
	due := f.due[f.head]
	if f.head++; f.head == len(f.due) {
		f.due, f.head = f.due[:0], 0
	}
	return due
}

// dial connects with a non-blocking socket.
func (f *flow) dial(addr string) error {
	c, err := net.DialTimeout("tcp", addr, time.Second)
	if err != nil {
		return err
	}
	defer c.Close()
	if f.file, err = c.(*net.TCPConn).File(); err != nil {
		return err
	}
	f.fd = int(f.file.Fd())
	return syscall.SetNonblock(f.fd, true)
}

// write writes as much of out as the socket accepts.
func (f *flow) write() error {
	n, err := syscall.Write(f.fd, f.out)
	if err != nil && err != syscall.EAGAIN && err != syscall.EINTR {
		return err
	}
	f.out = f.out[:copy(f.out, f.out[max(n, 0):])]
	return nil
}

// read reads the available bytes and returns the number of replies that they complete.
func (f *flow) read(buffer []byte) (replies int, err error) {
	n, err := syscall.Read(f.fd, buffer)
	switch {
	case err == syscall.EAGAIN || err == syscall.EINTR:
		return 0, nil
	case err != nil:
		return 0, err
	case n == 0:
		return 0, io.EOF
	}
	b := buffer[:n]
	if len(f.in) > 0 {
		f.in = append(f.in, b...)
		b = f.in
	}
	for len(b) > 0 {
		n, err := replyLength(b)
		if err != nil {
			return replies, err
		}
		if n == 0 {
			break
		}
		if replies++; replies > f.waiting() {
			return replies, fmt.Errorf("a reply that nobody waits for: %q", b[:n])
		}
		b = b[n:]
	}
	f.in = append(f.in[:0], b...)
	return replies, nil
}

// replyLength returns the length of the RESP2 reply at the start of b, 0 if it is incomplete.
func replyLength(b []byte) (int, error) {
	at := bytes.IndexByte(b, '\n')
	if at < 0 {
		return 0, nil
	}
	if at < 2 {
		return 0, fmt.Errorf("not a reply: %q", b[:at+1])
	}
	length := at + 1
	switch b[0] {
	case '+', ':':
		return length, nil
	case '-':
		return 0, replyError(b[1 : at-1])
	case '$', '*':
	default:
		return 0, fmt.Errorf("not a reply: %q", b[:at+1])
	}
	n, err := parseInt(b[1 : at-1])
	if err != nil {
		return 0, fmt.Errorf("not a reply: %q", b[:at+1])
	}
	if b[0] == '$' {
		if n >= 0 {
			length += int(n) + 2
		}
		if length > len(b) {
			return 0, nil
		}
		return length, nil
	}
	for range n {
		part, err := replyLength(b[length:])
		if part == 0 || err != nil {
			return 0, err
		}
		length += part
	}
	return length, nil
}
