package importer

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"cellserver/internal/testing/testserver"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// kept is a Sink in memory.
type kept struct {
	target          string
	db              int
	tats            map[string]int64
	closed, aborted int
	onSet, onClose  func() error // may be nil
}

func (k *kept) Set(key []byte, tat int64) error {
	if k.onSet != nil {
		if err := k.onSet(); err != nil {
			return err
		}
	}
	k.tats[string(key)] = tat
	clear(key) // Set must not keep it
	return nil
}

func (k *kept) Close() error {
	k.closed++
	if k.onClose != nil {
		return k.onClose()
	}
	return nil
}

func (k *kept) Abort() error { k.aborted++; return nil }

func (k *kept) config() Config {
	k.tats = map[string]int64{}
	return Config{Target: "dump.cell", Open: func(target string, db int) (Sink, error) {
		if k.target != "" {
			return nil, errors.New("opened twice")
		}
		k.target, k.db = target, db
		return k, nil
	}}
}

// store writes a bucket as redis-cell does, directly or into a pipeline.
func store(t *testing.T, c redis.Cmdable, key string, tat int64) {
	t.Helper()
	left := time.Until(time.Unix(0, tat)).Truncate(time.Millisecond)
	require.NoError(t, c.Set(t.Context(), key, tat, left).Err())
}

func in(d time.Duration) int64 { return time.Now().Add(d).UnixNano() }

// strange are keys that every import must copy unchanged.
var strange = []string{"user:1", "", "\x00\xff\xfe", "a b\r\nc", "\xc3\x28", strings.Repeat("k", 3000)}

// fill stores buckets, and one key for each reason to skip a key.
func (s *source) fill(t *testing.T) (tats map[string]int64) {
	t.Helper()
	ctx := t.Context()
	tats = map[string]int64{}
	for i, key := range strange {
		tats[key] = in(time.Duration(i+1)*time.Hour) + int64(i)
	}
	tats["a century"] = in(100 * 365 * 24 * time.Hour)
	tats["two minutes"] = in(2 * time.Minute)
	for key, tat := range tats {
		store(t, s, key, tat)
	}

	hour := in(time.Hour)
	const ttl = time.Hour
	require.NoError(t, s.LPush(ctx, "list", hour).Err())
	require.NoError(t, s.HSet(ctx, "hash", "a", hour).Err())
	require.NoError(t, s.SAdd(ctx, "set", hour).Err())
	require.NoError(t, s.ZAdd(ctx, "zset", redis.Z{Score: 1}).Err())
	for i, value := range []any{
		"", "hello", strconv.FormatInt(hour, 10) + " ", "+" + strconv.FormatInt(hour, 10), "0" + strconv.FormatInt(hour, 10),
		"1.8e18", "9223372036854775808", strconv.FormatInt(hour, 10) + "0", strings.Repeat("1", 100_000), -hour, 0, 60,
		hour / 1e9, hour / 1e6, hour / 1e3, in(-25 * time.Hour), int64(9223372036854775807), "\xff", "-9223372036854775808",
	} {
		require.NoError(t, s.Set(ctx, fmt.Sprint("no time ", i), value, ttl).Err())
	}
	require.NoError(t, s.Set(ctx, "for ever", hour, 0).Err())
	require.NoError(t, s.Set(ctx, "snowflake", in(1000*time.Hour), ttl).Err())
	require.NoError(t, s.Set(ctx, "older", in(-20*time.Hour), ttl).Err())
	require.NoError(t, s.Do(ctx, "SET", "longest", hour, "PXAT", int64(9e15)).Err())
	require.NoError(t, s.Set(ctx, "full", in(-time.Second), time.Second*30).Err())
	return tats
}

const skippedOfFill = `28 skipped
  4 are not strings
  19 hold no time in nanoseconds
  1 never expire
  3 expire at another time than they hold
  1 were full again already
`

// importing runs an import and returns its standard output and standard error.
func importing(t *testing.T, c Config, args ...string) (stdout, stderr string, err error) {
	t.Helper()
	var out, progress bytes.Buffer
	err = Run(t.Context(), c, args, &out, &progress)
	return out.String(), progress.String(), err
}

