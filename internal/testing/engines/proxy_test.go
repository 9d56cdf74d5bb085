package engines

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// echo starts a server that answers with what it gets.
func echo(t *testing.T) (addr string) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				_, _ = io.Copy(conn, conn)
				_ = conn.Close()
			}()
		}
	}()
	return l.Addr().String()
}

func dial(t *testing.T, addr string) net.Conn {
	conn, err := net.Dial("tcp", addr)
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// roundTrip returns how long the answer to one byte takes.
func roundTrip(t *testing.T, conn net.Conn) time.Duration {
	began := time.Now()
	_, err := conn.Write([]byte("x"))
	require.NoError(t, err)
	_, err = io.ReadFull(conn, make([]byte, 1))
	require.NoError(t, err)
	return time.Since(began)
}

func TestProxyDelays(t *testing.T) {
	p := StartProxy(t, echo(t))
	conn := dial(t, p.Addr())
	for _, tt := range []struct{ requests, replies time.Duration }{
		{0, 0}, {0, 50 * time.Millisecond}, {50 * time.Millisecond, 0}, {30 * time.Millisecond, 30 * time.Millisecond}, {time.Millisecond, 0}, {0, 0},
	} {
		p.Delay(tt.requests, tt.replies)
		took := roundTrip(t, conn)
		assert.GreaterOrEqual(t, took, tt.requests+tt.replies)
		t.Logf("%v and %v: %v", tt.requests, tt.replies, took)
	}
}

// Bytes that are on the way do not hold up those behind them: with a sleep for each chunk this would take two minutes.
func TestProxyDelaysWithoutALimitOnThroughput(t *testing.T) {
	p := StartProxy(t, echo(t))
	p.Delay(500*time.Millisecond, 500*time.Millisecond)
	conn := dial(t, p.Addr())
	sent := make([]byte, 16<<20)
	for i := range sent {
		sent[i] = byte(i * i >> 8)
	}
	began := time.Now()
	writing := make(chan error, 1)
	go func() {
		_, err := conn.Write(sent)
		writing <- errors.Join(err, conn.(*net.TCPConn).CloseWrite())
	}()
	got, err := io.ReadAll(conn)
	require.NoError(t, err)
	require.NoError(t, <-writing)
	took := time.Since(began)
	assert.True(t, bytes.Equal(sent, got), "in order, to the end")
	assert.Less(t, took, patience)
	t.Logf("%d MiB both ways in %v", len(sent)>>20, took)
}

func TestProxyCutsHangsAndPasses(t *testing.T) {
	p := StartProxy(t, echo(t))
	conn := dial(t, p.Addr())
	roundTrip(t, conn)

	p.Cut()
	_, err := conn.Read(make([]byte, 1))
	require.Error(t, err)
	_, err = net.Dial("tcp", p.Addr())
	require.ErrorIs(t, err, syscall.ECONNREFUSED)

	p.Hang()
	conn = dial(t, p.Addr())
	_, err = conn.Write([]byte("held"))
	require.NoError(t, err)
	require.NoError(t, conn.SetReadDeadline(time.Now().Add(50*time.Millisecond)))
	_, err = conn.Read(make([]byte, 4))
	var timeout net.Error
	require.ErrorAs(t, err, &timeout)
	assert.True(t, timeout.Timeout())

	p.Pass()
	require.NoError(t, conn.SetReadDeadline(time.Now().Add(patience)))
	got := make([]byte, 4)
	_, err = io.ReadFull(conn, got)
	require.NoError(t, err)
	assert.Equal(t, "held", string(got))
	roundTrip(t, conn)

	p.Delay(time.Hour, 0) // the test ends though this is on the way
	_, err = conn.Write([]byte("late"))
	require.NoError(t, err)
}

// Clients of a cluster with proxies connect to nothing else, and a node that hangs does not hold up the others.
func TestClusterWithProxies(t *testing.T) {
	together(t, []Version{Valkey81, Valkey91}, func(t *testing.T, version Version) {
		c := StartCluster(t, version, WithProxies(), NodeTimeout(5*time.Second))
		client, ctx := clusterClient(t, c.Addrs()), context.Background()
		require.NoError(t, client.ForEachShard(ctx, func(_ context.Context, node *redis.Client) error {
			assert.Contains(t, c.Addrs(), node.Options().Addr)
			return nil
		}))
		other := "other"
		require.NotEqual(t, c.Master("k").Addr(), c.Master(other).Addr())
		require.NoError(t, client.Set(ctx, "k", "v", 0).Err())
		require.NoError(t, client.Set(ctx, other, "v", 0).Err())

		const late = 50 * time.Millisecond
		proxy := c.Master("k").Proxy()
		proxy.Delay(0, late)
		began := time.Now()
		require.NoError(t, client.Set(ctx, "k", "v", 0).Err())
		assert.GreaterOrEqual(t, time.Since(began), late)

		proxy.Hang()
		require.NoError(t, client.Set(ctx, other, "v", 0).Err())
		require.Error(t, client.Set(ctx, "k", "v", 0).Err())
		proxy.Pass()
		require.Eventually(t, func() bool { return client.Set(ctx, "k", "v", 0).Err() == nil }, patience, 10*time.Millisecond)
	})
}
