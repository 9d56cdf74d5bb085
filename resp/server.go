package resp

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/tls"
	"encoding/hex"
	"log/slog"
	"maps"
	"net"
	"slices"
	"sync"
	"sync/atomic"

	"cellserver/buckets"
	"cellserver/internal/acl"
	"cellserver/internal/ratelog"
	"cellserver/resp/info"
	"cellserver/resp/latency"
	"cellserver/resp/pause"
	"cellserver/resp/stats"
	"cellserver/resp/transport"
	"cellserver/resp/users"
)

// Config configures a Server. Every field must be set, unless its comment says otherwise.
type Config struct {
	Store   buckets.Store
	Now     func() int64 // the decision clock: nanoseconds of Unix time
	Log     *slog.Logger
	Version string
	Options Options // of CONFIG
	Bounds  Bounds

	Memory  int64   // the bytes of memory of the machine or container; 0 if unknown
	ACLFile ACLFile // nil if there is none

	Disk Disk         // nil if there is no persistence
	Stop func(Ending) // begins to stop the process, for SHUTDOWN; if nil, SHUTDOWN only closes its connection
	Open func() bool  // reports whether the default user needs no password, for protected-mode; if nil, the ACL decides
}

// Server serves the protocol to connections.
type Server struct {
	store        buckets.Store
	direct       buckets.Decider // store, if it decides without waiting; nil otherwise
	batcher      buckets.Batcher // store, if it may be faster with batches; nil otherwise
	watcher      buckets.Watcher // store, if it can watch keys; nil otherwise
	remote       buckets.Remote  // store, if its keys are in another program; nil otherwise
	ctx          context.Context // of calls of the store; canceled when Shutdown gives up or ends
	abandon      context.CancelFunc
	now          func() int64
	log          *slog.Logger
	version      string
	options      Options
	bounds       atomic.Pointer[Bounds]
	unauthBounds atomic.Pointer[Bounds] // of clients that have not authenticated
	acl          *acl.List
	aclFile      ACLFile
	aclLog       acl.Log
	refund       int // the index of the right to refund
	disk         Disk
	stop         func(Ending)
	open         func() bool

	runID    string
	started  int64
	memory   int64
	startup  uint64 // bytes that were allocated when the server was made
	commands *entries
	stats    stats.Counters
	rates    stats.Rates

	badLogins *ratelog.Warning
	scripts   scripts
	slowlog   latency.Slowlog
	pause     pause.Pause

	latencies latency.Events
	monitors  atomic.Pointer[[]*client] // nil while there are none

	transport *transport.Server

	mu       sync.Mutex
	password string            // requirepass
	peers    map[int64]*client // the registered clients by ID
	lastID   int64
}

// NewServer returns a server. Serve makes it accept connections.
func NewServer(c Config) *Server {
	id := make([]byte, 20)
	rand.Read(id)
	s := &Server{
		store: c.Store, now: c.Now, log: c.Log, version: c.Version, options: c.Options,
		runID: hex.EncodeToString(id), started: c.Now(), commands: newEntries(), peers: make(map[int64]*client),
		memory: c.Memory, startup: info.Allocated(),
		badLogins: ratelog.New(c.Log, "authentication failed", "attempts"),
	}
	s.scripts.warnings = ratelog.NewEvery(unknownScriptInterval, c.Log, "a script that is not known was refused: what its client limits may be limited no longer", "scripts")
	s.direct, _ = c.Store.(buckets.Decider)
	s.batcher, _ = c.Store.(buckets.Batcher)
	s.watcher, _ = c.Store.(buckets.Watcher)
	s.remote, _ = c.Store.(buckets.Remote)
	s.ctx, s.abandon = context.WithCancel(context.Background())
	s.acl, s.refund = users.NewList(s.commands.table)
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
	s.storeBounds(c.Bounds)
	s.transport = transport.NewServer(transport.Config{
		Log: c.Log, Now: c.Now, Open: s.openSession, Refusal: s.refusal, Full: "-" + errMaxClients + "\r\n", Commit: s.commit,
		MayWait: s.direct == nil,
	}, c.Bounds.transport())
	return s
}

// SetBounds changes the bounds of all connections. Each applies them when its next batch begins.
func (s *Server) SetBounds(l Bounds) {
	s.storeBounds(l)
	s.transport.SetLimits(l.transport())
}

func (s *Server) storeBounds(l Bounds) {
	s.unauthBounds.Store(l.unauthenticated())
	s.bounds.Store(&l)
}

// Serve accepts connections from l until Shutdown closes it, and returns nil then. It may be called for several
// listeners.
func (s *Server) Serve(l net.Listener) error { return s.transport.Serve(l, nil) }

// ServeTLS is Serve for a listener whose connections are encrypted. config is called for each of them, so that
// certificates can be renewed while the server runs; it must not return nil.
func (s *Server) ServeTLS(l net.Listener, config func() *tls.Config) error {
	return s.transport.Serve(l, config)
}

// refusal returns the error reply if protected-mode refuses a peer, or "". A peer that has no IP address is on this machine.
func (s *Server) refusal(peer net.Addr) string {
	tcp, ok := peer.(*net.TCPAddr)
	if ok && !tcp.IP.IsLoopback() && s.bounds.Load().Protected && s.open() {
		return "-" + errProtected + "\r\n"
	}
	return ""
}

// unregister removes a client from the list of clients and from the monitors. It must be called before the socket is closed: a
// client that has read the end of its connection must not find it in CLIENT LIST.
func (s *Server) unregister(c *client) {
	s.mu.Lock()
	delete(s.peers, c.id)
	c.gone = true
	s.mu.Unlock()
	s.removeMonitor(c)
}

// addMonitor makes a client a monitor, unless it has been killed.
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

// hasUser reports whether there is a user of that name.
func (s *Server) hasUser(name string) bool {
	_, ok := s.acl.User(name)
	return ok
}

// clients returns the registered clients in the order of their IDs.
func (s *Server) clients() []*client {
	s.mu.Lock()
	list := slices.AppendSeq(make([]*client, 0, len(s.peers)), maps.Values(s.peers))
	s.mu.Unlock()
	slices.SortFunc(list, func(a, b *client) int { return cmp.Compare(a.id, b.id) })
	return list
}

// Shutdown stops accepting connections, runs the commands that have been read, sends the replies, and closes all connections.
// If ctx ends first, it closes the remaining connections at once and returns the error of ctx.
func (s *Server) Shutdown(ctx context.Context) error {
	s.pause.Stop()
	defer s.badLogins.Close()
	defer s.scripts.warnings.Close()
	defer s.abandon()
	defer context.AfterFunc(ctx, s.abandon)()
	return s.transport.Shutdown(ctx)
}
