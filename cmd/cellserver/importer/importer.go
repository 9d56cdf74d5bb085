// Package importer implements `cellserver import`: it reads the buckets of the redis-cell module from a running Redis
// and writes them into a snapshot file, a running cellserver, or an engine for its option store. And it writes the keys of a
// snapshot or a journal into such an engine.
//
// redis-cell stores a bucket as a string under the key that it limits: the TAT in decimal nanoseconds of Unix time,
// which expires when the bucket is full again. A THROTTLE bucket needs nothing else. Nothing marks such a key as one of
// redis-cell, so a key is taken only if its type, value and expiry all fit (see judge).
package importer

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"

	"cellserver/buckets/cluster"
	"cellserver/cmd/cellserver/options"
)

// Sink writes imported buckets to a file. Either Close or Abort is called once, at the end.
type Sink interface {
	// Set adds a key with its TAT in nanoseconds of Unix time. SCAN may return a key more than once, with another TAT
	// if it was used in between; either may be kept. Set must not retain key.
	Set(key []byte, tat int64) error
	// Close completes the file, makes it durable, and gives it the target's name.
	Close() error
	// Abort removes the unfinished file, so that a partial import is not taken for a complete one. The target stays as
	// it was.
	Abort() error
}

// Config is what Run needs from the program.
type Config struct {
	// Open begins a file of buckets, whose keys are of database db. It is called before anything is read from the source, and returns an error if
	// target must not be replaced.
	Open func(target string, db int) (Sink, error)
	// Engine returns a store whose keys are where the settings say.
	Engine func(s *options.Store) (*cluster.Store, error)
	// Target is the default of --to; if it is empty, --to is required.
	Target string
}

// ErrUsage is wrapped by errors of wrong arguments.
var ErrUsage = errors.New("see cellserver import --help")

// ErrStopped is wrapped by the error of an import that a signal or the end of its context has stopped.
var ErrStopped = errors.New("stopped")

// batch is the COUNT of SCAN, and so about the number of keys in a pipeline.
const batch = 1000

// patience is how long a server may take for one reply. A Redis that runs KEYS * for another client may take long.
const patience = 30 * time.Second

// Run runs `cellserver import` with the arguments that follow these words. It writes the summary to stdout and the
// progress to stderr. SIGINT, SIGTERM and the end of ctx stop it; a second signal ends the process at once.
//
// Its errors wrap ErrUsage or ErrStopped, or name the server that failed, never with a password.
func Run(ctx context.Context, c Config, args []string, stdout, stderr io.Writer) error {
	p, err := parse(c, args)
	if errors.Is(err, errHelp) {
		_, err = io.WriteString(stdout, help(c))
		return err
	}
	if err != nil {
		return err
	}
	logging.Disable() // go-redis also returns everything that it logs as an error

	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	defer context.AfterFunc(ctx, stop)() // a second signal ends the process

	progress := newProgress(stderr, time.Now)
	if p.sourceFile != "" {
		err = p.runFile(ctx, c, progress)
	} else {
		err = p.run(ctx, c, progress)
	}
	progress.end()
	if progress.begun {
		err = errors.Join(err, progress.summary(stdout, p))
	}
	return err
}

// run imports. Its error names the side that failed.
func (p *plan) run(ctx context.Context, c Config, progress *progress) (err error) {
	source := connect(p.source)
	hangUp := func() { _ = source.Close() } // an error does not matter, because the connection has only read
	defer hangUp()
	defer context.AfterFunc(ctx, hangUp)() // go-redis waits for a reply even after the end of ctx
	if err := source.Ping(ctx).Err(); err != nil {
		return p.fault(ctx, p.sourceName, err, progress)
	}
	out, err := p.open(ctx, c)
	if err != nil {
		return p.fault(ctx, p.target, err, progress)
	}
	progress.begun = true

	var cursor uint64
	for {
		keys, next, err := source.Scan(ctx, cursor, p.match, batch).Result()
		var found []bucket
		if err == nil {
			found, err = look(ctx, source, keys, &progress.counts)
		}
		if err != nil {
			return errors.Join(p.fault(ctx, p.sourceName, err, progress), out.abort())
		}
		// A batch is finished even after the end of ctx, so that the counts are right.
		if err := out.put(context.WithoutCancel(ctx), found, &progress.counts); err != nil {
			return errors.Join(p.fault(context.WithoutCancel(ctx), p.target, err, progress), out.abort())
		}
		progress.step()
		if cursor = next; cursor == 0 {
			break
		}
	}
	if err := out.close(); err != nil {
		return p.fault(context.WithoutCancel(ctx), p.target, err, progress)
	}
	progress.whole = true
	return nil
}

// open connects to the target server, or begins the target file.
func (p *plan) open(ctx context.Context, c Config) (target, error) {
	switch {
	case p.dryRun:
		return nowhere{}, nil
	case p.server != nil:
		p.server.MaxRetries = -1 // a second attempt would make TATs late by the time of the first
		s := &server{client: connect(p.server)}
		if err := s.client.Ping(ctx).Err(); err != nil {
			return nil, errors.Join(err, s.client.Close())
		}
		return s, nil
	case p.engine.Store.Enabled():
		return openEngine(ctx, c, p)
	default:
		sink, err := c.Open(p.target, p.source.DB)
		if err != nil {
			return nil, err
		}
		return file{sink}, nil
	}
}

// fault returns the error to report for err at where: ErrStopped if ctx has ended.
func (p *plan) fault(ctx context.Context, where string, err error, progress *progress) error {
	if ctx.Err() != nil && !progress.begun {
		return fmt.Errorf("%w before anything was read", ErrStopped)
	}
	if ctx.Err() != nil {
		return fmt.Errorf("%w after %d keys, %s", ErrStopped, progress.Scanned, p.left(progress))
	}
	if progress.begun {
		return fmt.Errorf("%s: %w (after %d keys, %s)", where, err, progress.Scanned, p.left(progress))
	}
	return fmt.Errorf("%s: %w", where, err)
}

// left says what an import that did not complete leaves in the target.
func (p *plan) left(progress *progress) string {
	switch {
	case p.dryRun:
		return "nothing was to be written"
	case p.goesOn():
		return fmt.Sprintf("%d of which are in %s now; another import skips those and goes on", progress.Taken, p.target)
	default:
		return p.target + " was not written"
	}
}

// connect returns a client, which dials when it is first used.
func connect(o *redis.Options) *redis.Client {
	o.Protocol = 2
	o.DialerRetries = 1 // a refused connection is reported at once
	o.ReadTimeout, o.WriteTimeout = patience, patience
	return redis.NewClient(o)
}
