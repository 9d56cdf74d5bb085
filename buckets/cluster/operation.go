package cluster

import (
	"cellserver/buckets"
)

// The operations, as functions of records. They ask nobody, so the compare-and-set of one key, the transaction of several
// keys and the tests all use them. Each sets the results of op, and reports whether it has changed a record. When it sets
// op.Err, it has changed none.

// applyOne carries out an operation on the one key that it names. now is the time to decide at, and r what the key holds
// then. It requires an operation that isSingle.
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
		changed, op.Err = update(op.Update, now, []*record{r})
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

// applyAny carries out an operation on any number of keys. of returns the record of a key as it is at now; the same pointer
// each time.
func applyAny(op *buckets.Op, now int64, maxLog int, of func(key []byte) *record) (changed bool) {
	if key, single := isSingle(op); single {
		return applyOne(op, of(key), now, maxLog)
	}
	op.Err, op.N = nil, 0
	switch op.Code {
	case buckets.OpTakeAll:
		return takeAll(op, now, maxLog, of)
	case buckets.OpExists:
		for _, key := range op.Keys {
			op.N += count(of(key).state.Kind != buckets.None)
		}
	case buckets.OpDelete:
		for _, key := range op.Keys {
			r := of(key)
			op.N += count(r.state.Kind != buckets.None)
			*r = record{}
		}
		return op.N > 0
	case buckets.OpRename:
		return rename(op, of(op.Key), of(op.To))
	case buckets.OpUpdate:
		records := make([]*record, len(op.Keys))
		seen := make(map[*record]struct{}, len(op.Keys))
		for i, key := range op.Keys {
			records[i] = of(key)
			seen[records[i]] = struct{}{}
		}
		if len(seen) < len(records) {
			op.Err = buckets.ErrSameKey
			return false
		}
		changed, op.Err = update(op.Update, now, records)
	default:
		op.Err = buckets.ErrUnknownOp
	}
	return changed
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
func takeAll(op *buckets.Op, now int64, maxLog int, of func(key []byte) *record) (changed bool) {
	op.Which = 0
	full := false
	for i := range op.Checks {
		c, d := &op.Checks[i], &op.Answers[i]
		r := of(c.Key)
		if _, op.Err = r.take(&c.Limit, now, c.Quantity, true, maxLog, d); op.Err != nil {
			return false
		}
		if !d.Limited {
			full = full || r.state.LogGrowth(&c.Limit, now, c.Quantity, maxLog)
		} else if op.Which == 0 || d.RefusesLonger(&op.Answers[op.Which-1]) {
			op.Which = i + 1
		}
	}
	switch {
	case op.Peek:
		return false
	case op.Which > 0:
		for i := range op.Checks {
			c := &op.Checks[i]
			var cut buckets.Decision
			r := of(c.Key)
			if r.state.Kind == buckets.None {
				continue
			}
			if did, _ := r.take(&c.Limit, now, 0, false, maxLog, &cut); did {
				changed = true
			}
			op.Answers[i].Cut = cut.Cut
		}
		return changed
	case full:
		op.Err = buckets.ErrLogFull
		return false
	}
	for i := range op.Checks {
		c := &op.Checks[i]
		did, err := of(c.Key).take(&c.Limit, now, c.Quantity, false, maxLog, &op.Answers[i])
		if err != nil {
			panic("a check that was admitted was not taken: " + err.Error())
		}
		changed = changed || did
	}
	return changed
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
func rename(op *buckets.Op, from, to *record) (changed bool) {
	switch {
	case from.state.Kind == buckets.None:
		op.Err = buckets.ErrNoKey
		return false
	case op.IfFree && to.state.Kind != buckets.None:
		return false
	}
	op.N = 1
	if from == to {
		return false
	}
	*to, *from = *from, record{}
	return true
}

// readOnly hides that a log is editable, so that State.Take in an Updater copies it: the Updater may fail after that.
type readOnly struct{ buckets.Log }

// update is OpUpdate of records that differ.
func update(u buckets.Updater, now int64, records []*record) (changed bool, err error) {
	states := make([]buckets.State, len(records))
	for i, r := range records {
		if states[i] = r.state; r.state.Log != nil {
			states[i].Log = readOnly{r.state.Log}
		}
	}
	if changed, err = u.Update(now, states); err != nil || !changed {
		return false, err
	}
	selective, _ := u.(buckets.Selective)
	for i, r := range records {
		if selective == nil || selective.Changes(i) {
			r.store(states[i], 0, now)
		}
	}
	return true, nil
}

// info returns what OpStat answers.
func (r *record) info(now int64) buckets.Info {
	if r.state.Kind == buckets.None {
		return buckets.Info{Now: now}
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
