package test

import (
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestRestart(t *testing.T) {
	s := start(t)
	c := s.raw(t)
	c.ask("CL.WINDOW k 5 3600 5", "*5\r\n:0\r\n:5\r\n:0\r\n:-1\r\n:3600\r\n")
	s.signal(syscall.SIGTERM)
	rest, err := io.ReadAll(c.r)
	require.NoError(t, err)
	assert.Empty(t, rest)
	c.Close()
	require.Zero(t, s.exit())

	again := startOn(t, s.port)
	require.NotNil(t, again, "the port can be had again at once")
	again.raw(t).ask("CL.WINDOW k 5 3600 5", "*5\r\n:0\r\n:5\r\n:0\r\n:-1\r\n:3600\r\n")
}

func TestSignals(t *testing.T) {
	for _, signal := range []os.Signal{os.Interrupt, syscall.SIGTERM} {
		t.Run(signal.String(), func(t *testing.T) {
			s := start(t)
			c := s.raw(t)
			c.ask("PING", "+PONG\r\n")
			s.signal(signal)
			_, err := c.r.ReadByte()
			assert.Equal(t, io.EOF, err)
			c.Close()
			assert.Zero(t, s.exit())
			log := s.log.String()
			assert.Contains(t, log, "msg=stopped")
			assert.NotContains(t, log, "level=WARN")
		})
	}
}

// repeats wants what is written to it to be one text over and over, as far as it goes, and counts its bytes.
type repeats struct {
	text  string // several times
	size  int    // once
	bytes atomic.Int64
}

func repetitionOf(text string) *repeats {
	return &repeats{text: strings.Repeat(text, 2+(64<<10)/len(text)), size: len(text)}
}

func (r *repeats) Write(b []byte) (int, error) {
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

func TestStoppingUnderLoad(t *testing.T) {
	const reply = "*5\r\n:0\r\n:16\r\n:16\r\n:-1\r\n:0\r\n"
	s := start(t)
	var clients sync.WaitGroup
	var replies []*repeats
	for n := range 4 {
		c := s.raw(t)
		c.ask("PING", "+PONG\r\n") // it has been accepted: closing a listener resets who still waits for that
		commands := strings.Repeat(fmt.Sprintf("CL.THROTTLE k%d 15 30 60 0\r\n", n), 1+50*n)
		clients.Go(func() {
			for {
				if _, err := io.WriteString(c, commands); err != nil {
					return
				}
			}
		})
		got := repetitionOf(reply)
		replies = append(replies, got)
		clients.Go(func() {
			defer c.Close()
			_, err := io.Copy(got, c.r)
			assert.NoError(t, err)
			assert.Zero(t, got.bytes.Load()%int64(len(reply)), "the last reply is whole")
		})
	}
	// Pipelines of a client that has ideas of its own about connections that end: what it was told must be right.
	var pipelines atomic.Int64
	for range 2 {
		c := redis.NewClient(&redis.Options{Addr: s.addr, MaxRetries: -1, DialerRetries: 1})
		clients.Go(func() {
			defer c.Close()
			for ended := false; !ended; pipelines.Add(1) {
				p := c.Pipeline()
				for range 100 {
					p.Do(t.Context(), "CL.THROTTLE", "go", 15, 30, 60, 0)
				}
				answers, err := p.Exec(t.Context())
				ended = err != nil
				for _, answer := range answers {
					if got, err := answer.(*redis.Cmd).Int64Slice(); err == nil {
						assert.Equal(t, []int64{0, 16, 16, -1, 0}, got)
					}
				}
			}
		})
	}
	for _, got := range replies {
		require.Eventually(t, func() bool { return got.bytes.Load() > 100000 }, patience, time.Millisecond)
	}
	require.Eventually(t, func() bool { return pipelines.Load() > 2 }, patience, time.Millisecond)
	began := time.Now()
	s.signal(syscall.SIGTERM)
	assert.Zero(t, s.exit())
	assert.Less(t, time.Since(began), 30*time.Second)
	clients.Wait()
	complaints.take() // that it could not connect any more
	assert.NotContains(t, s.log.String(), "level=WARN")
}

// owed returns a connection to which n long replies are owed, and one such reply.
func owed(t *testing.T, s *server, n int) (c *raw, reply string) {
	t.Helper()
	word := strings.Repeat("x", 100000)
	reply = "$100000\r\n" + word + "\r\n"
	c = s.raw(t)
	for range n {
		_, err := io.WriteString(c, "*2\r\n$4\r\nECHO\r\n"+reply)
		require.NoError(t, err)
	}
	// All of it has been read when a command that follows it shows.
	_, err := io.WriteString(c, "CLIENT SETNAME last\r\n")
	require.NoError(t, err)
	other := redis.NewClient(&redis.Options{Addr: s.addr})
	defer other.Close() // the server would wait for it
	require.Eventually(t, func() bool {
		return strings.Contains(other.ClientList(t.Context()).Val(), " name=last ")
	}, patience, time.Millisecond)
	return c, reply
}

func TestDraining(t *testing.T) {
	const n = 300
	s := start(t)
	c, reply := owed(t, s, n)
	s.signal(syscall.SIGTERM)
	s.says("msg=\"stopping: ")
	require.Eventually(t, func() bool {
		other, err := net.Dial("tcp", s.addr)
		if err == nil {
			other.Close()
		}
		return err != nil
	}, patience, time.Millisecond, "new connections are refused")
	select {
	case <-s.ended:
		require.FailNow(t, "it does not wait for replies to be sent")
	default:
	}
	got := make([]byte, len(reply))
	for i := range n {
		_, err := io.ReadFull(c.r, got)
		require.NoError(t, err, "reply %d", i)
		require.Equal(t, reply, string(got))
	}
	rest, err := io.ReadAll(c.r)
	require.NoError(t, err)
	assert.Equal(t, "+OK\r\n", string(rest))
	c.Close()
	assert.Zero(t, s.exit())
}

func TestSecondSignalEndsAtOnce(t *testing.T) {
	s := start(t, "--shutdown-timeout", "3600")
	owed(t, s, 300) // which nobody reads
	s.signal(syscall.SIGTERM)
	s.says("msg=\"stopping: ")
	s.signal(syscall.SIGTERM)
	assert.Equal(t, -1, s.exit())
	status := s.cmd.ProcessState.Sys().(syscall.WaitStatus)
	assert.Equal(t, syscall.SIGTERM, status.Signal())
}

func TestShutdownTimeout(t *testing.T) {
	s := start(t, "--shutdown-timeout", "0")
	owed(t, s, 300)
	s.signal(syscall.SIGTERM)
	assert.Zero(t, s.exit())
	assert.Contains(t, s.log.String(), "some replies could not be sent within shutdown-timeout")
}
