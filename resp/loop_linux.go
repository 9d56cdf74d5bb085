package resp

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

// loop serves many connections in one goroutine, as long as what they ask takes no time: it reads from all that have
// something to say, answers, and then writes. System calls are most of what a command costs that arrives alone. This
// needs two of them, where a goroutine for each connection needs three and a switch, and it needs no others to learn who
// has something to say than one for all of them.
//
// A connection is handed over by its own goroutine, which waits meanwhile, and goes back to it for whatever the loop does
// not do: what may take long, what has to wait, and the end.
type loop struct {
	srv  *Server
	file *os.File // the epoll instance, which the runtime waits for in its turn
	raw  syscall.RawConn
	try  func(ep uintptr) bool // poll, bound once: a bound method allocates
	bell int                   // an eventfd: a connection is wanted back, or the end

	// What follows is the loop's own.
	events  [maxReady]syscall.EpollEvent
	heard   int     // of them
	waited  bool    // others could run since the last turn
	since   int64   // when they could last
	ready   []*conn // what a turn is about
	written int     // those of them whose replies have been written
	out     int     // bytes of replies that the others have
	again   []*conn // what the next turn is about in any case

	mu     sync.Mutex
	slots  []*conn // by the number in their events; the first is the bell's
	free   []int32
	wanted []*conn // back
	ending bool
	ended  chan struct{}
}

// newLoop starts a loop, or returns nil where there can be none.
func newLoop(s *Server) *loop {
	ep, err := syscall.EpollCreate1(syscall.EPOLL_CLOEXEC)
	if err != nil {
		return nil
	}
	bell, _, errno := syscall.RawSyscall(syscall.SYS_EVENTFD2, 0, syscall.O_NONBLOCK|syscall.O_CLOEXEC, 0)
	if errno != 0 {
		_ = syscall.Close(ep)
		return nil
	}
	l := &loop{srv: s, bell: int(bell), slots: make([]*conn, 1), ended: make(chan struct{})}
	l.try = l.poll
	ring := syscall.EpollEvent{Events: syscall.EPOLLIN}
	err = errors.Join(syscall.SetNonblock(ep, true), syscall.EpollCtl(ep, syscall.EPOLL_CTL_ADD, l.bell, &ring))
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
	_ = syscall.Close(l.bell)
}

// stop ends the loop, and gives every connection back.
func (l *loop) stop() {
	l.mu.Lock()
	l.ending = true
	l.mu.Unlock()
	l.ring()
	<-l.ended
}

func (l *loop) ring() {
	one := [8]byte{1, 0, 0, 0, 0, 0, 0, 1} // more than 0 in any order of bytes
	_, _ = syscall.Write(l.bell, one[:])   // a counter that is full rings as well
}

// adopt takes a connection over, and reports whether it did. What it says on its channel gives it back.
func (l *loop) adopt(c *conn) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ending {
		return false
	}
	var slot int32
	if n := len(l.free); n > 0 {
		slot = l.free[n-1]
		l.free = l.free[:n-1]
		l.slots[slot] = c
	} else {
		slot = int32(len(l.slots))
		l.slots = append(l.slots, c)
	}
	c.slot = slot
	c.visits++
	c.due, c.more, c.failed = false, false, nil
	ev := syscall.EpollEvent{Events: epollIn, Fd: slot, Pad: c.visits}
	var err error
	if failed := c.raw.Control(func(fd uintptr) { err = l.control(syscall.EPOLL_CTL_ADD, int(fd), &ev) }); failed != nil {
		err = failed
	}
	if err != nil {
		l.release(c)
	}
	return err == nil
}

func (l *loop) control(op, fd int, ev *syscall.EpollEvent) (err error) {
	if failed := l.raw.Control(func(ep uintptr) { err = syscall.EpollCtl(int(ep), op, fd, ev) }); failed != nil {
		return failed
	}
	return err
}

// release forgets a connection. mu is held.
func (l *loop) release(c *conn) {
	l.slots[c.slot] = nil
	l.free = append(l.free, c.slot)
	c.slot = 0
}

// give gives a connection back to its goroutine.
func (l *loop) give(c *conn, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.giveBack(c, err)
}

