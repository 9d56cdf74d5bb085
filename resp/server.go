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
	"cellserver/resp/latency"
	"cellserver/resp/pause"
	"cellserver/resp/stats"
	"cellserver/resp/transport"
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
	stats    stats.Counters
	rates    stats.Rates

	badLogins *ratelog.Warning
	slowlog   latency.Slowlog
	pause     pause.Pause

	latencies latency.Events
	monitors  atomic.Pointer[[]*client] // nil while there are none

	transport *transport.Server

	mu       sync.Mutex
	password string            // requirepass
	peers    map[int64]*client // who is shown to others, by id
	lastID   int64
}

// NewServer makes a server that answers nobody until Serve is called.
func NewServer(c Config) *Server {
	id := make([]byte, 20)
	rand.Read(id)
	s := &Server{
		store: c.Store, now: c.Now, log: c.Log, version: c.Version, options: c.Options,
		runID: hex.EncodeToString(id), started: c.Now(), commands: newEntries(), peers: make(map[int64]*client),
		memory: c.Memory, startup: readHeap().allocated,
		badLogins: ratelog.New(c.Log, "authentication failed", "attempts"),
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
	s.storeBounds(c.Bounds)
	s.transport = transport.NewServer(transport.Config{
		Log: c.Log, Now: c.Now, Open: s.openSession, Refusal: s.refusal, Full: "-" + errMaxClients + "\r\n", Commit: s.commit,
		MayWait: s.direct == nil,
	}, c.Bounds.transport())
	return s
}

// SetBounds changes what connections may cost, from now on.
func (s *Server) SetBounds(l Bounds) {
	s.storeBounds(l)
	s.transport.SetLimits(l.transport())
}

func (s *Server) storeBounds(l Bounds) {
	s.narrow.Store(l.strangers())
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

// refusal returns the error that protected-mode has for a peer; "" is none. What has no IP address is on this machine.
func (s *Server) refusal(peer net.Addr) string {
	tcp, ok := peer.(*net.TCPAddr)
	if ok && !tcp.IP.IsLoopback() && s.bounds.Load().Protected && s.open() {
		return "-" + errProtected + "\r\n"
	}
	return ""
}

// hide takes a client out of what others are shown. It comes before the client can notice its end: who has read that must
// not find the connection listed.
func (s *Server) hide(c *client) {
	s.mu.Lock()
	delete(s.peers, c.id)
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

// clients returns the connections, in the order in which they came.
func (s *Server) clients() []*client {
	s.mu.Lock()
	list := slices.AppendSeq(make([]*client, 0, len(s.peers)), maps.Values(s.peers))
	s.mu.Unlock()
	slices.SortFunc(list, func(a, b *client) int { return cmp.Compare(a.id, b.id) })
	return list
}

// Shutdown accepts nobody any more, answers the commands that have been read, sends the replies, and closes every
// connection. When ctx ends before that, the rest is closed as it is, and the context's error returned.
func (s *Server) Shutdown(ctx context.Context) error {
	s.pause.Stop()
	defer s.badLogins.Close()
	defer s.abandon()
	defer context.AfterFunc(ctx, s.abandon)()
	return s.transport.Shutdown(ctx)
}
