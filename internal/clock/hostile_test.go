package clock

import (
	"context"
	"io"
	"log/slog"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"cellserver/buckets/memory"
	"cellserver/cmd/cellserver/options"
	"cellserver/internal/testing/memnet"
	"cellserver/resp"
)

// shared is a pair of hands that a server reads while a test moves them.
type shared struct {
	mu sync.Mutex
	hands
}

func (s *shared) read() (mono, wall int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.hands.read()
}

func (s *shared) move(mono, wall time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mono += int64(mono)
	s.wall += int64(wall)
}

// Steps of the system clock while the server runs neither admit nor refuse any client.
func TestHostileStepsChangeNoDecision(t *testing.T) {
	for name, step := range map[string]time.Duration{"a day on": 24 * time.Hour, "a day back": -24 * time.Hour} {
		t.Run(name, func(t *testing.T) {
			h := &shared{hands: hands{wall: start}}
			live := options.NewLive(options.Defaults(), func(options.Settings) error { return nil })
			srv := resp.NewServer(resp.Config{Store: memory.NewStore(4), Now: newClock(h.read, awake).Now,
				Log: slog.New(slog.DiscardHandler), Version: "test", Options: live, Bounds: live.Settings().Wire})
			l := memnet.Listen()
			served := make(chan error, 1)
			go func() { served <- srv.Serve(l) }()
			c, err := l.Dial()
			require.NoError(t, err)
			defer func() {
				c.Close()
				require.NoError(t, srv.Shutdown(context.Background()))
				require.NoError(t, <-served)
			}()
			ask := func(line, want string) {
				t.Helper()
				exchange(t, c, line, want)
			}
			ask("CL.THROTTLE t 4 5 60 5", "*5\r\n:0\r\n:5\r\n:0\r\n:-1\r\n:60\r\n")
			ask("CL.WINDOW w 5 60 5", "*5\r\n:0\r\n:5\r\n:0\r\n:-1\r\n:60\r\n")
			ask("CL.ZSLIDE z 5 60 5", "*5\r\n:0\r\n:5\r\n:0\r\n:-1\r\n:60\r\n")
			for range 3 {
				h.move(0, step)
				ask("CL.THROTTLE t 4 5 60", "*5\r\n:1\r\n:5\r\n:0\r\n:12\r\n:60\r\n")
				ask("CL.WINDOW w 5 60", "*5\r\n:1\r\n:5\r\n:0\r\n:60\r\n:60\r\n")
				ask("CL.ZSLIDE z 5 60", "*5\r\n:1\r\n:5\r\n:0\r\n:60\r\n:60\r\n")
				ask("EXISTS t w z", ":3\r\n")
			}
			// 31 seconds pass on the system clock, a few milliseconds more or less on this one, which follows at 500 ppm.
			for range 31 {
				h.move(time.Second, time.Second)
				ask("PING", "+PONG\r\n")
			}
			ask("CL.WINDOW w 5 60", "*5\r\n:1\r\n:5\r\n:0\r\n:"+left(step)+"\r\n:"+left(step)+"\r\n")
			ask("CL.ZSLIDE z 5 60", "*5\r\n:1\r\n:5\r\n:0\r\n:"+left(step)+"\r\n:"+left(step)+"\r\n")
			ask("CL.THROTTLE t 4 5 60 2", "*5\r\n:0\r\n:5\r\n:0\r\n:-1\r\n:"+map[bool]string{true: "53", false: "54"}[step > 0]+"\r\n")
			for range 30 {
				h.move(time.Second, time.Second)
			}
			ask("CL.WINDOW w 5 60 5", "*5\r\n:0\r\n:5\r\n:0\r\n:-1\r\n:60\r\n")
			ask("CL.ZSLIDE z 5 60 5", "*5\r\n:0\r\n:5\r\n:0\r\n:-1\r\n:60\r\n")
		})
	}
}

// left returns the rest of a minute after 31 seconds and a few milliseconds of drift, rounded up.
func left(step time.Duration) string {
	if step > 0 {
		return "29"
	}
	return "30"
}

func exchange(t *testing.T, c net.Conn, line, want string) {
	t.Helper()
	require.NoError(t, c.SetDeadline(time.Now().Add(time.Minute)))
	_, err := io.WriteString(c, line+"\r\n")
	require.NoError(t, err)
	got := make([]byte, len(want))
	n, err := io.ReadFull(c, got)
	require.NoError(t, err, "%q", got[:n])
	assert.Equal(t, want, string(got), line)
}
