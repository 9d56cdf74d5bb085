package cluster

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"cellserver/internal/hashslot"
)

const (
	// dialTimeout is the longest that connecting takes, with TLS and authentication.
	dialTimeout = 2 * time.Second
	// clientConns is the number of connections of the client of one server. Who needs more waits.
	clientConns = 64

	// The pauses between attempts to connect: the first, and the longest, which they reach by doubling.
	firstPause, longestPause = 50 * time.Millisecond, time.Second

	// forgetReason is how long a reason stays that only some of the connections to a server have met with.
	forgetReason = 5 * time.Second

	// A new connection reads the time soonReadings times at the shorter interval.
	soonReadings, soonInterval, readInterval = 10, 20 * time.Millisecond, time.Second
)

// node is one server of the engine. It keeps a connection of its own, on which it reads the clock of the server.
type node struct {
	addr   string
	client *redis.Client // for everything but the hot path: a bounded pool that retries nothing
	// watching has the connections of the watches of clients, which are counted.
	watching *redis.Client
	watches  atomic.Int64
	engine   *engine
	clock    nodeClock
	hot      hotPath

	stop   context.CancelFunc // ends tend
	listed bool               // a view of the topology has named it; guarded by engine.mu
	wanted atomic.Int64       // the Local time at which a MOVED or ASK has named it
	doubt  chan struct{}      // asks for a new connection, as the address may lead to another server now

	answers atomic.Bool  // the server answers
	ifeq    atomic.Int32 // a finding: whether it knows IFEQ
	teller  *link        // for questions about the topology; used by engine.keep only

	mu     sync.Mutex
	reason string // why it does not do its part; "" if it does
	noted  int64  // the Local time at which it was noted last
}

// finding is what is known about a question.
type finding = int32

const (
	unknown finding = iota
	yes
	no
)

// ready reports whether the time of the server is known. Requests wait until it is.
func (n *node) ready() bool {
	if n.engine.config.OwnTime {
		return n.clock.known()
	}
	return n.clock.known() && n.engine.timed()
}

// shift returns how far the time of the server is ahead of that of the engine, in nanoseconds. It requires ready.
func (n *node) shift() int64 {
	if n.engine.config.OwnTime {
		return 0
	}
	local := n.engine.config.Local()
	return n.clock.offset(local) - n.engine.time.Load().offset(local)
}

// away reports whether the server does not answer now.
func (n *node) away() bool { return !n.answers.Load() }

// why says why the server is away; "" if it is not.
func (n *node) why() string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.reason
}

// dial returns a new connection to the server on which the user is authenticated, and which speaks RESP2. It takes at most
// dialTimeout. The error never contains the password.
func (n *node) dial(ctx context.Context) (net.Conn, error) {
	conn, err := n.engine.dialServer(ctx, n.addr)
	if err == nil {
		return conn, nil
	}
	if ctx.Err() == nil {
		n.failed(err)
	}
	return nil, errors.New(n.engine.reason(err))
}

// dialServer connects to a server that is no sentinel.
func (e *engine) dialServer(ctx context.Context, addr string) (net.Conn, error) {
	user, password := e.config.Username, e.config.Password
	if e.config.Credentials != nil {
		var err error
		if user, password, err = e.config.Credentials(); err != nil {
			return nil, fmt.Errorf("the password cannot be read: %w", err)
		}
		e.given.Store(&password)
	}
	return e.dial(ctx, addr, user, password)
}

// dial connects to any server. It ends when the engine is closed.
func (e *engine) dial(ctx context.Context, addr, user, password string) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	defer context.AfterFunc(e.ctx, cancel)()
	dialer := net.Dialer{KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: 15 * time.Second, Interval: 5 * time.Second, Count: 3}}
	var conn net.Conn
	var err error
	if e.config.TLS == nil {
		conn, err = dialer.DialContext(ctx, "tcp", addr)
	} else {
		conn, err = (&tls.Dialer{NetDialer: &dialer, Config: e.config.TLS}).DialContext(ctx, "tcp", addr)
	}
	if err == nil {
		if err = introduce(ctx, conn, user, password); err == nil {
			return conn, nil
		}
		_ = conn.Close()
	} else {
		err = fmt.Errorf("%w%w", errUnreachable, err)
	}
	if e.ctx.Err() != nil {
		return nil, errClosed
	}
	return nil, err
}

// errUnreachable is in errors of connections that have not come about, and is no part of their text.
var errUnreachable = errors.New("")

