package resp

import (
	"fmt"
	"os"
	"runtime"
	"sort"
	"strings"

	"cellserver/buckets"
	"cellserver/resp/command"
)

// infoSection is one part of INFO. Fields that mean what they mean in Redis have Redis's names; what has no meaning here
// is left out.
type infoSection struct {
	name  string
	extra bool // only when asked for by name, or by all
	write func(s *session, b *strings.Builder)
}

var infoSections = []infoSection{
	{name: "Server", write: infoServer},
	{name: "Clients", write: infoClients},
	{name: "Memory", write: infoMemory},
	{name: "Persistence", write: infoPersistence},
	{name: "Stats", write: infoStats},
	{name: "Replication", write: infoReplication},
	{name: "CPU", write: infoCPU},
	{name: "Modules", write: infoModules},
	{name: "Commandstats", extra: true, write: infoCommands},
	{name: "Errorstats", write: infoErrors},
	{name: "Latencystats", extra: true, write: infoLatencies},
	{name: "Cluster", write: infoCluster},
	{name: "Keyspace", write: infoKeyspace},
}

// info is INFO [section ...].
func info(s *session, words [][]byte) {
	asked := make(map[string]bool)
	for _, w := range words[1:] {
		asked[strings.ToLower(string(w))] = true
	}
	every := asked["all"] || asked["everything"]
	usual := len(asked) == 0 || asked["default"]
	var b strings.Builder
	for _, section := range infoSections {
		if !every && !asked[strings.ToLower(section.name)] && (!usual || section.extra) {
			continue
		}
		if b.Len() > 0 {
			b.WriteString("\r\n")
		}
		field(&b, "# "+section.name)
		section.write(s, &b)
	}
	s.out.Text(b.String())
}

// field writes a line: a name, and its value if there is one.
func field(b *strings.Builder, name string, value ...any) {
	b.WriteString(name)
	for _, v := range value {
		fmt.Fprintf(b, ":%v", v)
	}
	b.WriteString("\r\n")
}

func infoServer(s *session, b *strings.Builder) {
	uptime := max(0, s.now-s.srv.started) / second
	field(b, "redis_version", redisVersion)
	field(b, "server_name", serverName)
	field(b, "cellserver_version", s.srv.version)
	field(b, "redis_mode", "standalone")
	field(b, "os", runtime.GOOS+" "+runtime.GOARCH)
	field(b, "arch_bits", 32<<(^uint(0)>>63))
	field(b, "multiplexing_api", "go")
	field(b, "go_version", runtime.Version())
	field(b, "process_id", os.Getpid())
	field(b, "run_id", s.srv.runID)
	field(b, "tcp_port", s.srv.transport.Port())
	field(b, "server_time_usec", s.now/1000)
	field(b, "uptime_in_seconds", uptime)
	field(b, "uptime_in_days", uptime/86400)
}

func infoClients(s *session, b *strings.Builder) {
	held := s.srv.bufferUse()
	field(b, "connected_clients", held.clients)
	field(b, "maxclients", s.bounds.MaxClients)
	field(b, "client_recent_max_input_buffer", held.longestIn)
	field(b, "client_recent_max_output_buffer", held.longestOut)
	field(b, "blocked_clients", 0)
	field(b, "tracking_clients", held.tracking)
}

// bufferUse is what connections hold of requests that have not fully arrived, and of replies that are not read.
type bufferUse struct {
	clients, tracking     int
	bytes                 int64
	longestIn, longestOut int64
}

func (s *Server) bufferUse() (all bufferUse) {
	for _, c := range s.clients() {
		in, out := c.query.Load(), c.unread()
		all.clients++
		all.bytes += in + out
		all.longestIn, all.longestOut = max(all.longestIn, in), max(all.longestOut, out)
		c.mu.Lock()
		all.tracking += int(boolInt(c.tracking))
		c.mu.Unlock()
	}
	return all
}

