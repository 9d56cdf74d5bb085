package main

import (
	"context"
	"fmt"
	"os/exec"
	"time"
)

// session is a server under measurement, and a control connection to it.
type session struct {
	*process
	control *conn
	empty   int64 // resident bytes of the server after its start
}

// open starts a server. The caller defers end with the address of its error: end stops the server and, if the server has
// ended early, adds why to the error.
func (l *lab) open(ctx context.Context, command func(port string) *exec.Cmd) (s *session, end func(*error), err error) {
	p, err := l.start(ctx, command)
	if err != nil {
		return nil, nil, err
	}
	s = &session{process: p}
	if s.control, err = dial(p.addr); err == nil {
		s.empty, _, err = resident(p.pid)
	}
	if err != nil {
		p.stop()
		return nil, nil, err
	}
	release := context.AfterFunc(ctx, s.control.close) // a cancelled context ends the wait for a reply
	return s, func(failed *error) {
		release()
		if ctx.Err() != nil {
			*failed = ctx.Err()
		}
		*failed = p.explain(*failed)
		s.control.close()
		p.stop()
	}, nil
}

// openCellserver opens a cellserver without maxmemory, unless args set it.
func (l *lab) openCellserver(ctx context.Context, args ...string) (*session, func(*error), error) {
	return l.open(ctx, func(port string) *exec.Cmd { return l.cellserver(port, args...) })
}

// reading is the memory and the processor time of a server at one time.
type reading struct {
	at     time.Time
	cpu    time.Duration
	waited time.Duration // time runnable without a core
	rss    int64         // resident bytes
	huge   int64         // resident bytes in huge pages
	used   int64         // used_memory_dataset of INFO
}

// read takes a reading, which delays the server by some milliseconds.
func (s *session) read() (r reading, err error) {
	if r.used, err = s.control.number("memory", "used_memory_dataset"); err != nil {
		return r, err
	}
	if r.rss, r.huge, err = resident(s.pid); err != nil {
		return r, err
	}
	now, err := s.cpuNow()
	r.at, r.cpu, r.waited = now.at, now.cpu, now.waited
	return r, err
}

// cpuShare returns the processor time of a process between two readings, in percent of one core.
func cpuShare(from, to reading) float64 {
	return 100 * (to.cpu - from.cpu).Seconds() / to.at.Sub(from.at).Seconds()
}

// waitShare returns how long a process waited for a core between two readings, in percent of the time. It shows how much
// other processes disturbed a measurement.
func waitShare(from, to reading) float64 {
	return 100 * (to.waited - from.waited).Seconds() / to.at.Sub(from.at).Seconds()
}

// waitFigure is the name of the figure of waitShare.
const waitFigure = "the server waited for its core"

// cpuNow takes a reading of processor time only, which does not delay the server.
func (s *session) cpuNow() (r reading, err error) {
	if r.waited, err = waitTime(s.pid); err != nil {
		return r, err
	}
	r.cpu, err = cpuTime(s.pid)
	r.at = time.Now()
	return r, err
}

// runLoad runs a load on the server and shows its progress.
func (l *lab) runLoad(ctx context.Context, s *session, what string, work *load) (loadResult, error) {
	l.progress.step("%s", what)
	done := l.progress.watchLoad(work)
	defer done()
	result, err := work.run(ctx, s.addr)
	if err != nil {
		return result, fmt.Errorf("%s: %w", what, err)
	}
	return result, nil
}

// pause waits.
func (l *lab) pause(ctx context.Context, what string, d time.Duration) error {
	l.progress.step("%s, %s", what, spoken(d))
	return sleep(ctx, d)
}

func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}
