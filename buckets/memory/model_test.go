package memory

import (
	"cellserver/buckets"
	"fmt"
	"hash/maphash"
	"math"
	"math/big"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// The model defines the limits as plainly as possible, in integers of arbitrary size. It keeps every request that changed
// a bucket, and computes the state from all of them each time. It defines only whether a quantity fits at some time. It
// finds the numbers and times of a Decision by searching: the most that fits now, the first time at which the request
// fits, and the first time at which the bucket is full.

// horizon is the latest time that a clock may show. It is half of the range of int64, so that adding a period does not
// overflow.
const horizon = int64(1) << 62

func bigInt(n int64) *big.Int          { return big.NewInt(n) }
func plus(a, b *big.Int) *big.Int      { return new(big.Int).Add(a, b) }
func minus(a, b *big.Int) *big.Int     { return new(big.Int).Sub(a, b) }
func times(a, b *big.Int) *big.Int     { return new(big.Int).Mul(a, b) }
func less(a, b *big.Int) bool          { return a.Cmp(b) < 0 }
func smaller(a, b *big.Int) *big.Int   { return pick(less(a, b), a, b) }
func notBelow0(a *big.Int) *big.Int    { return pick(a.Sign() < 0, new(big.Int), a) }
func within(a, from, to *big.Int) bool { return !less(a, from) && less(a, to) }

func pick(yes bool, a, b *big.Int) *big.Int {
	if yes {
		return a
	}
	return b
}

// first returns the least number from low on for which holds is true. It requires that holds stays true from there on.
func first(low *big.Int, holds func(*big.Int) bool) *big.Int {
	if holds(low) {
		return low
	}
	step := bigInt(1)
	for !holds(plus(low, step)) {
		step.Lsh(step, 1)
		if step.BitLen() > 100 {
			panic("the model finds no such number")
		}
	}
	high := plus(low, step)
	if step.Cmp(bigInt(1)) > 0 {
		low = plus(low, new(big.Int).Rsh(step, 1))
	}
	for {
		middle := plus(low, high)
		middle.Rsh(middle, 1)
		if middle.Cmp(low) == 0 {
			return high
		}
		if holds(middle) {
			high = middle
		} else {
			low = middle
		}
	}
}

// policy has the parameters of a limit.
type policy struct {
	kind    buckets.Kind
	burst   int64 // Throttle
	most    int64 // count of Throttle, limit of the others
	period  int64 // nanoseconds
	aligned bool
	offset  int64 // nanoseconds
}

func (p policy) limit() (buckets.Limit, error) {
	switch {
	case p.kind == buckets.Throttle:
		return buckets.NewThrottle(p.burst, p.most, p.period)
	case p.kind == buckets.Slide:
		return buckets.NewSlide(p.most, p.period)
	case p.aligned:
		return buckets.NewAlignedWindow(p.most, p.period, p.offset)
	}
	return buckets.NewWindow(p.most, p.period)
}

// valid reports whether the constructor accepts the policy. It requires that each parameter is in its range.
func (p policy) valid() bool {
	if p.kind != buckets.Throttle {
		return true
	}
	exact := new(big.Int).Mod(bigInt(p.period), bigInt(p.most)).Sign() == 0
	return p.interval().Sign() > 0 && (exact || !less(p.interval(), bigInt(100))) && !less(bigInt(buckets.MaxPeriod), p.capacity())
}

// atOnce returns the most that can be admitted at once.
func (p policy) atOnce() *big.Int {
	if p.kind == buckets.Throttle {
		return plus(bigInt(p.burst), bigInt(1))
	}
	return bigInt(p.most)
}

func (p policy) interval() *big.Int { return new(big.Int).Div(bigInt(p.period), bigInt(p.most)) }
func (p policy) capacity() *big.Int { return times(p.interval(), p.atOnce()) }

// calendar returns the calendar window of a time.
func (p policy) calendar(at *big.Int) (start, end *big.Int) {
	period, offset := bigInt(p.period), bigInt(p.offset)
	into := new(big.Int).Mod(minus(at, offset), period)
	start = minus(at, into)
	return start, plus(start, period)
}

// event is a request that changed a bucket. A quantity of 0 stands for a request that took nothing and cut the bucket to
// its limit.
type event struct {
	at       *big.Int
	policy   policy
	quantity int64
}

// entry is the quantity that was admitted at one time and has not been taken back.
type entry struct{ at, quantity *big.Int }

// standing is the state of a bucket.
type standing struct {
	// Throttle: a bucket that leaks one nanosecond per nanosecond, and its level at one time.
	level, since *big.Int
	// Window
	start, end, used *big.Int
	// Slide: the records that have not left for good, and the period of the last stored request.
	entries []entry
	period  *big.Int
}

// replayed computes the state of a bucket from all requests that have changed it.
func replayed(history []event) *standing {
	s := &standing{level: new(big.Int), since: new(big.Int), start: new(big.Int), end: new(big.Int), used: new(big.Int), period: new(big.Int)}
	for _, e := range history {
		switch e.policy.kind {
		case buckets.Throttle:
			s.level, s.since = smaller(s.levelAt(e.at), e.policy.capacity()), e.at
			s.level = notBelow0(plus(s.level, times(e.policy.interval(), bigInt(e.quantity))))
		case buckets.Window:
			s.start, s.end, s.used, _ = s.windowAt(e.at, e.policy)
			s.used = notBelow0(plus(s.used, bigInt(e.quantity)))
		case buckets.Slide:
			s.entries = s.visible(e.at, e.policy)
			s.period = bigInt(e.policy.period)
			s.log(e.at, bigInt(e.quantity))
		}
	}
	return s
}

func (s *standing) levelAt(at *big.Int) *big.Int {
	return notBelow0(minus(s.level, minus(at, s.since)))
}

// windowAt returns the window of a request at some time, and when its count is forgotten.
func (s *standing) windowAt(at *big.Int, p policy) (start, end, used, forgotten *big.Int) {
	open := s.used.Sign() > 0 && less(at, s.end)
	if p.aligned {
		start, end = p.calendar(at)
		if open && within(s.start, start, end) {
			return start, end, s.used, smaller(end, s.end)
		}
		return start, end, new(big.Int), end
	}
	end = smaller(s.end, plus(s.start, bigInt(p.period)))
	if open && less(at, end) {
		return s.start, end, s.used, end
	}
	end = plus(at, bigInt(p.period))
	return at, end, new(big.Int), end
}

// visible returns the entries that count for a request at some time. Entries that have left the window of the stored
// period are gone for good, and those that have left the window of the request's period do not count.
func (s *standing) visible(at *big.Int, p policy) (seen []entry) {
	for _, e := range s.entries {
		if less(at, plus(e.at, s.period)) && less(at, plus(e.at, bigInt(p.period))) {
			seen = append(seen, entry{e.at, e.quantity})
		}
	}
	return seen
}

func sumOf(entries []entry) *big.Int {
	sum := new(big.Int)
	for _, e := range entries {
		sum.Add(sum, e.quantity)
	}
	return sum
}

// log adds what is admitted, or takes quantity back from the newest entries.
func (s *standing) log(at, quantity *big.Int) {
	newest := len(s.entries) - 1
	if quantity.Sign() > 0 {
		if newest >= 0 && s.entries[newest].at.Cmp(at) == 0 {
			s.entries[newest].quantity = plus(s.entries[newest].quantity, quantity)
			return
		}
		s.entries = append(s.entries, entry{at, quantity})
		return
	}
	for back := new(big.Int).Neg(quantity); back.Sign() > 0 && newest >= 0; newest-- {
		part := smaller(back, s.entries[newest].quantity)
		s.entries[newest].quantity = minus(s.entries[newest].quantity, part)
		if s.entries[newest].quantity.Sign() == 0 {
			s.entries = s.entries[:newest]
		}
		back = minus(back, part)
	}
}

// fits reports whether a quantity would be admitted at some time.
func (s *standing) fits(at *big.Int, p policy, quantity *big.Int) bool {
	if quantity.Sign() <= 0 {
		return true
	}
	switch p.kind {
	case buckets.Throttle:
		level := smaller(s.levelAt(at), p.capacity())
		return !less(p.capacity(), plus(level, times(p.interval(), quantity)))
	case buckets.Window:
		_, _, used, _ := s.windowAt(at, p)
		return !less(p.atOnce(), plus(used, quantity))
	}
	return !less(p.atOnce(), plus(sumOf(s.visible(at, p)), quantity))
}

// full reports whether a bucket of any limit is full again.
func (s *standing) full(kind buckets.Kind, at *big.Int) bool {
	switch kind {
	case buckets.Throttle:
		return s.levelAt(at).Sign() == 0
	case buckets.Window:
		return s.used.Sign() == 0 || !less(at, s.end)
	}
	return len(s.visible(at, policy{kind: buckets.Slide, period: buckets.MaxPeriod})) == 0 || !less(at, plus(s.entries[len(s.entries)-1].at, s.period))
}

// refundable reports whether a refund would find anything to take back.
func (s *standing) refundable(at *big.Int, p policy) bool {
	switch p.kind {
	case buckets.Throttle:
		return s.levelAt(at).Sign() > 0
	case buckets.Window:
		_, _, used, _ := s.windowAt(at, p)
		return used.Sign() > 0
	}
	return len(s.visible(at, p)) > 0
}

// remaining returns the most that fits.
func (s *standing) remaining(at *big.Int, p policy) *big.Int {
	tooMuch := first(bigInt(1), func(n *big.Int) bool { return !s.fits(at, p, n) })
	return minus(tooMuch, bigInt(1))
}

// cutTo returns the bucket cut to a limit: its debt is at most the capacity.
func (s *standing) cutTo(p policy, at *big.Int) *standing {
	if p.kind != buckets.Throttle {
		return s
	}
	return &standing{level: smaller(s.levelAt(at), p.capacity()), since: at}
}

// describe returns the Decision on a quantity for which the bucket changed from before to after.
func describe(before, after *standing, at *big.Int, p policy, quantity int64) buckets.Decision {
	wanted := bigInt(quantity)
	before, after = before.cutTo(p, at), after.cutTo(p, at)
	d := buckets.Decision{
		Limited:    !before.fits(at, p, wanted),
		Limit:      p.atOnce().Int64(),
		Remaining:  after.remaining(at, p).Int64(),
		RetryAfter: -1,
		ResetAfter: first(new(big.Int), func(wait *big.Int) bool { return after.fits(plus(at, wait), p, p.atOnce()) }).Int64(),
	}
	if d.Limited && !less(p.atOnce(), wanted) {
		d.RetryAfter = first(new(big.Int), func(wait *big.Int) bool { return before.fits(plus(at, wait), p, wanted) }).Int64()
	}
	return d
}

// keyHistory is everything that has happened to a key since it was last removed.
type keyHistory struct {
	kind     buckets.Kind
	history  []event
	deadline *big.Int // nil if there is none

	now     *standing // the state that follows from the history
	fullAt  *big.Int
	expires *big.Int
}

// replay computes the other fields from the history and the deadline.
func (h *keyHistory) replay() {
	h.now = replayed(h.history)
	last := h.history[len(h.history)-1].at
	h.fullAt = first(last, func(at *big.Int) bool { return h.now.full(h.kind, at) })
	if h.deadline != nil && !less(h.deadline, h.fullAt) {
		h.deadline = nil
	}
	h.expires = h.fullAt
	if h.deadline != nil {
		h.expires = h.deadline
	}
}

// model is a store of key histories.
type model struct {
	pasts  map[string]*keyHistory
	latest map[int]int64 // the latest time of each shard
	maxLog int
}

// at returns the time at which an operation on some shards is decided, and raises the times of these shards to it.
func (m *model) at(now int64, shards ...int) int64 {
	for _, n := range shards {
		now = max(now, m.latest[n])
	}
	for _, n := range shards {
		m.latest[n] = now
	}
	return now
}

// live returns the history of a key that exists, or nil.
func (m *model) live(key string, now int64) *keyHistory {
	h := m.pasts[key]
	if h != nil && !less(bigInt(now), h.expires) {
		delete(m.pasts, key)
		return nil
	}
	return h
}

// historyFor returns a copy of the history of a key, empty if it does not exist, and whether the key may be asked for p.
func (m *model) historyFor(key string, p policy, now int64) (keyHistory, bool) {
	h := m.live(key, now)
	if h == nil {
		return keyHistory{kind: p.kind, now: replayed(nil)}, true
	}
	return *h, h.kind == p.kind
}

func (m *model) take(now int64, key string, p policy, quantity int64, peek bool) (buckets.Decision, error) {
	h, ok := m.historyFor(key, p, now)
	if !ok {
		return buckets.Decision{}, buckets.ErrWrongKind
	}
	at, before := bigInt(now), h.now
	admitted := before.fits(at, p, bigInt(quantity))
	changes := admitted && (quantity > 0 || quantity < 0 && before.refundable(at, p))
	cuts := !changes && p.kind == buckets.Throttle && len(h.history) > 0
	switch {
	case peek:
		return describe(before, before, at, p, quantity), nil
	case changes:
		h.history = append(h.history[:len(h.history):len(h.history)], event{at, p, quantity})
		h.deadline = nil
		h.replay()
		if p.kind == buckets.Slide && quantity > 0 && len(h.now.entries) > m.maxLog {
			return buckets.Decision{}, buckets.ErrLogFull
		}
	case cuts:
		h.history = append(h.history[:len(h.history):len(h.history)], event{at, p, 0})
		h.replay()
	}
	if changes || cuts {
		m.pasts[key] = &h
		m.live(key, now)
	}
	d := describe(before, h.now, at, p, quantity)
	d.Cut = cuts && less(p.capacity(), before.levelAt(at))
	return d, nil
}

// cut cuts a bucket to its limit as a refusal does. It reports whether that changed the bucket.
func (m *model) cut(now int64, key string, p policy) bool {
	h := m.live(key, now)
	if h == nil || p.kind != buckets.Throttle || !less(p.capacity(), h.now.levelAt(bigInt(now))) {
		return false
	}
	after := *h
	after.history = append(h.history[:len(h.history):len(h.history)], event{bigInt(now), p, 0})
	after.replay()
	m.pasts[key] = &after
	return true
}

// modelCheck is one check of a TakeAll.
type modelCheck struct {
	key      string
	policy   policy
	quantity int64
}

func (m *model) takeAll(now int64, wishes []modelCheck, peek bool) (which int, answers []buckets.Decision, err error) {
	longest := bigInt(-1)
	for i, w := range wishes {
		d, err := m.take(now, w.key, w.policy, w.quantity, true)
		if err != nil {
			return 0, nil, err
		}
		answers = append(answers, d)
		if !d.Limited {
			continue
		}
		wait := bigInt(d.RetryAfter)
		if d.RetryAfter == -1 {
			wait = new(big.Int).Lsh(bigInt(1), 80) // the request can never be admitted
		}
		if less(longest, wait) {
			which, longest = i+1, wait
		}
	}
	if which > 0 || peek {
		for i, w := range wishes {
			answers[i].Cut = !peek && m.cut(now, w.key, w.policy)
		}
		return which, answers, nil
	}
	trial := &model{pasts: make(map[string]*keyHistory), maxLog: m.maxLog}
	for key, h := range m.pasts {
		trial.pasts[key] = h
	}
	for i, w := range wishes {
		if answers[i], err = trial.take(now, w.key, w.policy, w.quantity, false); err != nil {
			return 0, nil, err
		}
	}
	m.pasts = trial.pasts
	return 0, answers, nil
}

func (m *model) expireAt(now int64, key string, at int64, c buckets.Condition) bool {
	h := m.live(key, now)
	if h == nil {
		return false
	}
	ms := bigInt(1e6)
	shown := new(big.Int).Div(plus(h.expires, bigInt(1e6-1)), ms) // rounded up
	asked := new(big.Int).Div(plus(bigInt(at), bigInt(1e6-1)), ms)
	if c&buckets.IfNone != 0 || c&buckets.IfLater != 0 && !less(shown, asked) || c&buckets.IfEarlier != 0 && !less(asked, shown) {
		return false
	}
	if at <= now {
		delete(m.pasts, key)
		return true
	}
	changed := *h
	changed.deadline = bigInt(at)
	changed.replay()
	m.pasts[key] = &changed
	return true
}

func (m *model) persist(now int64, key string) bool {
	h := m.live(key, now)
	if h == nil || h.deadline == nil {
		return false
	}
	changed := *h
	changed.deadline = nil
	changed.replay()
	m.pasts[key] = &changed
	return true
}

func (m *model) rename(now int64, from, to string, ifFree bool) (bool, error) {
	h := m.live(from, now)
	switch {
	case h == nil:
		return false, buckets.ErrNoKey
	case ifFree && m.live(to, now) != nil:
		return false, nil
	}
	delete(m.pasts, from)
	m.pasts[to] = h
	return true, nil
}

// contents returns the expected result of Get, except for the bytes.
func (h *keyHistory) contents(now int64) buckets.Contents {
	c := buckets.Contents{Info: buckets.Info{Kind: h.kind, Now: now, Expiry: h.expires.Int64()}}
	if h.deadline != nil {
		c.Deadline = h.deadline.Int64()
	}
	add := func(name string, value int64) { c.Fields = append(c.Fields, buckets.Field{Name: name, Value: value}) }
	switch s := h.now; h.kind {
	case buckets.Throttle:
		add("tat", h.fullAt.Int64())
	case buckets.Window:
		add("start", s.start.Int64())
		add("end", s.end.Int64())
		add("used", s.used.Int64())
	case buckets.Slide:
		kept := s.visible(bigInt(now), policy{kind: buckets.Slide, period: buckets.MaxPeriod})
		add("records", int64(len(kept)))
		add("sum", sumOf(kept).Int64())
		add("oldest", kept[0].at.Int64())
		add("newest", kept[len(kept)-1].at.Int64())
	}
	return c
}

// Parameters of usual limits, and the smallest and largest possible ones.
var (
	somePeriods = []int64{second, 60 * second, 10 * second, second / 4, 1, 7, 999, 86400 * second, buckets.MaxPeriod - 1, buckets.MaxPeriod}
	someCounts  = []int64{1, 2, 3, 30, 7, 1001, math.MaxInt64}
	someBursts  = []int64{0, 1, 2, 15, 1000, buckets.MaxPeriod - 1, math.MaxInt64 - 1}
	someLimits  = []int64{1, 2, 3, 10, 1000, math.MaxInt64 - 1, math.MaxInt64}
	someOffsets = []int64{0, 1, -19800 * second, second / 2, -buckets.MaxPeriod, buckets.MaxPeriod}
)

// anyPolicy draws a policy of a kind whose parameters are in range.
func anyPolicy(t *rapid.T, kind buckets.Kind) policy {
	p := policy{kind: kind, period: rapid.SampledFrom(somePeriods).Draw(t, "period")}
	switch kind {
	case buckets.Throttle:
		p.most = rapid.SampledFrom(someCounts).Draw(t, "count")
		p.burst = rapid.SampledFrom(someBursts).Draw(t, "max_burst")
	default:
		p.most = rapid.SampledFrom(someLimits).Draw(t, "limit")
		if p.aligned = kind == buckets.Window && rapid.Bool().Draw(t, "align"); p.aligned {
			p.offset = rapid.SampledFrom(someOffsets).Draw(t, "offset")
		}
	}
	return p
}

// somePolicy draws a valid policy.
func somePolicy(kind buckets.Kind) *rapid.Generator[policy] {
	return rapid.Custom(func(t *rapid.T) policy { return anyPolicy(t, kind) }).Filter(policy.valid)
}

// someStart draws the time at which a clock starts: in this century, or so that the longest period ends before the
// horizon.
var someStart = rapid.SampledFrom([]int64{epoch, epoch, 1})

// variation draws a policy to which a caller may have changed p. It finds the state that the old policy has left.
func variation(p policy) *rapid.Generator[policy] {
	return rapid.Custom(func(t *rapid.T) policy {
		change := func(n *int64, most int64) {
			*n = rapid.SampledFrom([]int64{*n, *n, *n / 2, *n / 3, min(*n, most/2) * 2, min(*n, most/10) * 10, *n - 1, min(*n, most-1) + 1}).Draw(t, "changed")
		}
		v := p
		change(&v.period, buckets.MaxPeriod)
		change(&v.most, math.MaxInt64)
		change(&v.burst, math.MaxInt64-1)
		if v.aligned = p.kind == buckets.Window && rapid.Bool().Draw(t, "align"); v.aligned {
			v.offset = rapid.SampledFrom([]int64{p.offset, 0, v.period / 2}).Draw(t, "offset")
		}
		if v.period < 1 || v.most < 1 || v.burst < 0 || !v.valid() {
			return p
		}
		return v
	})
}

var someKind = rapid.SampledFrom([]buckets.Kind{buckets.Throttle, buckets.Window, buckets.Slide})

func limitOf(t require.TestingT, p policy) buckets.Limit {
	l, err := p.limit()
	require.NoError(t, err, "%+v", p)
	return l
}

func TestConstructorsAcceptTheLimitsOfTheModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := anyPolicy(t, someKind.Draw(t, "kind"))
		l, err := p.limit()
		require.Equal(t, p.valid(), err == nil, "%+v: %v", p, err)
		if err == nil {
			require.Equal(t, p.atOnce().Int64(), l.Max())
			require.Equal(t, p.kind, l.Kind())
		}
	})
}

