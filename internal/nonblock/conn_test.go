package nonblock_test

import (
	"bytes"
	"errors"
	"io"
	"net"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"cellserver/internal/nonblock"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// pair returns a connection under test, and the other end of it.
func pair(t *testing.T, network string) (*nonblock.Conn, net.Conn) {
	if network == "memory" {
		a, b := net.Pipe()
		t.Cleanup(func() { _ = a.Close(); _ = b.Close() })
		return nonblock.NewConn(a), b
	}
	addr := "127.0.0.1:0"
	if network == "unix" {
		addr = filepath.Join(t.TempDir(), "socket")
	}
	l, err := net.Listen(network, addr)
	require.NoError(t, err)
	defer l.Close()
	a, err := net.Dial(network, l.Addr().String())
	require.NoError(t, err)
	b, err := l.Accept()
	require.NoError(t, err)
	t.Cleanup(func() { _ = a.Close(); _ = b.Close() })
	return nonblock.NewConn(a), b
}

func eachNetwork(t *testing.T, test func(t *testing.T, c *nonblock.Conn, peer net.Conn)) {
	for _, network := range []string{"tcp", "unix", "memory"} {
		t.Run(network, func(t *testing.T) {
			c, peer := pair(t, network)
			test(t, c, peer)
		})
	}
}

// More than a socket takes at once arrives whole, while the same goes the other way.
func TestMuchGoesBothWays(t *testing.T) {
	eachNetwork(t, func(t *testing.T, c *nonblock.Conn, peer net.Conn) {
		sent := bytes.Repeat([]byte("0123456789"), 2<<20)
		ends := make(chan error, 3)
		go func() {
			n, err := c.Write(sent)
			if n != len(sent) {
				err = errors.Join(err, io.ErrShortWrite)
			}
			ends <- err
		}()
		go func() {
			_, err := peer.Write(sent)
			ends <- err
		}()
		go func() {
			got := make([]byte, len(sent))
			_, err := io.ReadFull(peer, got)
			if !bytes.Equal(got, sent) {
				err = errors.Join(err, io.ErrUnexpectedEOF)
			}
			ends <- err
		}()
		got := make([]byte, len(sent))
		_, err := io.ReadFull(c, got)
		assert.NoError(t, err)
		assert.True(t, bytes.Equal(sent, got))
		for range 3 {
			assert.NoError(t, <-ends)
		}
	})
}

func TestEndsAreSeen(t *testing.T) {
	eachNetwork(t, func(t *testing.T, c *nonblock.Conn, peer net.Conn) {
		require.NoError(t, peer.Close())
		_, err := c.Read(make([]byte, 10))
		assert.ErrorIs(t, err, io.EOF)
		assert.Eventually(t, func() bool { _, err = c.Write([]byte("x")); return err != nil }, 10*time.Second, time.Millisecond)
	})
}

func TestCloseEndsAReadThatWaits(t *testing.T) {
	eachNetwork(t, func(t *testing.T, c *nonblock.Conn, _ net.Conn) {
		ended := make(chan error, 1)
		go func() {
			_, err := c.Read(make([]byte, 10))
			ended <- err
		}()
		require.NoError(t, c.Close())
		err := <-ended
		assert.Error(t, err)
		assert.NotErrorIs(t, err, io.EOF)
		_, err = c.Write([]byte("x"))
		assert.Error(t, err)
	})
}

func TestADeadlineEndsAReadThatWaits(t *testing.T) {
	eachNetwork(t, func(t *testing.T, c *nonblock.Conn, _ net.Conn) {
		require.NoError(t, c.SetReadDeadline(time.Now().Add(time.Millisecond)))
		_, err := c.Read(make([]byte, 10))
		var late net.Error
		require.ErrorAs(t, err, &late)
		assert.True(t, late.Timeout())
	})
}

func TestNothingIsAllocated(t *testing.T) {
	c, peer := pair(t, "tcp")
	b := make([]byte, 10)
	assert.Zero(t, testing.AllocsPerRun(100, func() {
		_, err := c.Write(b)
		assert.NoError(t, err)
		_, err = io.ReadFull(peer, b)
		assert.NoError(t, err)
		_, err = peer.Write(b)
		assert.NoError(t, err)
		_, err = io.ReadFull(c, b)
		assert.NoError(t, err)
	}))
}
