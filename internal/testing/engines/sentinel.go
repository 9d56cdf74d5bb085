package engines

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// sentinels watch one master; two of them have to agree that it is down.
const sentinels = 3

// MasterName is what sentinels call the master.
const MasterName = "limits"

// Sentinels watch a master and its replica. The methods may be called from any goroutine, before the test ends.
type Sentinels struct {
	t         testing.TB
	sentinels []*node
	servers   []*node // the master, and then its replica, when they start
}

// StartSentinels starts a master, a replica of it and three sentinels, and returns when these are ready to fail over.
func StartSentinels(t testing.TB, version Version, options ...Option) *Sentinels {
	t.Helper()
	s := &Sentinels{t: t}
	t.Cleanup(func() { endAll(append(s.sentinels, s.servers...)) })
	if err := s.start(version, version.Program(t, "server"), newSettings(t, options)); err != nil {
		t.Fatal(err)
	}
	return s
}

func (s *Sentinels) start(version Version, program string, set settings) error {
	for i := range 2 {
		var args []string
		if i != 0 {
			args = []string{"--replicaof", "127.0.0.1 " + strconv.Itoa(s.servers[0].port)}
		}
		n, err := newNode(version, program, s.t.TempDir(), set, false, args...)
		if err != nil {
			return err
		}
		s.servers = append(s.servers, n)
	}
	for range sentinels {
		n, err := s.startSentinel(version, program, set)
		if err != nil {
			return err
		}
		s.sentinels = append(s.sentinels, n)
	}
	return eventually(s.ready)
}

// startSentinel starts a sentinel that watches the master. It finds the others and the replica by way of the master.
func (s *Sentinels) startSentinel(version Version, program string, set settings) (*node, error) {
	n := &node{settings: set, version: version, program: program, dir: s.t.TempDir()}
	if set.authority != nil {
		return nil, errors.New("sentinels without TLS only")
	}
	err := withFreePorts(func(port, _ int) error {
		n.port = port
		config := []string{"bind 127.0.0.1", "protected-mode no", "dir " + n.dir,
			fmt.Sprintf("sentinel monitor %s 127.0.0.1 %d 2", MasterName, s.servers[0].port),
			fmt.Sprintf("sentinel down-after-milliseconds %s %d", MasterName, set.timeout.Milliseconds()),
			fmt.Sprintf("sentinel failover-timeout %s %d", MasterName, 5*set.timeout.Milliseconds())}
		if set.password != "" {
			config = append(config, "sentinel auth-pass "+MasterName+" "+set.password)
		}
		file := filepath.Join(n.dir, "sentinel.conf") // which it writes anew
		if err := os.WriteFile(file, []byte(strings.Join(config, "\n")+"\n"), 0o600); err != nil {
			return err
		}
		n.command = []string{file, "--sentinel", "--daemonize", "no", "--logfile", ""}
		return n.start()
	})
	if err != nil {
		return nil, err
	}
	n.password = "" // sentinels ask for none
	n.client = newClient(n)
	return n, nil
}

// ready returns nil if the sentinels that answer know each other, and that the replica is one that could take over.
func (s *Sentinels) ready() error {
	for _, n := range s.sentinels {
		if !n.answers() {
			continue
		}
		if _, err := n.do("SENTINEL", "CKQUORUM", MasterName); err != nil {
			return err
		}
		others, err := n.do("SENTINEL", "SENTINELS", MasterName)
		if err != nil {
			return err
		}
		if list, ok := others.([]any); !ok || len(list) != sentinels-1 {
			return fmt.Errorf("%s knows %v", n.direct(), others)
		}
		replicas, err := n.do("SENTINEL", "REPLICAS", MasterName)
		if err != nil {
			return err
		}
		list, _ := replicas.([]any)
		if len(list) != 1 {
			return fmt.Errorf("%s knows %v", n.direct(), replicas)
		}
		fields := make(map[string]string)
		words, _ := list[0].([]any)
		for pair := range slices.Chunk(words, 2) {
			fields[fmt.Sprint(pair[0])] = fmt.Sprint(pair[len(pair)-1])
		}
		if fields["flags"] != "slave" || fields["master-link-status"] != "ok" {
			return fmt.Errorf("%s says of the replica: %v", n.direct(), fields)
		}
	}
	return nil
}

// Addrs returns the addresses of the sentinels.
func (s *Sentinels) Addrs() []string {
	addrs := make([]string, len(s.sentinels))
	for i, n := range s.sentinels {
		addrs[i] = n.direct()
	}
	return addrs
}

// Servers returns the two servers: the master when they started, and its replica.
func (s *Sentinels) Servers() []*Node { return []*Node{{s.t, s.servers[0]}, {s.t, s.servers[1]}} }

// Nodes returns the sentinels themselves.
func (s *Sentinels) Nodes() []*Node {
	all := make([]*Node, len(s.sentinels))
	for i, n := range s.sentinels {
		all[i] = &Node{s.t, n}
	}
	return all
}

// Master waits until the sentinels that answer agree on a master that answers as one, and returns it.
func (s *Sentinels) Master() (master *Node) {
	s.t.Helper()
	err := eventually(func() error {
		var agreed string
		for _, n := range s.sentinels {
			if !n.answers() {
				continue
			}
			reply, err := n.do("SENTINEL", "GET-MASTER-ADDR-BY-NAME", MasterName)
			if err != nil {
				return err
			}
			words, _ := reply.([]any)
			if len(words) != 2 {
				return fmt.Errorf("%s knows no master", n.direct())
			}
			addr := net.JoinHostPort(fmt.Sprint(words[0]), fmt.Sprint(words[1]))
			if agreed != "" && agreed != addr {
				return fmt.Errorf("the master is %s or %s", agreed, addr)
			}
			agreed = addr
		}
		for _, n := range s.servers {
			if n.direct() != agreed || !n.answers() {
				continue
			}
			if role, err := n.info("replication", "role"); err != nil || role != "master" {
				return errors.Join(err, errors.New("the role of the master is "+role))
			}
			master = &Node{s.t, n}
			return nil
		}
		return fmt.Errorf("the master %s does not answer", agreed)
	})
	if err != nil {
		s.t.Error(err)
	}
	return master
}

// KillMaster kills the master and returns it. The replica takes over within seconds: see Master.
func (s *Sentinels) KillMaster() *Node {
	s.t.Helper()
	master := s.Master()
	if master != nil {
		master.Kill()
	}
	return master
}
