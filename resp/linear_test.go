package resp_test

// These tests check that concurrent commands are linearizable. Clients make short histories over real connections, and porcupine
// searches for an order of the commands in which a sequential model gives the same replies. The clock advances only between the
// phases of a history, while no command runs.

import (
	"bufio"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
	"github.com/stretchr/testify/require"

	"cellserver/buckets"
	"cellserver/buckets/memory"
	"cellserver/cmd/cellserver/options"
	"cellserver/resp"
)

const (
	linearClients = 5
	linearPhases  = 3 // phases of a history
	linearKeys    = 4
)

// modelLog is the log of a sliding window, which gets at most one record a phase. It is comparable.
type modelLog struct {
	n       int
	records [linearPhases]struct{ time, quantity int64 }
	period  int64
}

func (g *modelLog) Len() int         { return g.n }
func (g *modelLog) Time(i int) int64 { return g.records[i].time }
func (g *modelLog) Period() int64    { return g.period }

func (g *modelLog) Before(i int) (sum uint64) {
	for _, r := range g.records[:i] {
		sum += uint64(r.quantity)
	}
	return sum
}

// apply applies an edit.
func (g modelLog) apply(e buckets.LogEdit, now, period int64) (after modelLog) {
	after.period = period
	if e.Clear {
		return after
	}
	after.n = copy(after.records[:], g.records[e.Drop:g.n])
	for back := e.Back; back > 0; {
		newest := &after.records[after.n-1]
		taken := min(back, newest.quantity)
		back -= taken
		if newest.quantity -= taken; newest.quantity == 0 {
			newest.time = 0
			after.n--
		}
	}
	if e.Add > 0 {
		if e.Grows {
			after.n++
		}
		newest := &after.records[after.n-1]
		newest.time = now
		newest.quantity += e.Add
	}
	return after
}

// modelBucket is the state of one key. The zero value means that the key does not exist.
type modelBucket struct {
	kind     buckets.Kind
	tat      int64
	window   buckets.WindowState
	log      modelLog
	deadline int64

	value, until int64 // of a counter, which never expires if until is buckets.NoExpiry
}

func (b *modelBucket) full() int64 {
	switch {
	case b.kind == buckets.Counter:
		return b.until
	case b.kind == buckets.Throttle:
		return b.tat
	case b.kind == buckets.Window:
		return b.window.End
	case b.log.n > 0:
		return b.log.records[b.log.n-1].time + b.log.period
	}
	return 0
}

func (b *modelBucket) expiry() int64 {
	if b.deadline != 0 {
		return min(b.full(), b.deadline)
	}
	return b.full()
}

// modelWorld is the state that the clients of a history share.
type modelWorld [linearKeys]modelBucket

// at returns the bucket of a key, and removes it if it has expired.
func (w *modelWorld) at(key int, now int64) *modelBucket {
	b := &w[key]
	if b.kind != buckets.None && b.expiry() <= now {
		*b = modelBucket{}
	}
	return b
}

// linearAsk is one limit in a command.
type linearAsk struct {
	key      int
	kind     buckets.Kind
	limit    buckets.Limit
	period   int64
	quantity int64
	words    []string // the parameters and the quantity
}

func (a *linearAsk) peek(b *modelBucket, now int64) (d buckets.Decision) {
	switch a.kind {
	case buckets.Throttle:
		a.limit.PeekThrottle(b.tat, now, a.quantity, &d)
	case buckets.Window:
		a.limit.PeekWindow(b.window, now, a.quantity, &d)
	default:
		a.limit.PeekSlide(&b.log, now, a.quantity, &d)
	}
	return d
}

func (a *linearAsk) take(b *modelBucket, now int64) (d buckets.Decision) {
	next := *b
	next.kind = a.kind
	var stored bool
	switch a.kind {
	case buckets.Throttle:
		next.tat = a.limit.TakeThrottle(b.tat, now, a.quantity, &d)
		stored = !d.Limited && a.quantity != 0
	case buckets.Window:
		a.limit.TakeWindow(&next.window, now, a.quantity, &d)
		stored = next.window != b.window
	default:
		var edit buckets.LogEdit
		a.limit.TakeSlide(&b.log, now, a.quantity, &edit, &d)
		if stored = edit.Stored; stored {
			next.log = b.log.apply(edit, now, a.period)
		}
	}
	if stored || next.deadline >= next.full() {
		next.deadline = 0
	}
	if next.full() <= now {
		next = modelBucket{}
	}
	*b = next
	return d
}

