package test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"cellserver/internal/testing/testcert"
	"cellserver/internal/testing/testenv"
)

// secret is a cellserver with a plain text port and a TLS port.
type secret struct {
	*server
	tlsAddr, tlsPort string
	authority        *testcert.Authority // of the server and its clients
	files            map[string]string   // ca, cert and key of the server; clientCert and clientKey
	client           testcert.Pair
}

// startSecret starts a server with new certificates.
func startSecret(t *testing.T, args ...string) *secret {
	t.Helper()
	s := &secret{authority: testcert.NewAuthority(t, "ours"), files: make(map[string]string)}
	dir := t.TempDir()
	s.files["ca"] = filepath.Join(dir, "ca.crt")
	require.NoError(t, os.WriteFile(s.files["ca"], s.authority.PEM, 0o600))
	s.files["cert"], s.files["key"] = s.authority.Issue("server", nil).Write(t, dir, "server")
	s.client = s.authority.Issue("client", nil)
	s.files["clientCert"], s.files["clientKey"] = s.client.Write(t, dir, "client")
	s.startOn(t, args...)
	return s
}

// startOn starts the server with the current files.
func (s *secret) startOn(t *testing.T, args ...string) {
	t.Helper()
	for range 20 {
		ports := freePorts(t, 2)
		s.tlsPort = ports[0]
		s.tlsAddr = "127.0.0.1:" + s.tlsPort
		s.server = startOn(t, ports[1], append(args, "--tls-port", s.tlsPort, "--tls-cert-file", s.files["cert"],
			"--tls-key-file", s.files["key"], "--tls-ca-cert-file", s.files["ca"])...)
		if s.server != nil {
			s.says(` is ready" address=` + s.tlsAddr + " tls=true")
			return
		}
	}
	require.FailNow(t, "no two ports are free")
}

// config returns the configuration of a client that trusts the server's authority and has a certificate from it.
func (s *secret) config(t *testing.T) *tls.Config {
	return &tls.Config{RootCAs: s.authority.Trust(), Certificates: []tls.Certificate{s.client.TLS(t)}, ServerName: "localhost"}
}

// talker is a TLS connection for sending and receiving lines.
type talker struct {
	*tls.Conn
	r *bufio.Reader
}

// dial connects and waits for a reply: only the reply shows that the server has accepted the client's certificate.
func (s *secret) dial(t *testing.T, config *tls.Config) (*talker, error) {
	t.Helper()
	c, err := tls.DialWithDialer(&net.Dialer{Timeout: patience}, "tcp", s.tlsAddr, config)
	if err != nil {
		return nil, err
	}
	t.Cleanup(func() { c.Close() })
	require.NoError(t, c.SetDeadline(time.Now().Add(patience)))
	k := &talker{c, bufio.NewReader(c)}
	return k, k.ping()
}

func (k *talker) ping() error {
	if _, err := io.WriteString(k, "PING\r\n"); err != nil {
		return err
	}
	line, err := k.r.ReadString('\n')
	if err == nil && line != "+PONG\r\n" {
		err = fmt.Errorf("PING was answered with %q", line)
	}
	return err
}

// mustDial is dial for a client that the server must accept.
func (s *secret) mustDial(t *testing.T, config *tls.Config) *talker {
	t.Helper()
	k, err := s.dial(t, config)
	require.NoError(t, err)
	return k
}

// ask runs redis-cli on the TLS port.
func (s *secret) ask(t *testing.T, args ...string) (said string, err error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, testenv.Tool(t, "redis-cli"), append([]string{"-p", s.tlsPort, "--tls", "--cacert", s.files["ca"]}, args...)...)
	cmd.Env = append(os.Environ(), "HOME="+t.TempDir(), "TERM=dumb")
	out, err := cmd.CombinedOutput()
	return string(out), err
}