func infoStats(s *session, b *strings.Builder) {
	st, net, keys := &s.srv.stats, &s.srv.transport.Counts, s.store.Stats()
	var failed uint64
	for _, n := range st.Errors() {
		failed += n
	}
	now := s.srv.rates.Mean()
	field(b, "total_connections_received", net.Accepted.Load())
	field(b, "total_commands_processed", s.srv.commands.calls())
	field(b, "instantaneous_ops_per_sec", int64(now.Calls))
	field(b, "total_net_input_bytes", net.Read.Load())
	field(b, "total_net_output_bytes", net.Written.Load())
	field(b, "instantaneous_input_kbps", fmt.Sprintf("%.2f", now.Read/1024))
	field(b, "instantaneous_output_kbps", fmt.Sprintf("%.2f", now.Written/1024))
	field(b, "rejected_connections", net.Rejected.Load())
	field(b, "client_output_buffer_limit_disconnections", net.Dropped.Load())
	field(b, "sync_full", 0) // there are no replicas
	field(b, "sync_partial_ok", 0)
	field(b, "sync_partial_err", 0)
	field(b, "expired_keys", keys.Expired-min(keys.Expired, st.Expired.Load()))
	field(b, "evicted_keys", keys.Evicted-min(keys.Evicted, st.Evicted.Load()))
	field(b, "keyspace_hits", st.Hits.Load())
	field(b, "keyspace_misses", st.Misses.Load())
	field(b, "pubsub_channels", 0) // nobody can subscribe
	field(b, "pubsub_patterns", 0)
	field(b, "latest_fork_usec", 0) // snapshots are written without
	field(b, "tracking_total_keys", 0)
	field(b, "tracking_total_items", 0)
	field(b, "tracking_total_prefixes", 0)
	field(b, "total_error_replies", failed)
}

// infoReplication says what a Redis without replicas says.
func infoReplication(s *session, b *strings.Builder) {
	field(b, "role", "master")
	field(b, "connected_slaves", 0)
	field(b, "master_failover_state", "no-failover")
	field(b, "master_replid", s.srv.runID)
	field(b, "master_replid2", strings.Repeat("0", len(s.srv.runID)))
	field(b, "master_repl_offset", 0)
	field(b, "second_repl_offset", -1)
	field(b, "repl_backlog_active", 0)
	field(b, "repl_backlog_size", 0)
	field(b, "repl_backlog_first_byte_offset", 0)
	field(b, "repl_backlog_histlen", 0)
}

func infoCPU(_ *session, b *strings.Builder) {
	user, system := cpuSeconds()
	field(b, "used_cpu_sys", fmt.Sprintf("%.6f", system))
	field(b, "used_cpu_user", fmt.Sprintf("%.6f", user))
	field(b, "used_cpu_sys_children", "0.000000") // there are none
	field(b, "used_cpu_user_children", "0.000000")
}

func infoModules(_ *session, b *strings.Builder) {
	field(b, "module", fmt.Sprintf("name=%s,ver=%d,api=1,filters=0,usedby=[],using=[],options=[]", command.ModuleName, moduleVersion))
}

func infoCommands(s *session, b *strings.Builder) {
	s.srv.commands.each(func(c *entry) {
		calls, rejected, failed := c.Calls.Load(), c.Rejected.Load(), c.Failed.Load()
		if calls+rejected+failed > 0 {
			micros := c.Nanos.Load() / 1000
			field(b, "cmdstat_"+c.FullName(), fmt.Sprintf("calls=%d,usec=%d,usec_per_call=%.2f,rejected_calls=%d,failed_calls=%d",
				calls, micros, float64(micros)/float64(max(1, calls)), rejected, failed))
		}
	})
}

func infoLatencies(s *session, b *strings.Builder) {
	s.srv.commands.each(func(c *entry) {
		if h := c.Took(); h != nil {
			micros := func(percent float64) float64 { return float64(h.Percentile(percent)) / 1000 }
			field(b, "latency_percentiles_usec_"+c.FullName(),
				fmt.Sprintf("p50=%.3f,p99=%.3f,p99.9=%.3f", micros(50), micros(99), micros(99.9)))
		}
	})
}

func infoErrors(s *session, b *strings.Builder) {
	errors := s.srv.stats.Errors()
	prefixes := make([]string, 0, len(errors))
	for prefix := range errors {
		prefixes = append(prefixes, prefix)
	}
	sort.Strings(prefixes)
	for _, prefix := range prefixes {
		field(b, "errorstat_"+prefix, fmt.Sprintf("count=%d", errors[prefix]))
	}
}

func infoCluster(_ *session, b *strings.Builder) { field(b, "cluster_enabled", 0) }

func infoKeyspace(s *session, b *strings.Builder) {
	if n, err := s.store.Len(s.srv.ctx, s.now); err == nil && n > 0 {
		field(b, "db0", fmt.Sprintf("keys=%d,expires=%d,avg_ttl=%d", n, n, s.meanTTL()/millisecond))
	}
}

// meanTTL returns how many nanoseconds it is until a key expires, on average, or 0 if the store cannot tell.
func (s *session) meanTTL() int64 {
	if sampler, ok := s.store.(buckets.TTLSampler); ok {
		return sampler.MeanTTL(s.now)
	}
	return 0
}
