package engines

import (
	"fmt"
)

// Migration is a slot on its way from one master to another.
type Migration struct {
	c        *Cluster
	slot     int
	from, to *Node
}

// BeginMigration makes the owner of a slot hand over keys of it to another master. From then on the owner answers with ASK for keys that
// it does not have.
func (c *Cluster) BeginMigration(slot int, to *Node) *Migration {
	c.t.Helper()
	m := &Migration{c, slot, c.owner(slot), to}
	if m.from == nil {
		return m
	}
	_, err := to.do("CLUSTER", "SETSLOT", slot, "IMPORTING", m.from.id)
	c.check(err)
	_, err = m.from.do("CLUSTER", "SETSLOT", slot, "MIGRATING", to.id)
	c.check(err)
	return m
}

// From returns the master that owned the slot when the migration began.
func (m *Migration) From() *Node { return m.from }

// Step moves at most n keys, and returns how many it moved: fewer than n when there are no more.
func (m *Migration) Step(n int) (moved int) {
	m.c.t.Helper()
	moved, err := m.step(n)
	m.c.check(err)
	return moved
}

func (m *Migration) step(n int) (moved int, err error) {
	if m.from == nil {
		return 0, nil // which was reported
	}
	reply, err := m.from.do("CLUSTER", "GETKEYSINSLOT", m.slot, n)
	if err != nil {
		return 0, err
	}
	keys, ok := reply.([]any)
	if !ok {
		return 0, fmt.Errorf("GETKEYSINSLOT: %v", reply)
	}
	if len(keys) == 0 {
		return 0, nil
	}
	args := []any{"MIGRATE", "127.0.0.1", m.to.port, "", 0, patience.Milliseconds()}
	if m.to.password != "" {
		args = append(args, "AUTH", m.to.password)
	}
	// NOKEY is the answer when all of them expired meanwhile.
	_, err = m.from.do(append(append(args, "KEYS"), keys...)...)
	return len(keys), err
}

// Finish moves what keys are left and tells the masters who owns the slot now: first the new one, so that it has an owner throughout.
func (m *Migration) Finish() {
	m.c.t.Helper()
	if m.from == nil {
		return
	}
	for {
		moved, err := m.step(100)
		m.c.check(err)
		if moved == 0 || err != nil {
			break
		}
	}
	if _, err := m.to.do("CLUSTER", "SETSLOT", m.slot, "NODE", m.to.id); err != nil {
		m.c.check(err)
		return
	}
	for _, n := range m.c.nodes {
		if n == m.to.node || !n.answers() {
			continue
		}
		if role, err := n.info("replication", "role"); err != nil || role != "master" {
			m.c.check(err)
			continue
		}
		_, err := n.do("CLUSTER", "SETSLOT", m.slot, "NODE", m.to.id)
		m.c.check(err)
	}
}

// MigrateSlot moves a slot and its keys to another master.
func (c *Cluster) MigrateSlot(slot int, to *Node) {
	c.t.Helper()
	c.BeginMigration(slot, to).Finish()
}
