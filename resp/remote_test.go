package resp_test

import (
	"context"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"cellserver/buckets"
	"cellserver/buckets/memory"
	"cellserver/internal/hashslot"
	"cellserver/internal/testing/latestore"
	"cellserver/resp"
)

// farStore makes a late store one whose keys are in another program: it has one database, and keys of different slots apart.
type farStore struct {
	buckets.Store
	buckets.Atomic
	buckets.Watcher
	stats buckets.RemoteStats
}

func (r *farStore) Remote() buckets.RemoteStats { return r.stats }

// Atomically cannot hold all keys.
func (r *farStore) Atomically(ctx context.Context, now int64, keys [][]byte, everything bool, run func(held buckets.Store)) error {
	if everything {
		return buckets.ErrNotOffered
	}
	return r.Atomic.Atomically(ctx, now, keys, false, run)
}

// remoteFailures are the errors of operations on keys of these names.
var remoteFailures = map[string]error{
	"away":     &buckets.Unavailable{Reason: "10.0.0.1:6379 does not answer:\r\nconnection refused"},
	"foreign":  buckets.ErrForeignValue,
	"replicas": buckets.ErrTooFewReplicas,
	"never":    buckets.ErrNotOffered,
}

func failRemote(op *buckets.Op) error {
	keys := append([][]byte(nil), op.Keys...)
	switch op.Code {
	case buckets.OpExists, buckets.OpDelete:
		return nil // key by key
	case buckets.OpRename:
		keys = append(keys, op.Key, op.To)
	case buckets.OpTakeAll:
		for i := range op.Checks {
			keys = append(keys, op.Checks[i].Key)
		}
	case buckets.OpUpdate:
	default:
		keys = append(keys, op.Key)
	}
	for _, key := range keys {
		if err := remoteFailures[string(key)]; err != nil {
			return err
		}
		if hashslot.Of(key) != hashslot.Of(keys[0]) {
			return buckets.ErrCrossSlot
		}
	}
	return nil
}

func newRemote(inner *memory.Store) *farStore {
	late := latestore.New(inner)
	late.Fail = failRemote
	return &farStore{Store: late, Atomic: late, Watcher: late, stats: buckets.RemoteStats{
		Engine: "valkey 9.1.0", Topology: "cluster", Mechanism: "ifeq", Nodes: 3, Away: 1, RoundTrips: 4, Commands: 5, Decisions: 6, Conflicts: 7,
		Local: 8, Known: 9, Failures: 10, Timeouts: 11, Admitted: 12, Refused: 13, ClockOffset: -14_999, ClockBound: 15_001,
	}}
}

func TestRepliesOverARemoteStore(t *testing.T) {
	const taken = "*5\r\n:0\r\n:5\r\n:4\r\n:-1\r\n:60\r\n"
	const down = "-CLUSTERDOWN 10.0.0.1:6379 does not answer:  connection refused\r\n"
	const crossSlot = "-CROSSSLOT Keys in request don't hash to the same slot\r\n"
	now := int64(1e18)
	srv := newWrapped(8, func() int64 { return now }, slog.DiscardHandler, func(s *memory.Store) buckets.Store { return newRemote(s) })
	c := resp.NewTestConn(srv, now)
	for _, row := range []struct{ send, want string }{
		{"CL.WINDOW k 5 60", taken},
		{"CL.WINDOW away 5 60", down},
		{"CL.WINDOW k 5 60\r\nCL.WINDOW away 5 60\r\nCL.WINDOW l 5 60", "*5\r\n:0\r\n:5\r\n:3\r\n:-1\r\n:60\r\n" + down + taken},
		{"TTL away\r\nINCR away\r\nMGET a away\r\nRENAME away k", down + down + down + down},
		{"CL.WINDOW foreign 5 60", "-ERR the key holds a value that cellserver has not written\r\n"},
		{"CL.WINDOW replicas 5 60", "-NOREPLICAS Not enough good replicas to write.\r\n"},
		{"CL.WINDOW never 5 60", "-ERR not possible while the keys are in an engine (the option store)\r\n"},

		{"MSET a 1 b 2", crossSlot},
		{"MSET {x}a 1 {x}b 2", "+OK\r\n"},
		{"SET c 3", "+OK\r\n"},
		{"MGET {x}a c nosuch {x}b k c", "*6\r\n$1\r\n1\r\n$1\r\n3\r\n$-1\r\n$1\r\n2\r\n$-1\r\n$1\r\n3\r\n"},
		{"MULTI\r\nMGET {x}a c\r\nEXEC", "+OK\r\n+QUEUED\r\n*1\r\n*2\r\n$1\r\n1\r\n$1\r\n3\r\n"},
		{"EXISTS {x}a c nosuch k\r\nTOUCH c k", ":3\r\n:2\r\n"},
		{"RENAME c d", crossSlot},
		{"RENAMENX {x}a {x}c", ":1\r\n"},
		{"CL.ALL WINDOW a 5 60 1 WINDOW b 5 60 1", crossSlot},
		{"CL.ALL WINDOW {y}a 5 60 1 WINDOW {y}b 5 60 1", "*4\r\n:0\r\n:0\r\n" + taken + taken},
		{"DEL {x}c c {x}b nosuch\r\nUNLINK k l", ":3\r\n:2\r\n"},

		{"SELECT 0", "+OK\r\n"},
		{"SELECT 1\r\nSELECT 99", "-ERR SELECT is not allowed in cluster mode\r\n-ERR SELECT is not allowed in cluster mode\r\n"},
		{"SELECT x", "-ERR value is not an integer or out of range\r\n"},
		{"MOVE {y}a 1\r\nMOVE nosuch x", "-ERR MOVE is not allowed in cluster mode\r\n-ERR MOVE is not allowed in cluster mode\r\n"},
		{"SWAPDB 0 1", "-ERR SWAPDB is not allowed in cluster mode\r\n"},
		{"CLUSTER KEYSLOT k\r\nCLUSTER INFO", ":7629\r\n-ERR This instance has cluster support disabled\r\n"},
		{"WAIT 1 0", ":0\r\n"},
		{"SET u 1\r\nMEMORY USAGE u\r\nMEMORY USAGE nosuch\r\nOBJECT ENCODING u",
			"+OK\r\n-ERR not possible while the keys are in an engine (the option store)\r\n$-1\r\n$3\r\nint\r\n"},

		{"SET LIMITER:1 1\r\nSET LIMITER:2 1\r\nEVALSHA " + sha1Reset + " 1 LIMITER:*", "+OK\r\n+OK\r\n:2\r\n"},
		{"MULTI\r\nDBSIZE\r\nEXEC", "+OK\r\n+QUEUED\r\n-ERR not possible while the keys are in an engine (the option store)\r\n"},
		{"MULTI\r\nSELECT 1\r\nCL.WINDOW m 5 60\r\nCL.WINDOW away 5 60\r\nEXEC",
			"+OK\r\n+QUEUED\r\n+QUEUED\r\n+QUEUED\r\n*3\r\n-ERR SELECT is not allowed in cluster mode\r\n" + taken + down},
	} {
		assert.Equal(t, row.want, string(c.Feed(now, []byte(row.send+"\r\n"))), row.send)
	}
	text := string(c.Feed(now, []byte("INFO errorstats\r\n")))
	assert.Contains(t, text, "errorstat_CLUSTERDOWN:count=7\r\n")
	assert.Contains(t, text, "errorstat_CROSSSLOT:count=3\r\n")
}

