package buckets

import "context"

// Store keeps the states of keys and decides requests on them. Its methods may be called concurrently.
//
// now is the caller's reading of the clock, in nanoseconds of Unix time. The time of a key does not go back: an operation
// whose now is earlier than that of a previous operation on the key is decided at the later time.
//
// A method that is called with a context that has ended returns the context's error and does nothing else.
//
// Further capabilities of a store are the interfaces [Decider], [Atomic], [Watcher] and [Databases]. A caller that needs one asks for
// it by a type assertion.
type Store interface {
	// Apply carries out ops, and sets the result and the error of each. An op that fails has changed nothing and does not
	// stop the others, but see [Unavailable]. Ops that share a key are carried out in order. Each op is atomic, but operations
	// of other callers may come between two of them. When ctx ends, the ops that have not been carried out fail with its error.
	//
	// A store in which keys are apart from each other ([ErrCrossSlot]) may carry out an OpExists and an OpDelete key by key.
	Apply(ctx context.Context, now int64, ops []Op)

	// Scan visits about count keys and returns the cursor for the next call, or 0 when all keys have been visited. A scan
	// begins with cursor 0. It visits every key that exists during the whole scan at least once, and no key that has
	// expired. A cursor that Scan did not return is harmless. visit must not call the store and must not keep key.
	Scan(ctx context.Context, now int64, cursor uint64, count int, visit func(key []byte, kind Kind)) (next uint64, err error)
	// RandomKey appends a random key that has not expired to dst, or reports that it found none.
	RandomKey(ctx context.Context, now int64, dst []byte) (key []byte, found bool, err error)
	// Len returns the number of keys. A store may count keys that have expired and have not been swept.
	Len(ctx context.Context, now int64) (int64, error)
	// Flush deletes all keys atomically. In a store with several databases these are the keys of one.
	Flush(ctx context.Context) error

	// Stats returns the counters of the store. It waits for nothing but locks of this process.
	Stats() Stats
}

// Decider is a Store that decides a single request without waiting and without a batch.
type Decider interface {
	// Decide takes quantity of l from key and fills in d. With peek it takes nothing and answers as if it did. Its errors
	// are those of OpTake; after an error the contents of d are undefined. It keeps neither key nor l.
	Decide(now int64, key []byte, l *Limit, quantity int64, peek bool, d *Decision) error
}

// Batcher is a Decider for which a batch of requests in one Apply may be faster than single ones.
type Batcher interface {
	// Batches reports whether Apply is currently faster than Decide.
	Batches() bool
}

// Atomic is a Store that can carry out several calls as one.
type Atomic interface {
	// Atomically calls run with a store for which the calls that run makes are one operation: no operation of another
	// caller comes between them. run may use that store only for keys, or for every key and the whole key space if
	// everything is set, and only until it returns. A store that cannot exclude other callers may undo what run did and
	// call run again. It returns ErrCrossSlot if it cannot hold these keys together, and ErrNotOffered if it cannot hold
	// everything: then the methods of held that are about all keys return ErrNotOffered, too.
	Atomically(ctx context.Context, now int64, keys [][]byte, everything bool, run func(held Store)) error
}

// Watcher is a Store that reports whether a key has changed: it was stored, deleted, renamed or flushed, it expired, or
// it got or lost a deadline. A request that is refused or takes nothing is no change. Only a Remote store may report one that cuts
// the state to its limit ([Cut]), and a key whose watch it has lost.
type Watcher interface {
	// Watch starts a watch of key. The caller must end it with Unwatch.
	Watch(ctx context.Context, now int64, key []byte) (Watch, error)
	// Changed reports whether the key of w has changed since Watch.
	Changed(ctx context.Context, now int64, w Watch) (bool, error)
	// Unwatch ends a watch. The watch must not be used afterwards.
	Unwatch(w Watch)
}

// Databases is a Store with several databases, each of which has keys of its own. The store is itself one of them: its other
// methods are about the keys of that one, and database 0 is the one that a caller begins with. They carry out OpMove.
//
// The store that Atomically gives to run is of the same database, and gives stores of the others that may be used as it may:
// for the same keys, in every database.
type Databases interface {
	// Databases returns how many databases there are. They have the numbers from 0 on.
	Databases() int
	// Used returns the numbers of the databases that have keys, in ascending order. A store may count keys that have expired.
	Used() []int
	// Database returns the store of database n, or nil if there is none. The capabilities of all of them are the same.
	Database(n int) Store
	// FlushAll deletes all keys of all databases atomically.
	FlushAll(ctx context.Context) error
	// Swap swaps the keys of two databases atomically. A watch reports a change if its key existed in either. It returns
	// ErrNoDatabase, and does nothing, if there is no such database.
	Swap(ctx context.Context, now int64, a, b int) error
}