// linearCommand is one command.
type linearCommand struct {
	name     string
	asks     []linearAsk // the limits of a limit command
	peek, ms bool
	keys     []int // the keys of another command
	seconds  int64
	value    int64
}

// countsOnly lists the commands on counters.
var countsOnly = []string{"INCRBY", "SET", "GETDEL", "MSET", "MGET", "INCREX"}

var linearNames = map[buckets.Kind]string{buckets.Throttle: "THROTTLE", buckets.Window: "WINDOW", buckets.Slide: "ZSLIDE"}

// words returns the words of the command, with the keys of a given history.
func (c *linearCommand) words(prefix string) []string {
	name := func(key int) string { return prefix + string(rune('a'+key)) }
	words := []string{c.name}
	for _, a := range c.asks {
		if c.name == "CL.ALL" {
			words = append(words, linearNames[a.kind])
		}
		words = append(append(words, name(a.key)), a.words...)
	}
	if c.peek {
		words = append(words, "PEEK")
	}
	if c.ms {
		words = append(words, "MS")
	}
	for _, key := range c.keys {
		words = append(words, name(key))
	}
	value := strconv.FormatInt(c.value, 10)
	switch c.name {
	case "EXPIRE":
		words = append(words, strconv.FormatInt(c.seconds, 10))
	case "INCRBY":
		words = append(words, value)
	case "SET":
		words = append(words, value, "GET", "EX", "3")
	case "INCREX":
		words = append(words, "BYINT", value, "UBOUND", "9", "EX", "3", "ENX")
	case "MSET":
		words = []string{c.name}
		for _, key := range c.keys {
			words = append(words, name(key), value)
		}
	}
	return words
}

const wrongType = "-WRONGTYPE Operation against a key holding the wrong kind of value\r\n"

// do applies the command to the state and returns the reply.
func (c *linearCommand) do(w *modelWorld, now int64) string {
	unit := int64(time.Second)
	if c.ms {
		unit = int64(time.Millisecond)
	}
	write := func(d buckets.Decision) string {
		limited, retry := 0, int64(-1)
		if d.Limited {
			limited = 1
		}
		if d.RetryAfter != buckets.Never {
			retry = buckets.CeilDiv(d.RetryAfter, unit)
		}
		return fmt.Sprintf("*5\r\n:%d\r\n:%d\r\n:%d\r\n:%d\r\n:%d\r\n", limited, d.Limit, d.Remaining, retry,
			buckets.CeilDiv(d.ResetAfter, unit))
	}
	for _, a := range c.asks {
		if b := w.at(a.key, now); b.kind != buckets.None && b.kind != a.kind {
			return wrongType
		}
	}
	n := 0
	switch c.name {
	case "INCRBY", "SET", "GETDEL", "MSET", "MGET", "INCREX":
		return c.count(w, now)
	case "CL.ALL":
		var answers []buckets.Decision
		which := 0
		for i, a := range c.asks {
			d := a.peek(&w[a.key], now)
			answers = append(answers, d)
			if !d.Limited {
				continue
			}
			if which == 0 || answers[which-1].RetryAfter != buckets.Never &&
				(d.RetryAfter == buckets.Never || d.RetryAfter > answers[which-1].RetryAfter) {
				which = i + 1
			}
		}
		if which == 0 && !c.peek {
			for i, a := range c.asks {
				answers[i] = a.take(&w[a.key], now)
			}
		}
		for _, a := range c.asks { // a refusal lowers the state as a PEEK does
			if a.quantity = 0; which > 0 && !c.peek && a.kind == buckets.Throttle {
				a.take(&w[a.key], now)
			}
		}
		reply := fmt.Sprintf("*%d\r\n:%d\r\n:%d\r\n", 2+len(answers), min(which, 1), which)
		for _, d := range answers {
			reply += write(d)
		}
		return reply
	case "DEL", "EXISTS":
		for _, key := range c.keys {
			b := w.at(key, now)
			if b.kind != buckets.None {
				n++
			}
			if c.name == "DEL" {
				*b = modelBucket{}
			}
		}
	case "EXPIRE":
		b := w.at(c.keys[0], now)
		if b.kind == buckets.None {
			break
		}
		n = 1
		switch at := now + c.seconds*int64(time.Second); {
		case at <= now:
			*b = modelBucket{}
		case b.kind == buckets.Counter:
			b.until = at
		case at >= b.full():
			b.deadline = 0
		default:
			b.deadline = at
		}
	case "PTTL":
		n = -2
		if b := w.at(c.keys[0], now); b.kind == buckets.Counter && b.until == buckets.NoExpiry {
			n = -1
		} else if b.kind != buckets.None {
			n = int(buckets.CeilDiv(b.expiry()-now, int64(time.Millisecond)))
		}
	case "RENAME":
		from := *w.at(c.keys[0], now)
		if from.kind == buckets.None {
			return "-ERR no such key\r\n"
		}
		w[c.keys[0]] = modelBucket{}
		w[c.keys[1]] = from
		return "+OK\r\n"
	default:
		a := &c.asks[0]
		if c.peek {
			return write(a.peek(&w[a.key], now))
		}
		return write(a.take(&w[a.key], now))
	}
	return fmt.Sprintf(":%d\r\n", n)
}

