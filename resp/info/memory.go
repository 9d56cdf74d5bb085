package info

import (
	"fmt"
	"runtime/metrics"
	"sync"

	"cellserver/buckets"
	"cellserver/resp/frame"
)

// Heap is the memory of the process in bytes, in the terms in which Redis tells of its allocator.
type Heap struct {
	Allocated uint64 // in use, and garbage that is not collected yet
	Active    uint64 // Allocated, and what is unused in its pages
	Resident  uint64 // Active, and the pages that could be given back to the system
	RSS       uint64 // all that the system has given to the process, its program included
}

// samples are the metrics of Go's runtime that a Heap is made of.
var samples = struct {
	sync.Mutex
	of []metrics.Sample
}{of: []metrics.Sample{
	{Name: "/memory/classes/total:bytes"},
	{Name: "/memory/classes/heap/released:bytes"},
	{Name: "/memory/classes/heap/free:bytes"},
	{Name: "/memory/classes/heap/unused:bytes"},
}}

// Allocated returns Heap.Allocated, without asking the system.
func Allocated() uint64 { return goHeap().Allocated }

// goHeap returns what Go's runtime knows: all but RSS.
func goHeap() (h Heap) {
	samples.Lock()
	defer samples.Unlock()
	metrics.Read(samples.of)
	value := func(i int) uint64 { return samples.of[i].Value.Uint64() }
	h.Resident = value(0) - value(1)
	h.Active = h.Resident - value(2)
	h.Allocated = h.Active - value(3)
	return h
}

// ReadHeap returns the memory of the process.
func ReadHeap() Heap {
	h := goHeap()
	if h.RSS = residentBytes(); h.RSS == 0 {
		h.RSS = h.Resident
	}
	return h
}

// Doctor returns what MEMORY DOCTOR answers: a sentence on what is unusual.
func (h Heap) Doctor() string {
	if h.RSS > 64<<20 && h.RSS > 2*h.Allocated {
		return "Sam, the process holds " + human(h.RSS) + " for " + human(h.Allocated) +
			" in use: after a flood of keys has expired, MEMORY PURGE gives the rest back.\n"
	}
	return "Hi Sam, I can't find any memory issue in your instance. I can only account for what occurs on this base.\n"
}

// Memory is what INFO and MEMORY STATS tell of memory. Sizes are in bytes.
type Memory struct {
	Heap
	Peak    uint64 // the most that was ever allocated
	Startup uint64 // what was allocated when the server started
	Keys    buckets.Stats
	Clients int64  // what connections hold of requests and replies
	System  uint64 // what the process may use; 0 if that is unknown
	Scripts int    // how many scripts are known
}

// dataset returns the size of the buckets.
func (m *Memory) dataset() uint64 { return min(uint64(m.Keys.Bytes), m.Allocated) }

// overhead returns the size of all but the buckets.
func (m *Memory) overhead() uint64 { return m.Allocated - m.dataset() }

// datasetPercent returns the part that the buckets have of what was allocated since the start, in percent.
func (m *Memory) datasetPercent() float64 {
	return min(100, 100*ratio(m.dataset(), m.Allocated-min(m.Allocated, m.Startup)))
}

func ratio(a, b uint64) float64 { return float64(a) / float64(max(1, b)) }

func (m *Memory) write(t *text) {
	policy := "noeviction"
	if m.Keys.Evicts {
		policy = "evict-soonest"
	}
	size := func(name string, n uint64) {
		t.field(name, n)
		t.field(name+"_human", human(n))
	}
	share := func(name string, a, b uint64) {
		t.fieldf(name+"_ratio", "%.2f", ratio(a, b))
		t.field(name+"_bytes", int64(a)-int64(b))
	}
	size("used_memory", m.Allocated)
	size("used_memory_rss", m.RSS)
	size("used_memory_peak", m.Peak)
	t.fieldf("used_memory_peak_perc", "%.2f%%", 100*ratio(m.Allocated, m.Peak))
	t.field("used_memory_overhead", m.overhead())
	t.field("used_memory_startup", m.Startup)
	t.field("used_memory_dataset", m.dataset())
	t.field("used_memory_dataset_peak", m.Keys.Peak)
	t.fieldf("used_memory_dataset_perc", "%.2f%%", m.datasetPercent())
	t.field("allocator_allocated", m.Allocated)
	t.field("allocator_active", m.Active)
	t.field("allocator_resident", m.Resident)
	if m.System > 0 {
		size("total_system_memory", m.System)
	}
	size("used_memory_lua", 0) // there is no Lua
	t.field("used_memory_scripts", 0)
	t.field("number_of_cached_scripts", m.Scripts)
	size("maxmemory", uint64(m.Keys.Limit))
	t.field("maxmemory_policy", policy)
	share("allocator_frag", m.Active, m.Allocated)
	share("allocator_rss", m.Resident, m.Active)
	share("rss_overhead", m.RSS, m.Resident)
	share("mem_fragmentation", m.RSS, m.Allocated)
	t.field("mem_not_counted_for_evict", m.overhead()) // maxmemory bounds the buckets
	t.field("mem_clients_slaves", 0)
	t.field("mem_clients_normal", m.Clients)
	t.field("mem_allocator", "go")
}

// human returns a size as Redis shows it: 1.50M.
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

// AppendStats appends what MEMORY STATS answers: numbers of INFO memory by the names that this command has for them, and of each
// database that has keys the size of its index.
func (m *Memory) AppendStats(out *frame.Reply, databases []Keyspace) {
	perKey := int64(0)
	if m.Keys.Keys > 0 {
		perKey = m.Keys.Bytes / m.Keys.Keys
	}
	type number struct {
		name string
		n    int64
	}
	before := []number{
		{"peak.allocated", int64(m.Peak)},
		{"total.allocated", int64(m.Allocated)},
		{"startup.allocated", int64(m.Startup)},
		{"clients.slaves", 0},
		{"clients.normal", m.Clients},
	}
	after := []number{
		{"overhead.total", int64(m.overhead())},
		{"keys.count", m.Keys.Keys},
		{"keys.bytes-per-key", perKey},
		{"dataset.bytes", int64(m.dataset())},
		{"allocator.allocated", int64(m.Allocated)},
		{"allocator.active", int64(m.Active)},
		{"allocator.resident", int64(m.Resident)},
		{"fragmentation.bytes", int64(m.RSS) - int64(m.Allocated)},
	}
	ratios := []struct {
		name string
		f    float64
	}{
		{"dataset.percentage", m.datasetPercent()},
		{"peak.percentage", 100 * ratio(m.Allocated, m.Peak)},
		{"allocator-fragmentation.ratio", ratio(m.Active, m.Allocated)},
		{"allocator-rss.ratio", ratio(m.Resident, m.Active)},
		{"rss-overhead.ratio", ratio(m.RSS, m.Resident)},
		{"fragmentation", ratio(m.RSS, m.Allocated)},
	}
	write := func(numbers ...number) {
		for _, number := range numbers {
			out.BulkString(number.name)
			out.Int(number.n)
		}
	}
	out.Map(len(before) + len(databases) + len(after) + len(ratios))
	write(before...)
	for _, db := range databases {
		out.BulkString(fmt.Sprint("db.", db.Database))
		out.Map(3)
		// A key's expiry is a part of its state, and there are no slots.
		write(number{"overhead.hashtable.main", db.Index}, number{"overhead.hashtable.expires", 0}, number{"overhead.hashtable.slot-to-keys", 0})
	}
	write(after...)
	for _, r := range ratios {
		out.BulkString(r.name)
		out.Double(r.f)
	}
}
