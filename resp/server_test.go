package resp_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"cellserver/buckets"
	"cellserver/buckets/memory"
	"cellserver/internal/testing/memnet"
)

func TestRetryAfterIsExact(t *testing.T) {
	for _, row := range []struct {
		name  string
		fill  []any         // exhausts the limit
		ask   []any         // is refused afterwards
		reply []int64       // to ask, in milliseconds
		fits  time.Duration // time from which on ask is admitted, to the nanosecond
	}{
		{"a throttle", []any{"CL.THROTTLE", "k", 1, 1, 10, 2}, []any{"CL.THROTTLE", "k", 1, 1, 10, 1, "MS"},
			[]int64{1, 2, 0, 10000, 20000}, 10 * time.Second},
		{"a throttle whose interval is no whole number of milliseconds",
			[]any{"CL.THROTTLE", "k", 2, 3, 1, 3}, []any{"CL.THROTTLE", "k", 2, 3, 1, 1, "MS"},
			[]int64{1, 3, 0, 334, 1000}, 333333333},
		{"a window", []any{"CL.WINDOW", "k", 5, "0.25", 5}, []any{"CL.WINDOW", "k", 5, "0.25", 1, "MS"},
			[]int64{1, 5, 0, 250, 250}, 250 * time.Millisecond},
		{"a sliding window", []any{"CL.ZSLIDE", "k", 3, 60, 3}, []any{"CL.ZSLIDE", "k", 3, 60, 1, "MS"},
			[]int64{1, 3, 0, 60000, 60000}, time.Minute},
	} {
		bubble(t, row.name, func(t *testing.T) {
			c := newClient(t, newSubject(t, nil).inMemory(t), nil)
			require.Zero(t, integers(t, c, row.fill...)[0])
			got := integers(t, c, row.ask...)
			require.Equal(t, row.reply, got)
			retryAfter := time.Duration(got[3]) * time.Millisecond

			time.Sleep(retryAfter - time.Millisecond)
			got = integers(t, c, row.ask...)
			assert.Equal(t, []int64{1, 1}, []int64{got[0], got[3]}, "one millisecond early")

			time.Sleep(time.Millisecond - (retryAfter - row.fits) - 1)
			got = integers(t, c, row.ask...)
			assert.Equal(t, []int64{1, 1}, []int64{got[0], got[3]}, "one nanosecond early")

			time.Sleep(time.Nanosecond)
			got = integers(t, c, row.ask...)
			assert.Equal(t, []int64{0, -1}, []int64{got[0], got[3]}, "on time")
		})
	}
}

func TestLimitsRefillAsTimePasses(t *testing.T) {
	bubble(t, "CL.THROTTLE", func(t *testing.T) {
		c := newClient(t, newSubject(t, nil).inMemory(t), nil)
		ask := func() []int64 { return integers(t, c, "CL.THROTTLE", "k", 1, 1, 10) }
		assert.Equal(t, []int64{0, 2, 1, -1, 10}, ask())
		assert.Equal(t, []int64{0, 2, 0, -1, 20}, ask())
		assert.Equal(t, []int64{1, 2, 0, 10, 20}, ask())
		assert.Equal(t, []int64{1, 2, 0, 10, 20}, ask())
		time.Sleep(15 * time.Second)
		assert.Equal(t, []int64{0, 2, 0, -1, 15}, ask())
		assert.Equal(t, []int64{1, 2, 0, 5, 15}, ask())
	})
	bubble(t, "CL.WINDOW", func(t *testing.T) {
		c := newClient(t, newSubject(t, nil).inMemory(t), nil)
		ask := func(args ...any) []int64 { return integers(t, c, append([]any{"CL.WINDOW", "k"}, args...)...) }
		assert.Equal(t, []int64{0, 5, 4, -1, 60}, ask(5, 60))
		time.Sleep(10 * time.Second)
		assert.Equal(t, []int64{0, 5, 0, -1, 50}, ask(5, 60, 4))
		time.Sleep(10 * time.Second)
		assert.Equal(t, []int64{1, 5, 0, 40, 40}, ask(5, 60))
		assert.Equal(t, []int64{0, 3, 0, -1, 40}, ask(3, 60, 0))
		time.Sleep(40 * time.Second)
		assert.Equal(t, []int64{0, 5, 4, -1, 60}, ask(5, 60))
	})
	bubble(t, "CL.WINDOW on the calendar", func(t *testing.T) {
		c := newClient(t, newSubject(t, nil).inMemory(t), nil)
		// The fake clock starts at midnight UTC.
		time.Sleep(59500 * time.Millisecond)
		ask := func() []int64 { return integers(t, c, "CL.WINDOW", "k", 5, 60, 1, "ALIGN", 0) }
		assert.Equal(t, []int64{0, 5, 4, -1, 1}, ask())
		time.Sleep(time.Second)
		assert.Equal(t, []int64{0, 5, 4, -1, 60}, ask())
	})
	bubble(t, "CL.ZSLIDE", func(t *testing.T) {
		c := newClient(t, newSubject(t, nil).inMemory(t), nil)
		ask := func(args ...any) []int64 {
			return integers(t, c, append([]any{"CL.ZSLIDE", "k", 3, 60}, args...)...)
		}
		for _, want := range [][]int64{{0, 3, 2, -1, 60}, {0, 3, 1, -1, 60}, {0, 3, 0, -1, 60}} {
			assert.Equal(t, want, ask())
			time.Sleep(10 * time.Second)
		}
		assert.Equal(t, []int64{1, 3, 0, 30, 50}, ask())
		assert.Equal(t, []int64{1, 3, 0, 40, 50}, ask(2))
		time.Sleep(30 * time.Second)
		assert.Equal(t, []int64{0, 3, 0, -1, 60}, ask())
	})
}

