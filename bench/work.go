package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strconv"
	"time"
)

// chore is work that a server does repeatedly during a load.
type chore struct {
	name   string
	counts string // the unit of its amount
	spoils bool   // it changes the set of keys
	// ready, if not nil, runs before the load begins.
	ready func(context.Context, *comparer, *rival, saver) error
	// step does a part of the work and returns how much it did. i is the index of the step, and at the time at which the first
	// one began. If step is nil, the chore only waits.
	step func(ctx context.Context, c *comparer, h *hand, i int64, at time.Time) (int64, error)
	// counter, if not empty, is the field of INFO stats that counts the work instead of step.
	counter string
}

// chores are the same for cellserver and for Redis. The first does nothing: the others are compared with it.
var chores = []chore{
	{name: "idle"},
	{name: "SCAN", counts: "SCAN", step: stepScan},
	{name: "KEYS *", counts: "KEYS", step: stepKeys},
	{name: "CONFIG SET", counts: "CONFIG SET", step: stepConfig},
	{name: "growth", counts: "new keys", spoils: true, step: stepGrowth},
	{name: "expiry", counts: "expired", spoils: true, ready: fillWithDying, counter: "expired_keys"},
	{name: "BGSAVE", counts: "BGSAVE", step: stepSave},
}

// workDone is the result of a chore during a load.
type workDone struct {
	count int64
	took  time.Duration
}

// measureWork measures the latency of a server with many keys during each chore.
func measureWork(ctx context.Context, c *comparer) (err error) {
	most, err := c.saturation(ctx)
	if err != nil {
		return err
	}
	c.found.saturation = most
	all, err := c.start(ctx, false, nil, nameCellserver, nameRedis)
	if err != nil {
		return err
	}
	defer func() { all.close(&err) }()
	filled := map[string]bool{}
	for round := range c.plan.rounds {
		for _, one := range rotated(savers, round, len(savers)) {
			r := all[one.server]
			for _, what := range rotated(chores, round, len(chores)) {
				if !filled[one.server] {
					if err := c.refill(ctx, r, one); err != nil {
						return err
					}
				}
				filled[one.server] = !what.spoils
				c.progress.step("round %d of %d: %s, %s", round+1, c.plan.rounds, one.server, what.name)
				result, done, err := c.work(ctx, r, one, what, most*half/100)
				if err != nil {
					return fmt.Errorf("%s, %s: %w", one.server, what.name, err)
				}
				c.found.addWork(one.server, what.name, result, done)
			}
		}
	}
	return nil
}

// refill brings a server into the state in which every chore begins.
func (c *comparer) refill(ctx context.Context, r *rival, one saver) error {
	if _, err := r.control.do("FLUSHALL"); err != nil {
		return err
	}
	did, err := c.runLoad(ctx, r.s, "filling "+one.server, fillLoad(one.fill, 0, c.plan.held))
	c.fills[one.server] = did.wall / time.Duration(c.plan.held)
	return err
}

// work measures a load during a chore.
func (c *comparer) work(ctx context.Context, r *rival, one saver, what chore, rate float64) (result openResult, done workDone, err error) {
	if what.ready != nil {
		if err := what.ready(ctx, c, r, one); err != nil {
			return result, done, err
		}
	}
	before, err := r.counted(what)
	if err != nil {
		return result, done, err
	}
	h, err := newHand(ctx, r, one)
	if err != nil {
		return result, done, err
	}
	defer h.close()
	result, err = c.beside(ctx, r, c.paced(r, one.take, c.plan.held, rate), func(ctx context.Context) (err error) {
		done, err = c.toil(ctx, h, what)
		return err
	})
	if err != nil || what.counter == "" {
		return result, done, err
	}
	after, err := r.counted(what)
	done.count = after - before
	return result, done, err
}

// counted returns the counter of a chore.
func (r *rival) counted(what chore) (int64, error) {
	if what.counter == "" {
		return 0, nil
	}
	return r.control.number("stats", what.counter)
}