// seed is the same for every store of these tests, so that a failure repeats while rapid shrinks it.
var seed = maphash.MakeSeed()

func seeded(shards int) *Store { return newStore(shards, tiny, seed) }

// world is a store and its model.
type world struct {
	s        *Store
	m        *model
	keys     []string
	policies map[buckets.Kind][]policy
	now      int64
	last     buckets.Decision // its waits are candidates for the next step of the clock
	steps    []string
}

func (w *world) shard(key string) int {
	_, n := w.s.locate([]byte(key))
	return n
}

// logStep logs a step, to explain a failure.
func (w *world) logStep(t *rapid.T, format string, args ...any) {
	w.steps = append(w.steps, fmt.Sprintf("%d ", w.now-epoch)+fmt.Sprintf(format, args...))
	t.Log(w.steps[len(w.steps)-1])
}

// compareAll compares every key with its model at the time of its shard.
func (w *world) compareAll(t *rapid.T) {
	for _, key := range w.keys {
		now := w.m.at(0, w.shard(key))
		h := w.m.live(key, now)
		info, ok := w.s.Stat(0, []byte(key))
		require.Equal(t, h != nil, ok, "%q exists", key)
		got, ok := w.s.Get(0, []byte(key))
		require.Equal(t, h != nil, ok, "%q exists", key)
		if h == nil {
			continue
		}
		require.Positive(t, got.Bytes)
		require.Equal(t, got.Info, info)
		got.Bytes = 0
		require.Equal(t, h.contents(now), got, "%q", key)
	}
}

