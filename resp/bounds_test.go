package resp_test

import (
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// To the output limit a transaction is one command: a reply beyond the limit is not stored.
func TestRepliesOfExecAreBounded(t *testing.T) {
	s := newSubject(t, nil, "client-output-buffer-limit normal 1mb 0 0")
	p := connect(t, s.inMemory(t).Dial)
	p.ask("MULTI", "+OK\r\n")
	for range 100 {
		p.ask("COMMAND DOCS", "+QUEUED\r\n") // some 40 KB each
	}
	p.ask("CL.WINDOW k 5 60", "+QUEUED\r\n")
	p.send("EXEC\r\n")
	rest, err := io.ReadAll(p)
	require.NoError(t, err)
	assert.Empty(t, rest)
	assert.Contains(t, s.log.String(), "client-output-buffer-limit")
	connect(t, s.inMemory(t).Dial).ask("CL.WINDOW k 5 60 0", "*5\r\n:0\r\n:5\r\n:4\r\n:-1\r\n:60\r\n")
}

// Watched keys count like queued commands, each key once.
func TestWatchesAreBounded(t *testing.T) {
	s := newSubject(t, nil, "client-query-buffer-limit 1mb")
	p := connect(t, s.inMemory(t).Dial)
	p.ask("WATCH "+strings.Repeat("k", 4097), "-ERR key is longer than max-key-bytes (4096)\r\n")
	for range 20 {
		p.ask("WATCH"+strings.Repeat(" k", 30000), "+OK\r\n")
	}
	p.ask("UNWATCH", "+OK\r\n")
	var all strings.Builder
	for i := range 5500 {
		fmt.Fprintf(&all, " %d", i)
	}
	p.send("WATCH" + all.String() + "\r\n")
	rest, err := io.ReadAll(p)
	require.NoError(t, err)
	assert.Empty(t, rest)
	connect(t, s.inMemory(t).Dial).ask("PING", "+PONG\r\n")
}
