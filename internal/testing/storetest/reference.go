package storetest

import (
	"slices"

	"cellserver/buckets"
)

// reference is what the contract says, as a map: it carries out one operation at a time on states that it copies.
type reference struct {
	keys   map[string]heldKey
	maxLog int
}

type heldKey struct {
	state    buckets.State
	deadline int64 // 0 is none
}

func newReference(maxLog int) *reference {
	return &reference{keys: make(map[string]heldKey), maxLog: maxLog}
}

func (k *heldKey) expiry() int64 {
	full := k.state.FullAt()
	if k.deadline != 0 {
		return min(full, k.deadline)
	}
	return full
}

// get returns a copy of what key holds.
func (r *reference) get(now int64, key []byte) (heldKey, bool) {
	k, found := r.keys[string(key)]
	if !found || k.expiry() <= now {
		delete(r.keys, string(key))
		return heldKey{}, false
	}
	if log := k.state.Log; log != nil {
		records := make([]buckets.Admission, log.Len())
		for i := range records {
			records[i] = buckets.Admission{At: log.Time(i), Quantity: int64(log.Before(i+1) - log.Before(i))}
		}
		k.state.Log = buckets.NewAdmissions(log.Period(), records...)
	}
	return k, true
}

// put stores what key holds from now on.
func (r *reference) put(now int64, key []byte, k heldKey) {
	if k.state.Kind == buckets.None || k.state.FullAt() <= now {
		delete(r.keys, string(key))
		return
	}
	if k.deadline >= k.state.FullAt() {
		k.deadline = 0
	}
	r.keys[string(key)] = k
}

func (r *reference) take(now int64, key []byte, l *buckets.Limit, quantity int64, peek bool, d *buckets.Decision) error {
	k, found := r.get(now, key)
	if found && k.state.Kind != l.Kind() {
		return buckets.ErrWrongKind
	}
	if peek {
		k.state.Peek(l, now, quantity, d)
		return nil
	}
	effect, err := k.state.Take(l, now, quantity, r.maxLog, d)
	if err != nil || effect == buckets.Unchanged {
		return err
	}
	if effect == buckets.Stored {
		k.deadline = 0
	}
	r.put(now, key, k)
	return nil
}

func (r *reference) takeAll(now int64, op *buckets.Op) (which int, err error) {
	full := false
	for i := range op.Checks {
		c, d := &op.Checks[i], &op.Answers[i]
		if err := r.take(now, c.Key, &c.Limit, c.Quantity, true, d); err != nil {
			return 0, err
		}
		if d.Limited && (which == 0 || d.RefusesLonger(&op.Answers[which-1])) {
			which = i + 1
		}
		k, _ := r.get(now, c.Key)
		full = full || !d.Limited && k.state.LogGrowth(&c.Limit, now, c.Quantity, r.maxLog)
	}
	if op.Peek || which == 0 && full {
		if !op.Peek {
			err = buckets.ErrLogFull
		}
		return which, err
	}
	for i := range op.Checks {
		c := &op.Checks[i]
		if which == 0 {
			if err := r.take(now, c.Key, &c.Limit, c.Quantity, false, &op.Answers[i]); err != nil {
				return 0, err
			}
			continue
		}
		var cut buckets.Decision
		if _, found := r.get(now, c.Key); found {
			_ = r.take(now, c.Key, &c.Limit, 0, false, &cut)
		}
		op.Answers[i].Cut = cut.Cut
	}
	return which, nil
}

// apply carries out one operation.
func (r *reference) apply(now int64, op *buckets.Op) {
	count := func(yes bool) {
		if yes {
			op.N++
		}
	}
	switch op.Code {
	case buckets.OpTake:
		op.Err = r.take(now, op.Key, op.Limit, op.Quantity, op.Peek, &op.Decision)
	case buckets.OpTakeAll:
		op.Which, op.Err = r.takeAll(now, op)
	case buckets.OpStat, buckets.OpGet:
		k, found := r.get(now, op.Key)
		if count(found); !found {
			return
		}
		op.Contents.Info = buckets.Info{Kind: k.state.Kind, Now: now, Expiry: k.expiry()}
		if op.Code == buckets.OpGet {
			op.Contents.Deadline, op.Contents.Fields = k.deadline, k.state.AppendFields(nil, now)
			if k.state.Kind.KeepsExpiry() && k.expiry() != buckets.NoExpiry {
				op.Contents.Deadline = k.expiry()
			}
		}
	case buckets.OpExists, buckets.OpDelete:
		for _, key := range op.Keys {
			_, found := r.get(now, key)
			count(found)
			if op.Code == buckets.OpDelete {
				delete(r.keys, string(key))
			}
		}
	case buckets.OpExpire:
		k, found := r.get(now, op.Key)
		if !found || !op.Condition.Allows(op.At, k.expiry()) {
			return
		}
		count(true)
		switch {
		case op.At <= now:
			k.state = buckets.State{}
		case k.state.Kind.KeepsExpiry():
			k.state.SetExpiry(op.At)
		default:
			k.deadline = op.At
		}
		r.put(now, op.Key, k)
	case buckets.OpPersist:
		k, found := r.get(now, op.Key)
		switch {
		case found && k.deadline != 0:
			k.deadline = 0
		case k.state.Kind.KeepsExpiry() && k.expiry() != buckets.NoExpiry:
			k.state.SetExpiry(buckets.NoExpiry)
		default:
			return
		}
		count(true)
		r.put(now, op.Key, k)
	case buckets.OpRename:
		k, found := r.get(now, op.Key)
		_, taken := r.get(now, op.To)
		switch {
		case !found:
			op.Err = buckets.ErrNoKey
		case !taken || !op.IfFree:
			count(true)
			delete(r.keys, string(op.Key))
			r.put(now, op.To, k)
		}
	case buckets.OpUpdate:
		op.Err = r.update(now, op)
	default:
		op.Err = buckets.ErrUnknownOp
	}
}

func (r *reference) update(now int64, op *buckets.Op) error {
	states := make([]buckets.State, len(op.Keys))
	for i, key := range op.Keys {
		if slices.ContainsFunc(op.Keys[:i], func(other []byte) bool { return string(other) == string(key) }) {
			return buckets.ErrSameKey
		}
		k, _ := r.get(now, key)
		states[i] = k.state
	}
	changed, err := op.Update.Update(now, states)
	if err != nil || !changed {
		return err
	}
	selective, _ := op.Update.(buckets.Selective)
	for i, key := range op.Keys {
		if selective == nil || selective.Changes(i) {
			r.put(now, key, heldKey{state: states[i]})
		}
	}
	return nil
}
