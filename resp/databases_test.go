package resp_test

import (
	"context"
	"errors"
	"log/slog"
	"testing"

	"github.com/stretchr/testify/assert"

	"cellserver/buckets"
	"cellserver/buckets/memory"
	"cellserver/internal/testing/latestore"
	"cellserver/internal/testing/testenv"
	"cellserver/resp"
)

// inDatabases are conversations about several databases with the same replies. Each begins with FLUSHALL.
var inDatabases = map[string][]string{
	"keys of each":           {"SET a 1", "SELECT 1", "GET a", "SET a 2", "SELECT 0", "GET a", "SELECT 1", "GET a", "DEL a", "SELECT 0", "GET a"},
	"what is about all keys": {"SET a 1", "SELECT 3", "DBSIZE", "KEYS *", "SCAN 0", "RANDOMKEY", "SET b 2", "DBSIZE", "KEYS *", "SCAN 0", "RANDOMKEY"},
	"a SELECT that fails":    {"SELECT 2", "SET a 1", "SELECT 16", "SELECT -1", "SELECT x", "SELECT", "SELECT 99999999999", "GET a", "SELECT 0", "GET a"},
	"FLUSHDB":                {"SET a 1", "SELECT 1", "SET a 2", "FLUSHDB", "GET a", "SELECT 0", "GET a", "FLUSHDB ASYNC", "DBSIZE"},
	"FLUSHALL":               {"SET a 1", "SELECT 1", "SET a 2", "FLUSHALL", "GET a", "SELECT 0", "GET a"},
	"INFO":                   {"INFO keyspace", "SET a 1", "SET b 1", "SELECT 9", "SET a 1", "INFO keyspace", "DEL a", "INFO keyspace", "SELECT 10", "FLUSHALL", "INFO keyspace"},
	"MOVE": {"SET a 1", "MOVE a 1", "GET a", "MOVE a 1", "SET a 2", "MOVE a 1", "GET a", "SELECT 1", "GET a", "MOVE a 1",
		"MOVE a 16", "MOVE a x", "MOVE none 16", "MOVE none x", "MOVE none 1", "MOVE none 2", "GET a"},
	"MOVE of an expiry": {"SET a 1 EXAT 9000000000", "MOVE a 1", "SELECT 1", "EXPIRETIME a", "SET b 1", "MOVE b 0", "SELECT 0", "TTL b"},
	"SWAPDB": {"SET a 1", "SWAPDB 0 1", "GET a", "SELECT 1", "GET a", "SWAPDB 1 2", "GET a", "SET a 3", "SWAPDB 2 1", "GET a", "SELECT 2", "GET a",
		"SWAPDB 2 2", "GET a", "SWAPDB 2 16", "GET a", "INFO keyspace"},
	"HELLO leaves it":                {"SELECT 1", "SET a 1", "HELLO 5", "GET a"},
	"AUTH leaves it":                 {"SELECT 1", "SET a 1", "AUTH x", "GET a"},
	"RESET selects 0":                {"SELECT 1", "SET a 1", "RESET", "GET a", "SET b 1", "INFO keyspace"},
	"RESET inside MULTI":             {"SELECT 1", "SET a 1", "MULTI", "SELECT 2", "RESET", "DBSIZE", "SELECT 1", "GET a"},
	"SELECT inside MULTI":            {"MULTI", "SET a 1", "SELECT 1", "SET a 2", "GET a", "SELECT 0", "GET a", "SELECT 1", "EXEC", "GET a", "DBSIZE", "SELECT 0", "GET a"},
	"SELECT inside MULTI that fails": {"SELECT 4", "MULTI", "SELECT 16", "SET a 1", "SELECT x", "SET b 1", "EXEC", "INFO keyspace"},
	"SELECT inside MULTI, discarded": {"SELECT 4", "MULTI", "SELECT 5", "DISCARD", "SET a 1", "INFO keyspace"},
	"SELECT inside MULTI, aborted":   {"SELECT 4", "MULTI", "SELECT 5", "foo", "EXEC", "SET a 1", "INFO keyspace"},
	"SELECT inside MULTI, unwatched": {"SELECT 4", "WATCH a", "SET a 1", "MULTI", "SELECT 5", "EXEC", "GET a"},
	"MOVE inside MULTI": {"MULTI", "SET a 1", "MOVE a 3", "GET a", "MOVE a 3", "SELECT 3", "GET a", "MOVE a 3", "MOVE a 0", "SELECT 0", "INCR a", "MOVE a 16", "EXEC",
		"INFO keyspace"},
	"SWAPDB inside MULTI": {"SET a 1", "SELECT 1", "SET a 2", "SELECT 0", "MULTI", "GET a", "SWAPDB 0 1", "GET a", "INCR a", "SELECT 1", "GET a", "SWAPDB 1 3", "GET a", "DBSIZE",
		"SWAPDB 0 16", "EXEC", "GET a", "INFO keyspace"},
	"FLUSHDB inside MULTI":  {"SET a 1", "SELECT 1", "SET b 1", "MULTI", "FLUSHDB", "DBSIZE", "SELECT 0", "DBSIZE", "EXEC", "INFO keyspace"},
	"FLUSHALL inside MULTI": {"SET a 1", "SELECT 1", "SET b 1", "MULTI", "FLUSHALL", "DBSIZE", "SELECT 0", "DBSIZE", "INFO keyspace", "EXEC"},

	"WATCH of another database":              {"WATCH a", "SELECT 1", "SET a 1", "SELECT 0", "MULTI", "PING", "EXEC"},
	"WATCH, and another now":                 {"WATCH a", "SET a 1", "SELECT 1", "MULTI", "PING", "EXEC"},
	"WATCH in two":                           {"WATCH a", "SELECT 1", "WATCH a", "SET a 1", "SELECT 0", "MULTI", "PING", "EXEC"},
	"WATCH and FLUSHDB":                      {"SET a 1", "WATCH a", "FLUSHDB", "MULTI", "PING", "EXEC"},
	"WATCH and FLUSHDB of another database":  {"SET a 1", "WATCH a", "SELECT 1", "SET a 1", "FLUSHDB", "MULTI", "PING", "EXEC"},
	"WATCH and FLUSHALL":                     {"SET a 1", "WATCH a", "SELECT 1", "FLUSHALL", "MULTI", "PING", "EXEC"},
	"WATCH of no key and FLUSHALL":           {"WATCH a", "SELECT 1", "SET a 1", "FLUSHALL", "MULTI", "PING", "EXEC"},
	"WATCH and SWAPDB":                       {"SET a 1", "WATCH a", "SWAPDB 0 1", "MULTI", "PING", "EXEC"},
	"WATCH and SWAPDB with the key":          {"WATCH a", "SELECT 1", "SET a 1", "SWAPDB 0 1", "MULTI", "PING", "EXEC"},
	"WATCH of no key and SWAPDB":             {"WATCH a", "SET b 1", "SWAPDB 0 1", "MULTI", "PING", "EXEC"},
	"WATCH and SWAPDB of others":             {"SET a 1", "WATCH a", "SWAPDB 1 2", "MULTI", "PING", "EXEC"},
	"WATCH and SWAPDB with itself":           {"SET a 1", "WATCH a", "SWAPDB 0 0", "MULTI", "PING", "EXEC"},
	"WATCH and a change after SWAPDB":        {"WATCH a", "SWAPDB 0 1", "SET a 1", "MULTI", "PING", "EXEC"},
	"WATCH and a change where SWAPDB put it": {"WATCH a", "SET b 1", "SWAPDB 0 1", "SELECT 1", "SET a 1", "MULTI", "PING", "EXEC"},
	"WATCH and MOVE":                         {"SET a 1", "WATCH a", "MOVE a 1", "MULTI", "PING", "EXEC"},
	"WATCH and MOVE to it":                   {"SET a 1", "SELECT 1", "WATCH a", "SELECT 0", "MOVE a 1", "MULTI", "PING", "EXEC"},
	"WATCH and MOVE in vain":                 {"SET a 1", "SELECT 1", "SET a 2", "WATCH a", "MOVE a 0", "MULTI", "PING", "EXEC"},
	"UNWATCH in another database":            {"WATCH a", "SELECT 1", "UNWATCH", "SELECT 0", "SET a 1", "MULTI", "PING", "EXEC"},

	"a script that selects": {`EVAL "return redis.call('select', ARGV[1])" 0 1`, "SET a 1", "INFO keyspace", `EVAL "return redis.call('select', ARGV[1])" 0 16`},
	"a script elsewhere":    {"SELECT 3", `EVAL "return redis.call('incr', KEYS[1])" 1 a`, "GET a", "INFO keyspace"},
	"a script that moves":   {"SET a 1", `EVAL "return redis.call('move', KEYS[1], 3)" 1 a`, `EVAL "return redis.call('swapdb', 3, 4)" 0`, "INFO keyspace"},
	"a script in MULTI": {"MULTI", "SELECT 2", `EVAL "return redis.call('select', 3)" 0`, `EVAL "return redis.call('incr', KEYS[1])" 1 a`, "GET a", "EXEC", "GET a",
		"INFO keyspace"},
	"the client": {"SELECT 7", "CLIENT LIST TYPE master", "MULTI", "SELECT 8", "EXEC", "CLIENT GETNAME"},
}

