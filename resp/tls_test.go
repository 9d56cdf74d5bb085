package resp_test

import (
	"crypto/tls"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"cellserver/internal/testing/memnet"
	"cellserver/internal/testing/testcert"
	"cellserver/resp"
)

// secrets is the configuration of both sides of TLS connections.
type secrets struct{ server, client *tls.Config }

func newSecrets(t testing.TB) secrets {
	t.Helper()
	authority := testcert.NewAuthority(t, "ours")
	return secrets{
		server: &tls.Config{
			Certificates:                []tls.Certificate{authority.Issue("server", nil).TLS(t)},
			DynamicRecordSizingDisabled: true,
		},
		client: &tls.Config{ServerName: "localhost", RootCAs: authority.Trust()},
	}
}

// dialer returns a function that dials TLS over the connections of dial.
func (s secrets) dialer(dial func() (net.Conn, error)) func() (net.Conn, error) {
	return func() (net.Conn, error) {
		c, err := dial()
		if err != nil {
			return nil, err
		}
		secret := tls.Client(c, s.client)
		if err := secret.Handshake(); err != nil {
			c.Close()
			return nil, err
		}
		return secret, nil
	}
}

func (s *subject) serveTLS(t *testing.T, l net.Listener, c *tls.Config) {
	t.Helper()
	s.serveBy(t, func() error { return s.ServeTLS(l, func() *tls.Config { return c }) })
}

// onTLS serves a loopback TCP port with TLS.
func (s *subject) onTLS(t *testing.T) func() (net.Conn, error) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	both := newSecrets(t)
	s.serveTLS(t, l, both.server)
	return both.dialer(func() (net.Conn, error) { return net.Dial("tcp", l.Addr().String()) })
}

// overSecretMemory serves TLS over connections in memory.
func (s *subject) overSecretMemory(t *testing.T) func() (net.Conn, error) {
	t.Helper()
	l, both := memnet.Listen(), newSecrets(t)
	s.serveTLS(t, l, both.server)
	return both.dialer(l.Dial)
}

// failures returns the lines of the log about failed handshakes.
func (s *subject) failures() (lines []string) {
	for line := range strings.Lines(s.log.String()) {
		if strings.Contains(line, "TLS handshakes failed") {
			lines = append(lines, line)
		}
	}
	return lines
}

// The clock is fake, so the seconds of the timeouts take no time.
func TestFailedHandshakesEndInTime(t *testing.T) {
	bubble(t, "silence", func(t *testing.T) {
		s, l, both := newSubject(t, nil, "tls-handshake-timeout 3"), memnet.Listen(), newSecrets(t)
		s.serveTLS(t, l, both.server)
		began := time.Now()
		p := connect(t, l.Dial)
		p.expectEOF()
		assert.Equal(t, 3*time.Second, time.Since(began))
		require.Len(t, s.failures(), 1)
		assert.Contains(t, s.failures()[0], "not finished within tls-handshake-timeout")
	})
	bubble(t, "a byte now and then", func(t *testing.T) {
		s, l, both := newSubject(t, nil), memnet.Listen(), newSecrets(t)
		s.serveTLS(t, l, both.server)
		began := time.Now()
		p := connect(t, l.Dial)
		p.send("\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03") // the beginning of a ClientHello
		var drip sync.WaitGroup
		drip.Go(func() {
			for err := error(nil); err == nil; _, err = p.Write([]byte{0}) {
				time.Sleep(700 * time.Millisecond)
			}
		})
		p.expectEOF()
		assert.Equal(t, 10*time.Second, time.Since(began), "the limit is on all of it")
		drip.Wait()
		require.Len(t, s.failures(), 1)
	})
	bubble(t, "plain text", func(t *testing.T) {
		s, l, both := newSubject(t, nil), memnet.Listen(), newSecrets(t)
		s.serveTLS(t, l, both.server)
		began := time.Now()
		p := connect(t, l.Dial)
		p.send("PING\r")
		p.expectEOF()
		assert.Zero(t, time.Since(began))
		require.Len(t, s.failures(), 1)
		assert.Contains(t, s.failures()[0], "does the client speak TLS?")
	})
	bubble(t, "nobody but a probe", func(t *testing.T) {
		s, l, both := newSubject(t, nil), memnet.Listen(), newSecrets(t)
		s.serveTLS(t, l, both.server)
		connect(t, l.Dial).Close()
		synctest.Wait()
		assert.Empty(t, s.failures())
	})
	bubble(t, "many: one line a second", func(t *testing.T) {
		s, l, both := newSubject(t, nil), memnet.Listen(), newSecrets(t)
		s.serveTLS(t, l, both.server)
		fail := func(times int) {
			for range times {
				p := connect(t, l.Dial)
				p.send("PING\r")
				p.expectEOF()
			}
			synctest.Wait()
		}
		fail(100)
		require.Len(t, s.failures(), 1)
		assert.Contains(t, s.failures()[0], " count=1 ")
		time.Sleep(1500 * time.Millisecond)
		require.Len(t, s.failures(), 2)
		assert.Contains(t, s.failures()[1], " count=99 ")
		fail(5)
		require.Len(t, s.failures(), 2)
		time.Sleep(10 * time.Second)
		require.Len(t, s.failures(), 3)
		assert.Contains(t, s.failures()[2], " count=5 ")
		fail(3)
		require.Len(t, s.failures(), 4, "after a quiet time at once")
		require.NoError(t, s.Shutdown(t.Context()))
		require.Len(t, s.failures(), 5, "and at the end what is left")
		assert.Contains(t, s.failures()[4], " count=2 ")
	})
}