// count applies a command on counters to the state and returns the reply.
func (c *linearCommand) count(w *modelWorld, now int64) string {
	bulk := func(b *modelBucket) string {
		if b.kind != buckets.Counter {
			return "$-1\r\n"
		}
		text := strconv.FormatInt(b.value, 10)
		return fmt.Sprintf("$%d\r\n%s\r\n", len(text), text)
	}
	b, reply := w.at(c.keys[0], now), ""
	if c.name == "MGET" {
		for _, key := range c.keys {
			reply += bulk(w.at(key, now))
		}
		return fmt.Sprintf("*%d\r\n", len(c.keys)) + reply
	}
	for _, key := range c.keys {
		if kind := w.at(key, now).kind; kind != buckets.None && kind != buckets.Counter {
			return wrongType
		}
	}
	soon := now + 3*int64(time.Second)
	switch c.name {
	case "GETDEL":
		reply = bulk(b)
		*b = modelBucket{}
	case "SET":
		reply = bulk(b)
		*b = modelBucket{kind: buckets.Counter, value: c.value, until: soon}
	case "MSET":
		reply = "+OK\r\n"
		for _, key := range c.keys {
			w[key] = modelBucket{kind: buckets.Counter, value: c.value, until: buckets.NoExpiry}
		}
	case "INCRBY":
		if b.kind == buckets.None {
			*b = modelBucket{kind: buckets.Counter, until: buckets.NoExpiry}
		}
		b.value += c.value
		reply = fmt.Sprintf(":%d\r\n", b.value)
	case "INCREX":
		if b.value+c.value > 9 {
			return fmt.Sprintf("*2\r\n:%d\r\n:0\r\n", b.value)
		}
		if b.kind == buckets.None || b.until == buckets.NoExpiry {
			b.until = soon
		}
		b.kind = buckets.Counter
		b.value += c.value
		reply = fmt.Sprintf("*2\r\n:%d\r\n:%d\r\n", b.value, c.value)
	}
	return reply
}

// linearInput is one request of a client: a command, or commands between MULTI and EXEC or DISCARD.
type linearInput struct {
	now      int64
	commands []linearCommand
	end      string // EXEC or DISCARD, or "" for a single command
}

func (in *linearInput) do(w *modelWorld) string {
	if in.end == "" {
		return in.commands[0].do(w, in.now)
	}
	reply := "+OK\r\n" + strings.Repeat("+QUEUED\r\n", len(in.commands))
	if in.end == "DISCARD" {
		return reply + "+OK\r\n"
	}
	reply += fmt.Sprintf("*%d\r\n", len(in.commands))
	for i := range in.commands {
		reply += in.commands[i].do(w, in.now)
	}
	return reply
}

// lines returns the commands of the request.
func (in *linearInput) lines(prefix string) (lines [][]string) {
	for i := range in.commands {
		lines = append(lines, in.commands[i].words(prefix))
	}
	if in.end != "" {
		lines = append(append([][]string{{"MULTI"}}, lines...), []string{in.end})
	}
	return lines
}

