package buckets

import "context"

// Store keeps the states of keys and decides requests on them. Its methods may be called at the same time.
//
// now is the caller's reading of the clock, in nanoseconds of Unix time. A store decides at a later time rather than let
// time go back for a key.
//
// What a store can do beyond this contract it offers by the interfaces [Decider], [Atomic] and [Watcher]; a caller that
// needs one asks for it by a type assertion.
type Store interface {
	// Apply carries out ops, and leaves in each its result and its error. Ops on the same key are carried out in order.
	// Each op is atomic by itself; others may see the store between two of them. When ctx ends, the ops that are not
	// decided fail with its error.
	Apply(ctx context.Context, now int64, ops []Op)

	// Scan visits about count keys, and returns the cursor to go on with: 0 when all have been visited. Every key that
	// lives through a whole scan is visited at least once. visit must not call the store, nor keep key.
	Scan(ctx context.Context, now int64, cursor uint64, count int, visit func(key []byte, kind Kind)) (next uint64, err error)
	// RandomKey appends some key to dst, or reports that there is none.
	RandomKey(ctx context.Context, now int64, dst []byte) (key []byte, found bool, err error)
	// Len counts the keys. A store may count keys that have expired and are not swept yet.
	Len(ctx context.Context, now int64) (int64, error)
	// Flush deletes every key.
	Flush(ctx context.Context) error

	// Stats returns what the store counts. It waits for nobody.
	Stats() Stats
}

// Decider is a Store that decides one request at once, without waiting and without a batch.
type Decider interface {
	// Decide takes quantity of l from key, or with peek looks what taking would answer, and fills in d. It leaves d
	// incomplete when it fails.
	Decide(now int64, key []byte, l *Limit, quantity int64, peek bool, d *Decision) error
}

// Batcher is a Decider that is sometimes faster when it is given requests together, by Apply.
type Batcher interface {
	// Batches reports whether it is now.
	Batches() bool
}

// Atomic is a Store on which several calls can be one to everybody else.
type Atomic interface {
	// Atomically calls run with a store on which nobody else's operation comes between the calls that run makes. It
	// must use it only for those keys, unless everything is set, and not after it returns. A store may call run again
	// from the beginning when it could not keep others out; the effects of the call before are gone then.
	Atomically(ctx context.Context, now int64, keys [][]byte, everything bool, run func(held Store)) error
}

// Watcher is a Store that tells whether a key has been changed: written, deleted, renamed, expired or given a deadline.
// Time passing, refusals, and requests that take nothing are no changes.
type Watcher interface {
	// Watch begins to watch key. Unwatch must end it.
	Watch(ctx context.Context, now int64, key []byte) (Watch, error)
	// Changed reports whether the key of w has been changed since Watch.
	Changed(ctx context.Context, now int64, w Watch) (bool, error)
	Unwatch(w Watch)
}

// TTLSampler is a Store that knows how long its keys live.
type TTLSampler interface {
	// MeanTTL returns how many nanoseconds it is until a key expires, on average over a sample; 0 when there are none.
	MeanTTL(now int64) int64
}

// Watch is a store's own note of a key that is watched.
type Watch any

// OpCode says what an Op does.
type OpCode uint8

// The operations. Each names the fields of Op that it reads, and those that it fills in beside Err.
const (
	OpTake    OpCode = iota // Key, Limit, Quantity, Peek: Decision. With Peek nothing is taken.
	OpTakeAll               // Checks, Peek: Which, Answers
	OpStat                  // Key: Contents.Info; N is 1 if the key exists, else 0
	OpGet                   // Key: Contents; N is 1 if the key exists, else 0
	OpExists                // Keys: N, how many of them exist; a key named twice counts twice
	OpDelete                // Keys: N, how many of them were deleted
	OpExpire                // Key, At, Condition: N is 1 if the deadline was set or the key deleted, else 0
	OpPersist               // Key: N is 1 if a deadline was removed, else 0
	OpRename                // Key, To, IfFree: N is 1 if the key was renamed, else 0
	OpUpdate                // Keys, Update
)

