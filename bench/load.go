package main

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"
)

// load sends commands as fast as they are answered, over conns connections. Each connection sends depth commands, then reads
// their replies. The load ends after total commands or, if total is 0, after length.
type load struct {
	conns, depth int
	total        int64
	length       time.Duration
	// command appends command number i, counted over all connections from 0. r is the connection's own.
	command func(b []byte, i int64, r *rand.Rand) []byte

	sent atomic.Int64 // may be read while the load runs; it counts what is being sent, too
}

// loadConns and loadDepth are the values for measurements of memory: enough to keep one core of the server busy.
const (
	loadConns = 4
	loadDepth = 64
)

// keyLoad returns a load that sends one command for each of the keys 0 to total-1.
func keyLoad(total int64, args ...string) *load {
	t := newTemplate(args...)
	return &load{conns: loadConns, depth: loadDepth, total: total,
		command: func(b []byte, i int64, _ *rand.Rand) []byte { return t.appendTo(b, i) }}
}

// loadResult is the result of a load.
type loadResult struct {
	commands int64
	limited  int64 // of them, those whose reply began with an integer that is not 0: refused, for a limit
	wall     time.Duration
}

// rate returns the commands per second.
func (r loadResult) rate() float64 { return float64(r.commands) / r.wall.Seconds() }

// run sends the load. An error reply ends it.
func (l *load) run(ctx context.Context, addr string) (result loadResult, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var (
		wg                sync.WaitGroup
		commands, limited atomic.Int64
		errs              = make([]error, l.conns)
	)
	start := time.Now()
	for i := range l.conns {
		wg.Go(func() {
			c, err := dial(addr)
			if err == nil {
				// The goroutine may be waiting for a reply when another one fails.
				stop := context.AfterFunc(ctx, c.close)
				defer stop()
				defer c.close()
				var n, refused int64
				n, refused, err = l.send(ctx, c, start, rand.New(rand.NewPCG(uint64(i), 1)))
				commands.Add(n)
				limited.Add(refused)
			}
			if err != nil && ctx.Err() != nil {
				err = ctx.Err() // it is why the connection was closed
			}
			if errs[i] = err; err != nil {
				cancel()
			}
		})
	}
	wg.Wait()
	result = loadResult{commands.Load(), limited.Load(), time.Since(start)}
	err = nil
	for _, e := range errs { // the failure, rather than what it made of the other connections
		if e != nil && (err == nil || errors.Is(err, context.Canceled)) {
			err = e
		}
	}
	return result, err
}

// send sends the share of one connection.
func (l *load) send(ctx context.Context, c *conn, start time.Time, r *rand.Rand) (commands, limited int64, err error) {
	for ctx.Err() == nil {
		if l.total == 0 && time.Since(start) >= l.length {
			return commands, limited, nil
		}
		first := l.sent.Add(int64(l.depth)) - int64(l.depth)
		n := int64(l.depth)
		if l.total > 0 {
			n = min(n, l.total-first)
		}
		if n <= 0 {
			return commands, limited, nil
		}
		c.w = c.w[:0]
		for i := range n {
			c.w = l.command(c.w, first+i, r)
		}
		if _, err := c.Write(c.w); err != nil {
			return commands, limited, err
		}
		for range n {
			v, err := readReply(c.r, nil)
			if err != nil {
				return commands, limited, err
			}
			commands++
			if v != 0 {
				limited++
			}
		}
	}
	return commands, limited, ctx.Err()
}