// introduce authenticates the user of a new connection, if there is a password, and names the connection.
func introduce(ctx context.Context, conn net.Conn, user, password string) error {
	commands := [][]string{{"CLIENT", "SETNAME", "cellserver"}}
	if password != "" {
		auth := []string{"AUTH", password}
		if user != "" {
			auth = []string{"AUTH", user, password}
		}
		commands = append([][]string{auth}, commands...)
	}
	l := newLink(conn)
	replies, err := l.ask(ctx, commands...)
	if err != nil {
		return err
	}
	if l.in.Buffered() > 0 {
		return errMalformed
	}
	if refused, is := replies[0].(refusal); is && password != "" {
		return fmt.Errorf("the login is refused: %w", refused)
	}
	// A server that has no CLIENT, or allows none, is as good. One that wants a login says so here.
	if refused, is := replies[len(replies)-1].(refusal); is && strings.HasPrefix(string(refused), "NOAUTH") {
		return fmt.Errorf("a login is needed: %w", refused)
	}
	return conn.SetDeadline(time.Time{})
}

// newNode returns a server of the engine, and starts to tend it.
func (e *engine) newNode(addr string) *node {
	ctx, stop := context.WithCancel(e.ctx)
	n := &node{addr: addr, engine: e, stop: stop, doubt: make(chan struct{}, 1)}
	n.client = n.newClient(clientConns, 8<<10)
	n.watching = n.newClient(2*maxWatches, 1<<10)
	e.tasks.Go(func() { n.tend(ctx) })
	return n
}

// newClient returns a client of the server that has at most conns connections, each with two buffers.
func (n *node) newClient(conns, buffer int) *redis.Client {
	return redis.NewClient(&redis.Options{
		Addr: n.addr, Dialer: n.dialForPool, Protocol: 2, DisableIdentity: true,
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
		MaxRetries:               -1, DialerRetries: 1, DialTimeout: 2 * dialTimeout, ContextTimeoutEnabled: true,
		PoolSize: conns, MaxActiveConns: conns, PipelinePoolSize: -1, ConnMaxIdleTime: time.Minute,
		ReadBufferSize: buffer, WriteBufferSize: buffer,
	})
}

// dialForPool dials for the client. A pool of go-redis that has seen several failures stops dialing for a while, in a goroutine that
// outlives the client, so a connection that cannot be made is one that fails at its first use.
func (n *node) dialForPool(ctx context.Context, _, _ string) (net.Conn, error) {
	conn, err := n.dial(ctx)
	if err != nil {
		return failedConn{err: err}, nil
	}
	return conn, nil
}

// failedConn is a connection that could not be made.
type failedConn struct {
	net.Conn
	err error
}

func (c failedConn) Read([]byte) (int, error)         { return 0, c.err }
func (c failedConn) Write([]byte) (int, error)        { return 0, c.err }
func (c failedConn) Close() error                     { return nil }
func (c failedConn) SetDeadline(time.Time) error      { return nil }
func (c failedConn) SetReadDeadline(time.Time) error  { return nil }
func (c failedConn) SetWriteDeadline(time.Time) error { return nil }
func (c failedConn) LocalAddr() net.Addr              { return &net.TCPAddr{} }
func (c failedConn) RemoteAddr() net.Addr             { return &net.TCPAddr{} }

// tend keeps a connection to the server until ctx ends, and learns on it what the store needs to know.
func (n *node) tend(ctx context.Context) {
	pause := firstPause
	for {
		began := n.engine.config.Local()
		err := n.attend(ctx)
		if ctx.Err() != nil {
			n.answers.Store(false)
			return
		}
		if errors.Is(err, errDoubt) {
			continue
		}
		n.answers.Store(false)
		n.failed(err)
		n.engine.refresh()
		if n.engine.since(began) > longestPause {
			pause = firstPause
		}
		if !sleep(ctx, pause/2+rand.N(pause/2)) {
			return
		}
		pause = min(2*pause, longestPause)
	}
}

// errDoubt ends a connection so that another takes its place.
var errDoubt = errors.New("another connection is asked for")

