package cluster

import (
	"bytes"
	"hash/maphash"
	"sync"
	"sync/atomic"
	"unsafe"

	"cellserver/buckets"
)

// place says where a line is.
type place uint8

const (
	idle   place = iota // in the list of what may be forgotten; nothing waits for it
	queued              // in the queue of a server, or among what waits for one
	flying              // a command for it is under way
)

// line is one key: what was last seen of it in the engine, and the requests that wait for it. The lock of its shard guards
// it, except for the fields that do not change.
type line struct {
	hash uint64 // of key; does not change
	key  []byte // with the prefix; does not change
	slot uint16 // does not change
	next *line  // another line with the same hash

	older, newer *line // in the list of the idle ones
	charge       int64 // bytes that it counts for

	place   place
	asking  bool  // the next command goes to a server that is importing the slot
	doubted bool  // the last server that was asked sent it elsewhere, or was not able to answer
	trouble error // why its requests have not been decided yet

	// What was last seen. record is what value says, unless value is foreign; what has expired may be missing in it.
	known   bool // the rest is not what was there once, or nothing
	found   bool // the key has a value; an empty one is a tombstone
	foreign bool // the value is not ours
	parsed  bool // record is up to date
	value   []byte
	record  record
	seen    int64 // Local, in nanoseconds
	until   int64 // when the engine forgets the value, as far as that can be known, on the clock of the server
	// overtaken says that this process has changed the key otherwise while requests waited, so that the reply to a command that was
	// under way may be older than that change. It can confirm answers, but is not good for refusals that come later.
	overtaken bool

	waiting requests // not decided
	decided requests // decided together; the command under way is to confirm them
	reading bool     // the command under way changes nothing

	small [smallBytes]byte // of a short key and a short value
}

// smallBytes is for keys and values that are kept in the line itself: a miss of the processor's cache less for each.
const smallBytes = 72

// request is one operation on one key that waits. The lock of the line's shard guards it.
type request struct {
	op         *buckets.Op
	call       *call
	line       *line
	shard      *shard
	load       *atomic.Int64 // what counts the requests that wait for the same server
	now        int64
	list       *requests // that it is in; nil when its operation has its result
	prev, next *request
	panicked   any // what its updater has panicked with
}

// requests is a list of requests, in the order in which they are decided.
type requests struct{ first, last *request }

func (q *requests) push(r *request) {
	r.list, r.prev, r.next = q, q.last, nil
	if q.last == nil {
		q.first = r
	} else {
		q.last.next = r
	}
	q.last = r
}

func (q *requests) pushFirst(r *request) {
	r.list, r.prev, r.next = q, nil, q.first
	if q.first == nil {
		q.last = r
	} else {
		q.first.prev = r
	}
	q.first = r
}

func (q *requests) remove(r *request) {
	if r.prev == nil {
		q.first = r.next
	} else {
		r.prev.next = r.next
	}
	if r.next == nil {
		q.last = r.prev
	} else {
		r.next.prev = r.prev
	}
	r.list, r.prev, r.next = nil, nil, nil
}

// table has the lines. It is divided into shards, so that callers and connections seldom wait for each other. A shard's lock
// may be taken while that of a list of calls is held; while a shard's is held, no other is taken.
type table struct {
	seed   maphash.Seed
	bytes  atomic.Int64 // that the lines count for
	known  atomic.Int64 // lines
	turn   atomic.Uint32
	shards [shardCount]shard
}

const shardCount = 64

type shard struct {
	mu     sync.Mutex
	lines  map[uint64]*line
	recent line // of the list of idle lines: newer is the oldest one, and older is the newest one
	_      [64]byte
}

func newTable() *table {
	t := &table{seed: maphash.MakeSeed()}
	for i := range t.shards {
		sh := &t.shards[i]
		sh.lines = make(map[uint64]*line)
		sh.recent.older, sh.recent.newer = &sh.recent, &sh.recent
	}
	return t
}

// shard returns the hash of a key of the engine, and the shard that it is in.
func (t *table) shard(key []byte) (uint64, *shard) {
	hash := maphash.Bytes(t.seed, key)
	return hash, &t.shards[hash>>(64-6)]
}

