package cluster

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"slices"
	"sync"

	"cellserver/buckets"
)

// Operations on several keys are transactions. Those of this process that name the same keys are decided together, in the order
// in which they came, by one of their callers: the leader. Those whose keys are partly the same exclude each other. So
// conflicts come from other programs only, and what many callers of one process ask for costs as many transactions as that
// of a few.

// together is the operations on several keys that are under way.
type together struct {
	locks  keyLocks
	mu     sync.Mutex
	groups map[string]*group
}

// group is the operations on the same keys.
type group struct {
	waiting []*member // without a leader, if there is one
}

// member is an operation of a group. The lock of together guards its state.
type member struct {
	op       *buckets.Op
	now      int64
	ctx      context.Context // of withTimeout
	state    memberState
	turn     chan struct{} // gets a value when the member is to lead, and when its operation has its result
	panicked any           // what the updater has panicked with
}

type memberState uint8

const (
	waiting memberState = iota // in group.waiting
	leading
	taken // by a leader, who alone may use the operation
	done
)

// mostTogether is how many operations are decided in one transaction.
const mostTogether = 1024

// applyTogether carries out an operation on several keys.
func (s *Store) applyTogether(ctx context.Context, now int64, op *buckets.Op) {
	op.Err, op.N = nil, 0
	switch op.Code {
	case buckets.OpTakeAll, buckets.OpRename, buckets.OpUpdate:
	default:
		op.Err = buckets.ErrUnknownOp
		return
	}
	var few [8][]byte
	keys := s.engineKeys(keysOf(op, few[:0]))
	if len(keys) == 0 {
		(&transaction{store: s}).apply(op, now)
		return
	}
	ctx, cancel := s.withTimeout(ctx)
	defer cancel()
	m := &member{op: op, now: now, ctx: ctx, turn: make(chan struct{}, 1)}
	name := nameOf(keys)
	if s.together.join(name, m) {
		if lead := s.together.wait(s, name, m); !lead {
			m.end()
			return
		}
	}
	s.lead(name, keys, m)
	m.end()
}

// end has a panic of the updater go on in the goroutine of who called it.
func (m *member) end() {
	if m.panicked != nil {
		panic(m.panicked)
	}
}

// engineKeys returns keys as the engine has them, sorted, and each once.
func (s *Store) engineKeys(keys [][]byte) [][]byte {
	all := make([][]byte, len(keys))
	for i, key := range keys {
		all[i] = s.engineKey(make([]byte, 0, len(s.config.Prefix)+len(key)), key)
	}
	slices.SortFunc(all, bytes.Compare)
	return slices.CompactFunc(all, bytes.Equal)
}

// nameOf returns the name of the group of keys.
func nameOf(keys [][]byte) string {
	var name []byte
	for _, key := range keys {
		name = append(binary.AppendUvarint(name, uint64(len(key))), key...)
	}
	return string(name)
}

// join adds a member to its group. It reports whether the member has to wait; otherwise it leads.
func (g *together) join(name string, m *member) (waits bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if of := g.groups[name]; of != nil {
		of.waiting = append(of.waiting, m)
		return true
	}
	if g.groups == nil {
		g.groups = make(map[string]*group)
	}
	g.groups[name] = new(group)
	m.state = leading
	return false
}

// wait waits until the member is to lead, or its operation has its result.
func (g *together) wait(s *Store, name string, m *member) (lead bool) {
	select {
	case <-m.turn:
	case <-m.ctx.Done():
		g.mu.Lock()
		if m.state == waiting {
			of := g.groups[name]
			of.waiting = slices.DeleteFunc(of.waiting, func(other *member) bool { return other == m })
			m.state = done
			g.mu.Unlock()
			m.op.Err = s.tooLate(m.ctx, nil)
			return false
		}
		g.mu.Unlock()
		<-m.turn // soon: no leader works for longer than its own time, and this one came before
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	return m.state == leading
}

// take gives a leader the operations that wait.
func (g *together) take(name string, batch []*member) []*member {
	g.mu.Lock()
	defer g.mu.Unlock()
	of := g.groups[name]
	n := min(len(of.waiting), mostTogether-len(batch))
	for _, m := range of.waiting[:n] {
		m.state = taken
	}
	batch = append(batch, of.waiting[:n]...)
	of.waiting = slices.Delete(of.waiting, 0, n)
	return batch
}

// finish ends the work of a leader. The members of left, which come first, wait for another one.
func (g *together) finish(name string, ended, left []*member) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, m := range ended {
		if m.state = done; m != ended[0] {
			m.turn <- struct{}{}
		}
	}
	of := g.groups[name]
	for _, m := range left {
		m.state = waiting
	}
	of.waiting = append(left, of.waiting...)
	if len(of.waiting) == 0 {
		delete(g.groups, name)
		return
	}
	next := of.waiting[0]
	of.waiting = slices.Delete(of.waiting, 0, 1)
	next.state = leading
	next.turn <- struct{}{}
}