var linearModel = porcupine.Model{
	Init: func() any { return modelWorld{} },
	Step: func(state, input, output any) (bool, any) {
		w := state.(modelWorld)
		reply := input.(*linearInput).do(&w)
		return reply == output.(string), w
	},
}

const replyAdmitted, replyRefused = "*5\r\n:0\r\n", "*5\r\n:1\r\n" // how the replies to limit commands begin

// verdictModel is linearModel without what a refusal tells beside the verdict.
var verdictModel = porcupine.Model{
	Init: linearModel.Init,
	Step: func(state, input, output any) (bool, any) {
		w := state.(modelWorld)
		reply, got := input.(*linearInput).do(&w), output.(string)
		return reply == got || strings.HasPrefix(reply, replyRefused) && strings.HasPrefix(got, replyRefused), w
	},
}

// linearAsker draws the requests of a client: of all kinds, or nearly always CL.ALL over several limits, which then are always
// nearly exhausted.
type linearAsker struct {
	*rand.Rand
	all bool
	linearLimits
}

// linearLimits are what a store cannot do.
type linearLimits struct {
	// apart: only EXEC reads or deletes several keys at once.
	apart bool
	// takes: a refusal may tell of a state that has been left behind, which is true of takes of one limit alone.
	takes bool
}

func (r linearAsker) one(of ...int64) int64 { return of[r.IntN(len(of))] }

// ask draws a limit for a key, mostly the limit of that key. The last key has limits of any kind.
func (r linearAsker) ask(key int) linearAsk {
	kinds := []buckets.Kind{buckets.Throttle, buckets.Window, buckets.Slide}
	a := linearAsk{key: key, quantity: r.one(1, 1, 1, 1, 2, 2, 3, 0, -1, -2, 7)}
	switch {
	case r.all:
		a.kind, a.quantity = kinds[key%len(kinds)], r.one(1, 1, 2, 3)
	case key < len(kinds) && r.IntN(12) > 0:
		a.kind = kinds[key]
	default:
		a.kind = kinds[r.IntN(len(kinds))]
	}
	most := r.one(5, 5, 5, 5, 3)
	seconds := r.one(10, 10, 10, 10, 10, 10, 10, 10, 10, 4)
	a.period = seconds * int64(time.Second)
	var err error
	switch a.kind {
	case buckets.Throttle:
		a.words = []string{fmt.Sprint(most - 1), "2", fmt.Sprint(seconds)}
		a.limit, err = buckets.NewThrottle(most-1, 2, a.period)
	case buckets.Window:
		a.words = []string{fmt.Sprint(most), fmt.Sprint(seconds)}
		a.limit, err = buckets.NewWindow(most, a.period)
	case buckets.Slide:
		a.words = []string{fmt.Sprint(most), fmt.Sprint(seconds)}
		a.limit, err = buckets.NewSlide(most, a.period)
	}
	if err != nil {
		panic(err)
	}
	a.words = append(a.words, fmt.Sprint(a.quantity))
	return a
}

func (r linearAsker) command() linearCommand {
	c := linearCommand{ms: r.IntN(4) == 0, peek: r.IntN(8) == 0}
	n := r.IntN(28)
	if r.all {
		n, c.peek = min(8+r.IntN(10), 15), false // CL.ALL or DEL
	}
	switch {
	case n < 8:
		a := r.ask(r.IntN(linearKeys))
		c.name, c.asks = "CL."+linearNames[a.kind], []linearAsk{a}
	case n < 15:
		c.name = "CL.ALL"
		for _, key := range r.Perm(linearKeys)[:2+r.IntN(linearKeys-1)] {
			c.asks = append(c.asks, r.ask(key))
		}
	case n >= 20:
		keys := append([]int{linearKeys - 1}, r.Perm(linearKeys-1)...) // the last key is most often a counter
		if r.IntN(8) == 0 {
			keys = keys[1:]
		}
		c = linearCommand{name: countsOnly[r.IntN(len(countsOnly))], keys: keys[:1], value: r.one(1, 1, 2, -1, 5)}
		if c.name == "MGET" || c.name == "MSET" && r.IntN(4) == 0 {
			c.keys = keys[:2]
		}
	default:
		keys := r.Perm(linearKeys)
		c = linearCommand{
			name: []string{"DEL", "EXISTS", "EXPIRE", "PTTL", "RENAME"}[n-15],
			keys: keys[:1],
			// EXPIRE deletes the key, shortens its life, or changes nothing.
			seconds: r.one(-1, 3, 1e9),
		}
		switch c.name {
		case "DEL", "EXISTS":
			c.keys = keys[:1+r.IntN(2)]
		case "RENAME":
			c.keys = keys[:2]
		}
	}
	return c
}

