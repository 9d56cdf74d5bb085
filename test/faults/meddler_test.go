package faults

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// meddler passes commands on to a server, one at a time on each connection, and does to them and their replies what a test wants.
type meddler struct {
	listener net.Listener
	target   string
	serving  sync.WaitGroup

	mu     sync.Mutex
	meddle meddling
	conns  map[net.Conn]struct{}
}

// meddling answers a command. ask passes it on, and returns the reply of the server. The reply goes to the client, and then what
// follows happens.
type meddling func(words []string, ask func() []byte) (reply []byte, next next)

type next uint8

const (
	goOn next = iota
	hangUp
	sayNothing // more, but keep the connection
)

func startMeddler(t testing.TB, target string) *meddler {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	m := &meddler{listener: listener, target: target, conns: make(map[net.Conn]struct{})}
	m.serving.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			m.serving.Go(func() { m.serve(conn) })
		}
	})
	t.Cleanup(func() {
		_ = listener.Close()
		m.mu.Lock()
		for conn := range m.conns {
			_ = conn.Close()
		}
		m.mu.Unlock()
		m.serving.Wait()
	})
	return m
}

func (m *meddler) addr() string { return m.listener.Addr().String() }

// with has commands answered by f from now on; by the server alone if f is nil.
func (m *meddler) with(f meddling) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.meddle = f
}

func (m *meddler) track(conn net.Conn) func() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.conns[conn] = struct{}{}
	return func() {
		_ = conn.Close()
		m.mu.Lock()
		defer m.mu.Unlock()
		delete(m.conns, conn)
	}
}

func (m *meddler) serve(client net.Conn) {
	defer m.track(client)()
	server, err := net.Dial("tcp", m.target)
	if err != nil {
		return
	}
	defer m.track(server)()
	commands, replies := bufio.NewReader(client), bufio.NewReader(server)
	for {
		raw, words, err := readCommand(commands)
		if err != nil {
			return
		}
		var failed error
		ask := func() []byte {
			if _, failed = server.Write(raw); failed != nil {
				return nil
			}
			var reply []byte
			reply, failed = readReply(replies, nil)
			return reply
		}
		m.mu.Lock()
		meddle := m.meddle
		m.mu.Unlock()
		var reply []byte
		next := goOn
		if meddle != nil {
			reply, next = meddle(words, ask)
		} else {
			reply = ask()
		}
		if failed != nil {
			return
		}
		if _, err := client.Write(reply); err != nil || next == hangUp {
			return
		}
		if next == sayNothing {
			_, _ = io.Copy(io.Discard, commands)
			return
		}
	}
}

// readCommand reads an array of bulks.
func readCommand(r *bufio.Reader) (raw []byte, words []string, err error) {
	if raw, err = readReply(r, nil); err != nil {
		return nil, nil, err
	}
	rest := bufio.NewReader(bytes.NewReader(raw))
	head, _ := rest.ReadString('\n')
	n, err := strconv.Atoi(strings.TrimSpace(head[1:]))
	for range n {
		head, _ = rest.ReadString('\n')
		size, _ := strconv.Atoi(strings.TrimSpace(head[1:]))
		word := make([]byte, size+2)
		if _, err = io.ReadFull(rest, word); err != nil {
			return nil, nil, err
		}
		words = append(words, string(word[:size]))
	}
	return raw, words, err
}

// readReply appends a reply as it comes.
func readReply(r *bufio.Reader, dst []byte) ([]byte, error) {
	line, err := r.ReadBytes('\n')
	if err != nil {
		return nil, err
	}
	dst = append(dst, line...)
	n, _ := strconv.Atoi(strings.TrimSpace(string(line[1:])))
	switch line[0] {
	case '$':
		if n >= 0 {
			bulk := make([]byte, n+2)
			if _, err := io.ReadFull(r, bulk); err != nil {
				return nil, err
			}
			dst = append(dst, bulk...)
		}
	case '*':
		for range n {
			if dst, err = readReply(r, dst); err != nil {
				return nil, err
			}
		}
	case '+', '-', ':':
	default:
		return nil, fmt.Errorf("%q", line)
	}
	return dst, nil
}

// ofKeys restricts a meddling to the commands that decide on keys.
func ofKeys(f meddling) meddling {
	return func(words []string, ask func() []byte) ([]byte, next) {
		switch {
		case len(words) < 2, words[0] != "SET" && words[0] != "GET", strings.Contains(words[1], "cellserver?"):
			return ask(), goOn
		}
		return f(words, ask)
	}
}
