package cluster

import (
	"context"
	"errors"
	"net"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"cellserver/buckets"
	"cellserver/internal/nonblock"
)

// The limits of a hotPath.
const (
	maxWaiting  = 100000    // requests that wait for one server
	maxGroup    = 1024      // requests that are decided together
	maxLines    = 512       // commands in a batch
	maxBytes    = 128 << 10 // bytes of a batch, from which on no command is added
	directBytes = 16 << 10  // bytes that a caller writes itself: what a socket with nothing in it takes at once
	keepBytes   = 1 << 20   // bytes of a buffer that is kept for the next batch
	keepValue   = 4 << 10   // bytes of the memory for a value that is kept for the next batch
	workers     = 8         // transactions at a time, for an engine without IFEQ
)

// The waits of a hotPath that does not reach its server.
const (
	firstDelay = 5 * time.Millisecond
	lastDelay  = time.Second
)

// hotPath is how requests reach one server: a queue of lines, and a connection on which batches of commands are under way.
// While a batch is under way, requests gather; what waits for one key is decided together. With a server that is far away,
// more than one batch is under way.
//
// A batch is written by whoever finds that it may be: the caller of Apply if nothing is under way, the goroutine that reads
// replies, or the one that connects.
type hotPath struct {
	requests atomic.Int64           // that wait, or are under way
	latest   atomic.Int64           // the latest time decided at: the time of a server does not go back
	down     atomic.Pointer[string] // why the server cannot be reached; nil if it can, or may soon

	mu        sync.Mutex
	store     *Store
	node      *node
	started   bool
	stopped   bool
	cancel    context.CancelFunc
	wake      chan struct{} // tells run to write
	more      *sync.Cond    // a line has come, for the workers; or the writing has ended
	queue     []*line       // from the index next on
	next      int
	pipe      *pipe  // nil while there is no connection
	writing   bool   // somebody is making a batch or writing it
	handed    *batch // what is left to run to write; writing is set
	gathering bool   // read is about to write
	ring      []*batch
	free      []*batch
	measured  int64   // Local, when far was
	far       float64 // nanoseconds that a round trip takes without the work of the server; 0 until one was measured
}

// batch is commands that are written together.
type batch struct {
	lines   []*line
	flights []flight
	next    int // flight that is answered next
	out     []byte
	written int // bytes of out that were sent, once the writing has ended
	sent    int64
	waits   bool // the last flight is a WAIT, which the changes wait for
}

// flight is a command under way.
type flight struct {
	line *line
	role role
	mode mode
	new  []byte
	ttl  int64 // milliseconds
	at   int64 // when it was decided, on the clock of the server
	end  int   // in batch.out
	won  bool  // the change was made, and waits for replicas
}

// role says what a flight is.
type role uint8

const (
	swapping role = iota
	asking        // ASKING, which allows the next command
	awaiting      // WAIT
)

// pipe is a connection of a hotPath.
type pipe struct {
	conn  net.Conn
	heard atomic.Int64 // Local, when something arrived or the first batch was written
	dead  atomic.Bool
	cause error         // why it is dead; set before dead
	done  chan struct{} // closed when nobody reads it any more
	used  bool          // a reply has arrived
	once  sync.Once
}

// kill closes the connection.
func (l *pipe) kill(cause error) {
	l.once.Do(func() {
		l.cause = cause
		l.dead.Store(true)
		_ = l.conn.Close()
	})
}

// at returns the time at which a request is decided: that of the server, but not before what was decided last.
func (p *hotPath) at(n *node, now int64) int64 { return p.lift(now + n.shift()) }

// lift returns the later of a time of the server and the time at which it was decided last.
func (p *hotPath) lift(now int64) int64 {
	for {
		latest := p.latest.Load()
		if now <= latest {
			return latest
		}
		if p.latest.CompareAndSwap(latest, now) {
			return now
		}
	}
}

// submit queues lines and sends what may be sent. It reports false if the server has left.
func (p *hotPath) submit(s *Store, n *node, lines []*line) bool {
	p.mu.Lock()
	if p.stopped {
		p.mu.Unlock()
		return false
	}
	if !p.started && !p.start(s, n) {
		p.mu.Unlock()
		return false
	}
	p.queue = append(p.queue, lines...)
	if p.more != nil {
		p.more.Broadcast()
	}
	p.flush(true)
	p.mu.Unlock()
	return true
}

