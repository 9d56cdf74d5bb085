package cluster

import (
	"context"
	"errors"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"cellserver/buckets"
	"cellserver/internal/hashslot"
)

// Scan visits about count keys, and returns the cursor for the next call, or 0 when all have been visited. A key that keeps its slot, or
// whose slot moves to another server between two calls, is visited. One whose slot moves while that slot is scanned may be missed, and
// so may one whose slot moves at all if the engine is a cluster of Redis before 7.4.
func (s *Store) Scan(
	ctx context.Context, now int64, cursor uint64, count int, visit func(key []byte, kind buckets.Kind),
) (next uint64, err error) {
	return s.keys.Scan(ctx, now, cursor, count, visit)
}

// RandomKey appends a random key to dst. It may find none if the engine has very many keys of others.
func (s *Store) RandomKey(ctx context.Context, now int64, dst []byte) (key []byte, found bool, err error) {
	return s.keys.RandomKey(ctx, now, dst)
}

// Len returns the number of keys. Without a prefix it is what the engine says, which includes keys of others. With a prefix the keys
// are counted: those too that have expired a moment ago, and SCAN may show a key twice while the engine resizes a table. A count that
// takes long is made once in a while, and Len returns the one before until then. If there is none before, Len fails after a second, and
// the next call goes on counting.
func (s *Store) Len(ctx context.Context, now int64) (int64, error) { return s.keys.Len(ctx, now) }

// Flush deletes the keys with the prefix of the store, one after the other: it is not atomic, and keys that are stored meanwhile may stay.
// Without a prefix it deletes only keys whose values are those of a Store, because the others are somebody else's.
func (s *Store) Flush(ctx context.Context) error { return s.keys.Flush(ctx) }

// keySpace is the keys with a prefix in the servers of an engine. Its methods are those of Store about all keys. Rules.Timeout does
// not bound them: each command is bounded by commandTime, and all of them together by the context.
type keySpace struct {
	servers servers
	prefix  string
	pattern string // the prefix, as SCAN matches it
	tagged  bool   // the prefix has a hash tag: all keys are in slot
	slot    uint16
	local   func() int64 // the clock of this process
	count   *keyCount

	// apply carries out operations on keys that are not where they were found.
	apply func(ctx context.Context, now int64, ops []buckets.Op)
	// forgetAll is called when keys have been deleted.
	forgetAll func()
}

// servers is what a keySpace asks of the engine.
type servers interface {
	node(slot uint16) *node
	clustered() bool
	refresh()
	why() string
}

// newKeySpace returns the keys with a prefix.
func newKeySpace(
	of servers, prefix string, local func() int64, apply func(context.Context, int64, []buckets.Op), forgetAll func(),
) *keySpace {
	k := &keySpace{
		servers: of, prefix: prefix, pattern: globEscape.Replace(prefix) + "*", local: local, count: newKeyCount(), apply: apply, forgetAll: forgetAll,
	}
	from := strings.IndexByte(prefix, '{')
	if k.tagged = from >= 0 && strings.IndexByte(prefix[from+1:], '}') > 0; k.tagged {
		k.slot = hashslot.Of([]byte(prefix))
	}
	return k
}