func TestClientCertificatesAreCheckedAsConfigured(t *testing.T) {
	other := testcert.NewAuthority(t, "another")
	for _, row := range []struct {
		auth          string
		without, with bool // whether clients without and with a certificate are accepted
		wrong         bool // whether clients with an untrusted certificate are accepted
		whyNot        string
	}{
		{auth: "yes", with: true, whyNot: "client didn't provide a certificate"},
		{auth: "optional", with: true, without: true},
		{auth: "no", with: true, without: true, wrong: true},
	} {
		t.Run(row.auth, func(t *testing.T) {
			s := startSecret(t, "--tls-auth-clients", row.auth)
			for _, client := range []struct {
				name string
				pair *testcert.Pair
				ok   bool
			}{
				{"without", nil, row.without},
				{"with", &s.client, row.with},
				{"of another authority", issue(other, nil), row.wrong},
				{"expired", issue(s.authority, func(c *x509.Certificate) { c.NotAfter = time.Now().Add(-time.Hour) }), row.wrong},
				{"not valid yet", issue(s.authority, func(c *x509.Certificate) { c.NotBefore = time.Now().Add(time.Hour) }), row.wrong},
				{"for servers only", issue(s.authority, func(c *x509.Certificate) {
					c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
				}), row.wrong},
			} {
				config := s.config(t)
				config.Certificates = nil
				var flags []string
				if client.pair != nil {
					pair := client.pair.TLS(t)
					// Send the certificate whichever authorities the server names.
					config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &pair, nil }
					cert, key := client.pair.Write(t, t.TempDir(), "c")
					flags = []string{"--cert", cert, "--key", key}
				}
				for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
					config.MaxVersion = version
					_, err := s.dial(t, config)
					assert.Equal(t, client.ok, err == nil, "%s, %s: %v", client.name, tls.VersionName(version), err)
					if !client.ok {
						assert.ErrorContains(t, err, "tls: ", "the client learns why")
					}
				}
				said, err := s.ask(t, append(flags, "PING")...)
				assert.Equal(t, client.ok, err == nil && said == "PONG\n", "redis-cli %s: %v %s", client.name, err, said)
			}
			if row.whyNot != "" {
				s.says(row.whyNot)
			}
		})
	}
}

// issue returns a pointer to the pair that Issue returns.
func issue(a *testcert.Authority, change func(*x509.Certificate)) *testcert.Pair {
	p := a.Issue("client", change)
	return &p
}

func TestEveryAuthorityInADirectoryIsTrusted(t *testing.T) {
	dir := t.TempDir()
	first, second := testcert.NewAuthority(t, "first"), testcert.NewAuthority(t, "second")
	require.NoError(t, os.WriteFile(filepath.Join(dir, "first.pem"), first.PEM, 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "second.pem"), append([]byte("# the second\n"), second.PEM...), 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "README"), []byte("no certificate\n"), 0o600))
	require.NoError(t, os.Symlink("first.pem", filepath.Join(dir, "deadbeef.0")), "as c_rehash makes them")
	require.NoError(t, os.Symlink("nowhere", filepath.Join(dir, "deadbeef.1")))
	require.NoError(t, os.Mkdir(filepath.Join(dir, "old"), 0o700))
	s := startSecret(t, "--tls-ca-cert-dir", dir)
	for _, a := range []*testcert.Authority{first, second, s.authority} {
		config := s.config(t)
		config.Certificates = []tls.Certificate{a.Issue("client", nil).TLS(t)}
		s.mustDial(t, config)
	}
}

func TestTLSAndPlainPortsShareTheirKeys(t *testing.T) {
	const n = 10000
	s := startSecret(t)
	ctx := t.Context()
	complaints.take()
	c := redis.NewClient(&redis.Options{Addr: s.tlsAddr, TLSConfig: s.config(t)})
	defer func() {
		assert.NoError(t, c.Close())
		assert.Empty(t, complaints.take(), "what go-redis logged")
	}()
	assert.Contains(t, c.ClientList(ctx).Val(), " resp=3 ")
	p := c.Pipeline()
	for i := range n {
		p.Do(ctx, "CL.ZSLIDE", fmt.Sprint("k", i%10), n, 86400)
	}
	replies, err := p.Exec(ctx)
	require.NoError(t, err)
	require.Len(t, replies, n)
	for i, reply := range replies {
		got, err := reply.(*redis.Cmd).Int64Slice()
		require.NoError(t, err)
		require.Equal(t, []int64{0, n, int64(n - 1 - i/10), -1}, got[:4])
	}

	// Both ports share their buckets.
	plain := s.server.client(t)
	assert.Equal(t, int64(10), plain.DBSize(ctx).Val())
	assert.Equal(t, s.port, plain.InfoMap(ctx).Val()["Server"]["tcp_port"])
	assert.Equal(t, map[string]string{"tls-port": s.tlsPort}, c.ConfigGet(ctx, "tls-port").Val())
	for _, name := range []string{"tls-cert-file", "tls-key-file"} {
		assert.ErrorContains(t, c.ConfigSet(ctx, name, "/tmp/mine").Err(), "can't set immutable config")
	}
	assert.NoError(t, c.ConfigSet(ctx, "tls-handshake-timeout", "5").Err())
}

