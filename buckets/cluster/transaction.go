package cluster

import (
	"bytes"
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"cellserver/buckets"
)

// A transaction changes keys of one slot, if none of them has changed since it has read them: WATCH and MGET, then MULTI, SET
// and EXEC. That is two round trips, on a connection that is its own meanwhile.
//
// A connection goes back to the pool as it is: it may still watch keys. So whatever watches begins with UNWATCH, and who
// does not use MULTI is not concerned.
type transaction struct {
	store  *Store
	node   *node
	conn   *redis.Conn
	asking bool  // the server is importing the slot
	now    int64 // the time that requests are decided at, on the clock of the server
	keys   []held
}

// held is a key of a transaction.
type held struct {
	entry
	key     []byte // with the prefix
	foreign bool   // it holds what cellserver has not written
}

// errConflict is the outcome of a transaction that has changed nothing because a key has changed.
var errConflict = errors.New("another program has changed a key")

// begin watches the keys and reads them all at one time.
func (t *transaction) begin(ctx context.Context, now int64) error {
	pipe := t.conn.Pipeline()
	names := make([]any, len(t.keys))
	for i := range t.keys {
		names[i] = t.keys[i].key
	}
	pipe.Do(ctx, "unwatch")
	watched := t.ask(ctx, pipe, "watch", names)
	var values, there *redis.Cmd
	if len(names) == 1 {
		values = t.ask(ctx, pipe, "get", names)
	} else {
		// To MGET a key of another type is one that does not exist; EXISTS tells that there is one.
		values, there = t.ask(ctx, pipe, "mget", names), t.ask(ctx, pipe, "exists", names)
	}
	_, _ = pipe.Exec(ctx) // whose error is that of one of the commands
	t.store.count.roundTrips.Add(1)
	t.store.count.commands.Add(1)
	if err := watched.Err(); err != nil {
		return err
	}
	read, err := values.Result()
	switch {
	case errors.Is(err, redis.Nil):
		read = nil
	case redis.HasErrorPrefix(err, "WRONGTYPE"):
		t.keys[0].foreign, read = true, nil
	case err != nil:
		return err
	}
	if there == nil {
		read = []any{read}
	}
	list, _ := read.([]any)
	if len(list) != len(t.keys) {
		return errProtocol
	}
	found := int64(0)
	for i := range t.keys {
		if value, is := list[i].(string); is {
			found++
			t.keys[i].foreign = t.keys[i].parse([]byte(value)) != nil
		}
	}
	if there != nil {
		if n, err := there.Int64(); err != nil {
			return err
		} else if n != found {
			if err := t.findForeign(ctx); err != nil {
				return err
			}
		}
	}
	t.load(now)
	return nil
}

// ask adds a command to a pipeline.
func (t *transaction) ask(ctx context.Context, pipe redis.Pipeliner, name string, args []any) *redis.Cmd {
	if t.asking {
		pipe.Do(ctx, "asking")
	}
	return pipe.Do(ctx, append([]any{name}, args...)...)
}

// findForeign finds the keys that are of another type than a string.
func (t *transaction) findForeign(ctx context.Context) error {
	pipe := t.conn.Pipeline()
	types := make([]*redis.Cmd, len(t.keys))
	for i := range t.keys {
		types[i] = t.ask(ctx, pipe, "type", []any{t.keys[i].key})
	}
	_, _ = pipe.Exec(ctx)
	t.store.count.roundTrips.Add(1)
	for i := range t.keys {
		name, err := types[i].Text()
		if err != nil {
			return err
		}
		t.keys[i].foreign = t.keys[i].foreign || name != "string" && name != "none"
	}
	return nil
}

// load makes the records what they are at now, or at the latest time at which one of them was decided, or at the latest time
// of the server.
func (t *transaction) load(now int64) {
	if t.node != nil {
		now = t.node.hot.at(t.node, now)
	}
	t.now = max(t.now, now)
	for again := true; again; { // a second time if one is later than those before it
		before := t.now
		for i := range t.keys {
			t.now = t.keys[i].load(t.now)
		}
		again = t.now > before
	}
}

