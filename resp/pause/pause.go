// Package pause holds commands back while CLIENT PAUSE is in force.
package pause

import (
	"sync"
	"sync/atomic"
	"time"
)

// Pause holds back all commands, or those that may change keys, until it ends. The zero value holds back none.
type Pause struct {
	active atomic.Bool

	mu    sync.Mutex
	timer *time.Timer // ends the pause; nil while there is none
	all   bool        // every command is held back
	until int64       // nanoseconds of Unix time

	waiting map[*Waiter]struct{}
	stopped bool // no pause begins any more
}

// Waiter is a connection whose next command may be held back. The connection goes on reading meanwhile, so that it notices
// when its client leaves.
type Waiter struct {
	waits atomic.Bool

	// Wake is called after Waits has become false. A Waiter without it is never held back.
	Wake func()
}

// Waits reports whether a command of w is held back.
func (w *Waiter) Waits() bool { return w.waits.Load() }

// Active reports whether a pause may be in force. It costs one load, and is asked for each command.
func (p *Pause) Active() bool { return p.active.Load() }

// Begin begins a pause. If there is one, it lasts until the later of the two ends, and holds back all commands if either
// does.
func (p *Pause) Begin(now int64, d time.Duration, all bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.stopped {
		return
	}
	if p.timer == nil {
		p.all, p.until = false, 0
		p.active.Store(true)
	} else {
		p.timer.Stop()
	}
	p.all = p.all || all
	p.until = max(p.until, now+int64(d))
	var timer *time.Timer
	timer = time.AfterFunc(time.Duration(p.until-now), func() { p.endIf(func() bool { return p.timer == timer }) })
	p.timer = timer
}

// End ends the pause, if there is one.
func (p *Pause) End() { p.endIf(func() bool { return p.timer != nil }) }

// Stop ends the pause, and no pause begins after it.
func (p *Pause) Stop() {
	p.mu.Lock()
	p.stopped = true
	p.mu.Unlock()
	p.End()
}

// endIf ends the pause if current, which is called with p.mu held, reports true. A timer that fires late finds that its
// pause has ended, and another may have begun.
func (p *Pause) endIf(current func() bool) {
	p.mu.Lock()
	if !current() {
		p.mu.Unlock()
		return
	}
	p.timer.Stop()
	p.timer = nil
	p.active.Store(false)
	waiting := p.waiting
	p.waiting = nil
	for w := range waiting {
		w.waits.Store(false)
	}
	p.mu.Unlock()
	for w := range waiting {
		w.Wake()
	}
}

// Hold reports whether a pause holds back the next command of w, which may change keys if writes is true. If so, w.Waits
// reports true until the pause ends, and then w.Wake is called.
func (p *Pause) Hold(w *Waiter, writes bool) bool {
	if w.Wake == nil {
		return false
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.timer == nil || !p.all && !writes {
		return false
	}
	if p.waiting == nil {
		p.waiting = make(map[*Waiter]struct{})
	}
	p.waiting[w] = struct{}{}
	w.waits.Store(true)
	return true
}

// Leave ends the waiting of w, whose connection ends.
func (p *Pause) Leave(w *Waiter) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.waiting, w)
	w.waits.Store(false)
}