// lead carries out the operation of a leader, and those that wait meanwhile.
func (s *Store) lead(name string, keys [][]byte, leader *member) {
	batch := []*member{leader}
	unlock, err := s.together.locks.lock(leader.ctx, keys)
	if err != nil {
		err = s.tooLate(leader.ctx, nil)
	} else {
		err = s.transact(leader.ctx, leader.now, keys, func() { batch = s.together.take(name, batch) }, func(t *transaction) {
			for _, m := range batch {
				m.apply(t)
			}
			if !t.changes() {
				return // those that came after the keys were read must not learn what they held before
			}
			n := len(batch)
			batch = s.together.take(name, batch)
			for _, m := range batch[n:] {
				m.apply(t)
			}
		})
		unlock()
	}
	ended, left := batch, []*member(nil)
	switch {
	case err == nil:
		s.count.decisions.Add(uint64(len(batch)))
	case leader.ctx.Err() != nil && !isUnknown(err) && !errors.Is(err, buckets.ErrTooFewReplicas):
		// Nothing was done, and the others may have more time.
		ended = nil
		for _, m := range batch {
			switch {
			case m == leader:
				m.op.Err = err
			case m.ctx.Err() != nil:
				m.op.Err = s.tooLate(m.ctx, nil)
			default:
				left = append(left, m)
				continue
			}
			ended = append(ended, m)
		}
	default:
		for _, m := range batch {
			m.op.Err = err
		}
	}
	s.together.finish(name, ended, left)
}

// apply carries out the operation of a member.
func (m *member) apply(t *transaction) {
	if m.op.Code == buckets.OpUpdate {
		// A panic of an Updater is the caller's, whose goroutine this may not be. It has changed no record.
		defer func() { m.panicked = recover() }()
	}
	t.apply(m.op, m.now)
}

// keyLocks are locks of keys. The zero value is usable.
type keyLocks struct {
	mu  sync.Mutex
	all map[string]*keyLock
}

type keyLock struct {
	users int           // who have it or wait for it
	free  chan struct{} // has a value while nobody has it
}

// lock locks keys, which are sorted and differ, in this order. It returns the error of ctx when that ends before.
func (k *keyLocks) lock(ctx context.Context, keys [][]byte) (unlock func(), err error) {
	locked := make([]*keyLock, 0, len(keys))
	unlock = func() {
		k.mu.Lock()
		defer k.mu.Unlock()
		for i, l := range locked {
			l.free <- struct{}{}
			k.leave(keys[i], l)
		}
	}
	for _, key := range keys {
		l := k.enter(key)
		select {
		case <-l.free:
			locked = append(locked, l)
		case <-ctx.Done():
			unlock()
			k.mu.Lock()
			k.leave(key, l)
			k.mu.Unlock()
			return nil, ctx.Err()
		}
	}
	return unlock, nil
}

func (k *keyLocks) enter(key []byte) *keyLock {
	k.mu.Lock()
	defer k.mu.Unlock()
	l := k.all[string(key)]
	if l == nil {
		if k.all == nil {
			k.all = make(map[string]*keyLock)
		}
		l = &keyLock{free: make(chan struct{}, 1)}
		l.free <- struct{}{}
		k.all[string(key)] = l
	}
	l.users++
	return l
}

// leave requires the lock.
func (k *keyLocks) leave(key []byte, l *keyLock) {
	if l.users--; l.users == 0 {
		delete(k.all, string(key))
	}
}
