package model

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// Conn is a connection to a store.
type Conn struct {
	s       *Store
	resp3   bool
	multi   bool
	dirty   bool // a queued command was refused, so EXEC aborts
	queue   [][]string
	watched map[string]watch
}

// watch is what WATCH has recorded of a key.
type watch struct {
	changes int
	live    bool
}

// Connect returns a new connection.
func (s *Store) Connect() *Conn { return &Conn{s: s, watched: map[string]watch{}} }

// arities has the minimum and the maximum number of words of each command; a maximum of 0 means none.
var arities = map[string][2]int{
	"cl.throttle": {5, 0}, "cl.window": {4, 0}, "cl.zslide": {4, 0}, "cl.all": {6, 0}, "cl.get": {2, 2},
	"del": {2, 0}, "unlink": {2, 0}, "exists": {2, 0}, "touch": {2, 0}, "type": {2, 2}, "ttl": {2, 2}, "pttl": {2, 2},
	"expiretime": {2, 2}, "pexpiretime": {2, 2}, "persist": {2, 2}, "rename": {3, 3}, "renamenx": {3, 3},
	"expire": {3, 0}, "pexpire": {3, 0}, "expireat": {3, 0}, "pexpireat": {3, 0}, "flushall": {1, 0},
	"multi": {1, 1}, "exec": {1, 1}, "discard": {1, 1}, "watch": {2, 0}, "unwatch": {1, 1}, "hello": {2, 2}, "maxlog": {2, 2},
}

// Do returns the reply to a command.
func (c *Conn) Do(words []string) (reply string) {
	name := strings.ToLower(words[0])
	arity, known := arities[name]
	var fault string
	switch {
	case !known:
		panic("the model does not know " + name)
	case len(words) < arity[0] || arity[1] > 0 && len(words) > arity[1]:
		fault = fmt.Sprintf("-ERR wrong number of arguments for '%s' command\r\n", name)
	}
	if fault != "" {
		c.dirty = c.dirty || c.multi
		return fault
	}
	switch name {
	case "multi":
		if c.multi {
			return "-ERR MULTI calls can not be nested\r\n"
		}
		c.multi = true
		return "+OK\r\n"
	case "discard", "exec":
		if !c.multi {
			return fmt.Sprintf("-ERR %s without MULTI\r\n", strings.ToUpper(name))
		}
		defer c.end()
		if name == "discard" {
			return "+OK\r\n"
		}
		return c.exec()
	case "watch":
		if c.multi {
			return "-ERR WATCH inside MULTI is not allowed\r\n"
		}
		for _, key := range words[1:] {
			if _, twice := c.watched[key]; !twice {
				c.watched[key] = watch{c.s.changes[key], c.s.live(key) != nil}
			}
		}
		return "+OK\r\n"
	}
	if c.multi {
		c.queue = append(c.queue, words)
		return "+QUEUED\r\n"
	}
	return c.run(name, words)
}

// Multi reports whether the connection is in a transaction.
func (c *Conn) Multi() bool { return c.multi }

// end ends a transaction.
func (c *Conn) end() {
	c.multi, c.dirty, c.queue = false, false, nil
	clear(c.watched)
}

func (c *Conn) exec() string {
	if c.dirty {
		return "-EXECABORT Transaction discarded because of previous errors.\r\n"
	}
	for key, w := range c.watched {
		if c.s.changes[key] != w.changes || w.live && c.s.live(key) == nil {
			return c.null("*-1\r\n")
		}
	}
	reply := fmt.Sprintf("*%d\r\n", len(c.queue))
	for _, words := range c.queue {
		reply += c.run(strings.ToLower(words[0]), words)
	}
	return reply
}

// null returns the null of RESP3, or old in RESP2.
func (c *Conn) null(old string) string {
	if c.resp3 {
		return "_\r\n"
	}
	return old
}

func ints(n ...number) string {
	reply := ""
	for _, n := range n {
		reply += fmt.Sprintf(":%s\r\n", n)
	}
	return reply
}

