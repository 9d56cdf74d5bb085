package cluster

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"

	"cellserver/internal/hashslot"
)

// engine is the program that keeps the keys: one server, the master that Sentinel names, or a cluster. It keeps track of
// which servers there are, which slot is where, and what time it is there. It does so in the background, so its methods
// wait for nothing.
//
// The user of the engine needs the rights to client|setname, info, time, cluster|info, cluster|slots and set for what is done here;
// the rights that the whole store needs are in TestStoreOfAUserWithFewRights.
type engine struct {
	config *Config
	log    *slog.Logger
	events events

	ctx    context.Context
	cancel context.CancelFunc
	tasks  sync.WaitGroup

	kind  atomic.Int32                         // a topology
	slots [hashslot.Count]atomic.Pointer[node] // of a cluster
	only  atomic.Pointer[node]                 // of what is no cluster
	all   atomic.Pointer[[]*node]              // the masters, in the order of their addresses
	whole atomic.Bool                          // every slot has a server
	ifeq  atomic.Int32                         // a finding
	title atomic.Pointer[string]               // name and version
	given atomic.Pointer[string]               // the password that Config.Credentials has returned last
	asked chan struct{}                        // has the topology read

	// time is the offset of the engine's clock, nil until it is known: the median of those of the masters.
	time      atomic.Pointer[course]
	timedAt   atomic.Int64 // Local, when the time became known
	timeMu    sync.Mutex
	firstRead atomic.Int64 // the Local time of the first reading of any server's clock; 0 before it

	// mu guards the servers, and orders the changes of slots, only and all.
	mu     sync.Mutex
	nodes  map[string]*node
	closed bool

	eventMu sync.Mutex // events are called one at a time

	reasonMu sync.Mutex
	unread   string // why the topology cannot be read; "" if it can

	// The following are used by keep only.
	epoch   uint64
	others  []string // the addresses of replicas
	turn    int      // which server is asked next
	doubted bool     // somebody has asked for this reading
}

// events are what an engine tells its user. They are called one at a time, and must neither wait nor call the engine's close.
type events struct {
	// changed is called after a node has become ready, and after slots have moved: requests that wait for a node may find one.
	changed func()
	// left is called after a node has left the topology. slots lead to it no more; requests that wait for it go elsewhere.
	left func(n *node)
}

const (
	// viewInterval is the time between two readings of the topology that nobody asks for, and sentinelInterval that of a sentinel.
	viewInterval, sentinelInterval = 5 * time.Second, time.Second
	// viewSpacing is the least time from one reading to the next.
	viewSpacing = 100 * time.Millisecond
	// keptFor is how long a server is kept that a MOVED or ASK has named, and no view of the topology yet.
	keptFor = 10 * time.Second
	// maxAsked is the number of servers that are asked for their view in one reading.
	maxAsked = 5
	// timePatience is how long the first servers wait for the others before their clocks alone make the time.
	timePatience = time.Second
)

var errClosed = errors.New("the store is closed")

// quiet makes go-redis log nothing: what goes wrong with a server is logged here, once.
var quiet = sync.OnceFunc(func() { redis.SetLogger(silence{}) })

type silence struct{}

func (silence) Printf(context.Context, string, ...any) {}

// newEngine returns an engine that connects in the background until it is closed.
func newEngine(c *Config, ev events) *engine {
	quiet()
	if ev.changed == nil {
		ev.changed = func() {}
	}
	if ev.left == nil {
		ev.left = func(*node) {}
	}
	e := &engine{config: c, log: c.Log, events: ev, nodes: make(map[string]*node), asked: make(chan struct{}, 1)}
	if e.log == nil {
		e.log = slog.New(slog.DiscardHandler)
	}
	e.ctx, e.cancel = context.WithCancel(context.Background())
	e.all.Store(new([]*node))
	e.tasks.Go(e.keep)
	return e
}

// close ends everything that the engine has started, and waits for it.
func (e *engine) close() {
	e.mu.Lock()
	e.closed = true
	e.mu.Unlock()
	e.cancel()
	e.tasks.Wait()
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, n := range e.nodes {
		n.release()
	}
}

// node returns the server that has a slot; nil while it is unknown. What is no cluster has every slot in one server.
func (e *engine) node(slot uint16) *node {
	if e.clustered() {
		return e.slots[slot%hashslot.Count].Load()
	}
	return e.only.Load()
}

