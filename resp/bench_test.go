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
	batchSize = 128 // commands that arrive together
	manyKeys  = 782 // batches: about 100000 keys
	fewKeys   = 8
	// round is the time in which every key is used once.
	round = 2 * int64(time.Second)
)

// batches is a connection and the batches of commands that a client sends over it. Together they use every key once, in another
// order than that of their creation.
type batches struct {
	conn *resp.TestConn
	sent [][]byte
	now  int64
	next int
}

// newBatches makes n batches of the requests that request returns for the keys.
func newBatches(n int, request func(key string) []byte) *batches {
	b := &batches{now: 1_700_000_123 * int64(time.Second)}
	b.conn = resp.NewTestConn(newQuiet(256, &b.now), b.now)
	for i := range n {
		var batch []byte
		for j := range batchSize {
			batch = append(batch, request(keyNumber((i*batchSize+j)*7919%(n*batchSize)))...)
		}
		b.sent = append(b.sent, batch)
	}
	return b
}

func keyNumber(i int) string { return fmt.Sprintf("key:%012d", i) }

// feed advances the time and feeds one batch to the connection.
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

// sessions are the typical commands of a session. Every request is admitted and its keys exist already, because time passes as
// fast as the limits refill.
var sessions = []struct {
	name    string
	perKey  int // keys of one request
	request func(key string) []byte
	ready   func(b *batches)
	reply   string // the beginning of each reply
}{
	{"throttle", 1, func(key string) []byte { return multibulk("CL.THROTTLE", key, "15", "30", "60") }, twice, yes},
	{"window", 1, func(key string) []byte { return multibulk("CL.WINDOW", key, "1000000000", "4000000000") }, once, yes},
	{"zslide", 1, func(key string) []byte { return multibulk("CL.ZSLIDE", key, "10", "19.9") }, often, yes},
	// One command after another, as applications send them.
	{"mixed", 1, func(key string) []byte {
		if key[len(key)-1]%2 == 0 {
			return multibulk("CL.THROTTLE", key, "1000000", "1000000", "4000000")
		}
		return multibulk("CL.WINDOW", key, "1000000000", "4000000000")
	}, once, yes},
	{"all of three", 3, func(key string) []byte {
		return multibulk("CL.ALL", "THROTTLE", key+"t", "15", "30", "60", "1", "WINDOW", key+"w", "1000000000", "4000000000", "1",
			"ZSLIDE", key+"z", "10", "19.9", "1")
	}, often, "*5\r\n:0\r\n:0\r\n"},
	{"all of three throttles", 3, func(key string) []byte {
		return multibulk("CL.ALL", "THROTTLE", key+"1", "15", "30", "60", "1", "THROTTLE", key+"2", "15", "30", "60", "1",
			"THROTTLE", key+"3", "15", "30", "60", "1")
	}, twice, "*5\r\n:0\r\n:0\r\n"},
	{"exec of ten throttles", 10, func(key string) []byte {
		request := multibulk("MULTI")
		for i := range 10 {
			request = append(request, multibulk("CL.THROTTLE", fmt.Sprint(key, i), "15", "30", "60")...)
		}
		return append(request, multibulk("EXEC")...)
	}, twice, "*10\r\n*5\r\n:0\r\n"},
	// What a program that counts in fixed windows sends for each request.
	{"incrby and expire", 1, func(key string) []byte {
		return append(multibulk("INCRBY", key, "1"), multibulk("EXPIRE", key, "60")...)
	}, once, ":"},
	{"get", 1, func(key string) []byte { return multibulk("GET", key) }, sevens, "$1\r\n7"},
	{"set ex", 1, func(key string) []byte { return multibulk("SET", key, "7", "EX", "60") }, once, "+OK"},
	{"set ex nx", 1, func(key string) []byte { return multibulk("SET", key, "7", "EX", "60", "NX") }, once, "$-1"},
	{"increx", 1, func(key string) []byte {
		return multibulk("INCREX", key, "UBOUND", "1000000000000", "EX", "60", "ENX")
	}, once, "*2\r\n"},
	{"script of a fixed window", 1, func(key string) []byte { // rate-limiter-flexible's
		return multibulk("EVALSHA", "a1de965f42e177aa339706bd580f049065eca79a", "1", key, "1", "4000000")
	}, once, "*2\r\n:"},
	{"script with a float", 1, func(key string) []byte { // redis_rate's
		return multibulk("EVALSHA", "f52a5b566060d79fd321d695df55bc918339c4aa", "1", key, "1000000", "1000000", "4000000", "1")
	}, once, "*4\r\n:1\r\n"},
	{"script of one call", 1, func(key string) []byte {
		return multibulk("EVAL", "return redis.call('CL.THROTTLE', KEYS[1], ARGV[1], ARGV[2], ARGV[3])", "1", key, "15", "30", "60")
	}, twice, yes},
	{"ping", 1, func(string) []byte { return multibulk("PING") }, once, "+PONG\r\n"},
}

const yes = "*5\r\n:0\r\n"

// sevens makes a counter of every key.
func sevens(b *batches) {
	for i := range len(b.sent) * batchSize {
		b.conn.Feed(b.now, multibulk("SET", keyNumber(i), "7"))
	}
}

func once(b *batches)  { b.rounds(1) }
func often(b *batches) { b.rounds(20) }
func twice(b *batches) {
	now := b.now
	b.rounds(1)
	b.now = now // a second round within the same two seconds: no bucket is full again
	b.rounds(1)
}

// One operation is one request. Requests arrive 128 at a time and use about 100,000 keys.
func BenchmarkSession(b *testing.B) {
	for _, s := range sessions {
		b.Run(s.name, func(b *testing.B) {
			batches := newBatches(manyKeys/s.perKey, s.request)
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
			batches := newBatches(fewKeys, s.request)
			s.ready(batches)
			replies := batchSize
			if s.reply == ":" {
				replies *= 2
			}
			assert.Equal(t, replies, bytes.Count(batches.feed(), []byte(s.reply)), "every request is admitted")
			if raceDetector || s.name == "exec of ten throttles" {
				return // the race detector allocates, and a queue is memory
			}
			perBatch := testing.AllocsPerRun(1000, func() { batches.feed() })
			assert.Zero(t, perBatch, "allocations for %d requests", batchSize)
		})
	}
}