func TestKeysExpireWhenTheirBucketIsFull(t *testing.T) {
	bubble(t, "each when its bucket is full", func(t *testing.T) {
		ctx := t.Context()
		c := newClient(t, newSubject(t, nil).inMemory(t), nil)
		integers(t, c, "CL.THROTTLE", "throttle", 15, 30, 60, 5) // full after 10 s
		integers(t, c, "CL.WINDOW", "window", 5, 20)
		integers(t, c, "CL.ZSLIDE", "zslide", 5, 30)
		assert.Equal(t, 10*time.Second, c.PTTL(ctx, "throttle").Val())
		assert.Equal(t, int64(3), c.DBSize(ctx).Val())
		assert.Equal(t, "window", c.Type(ctx, "window").Val())

		time.Sleep(10*time.Second - 1)
		assert.Equal(t, time.Millisecond, c.PTTL(ctx, "throttle").Val(), "a key that exists never says 0")
		assert.Equal(t, int64(3), c.Exists(ctx, "throttle", "window", "zslide").Val())
		time.Sleep(time.Nanosecond)
		assert.Equal(t, int64(2), c.Exists(ctx, "throttle", "window", "zslide").Val())
		assert.Equal(t, time.Duration(-2), c.PTTL(ctx, "throttle").Val())
		assert.Equal(t, "none", c.Type(ctx, "throttle").Val())

		time.Sleep(10 * time.Second)
		assert.ElementsMatch(t, []string{"zslide"}, c.Keys(ctx, "*").Val())
		time.Sleep(10 * time.Second)
		assert.Positive(t, c.DBSize(ctx).Val(), "what has expired counts until somebody meets it")
		assert.ErrorIs(t, c.RandomKey(ctx).Err(), redis.Nil)
		assert.Zero(t, c.DBSize(ctx).Val())
	})
	bubble(t, "at a deadline before that", func(t *testing.T) {
		ctx := t.Context()
		c := newClient(t, newSubject(t, nil).inMemory(t), nil)
		integers(t, c, "CL.WINDOW", "k", 5, 20, 5)
		assert.True(t, c.Expire(ctx, "k", 3*time.Second).Val())
		assert.Equal(t, 3*time.Second, c.TTL(ctx, "k").Val())
		time.Sleep(3*time.Second - 1)
		assert.Equal(t, int64(1), integers(t, c, "CL.WINDOW", "k", 5, 20)[0])
		time.Sleep(time.Nanosecond)
		assert.Equal(t, []int64{0, 5, 4, -1, 20}, integers(t, c, "CL.WINDOW", "k", 5, 20))
	})
}

