package info

import (
	"fmt"
	"maps"
	"os"
	"runtime"
	"slices"
	"strings"

	"cellserver/buckets"
	"cellserver/resp/stats"
)

// Server is what INFO tells of the program.
type Server struct {
	RedisVersion string // the Redis that this server is like
	Name         string
	Version      string
	RunID        string
	Port         int
	Now, Started int64 // nanoseconds of Unix time

	Module        string // the one module, which is built in
	ModuleVersion int
}

func (s Server) write(t *text) {
	uptime := max(0, s.Now-s.Started) / second
	t.field("redis_version", s.RedisVersion)
	t.field("server_name", s.Name)
	t.field("cellserver_version", s.Version)
	t.field("redis_mode", "standalone")
	t.field("os", runtime.GOOS+" "+runtime.GOARCH)
	t.field("arch_bits", 32<<(^uint(0)>>63))
	t.field("multiplexing_api", "go")
	t.field("go_version", runtime.Version())
	t.field("process_id", os.Getpid())
	t.field("run_id", s.RunID)
	t.field("tcp_port", s.Port)
	t.field("server_time_usec", s.Now/1000)
	t.field("uptime_in_seconds", uptime)
	t.field("uptime_in_days", uptime/86400)
}

// writeReplication writes what a Redis without replicas tells.
func (s Server) writeReplication(t *text) {
	t.field("role", "master")
	t.field("connected_slaves", 0)
	t.field("master_failover_state", "no-failover")
	t.field("master_replid", s.RunID)
	t.field("master_replid2", strings.Repeat("0", len(s.RunID)))
	t.field("master_repl_offset", 0)
	t.field("second_repl_offset", -1)
	t.field("repl_backlog_active", 0)
	t.field("repl_backlog_size", 0)
	t.field("repl_backlog_first_byte_offset", 0)
	t.field("repl_backlog_histlen", 0)
}

func (s Server) writeModules(t *text) {
	t.fieldf("module", "name=%s,ver=%d,api=1,filters=0,usedby=[],using=[],options=[]", s.Module, s.ModuleVersion)
}

// Clients is what INFO tells of the connections.
type Clients struct {
	Connected, Tracking int
	Max                 int64
	Bytes               int64 // of requests that have not fully arrived, and of replies that are not sent
	LongestIn           int64 // the most bytes of one request among those
	LongestOut          int64 // the most bytes of replies to one client among those
}

func (c Clients) write(t *text) {
	t.field("connected_clients", c.Connected)
	t.field("maxclients", c.Max)
	t.field("client_recent_max_input_buffer", c.LongestIn)
	t.field("client_recent_max_output_buffer", c.LongestOut)
	t.field("blocked_clients", 0)
	t.field("tracking_clients", c.Tracking)
}

// Stats is what INFO tells of the work that was done.
type Stats struct {
	Counters *stats.Counters
	Rate     stats.Rate
	Keys     buckets.Stats
	Calls    uint64

	Accepted, Rejected uint64 // connections
	Dropped            uint64 // connections that did not read their replies
	Read, Written      uint64 // bytes
	UnknownScripts     uint64 // that were refused
}

func (s Stats) write(t *text) {
	failed := uint64(0)
	for _, n := range s.Counters.Errors() {
		failed += n
	}
	t.field("total_connections_received", s.Accepted)
	t.field("total_commands_processed", s.Calls)
	t.field("instantaneous_ops_per_sec", int64(s.Rate.Calls))
	t.field("total_net_input_bytes", s.Read)
	t.field("total_net_output_bytes", s.Written)
	t.fieldf("instantaneous_input_kbps", "%.2f", s.Rate.Read/1024)
	t.fieldf("instantaneous_output_kbps", "%.2f", s.Rate.Written/1024)
	t.field("rejected_connections", s.Rejected)
	t.field("client_output_buffer_limit_disconnections", s.Dropped)
	t.field("sync_full", 0) // there are no replicas
	t.field("sync_partial_ok", 0)
	t.field("sync_partial_err", 0)
	t.field("expired_keys", s.Keys.Expired-min(s.Keys.Expired, s.Counters.Expired.Load()))
	t.field("evicted_keys", s.Keys.Evicted-min(s.Keys.Evicted, s.Counters.Evicted.Load()))
	t.field("keyspace_hits", s.Counters.Hits.Load())
	t.field("keyspace_misses", s.Counters.Misses.Load())
	t.field("pubsub_channels", 0) // there is no SUBSCRIBE
	t.field("pubsub_patterns", 0)
	t.field("latest_fork_usec", 0) // snapshots are written without a fork
	t.field("tracking_total_keys", 0)
	t.field("tracking_total_items", 0)
	t.field("tracking_total_prefixes", 0)
	t.field("unknown_scripts", s.UnknownScripts)
	t.field("total_error_replies", failed)
}

func (s Stats) writeErrors(t *text) {
	errors := s.Counters.Errors()
	for _, prefix := range slices.Sorted(maps.Keys(errors)) {
		t.fieldf("errorstat_"+prefix, "count=%d", errors[prefix])
	}
}

func writeCPU(t *text) {
	user, system := cpuSeconds()
	t.fieldf("used_cpu_sys", "%.6f", system)
	t.fieldf("used_cpu_user", "%.6f", user)
	t.field("used_cpu_sys_children", "0.000000") // there are no children
	t.field("used_cpu_user_children", "0.000000")
}

func writeCommands(t *text, s Source) {
	s.EachCommand(func(name string, c *stats.Command) {
		calls, rejected, failed := c.Calls.Load(), c.Rejected.Load(), c.Failed.Load()
		if calls+rejected+failed > 0 {
			micros := c.Nanos.Load() / 1000
			t.fieldf("cmdstat_"+name, "calls=%d,usec=%d,usec_per_call=%.2f,rejected_calls=%d,failed_calls=%d",
				calls, micros, float64(micros)/float64(max(1, calls)), rejected, failed)
		}
	})
}

func writeLatencies(t *text, s Source) {
	s.EachCommand(func(name string, c *stats.Command) {
		if h := c.Took(); h != nil {
			micros := func(percent float64) float64 { return float64(h.Percentile(percent)) / 1000 }
			t.fieldf("latency_percentiles_usec_"+name, "p50=%.3f,p99=%.3f,p99.9=%.3f", micros(50), micros(99), micros(99.9))
		}
	})
}

// Keyspace is what INFO tells of the keys of one database that has keys.
type Keyspace struct {
	Database int   // its number
	Keys     int64 // greater than 0
	Lasting  int64 // those that never expire
	MeanTTL  int64 // nanoseconds; 0 if the store cannot tell
	Index    int64 // bytes of the index
}

func writeKeyspace(t *text, s Source) {
	for _, k := range s.Keyspace() {
		t.fieldf(fmt.Sprint("db", k.Database), "keys=%d,expires=%d,avg_ttl=%d", k.Keys, k.Keys-k.Lasting, k.MeanTTL/millisecond)
	}
}