func TestOnlyConfiguredTLSVersionsAreAccepted(t *testing.T) {
	for _, row := range []struct {
		option         string
		least, highest uint16
	}{
		{"TLSv1.2", tls.VersionTLS12, tls.VersionTLS12},
		{"TLSv1.3", tls.VersionTLS13, tls.VersionTLS13},
		{"TLSv1.2 TLSv1.3", tls.VersionTLS12, tls.VersionTLS13},
	} {
		t.Run(row.option, func(t *testing.T) {
			s := startSecret(t, "--tls-protocols", row.option)
			for _, version := range []uint16{tls.VersionTLS11, tls.VersionTLS12, tls.VersionTLS13} {
				config := s.config(t)
				config.MinVersion, config.MaxVersion = version, version
				k, err := s.dial(t, config)
				if version < row.least || version > row.highest {
					assert.ErrorContains(t, err, "protocol version", tls.VersionName(version))
				} else if assert.NoError(t, err, tls.VersionName(version)) {
					assert.Equal(t, version, k.ConnectionState().Version)
				}
			}
		})
	}
}

func TestHangUpReloadsCertificatesOrKeepsTheOldOnes(t *testing.T) {
	s := startSecret(t)
	old := s.config(t)
	old.ClientSessionCache = tls.NewLRUClientSessionCache(8)
	first := s.mustDial(t, old)
	again := s.mustDial(t, old)
	assert.True(t, again.ConnectionState().DidResume, "sessions are resumed")

	renewed := testcert.NewAuthority(t, "renewed")
	next := s.config(t)
	next.RootCAs = renewed.Trust()
	next.Certificates = []tls.Certificate{renewed.Issue("client", nil).TLS(t)}
	pair := renewed.Issue("server", nil)
	read, refused := "msg=\"the TLS certificate was read\"", "msg=\"the TLS certificate was not read again: the one before stays\""
	require.Equal(t, 1, strings.Count(s.log.String(), read))

	// Files that cannot be used change nothing.
	for n, bad := range []struct {
		name string
		file string
		data []byte
	}{
		{"a certificate without its key", "cert", pair.Cert},
		{"no certificate", "cert", []byte("soon\n")},
		{"nothing", "key", nil},
		{"no authority", "ca", nil},
	} {
		before, err := os.ReadFile(s.files[bad.file])
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(s.files[bad.file], bad.data, 0o600))
		s.signal(syscall.SIGHUP)
		require.Eventually(t, func() bool { return strings.Count(s.log.String(), refused) == n+1 }, patience, time.Millisecond, bad.name)
		s.mustDial(t, s.config(t))
		assert.NoError(t, first.ping())
		require.NoError(t, os.WriteFile(s.files[bad.file], before, 0o600))
	}

	pair.Write(t, filepath.Dir(s.files["cert"]), "server")
	require.NoError(t, os.WriteFile(s.files["ca"], renewed.PEM, 0o600))
	s.signal(syscall.SIGHUP)
	require.Eventually(t, func() bool { return strings.Count(s.log.String(), read) == 2 }, patience, time.Millisecond)
	s.mustDial(t, next)
	_, err := s.dial(t, s.config(t))
	assert.ErrorAs(t, err, new(*tls.CertificateVerificationError), "the server's is a new one")
	old.RootCAs = renewed.Trust()
	_, err = s.dial(t, old)
	assert.ErrorContains(t, err, "tls: ", "nor is a client of the old authority let in, though it has a session to resume")
	assert.NoError(t, first.ping(), "who is there stays")
	assert.NoError(t, again.ping())
	s.signal(syscall.SIGTERM)
	assert.Zero(t, s.exit())
}

func TestHangUpWithoutTLSChangesNothing(t *testing.T) {
	s := start(t)
	c := s.raw(t)
	s.signal(syscall.SIGHUP)
	c.ask("PING", "+PONG\r\n")
	s.signal(syscall.SIGTERM)
	assert.Zero(t, s.exit())
}