// attend connects, and reads the time until the connection fails.
func (n *node) attend(ctx context.Context) error {
	conn, err := n.dial(ctx)
	if err != nil {
		return err
	}
	l := newLink(conn)
	defer l.close()
	select {
	case <-n.doubt:
	default:
	}
	if err := n.inquire(ctx, l); err != nil {
		return err
	}
	began, probed := n.engine.config.Local(), false
	for i := 0; ; i++ {
		if err := n.readTime(ctx, l); err != nil {
			return err
		}
		if !probed {
			if probed, err = n.probe(ctx, l); err != nil {
				return err
			}
		}
		n.succeeded(i == 0 && probed)
		interval := readInterval
		if i < soonReadings {
			interval = soonInterval
		}
		timer := time.NewTimer(interval)
		select {
		case <-ctx.Done():
			timer.Stop()
			return ctx.Err()
		case <-n.doubt:
			timer.Stop()
			if !sleep(ctx, longestPause-n.engine.since(began)) {
				return ctx.Err()
			}
			return errDoubt
		case <-timer.C:
		}
	}
}

// inquire asks who the server is. A server that does not say is as good.
func (n *node) inquire(ctx context.Context, l *link) error {
	replies, err := l.ask(ctx, []string{"INFO"})
	if err != nil {
		return err
	}
	if text, is := replies[0].(string); is {
		n.engine.learnName(text)
	}
	return nil
}

// readTime reads the clock of the server.
func (n *node) readTime(ctx context.Context, l *link) error {
	local := n.engine.config.Local
	sent := local()
	replies, err := l.ask(ctx, []string{"TIME"})
	got := local()
	if err != nil {
		return err
	}
	shown, err := parseTime(replies[0])
	if err != nil {
		return err
	}
	n.engine.timeRead(n, sent, max(sent, got), shown)
	return nil
}

// parseTime returns what TIME answers, in nanoseconds.
func parseTime(reply any) (int64, error) {
	if refused, is := reply.(refusal); is {
		return 0, fmt.Errorf("TIME is refused: %w", refused)
	}
	parts, _ := reply.([]any)
	if len(parts) == 2 {
		seconds, _ := parts[0].(string)
		micros, _ := parts[1].(string)
		s, err := strconv.ParseUint(seconds, 10, 32)
		us, also := strconv.ParseUint(micros, 10, 32)
		if err == nil && also == nil && us < 1e6 {
			return int64(s)*1e9 + int64(us)*1e3, nil
		}
	}
	return 0, errors.New("the reply to TIME is malformed")
}

// probe finds out whether the server knows IFEQ, by a command that cannot set anything: no key has the value that it asks for. It
// reports whether there is nothing left to find out.
func (n *node) probe(ctx context.Context, l *link) (done bool, err error) {
	key, found := n.engine.probeKey(n)
	if !found {
		return false, nil
	}
	replies, err := l.ask(ctx, []string{"SET", key, "x", "IFEQ", "no key has this value", "GET"})
	if err != nil {
		return false, err
	}
	refused, is := replies[0].(refusal)
	switch {
	case !is:
		n.ifeq.Store(yes)
	case strings.HasPrefix(string(refused), "ERR syntax error"):
		n.ifeq.Store(no)
	default: // MOVED, OOM, READONLY, LOADING, NOPERM and the like
		n.failed(fmt.Errorf("SET is refused: %w", refused))
		n.engine.refresh()
		return false, nil
	}
	n.engine.learnIFEQ()
	return true, nil
}

// probeKey returns a key that no limit has, and whose slot the server has.
func (e *engine) probeKey(n *node) (key string, found bool) {
	if !slices.Contains(e.masters(), n) {
		return "", false
	}
	first := e.config.Prefix + "cellserver?"
	for i := range 4 * hashslot.Count {
		key = first + strconv.Itoa(i)
		if e.node(e.slot([]byte(key))) == n {
			return key, true
		}
		if i == 0 && e.slot([]byte(key)) == e.slot([]byte(first)) {
			break // the prefix has a hash tag
		}
	}
	return "", false
}

// failed notes that the server does not do its part, and logs it once for each reason.
func (n *node) failed(err error) {
	reason := n.engine.reason(err)
	n.mu.Lock()
	defer n.mu.Unlock()
	n.noted = n.engine.config.Local()
	if n.reason == reason || n.engine.ctx.Err() != nil {
		return
	}
	n.reason = reason
	n.engine.log.Warn("a server of the store does not do its part", "addr", n.addr, "reason", reason)
}

// succeeded notes that the server answers. The reason why it did not is forgotten: after it has done everything that is asked of
// it, on a new connection, and otherwise after some time.
func (n *node) succeeded(everything bool) {
	n.answers.Store(true)
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.reason == "" || !everything && n.engine.since(n.noted) < forgetReason {
		return
	}
	n.reason = ""
	n.engine.log.Info("a server of the store answers", "addr", n.addr)
}

// sleep waits, and reports whether ctx has not ended meanwhile.
func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}
