package cluster

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"cellserver/buckets"
	"cellserver/internal/hashslot"
)

// A walk visits the keys of all servers by SCAN, one server after the other. All that it has to know between two steps is in
// its position, which fits into the cursor that clients get. So any cellserver can go on with a walk, and one that is
// forgotten costs nothing.
//
// In a cluster, the cursors of Valkey 8 and Redis 7.4 and later have the slot that is being scanned in their lowest 14 bits, and
// slots are scanned in ascending order. There a walk goes through the slots, each at the server that has it: all keys of
// lower slots have been visited, whatever has moved meanwhile. Older clusters have cursors that mean nothing to others; there a walk
// goes from server to server, in the order of their lowest slots.
//
// A cursor is good for one process only, because each hashes keys with a seed of its own. A position therefore has a
// fingerprint of the process. If another one has taken over, the walk begins again: with the slot that it had reached, or
// with the server.

// position is where a walk is. The zero position is the beginning.
type position struct {
	slot  uint16 // the slot that is being scanned, or a slot of the server; without a cluster, the lowest bits of the engine's cursor
	whole bool   // a walk from server to server: rest is the engine's cursor, and slot is none of it
	print uint16 // fingerprint of the process whose cursor this is, or anyProcess; 0 if nothing has been scanned there yet
	rest  uint64 // the engine's cursor, without slot unless whole
}

// The bits of a position as a cursor, from the lowest on: slot, whole, print, rest. The part that may be large comes last,
// so that cursors stay below 2^53, for clients that store them in a float, as long as tables have less than 2^28 entries.
const (
	slotBits  = 14
	printBits = 10
	restShift = slotBits + 1 + printBits
	maxRest   = 1<<(64-restShift) - 1
	slotMask  = hashslot.Count - 1
	printMask = 1<<printBits - 1
)

// anyProcess is the fingerprint of a position that is as good as any other. No cursor contains it.
const anyProcess = 1 << printBits

// cursor returns the position as a number, which is 0 only for the beginning.
func (p position) cursor() uint64 {
	c := p.rest<<restShift | uint64(p.print)<<(slotBits+1) | uint64(p.slot)
	if p.whole {
		c |= 1 << slotBits
	}
	return c
}

// positionOf returns the position of a cursor. Every number is one.
func positionOf(cursor uint64) position {
	return position{
		slot:  uint16(cursor & slotMask),
		whole: cursor>>slotBits&1 == 1,
		print: uint16(cursor >> (slotBits + 1) & printMask),
		rest:  cursor >> restShift,
	}
}

// commandTime bounds one exchange with a server, which takes milliseconds if the server is well.
const commandTime = 2 * time.Second

// page is what one step of a walk has found. The keys, which are without the prefix, may be no keys of the store, or none any
// more.
type page struct {
	node *node
	keys []string
	next position
	done bool
}

// maxStarts is how often a step begins again because the process is not the one that the position is of.
const maxStarts = 3

// step scans about count keys from a position on.
func (k *keySpace) step(ctx context.Context, at position, count int) (page, error) {
	for range maxStarts {
		n, done, err := k.locate(&at)
		if done || err != nil {
			return page{done: true}, err
		}
		got, err := k.scan(ctx, n, k.engineCursor(at), count)
		if err != nil {
			return page{}, k.fault(ctx, n, err)
		}
		whole := k.servers.clustered() && !got.slotted
		if whole == at.whole && (at.print == got.print || at.print == anyProcess || k.atStart(at)) {
			return k.advance(at, n, got)
		}
		if at.whole = whole; at.print != anyProcess {
			at.print, at.rest = 0, 0
			if !k.servers.clustered() {
				at.slot = 0
			}
		}
	}
	return page{}, &buckets.Unavailable{Reason: "the servers change while their keys are scanned"}
}

// atStart reports whether nothing has been scanned yet where the position is.
func (k *keySpace) atStart(at position) bool {
	return at.rest == 0 && (at.slot == 0 || k.servers.clustered())
}

// engineCursor returns the cursor for the engine.
func (k *keySpace) engineCursor(at position) uint64 {
	if at.whole {
		return at.rest
	}
	return at.rest<<slotBits | uint64(at.slot)
}