// slot returns the slot of a key of the engine, prefix included; 0 for what is no cluster. While it is unknown what the
// engine is, slot returns what it would be in a cluster; node takes either.
func (e *engine) slot(engineKey []byte) uint16 {
	if kind := e.kind.Load(); kind == standalone || kind == sentinel {
		return 0
	}
	return hashslot.Of(engineKey)
}

// clustered reports whether the engine is a cluster. It is false while that is unknown.
func (e *engine) clustered() bool { return e.kind.Load() == clustered }

// masters returns the servers that have slots, in a stable order. The caller must not change it.
func (e *engine) masters() []*node { return *e.all.Load() }

// moved notes that a slot is at addr, as a MOVED reply says, and has the topology read soon. from is the server that said so. It
// returns nil if addr is no address, or if there are too many servers.
func (e *engine) moved(from *node, slot uint16, addr string) *node {
	n := e.at(from, addr)
	if n == nil || slot >= hashslot.Count || !e.clustered() {
		return nil
	}
	e.slots[slot].Store(n)
	e.refresh()
	return n
}

// at returns the server at addr, as an ASK reply by from names it. It returns nil as moved does.
func (e *engine) at(from *node, addr string) *node {
	addr, usable := redirection(from.addr, addr)
	if !usable {
		return nil
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	n := e.server(addr)
	if n != nil {
		n.wanted.Store(e.config.Local())
	}
	return n
}

// server returns the node of an address; nil if there are too many, or if the engine is closed. It requires that e.mu is held.
func (e *engine) server(addr string) *node {
	if n := e.nodes[addr]; n != nil {
		return n
	}
	if e.closed || len(e.nodes) >= maxServers {
		return nil
	}
	n := e.newNode(addr)
	e.nodes[addr] = n
	return n
}

// refresh has the topology read again soon. It is cheap: however often it is called, there is one reading at a time, and at most
// about ten a second.
func (e *engine) refresh() {
	select {
	case e.asked <- struct{}{}:
	default:
	}
}

// hasIFEQ reports whether the engine knows SET with IFEQ; known is false until it has been found out.
func (e *engine) hasIFEQ() (has, known bool) {
	found := e.ifeq.Load()
	return found == yes, found != unknown
}

// why says why the engine, or a part of it, is away; "" if it is not.
func (e *engine) why() string {
	for _, n := range e.masters() {
		if reason := n.why(); reason != "" {
			return n.addr + ": " + reason
		}
	}
	e.reasonMu.Lock()
	defer e.reasonMu.Unlock()
	return e.unread
}

// ready reports whether requests can be decided: every slot has a server, and the time and the mechanism are known. It waits a
// moment, and no longer, for servers that do not answer.
func (e *engine) ready() bool {
	if !e.whole.Load() || e.ifeq.Load() == unknown || !e.timed() {
		return false
	}
	if first := e.firstRead.Load(); first != 0 && e.config.Local()-first >= int64(timePatience) {
		return true
	}
	for _, n := range e.masters() {
		if !n.ready() {
			return false
		}
	}
	return true
}

// timed reports whether the time of the engine is known. A time that now returned before that is not on its clock.
func (e *engine) timed() bool { return e.config.OwnTime || e.time.Load() != nil }

// mistimed reports whether now cannot be of the clock of the engine: its time is unknown, or became known so lately that a caller
// may have read the clock before that, and now is far from it.
func (e *engine) mistimed(now int64) bool {
	const lately = int64(10 * time.Second)
	switch {
	case e.config.OwnTime:
		return false
	case e.time.Load() == nil:
		return true
	case e.config.Local()-e.timedAt.Load() > lately:
		return false
	}
	ahead := now - e.now()
	return ahead > maxSkew || ahead < -lately
}

// now returns the time of the engine, in nanoseconds of Unix time; that of this process until timed.
func (e *engine) now() int64 {
	local := e.config.Local()
	if c := e.time.Load(); c != nil && !e.config.OwnTime {
		return local + c.offset(local)
	}
	return local
}

// offset returns how far the time of the engine is ahead of Local, and by how much those of its servers may be wrong, in nanoseconds;
// 0 while it is unknown.
func (e *engine) offset() (ahead, bound int64) {
	local := e.config.Local()
	if c := e.time.Load(); c != nil {
		ahead = c.offset(local)
	}
	for _, n := range e.masters() {
		bound = max(bound, n.clock.bound(local))
	}
	return ahead, bound
}

// name returns the engine's name and version; "" while they are unknown.
func (e *engine) name() string {
	if title := e.title.Load(); title != nil {
		return *title
	}
	return ""
}

// topology returns standalone, sentinel or cluster; "" while it is unknown.
func (e *engine) topology() string { return topologyNames[e.kind.Load()] }

// timeRead notes a reading of the clock of a server, and has the time of the engine follow it.
func (e *engine) timeRead(n *node, sent, got, shown int64) {
	first := !n.clock.known()
	n.clock.read(sent, got, shown)
	if e.steerTime(got) || first {
		e.tell(nil)
	}
}

// steerTime has the time of the engine follow the clocks of the masters. It reports whether it is known from now on.
func (e *engine) steerTime(local int64) (begun bool) {
	e.timeMu.Lock()
	defer e.timeMu.Unlock()
	masters := e.masters()
	offsets := make([]int64, 0, len(masters))
	for _, n := range masters {
		if n.clock.known() {
			offsets = append(offsets, n.clock.estimate())
		}
	}
	if len(offsets) == 0 {
		return false
	}
	if old := e.time.Load(); old != nil {
		e.time.Store(old.steer(local, median(offsets)))
		return false
	}
	e.firstRead.CompareAndSwap(0, local)
	if len(offsets) < len(masters) && local-e.firstRead.Load() < int64(timePatience) {
		return false
	}
	to := median(offsets)
	e.timedAt.Store(local)
	e.time.Store(&course{at: local, from: to, to: to, pace: slowly})
	return true
}

// learnName notes what INFO says of the engine.
func (e *engine) learnName(info string) {
	name, version := fieldOf(info, "server_name"), fieldOf(info, "valkey_version")
	if version == "" {
		name, version = "redis", fieldOf(info, "redis_version")
	}
	if name == "" {
		name = "valkey"
	}
	if version != "" {
		title := clean(cut(name, maxName) + " " + cut(version, maxName))
		e.title.Store(&title)
	}
}

// maxName is the length of the longest name or version that is shown.
const maxName = 32

func cut(s string, size int) string { return s[:min(len(s), size)] }

// learnIFEQ notes what the masters have found out. One that does not know IFEQ decides for all.
func (e *engine) learnIFEQ() {
	e.mu.Lock()
	found := unknown
	for _, n := range e.masters() {
		switch n.ifeq.Load() {
		case no:
			found = no
		case yes:
			found = max(found, yes)
		}
	}
	before := e.ifeq.Load()
	if found != unknown {
		e.ifeq.Store(found)
	}
	e.mu.Unlock()
	if found == unknown || found == before {
		return
	}
	if found == no {
		e.log.Warn("the engine of the store has no SET with IFEQ, so keys are changed by WATCH, which is slower", "engine", e.name())
	}
	e.tell(nil)
}

// tell calls the events: left for nodes that have left, and changed.
func (e *engine) tell(gone []*node) {
	e.eventMu.Lock()
	defer e.eventMu.Unlock()
	for _, n := range gone {
		e.events.left(n)
	}
	e.events.changed()
}

// keep reads the topology until the engine is closed.
func (e *engine) keep() {
	pause := firstPause
	for {
		began := e.config.Local()
		sound, err := e.read()
		if e.ctx.Err() != nil {
			return
		}
		e.noteUnread(err)
		if err != nil {
			if !sleep(e.ctx, pause) {
				return
			}
			pause, e.doubted = min(2*pause, longestPause), true
			continue
		}
		pause = firstPause
		if !sleep(e.ctx, viewSpacing-e.since(began)) {
			return
		}
		interval := viewInterval
		if !sound {
			interval = viewSpacing
		} else if e.kind.Load() == sentinel {
			interval = sentinelInterval
		}
		timer := time.NewTimer(interval)
		select {
		case <-e.ctx.Done():
			timer.Stop()
			return
		case <-e.asked:
			timer.Stop()
			e.doubted = true
		case <-timer.C:
			e.doubted = !sound
		}
	}
}

// read reads the topology once. It reports whether the engine says of itself that it serves requests.
func (e *engine) read() (sound bool, err error) {
	var v *view
	switch {
	case e.config.Sentinel != "":
		v, err = e.readSentinel()
	case e.kind.Load() == standalone:
		// The address may lead to another server now. A new connection shows it.
		if n := e.only.Load(); n != nil && e.doubted && n.answers.Load() { // there is none if the engine is being closed
			select {
			case n.doubt <- struct{}{}:
			default:
			}
		}
		return true, nil
	default:
		v, err = e.readCluster()
	}
	if err != nil {
		return false, err
	}
	e.epoch = max(e.epoch, v.epoch)
	return v.sound, e.apply(v)
}

// since returns how long ago a Local time was.
func (e *engine) since(local int64) time.Duration { return time.Duration(e.config.Local() - local) }

// readSentinel returns the view of a sentinel that answers. In doubt it begins with another than the last time.
func (e *engine) readSentinel() (*view, error) {
	if e.doubted {
		e.turn++
	}
	var failed failures
	for i := range e.config.Addrs {
		addr := e.config.Addrs[(e.turn+i)%len(e.config.Addrs)]
		v, err := e.askSentinel(e.ctx, addr)
		if err == nil {
			e.turn += i
			return v, nil
		}
		failed.add(addr, err)
	}
	e.turn = 0
	return nil, failed.first
}

// failures are those of several servers, of which one is shown: the first of a server that was reached, or else the first.
type failures struct {
	first   error
	reached bool
}

func (f *failures) add(addr string, err error) {
	reached := !errors.Is(err, errUnreachable)
	if f.first == nil || reached && !f.reached {
		f.first, f.reached = serverError{addr, err}, reached
	}
}

// serverError is an error of one server.
type serverError struct {
	addr string
	err  error
}

func (e serverError) Error() string { return e.addr + ": " + plain(e.err) }

// readCluster returns the best view of the servers that answer. It asks those that are known to answer before all others, and in
// doubt not the same as the last time.
func (e *engine) readCluster() (best *view, err error) {
	var failed failures
	enough := func(addr string, v *view, err error) bool {
		if err == nil && v.better(best) {
			best = v
		} else if err != nil {
			failed.add(addr, err)
		}
		return e.ctx.Err() != nil || best != nil && best.sound && best.epoch >= e.epoch
	}
	masters := e.masters()
	if e.doubted {
		e.turn++
	}
	asked := 0
	for i := range masters {
		n := masters[(e.turn+i)%len(masters)]
		if !n.answers.Load() {
			continue
		}
		if v, err := n.ask(e.ctx); enough(n.addr, v, err) {
			return best, nil
		}
		if asked++; asked == maxAsked {
			break
		}
	}
	for i, addr := range slices.Concat(e.config.Addrs, e.others) {
		if best != nil && i >= maxAsked {
			break
		}
		if v, err := e.askSeed(addr); enough(addr, v, err) {
			break
		}
	}
	switch {
	case best != nil:
		return best, nil
	case failed.first == nil:
		return nil, errors.New("no address is given")
	}
	return nil, failed.first
}

// ask returns the view of the server. It uses a connection that stays for that.
func (n *node) ask(ctx context.Context) (*view, error) {
	if n.teller == nil {
		conn, err := n.dial(ctx)
		if err != nil {
			return nil, err
		}
		n.teller = newLink(conn)
	}
	replies, err := n.teller.ask(ctx, askView...)
	if err != nil {
		n.teller.close()
		n.teller = nil
		return nil, err
	}
	return parseView(n.addr, replies)
}

// askSeed returns the view of a server that may be none of the masters.
func (e *engine) askSeed(addr string) (*view, error) {
	conn, err := e.dialServer(e.ctx, addr)
	if err != nil {
		return nil, err
	}
	l := newLink(conn)
	defer l.close()
	replies, err := l.ask(e.ctx, askView...)
	if err != nil {
		return nil, err
	}
	return parseView(addr, replies)
}

// apply makes a view that of the engine, unless it cannot be.
func (e *engine) apply(v *view) error {
	switch {
	case v.kind == clustered && len(v.ranges) == 0:
		return errors.New("no slot of the cluster has a server")
	case v.kind == standalone && (e.config.Cluster || e.clustered()):
		return fmt.Errorf("%s: the server is not part of a cluster", v.ranges[0].addr)
	case v.kind == standalone && len(e.config.Addrs) > 1:
		return fmt.Errorf("%s: the server is not part of a cluster, and several addresses are given", v.ranges[0].addr)
	}
	before := e.masters()
	e.mu.Lock()
	changed := e.place(v)
	gone := e.dismiss()
	e.mu.Unlock()
	e.others = v.others
	for _, n := range gone {
		n.stop()
	}
	if masters := e.masters(); !slices.Equal(masters, before) {
		e.log.Info("the servers of the store", "topology", e.topology(), "masters", addresses(masters))
		e.steerTime(e.config.Local())
		e.learnIFEQ()
		changed = true
	}
	if changed || len(gone) > 0 {
		e.tell(gone)
	}
	for _, n := range gone {
		n.release()
	}
	return nil
}

// place has the slots and the masters be those of a view, and reports whether a slot or the topology is another than before. It
// requires that e.mu is held.
func (e *engine) place(v *view) (changed bool) {
	owners := make([]*node, hashslot.Count)
	var masters []*node
	for _, r := range v.ranges {
		n := e.server(r.addr)
		if n == nil {
			continue
		}
		n.listed = true
		masters = append(masters, n)
		for slot := int(r.first); slot <= int(r.last); slot++ {
			owners[slot] = n
		}
	}
	slices.SortFunc(masters, func(a, b *node) int { return strings.Compare(a.addr, b.addr) })
	masters = slices.Compact(masters)
	e.all.Store(&masters)
	if v.kind == clustered {
		for slot, n := range owners {
			changed = e.slots[slot].Swap(n) != n || changed
		}
	} else {
		changed = e.only.Swap(owners[0]) != owners[0]
	}
	e.whole.Store(!slices.Contains(owners, nil))
	return e.kind.Swap(v.kind) != v.kind || changed
}

// dismiss removes the servers that are not masters any more, and returns them. It requires that e.mu is held.
func (e *engine) dismiss() (gone []*node) {
	now := e.config.Local()
	for addr, n := range e.nodes {
		if !slices.Contains(e.masters(), n) && (n.listed || now-n.wanted.Load() > int64(keptFor)) {
			gone = append(gone, n)
			delete(e.nodes, addr)
		}
	}
	return gone
}

// release closes what a node has that nobody tends any more.
func (n *node) release() {
	n.stop()
	_ = n.client.Close()
	_ = n.watching.Close()
	if n.teller != nil {
		n.teller.close()
		n.teller = nil
	}
}

// addresses returns the addresses of the first nodes, for the log.
func addresses(nodes []*node) string {
	const most = 16
	var list []string
	for _, n := range nodes[:min(len(nodes), most)] {
		list = append(list, n.addr)
	}
	if len(nodes) > most {
		list = append(list, fmt.Sprintf("and %d more", len(nodes)-most))
	}
	return strings.Join(list, ",")
}

// noteUnread notes why the topology cannot be read, and logs it once for each reason.
func (e *engine) noteUnread(err error) {
	reason := ""
	if err != nil {
		reason = e.reason(err)
	}
	e.reasonMu.Lock()
	before := e.unread
	e.unread = reason
	e.reasonMu.Unlock()
	switch {
	case reason == before:
	case reason != "":
		e.log.Warn("the engine of the store cannot be reached", "reason", reason)
	default:
		e.log.Info("the engine of the store is reached", "topology", e.topology())
	}
}

// reason returns why something failed, as it can be shown: the same text for the same reason, and without passwords.
func (e *engine) reason(err error) string {
	text := plain(err)
	secrets := []string{e.config.Password, e.config.SentinelPassword}
	if given := e.given.Load(); given != nil {
		secrets = append(secrets, *given)
	}
	for _, secret := range secrets {
		if secret != "" {
			text = strings.ReplaceAll(text, secret, "***")
		}
	}
	return clean(text)
}

// plain returns the text of an error without what differs from one attempt to the next, such as ports and times.
func plain(err error) string {
	var expired x509.CertificateInvalidError
	var name *net.DNSError
	var number syscall.Errno
	switch {
	case errors.As(err, &expired) && expired.Reason == x509.Expired:
		return "the certificate of the server has expired or is not yet valid"
	case errors.As(err, &name) && name.IsNotFound:
		return "no such host: " + name.Name
	case errors.As(err, &name):
		return "the name cannot be looked up: " + name.Name
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return "the server has closed the connection"
	case errors.Is(err, os.ErrDeadlineExceeded), errors.Is(err, context.DeadlineExceeded):
		return "the server does not answer in time"
	case errors.Is(err, net.ErrClosed):
		return "the connection is closed"
	case errors.As(err, &number):
		return number.Error()
	}
	return err.Error()
}
