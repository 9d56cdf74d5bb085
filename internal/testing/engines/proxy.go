package engines

import (
	"errors"
	"io"
	"net"
	"sync"
	"testing"
	"time"
)

// queuedBytes bounds what a direction of a connection through a proxy holds back: past it the proxy does not read.
const queuedBytes = 16 << 20

// Proxy passes TCP connections on to a server, late or not at all as a test wants it. Its methods may be called from any goroutine.
type Proxy struct {
	t            testing.TB
	target, addr string
	serving      sync.WaitGroup

	mu              sync.Mutex
	listener        net.Listener // nil while it is cut
	links           map[*link]bool
	hung            chan struct{} // closed when it passes bytes again; nil if it does
	requests, reply time.Duration
}

// link is a connection of a client through a proxy, and how the proxy ends both sides of it.
type link struct {
	client, server net.Conn
	closed         chan struct{}
	close          func()
}

// StartProxy starts a proxy on loopback that passes what comes on to an address. It ends with the test.
func StartProxy(t testing.TB, target string) *Proxy {
	t.Helper()
	p, err := newProxy(t, target)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.end)
	return p
}

func newProxy(t testing.TB, target string) (*Proxy, error) {
	p := &Proxy{t: t, target: target, links: make(map[*link]bool)}
	return p, withFreePorts(func(port, _ int) error {
		p.addr = loopback(port)
		return p.listen()
	})
}

// Addr returns the address that clients connect to. It stays the same.
func (p *Proxy) Addr() string { return p.addr }

// Delay holds back what clients send, and what the server replies, each byte as long as given. Bytes keep their order, and any number of
// them can be on the way. It applies to bytes that come from now on. An idle process wakes up by the millisecond, so a shorter delay can
// become one.
func (p *Proxy) Delay(requests, replies time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.requests, p.reply = requests, replies
}

// Cut closes all connections and refuses new ones, until Pass.
func (p *Proxy) Cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cut()
}

func (p *Proxy) cut() {
	if p.listener != nil {
		_ = p.listener.Close()
		p.listener = nil
	}
	for l := range p.links {
		l.close()
	}
}

// Hang accepts connections and keeps those that are there, but passes nothing, until Pass: which then passes what was held back.
func (p *Proxy) Hang() {
	p.t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.hung == nil {
		p.hung = make(chan struct{})
	}
	if p.listener == nil {
		p.check(p.listen())
	}
}

// Pass ends Cut and Hang.
func (p *Proxy) Pass() {
	p.t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.pass()
	if p.listener == nil {
		p.check(p.listen())
	}
}

func (p *Proxy) pass() {
	if p.hung != nil {
		close(p.hung)
		p.hung = nil
	}
}

func (p *Proxy) check(err error) {
	p.t.Helper()
	if err != nil {
		p.t.Error(err)
	}
}

// end cuts the proxy for good.
func (p *Proxy) end() {
	p.mu.Lock()
	p.pass()
	p.cut()
	p.mu.Unlock()
	p.serving.Wait()
}

// listen accepts connections at the address of the proxy. p.mu is held, or nobody else knows p.
func (p *Proxy) listen() error {
	listener, err := net.Listen("tcp", p.addr)
	if err != nil {
		return err
	}
	p.listener = listener
	p.serving.Go(func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return // it was cut
			}
			p.serving.Go(func() { p.serve(listener, client) })
		}
	})
	return nil
}

// serve passes bytes between a client that a listener accepted and the server until either ends or the proxy is cut.
func (p *Proxy) serve(from net.Listener, client net.Conn) {
	defer client.Close()
	server, err := net.DialTimeout("tcp", p.target, patience)
	if err != nil {
		return
	}
	closed := make(chan struct{})
	l := &link{client: client, server: server, closed: closed, close: sync.OnceFunc(func() {
		close(closed)
		_ = client.Close()
		_ = server.Close()
	})}
	defer l.close()
	p.mu.Lock()
	if p.listener != from { // it was cut meanwhile
		p.mu.Unlock()
		return
	}
	p.links[l] = true
	p.mu.Unlock()
	var directions sync.WaitGroup
	directions.Go(func() { p.copy(l, server, client, &p.requests) })
	directions.Go(func() { p.copy(l, client, server, &p.reply) })
	directions.Wait()
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.links, l)
}

// copy passes on what comes from one side to the other, and its end.
func (p *Proxy) copy(l *link, to, from net.Conn, delay *time.Duration) {
	q := newQueue()
	var writing sync.WaitGroup
	writing.Go(func() {
		if err := p.write(l, to, q); err != nil {
			l.close()
		} else {
			_ = to.(*net.TCPConn).CloseWrite()
		}
		q.stop()
	})
	buf := make([]byte, 64<<10)
	for {
		n, err := from.Read(buf)
		p.mu.Lock()
		late := *delay
		p.mu.Unlock()
		due := time.Now().Add(late)
		q.put(buf[:n], due)
		if err == nil {
			continue
		}
		if !errors.Is(err, io.EOF) {
			l.close()
		}
		q.put(nil, due)
		break
	}
	writing.Wait()
}

// write writes what is in a queue when it is due, until its end.
func (p *Proxy) write(l *link, to net.Conn, q *queue) error {
	for {
		bytes, due := q.take()
		if wait := time.Until(due); wait > 0 {
			timer := time.NewTimer(wait)
			select {
			case <-timer.C:
			case <-l.closed:
				timer.Stop()
				return net.ErrClosed
			}
		}
		p.mu.Lock()
		hung := p.hung
		p.mu.Unlock()
		if hung != nil {
			select {
			case <-hung:
			case <-l.closed:
				return net.ErrClosed
			}
		}
		if bytes == nil {
			return nil
		}
		if _, err := to.Write(bytes); err != nil {
			return err
		}
	}
}

// queue holds bytes back, in their order.
type queue struct {
	mu      sync.Mutex
	changed sync.Cond
	chunks  []chunk
	size    int
	last    time.Time
	stopped bool // nobody takes anymore
}

// chunk is bytes and when they are due. No bytes are the end.
type chunk struct {
	bytes []byte
	due   time.Time
}

func newQueue() *queue {
	q := &queue{}
	q.changed.L = &q.mu
	return q
}

// put adds a copy of bytes, due not before those that are there. It waits while there are too many. nil is the end.
func (q *queue) put(bytes []byte, due time.Time) {
	if bytes != nil {
		if len(bytes) == 0 {
			return
		}
		bytes = append([]byte{}, bytes...)
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	for q.size > queuedBytes && !q.stopped {
		q.changed.Wait()
	}
	if due.After(q.last) {
		q.last = due
	}
	q.chunks = append(q.chunks, chunk{bytes, q.last})
	q.size += len(bytes)
	q.changed.Broadcast()
}

// take waits for bytes and removes the first of them.
func (q *queue) take() ([]byte, time.Time) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for len(q.chunks) == 0 {
		q.changed.Wait()
	}
	first := q.chunks[0]
	q.chunks = q.chunks[1:]
	q.size -= len(first.bytes)
	q.changed.Broadcast()
	return first.bytes, first.due
}

func (q *queue) stop() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.stopped = true
	q.changed.Broadcast()
}