// locate returns the server to ask. done means that nothing is left to scan.
func (k *keySpace) locate(at *position) (n *node, done bool, err error) {
	slot := at.slot
	if k.servers.clustered() && k.tagged {
		switch {
		case at.slot > k.slot && !at.whole:
			return nil, true, nil
		case at.slot != k.slot:
			*at = position{slot: k.slot, whole: at.whole}
		}
		slot = k.slot
	}
	if n = k.servers.node(slot); n != nil && n.ready() {
		return n, false, nil
	}
	reason := k.servers.why()
	if reason == "" {
		reason = fmt.Sprintf("no server is ready for slot %d", slot)
	}
	return nil, false, &buckets.Unavailable{Reason: reason}
}

// scanned is what a server answers to one SCAN.
type scanned struct {
	cursor  uint64
	keys    []string
	print   uint16 // fingerprint of the process
	slotted bool   // its cursors contain the slot, if it is part of a cluster
}

var errReplica = errors.New("it is a replica")

// scan asks a server for keys, and which process it is.
func (k *keySpace) scan(ctx context.Context, n *node, cursor uint64, count int) (got scanned, err error) {
	ctx, cancel := context.WithTimeout(ctx, commandTime)
	defer cancel()
	pipe := n.client.Pipeline()
	server, replication := pipe.Info(ctx, "server"), pipe.Info(ctx, "replication")
	keys := pipe.Scan(ctx, cursor, k.pattern, int64(count))
	_, _ = pipe.Exec(ctx) // the errors are those of the commands
	if got.keys, got.cursor, err = keys.Result(); err != nil {
		return got, err
	}
	if infoField(replication.Val(), "role") == "slave" {
		return got, errReplica
	}
	process := infoField(server.Val(), "run_id")
	if process == "" { // the user may not ask for it
		process = n.addr
	}
	h := fnv.New32a()
	_, _ = h.Write([]byte(process)) // which cannot fail
	got.print = 1 + uint16(h.Sum32()%printMask)
	got.slotted = hasSlottedCursors(server.Val())
	return got, nil
}

// hasSlottedCursors reports whether the SCAN cursors of a release, given as INFO shows it, contain the slot.
func hasSlottedCursors(info string) bool {
	if version := infoField(info, "valkey_version"); version != "" {
		major, _ := release(version)
		return major >= 8
	}
	major, minor := release(infoField(info, "redis_version"))
	return major > 7 || major == 7 && minor >= 4
}

// release returns the first two numbers of a version.
func release(version string) (major, minor int) {
	parts := strings.SplitN(version, ".", 3)
	major, _ = strconv.Atoi(parts[0]) // 0 is a release that is not known
	if len(parts) > 1 {
		minor, _ = strconv.Atoi(parts[1])
	}
	return major, minor
}