func flag(is bool) string {
	if is {
		return ":1\r\n"
	}
	return ":0\r\n"
}

func bulk(text string) string { return fmt.Sprintf("$%d\r\n%s\r\n", len(text), text) }

// run returns the reply to a command that is not about transactions.
func (c *Conn) run(name string, words []string) string {
	s := c.s
	switch name {
	case "cl.throttle", "cl.window", "cl.zslide":
		return s.one(strings.TrimPrefix(name, "cl."), words[1:])
	case "cl.all":
		return s.all(words[1:])
	case "cl.get":
		return c.get(words[1])
	case "del", "unlink", "exists", "touch":
		n := 0
		for _, key := range words[1:] {
			there := s.live(key) != nil
			if name == "del" || name == "unlink" {
				there = s.remove(key)
			}
			if there {
				n++
			}
		}
		return fmt.Sprintf(":%d\r\n", n)
	case "type":
		if b := s.live(words[1]); b != nil {
			return "+" + b.kind + "\r\n"
		}
		return "+none\r\n"
	case "ttl", "pttl", "expiretime", "pexpiretime":
		return s.expiry(name, words[1])
	case "persist":
		b := s.live(words[1])
		if b == nil || b.deadline == nil {
			return ":0\r\n"
		}
		s.put(words[1], b.withDeadline(nil))
		return ":1\r\n"
	case "rename", "renamenx":
		return s.rename(words[1], words[2], name == "renamenx")
	case "expire", "pexpire", "expireat", "pexpireat":
		return s.expire(name, words)
	case "flushall":
		s.flush()
		return "+OK\r\n"
	case "unwatch":
		clear(c.watched)
		return "+OK\r\n"
	case "maxlog": // CONFIG SET zslide-max-log
		s.MaxLog, _ = strconv.ParseInt(words[1], 10, 64)
		return "+OK\r\n"
	case "hello":
		c.resp3 = words[1] == "3"
		return ""
	}
	panic("the model does not know " + name)
}

// five returns the reply of a limit command: five integers.
func (d *decision) five(ms bool) string {
	unit := num(1e9)
	if ms {
		unit = num(1e6)
	}
	limited, retry := num(0), num(-1)
	if d.limited {
		limited = num(1)
	}
	if d.retry != nil {
		retry = ceilDiv(d.retry, unit)
	}
	return "*5\r\n" + ints(limited, d.limit, d.remaining, retry, ceilDiv(d.reset, unit))
}

func (s *Store) logFull() string {
	return fmt.Sprintf("-ERR the log of this key is full (zslide-max-log %d)\r\n", s.MaxLog)
}

// note records the waits of a decision in Retry and Reset.
func (s *Store) note(d *decision) {
	s.Retry, s.Reset = 0, d.reset.Int64()
	if d.retry != nil {
		s.Retry = d.retry.Int64()
	}
}

func (s *Store) one(kind string, words []string) string {
	r, fault := readOne(kind, words, s.MaxKey)
	if fault != "" {
		return fault
	}
	_, outcomes, fault := s.take([]request{r}, r.peek)
	if fault != "" {
		return fault
	}
	d := outcomes[0].decision
	if r.peek {
		d = outcomes[0].standing
	}
	s.note(&d)
	return d.five(r.ms)
}

func (s *Store) all(words []string) string {
	requests, last, fault := readAll(words, s.MaxKey)
	if fault != "" {
		return fault
	}
	which, outcomes, fault := s.take(requests, last.peek)
	if fault != "" {
		return fault
	}
	reply := fmt.Sprintf("*%d\r\n%s:%d\r\n", 2+len(outcomes), flag(which > 0), which)
	for _, o := range outcomes {
		d := o.decision
		if which > 0 || last.peek {
			d = o.standing
		}
		reply += d.five(last.ms)
	}
	s.note(&outcomes[max(0, which-1)].standing)
	return reply
}

// milliseconds returns n nanoseconds in milliseconds, rounded up.
func milliseconds(n number) number { return ceilDiv(n, num(1e6)) }

