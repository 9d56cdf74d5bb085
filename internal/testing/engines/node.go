package engines

import (
	"context"
	"crypto/tls"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"cellserver/internal/testing/testcert"
	"cellserver/internal/testing/testenv"
)

// patience bounds every wait for an engine.
const patience = 30 * time.Second

// poolSize is more connections than a test has. After as many errors a pool of go-redis starts a goroutine that outlives it by a second.
const poolSize = 10000

// settings are what options change.
type settings struct {
	password  string
	authority *testcert.Authority
	args      []string
	timeout   time.Duration // cluster-node-timeout, and down-after-milliseconds of sentinels
	proxies   bool
	t         testing.TB
}

// Option changes how engines are started.
type Option func(*settings)

// Password makes clients, replicas and sentinels log in, as the default user.
func Password(password string) Option { return func(s *settings) { s.password = password } }

// TLS makes the node accept nothing but TLS, with a certificate that the authority signs. Clients need none.
func TLS(authority *testcert.Authority) Option { return func(s *settings) { s.authority = authority } }

// Args passes arguments to the servers, such as "--maxmemory", "2mb".
func Args(args ...string) Option { return func(s *settings) { s.args = append(s.args, args...) } }

// NodeTimeout is after how long a node of a cluster, or a master that sentinels watch, counts as failed: one second without this option.
func NodeTimeout(d time.Duration) Option { return func(s *settings) { s.timeout = d } }

func newSettings(t testing.TB, options []Option) settings {
	s := settings{timeout: time.Second, t: t}
	for _, option := range options {
		option(&s)
	}
	return s
}

// Node is one server. Its methods may be called from any goroutine, before the test ends.
type Node struct {
	t testing.TB
	*node
}

// node is a server, whichever test asks for it.
type node struct {
	settings
	version         Version
	program         string // the path of the server
	dir             string
	command         []string // arguments of the server, without its ports
	id              string   // in a cluster
	port, bus       int      // the bus port is 0 outside of a cluster
	proxy           *Proxy   // where clients connect instead, or nil
	client          *redis.Client
	clientTLS       *tls.Config
	mu              sync.Mutex
	process         *testenv.Process
	running, paused bool
}

// Standalone starts a server that keeps its data in memory only.
func Standalone(t testing.TB, version Version, options ...Option) *Node {
	t.Helper()
	n, err := newNode(version, version.Program(t, "server"), t.TempDir(), newSettings(t, options), false)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(n.end)
	return &Node{t, n}
}

// newNode starts a server. Its id is empty.
func newNode(version Version, program, dir string, s settings, clustered bool, args ...string) (*node, error) {
	n := &node{settings: s, version: version, program: program, dir: dir}
	n.command = []string{"--bind", "127.0.0.1", "--save", "", "--daemonize", "no", "--logfile", "", "--dir", dir,
		"--repl-diskless-sync-delay", "0", "--enable-debug-command", "local"}
	if s.password != "" {
		n.command = append(n.command, "--requirepass", s.password, "--masterauth", s.password)
	}
	if s.authority != nil {
		if err := n.certify(); err != nil {
			return nil, err
		}
	}
	n.command = append(append(n.command, args...), s.args...)
	err := withFreePorts(func(port, bus int) error {
		if n.port = port; clustered {
			n.bus = bus
		}
		if s.proxies {
			if n.proxy != nil {
				n.proxy.end()
			}
			var err error
			if n.proxy, err = newProxy(s.t, n.direct()); err != nil {
				return err
			}
		}
		return n.start()
	})
	if err != nil {
		if n.proxy != nil {
			n.proxy.end()
		}
		return nil, err
	}
	n.client = newClient(n)
	return n, nil
}