func TestPipelinesAreAnsweredInOrder(t *testing.T) {
	bubble(t, "of ten thousand commands", func(t *testing.T) {
		const n = 10000
		c := newClient(t, newSubject(t, nil).inMemory(t), nil)
		p := c.Pipeline()
		for i := range n {
			p.Do(t.Context(), "CL.WINDOW", fmt.Sprint("k", i%10), n/10, 60)
		}
		replies, err := p.Exec(t.Context())
		require.NoError(t, err)
		require.Len(t, replies, n)
		for i, reply := range replies {
			got, err := reply.(*redis.Cmd).Int64Slice()
			require.NoError(t, err)
			require.Equal(t, []int64{0, n / 10, int64(n/10 - 1 - i/10), -1, 60}, got)
		}
	})
	bubble(t, "whose errors are their own", func(t *testing.T) {
		ctx := t.Context()
		c := newClient(t, newSubject(t, nil).inMemory(t), nil)
		p := c.Pipeline()
		first := p.Do(ctx, "CL.ZSLIDE", "k", 3, 60)
		unknown := p.Do(ctx, "NOSUCH", "a")
		wrong := p.Do(ctx, "CL.THROTTLE", "k", 15, 30, 60)
		last := p.Do(ctx, "CL.ZSLIDE", "k", 3, 60)
		_, err := p.Exec(ctx)
		require.Error(t, err)
		assert.NoError(t, first.Err())
		assert.EqualError(t, unknown.Err(), "ERR unknown command 'NOSUCH', with args beginning with: 'a' ")
		assert.EqualError(t, wrong.Err(), "WRONGTYPE Operation against a key holding the wrong kind of value")
		got, err := last.Int64Slice()
		require.NoError(t, err)
		assert.Equal(t, []int64{0, 3, 1, -1, 60}, got)
	})
}

func TestGoRedisWorksInBothProtocols(t *testing.T) {
	for _, version := range []int{2, 3} {
		bubble(t, fmt.Sprint("RESP", version), func(t *testing.T) {
			ctx := t.Context()
			c := newClient(t, newSubject(t, nil).inMemory(t), func(o *redis.Options) {
				o.Protocol, o.ClientName, o.PoolSize = version, "tester", 1
			})
			assert.Equal(t, "PONG", c.Ping(ctx).Val())
			assert.Equal(t, []int64{0, 16, 15, -1, 2}, integers(t, c, "CL.THROTTLE", "k", 15, 30, 60))
			// A map in RESP3 and a flat array in RESP2.
			assert.Equal(t, map[string]string{"port": "6379"}, c.ConfigGet(ctx, "port").Val())
			list, err := c.ClientList(ctx).Result()
			require.NoError(t, err)
			assert.Contains(t, list, fmt.Sprintf(" resp=%d ", version))
			assert.Contains(t, list, " name=tester ")
			assert.Contains(t, list, " lib-name=go-redis", "CLIENT SETINFO")
			commands, err := c.Command(ctx).Result()
			require.NoError(t, err)
			assert.EqualValues(t, -5, commands["cl.throttle"].Arity)
			_, err = c.Info(ctx).Result()
			require.NoError(t, err)
		})
	}
}

func TestTimeoutEndsSilentConnections(t *testing.T) {
	bubble(t, "closes a connection that is silent for so long", func(t *testing.T) {
		s := newSubject(t, nil, "timeout 30")
		p := connect(t, s.inMemory(t).Dial)
		require.NoError(t, p.SetDeadline(time.Time{}))
		start := time.Now()
		for range 3 {
			p.ask("PING", "+PONG\r\n")
			time.Sleep(30*time.Second - 1)
		}
		p.ask("PING", "+PONG\r\n")
		p.expectEOF()
		assert.Equal(t, 3*(30*time.Second-1)+30*time.Second, time.Since(start))
	})
	bubble(t, "closes one that never says anything", func(t *testing.T) {
		p := connect(t, newSubject(t, nil, "timeout 1").inMemory(t).Dial)
		start := time.Now()
		p.expectEOF()
		assert.Equal(t, time.Second, time.Since(start))
	})
	bubble(t, "does not close one that is busy reading", func(t *testing.T) {
		p := connect(t, newSubject(t, nil, "timeout 5").inMemory(t).Dial)
		require.NoError(t, p.SetDeadline(time.Time{}))
		reply := "$10000\r\n" + strings.Repeat("x", 10000) + "\r\n"
		p.send(strings.Repeat("*2\r\n$4\r\nECHO\r\n"+reply, 100))
		for range 100 {
			p.expect(reply)
			time.Sleep(time.Second)
		}
	})
	bubble(t, "is for ever when it is 0", func(t *testing.T) {
		p := connect(t, newSubject(t, nil).inMemory(t).Dial)
		require.NoError(t, p.SetDeadline(time.Time{}))
		time.Sleep(365 * 24 * time.Hour)
		p.ask("PING", "+PONG\r\n")
	})
	bubble(t, "can be changed by a client", func(t *testing.T) {
		p := connect(t, newSubject(t, nil).inMemory(t).Dial)
		require.NoError(t, p.SetDeadline(time.Time{}))
		p.ask("CONFIG SET timeout 7", "+OK\r\n")
		p.ask("PING", "+PONG\r\n") // the timeout applies from the next read on
		start := time.Now()
		p.expectEOF()
		assert.Equal(t, 7*time.Second, time.Since(start))
	})
	bubble(t, "can be taken back", func(t *testing.T) {
		p := connect(t, newSubject(t, nil, "timeout 7").inMemory(t).Dial)
		require.NoError(t, p.SetDeadline(time.Time{}))
		p.ask("CONFIG SET timeout 0", "+OK\r\n")
		p.ask("PING", "+PONG\r\n")
		time.Sleep(time.Hour)
		p.ask("PING", "+PONG\r\n")
	})
}