// infoField returns a field of a reply to INFO, or nothing if there is none of that name.
func infoField(info, name string) string {
	for line := range strings.Lines(info) {
		if field, value, found := strings.Cut(line, ":"); found && field == name {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

// advance returns the keys of a reply and the position behind them.
func (k *keySpace) advance(at position, n *node, got scanned) (p page, err error) {
	p = page{node: n, done: got.cursor == 0}
	end := uint16(hashslot.Count) // keys of this slot and later ones are visited later
	switch {
	case !k.servers.clustered():
		p.next = position{slot: uint16(got.cursor & slotMask), print: got.print, rest: got.cursor >> slotBits}
	case !p.done && at.whole:
		p.next = position{slot: at.slot, whole: true, print: got.print, rest: got.cursor}
	case at.whole:
		if next := k.nextServer(at.slot); next < hashslot.Count && !k.tagged {
			p.next, p.done = position{slot: next, whole: true}, false
		}
	default:
		to := uint16(got.cursor & slotMask)
		if p.done {
			to = hashslot.Count - 1
		} else if to < at.slot {
			return page{}, &buckets.Unavailable{Reason: fmt.Sprintf("%s: SCAN went back from slot %d to %d", n.addr, at.slot, to)}
		}
		p.next = position{slot: to, print: got.print, rest: got.cursor >> slotBits}
		if k.tagged {
			p.done = p.done || to > k.slot
		} else if end = k.nextOther(n, at.slot, to); end < hashslot.Count {
			p.next, p.done = position{slot: end}, false
		}
	}
	if !p.done && p.next.rest > maxRest {
		return page{}, &buckets.Unavailable{Reason: fmt.Sprintf("%s: the cursor %d of SCAN is too large", n.addr, got.cursor)}
	}
	p.keys = k.own(got.keys, end)
	return p, nil
}

// own returns the keys that have the prefix and a slot before end, without the prefix.
func (k *keySpace) own(keys []string, end uint16) (names []string) {
	for _, key := range keys {
		name, ours := strings.CutPrefix(key, k.prefix)
		if ours && (end == hashslot.Count || hashslot.Of([]byte(key)) < end) {
			names = append(names, name)
		}
	}
	return names
}

// nextOther returns the first slot after from, and not after to, that is at another server than n, or hashslot.Count.
func (k *keySpace) nextOther(n *node, from, to uint16) uint16 {
	for slot := from + 1; slot <= to; slot++ {
		if k.servers.node(slot) != n {
			return slot
		}
	}
	return hashslot.Count
}

// nextServer returns the first slot after a slot whose server has no slot up to there, or hashslot.Count.
func (k *keySpace) nextServer(slot uint16) uint16 {
	before := make(map[*node]struct{})
	for i := range uint16(hashslot.Count) {
		n := k.servers.node(i)
		if _, visited := before[n]; i > slot && !visited {
			return i
		}
		before[n] = struct{}{}
	}
	return hashslot.Count
}

// fault returns the error of a walk for an error of a command.
func (k *keySpace) fault(ctx context.Context, n *node, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	var timeout net.Error
	if _, set := ctx.Deadline(); set && errors.As(err, &timeout) && timeout.Timeout() {
		// The deadline of the connection may be that of ctx, which is then about to end.
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(5 * time.Millisecond):
		}
	}
	k.servers.refresh() // the server may have gone, or have become a replica
	return &buckets.Unavailable{Reason: n.addr + ": " + err.Error()}
}

// getBatch is how many values are in memory at a time.
const getBatch = 64

// visit calls visit for those keys of a page that live at now, until it returns false.
func (k *keySpace) visit(ctx context.Context, now int64, p page, visit func(key string, kind buckets.Kind) (more bool)) error {
	for keys := p.keys; len(keys) > 0; {
		some := keys[:min(getBatch, len(keys))]
		keys = keys[len(some):]
		values, err := k.get(ctx, p.node, some)
		if err != nil {
			return err
		}
		for i, key := range some {
			kind, err := k.kind(ctx, now, p.node, key, values[i])
			if err != nil {
				return err
			}
			if kind != buckets.None && !visit(key, kind) {
				return nil
			}
		}
	}
	return nil
}

// get asks a server for the values of keys. A reply may be an error that is about its key alone.
func (k *keySpace) get(ctx context.Context, n *node, keys []string) (values []*redis.StringCmd, err error) {
	inner, cancel := context.WithTimeout(ctx, commandTime)
	defer cancel()
	pipe := n.client.Pipeline()
	for _, key := range keys {
		values = append(values, pipe.Get(inner, k.prefix+key))
	}
	_, _ = pipe.Exec(inner) // the errors are those of the commands
	for _, value := range values {
		if err := value.Err(); err != nil && !aboutKey(err) {
			return nil, k.fault(ctx, n, err)
		}
	}
	return values, nil
}

// aboutKey reports whether an error of a command on one key says something about the key: it does not exist, it is of another type, or
// it is elsewhere.
func aboutKey(err error) bool {
	return errors.Is(err, redis.Nil) || redis.HasErrorPrefix(err, "WRONGTYPE") || isElsewhere(err)
}

// isElsewhere reports whether an error says that a key may be at another server.
func isElsewhere(err error) bool {
	_, moved := redis.IsMovedError(err)
	_, ask := redis.IsAskError(err)
	return moved || ask || redis.IsTryAgainError(err)
}

// kind returns what kind of bucket the value of a key is at now; None if it is not one, or has expired.
func (k *keySpace) kind(ctx context.Context, now int64, n *node, key string, value *redis.StringCmd) (buckets.Kind, error) {
	bytes, err := value.Bytes()
	switch {
	case err == nil:
		var r record
		if r.parse(bytes) != nil {
			return buckets.None, nil
		}
		r.load(now + n.shift())
		return r.state.Kind, nil
	case !isElsewhere(err):
		return buckets.None, nil
	}
	k.servers.refresh()
	ops := []buckets.Op{{Code: buckets.OpStat, Key: []byte(key)}}
	k.apply(ctx, now, ops)
	if err := ops[0].Err; err != nil && !errors.Is(err, buckets.ErrForeignValue) {
		return buckets.None, err
	}
	return ops[0].Contents.Kind, nil
}