// drawCheck draws a request for a key. Most keys keep to one kind, and none to one limit.
func (w *world) drawCheck(t *rapid.T, key int) modelCheck {
	kind := buckets.Kind(1 + key%3)
	if rapid.IntRange(0, 15).Draw(t, "another kind") == 0 {
		kind = someKind.Draw(t, "kind")
	}
	p := rapid.SampledFrom(w.policies[kind]).Draw(t, "policy")
	return modelCheck{w.keys[key], p, w.quantity(t, w.keys[key], p)}
}

// quantity draws a quantity, often one at the boundary of what is admitted.
func (w *world) quantity(t *rapid.T, key string, p policy) int64 {
	now := w.m.at(w.now, w.shard(key))
	h, _ := w.m.historyFor(key, p, now)
	remaining := h.now.remaining(bigInt(now), p).Int64()
	clamp := func(n *big.Int) int64 { return smaller(n, bigInt(math.MaxInt64)).Int64() }
	switch rapid.IntRange(0, 14).Draw(t, "quantity") {
	case 0, 1, 2, 3:
		return 1
	case 4:
		return remaining
	case 5:
		return clamp(plus(bigInt(remaining), bigInt(1)))
	case 6:
		return 0
	case 7, 13, 14:
		return -rapid.Int64Range(1, 3).Draw(t, "back")
	case 8:
		return clamp(p.atOnce())
	case 9:
		return clamp(plus(p.atOnce(), bigInt(1)))
	case 10:
		return rapid.SampledFrom([]int64{math.MaxInt64, math.MinInt64, math.MinInt64 + 1}).Draw(t, "extreme")
	case 11:
		return -remaining
	}
	return rapid.Int64Range(2, 5).Draw(t, "some")
}

