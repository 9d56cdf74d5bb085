package importer

import (
	"context"
	"errors"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"cellserver/buckets"
)

// bucket is a bucket of redis-cell.
type bucket struct {
	key string
	tat int64 // nanoseconds of Unix time
}

const (
	// longPast is how far in the past, in nanoseconds, a number may lie to be taken for a TAT. A bucket whose TAT is in
	// the past is full, and counted as such.
	longPast = int64(24 * time.Hour)
	// sameTime is how far apart the TAT and the expiry may be, in milliseconds. redis-cell sets both at once; its older
	// versions round the expiry to whole seconds.
	sameTime = int64(time.Minute / time.Millisecond)
	// longest is an upper bound of the TTL of a bucket, in milliseconds.
	longest = 2 * buckets.MaxPeriod / 1e6
	// digits is how many bytes of a value are read: one more than a time in nanoseconds has, so that large values that
	// are no numbers are not read over the network.
	digits = 20
)

// look reads keys and returns those that are buckets. It counts the others.
func look(ctx context.Context, source *redis.Client, keys []string, counts *counts) ([]bucket, error) {
	if len(keys) == 0 {
		return nil, nil
	}
	pipe := source.Pipeline()
	clock := pipe.Time(ctx)
	values, ttls := make([]*redis.StringCmd, len(keys)), make([]*redis.Cmd, len(keys))
	for i, key := range keys {
		values[i] = pipe.GetRange(ctx, key, 0, digits-1)
		ttls[i] = pipe.Do(ctx, "PTTL", key) // in milliseconds, whose range exceeds that of time.Duration
	}
	before := time.Now()
	// Exec returns the first error of its commands, such as WRONGTYPE; each command has its own below.
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

// answered reports whether err is an error reply of the server, and not an error of the connection.
func answered(err error) bool {
	_, ok := errors.AsType[redis.Error](err)
	return ok
}

// judge returns the TAT of a key, or why it is skipped. ttl is in milliseconds; it is -1 without an expiry and -2 if
// the key does not exist. theirs is the time of the source in milliseconds, now the time here in nanoseconds, both of
// Unix time.
//
// The value must be a number as redis-cell writes it, and also the time at which the key expires. A range of numbers
// alone is not enough: snowflake IDs, which many caches hold, are in the range of the nanoseconds of these years.
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
