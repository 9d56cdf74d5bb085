// Package load keeps a server busy with clients that send without a pause and check every reply.
package load

import (
	"fmt"
	"io"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// reply is the reply to each command that Clients sends: the command takes nothing, so the bucket stays full.
const reply = "*5\r\n:0\r\n:16\r\n:16\r\n:-1\r\n:0\r\n"

// enough is the number of bytes that a client has received when it counts as busy.
const enough = 100_000

// Clients sends limit commands on connections until the server closes them. The zero value has no connection.
type Clients struct {
	running sync.WaitGroup
	replies []*repetition
}

// Send writes batches of depth commands to conn until a write fails. It reads the replies from r, and the test fails unless
// they are correct, the last one is whole, and r ends with io.EOF. The server must have accepted the connection: closing a
// listener resets the connections that still wait to be accepted.
func (c *Clients) Send(t testing.TB, conn io.WriteCloser, r io.Reader, depth int) {
	commands := strings.Repeat(fmt.Sprintf("CL.THROTTLE k%d 15 30 60 0\r\n", len(c.replies)), depth)
	c.running.Go(func() {
		for {
			if _, err := io.WriteString(conn, commands); err != nil {
				return
			}
		}
	})
	got := newRepetition(reply)
	c.replies = append(c.replies, got)
	c.running.Go(func() {
		defer func() { _ = conn.Close() }() // the server has closed it already
		_, err := io.Copy(got, r)
		assert.NoError(t, err)
		assert.Zero(t, got.bytes.Load()%int64(len(reply)), "bytes of the last reply, which is not whole")
	})
}

// AwaitBusy returns when every connection has received many replies, and ends the test when one has not within patience.
func (c *Clients) AwaitBusy(t testing.TB, patience time.Duration) {
	t.Helper()
	for _, got := range c.replies {
		require.Eventually(t, func() bool { return got.bytes.Load() > enough }, patience, time.Millisecond)
	}
}

// Wait returns when the server has closed every connection, with the number of replies that arrived.
func (c *Clients) Wait() (replies int64) {
	c.running.Wait()
	for _, got := range c.replies {
		replies += got.bytes.Load() / int64(len(reply))
	}
	return replies
}

// repetition is a writer that accepts one text over and over, ending anywhere, and counts its bytes.
type repetition struct {
	text  string // several copies
	size  int    // of one copy
	bytes atomic.Int64
}

func newRepetition(text string) *repetition {
	return &repetition{text: strings.Repeat(text, 2+(64<<10)/len(text)), size: len(text)}
}

func (r *repetition) Write(b []byte) (int, error) {
	for rest := b; len(rest) > 0; {
		from := int(r.bytes.Load()) % r.size
		n := min(len(rest), len(r.text)-from)
		if string(rest[:n]) != r.text[from:from+n] {
			return 0, fmt.Errorf("another text within %q", rest[:n])
		}
		r.bytes.Add(int64(n))
		rest = rest[n:]
	}
	return len(b), nil
}