func TestFailedStartOverTLSSaysWhy(t *testing.T) {
	dir := t.TempDir()
	authority := testcert.NewAuthority(t, "ours")
	cert, key := authority.Issue("server", nil).Write(t, dir, "server")
	_, otherKey := authority.Issue("other", nil).Write(t, dir, "other")
	ca := filepath.Join(dir, "ca.crt")
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		return path
	}
	write("ca.crt", string(authority.PEM))
	empty := write("empty", "")
	text := write("text", "no PEM\n")
	damaged := write("damaged", strings.Replace(string(authority.PEM), "MII", "AAA", 1))
	locked := write("locked", "-----BEGIN ENCRYPTED PRIVATE KEY-----\nMIIB\n-----END ENCRYPTED PRIVATE KEY-----\n")
	none := t.TempDir()

	for _, row := range []struct {
		name string
		args []string
		want []string
	}{
		{"no certificate named", []string{"--tls-key-file", key}, []string{"tls-port needs tls-cert-file and tls-key-file"}},
		{"no key named", []string{"--tls-cert-file", cert}, []string{"tls-port needs tls-cert-file and tls-key-file"}},
		{"no such certificate", []string{"--tls-cert-file", "/nonexistent.crt", "--tls-key-file", key}, []string{"tls-cert-file", "/nonexistent.crt: no such file"}},
		{"no such key", []string{"--tls-cert-file", cert, "--tls-key-file", "/nonexistent.key"}, []string{"tls-key-file", "/nonexistent.key: no such file"}},
		{"an empty certificate", []string{"--tls-cert-file", empty, "--tls-key-file", key}, []string{"tls-cert-file", empty, "no certificate in PEM"}},
		{"a damaged certificate", []string{"--tls-cert-file", damaged, "--tls-key-file", key}, []string{"tls-cert-file", damaged, "cannot be read"}},
		{"a key that is none", []string{"--tls-cert-file", cert, "--tls-key-file", text}, []string{"tls-key-file", text}},
		{"a key of another", []string{"--tls-cert-file", cert, "--tls-key-file", otherKey}, []string{"tls-key-file", otherKey, cert, "does not match"}},
		{"a key with a passphrase", []string{"--tls-cert-file", cert, "--tls-key-file", locked}, []string{"tls-key-file", locked, "passphrase"}},
		{"no authority", []string{"--tls-cert-file", cert, "--tls-key-file", key}, []string{"tls-auth-clients yes needs tls-ca-cert-file"}},
		{"no authority for some", []string{"--tls-cert-file", cert, "--tls-key-file", key, "--tls-auth-clients", "optional"},
			[]string{"tls-auth-clients optional needs tls-ca-cert-file"}},
		{"no such authority", []string{"--tls-cert-file", cert, "--tls-key-file", key, "--tls-ca-cert-file", "/nonexistent.crt"},
			[]string{"tls-ca-cert-file", "/nonexistent.crt: no such file"}},
		{"an authority without a certificate", []string{"--tls-cert-file", cert, "--tls-key-file", key, "--tls-ca-cert-file", key},
			[]string{"tls-ca-cert-file", key, "no certificate in PEM"}},
		{"a directory without one", []string{"--tls-cert-file", cert, "--tls-key-file", key, "--tls-ca-cert-dir", none},
			[]string{"tls-ca-cert-dir", none, "no file"}},
		{"no such directory", []string{"--tls-cert-file", cert, "--tls-key-file", key, "--tls-ca-cert-dir", "/nonexistent"},
			[]string{"tls-ca-cert-dir", "/nonexistent: no such file"}},
		{"one port for both", []string{"--tls-cert-file", cert, "--tls-key-file", key, "--tls-ca-cert-file", ca, "--port", "7000", "--tls-port", "7000"},
			[]string{"port and tls-port are both 7000"}},
		{"an old version", []string{"--tls-protocols", "TLSv1.1"}, []string{"tls-protocols", `"TLSv1.1" is not one of the following: TLSv1.2, TLSv1.3`}},
	} {
		t.Run(row.name, func(t *testing.T) {
			args := append([]string{"--port", "0", "--tls-port", "7000", "--loglevel", "warning"}, row.args...)
			stdout, stderr, code := run(t, nil, args...)
			assert.Equal(t, 1, code)
			assert.Empty(t, stdout)
			for _, part := range row.want {
				assert.Contains(t, stderr, part)
			}
			assert.True(t, strings.HasPrefix(stderr, "cellserver: "), stderr)
			assert.Equal(t, 1, strings.Count(stderr, "\n"), "one line: %s", stderr)
		})
	}
}