func TestInfoOfARemoteStore(t *testing.T) {
	now := int64(1e18)
	srv := newWrapped(8, func() int64 { return now }, slog.DiscardHandler, func(s *memory.Store) buckets.Store { return newRemote(s) })
	c := resp.NewTestConn(srv, now)
	c.Feed(now, []byte("SET k 1\r\n"))
	const store = "# Store\r\nstore_engine:valkey 9.1.0\r\nstore_topology:cluster\r\nstore_mechanism:ifeq\r\nstore_nodes:3\r\nstore_nodes_away:1\r\n" +
		"store_round_trips:4\r\nstore_commands:5\r\nstore_decisions:6\r\nstore_conflicts:7\r\nstore_local_refusals:8\r\nstore_known_keys:9\r\n" +
		"store_failures:10\r\nstore_timeouts:11\r\nstore_failure_admitted:12\r\nstore_failure_refused:13\r\n" +
		"store_clock_offset_usec:-14\r\nstore_clock_bound_usec:15\r\n"
	assert.Contains(t, string(c.Feed(now, []byte("INFO store\r\n"))), store)
	all := string(c.Feed(now, []byte("INFO\r\n")))
	assert.Contains(t, all, store)
	assert.Contains(t, all, "# Keyspace\r\n")
	assert.NotContains(t, all, "db0:", "INFO does not count the keys of another program")
	inMemory := newQuiet(1, &now)
	assert.NotContains(t, string(resp.NewTestConn(inMemory, now).Feed(now, []byte("INFO everything\r\n"))), "# Store")
}

// waiting is a remote store whose every Apply takes as long as its requests' quantities say, in milliseconds.
type waiting struct{ *farStore }

func (w waiting) Apply(ctx context.Context, now int64, ops []buckets.Op) {
	longest := int64(1)
	for i := range ops {
		if ops[i].Code == buckets.OpTake {
			longest = max(longest, ops[i].Quantity)
		}
	}
	time.Sleep(time.Duration(longest) * time.Millisecond)
	w.farStore.Apply(ctx, now, ops)
}

// Each request that waits for another program is accounted with all the time that it waited, also if others waited with it, and the
// time of the commands behind it is later.
func TestWaitsForARemoteStoreAreMeasured(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSubject(t, waiting{newRemote(memory.NewStore(1))})
		c := resp.NewTestConn(s.Server, s.now())
		feed := func(lines ...string) string {
			return string(c.Feed(s.now(), []byte(strings.Join(lines, "\r\n")+"\r\n")))
		}
		feed("CONFIG SET slowlog-log-slower-than 30000 latency-monitor-threshold 30")
		feed("CL.WINDOW a 100 60 40", "CL.WINDOW b 100 60 20", "CL.WINDOW c 100 60 5")
		feed("CL.WINDOW d 100 60 35")
		feed("CL.WINDOW e 100 60 5", "SET k 1", "GET k")
		text := feed("INFO commandstats")
		assert.Contains(t, text, "cmdstat_cl.window:calls=5,usec=160000,")
		assert.Contains(t, text, "cmdstat_set:calls=1,usec=1000,")
		assert.Contains(t, text, "cmdstat_get:calls=1,usec=1000,")
		slow := feed("SLOWLOG GET")
		require.True(t, strings.HasPrefix(slow, "*2\r\n"), slow)
		assert.Contains(t, slow, ":35000\r\n")
		assert.Contains(t, slow, ":40000\r\n*2\r\n$9\r\nCL.WINDOW\r\n$35\r\n(and others with it, in a pipeline)\r\n")
		assert.Contains(t, feed("LATENCY LATEST"), "$12\r\nfast-command\r\n")

		began := s.now()
		times := feed("TIME", "CL.WINDOW f 100 60 30", "TIME")
		assert.Equal(t, int64(30*time.Millisecond), s.now()-began)
		first, second, _ := strings.Cut(times, "*5\r\n")
		assert.NotContains(t, second, first, "the commands behind a wait see a later time")
	})
}
