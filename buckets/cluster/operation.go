package cluster

import (
	"slices"

	"cellserver/buckets"
)

// The operations, as functions of records. They ask nobody, so the compare-and-set of one key, the transaction of several
// keys and the tests all use them. Each sets the results of op. When it sets op.Err, it has changed no record.

// applyOne carries out an operation on the one key that it names, and reports whether it has changed the record. now is the
// time to decide at, and r what the key holds then. It requires an operation that isSingle.
func applyOne(op *buckets.Op, r *record, now int64, maxLog int) (changed bool) {
	op.Err, op.N = nil, 0
	switch op.Code {
	case buckets.OpTake:
		changed, op.Err = r.take(op.Limit, now, op.Quantity, op.Peek, maxLog, &op.Decision)
	case buckets.OpStat:
		op.Contents.Info = r.info(now)
		op.N = count(op.Contents.Kind != buckets.None)
	case buckets.OpGet:
		op.Contents = r.contents(now)
		op.N = count(op.Contents.Kind != buckets.None)
	case buckets.OpExists:
		op.N = count(r.state.Kind != buckets.None)
	case buckets.OpDelete:
		changed = r.state.Kind != buckets.None
		op.N = count(changed)
		*r = record{}
	case buckets.OpExpire:
		changed = r.expireAt(op.At, now, op.Condition)
		op.N = count(changed)
	case buckets.OpPersist:
		changed = r.persist()
		op.N = count(changed)
	case buckets.OpUpdate:
		changed, op.Err = r.update(op.Update, now)
	default:
		op.Err = buckets.ErrUnknownOp
	}
	return changed
}

// isSingle reports whether an operation names one key, so that applyOne can carry it out, and returns the key.
func isSingle(op *buckets.Op) (key []byte, single bool) {
	switch op.Code {
	case buckets.OpTake, buckets.OpStat, buckets.OpGet, buckets.OpExpire, buckets.OpPersist:
		return op.Key, true
	case buckets.OpExists, buckets.OpDelete, buckets.OpUpdate:
		if len(op.Keys) == 1 {
			return op.Keys[0], true
		}
	}
	return nil, false
}

// keysOf returns the keys that an operation names. It may use dst as memory.
func keysOf(op *buckets.Op, dst [][]byte) [][]byte {
	switch op.Code {
	case buckets.OpTakeAll:
		for i := range op.Checks {
			dst = append(dst, op.Checks[i].Key)
		}
		return dst
	case buckets.OpExists, buckets.OpDelete, buckets.OpUpdate:
		return append(dst, op.Keys...)
	case buckets.OpRename:
		return append(dst, op.Key, op.To)
	}
	return append(dst, op.Key)
}

// entry is the record of one of several keys, and whether an operation has changed it.
type entry struct {
	record
	changed bool
}

// set replaces the record.
func (e *entry) set(r record) { e.record, e.changed = r, true }

// applyAny carries out an operation on any number of keys, and notes which of them it has changed. of returns the entry of
// a key as it is at now; the same pointer each time.
func applyAny(op *buckets.Op, now int64, maxLog int, of func(key []byte) *entry) {
	if key, single := isSingle(op); single {
		e := of(key)
		e.changed = applyOne(op, &e.record, now, maxLog) || e.changed
		return
	}
	op.Err, op.N = nil, 0
	switch op.Code {
	case buckets.OpTakeAll:
		takeAll(op, now, maxLog, of)
	case buckets.OpExists:
		for _, key := range op.Keys {
			op.N += count(of(key).state.Kind != buckets.None)
		}
	case buckets.OpDelete:
		for _, key := range op.Keys {
			if e := of(key); e.state.Kind != buckets.None {
				e.set(record{})
				op.N++
			}
		}
	case buckets.OpRename:
		rename(op, of(op.Key), of(op.To))
	case buckets.OpUpdate:
		updateAll(op, now, of)
	default:
		op.Err = buckets.ErrUnknownOp
	}
}

func count(yes bool) int64 {
	if yes {
		return 1
	}
	return 0
}

// take decides on quantity of l.
func (r *record) take(l *buckets.Limit, now, quantity int64, peek bool, maxLog int, d *buckets.Decision) (changed bool, err error) {
	if kind := r.state.Kind; kind != buckets.None && kind != l.Kind() {
		return false, buckets.ErrWrongKind
	}
	if peek {
		r.state.Peek(l, now, quantity, d)
		return false, nil
	}
	effect, err := r.state.Take(l, now, quantity, maxLog, d)
	switch effect {
	case buckets.Stored: // which removes the deadline
		r.store(r.state, 0, now)
	case buckets.Cut:
		r.store(r.state, r.deadline, now)
	}
	return effect != buckets.Unchanged, err
}