func TestAnImportIntoAFileKeepsEachTAT(t *testing.T) {
	s := realRedis(t)
	tats := s.fill(t)
	var k kept
	out, progress, err := importing(t, k.config(), s.url())
	require.NoError(t, err)
	assert.Equal(t, tats, k.tats)
	assert.Equal(t, "dump.cell", k.target)
	assert.Equal(t, []int{1, 0}, []int{k.closed, k.aborted})
	assert.Regexp(t, `\A36 keys scanned in \d[\d.]*m?s\n8 taken into dump\.cell\n`, out)
	assert.True(t, strings.HasSuffix(out, skippedOfFill), out)
	assert.Empty(t, progress)

	k = kept{}
	_, _, err = importing(t, k.config(), "unix://"+s.Options().Addr, "--to", "/elsewhere/x")
	require.NoError(t, err)
	assert.Equal(t, tats, k.tats)
	assert.Equal(t, "/elsewhere/x", k.target)
}

func TestOnlyMatchingKeysAreImported(t *testing.T) {
	s := realRedis(t)
	for _, key := range []string{"a:1", "a:2", "b:1"} {
		store(t, s, key, in(time.Hour))
	}
	var k kept
	_, _, err := importing(t, k.config(), "--match", "a:*", s.url())
	require.NoError(t, err)
	assert.Len(t, k.tats, 2)
	assert.NotContains(t, k.tats, "b:1")
}

func TestADryRunWritesNothing(t *testing.T) {
	s := realRedis(t)
	tats := s.fill(t)
	var k kept
	out, _, err := importing(t, k.config(), s.url(), "--dry-run")
	require.NoError(t, err)
	assert.Empty(t, k.target)
	assert.Contains(t, out, fmt.Sprintf("\n%d would be taken\n", len(tats)))
	assert.True(t, strings.HasSuffix(out, skippedOfFill), out)

	addr := testserver.Listen(t)
	_, _, err = importing(t, Config{}, s.url(), "--dry-run", "--to", "redis://"+addr)
	require.NoError(t, err)
	assert.Zero(t, client(t, addr).DBSize(t.Context()).Val())

	_, _, err = importing(t, Config{}, s.url(), "--dry-run")
	require.NoError(t, err, "without a target there is nothing to be missed")
}

func client(t *testing.T, addr string) *redis.Client {
	t.Helper()
	c := redis.NewClient(&redis.Options{Addr: addr, Protocol: 2})
	t.Cleanup(func() { c.Close() })
	return c
}

// tatOf returns the TAT that a cellserver holds for a key.
func tatOf(t *testing.T, c *redis.Client, key string) int64 {
	t.Helper()
	fields, err := c.Do(t.Context(), "CL.GET", key).Slice()
	require.NoError(t, err, "%q", key)
	for i := 0; i+1 < len(fields); i += 2 {
		if fields[i] == "tat" {
			return fields[i+1].(int64)
		}
	}
	require.Fail(t, "no tat", "%q: %v", key, fields)
	return 0
}

func TestAnImportIntoAServerMakesTheSameBuckets(t *testing.T) {
	s := realRedis(t)
	tats := s.fill(t)
	addr := testserver.Listen(t)
	c := client(t, addr)
	require.NoError(t, c.Do(t.Context(), "CL.ZSLIDE", "user:1", 5, 7).Err())
	delete(tats, "user:1")
	store(t, s, strings.Repeat("k", 5000), in(time.Hour))

	out, _, err := importing(t, Config{}, s.url(), "--to", "redis://"+addr)
	require.NoError(t, err)
	assert.Contains(t, out, fmt.Sprintf("\n%d taken into redis://%s\n", len(tats), addr))
	assert.Contains(t, out, "\n  1 exist in the target\n  1 are longer than the target's max-key-bytes\n")
	assert.EqualValues(t, len(tats)+1, c.DBSize(t.Context()).Val())
	assert.Equal(t, "zslide", c.Type(t.Context(), "user:1").Val())
	imported := map[string]int64{}
	for key, tat := range tats {
		imported[key] = tatOf(t, c, key)
		late := time.Duration(imported[key] - tat)
		assert.True(t, -time.Millisecond < late && late < time.Minute, "%q is late by %s", key, late)
		theirs, ours := s.PTTL(t.Context(), key).Val(), c.PTTL(t.Context(), key).Val()
		assert.InDelta(t, theirs, ours, float64(time.Minute), "%q", key)
	}

	out, _, err = importing(t, Config{}, s.url(), "--to", "redis://"+addr)
	require.NoError(t, err)
	assert.Contains(t, out, fmt.Sprintf("\n  %d exist in the target\n", len(tats)+1), "nothing is taken twice")
	for key, tat := range imported {
		assert.Equal(t, tat, tatOf(t, c, key))
	}

	// The bucket continues under the limit of the request.
	five, err := c.Do(t.Context(), "CL.THROTTLE", "two minutes", 9, 10, 600, 1).Int64Slice()
	require.NoError(t, err)
	assert.Equal(t, []int64{0, 10, 7}, five[:3], "two of ten were used, and now the third one is")
}