func TestDatabasesAsRedis(t *testing.T) {
	socket := testenv.Redis(t)
	for name, lines := range inDatabases {
		sent := words(t, append([]string{"FLUSHALL"}, lines...)...) + theEnd
		assert.Equal(t, askRedis(t, socket, sent), askOurs(sent), name)
	}
}

// oneDatabase is a store without databases.
type oneDatabase struct{ buckets.Store }

// A store that has no databases is database 0.
func TestStoreWithoutDatabases(t *testing.T) {
	now := int64(1e18)
	srv := newWrapped(8, func() int64 { return now }, slog.DiscardHandler, func(s *memory.Store) buckets.Store { return oneDatabase{s} })
	c := resp.NewTestConn(srv, now)
	for _, ask := range [][2]string{
		{"SELECT 1", "-ERR DB index is out of range\r\n"},
		{"SELECT -1", "-ERR DB index is out of range\r\n"},
		{"SELECT 0", "+OK\r\n"},
		{"INCR a", ":1\r\n"},
		{"MOVE a 1", "-ERR DB index is out of range\r\n"},
		{"MOVE a 0", "-ERR source and destination objects are the same\r\n"},
		{"SWAPDB 0 1", "-ERR DB index is out of range\r\n"},
		{"SWAPDB 1 0", "-ERR DB index is out of range\r\n"},
		{"SWAPDB 0 0", "+OK\r\n"},
		{"INFO keyspace", "$44\r\n# Keyspace\r\ndb0:keys=1,expires=0,avg_ttl=0\r\n\r\n"},
		{"FLUSHDB", "+OK\r\n"},
		{"INCR a", ":1\r\n"},
		{"FLUSHALL", "+OK\r\n"},
		{"DBSIZE", ":0\r\n"},
		{"MULTI", "+OK\r\n"},
		{"SELECT 1", "+QUEUED\r\n"},
		{"INCR a", "+QUEUED\r\n"},
		{"EXEC", "*2\r\n-ERR DB index is out of range\r\n:1\r\n"},
		{"RESET", "+RESET\r\n"},
		{"GET a", "$1\r\n1\r\n"},
	} {
		assert.Equal(t, ask[1], string(c.Feed(now, []byte(ask[0]+"\r\n"))), ask[0])
	}
}

