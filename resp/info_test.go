package resp_test

import (
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"cellserver/internal/testing/testenv"
	"cellserver/resp"
)

// notOurs lists the fields of INFO of a Redis that this server does not have, by reason. It has all others.
var notOurs = map[string]string{
	"it is a build of Redis's own": "redis_git_sha1 redis_git_dirty redis_build_id gcc_version atomicvar_api monotonic_clock",
	"it says how Redis's main loop and its threads work": "hz configured_hz lru_clock io_threads_active io_threaded_reads_processed " +
		"io_threaded_writes_processed clients_in_timeout_table total_reads_processed total_writes_processed used_cpu_sys_main_thread " +
		"used_cpu_user_main_thread reply_buffer_shrinks reply_buffer_expands",
	"what started the process knows":     "process_supervised executable config_file",
	"there is no cluster":                "cluster_connections mem_cluster_links migrate_cached_sockets",
	"there are no replicas":              "mem_replication_backlog mem_total_replication_buffers total_net_repl_input_bytes total_net_repl_output_bytes instantaneous_input_repl_kbps instantaneous_output_repl_kbps slave_expires_tracked_keys unexpected_error_replies dump_payload_sanitizations",
	"there are no scripts":               "used_memory_vm_eval used_memory_scripts_eval number_of_functions number_of_libraries used_memory_vm_functions used_memory_vm_total used_memory_vm_total_human used_memory_functions used_memory_scripts_human",
	"memory is not given back by moving": "active_defrag_running active_defrag_hits active_defrag_misses active_defrag_key_hits active_defrag_key_misses total_active_defrag_time current_active_defrag_time lazyfree_pending_objects lazyfreed_objects",
	"snapshots are written without a fork": "current_cow_peak current_cow_size current_cow_size_age current_fork_perc rdb_last_cow_size aof_last_cow_size " +
		"module_fork_in_progress module_fork_last_cow_size total_forks",
	"it is in the log": "current_save_keys_processed current_save_keys_total rdb_saves rdb_last_load_keys_expired rdb_last_load_keys_loaded aof_rewrites aof_rewrites_consecutive_failures mem_aof_buffer",
	"the sweep has no such budget, and eviction no such time": "expired_stale_perc expired_time_cap_reached_count expire_cycle_cpu_milliseconds total_eviction_exceeded_time current_eviction_exceeded_time evicted_clients",
	"nobody can subscribe": "pubsubshard_channels",
}

// INFO has the sections of a Redis, in its order, for any arguments, and its fields.
func TestInfoAsRedis(t *testing.T) {
	socket := testenv.Redis(t)
	now := int64(1_700_000_123) * 1e9
	ours := newQuiet(8, &now)
	key := map[string]string{"redis": words(t, "SETEX k 1000 1"), "ours": words(t, "CL.WINDOW k 5 1000")}
	ask := func(line string) (redis, here string) {
		sent := words(t, "TTL k", "foo", line) + theEnd
		return askRedis(t, socket, key["redis"]+sent), string(resp.NewTestConn(ours, now).Feed(now, []byte(key["ours"]+sent)))
	}
	headers := func(text string) (names []string) {
		for line := range strings.Lines(text) {
			if name, is := strings.CutPrefix(strings.TrimSpace(line), "# "); is {
				names = append(names, name)
			}
		}
		return names
	}
	for _, line := range []string{"INFO", "INFO default", "INFO all", "INFO everything", "INFO default commandstats", "INFO latencystats server",
		"INFO Clients clients foo", "INFO modules", "INFO foo", "INFO LATENCYSTATS", "INFO errorstats all"} {
		redis, here := ask(line)
		assert.Equal(t, headers(redis), headers(here), line)
	}
	redis, here := ask("INFO everything")
	_, redis, _ = strings.Cut(redis, "# Server") // after the other replies
	has, want := fieldsOf(here), fieldsOf(redis)
	delete(want, "cmdstat_setex")
	delete(want, "latency_percentiles_usec_setex")
	require.Greater(t, len(want), 150)
	reasons := make(map[string]bool)
	for _, names := range notOurs {
		for _, name := range strings.Fields(names) {
			reasons[name] = true
		}
	}
	for name := range want {
		assert.NotEqual(t, has[name] != "", reasons[name], "%s: it is either here, or missing for a reason: %q", name, has[name])
	}
}

// used_memory counts all memory in use, and used_memory_dataset the memory that maxmemory bounds.
func TestInfoMemoryCountsAllMemoryAndTheDatasetApart(t *testing.T) {
	now := int64(1_700_000_123) * 1e9
	c := resp.NewTestConn(newQuiet(8, &now), now)
	numbers := func() map[string]int64 {
		all := make(map[string]int64)
		for name, value := range fieldsOf(string(c.Feed(now, []byte("INFO memory\r\n")))) {
			if n, err := strconv.ParseInt(value, 10, 64); err == nil {
				all[name] = n
			}
		}
		return all
	}
	runtime.GC() // so that garbage of other tests is not collected later
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	before := numbers()
	ballast := make([]byte, 64<<20)
	for i := 0; i < len(ballast); i += 4096 {
		ballast[i] = 1
	}
	grown := numbers()
	runtime.KeepAlive(ballast)
	assert.GreaterOrEqual(t, grown["used_memory"]-before["used_memory"], int64(48<<20), "whoever has allocated it")
	assert.GreaterOrEqual(t, grown["used_memory_peak"], grown["used_memory"])
	assert.Equal(t, before["used_memory_dataset"], grown["used_memory_dataset"])
	assert.Equal(t, grown["used_memory"]-grown["used_memory_dataset"], grown["used_memory_overhead"])
	assert.LessOrEqual(t, grown["allocator_allocated"], grown["allocator_active"])
	assert.LessOrEqual(t, grown["allocator_active"], grown["allocator_resident"])

	c.Feed(now, []byte("CONFIG SET maxmemory 1mb maxmemory-policy noeviction\r\n"))
	for i := range 1000 {
		if reply := c.Feed(now, []byte("CL.WINDOW "+strconv.Itoa(i)+strings.Repeat("k", 4000)+" 5 60\r\n")); strings.HasPrefix(string(reply), "-OOM") {
			break
		}
	}
	full := numbers()
	assert.EqualValues(t, 1<<20, full["maxmemory"])
	assert.LessOrEqual(t, full["used_memory_dataset"], full["maxmemory"])
	assert.Greater(t, full["used_memory_dataset"], full["maxmemory"]/2, "until it was full")
	assert.Greater(t, full["used_memory"], full["maxmemory"])
}
