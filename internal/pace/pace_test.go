package pace

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
)

const (
	work  = 100 * time.Microsecond
	pause = 30 * time.Microsecond
)

// Work is a sleep in these tests, because it takes fake time.
func TestPacerSleepsAfterEachSlice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := Pacer{Work: work, Pause: pause}
		p.Resume()
		time.Sleep(work - 1)
		began := time.Now()
		assert.Zero(t, p.YieldIfLong(), "the slice is too short")
		assert.Zero(t, time.Since(began))
		assert.Equal(t, work-1, p.Elapsed(), "a slice that is too short goes on")

		time.Sleep(time.Nanosecond)
		assert.Equal(t, work, p.YieldIfLong())
		assert.Equal(t, pause, time.Since(began)-1)
		assert.Zero(t, p.Elapsed(), "the pause belongs to no slice")

		time.Sleep(3 * work)
		assert.Equal(t, 3*work, p.YieldIfLong())
	})
}

func TestPacerReadsTheClockItIsGiven(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		now, reads := int64(1_000_000), 0
		p := Pacer{Work: work, Pause: pause, Now: func() int64 { reads++; return now }}
		p.ResumeAt(now)
		assert.Zero(t, reads, "the caller has read the clock")
		time.Sleep(time.Hour)
		assert.Zero(t, p.YieldIfLong(), "only the clock that was given counts")
		now += int64(work)
		began := time.Now()
		assert.Equal(t, work, p.YieldIfLong())
		assert.Equal(t, pause, time.Since(began))
		assert.Zero(t, p.YieldIfLong(), "the next slice has begun")
	})
}

func TestPacerDoesNotAllocate(t *testing.T) {
	p := Pacer{Work: time.Hour}
	p.Resume()
	assert.Zero(t, testing.AllocsPerRun(100, func() { p.YieldIfLong() }))
}