// withFreePorts calls start with two ports that were free a moment ago, until it succeeds. The ports are below those that the kernel
// gives to connections, so that none of these takes the port of a server that is down, which tests start again.
func withFreePorts(start func(port, other int) error) (err error) {
	for range 20 {
		var ports [2]int
		for i := range ports {
			if ports[i], err = freePort(); err != nil {
				return err
			}
		}
		if err = start(ports[0], ports[1]); err == nil {
			return nil
		}
	}
	return err
}

func freePort() (port int, err error) {
	for range 100 {
		port = 10000 + rand.IntN(22000)
		var l net.Listener
		if l, err = net.Listen("tcp", "127.0.0.1:"+strconv.Itoa(port)); err == nil {
			return port, l.Close()
		}
	}
	return 0, err
}

// certify writes the certificate of the node into its folder, and completes its arguments.
func (n *node) certify() error {
	pair := n.authority.Issue("engine", nil)
	for name, pem := range map[string][]byte{"ca.pem": n.authority.PEM, "cert.pem": pair.Cert, "key.pem": pair.Key} {
		if err := os.WriteFile(filepath.Join(n.dir, name), pem, 0o600); err != nil {
			return err
		}
	}
	n.command = append(n.command, "--tls-ca-cert-file", filepath.Join(n.dir, "ca.pem"), "--tls-cert-file",
		filepath.Join(n.dir, "cert.pem"), "--tls-key-file", filepath.Join(n.dir, "key.pem"), "--tls-auth-clients", "no",
		"--tls-replication", "yes", "--tls-cluster", "yes")
	n.clientTLS = &tls.Config{RootCAs: n.authority.Trust()}
	return nil
}

// start starts the process, which must not run.
func (n *node) start() error {
	args := append([]string{}, n.command...)
	client := "port"
	if n.authority != nil {
		args = append(args, "--port", "0")
		client = "tls-port"
	}
	args = append(args, "--"+client, strconv.Itoa(n.port))
	if n.bus != 0 {
		args = append(args, "--cluster-enabled", "yes", "--cluster-port", strconv.Itoa(n.bus),
			"--cluster-node-timeout", strconv.FormatInt(n.timeout.Milliseconds(), 10),
			"--cluster-replica-validity-factor", "0", "--cluster-allow-replica-migration", "no")
		if n.proxy != nil {
			_, port, _ := net.SplitHostPort(n.proxy.Addr())
			announced := "--cluster-announce-"
			if n.version == Valkey91 { // the first to tell clients and nodes apart
				announced += "client-"
			}
			args = append(args, announced+client, port)
		}
	}
	process, err := testenv.StartProcess(isReady, n.program, args...)
	if err != nil {
		return err
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.process, n.running, n.paused = process, true, false
	return nil
}

// end ends the process and the client.
func (n *node) end() {
	n.kill()
	_ = n.client.Close()
	if n.proxy != nil {
		n.proxy.end()
	}
}

func (n *node) kill() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.running, n.paused = false, false
	n.process.End()
}

// answers reports whether the node runs and is not paused.
func (n *node) answers() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.running && !n.paused
}

// direct is the address of the server itself.
func (n *node) direct() string { return loopback(n.port) }

func loopback(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }

// addr is where clients connect.
func (n *node) addr() string {
	if n.proxy != nil {
		return n.proxy.Addr()
	}
	return n.direct()
}

// newClient returns a client of the server itself that does not try again.
func newClient(n *node) *redis.Client {
	return redis.NewClient(&redis.Options{Addr: n.direct(), Password: n.password, TLSConfig: n.clientTLS, Protocol: 2,
		DisableIdentity: true, MaxRetries: -1, ContextTimeoutEnabled: true, DialerRetries: 1, PoolSize: poolSize,
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}})
}

// do sends the server itself a command.
func (n *node) do(args ...any) (any, error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	reply, err := n.client.Do(ctx, args...).Result()
	if err != nil {
		return nil, fmt.Errorf("%v to %s: %w", args, n.direct(), err)
	}
	return reply, nil
}

