package importer

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// target receives the buckets.
type target interface {
	// put writes buckets, and counts them as taken or skipped.
	put(ctx context.Context, found []bucket, counts *counts) error
	// close ends a complete import, abort any other.
	close() error
	abort() error
}

// nowhere is the target of a dry run.
type nowhere struct{}

func (nowhere) put(_ context.Context, found []bucket, counts *counts) error {
	counts.Taken += len(found)
	return nil
}

func (nowhere) close() error { return nil }
func (nowhere) abort() error { return nil }

// file is a target that keeps each TAT to the nanosecond.
type file struct{ sink Sink }

func (f file) put(_ context.Context, found []bucket, counts *counts) error {
	for _, b := range found {
		if err := f.sink.Set([]byte(b.key), b.tat); err != nil {
			return err
		}
		counts.Taken++
	}
	return nil
}

func (f file) close() error { return f.sink.Close() }
func (f file) abort() error { return f.sink.Abort() }

// server is a running cellserver.
type server struct{ client *redis.Client }

// put makes buckets with CL.THROTTLE. After one request of a limit of one per period, without a burst, the TAT of a new
// key is one period from now. So the period is the time from now to the TAT; the TAT becomes late by the time until the
// server reads its clock.
//
// On an existing key this limit could take a request, or cut the TAT to its period, so put asks EXISTS first. A key
// that a client makes between the two commands is not noticed; its own limit cuts it in the same way.
func (s *server) put(ctx context.Context, found []bucket, counts *counts) error {
	if len(found) == 0 {
		return nil
	}
	asked, err := s.pipeline(ctx, found, func(pipe redis.Pipeliner, b bucket) *redis.Cmd {
		return pipe.Do(ctx, "EXISTS", b.key)
	})
	if err != nil {
		return err
	}
	fresh := make([]bucket, 0, len(found))
	for i, b := range found {
		n, err := asked[i].Int64()
		switch {
		case tooLong(err):
			counts.skip(long, 1)
		case err != nil:
			return err
		case n > 0:
			counts.skip(exists, 1)
		default:
			fresh = append(fresh, b)
		}
	}
	now := time.Now().UnixNano()
	n := 0
	for _, b := range fresh {
		if b.tat > now {
			fresh[n] = b
			n++
		}
	}
	counts.skip(full, len(fresh)-n)
	fresh = fresh[:n]
	if n == 0 {
		return nil
	}
	answers, err := s.pipeline(ctx, fresh, func(pipe redis.Pipeliner, b bucket) *redis.Cmd {
		return pipe.Do(ctx, "CL.THROTTLE", b.key, 0, 1, seconds(b.tat-now), 1)
	})
	if err != nil {
		return err
	}
	for _, answer := range answers {
		five, err := answer.Int64Slice()
		switch {
		case tooLong(err):
			counts.skip(long, 1)
		case redis.HasErrorPrefix(err, "WRONGTYPE"):
			counts.skip(exists, 1)
		case err != nil:
			return err
		case len(five) != 5:
			return errors.New("CL.THROTTLE is not answered as by a cellserver")
		case five[0] != 0:
			counts.skip(exists, 1)
		default:
			counts.Taken++
		}
	}
	return nil
}

// pipeline sends one command for each bucket.
func (s *server) pipeline(ctx context.Context, of []bucket, command func(redis.Pipeliner, bucket) *redis.Cmd) ([]*redis.Cmd, error) {
	pipe := s.client.Pipeline()
	sent := make([]*redis.Cmd, len(of))
	for i, b := range of {
		sent[i] = command(pipe, b)
	}
	if _, err := pipe.Exec(ctx); err != nil && !answered(err) {
		return nil, err
	}
	return sent, nil
}

// tooLong reports whether err says that a key is longer than the server's max-key-bytes.
func tooLong(err error) bool {
	return err != nil && strings.HasPrefix(err.Error(), "ERR key is longer than ")
}

// seconds formats nanoseconds as a period of CL.THROTTLE, in seconds.
func seconds(ns int64) string { return fmt.Sprintf("%d.%09d", ns/1e9, ns%1e9) }

func (s *server) close() error { return s.client.Close() }
func (s *server) abort() error { return s.client.Close() }