func TestSoftOutputLimitDropsClientsThatStayAboveIt(t *testing.T) {
	echo := "ECHO " + strings.Repeat("x", 1000) + "\r\n"
	// behind returns a connection with about 100 KB of unread replies.
	behind := func(t *testing.T, l *memnet.Listener) *peer {
		p := connect(t, l.Dial)
		require.NoError(t, p.SetDeadline(time.Time{}))
		p.send(strings.Repeat(echo, 100))
		synctest.Wait()
		return p
	}
	const limit = "client-output-buffer-limit normal 0 50kb 10"
	bubble(t, "drops who stays above it", func(t *testing.T) {
		s := newSubject(t, nil, limit)
		p := behind(t, s.inMemory(t))
		time.Sleep(10*time.Second - time.Nanosecond)
		p.send(echo)
		time.Sleep(time.Nanosecond)
		synctest.Wait()
		_, err := io.WriteString(p, echo)
		assert.ErrorIs(t, err, io.ErrClosedPipe)
		assert.Contains(t, s.log.String(), "does not read its replies")
	})
	bubble(t, "forgets who comes below it in between", func(t *testing.T) {
		p := behind(t, newSubject(t, nil, limit).inMemory(t))
		reply := "$1000\r\n" + strings.Repeat("x", 1000) + "\r\n"
		time.Sleep(9 * time.Second)
		for range 100 {
			p.expect(reply)
		}
		p.ask("PING", "+PONG\r\n")
		p.send(strings.Repeat(echo, 100))
		synctest.Wait()
		time.Sleep(9 * time.Second)
		p.send(echo)
		for range 101 {
			p.expect(reply)
		}
	})
}

func TestShutdownWaitsForRepliesButNotForSilence(t *testing.T) {
	// shutdown starts a shutdown. The channel gets its error and duration.
	type end struct {
		err   error
		after time.Duration
	}
	shutdown := func(s *subject, within time.Duration) <-chan end {
		ended := make(chan end, 1)
		start := time.Now()
		go func() {
			ctx, cancel := context.WithTimeout(context.Background(), within)
			defer cancel()
			ended <- end{s.Shutdown(ctx), time.Since(start)}
		}()
		synctest.Wait()
		return ended
	}
	bubble(t, "ends silent connections at once", func(t *testing.T) {
		s := newSubject(t, nil)
		l := s.inMemory(t)
		var peers []*peer
		for range 100 {
			p := connect(t, l.Dial)
			p.ask("PING", "+PONG\r\n")
			peers = append(peers, p)
		}
		assert.Equal(t, end{}, <-shutdown(s, time.Minute))
		for _, p := range peers {
			p.expectEOF()
		}
		_, err := l.Dial()
		assert.ErrorIs(t, err, net.ErrClosed)
	})
	bubble(t, "sends every reply that is owed", func(t *testing.T) {
		const n = 1000
		s := newSubject(t, nil)
		p := connect(t, s.inMemory(t).Dial)
		p.send(strings.Repeat("CL.THROTTLE k 15 30 60 0\r\n", n))
		synctest.Wait()
		ended := shutdown(s, time.Minute)
		p.expect(strings.Repeat("*5\r\n:0\r\n:16\r\n:16\r\n:-1\r\n:0\r\n", n))
		p.expectEOF()
		assert.Equal(t, end{}, <-ended)
	})
	for _, row := range []struct {
		name          string
		replies, size int
	}{
		{"waits for a client that reads slowly", 1000, 1000},
		{"waits for a client that reads one large reply slowly", 1, 1000000},
	} {
		bubble(t, row.name, func(t *testing.T) {
			s := newSubject(t, nil)
			p := connect(t, s.inMemory(t).Dial)
			require.NoError(t, p.SetDeadline(time.Time{}))
			reply := fmt.Sprintf("$%d\r\n%s\r\n", row.size, strings.Repeat("x", row.size))
			p.send(strings.Repeat("*2\r\n$4\r\nECHO\r\n"+reply, row.replies))
			synctest.Wait()
			ended := shutdown(s, time.Hour)
			want := strings.Repeat(reply, row.replies)
			for len(want) > 0 {
				n := min(len(want), 50000)
				p.expect(want[:n])
				want = want[n:]
				time.Sleep(time.Second)
			}
			p.expectEOF()
			assert.NoError(t, (<-ended).err)
		})
	}
	bubble(t, "gives up on a client that reads nothing", func(t *testing.T) {
		s := newSubject(t, nil)
		p := connect(t, s.inMemory(t).Dial)
		p.send("PING\r\n")
		synctest.Wait()
		assert.Equal(t, end{nil, 5 * time.Second}, <-shutdown(s, time.Hour))
	})
	bubble(t, "gives up when it is told to", func(t *testing.T) {
		s := newSubject(t, nil)
		p := connect(t, s.inMemory(t).Dial)
		p.send("PING\r\n")
		synctest.Wait()
		assert.Equal(t, end{context.DeadlineExceeded, time.Second}, <-shutdown(s, time.Second))
		p.expectEOF()
	})
	bubble(t, "does not wait for the rest of a command", func(t *testing.T) {
		s := newSubject(t, nil, "timeout 30")
		p := connect(t, s.inMemory(t).Dial)
		p.send("PING\r\nECHO hel")
		p.expect("+PONG\r\n")
		assert.Equal(t, end{}, <-shutdown(s, time.Minute))
		p.expectEOF()
	})
	bubble(t, "may come before Serve", func(t *testing.T) {
		s := newSubject(t, nil)
		require.NoError(t, s.Shutdown(t.Context()))
		l := memnet.Listen()
		assert.NoError(t, s.Serve(l))
		_, err := l.Dial()
		assert.ErrorIs(t, err, net.ErrClosed)
	})
	bubble(t, "closes every listener", func(t *testing.T) {
		s := newSubject(t, nil)
		first, second := s.inMemory(t), s.inMemory(t)
		connect(t, first.Dial).ask("PING", "+PONG\r\n")
		connect(t, second.Dial).ask("PING", "+PONG\r\n")
		assert.Equal(t, end{}, <-shutdown(s, time.Minute))
		for _, l := range []*memnet.Listener{first, second} {
			_, err := l.Dial()
			assert.ErrorIs(t, err, net.ErrClosed)
		}
	})
}