// giveBack is give while mu is held.
func (l *loop) giveBack(c *conn, err error) {
	if c.slot == 0 {
		return // it has been already
	}
	// What is closed is not in the set any more.
	_ = c.raw.Control(func(fd uintptr) { _ = l.control(syscall.EPOLL_CTL_DEL, int(fd), nil) })
	l.release(c)
	c.back <- err
}

// want asks for a connection back, for its goroutine to look at what has changed.
func (l *loop) want(c *conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if c.slot != 0 && !l.ending {
		l.wanted = append(l.wanted, c)
		if len(l.wanted) == 1 {
			l.ring()
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
			l.giveBack(c, nil)
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

// turn serves those connections that have something to say. It reports whether the loop goes on.
func (l *loop) turn() bool {
	now := l.srv.now()
	l.ready, l.written, l.out = l.ready[:0], 0, 0
	rung := l.gather()
	for i, c := range l.ready {
		l.read(c)
		if l.out >= writeAt {
			l.write(i + 1)
		}
	}
	l.write(len(l.ready))
	clear(l.ready) // they may be gone before the next turn
	if rung && !l.answerBell() {
		return false
	}
	if l.waited {
		l.since = now
	} else if now-l.since > turnsFor {
		runtime.Gosched()
		l.since = l.srv.now()
	}
	return true
}

// gather finds the connections of a turn, and reports whether the bell was rung.
func (l *loop) gather() (rung bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, c := range l.again {
		if c.slot != 0 {
			l.ready = append(l.ready, c)
			c.due = true
		}
	}
	clear(l.again)
	l.again = l.again[:0]
	for i := range l.heard {
		ev := &l.events[i]
		if ev.Fd == 0 {
			rung = true
			continue
		}
		c := l.slots[ev.Fd]
		if c == nil || c.visits != ev.Pad {
			continue // it has been given back meanwhile
		}
		c.ends = c.ends || ev.Events&epollEnd != 0
		if !c.due {
			c.due = true
			l.ready = append(l.ready, c)
		}
	}
	return rung
}

// read reads what one connection has sent, and answers. The clock is read in between: a client that has waited as long as it
// was told must not be decided on at a time before it sent its request.
func (l *loop) read(c *conn) {
	c.due = false
	defer func() {
		if p := recover(); p != nil {
			l.srv.panicked(c.client.addr, p)
			c.failed = errPanicked
		}
	}()
	if c.failed = c.tryOnce(); c.failed != nil {
		return
	}
	c.more = c.session.runBriefly(l.srv.now())
	l.out += len(c.session.out.Bytes)
}

// write writes what the connections up to the n-th have been answered, once it is as durable as that promises.
func (l *loop) write(n int) {
	group := l.ready[l.written:n]
	var wrote bool
	for _, c := range group {
		wrote = wrote || c.session.wrote
	}
	var err error
	if wrote {
		err = l.srv.commit() // once for all
	}
	for _, c := range group {
		if c.session.wrote {
			c.session.wrote = false
			if err != nil {
				c.failed = c.lost(err)
			}
		}
		l.finish(c)
	}
	l.written, l.out = n, 0
}

// finish writes what a connection has been answered. Either it stays, or its goroutine has it back afterwards.
func (l *loop) finish(c *conn) {
	defer func() {
		if p := recover(); p != nil {
			l.srv.panicked(c.client.addr, p)
			l.give(c, errPanicked)
		}
	}()
	s := c.session
	if err := c.failed; err != nil {
		c.failed = nil
		if err != errNothing {
			l.give(c, err)
		}
		return
	}
	full := s.in.Full()
	for {
		if err := c.flush(); err != nil {
			l.give(c, err)
			return
		}
		if !c.more {
			break
		}
		c.more = s.runBriefly(l.srv.now())
	}
	switch {
	case s.closing || s.deferred:
		l.give(c, nil)
	case full || c.ends:
		l.again = append(l.again, c)
	default:
		s.idle()
	}
}

// answerBell gives back what is wanted. It reports whether the loop goes on.
func (l *loop) answerBell() bool {
	var count [8]byte
	_, _ = syscall.Read(l.bell, count[:])
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, c := range l.wanted {
		l.giveBack(c, nil)
	}
	clear(l.wanted)
	l.wanted = l.wanted[:0]
	return !l.ending
}
