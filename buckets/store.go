package buckets

import "context"

// Store keeps the states of keys and decides requests on them. Its methods may be called at the same time.
//
// now is the caller's reading of the clock, in nanoseconds of Unix time. The time of a key never goes back: an operation with
// an earlier now than an operation before it on the same key is decided at the later of the two.
//
// A method that is called with a context that has ended returns the context's error and does nothing.
//
// What a store can do beyond this contract it offers by the interfaces [Decider], [Atomic] and [Watcher]; a caller that
// needs one asks for it by a type assertion.
type Store interface {
	// Apply carries out ops, and leaves in each its result and its error; an op that fails has changed nothing and does not
	// keep the others from being carried out. Ops that share a key are carried out in their order. Each op is atomic by
	// itself, but operations of other callers may come between two of them. When ctx ends, the ops that have not been
	// carried out fail with its error.
	Apply(ctx context.Context, now int64, ops []Op)

	// Scan visits about count keys, and returns the cursor of the next call: 0 when all keys have been visited. A scan
	// begins with cursor 0. It visits every key that exists from its beginning to its end at least once, and no key that has
	// expired. A cursor that Scan did not return is harmless. visit must not call the store, nor keep key.
	Scan(ctx context.Context, now int64, cursor uint64, count int, visit func(key []byte, kind Kind)) (next uint64, err error)
	// RandomKey appends a random key that has not expired to dst, or reports that it found none.
	RandomKey(ctx context.Context, now int64, dst []byte) (key []byte, found bool, err error)
	// Len counts the keys. A store may count keys that have expired and are not swept yet.
	Len(ctx context.Context, now int64) (int64, error)
	// Flush deletes every key, all at one moment.
	Flush(ctx context.Context) error

	// Stats returns what the store counts. It does not wait for anything but locks of the process.
	Stats() Stats
}

// Decider is a Store that decides one request at once, without waiting and without a batch.
type Decider interface {
	// Decide takes quantity of l from key, or with peek only answers as if it did, and fills in d. Its answers and errors are
	// those of OpTake; the contents of d are undefined after an error. It keeps neither key nor l.
	Decide(now int64, key []byte, l *Limit, quantity int64, peek bool, d *Decision) error
}

// Batcher is a Decider that is sometimes faster when it is given several requests at once, by Apply.
type Batcher interface {
	// Batches reports whether Apply is faster than Decide now.
	Batches() bool
}

// Atomic is a Store that can carry out several calls as one.
type Atomic interface {
	// Atomically calls run with a store on which no operation of another caller comes between the calls that run makes. run
	// may use that store for keys only, or for every key and the whole key space if everything is set, and only until it
	// returns. A store that cannot keep others out may undo what run did and call run again.
	Atomically(ctx context.Context, now int64, keys [][]byte, everything bool, run func(held Store)) error
}

// Watcher is a Store that reports whether a key has changed: was stored, deleted, renamed or flushed, has expired, or was
// given or lost a deadline. A refused request and a request that takes nothing change nothing.
type Watcher interface {
	// Watch begins to watch key. The caller must end the watch with Unwatch.
	Watch(ctx context.Context, now int64, key []byte) (Watch, error)
	// Changed reports whether the key of w has changed since Watch.
	Changed(ctx context.Context, now int64, w Watch) (bool, error)
	// Unwatch ends a watch, which must not be used afterwards.
	Unwatch(w Watch)
}

// TTLSampler is a Store that knows how long its keys live.
type TTLSampler interface {
	// MeanTTL returns the mean time until a key expires, in nanoseconds, over a sample of the keys; 0 if there are none.
	MeanTTL(now int64) int64
}

// Watch identifies a watch of one key to the store that returned it.
type Watch any

// OpCode says what an Op does.
type OpCode uint8

// The operations, with the fields of Op that each reads: those that it sets beside Err, and its errors beside those of the
// context and of a store that is not in this process. N is 1 or 0 where it says whether.
const (
	// Key, Limit, Quantity, Peek: Decision. With Peek nothing is taken. ErrWrongKind, ErrLogFull, ErrNoMemory.
	OpTake OpCode = iota
	// Checks, Peek: Which, Answers. The keys must differ. If every check is admitted, all are taken, Which is 0 and Answers
	// are those of taking. Otherwise nothing is taken, Answers are those of peeking, and Which is the number, counted from 1,
	// of the check that refuses for longest: the first of equals, and one that can never be admitted before all others.
	// ErrWrongKind, ErrLogFull, ErrNoMemory.
	OpTakeAll
	// Key: Contents.Info, and N, whether the key exists.
	OpStat
	// Key: Contents, and N, whether the key exists.
	OpGet
	// Keys: N, how many of them exist. A key named twice counts twice.
	OpExists
	// Keys: N, how many were deleted. A key named twice counts once.
	OpDelete
	// Key, At, Condition: N, whether the key exists and the condition allows the deadline. A deadline not after now deletes
	// the key; one not before the bucket is full leaves the key without a deadline.
	OpExpire
	// Key: N, whether a deadline was removed.
	OpPersist
	// Key, To, IfFree: N, whether the key was renamed. Its state and its deadline replace those of To. With IfFree nothing
	// happens if To exists. A key renamed to itself is as it was, and N is 1 unless IfFree is set. ErrNoKey.
	OpRename
	// Keys, Update. The keys must differ (ErrSameKey). The keys that hold something afterwards have no deadline. The errors
	// of Update, and ErrNoMemory.
	OpUpdate
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
	Answers  []Decision // one for each check, in room that the caller provides
	Which    int        // the check that refuses for longest, counted from 1; 0 if all are admitted
	N        int64
	Contents Contents
	Err      error // why the operation failed, and changed nothing
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
	// Update changes states, which are those of the op's keys in order, and reports whether they are to be stored. A key that
	// does not exist has the zero State. A key whose state is made zero, or is full at now, is deleted. Update may call Take on
	// a state, and must replace a Log rather than edit it otherwise. It must keep neither states nor a Log of them.
	//
	// A store may call Update again, with other states, when the keys were changed meanwhile, so its effects must depend on
	// now, states and what its receiver was before the first call alone. It must not call the store. When it reports false or
	// an error nothing is stored.
	Update(now int64, states []State) (changed bool, err error)
}

// Info is what can be said of a key whatever its kind. Times are nanoseconds of Unix time.
type Info struct {
	Kind   Kind
	Now    int64 // the time that the key was read at
	Expiry int64 // when the key expires: when the bucket is full, or at an earlier deadline
	Bytes  int64 // of memory that the store needs for the key, as far as it knows
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

// Condition says when OpExpire may set a deadline. It compares the expiry that the key has with the deadline, both rounded
// up to milliseconds, as clients see them: the same EXPIRE twice is neither later nor earlier. Conditions may be combined,
// and all must hold.
type Condition uint8

// The conditions of EXPIRE, PEXPIRE, EXPIREAT and PEXPIREAT. Every key has an expiry.
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
	Keys      int64  // stored, including keys that have expired and are not removed yet
	Deadlines int64  // keys with an EXPIRE deadline
	Bytes     int64  // held by keys, their state and their index
	Expired   uint64 // keys removed because they had expired
	Changes   uint64 // to keys, by requests: of their state or their deadline, and deletions

	Peak    int64  // the highest that Bytes has been
	Limit   int64  // the most that Bytes may be; 0 is no limit
	Evicts  bool   // whether keys are evicted to stay within Limit
	Evicted uint64 // keys evicted to stay within Limit
}
