package resp

import (
	"sync"
	"sync/atomic"
	"time"
)

// pause is what CLIENT PAUSE has asked for: until its end, commands wait, all of them or those that may change keys.
type pause struct {
	there atomic.Bool // there may be one

	mu    sync.Mutex
	over  *time.Timer // ends it; nil while there is none
	all   bool
	until int64 // nanoseconds of Unix time

	waiting map[*waiter]struct{} // for its end
	stopped bool                 // there will be none any more
}

// waiter is a connection that waits for the end of a pause. It goes on reading meanwhile, to notice when the client leaves.
type waiter struct {
	waits atomic.Bool
	wake  func() // has the connection look at waits again; nil where there is no connection, which never waits
}

// begin begins a pause, or makes the one there is longer, and as strict as the stricter of the two.
func (p *pause) begin(now int64, d time.Duration, all bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.stopped {
		return
	}
	if p.over == nil {
		p.all, p.until = false, 0
		p.there.Store(true)
	} else {
		p.over.Stop()
	}
	p.all = p.all || all
	p.until = max(p.until, now+int64(d))
	var over *time.Timer
	over = time.AfterFunc(time.Duration(p.until-now), func() { p.endOf(func() bool { return p.over == over }) })
	p.over = over
}

// end ends the pause, if there is one.
func (p *pause) end() { p.endOf(func() bool { return p.over != nil }) }

// stop is end, after which nothing is paused any more.
func (p *pause) stop() {
	p.mu.Lock()
	p.stopped = true
	p.mu.Unlock()
	p.end()
}

// endOf ends the pause if it is the one that is meant. mu is held while it is asked.
func (p *pause) endOf(meant func() bool) {
	p.mu.Lock()
	if !meant() {
		p.mu.Unlock()
		return // it has ended, and perhaps there is another
	}
	p.over.Stop()
	p.over = nil
	p.there.Store(false)
	waiting := p.waiting
	p.waiting = nil
	for w := range waiting {
		w.waits.Store(false)
	}
	p.mu.Unlock()
	for w := range waiting {
		w.wake()
	}
}

// hold has a command wait if a pause is there that holds it, and reports whether it does: until w.waits is false, after
// which w is woken.
func (p *pause) hold(w *waiter, writes bool) bool {
	if w.wake == nil {
		return false
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.over == nil || !p.all && !writes {
		return false
	}
	if p.waiting == nil {
		p.waiting = make(map[*waiter]struct{})
	}
	p.waiting[w] = struct{}{}
	w.waits.Store(true)
	return true
}

// leave is for a connection that does not wait any more.
func (p *pause) leave(w *waiter) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.waiting, w)
	w.waits.Store(false)
}