// A transaction that the store undoes and runs again begins in the database in which EXEC was sent.
func TestTransactionRunsAgainInItsDatabase(t *testing.T) {
	now := int64(1e18)
	srv, _ := lateServer(&now, func(s *latestore.Store) { s.Conflicts = 3 })
	c := resp.NewTestConn(srv, now)
	reply := c.Feed(now, []byte("SELECT 1\r\nMULTI\r\nMOVE a 1\r\nINCR a\r\nSELECT 2\r\nINCRBY a 10\r\nEXEC\r\nGET a\r\nSELECT 1\r\nGET a\r\nSELECT 0\r\nGET a\r\n"))
	assert.Equal(t, "+OK\r\n+OK\r\n+QUEUED\r\n+QUEUED\r\n+QUEUED\r\n+QUEUED\r\n*4\r\n-ERR source and destination objects are the same\r\n:1\r\n+OK\r\n:10\r\n$2\r\n10\r\n+OK\r\n$1\r\n1\r\n+OK\r\n$-1\r\n", string(reply))
}

// undone is a store that runs every transaction and undoes it.
type undone struct{ *memory.Store }

func (s undone) Database(n int) buckets.Store {
	if of, ok := s.Store.Database(n).(*memory.Store); ok {
		return undone{of}
	}
	return nil
}

func (s undone) Atomically(_ context.Context, _ int64, _ [][]byte, _ bool, run func(held buckets.Store)) error {
	run(s.Store)
	return errors.New("undone")
}

// A transaction that the store undoes has selected no database.
func TestTransactionThatFailsSelectsNothing(t *testing.T) {
	now := int64(1e18)
	srv := newWrapped(8, func() int64 { return now }, slog.DiscardHandler, func(s *memory.Store) buckets.Store { return undone{s} })
	c := resp.NewTestConn(srv, now)
	reply := c.Feed(now, []byte("SELECT 1\r\nMULTI\r\nSELECT 2\r\nEXEC\r\nINCR a\r\nINFO keyspace\r\n"))
	assert.Equal(t, "+OK\r\n+OK\r\n+QUEUED\r\n-ERR undone\r\n:1\r\n$44\r\n# Keyspace\r\ndb1:keys=1,expires=0,avg_ttl=0\r\n\r\n", string(reply))
}

// Limit commands on both sides of a SELECT are in two batches, each on its database.
func TestBatchEndsAtSelect(t *testing.T) {
	now := int64(1e18)
	srv, late := lateServer(&now, nil)
	c := resp.NewTestConn(srv, now)
	const limit = "CL.WINDOW a 5 60\r\n"
	const first, second = "*5\r\n:0\r\n:5\r\n:4\r\n:-1\r\n:60\r\n", "*5\r\n:0\r\n:5\r\n:3\r\n:-1\r\n:60\r\n"
	reply := c.Feed(now, []byte(limit+limit+"SELECT 1\r\n"+limit+limit+"SELECT 99\r\n"+limit+"RESET\r\n"+limit))
	const third, ok, none = "*5\r\n:0\r\n:5\r\n:2\r\n:-1\r\n:60\r\n", "+OK\r\n", "-ERR DB index is out of range\r\n"
	assert.Equal(t, first+second+ok+first+second+none+third+"+RESET\r\n"+third, string(reply))
	assert.Equal(t, []int{2, 2, 1, 1}, late.Batches())
}