// find returns a key, which is given without the prefix, or nil if the transaction does not hold it.
func (t *transaction) find(key []byte) *held {
	prefix := t.store.config.Prefix
	i, found := slices.BinarySearchFunc(t.keys, key, func(h held, key []byte) int { return bytes.Compare(h.key[len(prefix):], key) })
	if !found {
		return nil
	}
	return &t.keys[i]
}

// apply carries out an operation on the records. The server learns of it by commit.
func (t *transaction) apply(op *buckets.Op, now int64) {
	t.load(now)
	var few [4][]byte
	for _, key := range keysOf(op, few[:0]) {
		switch h := t.find(key); {
		case h == nil:
			op.Err = buckets.ErrNotOffered
			return
		case h.foreign:
			op.Err = buckets.ErrForeignValue
			return
		}
	}
	applyAny(op, t.timeFor(op), t.store.rules.Load().MaxLog, func(key []byte) *entry { return &t.find(key).entry })
}

// timeFor returns the time at which an operation is decided: see that of a record.
func (t *transaction) timeFor(op *buckets.Op) int64 {
	now := t.now
	switch {
	case t.store.config.OwnTime:
	case op.Code == buckets.OpTake:
		now = t.find(op.Key).timeFor(op.Limit, now)
	case op.Code == buckets.OpTakeAll:
		for i := range op.Checks {
			now = t.find(op.Checks[i].Key).timeFor(&op.Checks[i].Limit, now)
		}
	}
	return now
}

// changes reports whether there is something to commit.
func (t *transaction) changes() bool {
	return slices.ContainsFunc(t.keys, func(h held) bool { return h.changed })
}

// commit has the server make the changes, if there are any, or returns errConflict. Other errors of which it is not sure that
// the server has done nothing are buckets.Unavailable and ErrTooFewReplicas. It requires that ctx has a deadline.
func (t *transaction) commit(ctx context.Context) error {
	if !t.changes() {
		return nil
	}
	s := t.store
	rules := s.rules.Load()
	// What is sent is waited for, even if the time is up soon: otherwise nobody knew whether it was done.
	deadline, _ := ctx.Deadline()
	ctx, cancel := context.WithDeadline(context.WithoutCancel(ctx), deadline.Add(rules.Timeout/10))
	defer cancel()
	values := make([][]byte, len(t.keys))
	var sets [][]any
	for i := range t.keys {
		if h := &t.keys[i]; h.changed {
			values[i] = h.appendValue(nil, t.now)
			sets = append(sets, setCommand(h.key, values[i], s.ttlOf(&h.record, t.now)))
		}
	}
	sent := s.config.Local()
	err := s.execute(ctx, t.conn, t.asking, sets)
	if err != nil && !errors.Is(err, buckets.ErrTooFewReplicas) {
		var away *buckets.Unavailable
		if errors.As(err, &away) && away.Unknown {
			for i := range t.keys {
				s.forget(t.keys[i].key)
			}
		}
		return err
	}
	for i := range t.keys {
		if h := &t.keys[i]; h.changed {
			s.count.changes.Add(1)
			s.learn(h.key, values[i], sent)
		}
	}
	return err
}

// execute sends commands as a transaction on a connection that watches what it depends on, and waits for the replicas that
// must confirm it. It returns errConflict, an error reply of the server, which has then done nothing, ErrTooFewReplicas, or
// buckets.Unavailable if it is unknown what the server has done.
func (s *Store) execute(ctx context.Context, conn *redis.Conn, asking bool, commands [][]any) error {
	pipe := conn.Pipeline()
	if asking {
		pipe.Do(ctx, "asking") // holds until EXEC
	}
	pipe.Do(ctx, "multi")
	queued := make([]*redis.Cmd, len(commands))
	for i, words := range commands {
		queued[i] = pipe.Do(ctx, words...)
	}
	executed := pipe.Do(ctx, "exec")
	rules := s.rules.Load()
	var replicas *redis.Cmd
	if rules.MinReplicas > 0 && len(commands) > 0 {
		replicas = pipe.Do(ctx, "wait", rules.MinReplicas, max(1, (rules.Timeout/2).Milliseconds()))
	}
	_, _ = pipe.Exec(ctx) // whose error is that of one of the commands
	s.count.roundTrips.Add(1)
	if err := outcome(queued, executed); err != nil {
		return err
	}
	if replicas != nil {
		if n, err := replicas.Int64(); err != nil || n < int64(rules.MinReplicas) {
			return buckets.ErrTooFewReplicas
		}
	}
	return nil
}