// deadline draws a deadline: around now, around the key's expiry, or between the two.
func (w *world) deadline(t *rapid.T, key string) int64 {
	now := w.m.at(w.now, w.shard(key))
	times := []int64{now, now - 1, now + second, math.MaxInt64}
	if h := w.m.live(key, now); h != nil {
		full, expires := h.fullAt.Int64(), h.expires.Int64()
		times = append(times, full, full-1, full+1, expires, expires-1, expires+1, now+(expires-now)/2, now+(expires-now)/2, now+(full-now)/2)
	}
	return min(rapid.SampledFrom(times).Draw(t, "deadline"), math.MaxInt64-millisecond)
}

// advance lets time pass: not at all, by a nanosecond, until a refused request fits or the bucket is full again, or a
// nanosecond less, or far. Sometimes it draws an earlier time.
func (w *world) advance(t *rapid.T) {
	step := int64(0)
	switch rapid.IntRange(0, 12).Draw(t, "clock") {
	case 0, 1, 2, 3:
	case 4:
		step = 1
	case 5:
		step = w.last.RetryAfter
	case 6:
		step = w.last.RetryAfter - 1
	case 7:
		step = w.last.ResetAfter
	case 8:
		step = w.last.ResetAfter - 1
	case 9:
		p := rapid.SampledFrom(w.policies[someKind.Draw(t, "kind")]).Draw(t, "policy")
		step = rapid.Int64Range(0, p.period).Draw(t, "a while")
	case 10:
		step = second
	case 11:
		step = rapid.SampledFrom([]int64{60 * second, 86400 * second, buckets.MaxPeriod / 100}).Draw(t, "far")
	case 12:
		step = -rapid.Int64Range(1, 2*second).Draw(t, "late")
	}
	if w.now <= horizon-max(step, 0) {
		w.now += step
	}
}

