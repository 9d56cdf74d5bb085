package resp

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/tls"
	"encoding/hex"
	"errors"
	"log/slog"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"cellserver/buckets"
	"cellserver/internal/acl"
)

// Config is what a Server is made of. All of it must be given.
type Config struct {
	Store   buckets.Store
	Now     func() int64 // the decision clock: nanoseconds of Unix time
	Log     *slog.Logger
	Version string
	Options Options // what CONFIG reads and changes
	Bounds  Bounds

	Memory  int64   // bytes that the process may use: the machine's, or its container's; 0 is unknown
	ACLFile ACLFile // nil is none

	Disk Disk         // nil keeps nothing on disk
	Stop func(Ending) // begins to stop the process, for SHUTDOWN; nil ignores it
	Open func() bool  // reports whether the default user needs no password, for protected-mode; nil asks the ACL
}

// Server answers connections.
type Server struct {
	store   buckets.Store
	direct  buckets.Decider // store, if it decides at once; nil otherwise
	batcher buckets.Batcher // store, if it is sometimes faster with a batch; nil otherwise
	atomic  buckets.Atomic  // store, if it can be held for EXEC; nil otherwise
	watcher buckets.Watcher // store, if keys can be watched; nil otherwise
	ctx     context.Context // ends when replies are of no use to anybody any more
	abandon context.CancelFunc
	now     func() int64
	log     *slog.Logger
	version string
	options Options
	bounds  atomic.Pointer[Bounds]
	narrow  atomic.Pointer[Bounds] // of those who have not authenticated
	acl     *acl.List
	aclFile ACLFile
	aclLog  acl.Log
	refund  int // the right to refund, as the ACL numbers it
	disk    Disk
	stop    func(Ending)
	open    func() bool

	runID    string
	started  int64
	memory   int64
	startup  uint64 // bytes in use before there was anything to do
	commands *entries
	stats    stats
	rates    rates

	badLogins seldom
	slowlog   slowlog
	pause     pause

	latencies latencies
	monitors  atomic.Pointer[[]*client] // nil while there are none

	mu        sync.Mutex
	password  string // requirepass
	draining  bool
	listeners []net.Listener
	tlsPort   int // of the first TCP listener that is served with TLS
	conns     map[int64]*conn
	lastID    int64
	serving   sync.WaitGroup // one for each connection
	lanes     lanes

	failures failures // of TLS handshakes
}

// NewServer makes a server that answers nobody until Serve is called.
func NewServer(c Config) *Server {
	id := make([]byte, 20)
	rand.Read(id)
	s := &Server{
		store: c.Store, now: c.Now, log: c.Log, version: c.Version, options: c.Options,
		runID: hex.EncodeToString(id), started: c.Now(), commands: newEntries(), conns: make(map[int64]*conn),
		memory: c.Memory, startup: readHeap().allocated,
	}
	s.direct, _ = c.Store.(buckets.Decider)
	s.batcher, _ = c.Store.(buckets.Batcher)
	s.atomic, _ = c.Store.(buckets.Atomic)
	s.watcher, _ = c.Store.(buckets.Watcher)
	s.ctx, s.abandon = context.WithCancel(context.Background())
	s.acl, s.refund = newACL(s.commands.table)
	s.aclFile = c.ACLFile
	if s.disk, s.stop, s.open = c.Disk, c.Stop, c.Open; s.disk == nil {
		s.disk = noDisk{}
	}
	if s.stop == nil {
		s.stop = func(Ending) {}
	}
	if s.open == nil {
		s.open = func() bool { _, open := s.acl.Open(); return open }
	}
	s.failures.log = c.Log
	s.SetBounds(c.Bounds)
	return s
}