// start starts the goroutine of the path. It requires the lock.
func (p *hotPath) start(s *Store, n *node) bool {
	p.store, p.node = s, n
	p.wake = make(chan struct{}, 1)
	p.more = sync.NewCond(&p.mu)
	ctx, cancel := context.WithCancel(context.Background())
	if p.started = s.adopt(p, func() { p.run(ctx) }); !p.started {
		cancel()
		p.stopped = true
		return false
	}
	p.cancel = cancel
	return true
}

// stop ends the path. What waits goes elsewhere. It waits for nothing.
func (p *hotPath) stop() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stopped = true
	if p.started {
		p.cancel()
		p.more.Broadcast()
	}
}

// nudge has run look at what there is to do.
func (p *hotPath) nudge() {
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

// window returns how many batches may be under way. A near server has one, so that requests gather while it works. A far
// one has more, so that a request need not wait for a whole round trip before its own begins.
func (p *hotPath) window() int {
	const near, step, most = 400e3, 500e3, 4
	switch fixed := p.store.config.window; {
	case fixed > 0:
		return fixed
	case p.far < near:
		return 1
	}
	return min(most, 2+int(p.far/step))
}

// measure notes at now how long a batch of n commands was under way. What it keeps is the least that was seen lately, as the load of
// this machine and of the server must not look like distance.
func (p *hotPath) measure(took, now int64, n int) {
	const (
		work = 1e3  // nanoseconds that a server takes for a command, at least
		rise = 0.01 // by which the least grows in a second
		zero = 20e3 // the least that is told from nothing
	)
	sample := max(zero, float64(took)-work*float64(n))
	if p.far > 0 {
		sample = min(sample, p.far*(1+rise*float64(now-p.measured)/float64(time.Second)))
	}
	p.far, p.measured = sample, now
}

// flush writes batches for as long as there is something to write, it may be written, and it does not have to be left to run:
// a caller (direct) writes only what a socket is sure to take. It requires the lock, and gives it up in between.
func (p *hotPath) flush(direct bool) {
	for p.pipe != nil && !p.writing && !p.gathering && p.next < len(p.queue) && len(p.ring) < p.window() && !p.pipe.dead.Load() && p.node.ready() {
		if direct && len(p.ring) > 0 {
			p.nudge()
			return
		}
		p.writing = true
		b, l := p.takeBatch(), p.pipe
		p.mu.Unlock()
		left := b.encode(p)
		p.mu.Lock()
		p.putBack(left)
		if len(b.flights) == 0 {
			p.free = append(p.free, b)
			p.ended()
			continue
		}
		b.sent, b.written = p.store.config.Local(), 0
		if len(p.ring) == 0 {
			l.heard.Store(b.sent)
		}
		p.ring = append(p.ring, b)
		if direct && len(b.out) > directBytes {
			p.handed = b
			p.nudge()
			if l.dead.Load() {
				p.more.Broadcast() // run may wait for the end of the writing, which it has to do itself
			}
			return
		}
		p.writeOut(l, b)
	}
}

// ended gives up the right to write. It requires the lock.
func (p *hotPath) ended() {
	p.writing = false
	if p.pipe != nil && p.pipe.dead.Load() {
		p.more.Broadcast()
	}
}

// writeOut writes a batch, and gives up the right to write. It requires the lock, and gives it up in between.
func (p *hotPath) writeOut(l *pipe, b *batch) {
	p.mu.Unlock()
	n, err := l.conn.Write(b.out)
	if err != nil {
		l.kill(errors.New("the connection to the engine broke: " + plain(err)))
	}
	p.mu.Lock()
	b.written = n
	p.ended()
}

// takeBatch returns a batch with the lines that have waited for longest. It requires the lock.
func (p *hotPath) takeBatch() (b *batch) {
	if n := len(p.free); n > 0 {
		b, p.free = p.free[n-1], p.free[:n-1]
	} else {
		b = &batch{}
	}
	n := min(maxLines, len(p.queue)-p.next)
	b.lines = append(b.lines[:0], p.queue[p.next:p.next+n]...)
	clear(p.queue[p.next : p.next+n])
	if p.next += n; p.next == len(p.queue) {
		p.queue, p.next = p.queue[:0], 0
	}
	b.flights, b.next, b.out, b.waits = b.flights[:0], 0, b.out[:0], false
	return b
}

// putBack puts lines before the others in the queue. It requires the lock.
func (p *hotPath) putBack(lines []*line) {
	if len(lines) == 0 {
		return
	}
	if p.next < len(lines) {
		queue := make([]*line, len(lines), len(lines)+len(p.queue)-p.next)
		p.queue, p.next = append(queue, p.queue[p.next:]...), len(lines)
	}
	p.next -= len(lines)
	copy(p.queue[p.next:], lines)
}

// add returns a new flight of the batch. Its memory is that of an earlier one.
func (b *batch) add(role role) *flight {
	n := len(b.flights)
	if n < cap(b.flights) {
		b.flights = b.flights[:n+1]
	} else {
		b.flights = append(b.flights, flight{})
	}
	f := &b.flights[n]
	*f = flight{role: role, new: f.new[:0]}
	return f
}

// encode decides what waits for the lines of the batch, and appends the commands. It returns the lines for which there was no
// room.
func (b *batch) encode(p *hotPath) (left []*line) {
	s, shift := p.store, p.node.shift()
	changes := false
	for i, l := range b.lines {
		if len(b.out) >= maxBytes {
			left = b.lines[i:]
			break
		}
		sh := s.table.of(l)
		sh.mu.Lock()
		if !s.gather(sh, l) {
			sh.mu.Unlock()
			continue
		}
		if l.asking {
			b.out = append(b.out, askingFrame...)
			b.add(asking).end = len(b.out)
		}
		f := b.add(swapping)
		sw := s.plan(l, p, shift, f)
		b.out = appendFrame(b.out, &sw)
		f.end = len(b.out)
		changes = changes || f.mode != read
		sh.mu.Unlock()
	}
	rules := s.rules.Load()
	if changes && rules.MinReplicas > 0 {
		b.out = appendWait(b.out, rules.MinReplicas, max(1, (rules.Timeout/2).Milliseconds()))
		f := b.add(awaiting)
		f.end, b.waits = len(b.out), true
	}
	return left
}

// run keeps a connection, or the workers that do without, until the path is stopped.
func (p *hotPath) run(ctx context.Context) {
	defer p.empty()
	watch := p.store.config.Watch
	for !watch {
		ifeq, known := p.store.engine.hasIFEQ()
		if known {
			watch = !ifeq
			break
		}
		select {
		case <-p.wake:
		case <-ctx.Done():
			return
		}
	}
	if watch {
		p.runWorkers(ctx)
		return
	}
	lost := p.store.config.Local()
	for delay := firstDelay; ctx.Err() == nil; delay = min(2*delay, lastDelay) {
		conn, err := p.node.dial(ctx)
		if err == nil {
			if p.serve(ctx, conn) {
				delay = firstDelay
			}
			lost = p.store.config.Local()
		} else if p.store.config.Local()-lost >= int64(p.store.rules.Load().Timeout) {
			why := awayBecause + err.Error()
			p.down.Store(&why)
			// What was sent here by an ASK may be elsewhere by now.
			p.store.park(p.drain())
		}
		if err != nil || delay > firstDelay {
			p.store.engine.refresh()
			sleep(ctx, delay)
		}
	}
}

// serve uses a connection until it ends. It reports whether the server has answered.
func (p *hotPath) serve(ctx context.Context, conn net.Conn) bool {
	l := &pipe{conn: nonblock.NewConn(conn), done: make(chan struct{})}
	p.mu.Lock()
	p.pipe = l
	p.down.Store(nil)
	p.mu.Unlock()
	go p.read(l)
	for alive := true; alive; {
		p.mu.Lock()
		if b := p.handed; b != nil {
			p.handed = nil
			p.writeOut(l, b)
		}
		p.flush(false)
		p.mu.Unlock()
		select {
		case <-p.wake:
		case <-ctx.Done():
			l.kill(errors.New("the server has left"))
			<-l.done
			alive = false
		case <-l.done:
			alive = false
		}
	}
	p.mu.Lock()
	for p.writing && p.handed == nil {
		p.more.Wait()
	}
	if p.handed != nil {
		p.handed, p.writing = nil, false
	}
	p.pipe, p.gathering = nil, false
	under := p.ring
	p.ring = nil
	p.mu.Unlock()
	p.bury(l, under)
	return l.used
}

// bury settles what was under way when a connection ended: what was not sent in full, and what reads, is tried again, and of the
// rest it is unknown whether it was done.
func (p *hotPath) bury(l *pipe, under []*batch) {
	s := p.store
	out := s.outcomes()
	for _, b := range under {
		for i := range b.flights {
			f := &b.flights[i]
			if f.role != swapping || i < b.next && !f.won {
				continue
			}
			sh := s.table.of(f.line)
			sh.mu.Lock()
			switch {
			case f.won:
				s.finish(sh, f.line, buckets.ErrTooFewReplicas, out)
			case f.mode == read || f.end > b.written:
				f.line.trouble = l.cause
				s.again(f.line, out)
			default:
				f.line.lose()
				s.finish(sh, f.line, &buckets.Unavailable{Reason: l.cause.Error(), Unknown: true}, out)
			}
			sh.mu.Unlock()
		}
	}
	out.deliver(s)
}

// drain takes everything from the queue.
func (p *hotPath) drain() []*line {
	p.mu.Lock()
	defer p.mu.Unlock()
	lines := p.queue[p.next:]
	p.queue, p.next = nil, 0
	return lines
}

// empty sends what waits in a path that has ended elsewhere.
func (p *hotPath) empty() {
	p.mu.Lock()
	p.stopped = true
	p.mu.Unlock()
	p.store.park(p.drain())
	p.store.disown(p)
}

// read reads replies until the connection ends.
func (p *hotPath) read(l *pipe) {
	defer close(l.done)
	const size = 64 << 10
	buf := make([]byte, size)
	from, to := 0, 0
	out := p.store.outcomes()
	defer out.release(p.store)
	for {
		n, err := l.conn.Read(buf[to:])
		if n > 0 {
			now := p.store.config.Local()
			l.heard.Store(now)
			to += n
			used, want, wrong := p.consume(l, buf[from:to], now, out)
			from += used
			out.deliver(p.store)
			if wrong != nil {
				l.kill(wrong)
				return
			}
			if from == to {
				from, to = 0, 0
				if len(buf) > keepBytes {
					buf = make([]byte, size)
				}
			} else if want > len(buf)-from {
				// No more than double what has arrived, whatever the length says that is to come.
				grown := buf
				if want > len(buf) {
					grown = make([]byte, min(want, 2*len(buf)))
				}
				to = copy(grown, buf[from:to])
				from, buf = 0, grown
			}
			// Those who were woken may have more to ask, and it costs less in this batch than in the next.
			runtime.Gosched()
			p.mu.Lock()
			p.gathering = false
			p.flush(true)
			p.mu.Unlock()
		}
		if err != nil {
			l.kill(errors.New("the connection to the engine broke: " + plain(err)))
			return
		}
	}
}

// consume settles the replies that b has in full, and returns how many bytes they have and how many the next one needs.
func (p *hotPath) consume(l *pipe, b []byte, now int64, out *outcomes) (used, want int, err error) {
	var current *batch
	for used < len(b) {
		r, size, err := parseReply(b[used:])
		if err != nil {
			return used, 0, err
		}
		if r.kind == 0 {
			return used, size, nil
		}
		if current == nil {
			p.mu.Lock()
			if len(p.ring) > 0 {
				current = p.ring[0]
			}
			p.mu.Unlock()
			if current == nil {
				return used, 0, errProtocol
			}
		}
		if err := p.answer(current, &r, now, out); err != nil {
			return used, 0, err
		}
		l.used = true
		used += size
		if current.next == len(current.flights) {
			p.complete(current, now)
			current = nil
		}
	}
	return used, 1, nil
}

// complete takes the oldest batch, which was answered, from what is under way.
func (p *hotPath) complete(b *batch, now int64) {
	p.store.count.roundTrips.Add(1)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ring = append(p.ring[:0], p.ring[1:]...)
	p.gathering = true
	p.measure(now-b.sent, now, len(b.flights))
	// The batch may still be in the hands of who writes it: then it is left to the garbage collector.
	if b.written == len(b.out) && len(p.free) < 8 && cap(b.out) <= keepBytes {
		for i := range b.flights {
			if f := &b.flights[i]; cap(f.new) > keepValue {
				f.new = nil
			}
		}
		p.free = append(p.free, b)
	}
}

// answer settles the next flight of a batch with its reply.
func (p *hotPath) answer(b *batch, r *reply, now int64, out *outcomes) error {
	s := p.store
	f := &b.flights[b.next]
	switch {
	case f.role == asking && (r.kind == '+' || r.kind == '-'):
		b.next++
		return nil
	case f.role == awaiting && (r.kind == ':' || r.kind == '-'):
		var err error
		if r.kind == '-' || r.n < int64(s.rules.Load().MinReplicas) {
			err = buckets.ErrTooFewReplicas
		}
		for i := range b.flights[:b.next] {
			if f := &b.flights[i]; f.won {
				sh := s.table.of(f.line)
				sh.mu.Lock()
				s.finish(sh, f.line, err, out)
				sh.mu.Unlock()
				f.won = false
			}
		}
		b.next++
		return nil
	case f.role != swapping || r.kind != '$' && r.kind != '-':
		return errProtocol
	}
	b.next++
	s.count.commands.Add(1)
	sh := s.table.of(f.line)
	sh.mu.Lock()
	if r.kind == '-' {
		s.setback(sh, f, p, newEngineError(r.text), out)
	} else {
		s.settle(sh, f, p, !r.null, r.text, b.waits, now, out)
	}
	sh.mu.Unlock()
	return nil
}

// runWorkers has workers take lines from the queue, until the path is stopped.
func (p *hotPath) runWorkers(ctx context.Context) {
	var group sync.WaitGroup
	for range workers {
		group.Go(func() { p.work(ctx) })
	}
	defer group.Wait()
	for answered := p.store.config.Local(); ; {
		select {
		case <-ctx.Done():
			return
		case <-p.wake:
		}
		p.mu.Lock()
		p.more.Broadcast() // the server may have become ready
		p.mu.Unlock()
		switch now := p.store.config.Local(); {
		case !p.node.away():
			answered = now
			p.down.Store(nil)
		case now-answered >= int64(p.store.rules.Load().Timeout):
			why := p.node.why()
			if why == "" {
				why = "it does not answer"
			}
			why = awayBecause + why
			p.down.Store(&why)
		}
	}
}

// awayBecause begins the error of requests for a server that cannot be reached.
const awayBecause = "the engine is away: "

// work decides what waits for one line after the other by transactions.
func (p *hotPath) work(ctx context.Context) {
	s := p.store
	out := s.outcomes()
	defer out.release(s)
	var f flight
	for {
		l := p.take()
		if l == nil {
			return
		}
		sh := s.table.of(l)
		sh.mu.Lock()
		if !s.gather(sh, l) {
			sh.mu.Unlock()
			continue
		}
		f = flight{new: f.new[:0]}
		sw := s.plan(l, p, p.node.shift(), &f)
		sh.mu.Unlock()

		timed, cancel := context.WithTimeout(ctx, s.rules.Load().Timeout)
		s.watchSwap(timed, p.node, &sw)
		cancel()

		sh.mu.Lock()
		var away *buckets.Unavailable
		switch {
		case errors.Is(sw.err, buckets.ErrTooFewReplicas): // the change was made
			l.lose()
			s.finish(sh, l, sw.err, out)
		case errors.As(sw.err, &away):
			if away.Unknown {
				l.lose()
			}
			s.finish(sh, l, away, out)
		case sw.err != nil:
			s.setback(sh, &f, p, newEngineError([]byte(sw.err.Error())), out)
		default:
			s.settle(sh, &f, p, sw.found, sw.value, false, s.config.Local(), out)
		}
		sh.mu.Unlock()
		out.deliver(s)
	}
}

// take waits for a line and takes it from the queue. It returns nil when the path is stopped.
func (p *hotPath) take() *line {
	p.mu.Lock()
	defer p.mu.Unlock()
	for (p.next == len(p.queue) || !p.node.ready()) && !p.stopped {
		p.more.Wait()
	}
	if p.stopped {
		return nil
	}
	l := p.queue[p.next]
	p.queue[p.next] = nil
	if p.next++; p.next == len(p.queue) {
		p.queue, p.next = p.queue[:0], 0
	}
	return l
}

// check closes a connection on which nothing arrives, and forgets lines that nobody waits for any more.
func (p *hotPath) check(now int64) {
	timeout := int64(p.store.rules.Load().Timeout)
	p.mu.Lock()
	if l := p.pipe; l != nil && len(p.ring) > 0 && now-l.heard.Load() > max(int64(time.Second), 4*timeout) {
		go l.kill(errSilent)
	}
	p.nudge()
	var lines []*line
	if waiting := len(p.queue) - p.next; waiting > 1024 && int64(waiting) > 2*p.requests.Load() {
		lines, p.queue, p.next = p.queue[p.next:], nil, 0
	}
	p.mu.Unlock()
	if lines != nil {
		lines = p.store.awaited(lines)
		p.mu.Lock()
		p.putBack(lines)
		p.mu.Unlock()
	}
}

var errSilent = errors.New("the engine does not answer")

// suspect has the path connect anew, because the server says that it is not the master any more: behind the same name there
// may be another one.
func (p *hotPath) suspect(cause error) {
	if p.store.engine.clustered() {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.pipe != nil {
		p.pipe.kill(cause)
	}
}
