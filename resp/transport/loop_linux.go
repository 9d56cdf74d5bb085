package transport

import (
	"errors"
	"os"
	"runtime"
	"sync"
	"syscall"
	"unsafe"
)

const (
	// epollIn is what a loop wants to hear of a connection: bytes and ends, each once.
	epollIn  = syscall.EPOLLIN | syscall.EPOLLRDHUP | 1<<31 // EPOLLET
	epollEnd = syscall.EPOLLRDHUP | syscall.EPOLLHUP | syscall.EPOLLERR

	// maxReady is how many connections a turn of a loop is about.
	maxReady = 128
	// writeAt is how many bytes of replies are gathered before they are written: those that are answered first wait for
	// the others.
	writeAt = 8 << 10
	// turnsFor is how many nanoseconds a loop goes on for before it lets other goroutines run.
	turnsFor = 100_000
)

// loop serves many connections in one goroutine, as long as what they ask takes no time: it reads from all on which
// something has arrived, runs their sessions, and then writes. Most of the cost of a command that arrives alone are system
// calls. The loop makes two for each, where a goroutine for each connection makes three and a switch, and one for all of
// them to learn on which something has arrived.
//
// A connection is lent by its own goroutine, which waits meanwhile, and is given back for what the loop does not do: what
// may take long, what has to wait, and the end.
type loop struct {
	srv    *Server
	file   *os.File // the epoll instance, which the runtime waits for in its turn
	raw    syscall.RawConn
	try    func(ep uintptr) bool // poll, bound once: a bound method allocates
	wakeup int                   // an eventfd: a connection is reclaimed, or the loop is to end

	// What follows is the loop's own.
	events  [maxReady]syscall.EpollEvent
	heard   int     // of them
	waited  bool    // other goroutines could run since the last turn
	since   int64   // when they could last
	turns   uint64  // the number of this turn
	ready   []visit // the connections of this turn
	written int     // those of them whose replies have been written
	out     int     // bytes of replies that the others have
	again   []*Conn // connections of the next turn, whether there are events or not

	mu        sync.Mutex
	slots     []*Conn // by the number in their events; the first is wakeup's
	free      []int32
	reclaimed []*Conn
	ending    bool
	ended     chan struct{}
}

// visit is what a turn of a loop does for one connection.
type visit struct {
	conn *Conn
	next Next
	out  Output
	err  error // of reading, or of making durable
}

// newLoop starts a loop, or returns nil where there can be none.
func newLoop(s *Server) *loop {
	ep, err := syscall.EpollCreate1(syscall.EPOLL_CLOEXEC)
	if err != nil {
		return nil
	}
	wakeup, _, errno := syscall.RawSyscall(syscall.SYS_EVENTFD2, 0, syscall.O_NONBLOCK|syscall.O_CLOEXEC, 0)
	if errno != 0 {
		_ = syscall.Close(ep)
		return nil
	}
	l := &loop{srv: s, wakeup: int(wakeup), slots: make([]*Conn, 1), ended: make(chan struct{})}
	l.try = l.poll
	woken := syscall.EpollEvent{Events: syscall.EPOLLIN}
	err = errors.Join(syscall.SetNonblock(ep, true), syscall.EpollCtl(ep, syscall.EPOLL_CTL_ADD, l.wakeup, &woken))
	l.file = os.NewFile(uintptr(ep), "epoll")
	if err == nil {
		l.raw, err = l.file.SyscallConn()
	}
	if err != nil {
		l.close()
		return nil
	}
	go l.run()
	return l
}

func (l *loop) close() {
	_ = l.file.Close()
	_ = syscall.Close(l.wakeup)
}

// stop ends the loop, and gives every connection back.
func (l *loop) stop() {
	l.mu.Lock()
	l.ending = true
	l.mu.Unlock()
	l.wake()
	<-l.ended
}

func (l *loop) wake() {
	one := [8]byte{1, 0, 0, 0, 0, 0, 0, 1} // more than 0 in any order of bytes
	_, _ = syscall.Write(l.wakeup, one[:]) // a counter that is full wakes as well
}

// adopt takes a connection that is lent, and reports whether it did. What it sends on c.back gives the connection back.
func (l *loop) adopt(c *Conn) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ending {
		return false
	}
	if n := len(l.free); n > 0 {
		c.slot = l.free[n-1]
		l.free = l.free[:n-1]
		l.slots[c.slot] = c
	} else {
		c.slot = int32(len(l.slots))
		l.slots = append(l.slots, c)
	}
	c.loan++
	ev := syscall.EpollEvent{Events: epollIn, Fd: c.slot, Pad: c.loan}
	var err error
	if failed := c.raw.Control(func(fd uintptr) { err = l.control(syscall.EPOLL_CTL_ADD, int(fd), &ev) }); failed != nil {
		err = failed
	}
	if err != nil || !c.owner.lend() {
		l.release(c)
		return false
	}
	return true
}

func (l *loop) control(op, fd int, ev *syscall.EpollEvent) (err error) {
	if failed := l.raw.Control(func(ep uintptr) { err = syscall.EpollCtl(int(ep), op, fd, ev) }); failed != nil {
		return failed
	}
	return err
}

// release frees the slot of a connection. It requires that mu is held.
func (l *loop) release(c *Conn) {
	l.slots[c.slot] = nil
	l.free = append(l.free, c.slot)
}

// giveBack gives a connection back to its goroutine.
func (l *loop) giveBack(c *Conn, next Next, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.giveBackLocked(c, handback{next, err})
}

