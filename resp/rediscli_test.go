package resp_test

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"cellserver/internal/testing/testenv"
	"cellserver/resp"
)

// These functions format replies as redis-cli prints them to a terminal. TestRedisCLIPrintsTheExamplesAsDocumented compares them
// with the real redis-cli.

// printed returns what redis-cli prints for the reply to words, with "\n" as line ends.
func printed(words []string, reply []byte) (string, error) {
	v, rest, err := readValue(reply)
	if err != nil {
		return "", err
	}
	if len(rest) > 0 {
		return "", fmt.Errorf("behind the reply: %q", rest)
	}
	text := ""
	if printsRaw(words) {
		text = rawly(v)
	} else {
		text = formatted(v, "")
	}
	return strings.ReplaceAll(text, "\r\n", "\n"), nil
}

// printsRaw reports whether redis-cli prints the reply of a command unquoted, because it is a text for people.
func printsRaw(words []string) bool {
	sub := ""
	if len(words) > 1 {
		sub = strings.ToLower(words[1])
	}
	switch strings.ToLower(words[0]) {
	case "info", "lolwut":
		return true
	case "memory":
		return sub == "malloc-stats" || sub == "doctor"
	case "cluster":
		return len(words) == 2 && (sub == "nodes" || sub == "info")
	case "client":
		return sub == "list" || sub == "info"
	case "latency":
		return len(words) == 3 && sub == "graph" || len(words) == 2 && sub == "doctor"
	}
	return false
}

// rawly formats a reply without quotes.
func rawly(v value) string {
	if v.text != nil {
		return content(v)
	}
	return content(v) + "\n"
}

// content returns a bulk without its line end, or a line without its type.
func content(v value) string {
	text := v.head[1:]
	if v.text != nil {
		text = v.text
	}
	return string(text[:len(text)-len("\r\n")])
}

// formatted formats a reply with types and numbered elements. It puts prefix before the second and later lines.
func formatted(v value, prefix string) string {
	switch v.mark {
	case '+':
		return content(v) + "\n"
	case '-':
		return "(error) " + content(v) + "\n"
	case ':':
		return "(integer) " + content(v) + "\n"
	case '$':
		if v.text == nil {
			return "(nil)\n"
		}
		return quoted(content(v)) + "\n"
	case '*':
		return formattedArray(v, prefix)
	}
	panic(fmt.Sprintf("a reply of RESP3: %q", v.head))
}

func formattedArray(v value, prefix string) string {
	switch content(v) {
	case "-1":
		return "(nil)\n"
	case "0":
		return "(empty array)\n"
	}
	width := len(content(v))
	inner := prefix + strings.Repeat(" ", width+2)
	var b strings.Builder
	for i, item := range v.items {
		if i > 0 {
			b.WriteString(prefix)
		}
		fmt.Fprintf(&b, "%*d) %s", width, i+1, formatted(item, inner))
	}
	return b.String()
}

// quoted quotes a string as sdscatrepr of Redis does.
func quoted(s string) string {
	var b strings.Builder
	b.WriteByte('"')
	for i := range len(s) {
		switch c := s[i]; {
		case c == '\\' || c == '"':
			b.WriteByte('\\')
			b.WriteByte(c)
		case c == '\n':
			b.WriteString(`\n`)
		case c == '\r':
			b.WriteString(`\r`)
		case c == '\t':
			b.WriteString(`\t`)
		case c == '\a':
			b.WriteString(`\a`)
		case c == '\b':
			b.WriteString(`\b`)
		case c < ' ' || c > '~':
			fmt.Fprintf(&b, `\x%02x`, c)
		default:
			b.WriteByte(c)
		}
	}
	b.WriteByte('"')
	return b.String()
}

// The real redis-cli prints the replies of the examples as docs/commands.md shows them. It talks to a listener that replays the
// bytes of the server, because a reply may depend on earlier commands.
func TestRedisCLIPrintsTheExamplesAsDocumented(t *testing.T) {
	cli := testenv.Tool(t, "redis-cli")
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	replies := make(chan []byte, 1)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			answerOnce(c, replies)
		}
	}()
	t.Cleanup(func() {
		_ = l.Close()
		<-done
	})
	_, port, err := net.SplitHostPort(l.Addr().String())
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	compared := 0
	for row, lines := range readExamples(t, "testdata/examples.txt") {
		now := exampleStart
		c := resp.NewTestConn(newQuiet(8, &now), now)
		for _, line := range lines {
			now += int64(line.after)
			if line.hidden || row == "monitor" { // redis-cli waits for more after MONITOR
				continue
			}
			reply := append([]byte(nil), c.Feed(now, multibulk(line.words...))...)
			want, err := printed(line.words, reply)
			require.NoError(t, err)
			replies <- reply
			cmd := exec.CommandContext(ctx, cli, append([]string{"--no-raw", "-p", port}, line.words...)...)
			cmd.Env = append(os.Environ(), "HOME="+t.TempDir())
			said, _ := cmd.Output() // the status is not 0 if the reply is an error
			assert.Equal(t, strings.TrimRight(want, "\n"), strings.TrimRight(strings.ReplaceAll(string(said), "\r\n", "\n"), "\n"), line.text)
			compared++
		}
	}
	assert.NotZero(t, compared)
}

// answerOnce reads one command, writes replies, and waits for the end of the connection.
func answerOnce(c net.Conn, replies <-chan []byte) {
	defer c.Close()
	var in []byte
	piece := make([]byte, 4096)
	for answered := false; ; {
		n, err := c.Read(piece)
		if err != nil {
			return
		}
		in = append(in, piece[:n]...)
		if _, _, err := readValue(in); err == nil && !answered {
			answered = true
			if _, err := c.Write(<-replies); err != nil {
				return
			}
		}
	}
}