// text is do for commands that answer with a text.
func (n *node) text(args ...any) (string, error) {
	reply, err := n.do(args...)
	if err != nil {
		return "", err
	}
	text, ok := reply.(string)
	if !ok {
		return "", fmt.Errorf("%v to %s: %T", args, n.direct(), reply)
	}
	return text, nil
}

// info returns a field of INFO, or nothing if there is none of that name.
func (n *node) info(section, field string) (string, error) {
	text, err := n.text("INFO", section)
	if err != nil {
		return "", err
	}
	for line := range strings.Lines(text) {
		if value, ok := strings.CutPrefix(line, field+":"); ok {
			return strings.TrimSpace(value), nil
		}
	}
	return "", nil
}

// Addr returns the address where clients connect, host:port: that of the proxy, if there is one.
func (n *Node) Addr() string { return n.addr() }

// Version returns the release of the node.
func (n *Node) Version() Version { return n.version }

// PID returns the id of its process: another one after each Start.
func (n *Node) PID() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.process.PID()
}

// Proxy returns the proxy before the node, or nil.
func (n *Node) Proxy() *Proxy { return n.proxy }

// Log returns the end of what the server has printed.
func (n *Node) Log() string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.process.Output()
}

// Client returns a client of the server itself, past any proxy, that does not try again and is closed with the test.
func (n *Node) Client() *redis.Client {
	client := newClient(n.node)
	n.t.Cleanup(func() { _ = client.Close() })
	return client
}

// Info returns a field of INFO.
func (n *Node) Info(section, field string) string {
	n.t.Helper()
	value, err := n.info(section, field)
	n.check(err)
	return value
}

// CLI runs the release's command line client on the server itself, and returns what it prints.
func (n *Node) CLI(args ...string) string {
	n.t.Helper()
	all := []string{"-p", strconv.Itoa(n.port)}
	if n.password != "" {
		all = append(all, "--no-auth-warning", "-a", n.password)
	}
	if n.authority != nil {
		all = append(all, "--tls", "--cacert", filepath.Join(n.dir, "ca.pem"))
	}
	out, err := exec.Command(n.version.Program(n.t, "cli"), append(all, args...)...).CombinedOutput()
	if err != nil {
		n.t.Errorf("%v: %v\n%s", args, err, out)
	}
	return string(out)
}

// Kill ends the server at once, as a crash does, and returns when it has ended.
func (n *Node) Kill() { n.kill() }

// Stop asks the server to end, as an operator does, and returns when it has ended. A paused server is resumed.
func (n *Node) Stop() {
	n.t.Helper()
	n.mu.Lock()
	defer n.mu.Unlock()
	n.running, n.paused = false, false
	n.check(n.process.Signal(syscall.SIGTERM))
	n.check(n.process.Signal(syscall.SIGCONT))
	select {
	case <-n.process.Ended():
	case <-time.After(patience):
		n.t.Errorf("%s does not end", n.direct())
	}
}

// Start starts a server that was killed or stopped again, with the same ports and folder. Its data is what it has on disk: none
// without an option for that.
func (n *Node) Start() {
	n.t.Helper()
	n.mu.Lock()
	running := n.running
	n.mu.Unlock()
	if running {
		n.t.Errorf("%s runs", n.direct())
		return
	}
	n.check(n.start())
}

// Pause halts the server: its connections stay, and nothing answers. Resume ends that.
func (n *Node) Pause() { n.t.Helper(); n.pause(true) }

// Resume lets a paused server go on.
func (n *Node) Resume() { n.t.Helper(); n.pause(false) }

func (n *Node) pause(paused bool) {
	n.t.Helper()
	signal := syscall.SIGCONT
	if paused {
		signal = syscall.SIGSTOP
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.paused = paused
	n.check(n.process.Signal(signal))
}

func (n *Node) check(err error) {
	n.t.Helper()
	if err != nil {
		n.t.Error(err)
	}
}
