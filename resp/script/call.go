package script

import (
	"fmt"
	"math"
	"strconv"

	"cellserver/buckets"
	"cellserver/resp/counter"
	"cellserver/resp/frame"
)

// call is one run of a known script: the redis.call that it makes, Lua's operators as far as they can fail, and its reply.
//
// The first error ends the script. As in package bufio it sticks: the calls that follow do nothing, and what they return
// has no meaning, so a script need not look for it. What was written before the error stays.
type call struct {
	now    int64 // the time of the store, in nanoseconds of Unix time: it stands still while a script runs
	states []buckets.State
	places [maxKeys]int8 // where the state of each key is; -1 for a key that was not named
	args   [][]byte

	readOnly bool   // commands that write are refused
	refusal  string // the error of commands that write, if the disk refuses them

	line    int    // of the text of the script that runs
	fault   string // the error that ended the script
	plain   bool   // the script has returned the error itself, so it does not say where
	changed uint8  // the states that were changed, a bit for each

	reply  [maxReply]value
	n      int  // how many of reply there are
	single bool // the reply is reply[0], and no array

	room []byte // the bytes of values; what is appended never moves what is used
}

const (
	maxKeys  = 2 // the most keys that a known script uses
	maxReply = 4 // the most elements of a reply
)

// The texts of errors, in Redis's words.
const (
	// ErrArguments is the error of a call with a key or an argument that the client has not given.
	ErrArguments = "ERR Lua redis lib command arguments must be strings or integers"
	// ErrReadOnly is the error of EVAL_RO and EVALSHA_RO for a command that writes.
	ErrReadOnly    = "ERR Write commands are not allowed from read-only scripts."
	errWrongType   = "WRONGTYPE Operation against a key holding the wrong kind of value"
	errNoKey       = "ERR no such key"
	errExpire      = "ERR invalid expire time in '%s' command"
	errNotInteger  = string(counter.ErrNotInteger)
	errWrongValue  = string(counter.ErrValue)
	errorPlace     = " script: %s, on @user_script:%d."
	errorInLua     = "ERR user_script:%d: %s"
	luaArithmetic  = "attempt to perform arithmetic on %s (a %s value)"
	luaArithmetic0 = "attempt to perform arithmetic on a %s value"
	luaCompare     = "attempt to compare %s with %s"
	luaCompareSame = "attempt to compare two %s values"
)

const millisecond = int64(1e6)

var okText = []byte("OK")

// at says which line of the text runs.
func (c *call) at(line int) *call {
	if c.fault == "" {
		c.line = line
	}
	return c
}

// fail ends the script with an error, unless it has ended.
func (c *call) fail(text string) {
	if c.fault == "" {
		c.fault = text
	}
}

// raise ends the script with an error of Lua.
func (c *call) raise(format string, a ...any) {
	if c.fault == "" {
		c.fault = fmt.Sprintf(errorInLua, c.line, fmt.Sprintf(format, a...))
	}
}

// failed reports whether the script has ended with an error.
func (c *call) failed() bool { return c.fault != "" }

// arg is ARGV[n].
func (c *call) arg(n int) value {
	if n > len(c.args) {
		return luaNil
	}
	return text(c.args[n-1])
}

// What a script returns.

func (c *call) returns(v value) { c.reply[0], c.n, c.single = v, 1, true }
func (c *call) returnsArray(v ...value) {
	c.n, c.single = copy(c.reply[:], v), false
}

// returnsError is return redis.error_reply(...).
func (c *call) returnsError(text string) {
	c.plain = !c.failed()
	c.fail(text)
}

// Lua's operators.

// operand is v as an operand of arithmetic. name says what an error calls it; "" if it has no name.
func (c *call) operand(v value, name string) float64 {
	n := v.toNumber()
	if n.kind == isNumber {
		return n.number
	}
	if name == "" {
		c.raise(luaArithmetic0, v.typeName())
	} else {
		c.raise(luaArithmetic, name, v.typeName())
	}
	return 0
}

// less is a < b.
func (c *call) less(a, b value) bool { return c.comparable(a, b) && a.number < b.number }

// lessEqual is a <= b.
func (c *call) lessEqual(a, b value) bool { return c.comparable(a, b) && a.number <= b.number }