func TestManyKeysAreImported(t *testing.T) {
	const many = 20_000
	s := realRedis(t)
	pipe := s.Pipeline()
	tats := make(map[string]int64, many)
	for i := range many {
		key := fmt.Sprint("key:", i)
		tats[key] = in(time.Hour) + int64(i)
		store(t, pipe, key, tats[key])
	}
	_, err := pipe.Exec(t.Context())
	require.NoError(t, err)

	var k kept
	_, _, err = importing(t, k.config(), s.url())
	require.NoError(t, err)
	assert.Equal(t, tats, k.tats)

	addr := testserver.Listen(t)
	_, _, err = importing(t, Config{}, s.url(), "--to", "redis://"+addr)
	require.NoError(t, err)
	assert.EqualValues(t, many, client(t, addr).DBSize(t.Context()).Val())

	t.Run("stopped", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		var k kept
		k.onSet = func() error {
			if len(k.tats) == many/2 {
				cancel()
			}
			return nil
		}
		var out, progress bytes.Buffer
		err := Run(ctx, k.config(), []string{s.url()}, &out, &progress)
		require.ErrorIs(t, err, ErrStopped)
		assert.Regexp(t, `\Astopped after \d+ keys, dump\.cell was not written\z`, err.Error())
		assert.Equal(t, []int{0, 1}, []int{k.closed, k.aborted})
		assert.Less(t, len(k.tats), many)
		assert.Contains(t, out.String(), fmt.Sprintf("\n%d would have been taken; dump.cell was not written\n", len(k.tats)))
		assert.Contains(t, out.String(), ", which is not all of them\n")
	})
	t.Run("the file breaks", func(t *testing.T) {
		var k kept
		k.onSet = func() error {
			if len(k.tats) == many/2 {
				return errors.New("disk full")
			}
			return nil
		}
		_, _, err := importing(t, k.config(), s.url())
		require.ErrorContains(t, err, "dump.cell: disk full (after ")
		assert.Equal(t, []int{0, 1}, []int{k.closed, k.aborted})
	})
	t.Run("the file breaks at last", func(t *testing.T) {
		var k kept
		k.onClose = func() error { return errors.New("disk full") }
		out, _, err := importing(t, k.config(), s.url())
		require.ErrorContains(t, err, "dump.cell: disk full (after 20")
		assert.Equal(t, []int{1, 0}, []int{k.closed, k.aborted})
		assert.Contains(t, out, "dump.cell was not written")
	})
}