func TestUnfinishedHandshakesCountAsClients(t *testing.T) {
	bubble(t, "among maxclients, and do not keep others from being accepted", func(t *testing.T) {
		s, l, both := newSubject(t, nil, "maxclients 3", "tls-handshake-timeout 2"), memnet.Listen(), newSecrets(t)
		s.serveTLS(t, l, both.server)
		first := connect(t, both.dialer(l.Dial))
		first.ask("PING", "+PONG\r\n")
		var silent []*peer
		for range 2 {
			silent = append(silent, connect(t, l.Dial))
		}
		synctest.Wait()
		_, err := both.dialer(l.Dial)()
		assert.Error(t, err, "there is no place")
		first.ask("PING", "+PONG\r\n")
		for _, p := range silent {
			p.expectEOF()
		}
		synctest.Wait()
		connect(t, both.dialer(l.Dial)).ask("PING", "+PONG\r\n")
	})
	bubble(t, "and none when the server stops", func(t *testing.T) {
		s, l, both := newSubject(t, nil), memnet.Listen(), newSecrets(t)
		s.serveTLS(t, l, both.server)
		p := connect(t, l.Dial)
		began := time.Now()
		require.NoError(t, s.Shutdown(t.Context()))
		assert.Zero(t, time.Since(began))
		p.expectEOF()
		assert.Empty(t, s.failures())
	})
	bubble(t, "which a change of the option timeout does not disturb", func(t *testing.T) {
		s, l, both := newSubject(t, nil), memnet.Listen(), newSecrets(t)
		s.serveTLS(t, l, both.server)
		slow, far := net.Pipe()
		defer slow.Close()
		c, err := l.Dial()
		require.NoError(t, err)
		defer c.Close()
		var moves sync.WaitGroup
		hello := make(chan struct{})
		moves.Go(func() { // the bytes of the client reach the server after the change
			<-hello
			io.Copy(c, far)
		})
		moves.Go(func() { io.Copy(far, c); far.Close() })
		secret := tls.Client(slow, both.client)
		moves.Go(func() {
			synctest.Wait()
			limits := resp.DefaultBounds()
			limits.Timeout = time.Minute
			s.SetBounds(limits)
			close(hello)
		})
		require.NoError(t, secret.Handshake())
		_, err = io.WriteString(secret, "PING\r\n")
		require.NoError(t, err)
		got := make([]byte, 7)
		_, err = io.ReadFull(secret, got)
		require.NoError(t, err)
		assert.Equal(t, "+PONG\r\n", string(got))
		_, err = io.ReadAll(secret)
		assert.NoError(t, err, "silent for a minute: an end in order")
		secret.Close()
		c.Close()
		moves.Wait()
	})
}

// from is a listener whose connections report a given remote address.
type from struct {
	*memnet.Listener
	addr net.Addr
}

type fromConn struct {
	net.Conn
	addr net.Addr
}

func (l *from) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	return &fromConn{c, l.addr}, err
}

func (c *fromConn) RemoteAddr() net.Addr { return c.addr }

func TestProtectedModeDeniesOtherHosts(t *testing.T) {
	tcp := func(ip string) net.Addr { return &net.TCPAddr{IP: net.ParseIP(ip), Port: 50000} }
	for _, row := range []struct {
		addr  net.Addr
		local bool
	}{
		{tcp("127.0.0.1"), true},
		{tcp("127.255.0.7"), true},
		{tcp("::1"), true},
		{tcp("::ffff:127.0.0.1"), true},
		{&net.UnixAddr{Net: "unix"}, true},
		{tcp("192.0.2.7"), false},
		{tcp("10.0.0.1"), false},
		{tcp("::ffff:192.0.2.7"), false},
		{tcp("2001:db8::7"), false},
		{&net.TCPAddr{IP: net.ParseIP("fe80::1"), Zone: "eth0"}, false},
		{tcp("0.0.0.0"), false},
	} {
		for _, mode := range []string{"yes", "no"} {
			bubble(t, row.addr.String()+" "+mode, func(t *testing.T) {
				s, l := newSubject(t, nil, "protected-mode "+mode), memnet.Listen()
				s.serve(t, &from{l, row.addr})
				p := connect(t, l.Dial)
				if row.local || mode == "no" {
					p.ask("PING", "+PONG\r\n")
					return
				}
				p.expect("-DENIED Redis is running in protected mode because protected mode is enabled and no password is set")
				line, err := p.r.ReadString('\n')
				require.NoError(t, err)
				assert.True(t, strings.HasSuffix(line, "to start accepting connections from the outside.\r\n"))
				p.expectEOF()
			})
		}
	}
}