// of returns the shard of a line.
func (t *table) of(l *line) *shard { return &t.shards[l.hash>>(64-6)] }

// find returns the line of a key, or nil. It requires the lock.
func (sh *shard) find(hash uint64, key []byte) *line {
	l := sh.lines[hash]
	for l != nil && !bytes.Equal(l.key, key) {
		l = l.next
	}
	return l
}

// add makes the line of a key that has none. It is in no list. It requires the lock.
func (t *table) add(sh *shard, hash uint64, key []byte, slot uint16) *line {
	l := &line{hash: hash, slot: slot, next: sh.lines[hash]}
	if n := len(key); n <= smallBytes {
		l.key, l.value = append(l.small[:0:n], key...), l.small[n:n:smallBytes]
	} else {
		l.key = bytes.Clone(key)
	}
	sh.lines[hash] = l
	t.known.Add(1)
	t.weigh(l)
	return l
}

// recordBytes is what a record of a sliding log takes in memory: a time, a quantity and a sum.
const recordBytes = 24

// lineBytes is what a line takes without what it points to, and with its place in the map.
const lineBytes = int64(unsafe.Sizeof(line{})) + 24

// weigh counts what a line takes. It requires the lock.
func (t *table) weigh(l *line) {
	size := lineBytes
	if cap(l.key) > smallBytes {
		size += int64(cap(l.key))
	}
	if cap(l.value) > smallBytes {
		size += int64(cap(l.value))
	}
	if l.record.state.Log != nil {
		size += int64(l.record.state.Log.Len()) * recordBytes
	}
	if size != l.charge {
		t.bytes.Add(size - l.charge)
		l.charge = size
	}
}

// rest puts a line for which nothing waits among the idle ones, as the newest. It requires the lock.
func (t *table) rest(sh *shard, l *line) {
	l.place, l.asking, l.doubted, l.trouble = idle, false, false, nil
	if l.overtaken {
		l.overtaken = false
		l.lose()
	}
	t.weigh(l)
	l.older, l.newer = sh.recent.older, &sh.recent
	l.older.newer, l.newer.older = l, l
}

// busy takes a line from among the idle ones. It requires the lock.
func (l *line) busy() {
	if l.older != nil {
		l.older.newer, l.newer.older = l.newer, l.older
		l.older, l.newer = nil, nil
	}
}

// trim forgets the oldest idle lines until the lines count for at most limit bytes. It holds one lock at a time.
func (t *table) trim(limit int64) {
	for skipped := 0; t.bytes.Load() > limit && skipped < shardCount; {
		sh := &t.shards[t.turn.Add(1)%shardCount]
		sh.mu.Lock()
		l := sh.recent.newer
		if l == &sh.recent {
			skipped++
		} else {
			skipped = 0
			t.drop(sh, l)
		}
		sh.mu.Unlock()
	}
}

// drop forgets an idle line. It requires the lock.
func (t *table) drop(sh *shard, l *line) {
	l.busy()
	if before := sh.lines[l.hash]; before != l {
		for before.next != l {
			before = before.next
		}
		before.next = l.next
	} else if l.next != nil {
		sh.lines[l.hash] = l.next
	} else {
		delete(sh.lines, l.hash)
	}
	t.bytes.Add(-l.charge)
	t.known.Add(-1)
}

// see notes what a key holds in the engine; value is not kept. at is the time of the server, and local that of this process. It
// requires the lock.
func (l *line) see(found bool, value []byte, at, local int64, slack int64) {
	l.known, l.found, l.parsed, l.seen = true, found, true, local
	l.value = append(l.value[:0], value...)
	l.foreign = l.record.parse(l.value) != nil
	l.until = at + margin
	if expiry := l.record.expiry(); expiry > 0 {
		l.until = max(l.until, addSat(expiry, slack+margin))
	}
}

// lose forgets what was seen of a key. It requires the lock.
func (l *line) lose() {
	l.known, l.found, l.foreign, l.parsed = false, false, false, false
	l.value, l.record = l.value[:0], record{}
}
