package engines

import (
	"os"
	"sync"
	"testing"
	"time"
)

// shared are the clusters that the tests of a package have in common.
var shared struct {
	sync.Mutex
	open     bool // while Main runs
	clusters map[Version]*sharedCluster
}

type sharedCluster struct {
	start sync.Once
	dir   string
	nodes []*node
	err   error
}

// SharedCluster returns a cluster that the tests of a package have in common: the first that asks for a release starts it. Tests keep to
// keys of their own, such as those that start with the name of the test, and leave the nodes and the slots alone. TestMain has to use
// Main, which ends the cluster.
func SharedCluster(t testing.TB, version Version) *Cluster {
	t.Helper()
	program := version.Program(t, "server")
	shared.Lock()
	if !shared.open {
		shared.Unlock()
		t.Fatal("a shared cluster needs engines.Main in TestMain")
	}
	c := shared.clusters[version]
	if c == nil {
		c = &sharedCluster{}
		shared.clusters[version] = c
	}
	shared.Unlock()
	c.start.Do(func() { // those of other releases start meanwhile
		if c.dir, c.err = os.MkdirTemp("", "cellserver-engines-"); c.err == nil {
			// Nobody kills its nodes, and a busy machine must not make them believe so.
			c.nodes, c.err = newCluster(version, program, c.dir, newSettings(nil, []Option{NodeTimeout(10 * time.Second)}))
		}
	})
	if c.err != nil {
		t.Fatal(c.err)
	}
	return &Cluster{t, c.nodes}
}

// Main returns what TestMain runs instead of m, in a package whose tests share clusters. It ends them after the tests:
//
//	func TestMain(m *testing.M) { goleak.VerifyTestMain(engines.Main(m)) }
func Main(m *testing.M) *Tests { return &Tests{m} }

// Tests are the tests of a package.
type Tests struct{ m *testing.M }

// Run runs the tests, ends the shared clusters, and returns the exit code.
func (t *Tests) Run() int {
	shared.Lock()
	shared.open, shared.clusters = true, make(map[Version]*sharedCluster)
	shared.Unlock()
	defer func() {
		shared.Lock()
		defer shared.Unlock()
		shared.open = false
		for _, c := range shared.clusters {
			endAll(c.nodes)
			_ = os.RemoveAll(c.dir)
		}
	}()
	return t.m.Run()
}
