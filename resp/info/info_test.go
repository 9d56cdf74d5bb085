package info

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"cellserver/buckets"
	"cellserver/resp/frame"
	"cellserver/resp/stats"
)

// fixed is a Source whose numbers the test says.
type fixed struct {
	counters    stats.Counters
	command     stats.Command
	persistence Persistence
	memory      Memory
	store       *buckets.RemoteStats
}

func (f *fixed) Server() Server              { return Server{Now: 100_000e9, Started: 1e9, RunID: "ab"} }
func (f *fixed) Clients() Clients            { return Clients{Connected: 2, Max: 10, LongestIn: 3} }
func (f *fixed) Memory() Memory              { return f.memory }
func (f *fixed) Persistence() Persistence    { return f.persistence }
func (f *fixed) Store() *buckets.RemoteStats { return f.store }
func (f *fixed) Keyspace() []Keyspace {
	return []Keyspace{{Keys: 7, Lasting: 2, MeanTTL: 2_500_000}, {Database: 12, Keys: 1, Lasting: 1}}
}
func (f *fixed) Stats() Stats {
	return Stats{Counters: &f.counters, Keys: buckets.Stats{Expired: 5}, Rate: stats.Rate{Calls: 9.9, Read: 512}}
}
func (f *fixed) EachCommand(visit func(name string, c *stats.Command)) { visit("ping", &f.command) }

func headings(text string) (names []string) {
	for line := range strings.Lines(text) {
		if name, ok := strings.CutPrefix(strings.TrimSpace(line), "# "); ok {
			names = append(names, name)
		}
	}
	return names
}

// Sections come in Redis's order, each once, whatever the order of the words.
func TestSections(t *testing.T) {
	f := &fixed{}
	usual := []string{"Server", "Clients", "Memory", "Persistence", "Stats", "Replication", "CPU", "Modules", "Errorstats", "Cluster", "Keyspace"}
	for _, row := range []struct {
		words string
		want  []string
	}{
		{"", usual},
		{"default", usual},
		{"KEYSPACE clients clients", []string{"Clients", "Keyspace"}},
		{"commandstats nosuch", []string{"Commandstats"}},
		{"nosuch", nil},
	} {
		var words [][]byte
		for _, w := range strings.Fields(row.words) {
			words = append(words, []byte(w))
		}
		assert.Equal(t, row.want, headings(Text(words, f)), row.words)
	}
	everything := [][]byte{[]byte("everything")}
	assert.Len(t, headings(Text(everything, f)), len(sections)-1, "keys in memory have no section Store")
	f.store = new(buckets.RemoteStats)
	assert.Len(t, headings(Text(everything, f)), len(sections))
}

// The lines of sections are exact.
func TestLines(t *testing.T) {
	f := &fixed{}
	f.counters.Error("ERR x")
	f.counters.Error("WRONGTYPE y")
	f.counters.Error("ERR z")
	f.counters.Expired.Store(2)
	f.command.Add(2, 1_500_000)
	f.persistence = Persistence{
		Loading: true, Now: 20e9, Changes: 3,
		Disk: Disk{Saved: 5, SaveTook: -1, RewriteTook: 3e9, Saving: true, Began: 18e9, Journal: true, JournalSize: 40, JournalBad: true,
			LoadTotal: 400, LoadDone: 100, LoadStarted: 10e9},
	}
	ask := func(section string) string { return Text([][]byte{[]byte(section)}, f) }
	assert.Equal(t, "# Errorstats\r\nerrorstat_ERR:count=2\r\nerrorstat_WRONGTYPE:count=1\r\n", ask("errorstats"))
	assert.Equal(t, "# Keyspace\r\ndb0:keys=7,expires=5,avg_ttl=2\r\ndb12:keys=1,expires=0,avg_ttl=0\r\n", ask("keyspace"))
	assert.Equal(t, "# Commandstats\r\ncmdstat_ping:calls=2,usec=3000,usec_per_call=1500.00,rejected_calls=0,failed_calls=0\r\n", ask("commandstats"))
	assert.Equal(t, "# Persistence\r\nloading:1\r\nasync_loading:0\r\nrdb_changes_since_last_save:0\r\nrdb_bgsave_in_progress:1\r\n"+
		"rdb_last_save_time:0\r\nrdb_last_bgsave_status:ok\r\nrdb_last_bgsave_time_sec:-1\r\nrdb_current_bgsave_time_sec:2\r\n"+
		"aof_enabled:1\r\naof_rewrite_in_progress:0\r\naof_rewrite_scheduled:0\r\naof_last_rewrite_time_sec:3\r\n"+
		"aof_current_rewrite_time_sec:-1\r\naof_last_bgrewrite_status:ok\r\naof_last_write_status:err\r\naof_current_size:40\r\n"+
		"aof_base_size:0\r\nloading_start_time:10\r\nloading_total_bytes:400\r\nloading_loaded_bytes:100\r\n"+
		"loading_loaded_perc:25.00\r\nloading_eta_seconds:30\r\n", ask("persistence"))
	text := ask("stats")
	for _, line := range []string{"instantaneous_ops_per_sec:9", "instantaneous_input_kbps:0.50", "expired_keys:3", "total_error_replies:3"} {
		assert.Contains(t, text, "\r\n"+line+"\r\n")
	}
}

func TestHuman(t *testing.T) {
	for n, want := range map[uint64]string{0: "0B", 1023: "1023B", 1024: "1.00K", 1536 << 10: "1.50M", 3 << 30: "3.00G", 5 << 50: "5120.00T"} {
		assert.Equal(t, want, human(n))
	}
}

// The buckets are a part of what is allocated since the start, and never more than all of it.
func TestMemory(t *testing.T) {
	f := &fixed{memory: Memory{Heap: Heap{Allocated: 3000, Active: 4500, Resident: 9000, RSS: 9000}, Peak: 6000, Startup: 1000,
		Keys: buckets.Stats{Bytes: 500, Evicts: true}}}
	text := Text([][]byte{[]byte("memory")}, f)
	for _, line := range []string{"used_memory_human:2.93K", "used_memory_peak_perc:50.00%", "used_memory_overhead:2500",
		"used_memory_dataset_perc:25.00%", "maxmemory_policy:evict-soonest", "allocator_frag_ratio:1.50", "allocator_rss_bytes:4500"} {
		assert.Contains(t, text, "\r\n"+line+"\r\n")
	}
	var out frame.Reply
	f.memory.AppendStats(&out, []Keyspace{{Keys: 1, Index: 64}, {Database: 12, Keys: 1, Index: 128}})
	table := func(name string, bytes int) string {
		return fmt.Sprintf("$%d\r\n%s\r\n*6\r\n$23\r\noverhead.hashtable.main\r\n:%d\r\n"+
			"$26\r\noverhead.hashtable.expires\r\n:0\r\n$31\r\noverhead.hashtable.slot-to-keys\r\n:0\r\n", len(name), name, bytes)
	}
	assert.Contains(t, string(out.Bytes), "$14\r\nclients.normal\r\n:0\r\n"+table("db.0", 64)+table("db.12", 128)+"$14\r\noverhead.total\r\n")
	assert.True(t, strings.HasPrefix(string(out.Bytes), "*42\r\n"))
	f.memory.Keys.Bytes = 1 << 20
	assert.Contains(t, Text([][]byte{[]byte("memory")}, f), "\r\nused_memory_dataset_perc:100.00%\r\n")
	assert.Contains(t, f.memory.Doctor(), "can't find any memory issue")
	assert.Contains(t, Heap{Allocated: 1 << 20, RSS: 1 << 30}.Doctor(), "holds 1.00G for 1.00M")
}