func TestExpiredCertificateIsServedWithAWarning(t *testing.T) {
	s := startSecret(t)
	s.signal(syscall.SIGTERM)
	assert.Zero(t, s.exit())
	assert.NotContains(t, s.log.String(), "level=WARN")
	for _, row := range []struct {
		change func(*x509.Certificate)
		want   string
	}{
		{func(c *x509.Certificate) { c.NotAfter = time.Now().Add(-time.Hour) }, "level=WARN msg=\"the TLS certificate has expired"},
		{func(c *x509.Certificate) { c.NotBefore = time.Now().Add(time.Hour) }, "level=WARN msg=\"the TLS certificate is not valid yet"},
	} {
		s.authority.Issue("server", row.change).Write(t, filepath.Dir(s.files["cert"]), "server")
		s.startOn(t)
		s.says(row.want)
		_, err := s.dial(t, s.config(t))
		assert.ErrorAs(t, err, new(*tls.CertificateVerificationError))
	}
}

func TestFailedHandshakesHoldUpNobodyElse(t *testing.T) {
	s := startSecret(t, "--tls-handshake-timeout", "1")
	halfway := func() net.Conn {
		c, err := net.Dial("tcp", s.tlsAddr)
		require.NoError(t, err)
		t.Cleanup(func() { c.Close() })
		require.NoError(t, c.SetDeadline(time.Now().Add(patience)))
		return c
	}
	// Record a ClientHello.
	recorded := new(recorder)
	_ = tls.Client(recorded, s.config(t)).Handshake()
	require.Greater(t, recorded.Len(), 100)

	began := time.Now()
	silent, half, whole := halfway(), halfway(), halfway()
	_, err := half.Write(recorded.Bytes()[:recorded.Len()/2])
	require.NoError(t, err)
	_, err = whole.Write(recorded.Bytes())
	require.NoError(t, err)
	s.mustDial(t, s.config(t)) // the unfinished handshakes delay nobody
	for _, c := range []net.Conn{silent, half, whole} {
		_, err := io.Copy(io.Discard, c)
		assert.True(t, err == nil || errors.Is(err, syscall.ECONNRESET), "%v", err)
	}
	assert.GreaterOrEqual(t, time.Since(began), 900*time.Millisecond)
	s.says("the handshake was not finished within tls-handshake-timeout")

	plain := halfway()
	_, err = io.WriteString(plain, "PING\r\nPING\r\n")
	require.NoError(t, err)
	_, err = io.Copy(io.Discard, plain)
	assert.True(t, err == nil || errors.Is(err, syscall.ECONNRESET), "%v", err)
	s.says("does the client speak TLS?")
	s.mustDial(t, s.config(t))
}

// recorder is a connection that records what is written to it. Reading returns io.EOF.
type recorder struct {
	net.Conn
	bytes.Buffer
}

func (r *recorder) Write(b []byte) (int, error)      { return r.Buffer.Write(b) }
func (r *recorder) Read([]byte) (int, error)         { return 0, io.EOF }
func (r *recorder) Close() error                     { return nil }
func (r *recorder) SetWriteDeadline(time.Time) error { return nil }

// Each connection ends with a close_notify: without one, reading fails.
func TestStoppingUnderLoadOverTLSSendsWholeReplies(t *testing.T) {
	s := startSecret(t)
	stopUnderLoad(t, s.server, func() (io.WriteCloser, io.Reader) {
		c := s.mustDial(t, s.config(t))
		return c, c.r
	}, redis.Options{Addr: s.tlsAddr, TLSConfig: s.config(t)}, 200)
	assert.NotContains(t, s.log.String(), "some replies could not be sent")
}

func TestQuitOverTLSEndsWithACloseNotify(t *testing.T) {
	s := startSecret(t)
	k := s.mustDial(t, s.config(t))
	_, err := io.WriteString(k, "QUIT\r\nPING\r\n")
	require.NoError(t, err)
	rest, err := io.ReadAll(k.r)
	assert.NoError(t, err)
	assert.Equal(t, "+OK\r\n", string(rest))
}