// giveBackLocked is giveBack while mu is held. It does nothing if the loop does not have the connection any more.
func (l *loop) giveBackLocked(c *Conn, why handback) {
	if !c.owner.giveBack() {
		return
	}
	// What is closed is not in the set any more.
	_ = c.raw.Control(func(fd uintptr) { _ = l.control(syscall.EPOLL_CTL_DEL, int(fd), nil) })
	l.release(c)
	c.back <- why
}

// reclaim asks for a connection back, for its goroutine to look at what has changed.
func (l *loop) reclaim(c *Conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if c.owner.reclaim() && !l.ending {
		l.reclaimed = append(l.reclaimed, c)
		if len(l.reclaimed) == 1 {
			l.wake()
		}
	}
}

func (l *loop) run() {
	for {
		l.waited = false
		if l.raw.Read(l.try) != nil || !l.turn() {
			break
		}
	}
	l.mu.Lock()
	l.ending = true
	for _, c := range l.slots {
		if c != nil {
			l.giveBackLocked(c, handback{})
		}
	}
	l.mu.Unlock()
	l.close()
	close(l.ended)
}

// poll takes what there is to do; false has the runtime wait for something.
func (l *loop) poll(ep uintptr) bool {
	for {
		n, _, errno := syscall.RawSyscall6(syscall.SYS_EPOLL_PWAIT, ep, uintptr(unsafe.Pointer(&l.events[0])), maxReady, 0, 0, 0)
		switch {
		case errno == syscall.EINTR:
			continue
		case errno != 0:
			n = 0
		}
		l.heard = int(n)
		if n > 0 || len(l.again) > 0 {
			return true
		}
		l.waited = true
		return false
	}
}

// turn serves the connections on which something has arrived. It reports whether the loop goes on.
func (l *loop) turn() bool {
	now := l.srv.config.Now()
	l.ready, l.written, l.out = l.ready[:0], 0, 0
	woken := l.gather()
	for i := range l.ready {
		l.read(&l.ready[i])
		if l.out >= writeAt {
			l.write(i + 1)
		}
	}
	l.write(len(l.ready))
	clear(l.ready) // the connections may be gone before the next turn
	if woken && !l.settleReclaims() {
		return false
	}
	l.yieldIfLong(now)
	return true
}

// yieldIfLong lets other goroutines run if none could for long. now is when the turn began. It does not sleep, as long work
// does elsewhere: requests wait for the loop.
func (l *loop) yieldIfLong(now int64) {
	if l.waited {
		l.since = now
	} else if now-l.since > turnsFor {
		runtime.Gosched()
		l.since = l.srv.config.Now()
	}
}

// gather finds the connections of a turn, and reports whether wakeup was set.
func (l *loop) gather() (woken bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.turns++
	for _, c := range l.again {
		if c.owner.withLoop() {
			l.join(c)
		}
	}
	clear(l.again)
	l.again = l.again[:0]
	for i := range l.heard {
		ev := &l.events[i]
		if ev.Fd == 0 {
			woken = true
			continue
		}
		c := l.slots[ev.Fd]
		if c == nil || c.loan != ev.Pad {
			continue // it has been given back meanwhile
		}
		c.ends = c.ends || ev.Events&epollEnd != 0
		l.join(c)
	}
	return woken
}

// join makes a connection part of the turn, once.
func (l *loop) join(c *Conn) {
	if c.turn != l.turns {
		c.turn = l.turns
		l.ready = append(l.ready, visit{conn: c})
	}
}

// read reads what has arrived on one connection, and runs its session. The clock is read in between: a client that has
// waited as long as it was told must not be decided on at a time before it sent its request.
func (l *loop) read(v *visit) {
	defer func() {
		if p := recover(); p != nil {
			LogPanic(l.srv.config.Log, v.conn.remote, p)
			v.err = errPanicked
		}
	}()
	if v.err = v.conn.tryOnce(); v.err != nil {
		return
	}
	v.next = v.conn.run(l.srv.config.Now(), true)
	v.out = v.conn.session.Output()
	l.out += len(v.out.Bytes)
}

// write writes the replies of the connections up to the n-th, once they are as durable as they promise.
func (l *loop) write(n int) {
	group := l.ready[l.written:n]
	var uncommitted bool
	for i := range group {
		uncommitted = uncommitted || group[i].out.Uncommitted
	}
	var err error
	if uncommitted {
		err = l.srv.config.Commit() // once for all
	}
	for i := range group {
		v := &group[i]
		if err != nil && v.out.Uncommitted {
			v.err = v.conn.lose(err)
		}
		l.finish(v)
	}
	l.written, l.out = n, 0
}

// finish writes the replies of a connection, which have been committed. Then the loop keeps it or gives it back.
func (l *loop) finish(v *visit) {
	c := v.conn
	defer func() {
		if p := recover(); p != nil {
			LogPanic(l.srv.config.Log, c.remote, p)
			l.giveBack(c, Close, errPanicked)
		}
	}()
	if v.err == errNothing {
		return
	}
	err := v.err
	if err == nil {
		err = c.sendOutput(v.out)
	}
	for err == nil && v.next == Again {
		v.next = c.run(l.srv.config.Now(), true)
		err = c.Flush()
	}
	switch {
	case err != nil || v.next != Read:
		l.giveBack(c, v.next, err)
	case c.filled || c.ends:
		l.again = append(l.again, c)
	default:
		c.session.Idle()
	}
}

// settleReclaims gives back what is reclaimed. It reports whether the loop goes on.
func (l *loop) settleReclaims() bool {
	var count [8]byte
	_, _ = syscall.Read(l.wakeup, count[:])
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, c := range l.reclaimed {
		if c.owner.is(reclaimed) { // it may have been given back and lent again
			l.giveBackLocked(c, handback{})
		}
	}
	clear(l.reclaimed)
	l.reclaimed = l.reclaimed[:0]
	return !l.ending
}
