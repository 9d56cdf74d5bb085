package transport

import (
	"errors"
	"sync"
	"sync/atomic"
	"time"
)

// ErrOutputLimit is returned when a connection leaves more replies unread than client-output-buffer-limit allows.
var ErrOutputLimit = errors.New("replies went unread beyond client-output-buffer-limit")

// chunkSize is the least room that is made for replies that have to wait, and the most that is written at once: each
// piece that a client takes is a sign of life.
const chunkSize = 16 << 10

// outbox sends the replies of one connection. What the kernel takes at once is written by the caller; the rest waits
// here and is written by a goroutine that lives until nothing waits any more.
type outbox struct {
	conn   *Conn
	unread atomic.Int64 // waiting, for anybody to read
	wrote  atomic.Int64 // when the goroutine last got something written, in nanoseconds of Unix time

	writeNow func(fd uintptr) bool
	unsent   []byte // what writeNow is writing
	sysErr   error

	mu        sync.Mutex
	chunks    [][]byte
	waiting   int64         // bytes in chunks, and of the one being written
	soft      int64         // the soft limit that waiting is beyond; 0 when it is not
	softTimer *time.Timer   // ends the connection when waiting stays beyond it
	flushed   chan struct{} // closed when the goroutine ends; nil while there is none
	err       error
}

func (o *outbox) init(c *Conn) {
	o.conn = c
	o.writeNow = o.tryWrite
}

// send sends b, encrypted already where that is wanted, or keeps a copy of it. It does not wait for the client to read.
func (o *outbox) send(b []byte, limit *OutputLimit) error {
	if len(b) == 0 {
		return nil
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.err != nil {
		return o.err
	}
	if o.flushed == nil && o.conn.raw != nil {
		o.unsent = b
		err := o.conn.raw.Write(o.writeNow)
		b, o.unsent = o.unsent, nil
		if err == nil {
			err = o.sysErr
		}
		if err != nil {
			o.err = err
			return err
		}
		if len(b) == 0 {
			return nil
		}
	}
	o.keep(b)
	if o.tooMuch(limit) {
		o.err = ErrOutputLimit
		return o.err
	}
	if o.flushed == nil {
		o.flushed = make(chan struct{})
		go o.flush()
	}
	return nil
}

// keep copies b behind what waits already.
func (o *outbox) keep(b []byte) {
	o.waiting += int64(len(b))
	o.unread.Store(o.waiting)
	if n := len(o.chunks); n > 0 {
		last := o.chunks[n-1]
		fits := min(cap(last)-len(last), len(b))
		o.chunks[n-1] = append(last, b[:fits]...)
		b = b[fits:]
	}
	if len(b) > 0 {
		o.chunks = append(o.chunks, append(make([]byte, 0, max(chunkSize, len(b))), b...))
	}
}

// tooMuch reports whether more waits than may. When that is only more than may wait for long, it makes sure that it
// does not.
func (o *outbox) tooMuch(l *OutputLimit) bool {
	if l.Hard > 0 && o.waiting > l.Hard {
		return true
	}
	if l.Soft > 0 && o.waiting > l.Soft && o.softTimer == nil {
		o.soft = l.Soft
		o.softTimer = time.AfterFunc(l.SoftFor, func() {
			o.mu.Lock()
			defer o.mu.Unlock()
			if o.soft > 0 && o.waiting > o.soft {
				o.fail(ErrOutputLimit)
			}
		})
	}
	return false
}

// dropped reports whether the connection was ended because of what it left unread.
func (o *outbox) dropped() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return errors.Is(o.err, ErrOutputLimit)
}

// calm forgets that the soft limit was exceeded.
func (o *outbox) calm() {
	if o.softTimer != nil {
		o.softTimer.Stop()
	}
	o.softTimer, o.soft = nil, 0
}

// flush writes what waits, until nothing does.
func (o *outbox) flush() {
	defer o.rescue()
	for chunk := o.next(); chunk != nil; chunk = o.next() {
		for len(chunk) > 0 {
			piece := chunk[:min(len(chunk), chunkSize)]
			chunk = chunk[len(piece):]
			_, err := o.conn.nc.Write(piece)
			o.wrote.Store(o.conn.srv.config.Now())
			if o.account(len(piece), err); err != nil {
				break
			}
		}
	}
}

// next takes a chunk to be written, and returns nil when the goroutine has nothing more to do.
func (o *outbox) next() []byte {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.chunks) == 0 || o.err != nil {
		close(o.flushed)
		o.flushed = nil
		return nil
	}
	chunk := o.chunks[0]
	o.chunks = o.chunks[1:]
	return chunk
}

// account notes that n bytes wait no more, and how writing them went.
func (o *outbox) account(n int, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.waiting -= int64(n)
	o.unread.Store(o.waiting)
	if o.waiting <= o.soft {
		o.calm()
	}
	if err != nil {
		o.fail(err)
	}
}

// rescue, when deferred by the goroutine, ends the connection over a panic, and lets nobody wait for the goroutine.
func (o *outbox) rescue() {
	p := recover()
	if p == nil {
		return
	}
	LogPanic(o.conn.srv.config.Log, o.conn.remote, p)
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.flushed != nil {
		close(o.flushed)
		o.flushed = nil
	}
	o.fail(errPanicked)
}

// fail ends the connection over err, and wakes its reader.
func (o *outbox) fail(err error) {
	if o.err == nil {
		o.err = err
	}
	o.calm()
	o.conn.close()
}

// wait waits until everything has been sent, and gives up when nothing has been for as long as patience.
func (o *outbox) wait(patience time.Duration) bool {
	timer := time.NewTimer(patience)
	defer timer.Stop()
	for before := int64(-1); ; {
		o.mu.Lock()
		flushed, waiting, err := o.flushed, o.waiting, o.err
		o.mu.Unlock()
		if err != nil || flushed == nil {
			return err == nil
		}
		if waiting == before {
			o.conn.close()
			<-flushed
			return false
		}
		before = waiting
		timer.Reset(patience)
		select {
		case <-flushed:
		case <-timer.C:
		}
	}
}
