package resp_test

import (
	"bytes"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"cellserver/resp"
)

const (
	batchSize = 128 // commands that arrive at once
	manyKeys  = 782 // batches: about 100000 keys
	fewKeys   = 8
	// round is how long it takes until every key has been asked about.
	round = 2 * int64(time.Second)
)

// batches is a connection, and what a client sends over it: batches of commands that together go over all keys, not in
// the order in which they were made.
type batches struct {
	conn *resp.TestConn
	sent [][]byte
	now  int64
	next int
}

// newBatches makes n batches of the command that words returns for a key.
func newBatches(n int, words func(key string) []string) *batches {
	b := &batches{now: 1_700_000_123 * int64(time.Second)}
	b.conn = resp.NewTestConn(newQuiet(256, &b.now), b.now)
	for i := range n {
		var batch []byte
		for j := range batchSize {
			key := fmt.Sprintf("key:%012d", (i*batchSize+j)*7919%(n*batchSize))
			batch = append(batch, multibulk(words(key)...)...)
		}
		b.sent = append(b.sent, batch)
	}
	return b
}

// feed lets one batch arrive, and time pass.
func (b *batches) feed() []byte {
	out := b.conn.Feed(b.now, b.sent[b.next])
	b.next = (b.next + 1) % len(b.sent)
	b.now += round / int64(len(b.sent))
	return out
}

func (b *batches) rounds(n int) {
	for range n * len(b.sent) {
		b.feed()
	}
}

// sessions are what a session does all day. Every request is admitted, and its key is there already: time passes as fast
// as what is taken comes back.
var sessions = []struct {
	name  string
	words func(key string) []string
	ready func(b *batches)
}{
	{"throttle", func(key string) []string { return []string{"CL.THROTTLE", key, "15", "30", "60"} },
		func(b *batches) {
			now := b.now
			b.rounds(1)
			b.now = now // a second one in the same two seconds: no bucket is full again when it is asked
			b.rounds(1)
		}},
	{"window", func(key string) []string { return []string{"CL.WINDOW", key, "1000000000", "4000000000"} },
		func(b *batches) { b.rounds(1) }},
	{"zslide", func(key string) []string { return []string{"CL.ZSLIDE", key, "10", "19.9"} },
		func(b *batches) { b.rounds(20) }},
	// One command after another, as applications send them.
	{"mixed", func(key string) []string {
		if key[len(key)-1]%2 == 0 {
			return []string{"CL.THROTTLE", key, "1000000", "1000000", "4000000"}
		}
		return []string{"CL.WINDOW", key, "1000000000", "4000000000"}
	}, func(b *batches) { b.rounds(1) }},
	{"ping", func(string) []string { return []string{"PING"} },
		func(b *batches) { b.rounds(1) }},
}

// One operation is one command, of those that arrive 128 at a time.
func BenchmarkSession(b *testing.B) {
	for _, s := range sessions {
		b.Run(s.name, func(b *testing.B) {
			batches := newBatches(manyKeys, s.words)
			s.ready(batches)
			b.ReportAllocs()
			n := 0
			for b.Loop() {
				if n%batchSize == 0 {
					batches.feed()
				}
				n++
			}
		})
	}
}

func TestSteadyPathDoesNotAllocate(t *testing.T) {
	for _, s := range sessions {
		t.Run(s.name, func(t *testing.T) {
			batches := newBatches(fewKeys, s.words)
			s.ready(batches)
			reply := "*5\r\n:0\r\n"
			if s.name == "ping" {
				reply = "+PONG\r\n"
			}
			assert.Equal(t, batchSize, bytes.Count(batches.feed(), []byte(reply)), "every request is admitted")
			if raceDetector {
				t.Skip("the race detector allocates")
			}
			perBatch := testing.AllocsPerRun(1000, func() { batches.feed() })
			assert.Zero(t, perBatch, "allocations for %d commands", batchSize)
		})
	}
}
