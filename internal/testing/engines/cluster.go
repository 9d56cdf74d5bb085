package engines

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

const (
	slots   = 16384
	masters = 3 // and as many replicas
)

// WithProxies puts a proxy before each node of a cluster: the nodes announce the addresses of the proxies, so clients connect to these.
// The bus of the cluster does not go through them. The connections of replicas to their masters do, but for Valkey 9.1, which can announce
// the proxies to clients alone.
func WithProxies() Option { return func(s *settings) { s.proxies = true } }

// Cluster is three masters, and a replica of each. Its methods may be called from any goroutine, before the test ends.
type Cluster struct {
	t     testing.TB
	nodes []*node // the masters, and then their replicas in the same order, when it starts
}

// StartCluster starts a cluster of the test's own, and returns when all of it is in order. That takes a few seconds.
func StartCluster(t testing.TB, version Version, options ...Option) *Cluster {
	t.Helper()
	nodes, err := newCluster(version, version.Program(t, "server"), t.TempDir(), newSettings(t, options))
	t.Cleanup(func() { endAll(nodes) })
	if err != nil {
		t.Fatal(err)
	}
	return &Cluster{t, nodes}
}

// newCluster starts a cluster. With an error it returns the nodes that run.
func newCluster(version Version, program, dir string, s settings) ([]*node, error) {
	nodes := make([]*node, 2*masters)
	errs := make([]error, len(nodes))
	var starting sync.WaitGroup
	for i := range nodes {
		starting.Go(func() {
			dir := filepath.Join(dir, strconv.Itoa(i))
			if errs[i] = os.Mkdir(dir, 0o700); errs[i] == nil {
				nodes[i], errs[i] = newNode(version, program, dir, s, true)
			}
		})
	}
	starting.Wait()
	nodes = slices.DeleteFunc(nodes, func(n *node) bool { return n == nil })
	if err := errors.Join(errs...); err != nil {
		return nodes, err
	}
	return nodes, join(nodes)
}

// join makes a cluster of nodes that know nothing yet.
func join(nodes []*node) error {
	for i, n := range nodes {
		id, err := n.text("CLUSTER", "MYID")
		if err != nil {
			return err
		}
		n.id = id
		if _, err := n.do("CLUSTER", "SET-CONFIG-EPOCH", i+1); err != nil {
			return err
		}
		if i < masters {
			if _, err := n.do("CLUSTER", "ADDSLOTSRANGE", i*slots/masters, (i+1)*slots/masters-1); err != nil {
				return err
			}
		}
	}
	for i, n := range nodes {
		for _, other := range nodes[:i] { // each pair, which is faster than to wait for gossip
			if _, err := n.do("CLUSTER", "MEET", "127.0.0.1", other.port, other.bus); err != nil {
				return err
			}
		}
	}
	for i, replica := range nodes[masters:] {
		err := eventually(func() error {
			_, err := replica.do("CLUSTER", "REPLICATE", nodes[i].id)
			return err
		})
		if err != nil {
			return err
		}
	}
	return eventually(func() error { return inOrder(nodes) })
}

func endAll(nodes []*node) {
	for _, n := range nodes {
		n.end()
	}
}

// eventually calls check until it succeeds, and returns its last error if that takes too long.
func eventually(check func() error) error {
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(patience); ; <-tick.C {
		if err := check(); err == nil || time.Now().After(end) {
			return err
		}
	}
}

// member is what one node knows of another, or of itself.
type member struct {
	master string // the id of its master; empty for a master
	flags  []string
	linked bool
	slots  [][2]int
}

func (m member) has(slot int) bool {
	return slices.ContainsFunc(m.slots, func(r [2]int) bool { return r[0] <= slot && slot <= r[1] })
}

// members returns what a node knows, by id.
func (n *node) members() (map[string]member, error) {
	text, err := n.text("CLUSTER", "NODES")
	if err != nil {
		return nil, err
	}
	known := make(map[string]member)
	for line := range strings.Lines(text) {
		f := strings.Fields(line)
		if len(f) < 8 {
			return nil, fmt.Errorf("CLUSTER NODES of %s: %q", n.direct(), line)
		}
		m := member{flags: strings.Split(f[2], ","), linked: f[7] == "connected"}
		if f[3] != "-" {
			m.master = f[3]
		}
		for _, words := range f[8:] {
			if strings.HasPrefix(words, "[") { // a slot that migrates
				continue
			}
			from, to, isRange := strings.Cut(words, "-")
			if !isRange {
				to = from
			}
			first, err1 := strconv.Atoi(from)
			last, err2 := strconv.Atoi(to)
			if err := errors.Join(err1, err2); err != nil {
				return nil, err
			}
			m.slots = append(m.slots, [2]int{first, last})
		}
		known[f[0]] = m
	}
	return known, nil
}