// Remote is a Store that keeps its keys in another program: in a server, or in several.
type Remote interface {
	// Remote returns what the store has counted and measured. It waits for nothing but locks of this process.
	Remote() RemoteStats
}

// RemoteStats are the figures of a Remote store, counted since it was made.
type RemoteStats struct {
	Engine    string // the other program and its version, such as "valkey 8.1.4"; "" while it is unknown
	Topology  string // standalone, sentinel or cluster
	Mechanism string // how the store makes a change that others may not come before: ifeq or watch; "" while it is unknown
	Nodes     int    // servers that hold keys and can be written to
	Away      int    // those of them that do not answer now

	RoundTrips uint64 // batches of commands that were answered
	Commands   uint64 // commands in them that compare and set a key, or read one
	Decisions  uint64 // operations that they decided
	Conflicts  uint64 // commands that changed nothing, because another program had changed the key
	Local      uint64 // requests that were refused without asking the other program
	Known      int64  // keys whose state was seen and is remembered

	Failures uint64 // operations that failed because the other program did not do its part
	Timeouts uint64 // those of them for which the time was up
	Admitted uint64 // requests that were admitted because of a failure
	Refused  uint64 // requests that were refused because of a failure

	ClockOffset int64 // nanoseconds by which the clock of the other program is ahead of that of this machine
	ClockBound  int64 // nanoseconds by which the offset may be wrong; 0 while it is unknown
}

// TTLSampler is a Store that can estimate how long its keys live.
type TTLSampler interface {
	// MeanTTL returns the mean time until a key expires, in nanoseconds, over a sample of the keys that do, of one database;
	// 0 if there are no such keys.
	MeanTTL(now int64) int64
}

// Watch identifies a watch of one key. Only the store that returned it can use it, through whichever of its databases.
type Watch any

// OpCode says which operation an Op is.
type OpCode uint8

// The operations. The comment of each lists the fields of Op that it reads, then the fields that it sets beside Err, and
// then its errors beside those of the context and of the transport of a remote store. An N that says "whether" is 1 or 0.
const (
	// Reads Key, Limit, Quantity, Peek; sets Decision. With Peek nothing is taken. ErrWrongKind, ErrLogFull, ErrNoMemory.
	OpTake OpCode = iota
	// Reads Checks, Peek; sets Which, Answers. It requires that the keys differ. If every check is admitted, all are
	// taken, Which is 0, and Answers are those of taking. Otherwise nothing is taken, Answers are those of peeking, and
	// Which is the number, counted from 1, of the check that refuses for longest. A check that can never be admitted
	// refuses for longest; of equal checks it is the first. ErrWrongKind, ErrLogFull, ErrNoMemory.
	OpTakeAll
	// Reads Key; sets Contents.Info, and N: whether the key exists.
	OpStat
	// Reads Key; sets Contents, and N: whether the key exists.
	OpGet
	// Reads Keys; sets N: how many of them exist. A key that is named twice counts twice.
	OpExists
	// Reads Keys; sets N: how many were deleted. A key that is named twice counts once.
	OpDelete
	// Reads Key, At, Condition; sets N: whether the key exists and the condition allows the deadline. A deadline not
	// after now deletes the key. A deadline not before the time at which the bucket is full leaves the key without one.
	OpExpire
	// Reads Key; sets N: whether a deadline was removed.
	OpPersist
	// Reads Key, To, IfFree; sets N: whether the key was renamed. Its state and its deadline replace those of To. With
	// IfFree nothing happens if To exists. Renaming a key to itself changes nothing, and N is 1 unless IfFree is set.
	// ErrNoKey.
	OpRename
	// Reads Key, DB; sets N: whether the key was moved to the database DB, with its state and its deadline. It is not if it
	// does not exist, or if it exists in DB. It may be a key of an Atomically as any other. ErrNoDatabase; ErrUnknownOp if
	// the store is no Databases.
	OpMove
	// Reads Keys, Update. The keys must differ (ErrSameKey). The keys that hold something afterwards have no deadline,
	// unless Update is Selective and has not changed them. Its errors are those of Update, and ErrNoMemory.
	OpUpdate
)

