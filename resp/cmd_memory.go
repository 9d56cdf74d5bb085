package resp

import (
	"fmt"
	"runtime/debug"
	"runtime/metrics"
	"strings"
	"sync"
)

// memoryNow is what the process holds, in bytes, as Redis tells it of its allocator.
type memoryNow struct {
	allocated uint64 // in use, or garbage that has not been found
	active    uint64 // what is unused within the pages of that is added
	resident  uint64 // and the pages that could be given back
	rss       uint64 // all that the system has given to the process, its program included
}

// memorySamples are the numbers of Go's runtime that memoryNow is made of.
var memorySamples = struct {
	sync.Mutex
	of []metrics.Sample
}{of: []metrics.Sample{
	{Name: "/memory/classes/total:bytes"},
	{Name: "/memory/classes/heap/released:bytes"},
	{Name: "/memory/classes/heap/free:bytes"},
	{Name: "/memory/classes/heap/unused:bytes"},
}}

// readHeap is what Go's runtime knows: all but rss.
func readHeap() (m memoryNow) {
	memorySamples.Lock()
	defer memorySamples.Unlock()
	metrics.Read(memorySamples.of)
	value := func(i int) uint64 { return memorySamples.of[i].Value.Uint64() }
	m.resident = value(0) - value(1)
	m.active = m.resident - value(2)
	m.allocated = m.active - value(3)
	return m
}

func readMemory() memoryNow {
	m := readHeap()
	if m.rss = residentBytes(); m.rss == 0 {
		m.rss = m.resident
	}
	return m
}

// memoryUse is what INFO memory and MEMORY STATS tell.
type memoryUse struct {
	memoryNow
	peak, startup     uint64
	dataset, overhead uint64 // the buckets, and all else
	clients           int64
}

func (s *session) memoryUse() memoryUse {
	u := memoryUse{memoryNow: readMemory(), startup: s.srv.startup, clients: s.srv.bufferUse().bytes}
	u.peak = s.srv.stats.Peak(u.allocated)
	u.dataset = min(uint64(s.store.Stats().Bytes), u.allocated)
	u.overhead = u.allocated - u.dataset
	return u
}

// ofDataset is how many percent of what was allocated since the start the buckets are.
func (u *memoryUse) ofDataset() float64 {
	return min(100, 100*ratio(u.dataset, u.allocated-min(u.allocated, u.startup)))
}

func ratio(a, b uint64) float64 { return float64(a) / float64(max(1, b)) }

func infoMemory(s *session, b *strings.Builder) {
	u, keys := s.memoryUse(), s.store.Stats()
	limit, policy := uint64(keys.Limit), "noeviction"
	if keys.Evicts {
		policy = "evict-soonest"
	}
	size := func(name string, n uint64) {
		field(b, name, n)
		field(b, name+"_human", human(n))
	}
	share := func(name string, a, c uint64) {
		field(b, name+"_ratio", fmt.Sprintf("%.2f", ratio(a, c)))
		field(b, name+"_bytes", int64(a)-int64(c))
	}
	size("used_memory", u.allocated)
	size("used_memory_rss", u.rss)
	size("used_memory_peak", u.peak)
	field(b, "used_memory_peak_perc", fmt.Sprintf("%.2f%%", 100*ratio(u.allocated, u.peak)))
	field(b, "used_memory_overhead", u.overhead)
	field(b, "used_memory_startup", u.startup)
	field(b, "used_memory_dataset", u.dataset)
	field(b, "used_memory_dataset_peak", keys.Peak)
	field(b, "used_memory_dataset_perc", fmt.Sprintf("%.2f%%", u.ofDataset()))
	field(b, "allocator_allocated", u.allocated)
	field(b, "allocator_active", u.active)
	field(b, "allocator_resident", u.resident)
	if total := s.srv.memory; total > 0 {
		size("total_system_memory", uint64(total))
	}
	size("used_memory_lua", 0) // there is no Lua
	field(b, "used_memory_scripts", 0)
	field(b, "number_of_cached_scripts", 0)
	size("maxmemory", limit)
	field(b, "maxmemory_policy", policy)
	share("allocator_frag", u.active, u.allocated)
	share("allocator_rss", u.resident, u.active)
	share("rss_overhead", u.rss, u.resident)
	share("mem_fragmentation", u.rss, u.allocated)
	field(b, "mem_not_counted_for_evict", u.overhead) // maxmemory bounds the buckets
	field(b, "mem_clients_slaves", 0)
	field(b, "mem_clients_normal", u.clients)
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

// memoryStats is MEMORY STATS: the numbers of INFO memory by the names that command uses.
func memoryStats(s *session, _ [][]byte) {
	u, keys := s.memoryUse(), s.store.Stats()
	perKey := int64(0)
	if keys.Keys > 0 {
		perKey = keys.Bytes / keys.Keys
	}
	numbers := []struct {
		name string
		n    int64
	}{
		{"peak.allocated", int64(u.peak)},
		{"total.allocated", int64(u.allocated)},
		{"startup.allocated", int64(u.startup)},
		{"clients.slaves", 0},
		{"clients.normal", u.clients},
		{"overhead.total", int64(u.overhead)},
		{"keys.count", keys.Keys},
		{"keys.bytes-per-key", perKey},
		{"dataset.bytes", int64(u.dataset)},
		{"allocator.allocated", int64(u.allocated)},
		{"allocator.active", int64(u.active)},
		{"allocator.resident", int64(u.resident)},
		{"fragmentation.bytes", int64(u.rss) - int64(u.allocated)},
	}
	ratios := []struct {
		name string
		f    float64
	}{
		{"dataset.percentage", u.ofDataset()},
		{"peak.percentage", 100 * ratio(u.allocated, u.peak)},
		{"allocator-fragmentation.ratio", ratio(u.active, u.allocated)},
		{"allocator-rss.ratio", ratio(u.resident, u.active)},
		{"rss-overhead.ratio", ratio(u.rss, u.resident)},
		{"fragmentation", ratio(u.rss, u.allocated)},
	}
	out := &s.out
	out.Map(len(numbers) + len(ratios))
	for _, number := range numbers {
		out.BulkString(number.name)
		out.Int(number.n)
	}
	for _, r := range ratios {
		out.BulkString(r.name)
		out.Double(r.f)
	}
}

// memoryDoctor says in a sentence what stands out.
func memoryDoctor(s *session, _ [][]byte) {
	m := readMemory()
	if m.rss > 64<<20 && m.rss > 2*m.allocated {
		s.out.Text("Sam, the process holds " + human(m.rss) + " for " + human(m.allocated) +
			" in use: after a flood of keys has expired, MEMORY PURGE gives the rest back.\n")
		return
	}
	s.out.Text("Hi Sam, I can't find any memory issue in your instance. I can only account for what occurs on this base.\n")
}

// memoryPurge gives unused memory back to the system.
func memoryPurge(s *session, _ [][]byte) {
	debug.FreeOSMemory()
	s.out.OK()
}
