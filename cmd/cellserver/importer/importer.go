// Package importer is `cellserver import`: it reads the buckets of the redis-cell module out of a live Redis and brings
// them into a cellserver, by way of a file or of a running server.
//
// redis-cell keeps a bucket as a string under the very key that it limits: its TAT in decimal nanoseconds of Unix time,
// which expires when the bucket is full again. That is all there is to read, and all that a bucket of ours needs.
// Nothing marks such a key as redis-cell's own, so a key is taken only if everything about it fits (see judge).
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
)

// Sink takes the buckets that are imported into a file. One of Close and Abort is called, once, at the end.
type Sink interface {
	// Set keeps the TAT of a key, in nanoseconds of Unix time. A key may come more than once, then with another TAT if
	// it was asked for in the meantime: the last one counts. The key is the importer's again when Set returns.
	Set(key []byte, tat int64) error
	// Close makes what was set durable, and visible under the target's name.
	Close() error
	// Abort forgets what was set, and leaves what the target was before: an import that stopped half-way must not be
	// taken for a whole one.
	Abort() error
}

// Config is what the program gives to the importer.
type Config struct {
	// Open begins to write a file of buckets. It refuses, before anything is read from the source, what it would not
	// want to replace.
	Open func(target string) (Sink, error)
	// Target is the file that is written when --to is not given. With none, --to must be given.
	Target string
}

// ErrUsage is wrapped by the errors of arguments that make no sense.
var ErrUsage = errors.New("see cellserver import --help")

// ErrStopped is wrapped by the error of an import that a signal, or the end of its context, has stopped.
var ErrStopped = errors.New("stopped")

// batch is how many keys are asked for at once: SCAN's COUNT, and so the length of a pipeline.
const batch = 1000

// patience is how long one answer of a server may take. A Redis that is busy with somebody's KEYS * takes its time.
const patience = 30 * time.Second

// Run is `cellserver import` with the arguments that follow these words. The summary goes to stdout, the progress to
// stderr. SIGINT and SIGTERM stop it like the end of ctx; a second one ends the process at once.
//
// Errors are one line, and those of a connection name it without its password.
func Run(ctx context.Context, c Config, args []string, stdout, stderr io.Writer) error {
	p, err := parse(c, args)
	if errors.Is(err, errHelp) {
		_, err = io.WriteString(stdout, help(c))
		return err
	}
	if err != nil {
		return err
	}
	logging.Disable() // everything it would say is in an error

	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	defer context.AfterFunc(ctx, stop)() // a second signal then does what it always did

	progress := newProgress(stderr, time.Now)
	err = p.run(ctx, c, progress)
	progress.end()
	if progress.begun {
		err = errors.Join(err, progress.summary(stdout, p))
	}
	return err
}

// run imports. What it returns says which side went wrong.
func (p *plan) run(ctx context.Context, c Config, progress *progress) (err error) {
	source := connect(p.source)
	hangUp := func() { _ = source.Close() } // nothing was written to it
	defer hangUp()
	defer context.AfterFunc(ctx, hangUp)() // go-redis waits for an answer, whatever becomes of ctx
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
		// What was begun is finished, also when it is time to stop: so the counts are right.
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

// open begins with the target.
func (p *plan) open(ctx context.Context, c Config) (target, error) {
	switch {
	case p.dryRun:
		return nowhere{}, nil
	case p.server != nil:
		p.server.MaxRetries = -1 // a bucket would be late by the time that the first attempt took
		s := &server{client: connect(p.server)}
		if err := s.client.Ping(ctx).Err(); err != nil {
			return nil, errors.Join(err, s.client.Close())
		}
		return s, nil
	default:
		sink, err := c.Open(p.target)
		if err != nil {
			return nil, err
		}
		return file{sink}, nil
	}
}

// fault tells what went wrong, or that it was time to stop.
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

// left says what an import leaves that did not come to its end.
func (p *plan) left(progress *progress) string {
	switch {
	case p.dryRun:
		return "nothing was to be written"
	case p.server != nil:
		return fmt.Sprintf("%d of which are in %s now; another import skips those and goes on", progress.Taken, p.target)
	default:
		return p.target + " was not written"
	}
}

// connect makes a client, which dials when it is first used.
func connect(o *redis.Options) *redis.Client {
	o.Protocol = 2
	o.DialerRetries = 1 // a refused connection is told at once
	o.ReadTimeout, o.WriteTimeout = patience, patience
	return redis.NewClient(o)
}