// take draws a request for the one limit of a key.
func (r linearAsker) take() linearCommand {
	a := linearAsk{key: r.IntN(3), quantity: r.one(1, 1, 1, 2, 2, 3, 7), period: 10 * int64(time.Second)}
	var err error
	switch a.key {
	case 0:
		a.kind, a.words = buckets.Throttle, []string{"4", "2", "10"}
		a.limit, err = buckets.NewThrottle(4, 2, a.period)
	case 1:
		a.kind, a.words = buckets.Window, []string{"5", "10"}
		a.limit, err = buckets.NewWindow(5, a.period)
	default:
		a.kind, a.words = buckets.Slide, []string{"5", "10"}
		a.limit, err = buckets.NewSlide(5, a.period)
	}
	if err != nil {
		panic(err)
	}
	a.words = append(a.words, fmt.Sprint(a.quantity))
	return linearCommand{name: "CL." + linearNames[a.kind], asks: []linearAsk{a}}
}

func (r linearAsker) input(now int64) *linearInput {
	in := &linearInput{now: now}
	if r.takes {
		in.commands = []linearCommand{r.take()}
		return in
	}
	n := 1
	switch k := r.IntN(12); {
	case r.all:
	case k < 4:
		in.end = "EXEC"
		n = 2 + r.IntN(3)
	case k == 4:
		in.end = "DISCARD"
	}
	for range n {
		c := r.command()
		if r.apart && in.end == "" && (c.name == "DEL" || c.name == "EXISTS" || c.name == "MGET") {
			c.keys = c.keys[:1]
		}
		in.commands = append(in.commands, c)
	}
	return in
}

// conversation sends commands and returns their replies.
type conversation func(sent []byte, replies int) (string, error)

// overStream returns a conversation over a connection.
func overStream(c net.Conn) conversation {
	r := bufio.NewReader(c)
	return func(sent []byte, replies int) (string, error) {
		if _, err := c.Write(sent); err != nil {
			return "", err
		}
		return readReplies(r, replies)
	}
}

// readReplies reads n replies and returns their bytes. It knows RESP2 and those types of RESP3 that have no other strings.
func readReplies(r *bufio.Reader, n int) (string, error) {
	var all []byte
	for ; n > 0; n-- {
		line, err := r.ReadBytes('\n')
		all = append(all, line...)
		if err != nil {
			return string(all), err
		}
		if !strings.ContainsRune("*%$", rune(line[0])) {
			continue
		}
		length, err := strconv.Atoi(strings.TrimSpace(string(line[1:])))
		switch {
		case err != nil:
			return string(all), err
		case length < 0: // a null
		case line[0] == '*':
			n += length
		case line[0] == '%':
			n += 2 * length
		default:
			text := make([]byte, length+2)
			_, err := io.ReadFull(r, text)
			all = append(all, text...)
			if err != nil {
				return string(all), err
			}
		}
	}
	return string(all), nil
}

