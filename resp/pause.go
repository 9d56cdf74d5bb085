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
	over  chan struct{} // closed when it ends; nil while there is none
	all   bool
	until int64 // nanoseconds of Unix time
	timer *time.Timer
}

// begin begins a pause, or makes the one there is longer, and as strict as the stricter of the two.
func (p *pause) begin(now int64, d time.Duration, all bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.over == nil {
		p.over, p.all, p.until = make(chan struct{}), false, 0
		p.there.Store(true)
	}
	p.all = p.all || all
	p.until = max(p.until, now+int64(d))
	if p.timer != nil {
		p.timer.Stop()
	}
	over := p.over
	p.timer = time.AfterFunc(time.Duration(p.until-now), func() { p.endOf(over) })
}

// end ends the pause, if there is one.
func (p *pause) end() {
	p.mu.Lock()
	over := p.over
	p.mu.Unlock()
	if over != nil {
		p.endOf(over)
	}
}

func (p *pause) endOf(over chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.over != over {
		return // it has ended, and perhaps there is another
	}
	p.timer.Stop()
	close(over)
	p.over, p.timer = nil, nil
	p.there.Store(false)
}

// holds returns what a command has to wait for, or nil.
func (p *pause) holds(writes bool) <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.over == nil || !p.all && !writes {
		return nil
	}
	return p.over
}