// step does one operation on the store and on the model, and requires equal results.
func (w *world) step(t *rapid.T) {
	w.advance(t)
	i := rapid.IntRange(0, len(w.keys)-1).Draw(t, "key")
	key := w.keys[i]
	action := rapid.IntRange(0, 19).Draw(t, "action")
	switch {
	case action < 10:
		x := w.drawCheck(t, i)
		peek := rapid.IntRange(0, 4).Draw(t, "peek") == 0
		want, wantErr := w.m.take(w.m.at(w.now, w.shard(key)), key, x.policy, x.quantity, peek)
		got, err := w.s.Take(w.now, []byte(key), limitOf(t, x.policy), x.quantity, peek)
		w.logStep(t, "take %q %+v %d peek=%t: %+v %v", key, x.policy, x.quantity, peek, got, err)
		require.Equal(t, wantErr, err)
		require.Equal(t, want, got)
		w.last = got
	case action < 13:
		order := rapid.Permutation([]int{0, 1, 2, 3}).Draw(t, "keys")
		var wishes []modelCheck
		var checks []buckets.Check
		var shards []int
		for _, k := range order[:rapid.IntRange(1, 4).Draw(t, "checks")] {
			x := w.drawCheck(t, k)
			wishes, shards = append(wishes, x), append(shards, w.shard(x.key))
			checks = append(checks, buckets.Check{Key: []byte(x.key), Limit: limitOf(t, x.policy), Quantity: x.quantity})
		}
		peek := rapid.IntRange(0, 4).Draw(t, "peek") == 0
		which, want, wantErr := w.m.takeAll(w.m.at(w.now, shards...), wishes, peek)
		got := make([]buckets.Decision, len(checks))
		gotWhich, err := w.s.TakeAll(w.now, checks, peek, got)
		w.logStep(t, "take all %+v peek=%t: %d %+v %v", wishes, peek, gotWhich, got, err)
		require.Equal(t, wantErr, err)
		require.Equal(t, which, gotWhich)
		if err == nil {
			require.Equal(t, want, got)
			w.last = got[max(0, which-1)]
		}
	case action < 15:
		at := w.deadline(t, key)
		c := rapid.SampledFrom([]buckets.Condition{0, 0, 0, buckets.IfSome, buckets.IfLater, buckets.IfEarlier, buckets.IfNone, buckets.IfSome | buckets.IfLater}).Draw(t, "condition")
		if c != 0 { // around whole milliseconds, the unit in which conditions compare
			at += rapid.SampledFrom([]int64{0, millisecond, -millisecond}).Draw(t, "around")
			if rapid.Bool().Draw(t, "whole") {
				at -= at % millisecond
			}
		}
		want := w.m.expireAt(w.m.at(w.now, w.shard(key)), key, at, c)
		got := w.s.ExpireAt(w.now, []byte(key), at, c)
		w.logStep(t, "expire %q at %d if %d: %t", key, at-epoch, c, got)
		require.Equal(t, want, got)
	case action == 15:
		want := w.m.persist(w.m.at(w.now, w.shard(key)), key)
		got := w.s.Persist(w.now, []byte(key))
		w.logStep(t, "persist %q: %t", key, got)
		require.Equal(t, want, got)
	case action == 16:
		to := rapid.SampledFrom(w.keys).Draw(t, "to")
		ifFree := rapid.Bool().Draw(t, "if free")
		now := w.m.at(w.now, w.shard(key), w.shard(to))
		want, wantErr := w.m.rename(now, key, to, ifFree)
		got, err := w.s.Rename(w.now, []byte(key), []byte(to), ifFree)
		w.logStep(t, "rename %q %q if free=%t: %t %v", key, to, ifFree, got, err)
		require.Equal(t, wantErr, err)
		require.Equal(t, want, got)
	case action == 17:
		want := w.m.live(key, w.m.at(w.now, w.shard(key))) != nil
		delete(w.m.pasts, key)
		got := w.s.Delete(w.now, []byte(key))
		w.logStep(t, "delete %q: %t", key, got)
		require.Equal(t, want, got)
	case action == 18:
		w.logStep(t, "sweep and count")
		for range 2 { // the first round may move records to blocks that it has examined
			sweepAll(w.s, w.now)
		}
		for n := range w.s.shards {
			w.m.at(w.now, n)
		}
		var live int64
		for _, key := range w.keys {
			if w.m.live(key, w.m.at(w.now, w.shard(key))) != nil {
				live++
			}
		}
		require.Equal(t, live, w.s.Live(w.now))
		require.Equal(t, live, w.s.Stats().Keys, "what has expired was swept away")
		require.Equal(t, live, w.s.Keys())
	case rapid.IntRange(0, 4).Draw(t, "flush") == 0:
		w.logStep(t, "flush")
		clear(w.m.pasts)
		w.s.flush()
	}
	w.compareAll(t)
}

