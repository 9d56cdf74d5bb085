package test

import (
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

	"cellserver/internal/testing/load"
)

func TestRestartWithoutPersistenceStartsEmptyOnTheSamePort(t *testing.T) {
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

func TestInterruptAndTerminateStopTheServer(t *testing.T) {
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

// stopUnderLoad stops a server while clients send to it without a pause: each client gets whole, correct replies until its
// connection ends. dial returns a connection that the server has accepted, and the reader of its replies; options are those of
// further clients, which pipeline with go-redis; depth makes the batches longer.
func stopUnderLoad(t *testing.T, s *server, dial func() (io.WriteCloser, io.Reader), options redis.Options, depth int) {
	t.Helper()
	var clients load.Clients
	for n := range 4 {
		c, r := dial()
		clients.Send(t, c, r, 1+depth*n)
	}
	// go-redis handles a connection that ends by itself, so only the replies that it did get are checked.
	var pipelining sync.WaitGroup
	var pipelines atomic.Int64
	options.MaxRetries, options.DialerRetries = -1, 1
	for range 2 {
		c := redis.NewClient(&options)
		pipelining.Go(func() {
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
	clients.AwaitBusy(t, patience)
	require.Eventually(t, func() bool { return pipelines.Load() > 2 }, patience, time.Millisecond)
	began := time.Now()
	s.signal(syscall.SIGTERM)
	assert.Zero(t, s.exit())
	assert.Less(t, time.Since(began), 30*time.Second)
	clients.Wait()
	pipelining.Wait()
	complaints.take() // of go-redis, which could not connect again
}

func TestStoppingUnderLoadSendsWholeReplies(t *testing.T) {
	s := start(t)
	stopUnderLoad(t, s, func() (io.WriteCloser, io.Reader) {
		c := s.raw(t)
		c.ask("PING", "+PONG\r\n") // answered, so accepted
		return c, c.r
	}, redis.Options{Addr: s.addr}, 50)
	assert.NotContains(t, s.log.String(), "level=WARN")
}

// owed returns a connection with n long replies that the server has not sent yet, and one such reply.
func owed(t *testing.T, s *server, n int) (c *raw, reply string) {
	t.Helper()
	word := strings.Repeat("x", 100000)
	reply = "$100000\r\n" + word + "\r\n"
	c = s.raw(t)
	for range n {
		_, err := io.WriteString(c, "*2\r\n$4\r\nECHO\r\n"+reply)
		require.NoError(t, err)
	}
	// The server has read all commands when the effect of a later one is visible.
	_, err := io.WriteString(c, "CLIENT SETNAME last\r\n")
	require.NoError(t, err)
	other := redis.NewClient(&redis.Options{Addr: s.addr})
	defer other.Close() // the server waits for open connections
	require.Eventually(t, func() bool {
		return strings.Contains(other.ClientList(t.Context()).Val(), " name=last ")
	}, patience, time.Millisecond)
	return c, reply
}

func TestStoppingSendsOwedRepliesFirst(t *testing.T) {
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
	owed(t, s, 300) // replies that nobody reads
	s.signal(syscall.SIGTERM)
	s.says("msg=\"stopping: ")
	s.signal(syscall.SIGTERM)
	assert.Equal(t, -1, s.exit())
	status := s.cmd.ProcessState.Sys().(syscall.WaitStatus)
	assert.Equal(t, syscall.SIGTERM, status.Signal())
}

func TestShutdownTimeoutDropsUnsentReplies(t *testing.T) {
	s := start(t, "--shutdown-timeout", "0")
	owed(t, s, 300)
	s.signal(syscall.SIGTERM)
	assert.Zero(t, s.exit())
	assert.Contains(t, s.log.String(), "some replies could not be sent within shutdown-timeout")
}