// setCommand returns the command that makes a key hold a value; an empty one is no key.
func setCommand(key, value []byte, ttl int64) []any {
	switch {
	case len(value) == 0:
		return []any{"del", key}
	case ttl == 0:
		return []any{"set", key, value}
	}
	return []any{"set", key, value, "px", ttl}
}

// ttlOf is ttl of a record that may be no key.
func (s *Store) ttlOf(r *record, now int64) int64 {
	if !r.lives(now) {
		return 0
	}
	return s.ttl(r, now)
}

// outcome returns what became of a transaction, as execute does.
func outcome(queued []*redis.Cmd, executed *redis.Cmd) error {
	replies, err := executed.Slice()
	switch {
	case errors.Is(err, redis.Nil):
		return errConflict
	case err == nil:
		for _, r := range replies {
			if refused, is := r.(error); is {
				return &buckets.Unavailable{Reason: "the engine has made only a part of a change: " + refused.Error(), Unknown: true}
			}
		}
		return nil
	case !isReply(err):
		return &buckets.Unavailable{Reason: "the engine has not said whether it made a change: " + plain(err), Unknown: true}
	}
	// The reason is in the reply to the command that was refused, or follows in the text.
	for _, c := range queued {
		if why := c.Err(); isReply(why) {
			return why
		}
	}
	if _, why, found := strings.Cut(err.Error(), "because of: "); found {
		return engineError(why)
	}
	return err
}

// isReply reports whether an error is a reply of the server.
func isReply(err error) bool {
	var reply redis.Error
	var cut engineError
	return errors.As(err, &reply) || errors.As(err, &cut)
}

// transact runs a transaction on keys, which are sorted, differ and have the prefix. It calls before, reads the keys, and calls decide,
// which changes the records by apply. It tries again until the transaction is done or ctx ends. Its errors are those of reach and of commit, and ErrCrossSlot. It
// requires that ctx has a deadline.
func (s *Store) transact(ctx context.Context, now int64, keys [][]byte, before func(), decide func(t *transaction)) error {
	return s.reach(ctx, keys[0], func(n *node, asking bool) error {
		if s.engine.clustered() && !s.inOneSlot(keys) {
			return buckets.ErrCrossSlot
		}
		t := &transaction{store: s, node: n, conn: n.client.Conn(), asking: asking, keys: make([]held, len(keys))}
		defer func() { _ = t.conn.Close() }()
		for i := range keys {
			t.keys[i].key = keys[i]
		}
		before()
		if err := t.begin(ctx, now); err != nil {
			return err
		}
		decide(t)
		return t.commit(ctx)
	})
}

// inOneSlot reports whether keys of the engine are in one slot.
func (s *Store) inOneSlot(keys [][]byte) bool {
	for _, key := range keys[1:] {
		if s.engine.slot(key) != s.engine.slot(keys[0]) {
			return false
		}
	}
	return true
}

