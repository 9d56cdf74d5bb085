package clock

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
)

// hands is a system clock whose two readings a test sets.
type hands struct{ mono, wall int64 }

func (h *hands) read() (int64, int64) { return h.mono, h.wall }

// awake is the sleep of a machine that never sleeps.
func awake() int64 { return 0 }

func (h *hands) pass(d time.Duration) {
	h.mono += int64(d)
	h.wall += int64(d)
}

const start = int64(1_700_000_000) * 1e9

func TestAgreesWithTheWallClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := New()
		for range 10 {
			time.Sleep(1234567891)
			assert.Equal(t, time.Now().UnixNano(), c.Now())
		}
	})
}

func TestASteppedWallClockStepsNothing(t *testing.T) {
	for name, step := range map[string]time.Duration{"a day on": 24 * time.Hour, "a day back": -24 * time.Hour} {
		t.Run(name, func(t *testing.T) {
			h := &hands{wall: start}
			c := newClock(h.read, awake)
			h.wall += int64(step)
			last := c.Now()
			assert.Equal(t, start, last)
			for i := range 7200 {
				h.pass(500 * time.Millisecond)
				now := c.Now()
				passed := now - last
				assert.InDelta(t, 500e6, passed, 500e6*maxSlew/1e6+1, "step %d", i)
				last = now
			}
			slewed := last - start - int64(time.Hour)
			assert.InDelta(t, float64(step/time.Hour/24)*3600e9*maxSlew/1e6, slewed, 2e6, "it does move towards wall time")
		})
	}
}

// The clock follows a sleep of the machine within a second after it wakes, whatever the wall clock shows.
func TestTheSleepOfTheMachineCounts(t *testing.T) {
	for name, step := range map[string]time.Duration{"the wall clock is right": 8 * time.Hour, "it was stepped too": -24 * time.Hour} {
		t.Run(name, func(t *testing.T) {
			h, slept := &hands{wall: start}, int64(3*time.Hour) // sleep before the server started
			c := newClock(h.read, func() int64 { return slept })
			h.pass(10 * time.Second)
			assert.Equal(t, start+int64(10*time.Second), c.Now())
			slept += int64(8 * time.Hour)
			h.wall += int64(step)
			h.pass(time.Second)
			assert.Equal(t, start+int64(11*time.Second+8*time.Hour), c.Now())
			h.pass(time.Second)
			slept += nap / 2 // an inexact reading of the sleep
			assert.InDelta(t, start+int64(12*time.Second+8*time.Hour), c.Now(), 500e3)
		})
	}
	first := slept()
	assert.GreaterOrEqual(t, first, int64(0))
	assert.Less(t, slept()-first, nap, "no machine sleeps meanwhile")
}

func TestADriftingWallClockIsFollowed(t *testing.T) {
	h := &hands{wall: start}
	c := newClock(h.read, awake)
	for range 3600 {
		h.pass(time.Second)
		h.wall += 100_000 // 100 ppm
		c.Now()
	}
	assert.InDelta(t, h.wall, c.Now(), 1e6)
}

func TestSteady(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		now := Steady()
		for range 3 {
			assert.Equal(t, time.Now().UnixNano(), now())
			time.Sleep(time.Hour)
		}
	})
}

func TestSlewStopsWhenNobodyAsks(t *testing.T) {
	h := &hands{wall: start}
	c := newClock(h.read, awake)
	h.wall += 100_000 // the clock closes this gap within a second
	h.pass(time.Second)
	c.Now()
	h.pass(100 * 365 * 24 * time.Hour)
	assert.InDelta(t, h.wall, c.Now(), 1)
}

func BenchmarkNow(b *testing.B) {
	c := New()
	b.ReportAllocs()
	for b.Loop() {
		c.Now()
	}
}