// comparable raises an error unless a and b are numbers. The known scripts compare no strings by order.
func (c *call) comparable(a, b value) bool {
	if a.kind == isNumber && b.kind == isNumber {
		return true
	}
	if s, t := a.typeName(), b.typeName(); s == t {
		c.raise(luaCompareSame, s)
	} else {
		c.raise(luaCompare, s, t)
	}
	return false
}

// tostring is Lua's tostring of a number.
func (c *call) tostring(f float64) value {
	from := len(c.room)
	c.room = appendNumber(c.room, f, 14)
	return text(c.room[from:])
}

// The commands of Redis.

// begin checks what Redis checks before it runs a command, and returns the state of KEYS[key], or nil if an error has ended the
// script.
func (c *call) begin(writes bool, key int, args ...value) *buckets.State {
	place := c.places[key-1]
	if c.failed() {
		return nil
	}
	for i := range args {
		if k := args[i].kind; k != isText && k != isNumber {
			place = -1
		}
	}
	switch {
	case place < 0:
		c.fail(ErrArguments)
	case writes && c.readOnly:
		c.fail(ErrReadOnly)
	case writes && c.refusal != "":
		c.fail(c.refusal)
	default:
		return &c.states[place]
	}
	return nil
}

// wrote notes that a state was changed.
func (c *call) wrote(st *buckets.State) {
	for i := range c.states {
		if st == &c.states[i] {
			c.changed |= 1 << i
		}
	}
}

// integer reads an integer for a command.
func (c *call) integer(v value) (n int64, ok bool) {
	if n, ok = v.integer(); !ok {
		c.fail(errNotInteger)
	}
	return n, ok
}

// get is GET: false if there is no such key.
func (c *call) get(key int) value {
	st := c.begin(false, key)
	switch {
	case st == nil:
		return luaNil
	case st.Kind == buckets.None:
		return luaFalse
	case !counter.HoldsString(st):
		c.fail(errWrongType)
		return luaNil
	}
	from := len(c.room)
	c.room = st.AppendValue(c.room)
	return text(c.room[from:])
}

// exists is EXISTS of one key.
func (c *call) exists(key int) value {
	st := c.begin(false, key)
	if st == nil || st.Kind == buckets.None {
		return num(0)
	}
	return num(1)
}

// pttl is PTTL: -2 if there is no such key, -1 if it never expires.
func (c *call) pttl(key int) value {
	st := c.begin(false, key)
	switch {
	case st == nil:
		return num(0)
	case st.Kind == buckets.None:
		return num(-2)
	case st.FullAt() == buckets.NoExpiry:
		return num(-1)
	}
	return integer(buckets.CeilDiv(st.FullAt()-c.now, millisecond))
}

// incr is INCR.
func (c *call) incr(key int) value { return c.add(c.begin(true, key), 1) }

// incrBy is INCRBY.
func (c *call) incrBy(key int, by value) value {
	st := c.begin(true, key, by)
	if st == nil {
		return num(0)
	}
	n, ok := c.integer(by)
	if !ok {
		return num(0)
	}
	return c.add(st, n)
}

func (c *call) add(st *buckets.State, n int64) value {
	if st == nil {
		return num(0)
	}
	sum, err := counter.Add(st, n)
	switch {
	case err == buckets.ErrWrongKind:
		c.fail(errWrongType)
	case err == counter.ErrNotInteger: // a number with a fraction, which only a script has left
		c.fail(errWrongValue)
	case err != nil:
		c.fail(err.Error())
	default:
		c.wrote(st)
	}
	return integer(sum)
}

// setOption is the options of SET that the known scripts have.
type setOption uint8

const (
	exSeconds  setOption = iota // EX
	exSecondsX                  // EX and NX
	pxMillis                    // PX
	pxMillisX                   // PX and NX
)

// set is SET. It returns a status, or false if NX forbids it.
func (c *call) set(key int, v value, option setOption, expiry value) value {
	st := c.begin(true, key, v, expiry)
	if st == nil {
		return luaNil
	}
	unit := int64(1000)
	if option >= pxMillis {
		unit = 1
	}
	at, ok := c.expiryOf(expiry, unit, "set")
	if !ok {
		return luaNil
	}
	return c.assign(st, v, at, option == exSecondsX || option == pxMillisX)
}

