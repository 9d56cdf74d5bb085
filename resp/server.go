package resp

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"log/slog"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// Config is what a Server is made of. All of it must be given.
type Config struct {
	Store   Store
	Now     func() int64 // the decision clock: nanoseconds of Unix time
	Log     *slog.Logger
	Version string
	Options Options // what CONFIG reads and changes
	Limits  Limits

	Disk Disk         // nil keeps nothing on disk
	Stop func(Ending) // begins to stop the process, for SHUTDOWN; nil ignores it
}

// Server answers connections.
type Server struct {
	store   Store
	now     func() int64
	log     *slog.Logger
	version string
	options Options
	limits  atomic.Pointer[Limits]
	narrow  atomic.Pointer[Limits] // of those who have not authenticated
	disk    Disk
	stop    func(Ending)

	runID   string
	started int64
	table   *commands
	stats   stats
	slowlog slowlog
	pause   pause

	latencies latencies
	monitors  atomic.Pointer[[]*client] // nil while there are none

	mu        sync.Mutex
	draining  bool
	listeners []net.Listener
	conns     map[int64]*conn
	lastID    int64
	serving   sync.WaitGroup // one for each connection
}

// NewServer makes a server that answers nobody until Serve is called.
func NewServer(c Config) *Server {
	id := make([]byte, 20)
	rand.Read(id)
	s := &Server{
		store: c.Store, now: c.Now, log: c.Log, version: c.Version, options: c.Options,
		runID: hex.EncodeToString(id), started: c.Now(), table: newTable(), conns: make(map[int64]*conn),
	}
	if s.disk, s.stop = c.Disk, c.Stop; s.disk == nil {
		s.disk = noDisk{}
	}
	if s.stop == nil {
		s.stop = func(Ending) {}
	}
	s.SetLimits(c.Limits)
	return s
}

// SetLimits changes what connections may cost, from now on.
func (s *Server) SetLimits(l Limits) {
	s.narrow.Store(l.strangers())
	before := s.limits.Swap(&l)
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
func (s *Server) Serve(l net.Listener) error {
	s.mu.Lock()
	if s.draining {
		s.mu.Unlock()
		return l.Close()
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
			s.accept(nc)
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

// accept starts to serve a connection, if there is a place for it.
func (s *Server) accept(nc net.Conn) {
	l := s.limits.Load()
	s.stats.connections.Add(1)
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.draining:
		nc.Close()
		return
	case int64(len(s.conns)) >= l.MaxClients:
		s.stats.rejected.Add(1)
		s.serving.Add(1)
		go func() {
			defer s.serving.Done()
			refuse(nc)
		}()
		return
	}
	s.lastID++
	now := s.now()
	c := newConn(s, nc, &client{id: s.lastID, addr: nc.RemoteAddr().String(), laddr: nc.LocalAddr().String(), created: now})
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

// refuse tells a client that there is no place for it, if it listens.
func refuse(nc net.Conn) {
	nc.SetWriteDeadline(time.Now().Add(time.Second))
	_, _ = nc.Write([]byte("-" + errMaxClients + "\r\n"))
	nc.Close()
}

func (s *Server) forget(c *conn) {
	s.mu.Lock()
	delete(s.conns, c.client.id)
	s.mu.Unlock()
	s.removeMonitor(c.client)
}

// addMonitor has a client shown every command.
func (s *Server) addMonitor(c *client) {
	s.mu.Lock()
	defer s.mu.Unlock()
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
	if !c.monitors.Swap(false) {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
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
func (s *Server) knowsUser(name string) bool { return name == "default" }

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
		list = append(list, c.client)
	}
	s.mu.Unlock()
	slices.SortFunc(list, func(a, b *client) int { return cmp.Compare(a.id, b.id) })
	return list
}

// port returns the TCP port served, or 0.
func (s *Server) port() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, l := range s.listeners {
		if addr, ok := l.Addr().(*net.TCPAddr); ok {
			return addr.Port
		}
	}
	return 0
}

// Shutdown accepts nobody any more, answers the commands that have been read, sends the replies, and closes every
// connection. When ctx ends before that, the rest is closed as it is, and the context's error returned.
func (s *Server) Shutdown(ctx context.Context) error {
	s.pause.end()
	s.mu.Lock()
	s.draining = true
	for _, l := range s.listeners {
		l.Close()
	}
	for _, c := range s.conns {
		c.wake()
	}
	s.mu.Unlock()

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
	s.mu.Lock()
	for _, c := range s.conns {
		c.nc.Close()
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