func TestConnectionsBeyondMaxClientsAreRefused(t *testing.T) {
	bubble(t, "in memory", func(t *testing.T) {
		s := newSubject(t, nil, "maxclients 3")
		l := s.inMemory(t)
		var peers []*peer
		for range 3 {
			p := connect(t, l.Dial)
			p.ask("PING", "+PONG\r\n")
			peers = append(peers, p)
		}
		for range 5 {
			p := connect(t, l.Dial)
			p.expect("-ERR max number of clients reached\r\n")
			p.expectEOF()
		}
		peers[0].Close()
		synctest.Wait()
		p := connect(t, l.Dial)
		p.ask("PING", "+PONG\r\n")
		p.ask("CONFIG SET maxclients 4", "+OK\r\n")
		connect(t, l.Dial).ask("PING", "+PONG\r\n")
		connect(t, l.Dial).expect("-ERR max number of clients reached\r\n")
	})
}

// broken is a store that panics on one key.
type broken struct{ *memory.Store }

func (b broken) Decide(now int64, key []byte, l *buckets.Limit, quantity int64, peek bool, d *buckets.Decision) error {
	if string(key) == "cursed" {
		panic("the curse")
	}
	return b.Store.Decide(now, key, l, quantity, peek, d)
}

func TestPanicInAHandlerCostsOneReply(t *testing.T) {
	bubble(t, "in the middle of a batch", func(t *testing.T) {
		s := newSubject(t, broken{memory.NewStore(1)})
		p := connect(t, s.inMemory(t).Dial)
		p.send("CL.WINDOW k 5 60\r\nCL.WINDOW cursed 5 60\r\nCL.WINDOW k 5 60\r\n")
		p.expect("*5\r\n:0\r\n:5\r\n:4\r\n:-1\r\n:60\r\n" +
			"-ERR internal error: this command was abandoned, see the server's log\r\n" +
			"*5\r\n:0\r\n:5\r\n:3\r\n:-1\r\n:60\r\n")
		log := s.log.String()
		assert.Equal(t, 1, strings.Count(log, "\n"), log)
		for _, part := range []string{"level=ERROR", "command=cl.window", `panic="the curse"`, "server_test.go"} {
			assert.Contains(t, log, part)
		}
	})
}
