// Package ratelog writes rate-limited log lines, for events that anybody can cause as often as they like.
package ratelog

import (
	"log/slog"
	"sync"
	"time"
)

// Interval is the least time from one line of a Warning to the next, unless it has another.
const Interval = time.Second

// Warning is a log line at the level of warnings. The first event is logged at once, and the events of the Interval after a line
// in one line at its end: the line has the number of events, and the attributes of the last. The zero value is not ready to
// use: see New.
type Warning struct {
	log            *slog.Logger
	message, count string
	interval       time.Duration

	mu     sync.Mutex
	events int   // since the last line
	last   []any // the attributes of the last of them
	timer  *time.Timer
	closed bool
}

// New returns a Warning. count is the name of the attribute that has the number of events.
func New(log *slog.Logger, message, count string) *Warning {
	return NewEvery(Interval, log, message, count)
}

// NewEvery returns a Warning with another interval.
func NewEvery(interval time.Duration, log *slog.Logger, message, count string) *Warning {
	return &Warning{log: log, message: message, count: count, interval: interval}
}

// Add logs an event now, or at the end of the Interval. The attributes are those of slog.Logger.Warn.
func (w *Warning) Add(attributes ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.events++
	w.last = attributes
	if w.timer == nil {
		w.write()
	}
}

// write writes a line. It requires that w.mu is held.
func (w *Warning) write() {
	w.log.Warn(w.message, append([]any{w.count, w.events}, w.last...)...)
	w.events, w.last = 0, nil
	if w.closed {
		return
	}
	w.timer = time.AfterFunc(w.interval, func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.timer = nil
		if w.events > 0 && !w.closed {
			w.write()
		}
	})
}

// Close logs the events that have not been logged. Events that are added later are logged at once.
func (w *Warning) Close() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.closed = true
	if w.timer != nil {
		w.timer.Stop()
		w.timer = nil
	}
	if w.events > 0 {
		w.write()
	}
}