func (s *Store) expiry(name, key string) string {
	b := s.live(key)
	if b == nil {
		return ":-2\r\n"
	}
	at := b.expires()
	if name == "ttl" || name == "pttl" {
		at = minus(at, s.now())
	}
	at = milliseconds(at)
	if name == "ttl" || name == "expiretime" {
		at = floorDiv(plus(at, num(500)), num(1000))
	}
	return ints(at)
}

func (s *Store) rename(from, to string, ifFree bool) string {
	b := s.live(from)
	switch {
	case len(to) > s.MaxKey:
		return fmt.Sprintf("-ERR key is longer than max-key-bytes (%d)\r\n", s.MaxKey)
	case b == nil:
		return "-ERR no such key\r\n"
	case ifFree && s.live(to) != nil:
		return ":0\r\n"
	}
	if from != to {
		s.put(from, nil)
		s.put(to, b)
	}
	if ifFree {
		return ":1\r\n"
	}
	return "+OK\r\n"
}

func (s *Store) expire(name string, words []string) string {
	when, ok := plainInteger(words[2])
	if !ok {
		return notAnInteger
	}
	unit := num(1e6)
	if name == "expire" || name == "expireat" {
		unit = num(1e9)
	}
	ms := floorDiv(times(when, unit), num(1e6))
	latest := ms
	if name == "expire" || name == "pexpire" {
		latest = plus(ms, floorDiv(s.now(), num(1e6)))
	}
	if less(ms, num(math.MinInt64)) || less(num(math.MaxInt64), ms) || less(num(math.MaxInt64), latest) {
		return fmt.Sprintf("-ERR invalid expire time in '%s' command\r\n", name)
	}
	b := s.live(words[1])
	if b == nil {
		return ":0\r\n"
	}
	at := times(when, unit)
	if name == "expire" || name == "pexpire" {
		at = plus(at, s.now())
	}
	asked, shown := milliseconds(at), milliseconds(b.expires())
	for _, condition := range words[3:] {
		switch strings.ToUpper(condition) {
		case "NX": // every key has an expiry
			return ":0\r\n"
		case "GT":
			if atMost(asked, shown) {
				return ":0\r\n"
			}
		case "LT":
			if atMost(shown, asked) {
				return ":0\r\n"
			}
		}
	}
	if atMost(at, s.now()) {
		s.remove(words[1])
	} else {
		s.put(words[1], b.withDeadline(at))
	}
	return ":1\r\n"
}

// get returns the reply to CL.GET. The model does not know the bytes of a key and replies 0.
func (c *Conn) get(key string) string {
	b := c.s.live(key)
	if b == nil {
		return c.null("$-1\r\n")
	}
	text := describe(b, c.s.now())
	fields := strings.Fields(text)
	reply := fmt.Sprintf("*%d\r\n", len(fields))
	if c.resp3 {
		reply = fmt.Sprintf("%%%d\r\n", len(fields)/2)
	}
	for i, f := range fields {
		switch {
		case i%2 == 0 || i == 1:
			reply += bulk(f)
		case f == "none":
			reply += c.null("$-1\r\n")
		default:
			reply += ":" + f + "\r\n"
		}
	}
	return reply
}

// describe returns the fields of CL.GET for a bucket as words, or "" if the key does not exist.
func describe(b *bucket, now number) string {
	if b == nil {
		return ""
	}
	text := "kind " + b.kind
	switch b.kind {
	case throttle:
		text += fmt.Sprintf(" tat %s", b.tat)
	case window:
		text += fmt.Sprintf(" start %s end %s used %s", b.start, b.end, b.used)
	case zslide:
		log := within(b.log, b.period, now)
		text += fmt.Sprintf(" records %d sum %s oldest %s newest %s", len(log), sum(log), log[0].at, log[len(log)-1].at)
	}
	deadline := "none"
	if b.deadline != nil {
		deadline = b.deadline.String()
	}
	return text + fmt.Sprintf(" expires %s bytes 0 deadline %s", b.expires(), deadline)
}