var globEscape = strings.NewReplacer(`*`, `\*`, `?`, `\?`, `[`, `\[`, `\`, `\\`)

const (
	largePage = 1000 // keys in one step, where the caller does not say
	extraPage = 8    // steps that a Scan may take beyond the first
)

// Scan is that of Store.
func (k *keySpace) Scan(
	ctx context.Context, now int64, cursor uint64, count int, visit func(key []byte, kind buckets.Kind),
) (next uint64, err error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	at, want, visited := positionOf(cursor), min(max(count, 1), largePage), 0
	// Most keys of the engine may be those of others, or none any more. Larger pages then save round trips.
	for step := 0; ; step++ {
		p, err := k.step(ctx, at, want)
		if err != nil {
			return 0, err
		}
		err = k.visit(ctx, now, p, func(key string, kind buckets.Kind) bool {
			visited++
			visit([]byte(key), kind)
			return true
		})
		switch {
		case err != nil:
			return 0, err
		case p.done:
			return 0, nil
		case step >= extraPage || 2*visited >= count:
			return p.next.cursor(), nil
		}
		at, want = p.next, largePage
	}
}

const (
	randomTries = 8           // RANDOMKEYs, most of which may find keys of others
	randomTime  = time.Second // how long a key of the prefix is searched for after that
)

// RandomKey is that of Store.
func (k *keySpace) RandomKey(ctx context.Context, now int64, dst []byte) (key []byte, found bool, err error) {
	if err := ctx.Err(); err != nil {
		return dst, false, err
	}
	// Either ends when it has found one.
	keep := func(key string, _ buckets.Kind) bool {
		dst, found = append(dst, key...), true
		return false
	}
	at := position{slot: uint16(rand.IntN(hashslot.Count)), print: anyProcess, rest: rand.Uint64N(maxRest + 1)}
	p, err := k.random(ctx, at)
	if err == nil {
		err = k.visit(ctx, now, p, keep)
	}
	if found || err != nil {
		return dst, found, err
	}
	until := k.local() + int64(randomTime)
	for wrapped := false; k.local() < until; at = p.next {
		if p, err = k.step(ctx, at, largePage); err != nil {
			return dst, false, err
		}
		rand.Shuffle(len(p.keys), func(i, j int) { p.keys[i], p.keys[j] = p.keys[j], p.keys[i] })
		if err = k.visit(ctx, now, p, keep); found || err != nil {
			return dst, found, err
		}
		if p.done {
			if wrapped {
				return dst, false, nil
			}
			wrapped = true // p.next is the beginning, unless the prefix has a slot of its own
			p.next = position{}
		}
	}
	return dst, false, nil
}

// random asks the server that has a position for random keys.
func (k *keySpace) random(ctx context.Context, at position) (page, error) {
	if k.tagged {
		at.slot = k.slot
	}
	n, _, err := k.locate(&at)
	if err != nil {
		return page{}, err
	}
	inner, cancel := context.WithTimeout(ctx, commandTime)
	defer cancel()
	pipe := n.client.Pipeline()
	var names []*redis.StringCmd
	for range randomTries {
		names = append(names, pipe.RandomKey(inner))
	}
	_, _ = pipe.Exec(inner) // the errors are those of the commands
	p, got := page{node: n}, scanned{}
	for _, name := range names {
		switch key, err := name.Result(); {
		case err == nil:
			got.keys = append(got.keys, key)
		case !errors.Is(err, redis.Nil):
			return page{}, k.fault(ctx, n, err)
		}
	}
	p.keys = k.own(got.keys, hashslot.Count)
	return p, nil
}

// keyCount is the number of keys, counted a while ago, and a count that goes on. turn holds it: whoever takes the value owns the rest.
type keyCount struct {
	turn chan struct{}

	n      int64
	at     int64 // when it was counted, on the clock of this process; 0 if it never was
	took   int64 // nanoseconds
	steps  int   // how many it took
	next   position
	so     int64 // keys before next
	spent  int64 // nanoseconds that it took to get there
	walked int   // steps that it took to get there
	active bool
}

func newKeyCount() *keyCount {
	c := &keyCount{turn: make(chan struct{}, 1)}
	c.turn <- struct{}{}
	return c
}

const (
	quickCount  = int64(50 * time.Millisecond) // a count that takes no longer is made each time,
	shortCount  = 4                            // and so is one of so few steps: then it is the way to the engine that takes long
	countPause  = 20                           // others hold for so many times what they took
	firstCount  = int64(time.Second)           // how long one call of Len counts if there is no earlier count to return
	secondCount = int64(100 * time.Millisecond)
)

// Len is that of Store.
func (k *keySpace) Len(ctx context.Context, _ int64) (int64, error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	if k.prefix == "" {
		return k.size(ctx)
	}
	c := k.count
	select {
	case <-ctx.Done():
		return 0, ctx.Err()
	case <-c.turn:
		defer func() { c.turn <- struct{}{} }()
	}
	now := k.local()
	if c.at != 0 && c.took > quickCount && c.steps > shortCount && now-c.at < countPause*c.took {
		return c.n, nil
	}
	if !c.active {
		c.next, c.so, c.spent, c.walked, c.active = position{}, 0, 0, 0, true
	}
	patience := firstCount
	if c.at != 0 {
		patience = secondCount
	}
	for begin := now; ; {
		p, err := k.step(ctx, c.next, largePage)
		if err != nil {
			c.active = false
			return 0, err
		}
		after := k.local()
		c.spent, now = c.spent+after-now, after
		c.so, c.next, c.walked = c.so+int64(len(p.keys)), p.next, c.walked+1
		if p.done {
			c.n, c.at, c.took, c.steps, c.active = c.so, now, c.spent, c.walked, false
			return c.n, nil
		}
		if now-begin > patience {
			if c.at != 0 {
				return c.n, nil
			}
			return 0, &buckets.Unavailable{Reason: "the keys are being counted, which takes longer than a second: ask again"}
		}
	}
}

// forget drops what is known of the number of keys.
func (c *keyCount) forget() {
	<-c.turn
	c.at, c.active = 0, false
	c.turn <- struct{}{}
}

// size returns how many keys the servers have.
func (k *keySpace) size(ctx context.Context) (sum int64, err error) {
	counted := make(map[*node]struct{})
	for slot := range uint16(hashslot.Count) {
		n, _, err := k.locate(&position{slot: slot})
		if err != nil {
			return 0, err
		}
		if _, known := counted[n]; known {
			continue
		}
		counted[n] = struct{}{}
		inner, cancel := context.WithTimeout(ctx, commandTime)
		size, err := n.client.DBSize(inner).Result()
		cancel()
		if err != nil {
			return 0, k.fault(ctx, n, err)
		}
		sum += size
	}
	return sum, nil
}

// Flush is that of Store.
func (k *keySpace) Flush(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	defer k.count.forget()
	defer k.forgetAll()
	for at := (position{}); ; {
		p, err := k.step(ctx, at, largePage)
		if err == nil {
			err = k.unlink(ctx, p)
		}
		if err != nil || p.done {
			return err
		}
		at = p.next
	}
}

// unlink deletes the keys of a page.
func (k *keySpace) unlink(ctx context.Context, p page) error {
	for keys := p.keys; len(keys) > 0; {
		some := keys[:min(getBatch, len(keys))]
		keys = keys[len(some):]
		if k.prefix == "" {
			values, err := k.get(ctx, p.node, some)
			if err != nil {
				return err
			}
			some = ofStores(some, values)
		}
		if err := k.unlinkSome(ctx, p.node, some); err != nil {
			return err
		}
	}
	return nil
}

// ofStores returns the keys whose values a Store has written, and those that are elsewhere.
func ofStores(keys []string, values []*redis.StringCmd) (ours []string) {
	for i, key := range keys {
		bytes, err := values[i].Bytes()
		if r := (&record{}); err == nil && r.parse(bytes) == nil || err != nil && isElsewhere(err) {
			ours = append(ours, key)
		}
	}
	return ours
}

// unlinkSome deletes keys. In a cluster each has to be a command of its own.
func (k *keySpace) unlinkSome(ctx context.Context, n *node, keys []string) error {
	if len(keys) == 0 {
		return nil
	}
	inner, cancel := context.WithTimeout(ctx, commandTime)
	defer cancel()
	pipe := n.client.Pipeline()
	var replies []*redis.IntCmd
	for _, key := range keys {
		replies = append(replies, pipe.Unlink(inner, k.prefix+key))
	}
	_, _ = pipe.Exec(inner) // the errors are those of the commands
	for i, reply := range replies {
		switch err := reply.Err(); {
		case err == nil:
		case !isElsewhere(err):
			return k.fault(ctx, n, err)
		default:
			k.servers.refresh()
			ops := []buckets.Op{{Code: buckets.OpDelete, Keys: [][]byte{[]byte(keys[i])}}}
			k.apply(ctx, 0, ops)
			if err := ops[0].Err; err != nil && !errors.Is(err, buckets.ErrForeignValue) {
				return err
			}
		}
	}
	return nil
}
