package cluster

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"

	"cellserver/internal/hashslot"
)

// topology is how the servers of an engine stand to each other.
type topology = int32

const (
	undiscovered topology = iota
	standalone
	sentinel
	clustered
)

var topologyNames = [...]string{undiscovered: "", standalone: "standalone", sentinel: "sentinel", clustered: "cluster"}

// maxServers is the number of servers that an engine may have, replicas included.
const maxServers = 2000

// view is what one server says about the topology.
type view struct {
	kind   topology
	sound  bool        // a cluster that says of itself that it serves requests; always true for another topology
	epoch  uint64      // of a cluster: a later one is of a newer configuration
	ranges []slotRange // what is no cluster has one
	others []string    // the addresses of replicas
}

// slotRange is an interval of slots, both ends included, and the address of the server that has them.
type slotRange struct {
	first, last uint16
	addr        string
}

// better reports whether v is the view of a newer or healthier cluster than w, which may be nil.
func (v *view) better(w *view) bool {
	switch {
	case w == nil:
		return true
	case v.sound != w.sound:
		return v.sound
	}
	return v.epoch > w.epoch
}

// The commands that ask for a view of a cluster.
var askView = [][]string{{"CLUSTER", "INFO"}, {"CLUSTER", "SLOTS"}}

// parseView returns what the server at addr has answered to askView.
func parseView(addr string, replies []any) (*view, error) {
	switch text := replies[0].(type) {
	case refusal:
		if noCluster(text) {
			return &view{kind: standalone, sound: true, ranges: allSlots(addr)}, nil
		}
		return nil, fmt.Errorf("CLUSTER INFO is refused: %w", text)
	case string:
		v := &view{kind: clustered, sound: fieldOf(text, "cluster_state") == "ok"}
		v.epoch, _ = strconv.ParseUint(fieldOf(text, "cluster_current_epoch"), 10, 64)
		return v, v.parseSlots(addr, replies[1])
	}
	return nil, errors.New("the reply to CLUSTER INFO is malformed")
}

// noCluster reports whether an error of CLUSTER says that the server is no part of a cluster.
func noCluster(r refusal) bool {
	text := strings.ToLower(string(r))
	return strings.Contains(text, "cluster support disabled") || strings.HasPrefix(text, "err unknown command")
}

func allSlots(addr string) []slotRange { return []slotRange{{0, hashslot.Count - 1, addr}} }

// parseSlots reads what the server at addr answers to CLUSTER SLOTS: for each interval of slots its ends, then the master and the
// replicas, each with its host and its port. Slots whose master has no usable address are left out.
func (v *view) parseSlots(addr string, reply any) error {
	if refused, is := reply.(refusal); is {
		return fmt.Errorf("CLUSTER SLOTS is refused: %w", refused)
	}
	intervals, is := reply.([]any)
	known := make(map[string]struct{})
	for _, interval := range intervals {
		parts, _ := interval.([]any)
		if len(parts) < 3 {
			is = false
			break
		}
		first, isFirst := parts[0].(int64)
		last, isLast := parts[1].(int64)
		if !isFirst || !isLast || first < 0 || first > last || last >= hashslot.Count {
			is = false
			break
		}
		for i, part := range parts[2:] {
			server, usable := serverOf(addr, part)
			if !usable {
				continue
			}
			if i == 0 {
				v.ranges = append(v.ranges, slotRange{uint16(first), uint16(last), server})
			} else if _, seen := known[server]; !seen && len(known) < maxServers {
				known[server] = struct{}{}
				v.others = append(v.others, server)
			}
		}
	}
	if !is {
		return errors.New("the reply to CLUSTER SLOTS is malformed")
	}
	return nil
}

// serverOf returns the address in a reply of the server at from.
func serverOf(from string, reply any) (addr string, usable bool) {
	parts, _ := reply.([]any)
	if len(parts) < 2 {
		return "", false
	}
	host, is := parts[0].(string)
	port, isPort := parts[1].(int64)
	if !isPort || !is && parts[0] != nil {
		return "", false
	}
	return address(from, host, strconv.FormatInt(port, 10))
}

// address returns an address that the server at from has given, in one form. It may leave out the host, which is then its own.
func address(from, host, port string) (addr string, usable bool) {
	if host == "" {
		host, _, _ = net.SplitHostPort(from)
	}
	n, err := strconv.Atoi(port)
	if err != nil || n < 1 || n > 65535 || host == "" || len(host) > 255 {
		return "", false
	}
	for _, c := range []byte(host) {
		if c <= ' ' || c > '~' || strings.IndexByte(`?/\"'@[]`, c) >= 0 {
			return "", false
		}
	}
	return net.JoinHostPort(host, strconv.Itoa(n)), true
}

// redirection returns the address in a MOVED or ASK reply of the server at from: host:port, in which the host may be empty, or an
// IPv6 address without brackets.
func redirection(from, text string) (addr string, usable bool) {
	i := strings.LastIndexByte(text, ':')
	if i < 0 {
		return "", false
	}
	host := text[:i]
	if strings.HasPrefix(host, "[") && strings.HasSuffix(host, "]") {
		host = host[1 : len(host)-1]
	}
	return address(from, host, text[i+1:])
}

// fieldOf returns a field of a text of lines name:value.
func fieldOf(text, name string) string {
	for line := range strings.Lines(text) {
		if value, is := strings.CutPrefix(line, name+":"); is {
			return strings.TrimRight(value, "\r\n")
		}
	}
	return ""
}

// askSentinel returns the view of the sentinel at addr: where the master is.
func (e *engine) askSentinel(ctx context.Context, addr string) (*view, error) {
	conn, err := e.dial(ctx, addr, e.config.SentinelUsername, e.config.SentinelPassword)
	if err != nil {
		return nil, err
	}
	l := newLink(conn)
	defer l.close()
	replies, err := l.ask(ctx, []string{"SENTINEL", "GET-MASTER-ADDR-BY-NAME", e.config.Sentinel})
	if err != nil {
		return nil, err
	}
	if refused, is := replies[0].(refusal); is {
		return nil, fmt.Errorf("the sentinel refuses: %w", refused)
	}
	if replies[0] == nil {
		return nil, fmt.Errorf("the sentinel knows no master %q", e.config.Sentinel)
	}
	parts, _ := replies[0].([]any)
	if len(parts) == 2 {
		host, _ := parts[0].(string)
		port, _ := parts[1].(string)
		if master, usable := address(addr, host, port); usable && host != "" {
			return e.confirmMaster(ctx, master)
		}
	}
	return nil, errors.New("the reply of the sentinel is malformed")
}

// confirmMaster returns the view in which a server is the master. It returns an error if the server says that it is none: then the
// sentinel that has named it has not heard of a failover, or that server has not. A server that does not answer may be the master.
func (e *engine) confirmMaster(ctx context.Context, master string) (*view, error) {
	v := &view{kind: sentinel, sound: true, ranges: allSlots(master)}
	if n := e.only.Load(); n != nil && n.addr == master && n.answers.Load() && !e.doubted {
		return v, nil
	}
	conn, err := e.dialServer(ctx, master)
	if err != nil {
		return v, nil //nolint:nilerr // the node of that address says what is wrong
	}
	l := newLink(conn)
	defer l.close()
	replies, err := l.ask(ctx, []string{"INFO", "replication"})
	if err != nil {
		return v, nil //nolint:nilerr // as above
	}
	if text, is := replies[0].(string); is && fieldOf(text, "role") == "slave" {
		return nil, fmt.Errorf("the sentinel names %s, which is a replica", master)
	}
	return v, nil
}
