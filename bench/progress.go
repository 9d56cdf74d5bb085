package main

import (
	"fmt"
	"io"
	"os"
	"sync"
	"time"
)

// progress reports the current step on stderr: on a terminal in one line that changes, otherwise in a line from time to time.
type progress struct {
	w        io.Writer
	terminal bool
	began    time.Time
	part     string // the part that the steps belong to

	mu   sync.Mutex
	what string
	last time.Time // of the last line
}

// clearLine clears the current line of a terminal.
const clearLine = "\r\x1b[K"

// progressEvery is the interval of lines if stderr is no terminal.
const progressEvery = 10 * time.Second

func newProgress(w io.Writer) *progress {
	p := &progress{w: w, began: time.Now()}
	if f, ok := w.(*os.File); ok {
		if info, err := f.Stat(); err == nil {
			p.terminal = info.Mode()&os.ModeCharDevice != 0
		}
	}
	return p
}

// step begins a new step.
func (p *progress) step(format string, args ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.what = fmt.Sprintf(format, args...)
	p.write("")
}

// write writes the line. It requires that p.mu is held.
func (p *progress) write(detail string) {
	p.last = time.Now()
	line := fmt.Sprintf("[%4.0f s] %s%s", time.Since(p.began).Seconds(), p.what, detail)
	if p.part != "" {
		line = fmt.Sprintf("[%4.0f s] %s: %s%s", time.Since(p.began).Seconds(), p.part, p.what, detail)
	}
	if p.terminal {
		line = clearLine + line
	} else {
		line += "\n"
	}
	_, _ = io.WriteString(p.w, line) // a lost progress line does not matter
}

// watch shows the text of detail with the current step until done is called.
func (p *progress) watch(detail func() string) (done func()) {
	quit, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		tick := time.NewTicker(500 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-quit:
				return
			case <-tick.C:
			}
			p.mu.Lock()
			if p.terminal || time.Since(p.last) >= progressEvery {
				p.write(": " + detail())
			}
			p.mu.Unlock()
		}
	}()
	return func() { close(quit); <-ended }
}

// watchLoad shows the progress of a load.
func (p *progress) watchLoad(l *load) (done func()) {
	return p.watch(func() string {
		sent := l.sent.Load()
		if l.total == 0 {
			return grouped(float64(sent)) + " commands"
		}
		return fmt.Sprintf("%s of %s", grouped(float64(min(sent, l.total))), grouped(float64(l.total)))
	})
}

// end clears the progress line of a terminal.
func (p *progress) end() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.terminal {
		_, _ = io.WriteString(p.w, clearLine)
	}
}
