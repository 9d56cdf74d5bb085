package importer

import (
	"context"
	"errors"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"cellserver/buckets"
)

// bucket is what redis-cell knows of a key.
type bucket struct {
	key string
	tat int64 // nanoseconds of Unix time
}

const (
	// longPast is how far back a TAT may lie to be recognised as one. One that lies in the past at all is of a bucket that
	// is full, and is counted so.
	longPast = int64(24 * time.Hour)
	// sameTime is how far apart the TAT and the time of expiry may be, in milliseconds. redis-cell sets both at once, older
	// versions of it with an expiry in whole seconds.
	sameTime = int64(time.Minute / time.Millisecond)
	// longest is the longest TTL in milliseconds that can be of a bucket, with room for all that is inexact.
	longest = 2 * buckets.MaxPeriod / 1e6
	// digits is how many of a value's bytes are read: one more than an int64 in this century and the next ones has, so that
	// nobody's pictures are read over the network to find out that they are no numbers.
	digits = 20
)

// look reads keys and returns those that are buckets. The others are counted.
func look(ctx context.Context, source *redis.Client, keys []string, counts *counts) ([]bucket, error) {
	if len(keys) == 0 {
		return nil, nil
	}
	pipe := source.Pipeline()
	clock := pipe.Time(ctx)
	values, ttls := make([]*redis.StringCmd, len(keys)), make([]*redis.Cmd, len(keys))
	for i, key := range keys {
		values[i] = pipe.GetRange(ctx, key, 0, digits-1)
		ttls[i] = pipe.Do(ctx, "PTTL", key) // in milliseconds, which a time.Duration may not hold
	}
	before := time.Now()
	// A WRONGTYPE of one of them is an error of Exec; what matters is in the commands.
	if _, err := pipe.Exec(ctx); err != nil && !answered(err) {
		return nil, err
	}
	theirs, err := clock.Result()
	if err != nil {
		return nil, err
	}
	now := time.Now()
	counts.clock(theirs, before, now)

	var found []bucket
	for i, key := range keys {
		value, err := values[i].Result()
		if redis.HasErrorPrefix(err, "WRONGTYPE") {
			counts.skip(otherType, 1)
			continue
		}
		if err != nil {
			return nil, err
		}
		ttl, err := ttls[i].Int64()
		if err != nil {
			return nil, err
		}
		tat, why := judge(value, ttl, theirs.UnixMilli(), now.UnixNano())
		if why != fits {
			counts.skip(why, 1)
			continue
		}
		found = append(found, bucket{key, tat})
	}
	counts.Scanned += len(keys)
	return found, nil
}

// answered reports whether an error is an answer of the server, and not of the way to it.
func answered(err error) bool {
	_, ok := errors.AsType[redis.Error](err)
	return ok
}

// judge returns the TAT of a string with a TTL in milliseconds, which is -1 for none and -2 for a key that is gone. theirs
// is the time of the Redis in milliseconds, now the one here in nanoseconds, both of Unix time.
//
// The value has to be a number as redis-cell writes it. A range of such numbers is not enough: snowflake IDs of tweets and
// messages, which many caches are full of, lie in the midst of the nanoseconds of these years. What tells them apart is
// that a TAT is also the time at which its key expires.
func judge(value string, ttl, theirs, now int64) (tat int64, why reason) {
	if ttl == -2 {
		return 0, gone
	}
	tat, err := strconv.ParseInt(value, 10, 64)
	if err != nil || strconv.FormatInt(tat, 10) != value || tat < now-longPast || tat-now > buckets.MaxPeriod {
		return 0, noTime
	}
	switch off := tat/1e6 - theirs - min(max(ttl, -1), longest); {
	case ttl == -1:
		return 0, noTTL
	case off < -sameTime || off > sameTime:
		return 0, otherTTL
	case tat <= now:
		return 0, full
	}
	return tat, fits
}
