package resp

import (
	"fmt"
	"os"
	"runtime"
	"runtime/metrics"
	"sort"
	"strings"
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
	s.out.text(b.String())
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
	field(b, "tcp_port", s.srv.port())
	field(b, "server_time_usec", s.now/1000)
	field(b, "uptime_in_seconds", uptime)
	field(b, "uptime_in_days", uptime/86400)
}

func infoClients(s *session, b *strings.Builder) {
	field(b, "connected_clients", len(s.srv.clients()))
	field(b, "maxclients", s.limits.MaxClients)
	field(b, "blocked_clients", 0)
}

// memoryNow is what the process holds, in bytes.
type memoryNow struct{ used, heap, rss uint64 }

func readMemory() memoryNow {
	samples := []metrics.Sample{
		{Name: "/memory/classes/heap/objects:bytes"},
		{Name: "/memory/classes/total:bytes"},
		{Name: "/memory/classes/heap/released:bytes"},
	}
	metrics.Read(samples)
	m := memoryNow{used: samples[0].Value.Uint64(), heap: samples[1].Value.Uint64() - samples[2].Value.Uint64()}
	if m.rss = residentBytes(); m.rss == 0 {
		m.rss = m.heap
	}
	return m
}

func infoMemory(s *session, b *strings.Builder) {
	m, keys := readMemory(), s.store.Stats()
	used, peak, limit := uint64(keys.Bytes), uint64(keys.Peak), uint64(keys.Limit)
	policy := "noeviction"
	if keys.Evicts {
		policy = "evict-soonest"
	}
	field(b, "used_memory", used)
	field(b, "used_memory_human", human(used))
	field(b, "used_memory_rss", m.rss)
	field(b, "used_memory_rss_human", human(m.rss))
	field(b, "used_memory_peak", peak)
	field(b, "used_memory_peak_human", human(peak))
	field(b, "used_memory_dataset", used)
	field(b, "allocator_active", m.heap)
	field(b, "maxmemory", limit)
	field(b, "maxmemory_human", human(limit))
	field(b, "maxmemory_policy", policy)
	field(b, "mem_fragmentation_ratio", fmt.Sprintf("%.2f", float64(m.rss)/float64(max(1, used))))
	field(b, "mem_allocator", "go")
}

// human is a size as Redis shows it: 1.50M.
func human(bytes uint64) string {
	if bytes < 1024 {
		return fmt.Sprintf("%dB", bytes)
	}
	f := float64(bytes)
	for _, unit := range "KMGT" {
		f /= 1024
		if f < 1024 || unit == 'T' {
			return fmt.Sprintf("%.2f%c", f, unit)
		}
	}
	return ""
}

func infoStats(s *session, b *strings.Builder) {
	st, keys := &s.srv.stats, s.store.Stats()
	var failed uint64
	for _, n := range st.errorsByPrefix() {
		failed += n
	}
	field(b, "total_connections_received", st.connections.Load())
	field(b, "total_commands_processed", s.srv.table.calls())
	field(b, "total_net_input_bytes", st.read.Load())
	field(b, "total_net_output_bytes", st.written.Load())
	field(b, "rejected_connections", st.rejected.Load())
	field(b, "client_output_buffer_limit_disconnections", st.dropped.Load())
	field(b, "expired_keys", keys.Expired)
	field(b, "evicted_keys", keys.Evicted)
	field(b, "keyspace_hits", st.hits.Load())
	field(b, "keyspace_misses", st.misses.Load())
	field(b, "total_error_replies", failed)
}

func infoReplication(s *session, b *strings.Builder) {
	field(b, "role", "master")
	field(b, "connected_slaves", 0)
	field(b, "master_replid", s.srv.runID)
	field(b, "master_repl_offset", 0)
}

func infoCPU(_ *session, b *strings.Builder) {
	user, system := cpuSeconds()
	field(b, "used_cpu_sys", fmt.Sprintf("%.6f", system))
	field(b, "used_cpu_user", fmt.Sprintf("%.6f", user))
}

func infoModules(_ *session, b *strings.Builder) {
	field(b, "module", fmt.Sprintf("name=%s,ver=%d,api=1,filters=0,usedby=[],using=[],options=[]", moduleName, moduleVersion))
}

func infoCommands(s *session, b *strings.Builder) {
	s.srv.table.each(func(c *command) {
		calls, rejected, failed := c.calls.Load(), c.rejected.Load(), c.failed.Load()
		if calls+rejected+failed > 0 {
			micros := c.nanos.Load() / 1000
			field(b, "cmdstat_"+c.fullName(), fmt.Sprintf("calls=%d,usec=%d,usec_per_call=%.2f,rejected_calls=%d,failed_calls=%d",
				calls, micros, float64(micros)/float64(max(1, calls)), rejected, failed))
		}
	})
}

func infoLatencies(s *session, b *strings.Builder) {
	s.srv.table.each(func(c *command) {
		if h := c.took.Load(); h != nil {
			micros := func(percent float64) float64 { return float64(h.percentile(percent)) / 1000 }
			field(b, "latency_percentiles_usec_"+c.fullName(),
				fmt.Sprintf("p50=%.3f,p99=%.3f,p99.9=%.3f", micros(50), micros(99), micros(99.9)))
		}
	})
}

func infoErrors(s *session, b *strings.Builder) {
	errors := s.srv.stats.errorsByPrefix()
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
	if n := s.store.Keys(); n > 0 {
		field(b, "db0", fmt.Sprintf("keys=%d,expires=%d,avg_ttl=%d", n, n, s.store.MeanTTL(s.now)/millisecond))
	}
}

// memoryStats is MEMORY STATS: the numbers of INFO memory by the names that command uses.
func memoryStats(s *session, _ [][]byte) {
	m, keys := readMemory(), s.store.Stats()
	perKey := int64(0)
	if keys.Keys > 0 {
		perKey = keys.Bytes / keys.Keys
	}
	out := &s.out
	out.mapOf(6)
	for _, number := range []struct {
		name string
		n    int64
	}{
		{"total.allocated", int64(m.used)},
		{"keys.count", keys.Keys},
		{"keys.bytes-per-key", perKey},
		{"dataset.bytes", keys.Bytes},
		{"allocator.resident", int64(m.rss)},
	} {
		out.bulkString(number.name)
		out.int(number.n)
	}
	out.bulkString("fragmentation")
	out.double(float64(m.rss) / float64(max(1, m.used)))
}

// memoryDoctor says in a sentence what stands out.
func memoryDoctor(s *session, _ [][]byte) {
	m := readMemory()
	if m.rss > 64<<20 && m.rss > 2*m.used {
		s.out.text("Sam, the process holds " + human(m.rss) + " for " + human(m.used) +
			" in use: after a flood of keys has expired, MEMORY PURGE gives the rest back.\n")
		return
	}
	s.out.text("Hi Sam, I can't find any memory issue in your instance. I can only account for what occurs on this base.\n")
}
