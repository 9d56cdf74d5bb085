package engines

import (
	"bufio"
	"context"
	"crypto/tls"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"cellserver/internal/testing/testcert"
)

// eachVersion runs a test with every release.
func eachVersion(t *testing.T, test func(t *testing.T, version Version)) {
	for _, version := range Versions() {
		t.Run(version.String(), func(t *testing.T) { test(t, version) })
	}
}

// together runs a test, which mostly waits, with releases at the same time, and beside the other tests that mostly wait.
func together(t *testing.T, versions []Version, test func(t *testing.T, version Version)) {
	t.Parallel()
	for _, version := range versions {
		t.Run(version.String(), func(t *testing.T) {
			t.Parallel()
			test(t, version)
		})
	}
}

// gone reports whether no process has an id.
func gone(pid int) bool { return syscall.Kill(pid, 0) == syscall.ESRCH }

func TestStandalone(t *testing.T) {
	eachVersion(t, func(t *testing.T, version Version) {
		began := time.Now()
		n := Standalone(t, version)
		t.Logf("ready after %v", time.Since(began))
		client, ctx := n.Client(), context.Background()
		require.NoError(t, client.Set(ctx, "k", "old", 0).Err())
		old, err := client.Do(ctx, "SET", "k", "new", "IFEQ", "old", "GET", "PX", "10000").Result()
		if version.IFEQ() {
			require.NoError(t, err)
			assert.Equal(t, "old", old)
			assert.Equal(t, "new", client.Get(ctx, "k").Val())
		} else {
			assert.EqualError(t, err, "ERR syntax error")
		}
		number := n.Info("server", version.engine+"_version")
		assert.True(t, len(number) > len(version.number) && number[:len(version.number)+1] == version.number+".", number)
	})
}

func TestNodeEndsAndStartsAgain(t *testing.T) {
	eachVersion(t, func(t *testing.T, version Version) {
		n := Standalone(t, version, Args("--appendonly", "yes"))
		first, addr := n.PID(), n.Addr()
		n.Stop()
		assert.True(t, gone(first))
		n.Start()
		assert.Equal(t, addr, n.Addr())
		assert.NotEqual(t, first, n.PID())
		assert.Equal(t, "OK\n", n.CLI("SET", "k", "v"))
		second := n.PID()
		n.Kill()
		assert.True(t, gone(second))
		n.Start()
		assert.Equal(t, "v\n", n.CLI("GET", "k"), "written to disk before the reply")
	})
}

func TestPausedNodeAnswersLater(t *testing.T) {
	n := Standalone(t, Valkey91)
	client := n.Client()
	ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
	defer cancel()
	n.Pause()
	require.ErrorIs(t, client.Ping(ctx).Err(), os.ErrDeadlineExceeded)
	n.Resume()
	require.NoError(t, client.Ping(context.Background()).Err())
	n.Pause() // and ends with the test
}

func TestNodeWithPasswordAndTLS(t *testing.T) {
	eachVersion(t, func(t *testing.T, version Version) {
		authority := testcert.NewAuthority(t, "authority")
		n := Standalone(t, version, Password("secret"), TLS(authority), Args("--maxmemory", "5mb"))
		assert.Equal(t, "PONG\n", n.CLI("PING"))
		assert.Equal(t, "5242880", n.Info("memory", "maxmemory"))

		plain := redis.NewClient(&redis.Options{Addr: n.Addr(), MaxRetries: -1})
		defer plain.Close()
		require.Error(t, plain.Ping(context.Background()).Err())
		unknown := redis.NewClient(&redis.Options{Addr: n.Addr(), MaxRetries: -1, TLSConfig: &tls.Config{RootCAs: authority.Trust()}})
		defer unknown.Close()
		require.ErrorContains(t, unknown.Ping(context.Background()).Err(), "NOAUTH")
	})
}

// A server ends with the test that started it, whatever state it is in.
func TestNothingIsLeftAfterATest(t *testing.T) {
	var pids []int
	t.Run("starts", func(t *testing.T) {
		for _, end := range []func(*Node){func(*Node) {}, (*Node).Kill, (*Node).Stop, (*Node).Pause} {
			n := Standalone(t, Valkey81)
			pids = append(pids, n.PID())
			end(n)
		}
		for _, n := range StartCluster(t, Valkey81).Nodes() {
			pids = append(pids, n.PID())
		}
	})
	require.Len(t, pids, 10)
	for _, pid := range pids {
		assert.True(t, gone(pid), pid)
	}
}

// clusterClient finds a new master soon: by itself a client of go-redis asks once a minute.
func clusterClient(t *testing.T, addrs []string) *redis.ClusterClient {
	client := redis.NewClusterClient(&redis.ClusterOptions{Addrs: addrs, ClusterStateReloadInterval: 100 * time.Millisecond,
		DialerRetries: 1, PoolSize: poolSize, MaxRedirects: 1, ReadTimeout: time.Second})
	t.Cleanup(func() { _ = client.Close() })
	return client
}

