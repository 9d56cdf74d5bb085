package cluster

import (
	"sync/atomic"

	"cellserver/internal/hashslot"
)

// engine is the program that keeps the keys: one server, the master that Sentinel names, or a cluster. It keeps track of
// which servers there are, which slot is where, and what time it is there. It does so in the background, so its methods
// wait for nothing.
type engine struct {
	config *Config
	events events

	kind  atomic.Int32                         // a topology
	slots [hashslot.Count]atomic.Pointer[node] // of a cluster
	only  atomic.Pointer[node]                 // of what is no cluster
	all   atomic.Pointer[[]*node]              // the masters, in the order of their addresses
}

// events are what an engine tells its user. They are called one at a time, and must neither wait nor call the engine's close.
type events struct {
	// changed is called after a node has become ready, and after slots have moved: requests that wait for a node may find one.
	changed func()
	// left is called after a node has left the topology. slots lead to it no more; requests that wait for it go elsewhere.
	left func(n *node)
}

// newEngine returns an engine that connects in the background until it is closed.
func newEngine(c *Config, ev events) *engine { return &engine{config: c, events: ev} }

// close ends everything that the engine has started, and waits for it.
func (e *engine) close() {}

// node returns the server that has a slot; nil while it is unknown. What is no cluster has every slot in one server.
func (e *engine) node(slot uint16) *node { return nil }

// slot returns the slot of a key of the engine, prefix included; 0 for what is no cluster. While it is unknown what the
// engine is, slot returns what it would be in a cluster; node takes either.
func (e *engine) slot(engineKey []byte) uint16 { return 0 }

// clustered reports whether the engine is a cluster. It is false while that is unknown.
func (e *engine) clustered() bool { return false }

// masters returns the servers that have slots, in a stable order. The caller must not change it.
func (e *engine) masters() []*node { return nil }

// moved notes that a slot is at addr, as a MOVED reply says, and has the topology read soon. from is the server that said so. It
// returns nil if addr is no address, or if there are too many servers.
func (e *engine) moved(from *node, slot uint16, addr string) *node { return nil }

// at returns the server at addr, as an ASK reply by from names it. It returns nil as moved does.
func (e *engine) at(from *node, addr string) *node { return nil }

// refresh has the topology read again soon. It is cheap: however often it is called, there is one reading at a time, and at most
// about ten a second.
func (e *engine) refresh() {}

// hasIFEQ reports whether the engine knows SET with IFEQ; known is false until it has been found out.
func (e *engine) hasIFEQ() (yes, known bool) { return false, false }

// why says why the engine, or a part of it, is away; "" if it is not.
func (e *engine) why() string { return "" }

// ready reports whether requests can be decided: every slot has a server whose time is known, and the mechanism is known.
func (e *engine) ready() bool { return false }

// timed reports whether the time of the engine is known. A time that now returned before that is not on its clock.
func (e *engine) timed() bool { return false }

// now returns the time of the engine, in nanoseconds of Unix time; that of this process until timed.
func (e *engine) now() int64 { return e.config.Local() }

// offset returns how far the time of the engine is ahead of Local, and by how much that may be wrong, in nanoseconds.
func (e *engine) offset() (ahead, bound int64) { return 0, 0 }

// name returns the engine's name and version; "" while they are unknown.
func (e *engine) name() string { return "" }

// topology returns standalone, sentinel or cluster; "" while it is unknown.
func (e *engine) topology() string { return "" }
