package test

import (
	"context"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"cellserver/internal/testing/testenv"
)

// database returns a client of one database of the server.
func (s *server) database(t *testing.T, n int) *redis.Client {
	t.Helper()
	c := redis.NewClient(&redis.Options{Addr: s.addr, DB: n})
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// Counters and limits in several databases, some of which have been swapped, flushed and moved between, are the same after a
// restart, whichever file they are in, and also after the end of a process that had no time to stop.
func TestRestartKeepsCountersAndDatabases(t *testing.T) {
	journal := []string{"--appendonly", "yes", "--appendfsync", "always"}
	for _, row := range []struct {
		name string
		args []string
		save string // a command after the changes, "" is none
		end  os.Signal
	}{
		{"a journal", journal, "", syscall.SIGKILL},
		{"a journal that is rewritten", journal, "BGREWRITEAOF", syscall.SIGKILL},
		{"a snapshot", nil, "SAVE", syscall.SIGKILL},
		{"a snapshot at the end", []string{"--save", "3600 1"}, "", syscall.SIGTERM},
	} {
		t.Run(row.name, func(t *testing.T) {
			ctx := context.Background()
			dir := t.TempDir()
			args := append([]string{"--dir", dir}, row.args...)
			s := start(t, args...)
			dbs := make([]*redis.Client, 16)
			for n := range dbs {
				dbs[n] = s.database(t, n)
			}
			require.NoError(t, dbs[0].Set(ctx, "hits", 41, time.Hour).Err())
			require.NoError(t, dbs[0].Incr(ctx, "hits").Err())
			require.NoError(t, dbs[0].Set(ctx, "moved", -7, 0).Err())
			require.NoError(t, dbs[0].Move(ctx, "moved", 15).Err())
			require.NoError(t, dbs[1].IncrBy(ctx, "hits", 1<<60).Err())
			require.NoError(t, dbs[1].Do(ctx, "CL.THROTTLE", "limit", 4, 5, 3600, 3).Err())
			require.NoError(t, dbs[1].Do(ctx, "CL.ZSLIDE", "log", 5, 3600, 2).Err())
			require.NoError(t, dbs[2].Set(ctx, "forgotten", 1, 0).Err())
			require.NoError(t, dbs[1].Do(ctx, "SWAPDB", 1, 2).Err())
			require.NoError(t, dbs[1].FlushDB(ctx).Err())
			require.NoError(t, dbs[1].Set(ctx, "hits", 5, 0).Err())
			if row.save != "" {
				require.NoError(t, dbs[0].Do(ctx, row.save).Err())
			}
			if row.save == "BGREWRITEAOF" {
				s.raw(t).until("aof_rewrite_in_progress", "0")
				require.NoError(t, dbs[0].Do(ctx, "SWAPDB", 2, 3).Err())
				require.NoError(t, dbs[0].Do(ctx, "SWAPDB", 3, 2).Err())
			}
			s.signal(row.end)
			_ = s.exit()

			s = start(t, args...)
			s.says(" keys=6 ")
			for n := range dbs {
				dbs[n] = s.database(t, n)
			}
			sizes := make(map[int]int64)
			for n, db := range dbs {
				if size := db.DBSize(ctx).Val(); size > 0 {
					sizes[n] = size
				}
			}
			assert.Equal(t, map[int]int64{0: 1, 1: 1, 2: 3, 15: 1}, sizes)
			assert.Equal(t, "42", dbs[0].Get(ctx, "hits").Val())
			assert.Greater(t, dbs[0].TTL(ctx, "hits").Val(), time.Hour-10*time.Minute)
			assert.Equal(t, "5", dbs[1].Get(ctx, "hits").Val())
			assert.Equal(t, time.Duration(-1), dbs[1].TTL(ctx, "hits").Val(), "it lasts")
			assert.Equal(t, "1152921504606846976", dbs[2].Get(ctx, "hits").Val())
			assert.Equal(t, "-7", dbs[15].Get(ctx, "moved").Val())
			for _, line := range [][]any{{"CL.THROTTLE", "limit", 4, 5, 3600, 0}, {"CL.ZSLIDE", "log", 5, 3600, 0}} {
				five, err := dbs[2].Do(ctx, line...).Int64Slice()
				require.NoError(t, err)
				assert.Equal(t, map[any]int64{"limit": 2, "log": 3}[line[1]], five[2], "%v", line)
			}
			s.signal(syscall.SIGKILL)
			_ = s.exit()

			files := names(t, dir)
			require.Len(t, files, 1)
			path := filepath.Join(dir, files[0])
			stdout, _, code := run(t, nil, "check", path)
			assert.Zero(t, code)
			assert.Contains(t, stdout, "counter ")
			assert.Contains(t, stdout, "; databases 16\n")
			before, err := os.ReadFile(path)
			require.NoError(t, err)
			stdout, stderr, code := run(t, nil, append(args, "--databases", "15", "--port", freePort(t))...)
			assert.Equal(t, 1, code)
			assert.Empty(t, stdout)
			assert.Contains(t, stderr, path+" has keys of database 15, and there are only 15 databases: start with databases 16, or more\n")
			after, err := os.ReadFile(path)
			require.NoError(t, err)
			assert.Equal(t, before, after, "a server that does not start leaves the file as it is")
		})
	}
}

// Clients select a database when they connect.
func TestDatabasesOfClients(t *testing.T) {
	s := start(t, "--databases", "4")
	for n := range 4 {
		assert.Equal(t, []int64{0, 5, 4, -1, 60}, integers(t, s.database(t, n), "CL.WINDOW", "k", 5, 60), "go-redis, database %d", n)
	}
	assert.ErrorContains(t, s.database(t, 4).Ping(t.Context()).Err(), "ERR DB index is out of range")
	complaints.take() // of go-redis about database 4

	cli := testenv.Tool(t, "redis-cli")
	assert.Equal(t, "0\n5\n3\n-1\n60\n", converse(t, "", cli, "-p", s.port, "-n", "1", "CL.WINDOW", "k", "5", "60"))
	assert.Equal(t, "0\n5\n4\n-1\n60\n", converse(t, "", cli, "-p", s.port, "CL.WINDOW", "k", "5", "60", "0"), "nobody has taken from database 0")
	assert.Equal(t, "databases\n4\n", converse(t, "", cli, "-p", s.port, "CONFIG", "GET", "databases"))
	assert.Equal(t, "1) \"k\"\n", converse(t, "", cli, "-p", s.port, "-n", "3", "--no-raw", "KEYS", "*"))

	keyspace, err := s.database(t, 3).InfoMap(t.Context(), "keyspace").Result()
	require.NoError(t, err)
	assert.Len(t, keyspace["Keyspace"], 4)
}