// The store answers as the model does, to any requests at any time.
func TestStoreEqualsModel(t *testing.T) {
	for _, shards := range shapes {
		t.Run(fmt.Sprintf("%d shards", shards), func(t *testing.T) {
			rapid.Check(t, func(rt *rapid.T) { equalsModel(t, rt, shards) })
		})
	}
}

func equalsModel(t *testing.T, rt *rapid.T, shards int) {
	w := &world{
		s:        seeded(shards),
		m:        &model{pasts: make(map[string]*keyHistory), latest: make(map[int]int64), maxLog: rapid.SampledFrom([]int{1000, 1, 3}).Draw(rt, "max log")},
		keys:     []string{"", "w", strings.Repeat("s", 200), "throttle"},
		policies: make(map[buckets.Kind][]policy),
		now:      someStart.Draw(rt, "start"),
	}
	w.s.SetMaxLog(int64(w.m.maxLog))
	for kind := buckets.Throttle; kind <= buckets.Slide; kind++ {
		p := somePolicy(kind).Draw(rt, "policy")
		w.policies[kind] = append(rapid.SliceOfN(variation(p), 1, 3).Draw(rt, "variations"), p)
	}
	defer func() {
		if t.Failed() { // checkInvariants has failed the test, which rapid does not see
			t.Logf("after:\n%s", strings.Join(w.steps, "\n"))
		}
	}()
	// Walking many shards takes long, and the damage of a step does not go away by itself.
	every := 1 + len(w.s.shards)/32
	for n := range rapid.IntRange(1, 60).Draw(rt, "steps") {
		w.step(rt)
		if n%every == 0 {
			checkInvariants(t, w.s)
		}
	}
	checkInvariants(t, w.s)
}
