// Package integration_test is the shortest test of the built program: it builds cellserver, starts it and talks to it through
// go-redis. The other tests of the built program are in the folder test.
package integration_test

import (
	"net"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// start builds the program and runs it on a free port of the loopback interface until the test ends. It returns a client with
// go-redis's defaults, and the port.
func start(t *testing.T) (c *redis.Client, port string) {
	t.Helper()
	program := filepath.Join(t.TempDir(), "cellserver")
	said, err := exec.Command("go", "build", "-o", program, "./cmd/cellserver").CombinedOutput()
	require.NoError(t, err, "%s", said)
	for range 20 { // another process may take the port first
		l, err := net.Listen("tcp", "127.0.0.1:0")
		require.NoError(t, err)
		_, port, err = net.SplitHostPort(l.Addr().String())
		require.NoError(t, err)
		require.NoError(t, l.Close())
		if c := serve(t, program, port); c != nil {
			return c, port
		}
	}
	require.FailNow(t, "no port is free")
	return nil, ""
}

// serve runs the program on a port until the test ends and returns a client of it, or nil if the port is in use.
func serve(t *testing.T, program, port string) *redis.Client {
	t.Helper()
	cmd := exec.Command(program, "--port", port)
	cmd.Env = []string{}
	var log strings.Builder
	cmd.Stderr = &log
	require.NoError(t, cmd.Start())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		cmd.Wait()
	}()
	t.Cleanup(func() {
		cmd.Process.Kill()
		<-ended
		if t.Failed() {
			t.Logf("the log of cellserver:\n%s", &log)
		}
	})
	c := redis.NewClient(&redis.Options{Addr: "127.0.0.1:" + port})
	t.Cleanup(func() { c.Close() })
	answers := func() bool {
		select {
		case <-ended:
			return true
		default:
			// The number of the process tells this server from another one that took the port.
			return c.InfoMap(t.Context(), "server").Val()["Server"]["process_id"] == strconv.Itoa(cmd.Process.Pid)
		}
	}
	require.Eventually(t, answers, time.Minute, time.Millisecond)
	select {
	case <-ended:
		require.Contains(t, log.String(), "is in use")
		return nil
	default:
		return c
	}
}

func TestGoRedisConversesWithTheBuiltProgram(t *testing.T) {
	c, port := start(t)
	ctx := t.Context()

	integers := func(args ...any) []int64 {
		t.Helper()
		got, err := c.Do(ctx, args...).Int64Slice()
		require.NoError(t, err)
		return got
	}
	// By default go-redis sends HELLO 3 and CLIENT SETINFO, and MAINT_NOTIFICATIONS if the server knows it.
	assert.Equal(t, "PONG", c.Ping(ctx).Val())
	list := c.ClientList(ctx).Val()
	assert.Contains(t, list, " resp=3 ")
	assert.Contains(t, list, " lib-name=go-redis")

	assert.Equal(t, []int64{0, 16, 15, -1, 2}, integers("CL.THROTTLE", "throttle", 15, 30, 60, 1))
	assert.Equal(t, []int64{0, 5, 4, -1, 60}, integers("CL.WINDOW", "window", 5, 60))
	assert.Equal(t, []int64{0, 3, 2, -1, 60}, integers("CL.ZSLIDE", "zslide", 3, 60))
	assert.Equal(t, []int64{1, 3, 2}, integers("CL.ZSLIDE", "zslide", 3, 60, 3, "PEEK", "MS")[:3])

	assert.Equal(t, int64(3), c.Exists(ctx, "throttle", "window", "zslide", "nobody").Val())
	assert.Equal(t, int64(3), c.Touch(ctx, "throttle", "window", "zslide", "nobody").Val())
	assert.Equal(t, int64(3), c.DBSize(ctx).Val())
	assert.Equal(t, "zslide", c.Type(ctx, "zslide").Val())
	assert.Equal(t, "log", c.ObjectEncoding(ctx, "zslide").Val())
	assert.Positive(t, c.MemoryUsage(ctx, "zslide").Val())
	keys, cursor, err := c.Scan(ctx, 0, "*", 1000).Result()
	assert.NoError(t, err)
	assert.Zero(t, cursor)
	assert.ElementsMatch(t, []string{"throttle", "window", "zslide"}, keys)
	keys, _, err = c.ScanType(ctx, 0, "*", 1000, "window").Result()
	assert.NoError(t, err)
	assert.Equal(t, []string{"window"}, keys)
	assert.Equal(t, []string{"zslide"}, c.Keys(ctx, "z*").Val())
	assert.Contains(t, []string{"throttle", "window", "zslide"}, c.RandomKey(ctx).Val())

	assert.InDelta(t, 60, c.TTL(ctx, "window").Val().Seconds(), 30)
	assert.InDelta(t, 60, c.PTTL(ctx, "window").Val().Seconds(), 30)
	assert.InDelta(t, float64(time.Now().Unix())+60, c.ExpireTime(ctx, "window").Val().Seconds(), 30)
	assert.True(t, c.Expire(ctx, "window", 20*time.Second).Val())
	assert.LessOrEqual(t, c.TTL(ctx, "window").Val(), 20*time.Second)
	assert.True(t, c.Persist(ctx, "window").Val())
	assert.False(t, c.Persist(ctx, "window").Val())
	assert.Equal(t, "OK", c.Rename(ctx, "window", "calendar").Val())
	assert.False(t, c.RenameNX(ctx, "calendar", "zslide").Val())
	assert.EqualError(t, c.Rename(ctx, "nobody", "somebody").Err(), "ERR no such key")
	assert.Equal(t, int64(1), c.Del(ctx, "calendar", "nobody").Val())
	assert.Equal(t, int64(1), c.Unlink(ctx, "zslide", "nobody").Val())

	assert.Equal(t, map[string]string{"port": port}, c.ConfigGet(ctx, "por?").Val())
	assert.NoError(t, c.ConfigResetStat(ctx).Err())
	info := c.InfoMap(ctx).Val()
	assert.Equal(t, port, info["Server"]["tcp_port"])
	assert.Equal(t, "master", info["Replication"]["role"])
	commands, err := c.Command(ctx).Result()
	assert.NoError(t, err)
	assert.Equal(t, int8(1), commands["cl.window"].FirstKeyPos)
	assert.InDelta(t, float64(time.Now().Unix()), float64(c.Time(ctx).Val().Unix()), 30)
	assert.Equal(t, "hello", c.Echo(ctx, "hello").Val())
	assert.Positive(t, c.ClientID(ctx).Val())
	assert.EqualError(t, c.Append(ctx, "k", "v").Err(), "ERR unknown command 'append', with args beginning with: 'k' 'v' ")
	assert.EqualError(t, c.Set(ctx, "k", "v", 0).Err(), "ERR value is not an integer or out of range (cellserver keeps counters and limits, not data)")
	assert.NoError(t, c.Set(ctx, "k", 5, time.Minute).Err())
	assert.Equal(t, int64(6), c.Incr(ctx, "k").Val())
	assert.Equal(t, "6", c.Get(ctx, "k").Val())
	assert.NoError(t, c.FlushAll(ctx).Err())
	assert.Zero(t, c.DBSize(ctx).Val())
}