// SetBounds changes what connections may cost, from now on.
func (s *Server) SetBounds(l Bounds) {
	s.narrow.Store(l.strangers())
	before := s.bounds.Swap(&l)
	if before == nil || before.Timeout == l.Timeout {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.conns {
		c.wake() // it waits by the old timeout
	}
}

// Serve accepts connections from l until Shutdown closes it, and returns nil then. It may be called for several
// listeners.
func (s *Server) Serve(l net.Listener) error { return s.acceptFrom(l, nil) }

// ServeTLS is Serve for a listener whose connections are encrypted. config is called for each of them, so that
// certificates can be renewed while the server runs; it must not return nil.
func (s *Server) ServeTLS(l net.Listener, config func() *tls.Config) error {
	return s.acceptFrom(l, config)
}

func (s *Server) acceptFrom(l net.Listener, config func() *tls.Config) error {
	s.mu.Lock()
	if s.draining {
		s.mu.Unlock()
		return l.Close()
	}
	if config != nil && s.tlsPort == 0 {
		s.tlsPort = portOf(l)
	}
	s.listeners = append(s.listeners, l)
	s.mu.Unlock()
	const shortest, longest = 5 * time.Millisecond, time.Second
	pause := shortest
	for {
		nc, err := l.Accept()
		switch {
		case err == nil:
			pause = shortest
			s.accept(nc, config)
		case errors.Is(err, net.ErrClosed):
			return nil
		case isTemporary(err):
			// Out of file descriptors, most likely: those that are served go on, and some will end.
			s.log.Warn("cannot accept connections for the moment", "error", err, "retry_after", pause)
			time.Sleep(pause)
			pause = min(2*pause, longest)
		default:
			return err
		}
	}
}

func isTemporary(err error) bool {
	var t interface{ Temporary() bool }
	return errors.As(err, &t) && t.Temporary()
}

// accept starts to serve a connection, if there is a place for it. It waits for nothing that the client does.
func (s *Server) accept(nc net.Conn, config func() *tls.Config) {
	defer s.rescueAccepted(nc)
	l := s.bounds.Load()
	s.stats.connections.Add(1)
	var encryption *tls.Config
	if config != nil {
		encryption = config()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.draining:
		nc.Close()
		return
	case int64(len(s.conns)) >= l.MaxClients:
		s.stats.rejected.Add(1)
		if config != nil {
			nc.Close() // a handshake to say why would cost the more
			return
		}
		s.serving.Add(1)
		go func() {
			defer s.serving.Done()
			defer s.rescueAccepted(nc)
			refuse(nc)
		}()
		return
	}
	s.lastID++
	now := s.now()
	addr, laddr, unix := addresses(nc)
	c := newConn(s, nc, &client{id: s.lastID, addr: addr, laddr: laddr, unix: unix, created: now}, encryption)
	c.client.active.Store(now)
	c.keepAlive(l.KeepAlive)
	s.conns[c.client.id] = c
	s.serving.Add(1)
	go func() {
		defer s.serving.Done()
		defer s.forget(c)
		c.serve()
	}()
}

// addresses returns what CLIENT LIST shows as a connection's two ends. Those of a Unix socket are both its path, with the
// port 0, as Redis has it: whoever dials such a socket seldom has an address.
func addresses(nc net.Conn) (remote, local string, unix bool) {
	if a, ok := nc.LocalAddr().(*net.UnixAddr); ok {
		return a.Name + ":0", a.Name + ":0", true
	}
	return nc.RemoteAddr().String(), nc.LocalAddr().String(), false
}

// denies reports whether protected-mode keeps a peer out. What has no IP address is on this machine.
func (s *Server) denies(peer net.Addr) bool {
	tcp, ok := peer.(*net.TCPAddr)
	return ok && !tcp.IP.IsLoopback() && s.bounds.Load().Protected && s.open()
}

// refuse tells a client that there is no place for it, if it listens.
func refuse(nc net.Conn) {
	nc.SetWriteDeadline(time.Now().Add(time.Second))
	_, _ = nc.Write([]byte("-" + errMaxClients + "\r\n"))
	nc.Close()
}

// forget ends a connection's life: its place is free.
func (s *Server) forget(c *conn) {
	s.mu.Lock()
	delete(s.conns, c.client.id)
	s.mu.Unlock()
	s.hide(c.client)
}

// hide takes a client out of what others are shown. It comes before the client can notice its end: who has read that must
// not find the connection listed. Its place is taken for as long as it holds what a connection needs.
func (s *Server) hide(c *client) {
	s.mu.Lock()
	c.gone = true
	s.mu.Unlock()
	s.removeMonitor(c)
}

// addMonitor has a client shown every command, unless it has been killed meanwhile.
func (s *Server) addMonitor(c *client) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if c.gone {
		return
	}
	c.monitors.Store(true)
	var list []*client
	if before := s.monitors.Load(); before != nil {
		if slices.Contains(*before, c) {
			return
		}
		list = append(list, *before...)
	}
	list = append(list, c)
	s.monitors.Store(&list)
}

func (s *Server) removeMonitor(c *client) {
	if !c.monitors.Load() {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if !c.monitors.Swap(false) {
		return
	}
	var list []*client
	for _, other := range *s.monitors.Load() {
		if other != c {
			list = append(list, other)
		}
	}
	if len(list) == 0 {
		s.monitors.Store(nil)
		return
	}
	s.monitors.Store(&list)
}

// knowsUser reports whether there is a user of that name.
func (s *Server) knowsUser(name string) bool {
	_, known := s.acl.User(name)
	return known
}

func (s *Server) isDraining() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.draining
}

// clients returns the connections, in the order in which they came.
func (s *Server) clients() []*client {
	s.mu.Lock()
	list := make([]*client, 0, len(s.conns))
	for _, c := range s.conns {
		if !c.client.gone {
			list = append(list, c.client)
		}
	}
	s.mu.Unlock()
	slices.SortFunc(list, func(a, b *client) int { return cmp.Compare(a.id, b.id) })
	return list
}

// port returns the TCP port served, that for TLS when there is no other, or 0.
func (s *Server) port() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, l := range s.listeners {
		if port := portOf(l); port != 0 && port != s.tlsPort {
			return port
		}
	}
	return s.tlsPort
}

// portOf returns a listener's TCP port, or 0.
func portOf(l net.Listener) int {
	if addr, ok := l.Addr().(*net.TCPAddr); ok {
		return addr.Port
	}
	return 0
}

// Shutdown accepts nobody any more, answers the commands that have been read, sends the replies, and closes every
// connection. When ctx ends before that, the rest is closed as it is, and the context's error returned.
func (s *Server) Shutdown(ctx context.Context) error {
	s.pause.stop()
	s.mu.Lock()
	s.draining = true
	for _, l := range s.listeners {
		l.Close()
	}
	for _, c := range s.conns {
		c.drain()
	}
	s.mu.Unlock()
	defer s.failures.end()
	defer s.abandon()
	defer s.lanes.stop()

	done := make(chan struct{})
	go func() {
		s.serving.Wait()
		close(done)
	}()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
	}
	s.abandon()
	s.mu.Lock()
	for _, c := range s.conns {
		c.close()
	}
	s.mu.Unlock()
	timer := time.NewTimer(lingerFor)
	defer timer.Stop()
	select {
	case <-done:
	case <-timer.C: // a command that takes long does not keep the process from ending
	}
	return ctx.Err()
}