// setEx is SETEX.
func (c *call) setEx(key int, seconds, v value) value {
	st := c.begin(true, key, seconds, v)
	if st == nil {
		return luaNil
	}
	at, ok := c.expiryOf(seconds, 1000, "setex")
	if !ok {
		return luaNil
	}
	return c.assign(st, v, at, false)
}

// assign makes st hold v until a time. ifFree is NX.
func (c *call) assign(st *buckets.State, v value, at int64, ifFree bool) value {
	next := buckets.CountedFloat(v.number, at)
	if v.kind == isText {
		n, ok := frame.ParseInt(v.text)
		if !ok {
			c.fail(errWrongValue)
			return luaNil
		}
		next = buckets.Counted(n, at)
	}
	switch {
	case ifFree && st.Kind != buckets.None:
		return luaFalse
	case !counter.HoldsString(st):
		c.fail(errWrongType)
		return luaNil
	}
	*st = next
	c.wrote(st)
	return value{kind: isStatus, text: okText}
}

// expiryOf returns the time that an expiry in units of unit milliseconds means, which must be later than now.
func (c *call) expiryOf(v value, unit int64, command string) (at int64, ok bool) {
	n, ok := c.integer(v)
	switch {
	case !ok:
		return 0, false
	case n <= 0 || n > math.MaxInt64/unit || n*unit > math.MaxInt64-c.now/millisecond:
		c.fail(fmt.Sprintf(errExpire, command))
		return 0, false
	}
	return c.after(n * unit), true
}

// after returns the time some milliseconds from now. Milliseconds go further than the nanoseconds of a state: what is later than
// the latest time becomes that.
func (c *call) after(ms int64) int64 {
	if ms <= (buckets.NoExpiry-1-c.now)/millisecond {
		return c.now + ms*millisecond
	}
	return buckets.NoExpiry - 1
}

// expire is EXPIRE, pexpire is PEXPIRE.
func (c *call) expire(key int, seconds value) value {
	return c.expireAfter(key, seconds, 1000, "expire")
}
func (c *call) pexpire(key int, ms value) value { return c.expireAfter(key, ms, 1, "pexpire") }

func (c *call) expireAfter(key int, v value, unit int64, command string) value {
	st := c.begin(true, key, v)
	if st == nil {
		return num(0)
	}
	n, ok := c.integer(v)
	switch {
	case !ok:
		return num(0)
	case n > math.MaxInt64/unit || n < math.MinInt64/unit || n*unit > math.MaxInt64-c.now/millisecond:
		c.fail(fmt.Sprintf(errExpire, command))
		return num(0)
	case st.Kind == buckets.None:
		return num(0)
	case !counter.HoldsString(st):
		c.fail(errWrongType)
		return num(0)
	case n <= 0:
		*st = buckets.State{}
	default:
		st.SetExpiry(c.after(n * unit))
	}
	c.wrote(st)
	return num(1)
}

// persist is PERSIST.
func (c *call) persist(key int) value {
	st := c.begin(true, key)
	if st == nil || !st.Kind.KeepsExpiry() || st.Expiry() == buckets.NoExpiry {
		return num(0)
	}
	st.SetExpiry(buckets.NoExpiry)
	c.wrote(st)
	return num(1)
}

// del is DEL of one key.
func (c *call) del(key int) value {
	st := c.begin(true, key)
	if st == nil || st.Kind == buckets.None {
		return num(0)
	}
	*st = buckets.State{}
	c.wrote(st)
	return num(1)
}

// rename is RENAME. A limit's key is not renamed: its deadline is not the script's to know.
func (c *call) rename(from, to int) {
	dst := c.begin(true, to)
	src := c.begin(true, from)
	switch {
	case src == nil || dst == nil:
	case src.Kind == buckets.None:
		c.fail(errNoKey)
	case !counter.HoldsString(src) || !counter.HoldsString(dst):
		c.fail(errWrongType)
	case src != dst:
		*dst, *src = *src, buckets.State{}
		c.wrote(dst)
		c.wrote(src)
	}
}

// time is TIME: the seconds and the microseconds of the time, as texts.
func (c *call) time() (seconds, micros value) {
	decimal := func(n int64) value {
		from := len(c.room)
		c.room = strconv.AppendInt(c.room, n, 10)
		return text(c.room[from:])
	}
	return decimal(c.now / 1e9), decimal(c.now % 1e9 / 1000)
}