// Op is one operation of Apply. Key, Keys and what else it points to must not change until Apply returns; the store
// keeps none of it.
type Op struct {
	Code   OpCode
	Peek   bool // OpTake, OpTakeAll: answer without taking
	IfFree bool // OpRename: only if To does not exist

	Key       []byte
	Keys      [][]byte
	To        []byte
	Limit     *Limit
	Quantity  int64
	Checks    []Check
	At        int64 // nanoseconds of Unix time
	Condition Condition
	Update    Updater

	Decision Decision
	Answers  []Decision // one for each check; the caller makes room
	Which    int        // the number of the check that refuses for longest, counted from 1; 0 when all are admitted
	N        int64
	Contents Contents
	Err      error // nil, or why nothing has changed
}

// MaxChecks is the most checks that one OpTakeAll decides on.
const MaxChecks = 64

// Check is one of several limits that are asked at once.
type Check struct {
	Key      []byte
	Limit    Limit
	Quantity int64
}

// Updater computes what one or several keys hold from what they held.
type Updater interface {
	// Update changes states, which are those of the op's keys in order, and reports whether anything is to be stored. A key
	// that does not exist has the zero State; one whose state is made zero is deleted. A Log among them must be replaced,
	// not edited.
	//
	// Update must depend on nothing but its receiver, now and states: a store may call it again with other states when the
	// keys were changed meanwhile. After an error every key is as it was.
	Update(now int64, states []State) (changed bool, err error)
}

// Info is what can be said of a key whatever its kind. Times are nanoseconds of Unix time.
type Info struct {
	Kind   Kind
	Now    int64 // the time it was looked at
	Expiry int64 // when it expires
	Bytes  int64 // that it holds in memory
}

// Contents is what a key holds, for people who look into it.
type Contents struct {
	Info
	Deadline int64   // that OpExpire set, in nanoseconds of Unix time; 0 is none
	Fields   []Field // the state, by name
}

// Field returns the value of the field called name, or 0.
func (c *Contents) Field(name string) int64 {
	for _, f := range c.Fields {
		if f.Name == name {
			return f.Value
		}
	}
	return 0
}

// Condition says when OpExpire may set a deadline, judged by the expiry that is shown (Info.Expiry, rounded up to
// milliseconds) and by the one that would be: the same EXPIRE twice is neither later nor earlier. Conditions may be
// combined.
type Condition uint8

// The conditions of EXPIRE and its kin.
const (
	IfNone    Condition = 1 << iota // NX: only a key that has no expiry
	IfSome                          // XX: only a key that has one
	IfLater                         // GT: only when the deadline is later than the expiry
	IfEarlier                       // LT: only when the deadline is earlier than the expiry
)

const millisecond int64 = 1e6

// Allows reports whether a deadline at may replace expiry; both are nanoseconds of Unix time.
func (c Condition) Allows(at, expiry int64) bool {
	shown := CeilDiv(expiry, millisecond)
	asked := CeilDiv(max(at, 0), millisecond)
	return c&IfNone == 0 &&
		(c&IfLater == 0 || asked > shown) &&
		(c&IfEarlier == 0 || asked < shown)
}

// Entry is a key and all that is stored of it: what goes to disk and comes back.
type Entry struct {
	Key      []byte
	Deadline int64 // that OpExpire set, in nanoseconds of Unix time; 0 is none
	State

	Kept Kept // of an amendment, whose Log is only what is new: the records that stay
}

// Kept is the stretch of time, both ends included and in nanoseconds of Unix time, in which an amendment of a log leaves
// the records as they are.
type Kept struct{ Oldest, Newest int64 }

// Stats counts what a Store holds and has done.
type Stats struct {
	Keys      int64  // stored, those among them that have expired and were not met since included
	Deadlines int64  // keys with an EXPIRE deadline
	Bytes     int64  // held by keys, their state and their index
	Expired   uint64 // keys forgotten because their time had come
	Changes   uint64 // that were stored: takings, deletions, deadlines

	Peak    int64  // the most Bytes there have been
	Limit   int64  // what Bytes may be; 0 is anything
	Evicts  bool   // whether buckets are forgotten to stay within Limit
	Evicted uint64 // keys forgotten to stay within Limit
}
