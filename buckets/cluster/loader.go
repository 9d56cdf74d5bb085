package cluster

import (
	"context"
	"errors"
	"fmt"

	"cellserver/buckets"
)

// loadBatch is how many keys a Loader writes together.
const loadBatch = 1000

// loadAttempts is how often a Loader tries to write a key, each time for Rules.Timeout. Writing it twice does no harm.
const loadAttempts = 3

// Loaded counts the keys that a Loader was given.
type Loaded struct {
	Written int // in the engine now, with what they hold and their deadlines
	Kept    int // in the engine before, and left as they were there
	Expired int // expired meanwhile
}

// Loader writes keys with all that they hold, such as those of a snapshot. It is for one goroutine.
type Loader struct {
	store   *Store
	replace bool
	done    Loaded

	ops     []buckets.Op
	keys    [][]byte
	updates []loading
	memory  []byte // of the keys and the values
}

// NewLoader returns a Loader. A key that is in the engine stays as it is there, unless replace is set. So loading again after a fault
// goes on where it ended.
func (s *Store) NewLoader(replace bool) *Loader {
	return &Loader{
		store: s, replace: replace,
		ops: make([]buckets.Op, 0, loadBatch), keys: make([][]byte, loadBatch), updates: make([]loading, loadBatch),
	}
}

// Add adds an entry, whose Database is ignored. It writes many together, when there are enough, and keeps none of the entry. Its
// errors are those of Flush.
func (l *Loader) Add(ctx context.Context, e *buckets.Entry) error {
	now, r := l.store.Now(), record{}
	r.store(e.State, e.Deadline, now)
	from := len(l.memory)
	l.memory = append(l.memory, e.Key...)
	middle := len(l.memory)
	if l.memory = r.appendValue(l.memory, now); len(l.memory) == middle {
		l.memory = l.memory[:from]
		l.done.Expired++
		return nil
	}
	n := len(l.ops)
	l.keys[n], l.updates[n] = l.memory[from:middle:middle], loading{value: l.memory[middle:], replace: l.replace}
	l.ops = append(l.ops, buckets.Op{Code: buckets.OpUpdate, Keys: l.keys[n : n+1], Update: &l.updates[n]})
	if len(l.ops) < loadBatch {
		return nil
	}
	return l.Flush(ctx)
}

// Flush writes what was added. After an error some of it may be written, and the rest is forgotten. The error names a key that was
// not written, or is that of ctx.
func (l *Loader) Flush(ctx context.Context) error {
	left := l.ops
	defer func() { l.ops, l.memory = l.ops[:0], l.memory[:0] }()
	for attempt := 1; len(left) > 0; attempt++ {
		l.store.Apply(ctx, l.store.Now(), left)
		failed := left[:0]
		for i := range left {
			if left[i].Err != nil {
				failed = append(failed, left[i])
				continue
			}
			switch u := left[i].Update.(*loading); {
			case u.written:
				l.done.Written++
			case u.expired:
				l.done.Expired++
			default:
				l.done.Kept++
			}
		}
		if left = failed; len(left) == 0 {
			break
		}
		var away *buckets.Unavailable
		if err := left[0].Err; attempt == loadAttempts || ctx.Err() != nil || !errors.As(err, &away) {
			return fmt.Errorf("key %q: %w", left[0].Keys[0], err)
		}
	}
	return nil
}

// Loaded returns what was done so far.
func (l *Loader) Loaded() Loaded { return l.done }

// loading is the Updater of a Loader. Unlike others it also sets the deadline, so record.update asks it for the whole record.
type loading struct {
	value            []byte // as appendValue has written it
	replace          bool
	written, expired bool // what became of it
}

// load sets the record to that of the value, if it may.
func (u *loading) load(r *record, now int64) (changed bool, err error) {
	u.written, u.expired = false, false
	if r.state.Kind != buckets.None && !u.replace {
		return false, nil
	}
	var loaded record
	if err := loaded.parse(u.value); err != nil {
		return false, err
	}
	if u.expired = !loaded.lives(now); u.expired {
		return false, nil
	}
	*r, u.written = loaded, true
	return true, nil
}

// Update implements buckets.Updater. It is not called.
func (u *loading) Update(int64, []buckets.State) (bool, error) { return false, buckets.ErrUnknownOp }