// histories makes n histories over the conversations, each with its own keys, and checks them. A client sends asks requests
// in a phase.
func histories(t *testing.T, n, asks int, clock *atomic.Int64, talk []conversation, limits linearLimits) {
	model, varied := linearModel, []string{"admitted", "refused", "wrong kind", "counted"}
	if limits.takes {
		model, varied = verdictModel, varied[:2]
	}
	var order atomic.Int64 // numbers every send and every reply, over all clients
	asked := make(map[string]int)
	for h := range n {
		prefix := fmt.Sprintf("%d:", h)
		history := make([][]porcupine.Operation, len(talk))
		random := rand.New(rand.NewPCG(1, uint64(h)))
		asker := linearAsker{random, h%4 != 0, limits}
		for range linearPhases {
			now := clock.Add([]int64{1, int64(2 * time.Second), int64(7 * time.Second), int64(11 * time.Second)}[random.IntN(4)])
			inputs := make([][]*linearInput, len(talk))
			for i := range talk {
				for range asks {
					inputs[i] = append(inputs[i], asker.input(now))
				}
			}
			begin := make(chan struct{})
			errs := make([]error, len(talk))
			var clients sync.WaitGroup
			for i, ask := range talk {
				clients.Go(func() {
					var frames [][]byte
					for _, in := range inputs[i] {
						var sent []byte
						for _, words := range in.lines(prefix) {
							sent = append(sent, multibulk(words...)...)
						}
						frames = append(frames, sent)
					}
					<-begin
					for j, in := range inputs[i] {
						replies := len(in.commands)
						if in.end != "" {
							replies += 2
						}
						op := porcupine.Operation{ClientId: i, Input: in, Call: order.Add(1)}
						reply, err := ask(frames[j], replies)
						op.Output, op.Return = reply, order.Add(1)
						history[i] = append(history[i], op)
						if err != nil {
							errs[i] = fmt.Errorf("after %q: %w", reply, err)
							return
						}
					}
				})
			}
			close(begin)
			clients.Wait()
			for _, err := range errs {
				require.NoError(t, err)
			}
		}
		all := slices.Concat(history...)
		switch porcupine.CheckOperationsTimeout(model, all, patience) {
		case porcupine.Unknown:
			t.Fatalf("history %d takes too long to check", h)
		case porcupine.Illegal:
			t.Fatalf("history %d could not have been one after the other:\n%s", h, describe(all))
		}
		for _, op := range all {
			tallyReplies(asked, op.Output.(string))
		}
	}
	// The histories are varied enough.
	for _, what := range varied {
		require.Greater(t, asked[what], n, what)
	}
}

func tallyReplies(asked map[string]int, reply string) {
	asked["admitted"] += strings.Count(reply, replyAdmitted)
	asked["refused"] += strings.Count(reply, replyRefused)
	asked["wrong kind"] += strings.Count(reply, wrongType)
	asked["counted"] += strings.Count(reply, "*2\r\n:") + strings.Count(reply, "$1\r\n")
}

// describe formats a history in the order of the requests.
func describe(history []porcupine.Operation) string {
	slices.SortFunc(history, func(a, b porcupine.Operation) int { return int(a.Call - b.Call) })
	var b strings.Builder
	for _, op := range history {
		in := op.Input.(*linearInput)
		fmt.Fprintf(&b, "%d..%d client %d at %d: %v\n        %q\n", op.Call, op.Return, op.ClientId, in.now, in.lines(""), op.Output)
	}
	return b.String()
}

func TestConcurrentHistoriesAreLinearizable(t *testing.T) {
	// newFrozen returns a server whose clock the test advances.
	newFrozen := func(clock *atomic.Int64) *subject {
		clock.Store(1_700_000_123 * int64(time.Second))
		live := options.NewLive(options.Defaults(), func(options.Settings) error { return nil })
		return &subject{log: new(logged), now: clock.Load, Server: resp.NewServer(resp.Config{
			Store: memory.NewStore(16), Now: clock.Load, Log: slog.New(slog.DiscardHandler), Version: "test",
			Options: live, Bounds: live.Settings().Wire,
		})}
	}
	for _, network := range networks {
		t.Run("over "+network.name, func(t *testing.T) {
			var clock atomic.Int64
			dial := network.serve(newFrozen(&clock), t)
			var talk []conversation
			for range linearClients {
				talk = append(talk, overStream(connect(t, dial).Conn))
			}
			histories(t, 40, 3, &clock, talk, linearLimits{})
		})
	}
	// Without a network, clients use the same key at the same time much more often.
	t.Run("at close quarters", func(t *testing.T) {
		var clock atomic.Int64
		s := newFrozen(&clock)
		var talk []conversation
		for range linearClients {
			c := resp.NewTestConn(s.Server, clock.Load())
			talk = append(talk, func(sent []byte, _ int) (string, error) {
				reply := string(c.Feed(clock.Load(), sent))
				if c.Closed() {
					return reply, io.EOF
				}
				return reply, nil
			})
		}
		histories(t, 200, 12, &clock, talk, linearLimits{})
	})
}