// toil repeats the steps of a chore for the planned time.
func (c *comparer) toil(ctx context.Context, h *hand, what chore) (done workDone, err error) {
	began := time.Now()
	if what.step == nil {
		err := sleep(ctx, c.plan.paced)
		return workDone{0, time.Since(began)}, err
	}
	// Its own thread, as for the probe: timers and the poller of Go's runtime are late during a load that never sleeps.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	setTimerSlack(1)
	defer setTimerSlack(0)
	for i := int64(0); done.took < c.plan.paced; i++ {
		if err := ctx.Err(); err != nil {
			return done, err
		}
		n, err := what.step(ctx, c, h, i, began)
		if err != nil {
			return done, err
		}
		done.count += n
		done.took = time.Since(began)
	}
	return done, nil
}

// scanCount is the COUNT argument of SCAN.
const scanCount = 10_000

func stepScan(_ context.Context, _ *comparer, h *hand, _ int64, _ time.Time) (int64, error) {
	if err := h.send(appendCommand(nil, "SCAN", h.cursor, "COUNT", strconv.Itoa(scanCount))); err != nil {
		return 0, err
	}
	n, err := readHead(h.r, '*')
	if err == nil && n != 2 {
		err = fmt.Errorf("SCAN is answered by %d things", n)
	}
	if err == nil {
		_, err = readReply(h.r, func(b []byte) { h.cursor = string(b) })
	}
	if err == nil {
		_, err = skipTexts(h.r)
	}
	return 1, err
}

func stepKeys(_ context.Context, c *comparer, h *hand, _ int64, _ time.Time) (int64, error) {
	if err := h.send(appendCommand(nil, "KEYS", "*")); err != nil {
		return 0, err
	}
	n, err := skipTexts(h.r)
	if err == nil && n != c.plan.held {
		err = fmt.Errorf("KEYS * has found %d keys of %d", n, c.plan.held)
	}
	return 1, err
}

// harmless are settings that do not affect the measurement. The last value of each name is the one at the start.
var harmless = [][]string{
	{"CONFIG", "SET", "maxmemory", "8gb"},
	{"CONFIG", "SET", "slowlog-log-slower-than", "20000"},
	{"CONFIG", "SET", "maxmemory", "0"},
	{"CONFIG", "SET", "slowlog-log-slower-than", "10000"},
}

func stepConfig(_ context.Context, _ *comparer, h *hand, _ int64, _ time.Time) (int64, error) {
	for _, command := range harmless {
		if err := h.send(appendCommand(nil, command...)); err != nil {
			return 0, err
		}
		if _, err := readReply(h.r, nil); err != nil {
			return 0, err
		}
	}
	return int64(len(harmless)), nil
}

// The rate of growth is bounded: otherwise the measurement would show a saturated server.
const (
	growthRate = 100_000 // keys per second
	growthPipe = 16
)

func stepGrowth(_ context.Context, c *comparer, h *hand, i int64, at time.Time) (int64, error) {
	sleepUntil(at.Add(time.Duration(i) * growthPipe * time.Second / growthRate))
	h.out = h.out[:0]
	for n := range int64(growthPipe) {
		h.out = h.fill.appendTo(h.out, c.plan.held+i*growthPipe+n)
	}
	if err := h.send(h.out); err != nil {
		return 0, err
	}
	for range growthPipe {
		if _, err := readReply(h.r, nil); err != nil {
			return 0, err
		}
	}
	return growthPipe, nil
}

func stepSave(ctx context.Context, c *comparer, h *hand, _ int64, _ time.Time) (int64, error) {
	_, err := snapshot(ctx, h.control, c.plan.patience)
	return 1, err
}