func TestAnImportStoppedBeforeTheStartReadsNothing(t *testing.T) {
	s := realRedis(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var k kept
	var out bytes.Buffer
	err := Run(ctx, k.config(), []string{s.url()}, &out, &out)
	require.ErrorIs(t, err, ErrStopped)
	assert.Empty(t, out.String())
	assert.Empty(t, k.target)
}

// A stopped import does not wait for a Redis that does not reply.
func TestAnImportStoppedWhileItWaitsEnds(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() {
		nc, err := l.Accept()
		if err != nil {
			return
		}
		defer nc.Close()
		nc.Read(make([]byte, 1))
		cancel()
		for b := make([]byte, 100); err == nil; {
			_, err = nc.Read(b)
		}
	}()
	start := time.Now()
	err = Run(ctx, Config{Target: "x"}, []string{"redis://" + l.Addr().String()}, &bytes.Buffer{}, &bytes.Buffer{})
	require.EqualError(t, err, "stopped before anything was read")
	assert.Less(t, time.Since(start), patience)
}

func TestErrorsShowNoPassword(t *testing.T) {
	s := realRedis(t)
	store(t, s, "a", in(time.Hour))
	require.NoError(t, s.ConfigSet(t.Context(), "requirepass", "secret").Err())
	for url, want := range map[string]string{
		"redis://:wrong@" + s.addr:       "WRONGPASS",
		"redis://default:no@" + s.addr:   "WRONGPASS",
		"redis://nobody:wrong@" + s.addr: "WRONGPASS",
		s.url():                          "NOAUTH",
	} {
		var k kept
		out, _, err := importing(t, k.config(), url)
		require.ErrorContains(t, err, want)
		assert.NotContains(t, err.Error(), "wrong@")
		assert.NotContains(t, err.Error(), "\n")
		assert.Contains(t, err.Error(), s.addr)
		assert.Empty(t, out)
		assert.Empty(t, k.target, "the target is not touched before the source answers")
	}
	for _, user := range []string{":secret", "default:secret"} {
		var k kept
		_, _, err := importing(t, k.config(), "redis://"+user+"@"+s.addr+"/0")
		require.NoError(t, err)
		assert.Contains(t, k.tats, "a")
	}
	require.NoError(t, s.Do(t.Context(), "AUTH", "secret").Err())
	require.NoError(t, s.Do(t.Context(), "ACL", "SETUSER", "less", "on", ">pw", "~*", "+ping", "+scan", "+time", "+getrange").Err())
	var k kept
	_, _, err := importing(t, k.config(), "redis://less:pw@"+s.addr)
	require.ErrorContains(t, err, "NOPERM")
	assert.Equal(t, []int{0, 1}, []int{k.closed, k.aborted})
	_, _, err = importing(t, Config{}, "redis://less:pw@"+s.addr, "--dry-run")
	require.ErrorContains(t, err, "(after 0 keys, nothing was to be written)")
	target := "redis://" + testserver.Listen(t)
	_, _, err = importing(t, Config{}, "redis://less:pw@"+s.addr, "--to", target)
	require.ErrorContains(t, err, "(after 0 keys, 0 of which are in "+target+" now; another import skips those and goes on)")
}

func TestDatabases(t *testing.T) {
	s := realRedis(t)
	store(t, s, "zero", in(time.Hour))
	require.NoError(t, s.Do(t.Context(), "MOVE", "zero", 2).Err())
	for url, want := range map[string]int{"": 0, "/0": 0, "/2": 1} {
		var k kept
		_, _, err := importing(t, k.config(), s.url()+url)
		require.NoError(t, err)
		assert.Len(t, k.tats, want)
		assert.Equal(t, 2*want, k.db, "the file has the keys in the database of the same number")
	}
	var k kept
	_, _, err := importing(t, k.config(), s.url()+"/99")
	require.ErrorContains(t, err, "DB index is out of range")
}

func TestServersThatCannotBeReachedAreNamed(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	nobody := l.Addr().String()
	l.Close()
	var k kept
	out, _, err := importing(t, k.config(), "redis://me:secret@"+nobody)
	require.Error(t, err)
	assert.Equal(t, "redis://me@"+nobody+": dial tcp "+nobody+": connect: connection refused", err.Error())
	assert.Empty(t, out)

	s := realRedis(t)
	store(t, s, "a", in(time.Hour))
	_, _, err = importing(t, Config{}, s.url(), "--to", "redis://"+nobody)
	require.ErrorContains(t, err, "redis://"+nobody+": dial tcp")
	require.ErrorContains(t, err, "connection refused")

	_, _, err = importing(t, Config{Target: "x", Open: func(string, int) (Sink, error) { return nil, errors.New("exists") }}, s.url())
	require.EqualError(t, err, "x: exists")

	other := realRedis(t)
	_, _, err = importing(t, Config{}, s.url(), "--to", other.url())
	require.ErrorContains(t, err, other.url()+": ERR unknown command 'CL.THROTTLE'")

	ours := testserver.Listen(t)
	require.NoError(t, client(t, ours).Do(t.Context(), "CL.THROTTLE", "a", 1, 1, 60).Err())
	k = kept{}
	_, _, err = importing(t, k.config(), "redis://"+ours)
	require.ErrorContains(t, err, "redis://"+ours+": ERR unknown command 'getrange'")
	assert.Equal(t, 1, k.aborted)
}