func TestCluster(t *testing.T) {
	together(t, Versions(), func(t *testing.T, version Version) {
		began := time.Now()
		c := StartCluster(t, version)
		t.Logf("ready after %v", time.Since(began))
		client := clusterClient(t, c.Addrs())
		ctx := context.Background()
		require.NoError(t, client.Set(ctx, "k", "v", 0).Err())
		require.EqualValues(t, 1, client.Wait(ctx, 1, patience).Val())

		master, replica := c.Master("k"), c.Replica("k")
		assert.Equal(t, "master", master.Info("replication", "role"))
		assert.Equal(t, "slave", replica.Info("replication", "role"))
		began = time.Now()
		assert.Equal(t, master.Addr(), c.KillMaster("k").Addr())
		assert.Equal(t, replica.Addr(), c.Master("k").Addr(), "the replica takes over")
		t.Logf("the replica is master after %v", time.Since(began))
		c.WaitOK()
		t.Logf("the cluster is in order after %v", time.Since(began))
		require.Eventually(t, func() bool { return client.Set(ctx, "k", "new", 0).Err() == nil }, patience, 10*time.Millisecond)

		master.Start()
		c.WaitOK()
		require.Eventually(t, func() bool { return master.Info("replication", "role") == "slave" }, patience, 10*time.Millisecond)
	})
}

// Two tests share one cluster, which runs until the package's tests end.
func TestSharedCluster(t *testing.T) {
	first, second := SharedCluster(t, Valkey91), SharedCluster(t, Valkey91)
	assert.Equal(t, first.Addrs(), second.Addrs())
	second.WaitOK()
	require.NoError(t, clusterClient(t, first.Addrs()).Set(context.Background(), t.Name(), "v", 0).Err())
}

func TestSentinels(t *testing.T) {
	together(t, []Version{Valkey91, Redis70}, func(t *testing.T, version Version) {
		began := time.Now()
		s := StartSentinels(t, version, Password("secret"))
		t.Logf("ready after %v", time.Since(began))
		client := redis.NewFailoverClient(&redis.FailoverOptions{MasterName: MasterName, SentinelAddrs: s.Addrs(), Password: "secret",
			DialerRetries: 1, PoolSize: poolSize})
		defer client.Close()
		ctx := context.Background()
		require.NoError(t, client.Set(ctx, "k", "v", 0).Err())
		require.EqualValues(t, 1, client.Wait(ctx, 1, patience).Val())

		began = time.Now()
		old := s.KillMaster()
		require.NotNil(t, old)
		assert.Equal(t, s.Servers()[0].Addr(), old.Addr())
		assert.Equal(t, s.Servers()[1].Addr(), s.Master().Addr())
		t.Logf("the replica is master after %v", time.Since(began))
		require.Eventually(t, func() bool { return client.Get(ctx, "k").Val() == "v" }, patience, 10*time.Millisecond)
		assert.Len(t, s.Nodes(), 3)
	})
}

// The servers end with the process that started them, though it is killed.
func TestServersEndWithTheirProcess(t *testing.T) {
	const inChild = "CELLSERVER_TEST_ENGINES_CHILD"
	if os.Getenv(inChild) != "" {
		n := Standalone(t, Valkey91)
		n.Pause() // nothing that it could do about it
		fmt.Printf("pid %d\n", n.PID())
		select {}
	}
	Valkey91.Program(t, "server")
	child := exec.Command(os.Args[0], "-test.run=^TestServersEndWithTheirProcess$")
	child.Env = append(os.Environ(), inChild+"=1", "GOCOVERDIR="+t.TempDir())
	out, err := child.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, child.Start())
	var pid int
	for lines := bufio.NewScanner(out); pid == 0 && lines.Scan(); {
		_, _ = fmt.Sscanf(lines.Text(), "pid %d", &pid)
	}
	assert.NotZero(t, pid)
	assert.False(t, gone(pid))
	require.NoError(t, child.Process.Kill())
	_ = child.Wait()
	require.Eventually(t, func() bool { return gone(pid) }, patience, 5*time.Millisecond)
}

func TestMigration(t *testing.T) {
	together(t, []Version{Valkey91, Redis70}, func(t *testing.T, version Version) {
		authority := testcert.NewAuthority(t, "authority")
		c := StartCluster(t, version, Password("secret"), TLS(authority), NodeTimeout(5*time.Second))
		ctx := context.Background()
		client := redis.NewClusterClient(&redis.ClusterOptions{Addrs: c.Addrs(), Password: "secret",
			TLSConfig: &tls.Config{RootCAs: authority.Trust()}})
		defer client.Close()
		keys := []string{"{k}1", "{k}2", "{k}3", "{k}4", "{k}5"}
		for _, key := range keys {
			require.NoError(t, client.Set(ctx, key, "of "+key, 0).Err())
		}
		from, to := c.Master("k"), c.Master("other")
		require.NotEqual(t, from.Addr(), to.Addr())

		m := c.BeginMigration(c.Slot("k"), to)
		assert.Equal(t, from.Addr(), m.From().Addr())
		assert.Equal(t, 2, m.Step(2))
		asks := 0
		direct := from.Client()
		for _, key := range keys {
			if err := direct.Get(ctx, key).Err(); err != nil {
				assert.ErrorContains(t, err, "ASK ")
				asks++
			}
			assert.Equal(t, "of "+key, client.Get(ctx, key).Val())
		}
		assert.Equal(t, 2, asks)

		m.Finish()
		c.WaitOK()
		assert.Equal(t, to.Addr(), c.Master("k").Addr())
		require.ErrorContains(t, direct.Get(ctx, keys[0]).Err(), "MOVED ")
		for _, key := range keys {
			assert.Equal(t, "of "+key, client.Get(ctx, key).Val())
		}
	})
}