// fillWithDying doubles the number of keys with keys that all expire at one time, and waits until the load must begin to be
// warm at that time. They are half of all keys because Redis continues its search only if it finds many expired keys.
func fillWithDying(ctx context.Context, c *comparer, r *rival, one saver) error {
	warm := c.plan.paced / 10
	for i := range int64(3) {
		// The command is similar to that of the first fill, so half as much time again is enough.
		foreseen := time.Duration((i+3)*c.plan.held/2) * c.fills[one.server]
		deadline := time.Now().Add(300*time.Millisecond + warm + foreseen)
		dying := dyingLoad(one.dying, i*c.plan.held, c.plan.held, deadline)
		if _, err := c.runLoad(ctx, r.s, "filling "+one.server+" with keys that expire", dying); err != nil {
			return err
		}
		if wait := time.Until(deadline) - warm; wait >= 0 {
			return sleep(ctx, wait)
		}
	}
	c.found.note("%s was so slow to be filled that keys had expired before the load beside their expiry began.", one.server)
	return nil
}

// dyingLoad returns a load that creates keys with numbers from first on. They expire at the deadline, or soon if it has
// passed.
func dyingLoad(args []string, first, keys int64, deadline time.Time) *load {
	c := newRandomCommand(append(slices.Clone(args), ""))
	c.raw = bytes.TrimSuffix(c.raw, appendText(nil, "")) // the lifetime of the key follows
	return &load{conns: loadConns, depth: loadDepth, total: keys,
		command: func(b []byte, i int64, _ randSource) []byte {
			left := max(time.Until(deadline).Milliseconds(), 1)
			return appendText(c.appendTo(b, first+i), strconv.FormatInt(left, 10))
		}}
}

// hand does chores over its own connection, with a thread, blocking system calls, and little processor time, which the load
// needs.
type hand struct {
	file    *os.File
	r       *bufio.Reader
	out     []byte
	control *conn
	cursor  string        // the cursor of SCAN
	fill    randomCommand // creates a key
}

func newHand(ctx context.Context, r *rival, one saver) (*hand, error) {
	file, err := dialBlocking(r.addr)
	if err != nil {
		return nil, err
	}
	return &hand{
		file: file, r: bufio.NewReaderSize(&blockingReader{int(file.Fd()), ctx.Done()}, 64<<10),
		control: r.control, cursor: "0", fill: newRandomCommand(one.fill),
	}, nil
}

func (h *hand) close() { _ = h.file.Close() }

func (h *hand) send(b []byte) error { return writeAll(int(h.file.Fd()), b) }

// readHead reads the header of an array or a bulk string, and returns its length.
func readHead(r *bufio.Reader, kind byte) (int64, error) {
	line, err := r.ReadSlice('\n')
	if err != nil {
		return 0, err
	}
	if len(line) > 3 && line[0] == '-' {
		return 0, replyError(line[1 : len(line)-2])
	}
	if len(line) < 4 || line[0] != kind {
		return 0, fmt.Errorf("not %q: %q", kind, line)
	}
	n, err := parseInt(line[1 : len(line)-2])
	if err != nil || n < 0 {
		return 0, fmt.Errorf("not a length: %q", line)
	}
	return n, nil
}

var errOfOtherLengths = errors.New("a reply whose texts are not all of one length")

// skipTexts skips an array of bulk strings that all have the length of the first, and returns their number.
func skipTexts(r *bufio.Reader) (n int64, err error) {
	if n, err = readHead(r, '*'); err != nil || n == 0 {
		return n, err
	}
	length, err := readHead(r, '$')
	if err != nil {
		return 0, err
	}
	head := int64(len("$\r\n") + len(strconv.FormatInt(length, 10)))
	end := int64(len("\r\n"))
	if _, err := r.Discard(int(length + (n-1)*(end+head+length))); err != nil {
		return 0, err
	}
	b, err := r.Peek(int(end))
	if err == nil && string(b) != "\r\n" {
		err = errOfOtherLengths
	}
	if err != nil {
		return 0, err
	}
	_, err = r.Discard(int(end))
	return n, err
}
