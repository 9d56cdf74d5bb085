package cluster

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"cellserver/internal/testing/engines"
)

const noon = int64(1_800_000_000) * 1e9

// world is a server and a way to it, as a test draws them.
type world struct {
	local int64 // the time of this process
	clock int64 // what the server's clock shows now
	drift int64 // how much faster that runs than Local, in millionths
	rest  int64 // of a nanosecond, in millionths
}

func (w *world) pass(d int64) {
	w.local += d
	w.rest += d * w.drift
	w.clock += d + w.rest/1e6
	w.rest %= 1e6
}

// read reads the clock, the question being on its way for the one time and the answer for the other.
func (w *world) read(c *nodeClock, there, back int64) {
	sent := w.local
	w.pass(there)
	shown := w.clock / timeUnit * timeUnit
	w.pass(back)
	c.read(sent, w.local, shown)
}

func TestClockOfAServer(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		delay := rapid.Custom(func(t *rapid.T) int64 {
			return rapid.Int64Range(1, rapid.SampledFrom([]int64{1e3, 1e5, 1e7, 9e8}).Draw(t, "scale")).Draw(t, "delay")
		})
		w := &world{local: noon}
		w.clock = noon + rapid.Int64Range(-5e12, 5e12).Draw(t, "offset")
		w.drift = rapid.Int64Range(-maxDrift, maxDrift).Draw(t, "drift")
		var c nodeClock
		require.False(t, c.known())
		require.Zero(t, c.bound(noon))
		last, best := int64(0), int64(1<<62)
		check := func() {
			now := w.local + c.offset(w.local)
			if now < last {
				t.Fatalf("the time went back by %d", last-now)
			}
			last = now
			if wrong := now - w.clock; max(wrong, -wrong) > c.bound(w.local) {
				t.Fatalf("the time is wrong by %d, and the bound is %d", wrong, c.bound(w.local))
			}
		}
		for range rapid.IntRange(1, 30).Draw(t, "readings") {
			there, back := delay.Draw(t, "there"), delay.Draw(t, "back")
			w.read(&c, there, back)
			best = min(best, there+back)
			check()
			for range 3 {
				w.pass(rapid.Int64Range(1, 5e8).Draw(t, "pause"))
				check()
			}
		}
		// The estimate is as good as the best reading, but for what the clocks may have drifted apart since.
		w.pass(30e9)
		check()
		assert.LessOrEqual(t, c.bound(w.local), best/2+timeUnit+(30*2*3/2+300)*1e9*maxDrift/1e6)
		for range 2 {
			w.read(&c, 1000, 1000)
			w.pass(12e9) // in which the offset has come to where it moves to
			check()
		}
		w.read(&c, 1000, 1000)
		w.pass(1e9)
		check()
		assert.LessOrEqual(t, c.bound(w.local), 1e9*maxDrift/1e6+2*1000+2*timeUnit)
	})
}