// reach has ask talk to the server that has the slot of a key, and again as long as it returns errConflict, an error of the
// connection, or a reply which says that the server cannot do it now or that another one can. Otherwise it returns what ask does: nil,
// an error of buckets, or the buckets.Unavailable that a reply stands for. When ctx ends, it returns why that is, or the error
// of ctx if it has not ended for lack of time.
func (s *Store) reach(ctx context.Context, key []byte, ask func(n *node, asking bool) error) error {
	slot := s.engine.slot(key)
	var wait backoff
	var asked *node // by an ASK
	var trouble error
	for ctx.Err() == nil {
		n := s.engine.node(slot)
		if asked != nil {
			n = asked
		}
		if n == nil || !n.ready() {
			trouble, asked = errors.New(s.engine.why()), nil
			wait.pause(ctx, troubleWait)
			continue
		}
		err := ask(n, asked != nil)
		asked = nil
		var known buckets.Error
		var away *buckets.Unavailable
		switch {
		case err == nil || errors.As(err, &known) || errors.As(err, &away):
			return err
		case errors.Is(err, errConflict):
			s.count.conflicts.Add(1)
			trouble = err
			wait.pause(ctx, 0)
			continue
		}
		if ctx.Err() == nil {
			trouble = err
		}
		again := false
		if asked, again = s.redirected(n, slot, err); !again {
			return refusalOf(err)
		}
		if asked == nil {
			wait.pause(ctx, troubleWait)
		}
	}
	return s.tooLate(ctx, trouble)
}

// redirected says whether something may be tried again that has failed with err, and by which server if that is not the one that
// has the slot.
func (s *Store) redirected(n *node, slot uint16, err error) (asked *node, again bool) {
	if !isReply(err) {
		return nil, true
	}
	word, rest, _ := strings.Cut(err.Error(), " ")
	switch word {
	case "MOVED", "ASK":
		number, addr, _ := strings.Cut(rest, " ")
		switch {
		case number != strconv.Itoa(int(slot)):
			s.engine.refresh()
		case word == "ASK":
			return s.engine.at(n, addr), true
		default:
			s.engine.moved(n, slot, addr)
		}
		return nil, true
	case "TRYAGAIN", "LOADING", "CLUSTERDOWN", "READONLY", "MASTERDOWN", "BUSY":
		s.engine.refresh()
		return nil, true
	}
	return nil, false
}

// refusalOf returns what a refusal of the server that is not tried again means.
func refusalOf(err error) error {
	text := string(newEngineError([]byte(err.Error())))
	switch word, _, _ := strings.Cut(text, " "); word {
	case "WRONGTYPE":
		return buckets.ErrForeignValue
	case "OOM":
		return &buckets.Unavailable{Reason: "the engine is out of memory: " + text}
	}
	return &buckets.Unavailable{Reason: "the engine refuses: " + text}
}

// errTimeout is why a context ends that withTimeout has made.
var errTimeout = errors.New("store-timeout")

// withTimeout returns a context that ends when the time of a request that begins now is up.
func (s *Store) withTimeout(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, s.rules.Load().Timeout, errTimeout)
}

// tooLate returns the error of a request of withTimeout whose context has ended, with what has held it up. The engine has
// not done it.
func (s *Store) tooLate(ctx context.Context, trouble error) error {
	switch {
	case !errors.Is(context.Cause(ctx), errTimeout):
		return ctx.Err()
	case trouble == nil || trouble.Error() == "":
		s.count.timeouts.Add(1)
		return &buckets.Unavailable{Reason: "the engine has not answered within store-timeout"}
	}
	s.count.timeouts.Add(1)
	return &buckets.Unavailable{Reason: "the engine was not able to decide within store-timeout: " + string(newEngineError([]byte(plain(trouble))))}
}

// backoff is the waits between attempts. They are random, so that programs that are in each other's way do not stay so.
type backoff struct{ tried int }

const (
	shortWait = 50 * time.Microsecond // after the first conflict: about a round trip
	// mostWait is short, because waiting does not help against a program that changes a key all the time.
	mostWait    = 400 * time.Microsecond
	troubleWait = 2 * time.Millisecond // at least, if the server has said that it needs time
)

// pause waits before the next attempt, for least and a random time.
func (b *backoff) pause(ctx context.Context, least time.Duration) {
	sleep(ctx, least+rand.N(max(least, min(mostWait, shortWait<<min(b.tried, 10)))))
	b.tried++
}
