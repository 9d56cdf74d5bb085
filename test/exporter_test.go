package test

import (
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"cellserver/internal/testing/testenv"
)

// notExported lists the metrics of a real Redis that a cellserver does not have, by reason.
var notExported = map[string]string{
	"there is no cluster":   "cluster_connections migrate_cached_sockets_total",
	"there are no replicas": "slave_expires_tracked_keys dump_payload_sanitizations unexpected_error_replies",
	"one main loop, or threads of it: a goroutine has no processor": "io_threads_active config_io_threads io_threaded_reads_processed io_threaded_writes_processed cpu_sys_main_thread_seconds_total cpu_user_main_thread_seconds_total clients_in_timeout_table",
	"a count of each would cost every command more than it tells":   "total_reads_processed total_writes_processed",
	"snapshots are written without a fork":                          "rdb_last_cow_size_bytes aof_last_cow_size_bytes module_fork_in_progress module_fork_last_cow_size",
	"memory is not given back by moving, nor by another thread":     "active_defrag_running defrag_hits defrag_misses defrag_key_hits defrag_key_misses lazyfree_pending_objects",
	"the sweep looks at every key, and does not estimate":           "expired_stale_percentage expired_time_cap_reached_total",
}

// exporter starts Debian's redis_exporter for a server until the test ends, and returns the URL of its metrics.
func exporter(t *testing.T, target string) (url string, log *lines) {
	t.Helper()
	path := testenv.Tool(t, "prometheus-redis-exporter")
	for range 20 {
		address := "127.0.0.1:" + freePort(t)
		cmd := exec.Command(path, "-redis.addr", target, "-web.listen-address", address, "-include-system-metrics")
		log = new(lines)
		cmd.Stderr = log
		require.NoError(t, cmd.Start())
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			cmd.Wait()
		}()
		t.Cleanup(func() {
			cmd.Process.Kill()
			<-ended
		})
		answers := func() bool {
			select {
			case <-ended:
				return true
			default:
			}
			_, err := fetch("http://" + address + "/health")
			return err == nil
		}
		require.Eventually(t, answers, patience, 10*time.Millisecond)
		select {
		case <-ended:
			require.Contains(t, log.String(), "in use")
		default:
			return "http://" + address + "/metrics", log
		}
	}
	require.FailNow(t, "no port is free")
	return "", nil
}

func fetch(url string) (string, error) {
	client := http.Client{Timeout: patience, Transport: &http.Transport{DisableKeepAlives: true}}
	reply, err := client.Get(url)
	if err != nil {
		return "", err
	}
	defer reply.Body.Close()
	text, err := io.ReadAll(reply.Body)
	if err == nil && reply.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", url, reply.Status)
	}
	return string(text), err
}

var metricLine = regexp.MustCompile(`^redis_(\w+?)(?:\{(.*)\})? (\S+)$`)

// metrics scrapes a server and returns the values of its metrics, by name with labels and by name without.
func metrics(t *testing.T, target string) map[string]float64 {
	t.Helper()
	url, log := exporter(t, target)
	values := make(map[string]float64)
	text, err := fetch(url)
	require.NoError(t, err)
	for line := range strings.Lines(text) {
		m := metricLine.FindStringSubmatch(strings.TrimSpace(line))
		if m == nil || strings.HasPrefix(m[1], "exporter_build") {
			continue
		}
		value, err := strconv.ParseFloat(m[3], 64)
		require.NoError(t, err, line)
		values[m[1]] = value
		values[m[1]+"{"+m[2]+"}"] = value
	}
	assert.Equal(t, 1.0, values["up"], text)
	assert.Zero(t, values[`exporter_last_scrape_error{err=""}`])
	assert.NotRegexp(t, `(?i)level=(warn|err|fatal)`, log.String())
	return values
}