// takeAll is OpTakeAll.
func takeAll(op *buckets.Op, now int64, maxLog int, of func(key []byte) *entry) {
	op.Which = 0
	full := false
	for i := range op.Checks {
		c, d := &op.Checks[i], &op.Answers[i]
		e := of(c.Key)
		if _, op.Err = e.take(&c.Limit, now, c.Quantity, true, maxLog, d); op.Err != nil {
			op.Which = 0
			return
		}
		if !d.Limited {
			full = full || e.state.LogGrowth(&c.Limit, now, c.Quantity, maxLog)
		} else if op.Which == 0 || d.RefusesLonger(&op.Answers[op.Which-1]) {
			op.Which = i + 1
		}
	}
	switch {
	case op.Peek:
	case op.Which > 0:
		cutAll(op, now, maxLog, of)
	case full:
		op.Err = buckets.ErrLogFull
	default:
		for i := range op.Checks {
			c, e := &op.Checks[i], of(op.Checks[i].Key)
			changed, err := e.take(&c.Limit, now, c.Quantity, false, maxLog, &op.Answers[i])
			if err != nil {
				panic("a check that was admitted was not taken: " + err.Error())
			}
			e.changed = e.changed || changed
		}
	}
}

// cutAll cuts the states that exceed the limits of a call that is refused, as [buckets.State.Take] cuts that of a request.
func cutAll(op *buckets.Op, now int64, maxLog int, of func(key []byte) *entry) {
	for i := range op.Checks {
		c, e := &op.Checks[i], of(op.Checks[i].Key)
		if e.state.Kind == buckets.None {
			continue
		}
		var cut buckets.Decision
		changed, _ := e.take(&c.Limit, now, 0, false, maxLog, &cut)
		e.changed = e.changed || changed
		op.Answers[i].Cut = cut.Cut
	}
}

// expireAt is OpExpire.
func (r *record) expireAt(at, now int64, condition buckets.Condition) (changed bool) {
	if r.state.Kind == buckets.None || !condition.Allows(at, r.expiry()) {
		return false
	}
	switch {
	case at <= now:
		*r = record{}
	case r.state.Kind.KeepsExpiry():
		r.state.SetExpiry(at)
	default:
		r.store(r.state, at, now)
	}
	return true
}

// persist is OpPersist.
func (r *record) persist() (changed bool) {
	switch {
	case r.deadline != 0:
		r.deadline = 0
	case r.state.Kind.KeepsExpiry() && r.state.Expiry() != buckets.NoExpiry:
		r.state.SetExpiry(buckets.NoExpiry)
	default:
		return false
	}
	return true
}

// rename is OpRename.
func rename(op *buckets.Op, from, to *entry) {
	switch {
	case from.state.Kind == buckets.None:
		op.Err = buckets.ErrNoKey
	case op.IfFree && to.state.Kind != buckets.None:
	case from == to:
		op.N = 1
	default:
		op.N = 1
		to.set(from.record)
		from.set(record{})
	}
}

// readOnly hides that a log is editable, so that State.Take in an Updater copies it: the Updater may fail after that, or give
// it to two keys.
type readOnly struct{ buckets.Log }

// forUpdate returns the state for an Updater.
func (r *record) forUpdate() buckets.State {
	state := r.state
	if _, already := state.Log.(readOnly); state.Log != nil && !already {
		state.Log = readOnly{state.Log}
	}
	return state
}

// update is OpUpdate of one key.
func (r *record) update(u buckets.Updater, now int64) (changed bool, err error) {
	if l, ok := u.(*loading); ok {
		return l.load(r, now)
	}
	states := [1]buckets.State{r.forUpdate()}
	if changed, err = u.Update(now, states[:]); err != nil || !changed {
		return false, err
	}
	if selective, ok := u.(buckets.Selective); ok && !selective.Changes(0) {
		return false, nil
	}
	r.store(states[0], 0, now)
	return true, nil
}

// updateAll is OpUpdate of several keys.
func updateAll(op *buckets.Op, now int64, of func(key []byte) *entry) {
	entries, states := make([]*entry, len(op.Keys)), make([]buckets.State, len(op.Keys))
	for i, key := range op.Keys {
		e := of(key)
		if slices.Contains(entries[:i], e) {
			op.Err = buckets.ErrSameKey
			return
		}
		// The log may be given to another key, too, so this one must not change it in place any more.
		e.state = e.forUpdate()
		entries[i], states[i] = e, e.state
	}
	changed, err := op.Update.Update(now, states)
	if op.Err = err; err != nil || !changed {
		return
	}
	selective, _ := op.Update.(buckets.Selective)
	for i, e := range entries {
		if selective == nil || selective.Changes(i) {
			e.store(states[i], 0, now)
			e.changed = true
		}
	}
}

// info returns what OpStat answers.
func (r *record) info(now int64) buckets.Info {
	if r.state.Kind == buckets.None {
		return buckets.Info{}
	}
	return buckets.Info{Kind: r.state.Kind, Now: now, Expiry: r.expiry()}
}

// contents returns what OpGet answers.
func (r *record) contents(now int64) buckets.Contents {
	c := buckets.Contents{Info: r.info(now), Deadline: r.deadline, Fields: r.state.AppendFields(nil, now)}
	if r.state.Kind.KeepsExpiry() && r.expiry() != buckets.NoExpiry {
		c.Deadline = r.expiry()
	}
	return c
}
