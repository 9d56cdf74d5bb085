package resp_test

import (
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The client delays a small write until earlier ones are acknowledged (Nagle's algorithm), as redis-benchmark does. If the
// server left the acknowledgment of the handshake to the kernel, which delays it by 40 ms, every one of many tries would take
// that long.
func TestFirstReplyAfterAHandshakeIsNotDelayed(t *testing.T) {
	s, both := newSubject(t, nil), newSecrets(t)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	s.serveTLS(t, l, both.server)
	dial := both.dialer(func() (net.Conn, error) {
		nc, err := net.Dial("tcp", l.Addr().String())
		if err == nil {
			err = nc.(*net.TCPConn).SetNoDelay(false)
		}
		return nc, err
	})
	quickest := time.Hour
	for range 50 {
		p := connect(t, dial)
		began := time.Now()
		p.ask("PING", "+PONG\r\n")
		quickest = min(quickest, time.Since(began))
		require.NoError(t, p.Close())
	}
	assert.Less(t, quickest, 35*time.Millisecond)
}