// inOrder returns nil if every node that answers says that the cluster is well, knows all the others that answer and whose replicas they
// are, has the same view of who owns which slots, all of them nodes that answer, and is in sync with its master if it is a replica.
func inOrder(nodes []*node) error {
	answering := slices.DeleteFunc(slices.Clone(nodes), func(n *node) bool { return !n.answers() })
	masterOf := make(map[string]string) // as each says of itself
	for _, n := range answering {
		known, err := n.members()
		if err != nil {
			return err
		}
		masterOf[n.id] = known[n.id].master
	}
	var agreed map[string][][2]int
	for _, n := range answering {
		known, err := n.members()
		if err != nil {
			return err
		}
		for _, other := range answering {
			m, ok := known[other.id]
			if !ok || !m.linked || slices.Contains(m.flags, "fail") || slices.Contains(m.flags, "fail?") {
				return fmt.Errorf("%s says of %s: %v", n.direct(), other.direct(), m)
			}
			if m.master != masterOf[other.id] {
				return fmt.Errorf("%s does not know yet whose replica %s is", n.direct(), other.direct())
			}
		}
		owners, owned := make(map[string][][2]int), 0
		for id, m := range known {
			if slices.Contains(m.flags, "handshake") {
				return fmt.Errorf("%s does not know %s yet", n.direct(), id)
			}
			if len(m.slots) == 0 {
				continue
			}
			if !slices.ContainsFunc(answering, func(n *node) bool { return n.id == id }) {
				return fmt.Errorf("%s says that slots are owned by %s, which does not answer", n.direct(), id)
			}
			owners[id] = m.slots
			for _, r := range m.slots {
				owned += r[1] - r[0] + 1
			}
		}
		if owned != slots {
			return fmt.Errorf("%s knows the owners of %d slots", n.direct(), owned)
		}
		if agreed == nil {
			agreed = owners
		} else if !maps.EqualFunc(agreed, owners, slices.Equal) {
			return fmt.Errorf("%s has another view of the slots than %s", n.direct(), answering[0].direct())
		}
		if err := n.well(known[n.id]); err != nil {
			return err
		}
	}
	return nil
}

// well returns nil if a node says that the cluster is, and that it has what its master has.
func (n *node) well(self member) error {
	text, err := n.text("CLUSTER", "INFO")
	if err != nil {
		return err
	}
	if !strings.Contains(text, "cluster_state:ok") {
		return fmt.Errorf("%s says: %s", n.direct(), strings.Fields(text)[0])
	}
	if self.master == "" {
		return nil
	}
	link, err := n.info("replication", "master_link_status")
	if err == nil && link != "up" {
		err = fmt.Errorf("%s is not in sync with its master", n.direct())
	}
	return err
}

// WaitOK waits until the nodes that run and are not paused agree, every slot is owned by one of them, and replicas are in sync.
func (c *Cluster) WaitOK() {
	c.t.Helper()
	c.check(eventually(func() error { return inOrder(c.nodes) }))
}

// Nodes returns all nodes, those too that do not run.
func (c *Cluster) Nodes() []*Node {
	all := make([]*Node, len(c.nodes))
	for i, n := range c.nodes {
		all[i] = &Node{c.t, n}
	}
	return all
}

// Addrs returns the addresses of all nodes.
func (c *Cluster) Addrs() []string {
	addrs := make([]string, len(c.nodes))
	for i, n := range c.nodes {
		addrs[i] = n.addr()
	}
	return addrs
}

// Slot returns the hash slot of a key.
func (c *Cluster) Slot(key string) int {
	c.t.Helper()
	for _, n := range c.nodes {
		if n.answers() {
			slot, err := n.do("CLUSTER", "KEYSLOT", key)
			c.check(err)
			number, _ := slot.(int64)
			return int(number)
		}
	}
	c.t.Error("no node answers")
	return 0
}

// Master returns the node that owns the slot of a key. If that one does not answer, it waits until another owns the slot.
func (c *Cluster) Master(key string) *Node {
	c.t.Helper()
	return c.owner(c.Slot(key))
}

// Replica returns a replica of the master of a key that answers, or nil.
func (c *Cluster) Replica(key string) *Node {
	c.t.Helper()
	master := c.Master(key)
	if master == nil {
		return nil
	}
	known, err := master.members()
	c.check(err)
	for _, n := range c.nodes {
		if known[n.id].master == master.id && n.answers() {
			return &Node{c.t, n}
		}
	}
	return nil
}

func (c *Cluster) owner(slot int) (owner *Node) {
	c.t.Helper()
	c.check(eventually(func() error {
		for _, n := range c.nodes {
			if !n.answers() {
				continue
			}
			known, err := n.members()
			// What a node says of itself: what others say of it may be old.
			if self := known[n.id]; err == nil && self.master == "" && self.has(slot) {
				owner = &Node{c.t, n}
				return nil
			}
		}
		return fmt.Errorf("no node that answers owns slot %d", slot)
	}))
	return owner
}

// KillMaster kills the master of a key and returns it. Its replica takes over within seconds: see WaitOK.
func (c *Cluster) KillMaster(key string) *Node {
	c.t.Helper()
	master := c.Master(key)
	if master != nil {
		master.Kill()
	}
	return master
}

func (c *Cluster) check(err error) {
	c.t.Helper()
	if err != nil {
		c.t.Error(err)
	}
}
