package importer

import (
	"bytes"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"cellserver/buckets"
	"cellserver/buckets/cluster"
	"cellserver/cmd/cellserver/options"
	"cellserver/internal/testing/engines"
	"cellserver/persistence"
)

func intoEngine(s *options.Store) (*cluster.Store, error) {
	user, password, err := s.Credentials()
	if err != nil {
		return nil, err
	}
	return cluster.New(cluster.Config{
		Addrs: s.URL.Addresses, Username: user, Password: password, Prefix: s.Prefix, Log: slog.New(slog.DiscardHandler),
		Local: func() int64 { return time.Now().UnixNano() },
	}, cluster.Rules{Timeout: s.Timeout})
}

// heldBy returns a store that reads what was imported.
func heldBy(t *testing.T, n *engines.Node, prefix string) func(key string) buckets.Contents {
	t.Helper()
	s, err := intoEngine(&options.Store{URL: mustURL(t, "valkey://"+n.Addr()), Prefix: prefix, Timeout: patience})
	require.NoError(t, err)
	t.Cleanup(func() { s.Close() })
	require.NoError(t, s.Ready(t.Context()))
	return func(key string) buckets.Contents {
		ops := []buckets.Op{{Code: buckets.OpGet, Key: []byte(key)}}
		s.Apply(t.Context(), s.Now(), ops)
		require.NoError(t, ops[0].Err)
		return ops[0].Contents
	}
}

func mustURL(t *testing.T, text string) options.StoreURL {
	t.Helper()
	u, err := options.ParseStoreURL(text)
	require.NoError(t, err)
	return u
}

func TestBucketsOfRedisCellGetIntoAnEngine(t *testing.T) {
	s, n := realRedis(t), engines.Standalone(t, engines.Valkey81)
	tats := s.fill(t)
	var out, stderr bytes.Buffer
	args := []string{s.url(), "--to", "valkey://" + n.Addr(), "--store-prefix", "p:"}
	require.NoError(t, Run(t.Context(), Config{Engine: intoEngine}, args, &out, &stderr), out.String())
	assert.Contains(t, out.String(), " taken into valkey://"+n.Addr()+"\n")
	held := heldBy(t, n, "p:")
	for key, tat := range tats {
		contents := held(key)
		assert.Equal(t, tat, contents.Field("tat"), "%q", key)
	}
	assert.Equal(t, len(tats), int(n.Client().DBSize(t.Context()).Val()))

	out.Reset()
	require.NoError(t, Run(t.Context(), Config{Engine: intoEngine}, args, &out, &stderr))
	assert.Contains(t, out.String(), "0 taken into")
	assert.Contains(t, out.String(), " exist in the target\n")
}

// snapshot writes a snapshot of counters, of which the last expires at a time, and returns its path.
func snapshot(t *testing.T, db int, expires int64, keys ...string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "dump.cell")
	f, err := os.Create(path)
	require.NoError(t, err)
	w, err := persistence.NewWriter(f, persistence.SnapshotFile, time.Now().UnixNano(), 0)
	require.NoError(t, err)
	var payload []byte
	for i, key := range keys {
		at := buckets.NoExpiry
		if i == len(keys)-1 {
			at = expires
		}
		payload = persistence.AppendSet(payload, &buckets.Entry{Database: db, Key: []byte(key), State: buckets.Counted(int64(i), at)})
	}
	require.NoError(t, w.Records(payload, len(keys)))
	require.NoError(t, w.End())
	require.NoError(t, f.Close())
	return path
}

func TestAFileGetsIntoAnEngine(t *testing.T) {
	n := engines.Standalone(t, engines.Valkey81, engines.Password("OpenSesame"))
	expires := in(time.Hour)
	path := snapshot(t, 0, expires, "a", "b\x00", "c")
	to := "valkey://" + n.Addr()
	t.Setenv("CELLSERVER_STORE_PASSWORD", "OpenSesame")
	imports := func(args ...string) (string, error) {
		var out, stderr bytes.Buffer
		err := Run(t.Context(), Config{Engine: intoEngine}, args, &out, &stderr)
		assert.NotContains(t, out.String()+stderr.String(), "OpenSesame")
		return out.String(), err
	}

	said, err := imports(path, "--to", to, "--dry-run")
	require.NoError(t, err)
	assert.Contains(t, said, "3 would be taken\n")
	assert.Zero(t, n.Client().DBSize(t.Context()).Val())

	said, err = imports(path, "--to", to)
	require.NoError(t, err)
	assert.Contains(t, said, "3 keys scanned in ")
	assert.Contains(t, said, "3 taken into "+to+"\n0 skipped\n")
	left := n.Client().PTTL(t.Context(), "cellserver:c").Val()
	assert.InDelta(t, time.Hour, left, float64(time.Minute))

	said, err = imports(path, "--to", to)
	require.NoError(t, err)
	assert.Contains(t, said, "0 taken into "+to+"\n3 skipped\n  3 exist in the target\n")
	said, err = imports(path, "--to", "redis://"+n.Addr(), "--replace")
	require.NoError(t, err)
	assert.Contains(t, said, "3 taken into redis://"+n.Addr())

	// What changes nothing.
	whole, err := os.ReadFile(path)
	require.NoError(t, err)
	bad := filepath.Join(t.TempDir(), "bad.cell")
	whole[len(whole)-10] ^= 1
	require.NoError(t, os.WriteFile(bad, whole, 0o600))
	require.NoError(t, n.Client().FlushAll(t.Context()).Err())
	for file, want := range map[string]string{
		bad: "nothing was written: ", snapshot(t, 3, expires, "a"): "has keys of database 3", path + "x": "no such file",
	} {
		said, err = imports(file, "--to", to)
		require.ErrorContains(t, err, want)
		assert.Empty(t, said)
		assert.Zero(t, n.Client().DBSize(t.Context()).Val())
	}

	t.Setenv("CELLSERVER_STORE_PASSWORD", "")
	_, err = imports(path, "--to", "valkey://:Wrong@"+n.Addr(), "--store-prefix", "x")
	require.ErrorContains(t, err, "WRONGPASS")
	assert.NotContains(t, err.Error(), "Wrong@")
}