// The clock of the server is set while readings go on.
func TestClockOfAServerThatIsSet(t *testing.T) {
	for _, row := range []struct {
		name string
		by   time.Duration
		at   map[time.Duration]time.Duration // how wrong the time may be, by the time since
	}{
		{"a little on", 10 * time.Millisecond, map[time.Duration]time.Duration{0: 10 * time.Millisecond, 200 * time.Millisecond: 0}},
		{"a little back", -10 * time.Millisecond, map[time.Duration]time.Duration{0: 10 * time.Millisecond, 200 * time.Millisecond: 0}},
		{"a second on", time.Second, map[time.Duration]time.Duration{0: time.Second, 5 * time.Second: time.Second / 2, 11 * time.Second: 0}},
		{"a second back", -time.Second, map[time.Duration]time.Duration{0: time.Second, 5 * time.Second: time.Second / 2, 11 * time.Second: 0}},
		{"an hour on", time.Hour, map[time.Duration]time.Duration{0: 0}},
		{"an hour back", -time.Hour, map[time.Duration]time.Duration{
			0: time.Hour, time.Hour: 31 * time.Minute, 2*time.Hour - 20*time.Second: 11 * time.Second, 2*time.Hour + 10*time.Second: 0}},
	} {
		t.Run(row.name, func(t *testing.T) {
			w, c := &world{local: noon, clock: noon + 7e12}, new(nodeClock)
			const delay = int64(100 * time.Microsecond)
			for range 5 {
				w.read(c, delay, delay)
				w.pass(int64(time.Second))
			}
			w.clock += int64(row.by)
			last := w.local + c.offset(w.local)
			w.read(c, delay, delay)
			begin := w.local
			const step = int64(200 * time.Millisecond)
			end := time.Duration(0)
			for from := range row.at {
				end = max(end, from)
			}
			for since := time.Duration(0); since <= end+10*time.Second; since = time.Duration(w.local - begin) {
				now := w.local + c.offset(w.local)
				require.GreaterOrEqual(t, now, last, "after %s", since)
				if since > 0 {
					require.GreaterOrEqual(t, now-last, step/2, "after %s: it does not stand still", since)
				}
				last = now
				wrong := max(now-w.clock, w.clock-now)
				require.LessOrEqual(t, wrong, c.bound(w.local))
				for from, most := range row.at {
					if since >= from {
						require.LessOrEqual(t, wrong, int64(most)+3*delay, "after %s", since)
					}
				}
				w.pass(step)
				if time.Duration(w.local-begin)%time.Second == 0 {
					w.read(c, 0, 0)
				}
			}
		})
	}
}

func TestMedian(t *testing.T) {
	for _, row := range []struct {
		offsets []int64
		want    int64
	}{
		{[]int64{5}, 5},
		{[]int64{9, 5}, 5}, // the time is not ahead because one clock is
		{[]int64{9, 5, 7}, 7},
		{[]int64{9, 1e15, 5, 7}, 7},
	} {
		assert.Equal(t, row.want, median(row.offsets))
	}
}

func TestParseTime(t *testing.T) {
	got, err := parseTime([]any{"1700000000", "123456"})
	require.NoError(t, err)
	assert.Equal(t, int64(1700000000123456000), got)
	for _, bad := range []any{nil, "1", int64(1), []any{}, []any{"1"}, []any{"1", "2", "3"}, []any{int64(1), int64(2)}, []any{"-1", "0"},
		[]any{"99999999999", "0"}, []any{"1", "1000000"}, []any{"", ""}, refusal("NOPERM no"), []any{refusal("x"), "1"}} {
		_, err := parseTime(bad)
		assert.Error(t, err, "%v", bad)
	}
}

// newDeaf returns an engine with masters of which nothing is read but what a test says.
func newDeaf(masters int) *engine {
	e := &engine{config: &Config{Local: func() int64 { return noon }}, events: events{changed: func() {}}}
	nodes := make([]*node, masters)
	for i := range nodes {
		nodes[i] = &node{engine: e}
	}
	e.all.Store(&nodes)
	return e
}

// The time of the engine is the median of those of the masters, and stays what it is when masters come and go.
func TestTimeOfAnEngine(t *testing.T) {
	now := noon
	e := newDeaf(3)
	e.config.Local = func() int64 { return now }
	show := func(i int, ahead time.Duration) {
		e.timeRead(e.masters()[i], now, now, now+int64(ahead))
	}
	hour := int64(time.Hour)
	show(0, 3*time.Hour)
	assert.False(t, e.timed(), "it waits for the others")
	early := e.now()
	assert.True(t, e.mistimed(early))
	assert.False(t, e.masters()[0].ready())
	assert.Equal(t, noon, e.now())
	show(1, time.Hour)
	show(2, time.Hour+time.Second/2)
	require.True(t, e.timed())
	assert.True(t, e.mistimed(early), "it was read before the time was known")
	assert.False(t, e.mistimed(e.now()))
	assert.False(t, e.mistimed(e.now()-5e9), "a long batch may begin with it")
	assert.InDelta(t, noon+hour+5e8, e.now(), 1e4)
	assert.InDelta(t, 2*hour-5e8, e.masters()[0].shift(), 1e4)
	assert.InDelta(t, -5e8, e.masters()[1].shift(), 1e4)
	assert.InDelta(t, 0, e.masters()[2].shift(), 1e4)
	ahead, bound := e.offset()
	assert.InDelta(t, hour+5e8, ahead, 1e4)
	assert.Less(t, bound, int64(1e4))

	// The master whose clock is the median leaves; that of the one which comes is far behind.
	nodes := append([]*node(nil), e.masters()[:2]...)
	nodes = append(nodes, &node{engine: e})
	e.all.Store(&nodes)
	show(2, -time.Hour)
	before := e.now()
	assert.InDelta(t, noon+hour+5e8, before, 1e4)
	for range 6 {
		now += int64(time.Second)
		show(0, 3*time.Hour)
		show(1, time.Hour)
		show(2, -time.Hour)
		assert.Greater(t, e.now(), before)
		before = e.now()
	}
	assert.InDelta(t, now+hour, e.now(), 1e5, "it is the clock of the second now")
	assert.InDelta(t, -2*hour, e.masters()[2].shift(), 1e5)
}

