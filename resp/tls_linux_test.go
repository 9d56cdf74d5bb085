package resp_test

import (
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestFirstReplyAfterAHandshakeIsNotDelayed has a client that lets a small write wait until those before it are acknowledged, as
// redis-benchmark does. The kernel would acknowledge the end of the handshake after 40 ms; of many tries one is quicker,
// unless all of them wait for that.
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