// Op is one operation of Apply. Key, Keys and everything else that it points to must not change until Apply returns. The
// store keeps none of it.
type Op struct {
	Code   OpCode
	Peek   bool // OpTake, OpTakeAll: take nothing, and answer as if it did
	IfFree bool // OpRename: rename only if To does not exist

	Key       []byte
	Keys      [][]byte
	To        []byte
	Limit     *Limit
	Quantity  int64
	Checks    []Check
	DB        int   // number of a database
	At        int64 // nanoseconds of Unix time
	Condition Condition
	Update    Updater

	Decision Decision
	Answers  []Decision // one for each check; the caller provides the slice
	Which    int        // number of the check that refuses for longest, from 1; 0 if all are admitted
	N        int64
	Contents Contents
	Err      error // why the operation failed; it has changed nothing then
}

// MaxChecks is the largest number of checks in one OpTakeAll.
const MaxChecks = 64

// Check is one of the limits of an OpTakeAll.
type Check struct {
	Key      []byte
	Limit    Limit
	Quantity int64
}

// Updater computes new states of one or several keys from their current states.
type Updater interface {
	// Update changes states, which are those of the op's keys in order, and reports whether the store is to store them. A
	// key that does not exist has the zero State. A key whose state becomes zero, or is full at now, is deleted. Update
	// may call Take on a state; otherwise it must replace a Log rather than edit it. It must keep neither states nor
	// their Logs.
	//
	// A store may call Update again, with other states, if the keys were changed in the meantime. So the result must
	// depend only on now, states, and the receiver as it was before the first call. Update must not call the store. When
	// it returns false or an error, nothing is stored.
	Update(now int64, states []State) (changed bool, err error)
}

// Selective is an Updater that says which of the states it has changed. A store leaves the others as they are, with their
// deadlines.
type Selective interface {
	Updater
	// Changes reports whether the last call of Update has changed states[i].
	Changes(i int) bool
}

// Info describes a key independently of its kind. Times are nanoseconds of Unix time.
type Info struct {
	Kind   Kind
	Now    int64 // the time at which the key was read
	Expiry int64 // when the key expires: when the bucket is full, or at its deadline if that is earlier
	Bytes  int64 // memory that the store uses for the key, as far as it knows
}

// Contents is what a key holds, for display.
type Contents struct {
	Info
	Deadline int64   // that OpExpire or the state of a counter set, in nanoseconds of Unix time; 0 is none
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

// Condition restricts when OpExpire sets a deadline. It compares the current expiry of the key with the deadline, both
// rounded up to milliseconds as clients see them, so that repeating an EXPIRE is neither later nor earlier. Several
// conditions may be combined; all of them must hold.
type Condition uint8

// The conditions of EXPIRE, PEXPIRE, EXPIREAT and PEXPIREAT. A key without an expiry counts as one that expires after any
// deadline.
const (
	IfNone    Condition = 1 << iota // NX: only a key that has no expiry
	IfSome                          // XX: only a key that has one
	IfLater                         // GT: only when the deadline is later than the expiry
	IfEarlier                       // LT: only when the deadline is earlier than the expiry
)

const millisecond int64 = 1e6

// Allows reports whether a deadline at may replace expiry; both are nanoseconds of Unix time, and expiry may be NoExpiry.
func (c Condition) Allows(at, expiry int64) bool {
	shown := CeilDiv(expiry, millisecond)
	asked := CeilDiv(max(at, 0), millisecond)
	return (c&IfNone == 0 || expiry == NoExpiry) &&
		(c&IfSome == 0 || expiry != NoExpiry) &&
		(c&IfLater == 0 || asked > shown) &&
		(c&IfEarlier == 0 || asked < shown || expiry == NoExpiry)
}

// Entry is a key and everything that is stored for it, as it is written to disk and loaded again.
type Entry struct {
	Database int // number of the database
	Key      []byte
	Deadline int64 // that OpExpire set, in nanoseconds of Unix time; 0 is none
	State

	With int  // in a swap of databases: the other one
	Kept Kept // in an amendment: the records that stay; Log then has only the new records
}

// Kept is an interval, both ends included and in nanoseconds of Unix time, in which an amendment of a log leaves the
// records unchanged.
type Kept struct{ Oldest, Newest int64 }

// Stats are the counters of a Store.
type Stats struct {
	// Of one database.
	Keys      int64 // stored, including keys that have expired and are not removed yet
	Deadlines int64 // keys with an EXPIRE deadline
	Lasting   int64 // keys that never expire
	Index     int64 // bytes of the index, as far as the store knows

	// Of all databases.
	Bytes   int64  // held by keys, their state and their index
	Expired uint64 // keys removed because they had expired
	Changes uint64 // changes of states and deadlines, and deletions, by requests

	Peak    int64  // the highest that Bytes has been
	Limit   int64  // the most that Bytes may be; 0 is no limit
	Evicts  bool   // whether keys are evicted to stay within Limit
	Evicted uint64 // keys evicted to stay within Limit
}