// An exporter for Redis reads the metrics of a cellserver without errors, and they mean the same as those of a Redis.
func TestRedisExporterFindsTheMetricsOfRedis(t *testing.T) {
	socket := testenv.Redis(t)
	s := start(t, "--maxmemory", "100mb")
	theirs := redis.NewClient(&redis.Options{Network: "unix", Addr: socket})
	defer theirs.Close()
	ours := s.client(t)
	ctx := t.Context()
	require.NoError(t, theirs.Do(ctx, "CONFIG", "SET", "maxmemory", "100mb").Err())
	require.NoError(t, theirs.Do(ctx, "SETEX", "k", 1000, "1").Err())
	require.NoError(t, ours.Do(ctx, "CL.WINDOW", "k", 5, 1000).Err())
	for _, c := range []*redis.Client{theirs, ours} {
		assert.Equal(t, 1000*time.Second, c.TTL(ctx, "k").Val().Round(time.Second))
		assert.Equal(t, time.Duration(-2), c.TTL(ctx, "nokey").Val())
		assert.Error(t, c.Do(ctx, "TTL").Err())
		assert.Error(t, c.Do(ctx, "PING", "a", "b").Err())
	}
	// Long keys, so that a few keys take much more memory than the rest of the process.
	pipeline := ours.Pipeline()
	for i := range 10_000 {
		pipeline.Do(ctx, "CL.THROTTLE", strconv.Itoa(i)+strings.Repeat("k", 4000), 15, 30, 100_000)
	}
	_, err := pipeline.Exec(ctx)
	require.NoError(t, err)

	want, got := metrics(t, "unix://"+socket), metrics(t, "redis://"+s.addr)
	require.Greater(t, len(want), 150)
	reasons := make(map[string]bool)
	for _, names := range notExported {
		for _, name := range strings.Fields(names) {
			reasons[name] = true
			assert.Contains(t, want, name, "a reason that is no longer needed")
		}
	}
	for name := range want {
		if _, has := got[name]; !strings.Contains(name, "{") {
			assert.NotEqual(t, has, reasons[name], "%s: it is either exported, or missing for a reason", name)
		}
	}
	for _, name := range []string{
		`commands_total{cmd="ttl"}`, `commands_rejected_calls_total{cmd="ttl"}`, `commands_failed_calls_total{cmd="ping"}`,
		"keyspace_hits_total", "keyspace_misses_total", "memory_max_bytes", "config_maxmemory", "config_maxclients", "total_system_memory_bytes",
		"expired_keys_total", "evicted_keys_total", "connected_slaves", "blocked_clients",
	} {
		value, has := want[name]
		require.True(t, has, name)
		if name == "total_system_memory_bytes" { // the limit of the container, if it is lower
			assert.LessOrEqual(t, got[name], value)
			assert.Positive(t, got[name])
			continue
		}
		assert.Equal(t, value, got[name], name)
	}
	assert.GreaterOrEqual(t, got[`errors_total{err="ERR"}`], 2.0, "what a client tries at first may be unknown, too")
	assert.Equal(t, 10_001.0, got[`db_keys{db="db0"}`])
	assert.Equal(t, 10_001.0, got[`db_keys_expiring{db="db0"}`])
	assert.InDelta(t, 3.4, got[`db_avg_ttl_seconds{db="db0"}`]/1000, 0.3, "one interval of 3333 s, and a window of 1000 s")
	assert.Equal(t, 10_000.0, got[`commands_total{cmd="cl.throttle"}`])
	took := got[`commands_duration_seconds_total{cmd="cl.throttle"}`]
	assert.Positive(t, took)
	assert.Less(t, took, patience.Seconds())
	for _, quantile := range []string{"50", "99", "99.9"} {
		assert.Positive(t, got[`latency_percentiles_usec{cmd="cl.throttle",quantile="`+quantile+`"}`], quantile)
	}

	dataset, used, rss := got["memory_used_dataset_bytes"], got["memory_used_bytes"], got["memory_used_rss_bytes"]
	assert.Greater(t, dataset, 40e6)
	assert.LessOrEqual(t, dataset, got["memory_max_bytes"])
	assert.Greater(t, used, dataset)
	assert.InDelta(t, 1.2, rss/used, 0.4, "%v resident, %v used", rss, used)
	assert.GreaterOrEqual(t, got["memory_used_peak_bytes"], used)
}