func TestTimeOfAnEngineWhoseMastersAreAway(t *testing.T) {
	now := noon
	e := newDeaf(2)
	e.config.Local = func() int64 { return now }
	e.timeRead(e.masters()[0], now, now, now+7e9)
	assert.False(t, e.timed())
	now += int64(timePatience)
	e.timeRead(e.masters()[0], now, now, now+7e9)
	assert.True(t, e.timed())
	assert.True(t, e.masters()[0].ready())
	assert.False(t, e.masters()[1].ready())

	e.config.OwnTime = true
	assert.Equal(t, now, e.now())
	assert.Zero(t, e.masters()[0].shift())
}

// Engines of processes whose clocks differ by an hour agree on the time.
func TestEnginesAgreeOnTheTime(t *testing.T) {
	server := engines.Standalone(t, engines.Valkey81)
	var all []*watched
	for _, ahead := range []time.Duration{0, time.Hour, -time.Hour} {
		e := connect(t, Config{Addrs: []string{server.Addr()}, Local: localTime(ahead)})
		e.awaitReady(t)
		offset, bound := e.offset()
		assert.Positive(t, bound)
		assert.InDelta(t, -ahead, offset, float64(bound), "this machine is the server's")
		all = append(all, e)
	}
	for range 100 {
		before := localTime(0)()
		for _, e := range all {
			_, bound := e.offset()
			now := e.now()
			after := localTime(0)()
			assert.LessOrEqual(t, before-bound, now)
			assert.LessOrEqual(t, now, after+bound)
			assert.Less(t, bound, int64(50*time.Millisecond))
		}
	}
}

// The answers of a server come late, and its questions do not: the time is wrong by half of that, as the bound says. When they are in
// time, it is right within a second and what it takes to get there.
func TestTimeOverASlowWay(t *testing.T) {
	server := engines.Standalone(t, engines.Valkey81)
	proxy := engines.StartProxy(t, server.Addr())
	const late = 100 * time.Millisecond
	proxy.Delay(0, late)
	local := localTime(0)
	e := connect(t, Config{Addrs: []string{proxy.Addr()}, Local: local})
	e.awaitReady(t)
	offset, bound := e.offset()
	assert.GreaterOrEqual(t, bound, int64(late/2))
	assert.LessOrEqual(t, max(offset, -offset), bound, "this machine is the server's")
	assert.Greater(t, -offset, int64(late/4))
	proxy.Delay(0, 0)
	last := e.now()
	require.Eventually(t, func() bool {
		now := e.now()
		assert.GreaterOrEqual(t, now, last)
		last = now
		offset, bound := e.offset()
		assert.LessOrEqual(t, max(offset, -offset), bound)
		return bound < int64(late/20)
	}, within, soon)
}

func BenchmarkTimeOfANode(b *testing.B) {
	e := newDeaf(1)
	e.config.Local = localTime(0)
	now := e.config.Local()
	e.timeRead(e.masters()[0], now, now, now+7e9)
	n := e.masters()[0]
	b.Run("Now", func(b *testing.B) {
		for b.Loop() {
			e.now()
		}
	})
	b.Run("Shift", func(b *testing.B) {
		for b.Loop() {
			n.shift()
		}
	})
}
