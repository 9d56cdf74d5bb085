package main

import (
	"time"

	"cellserver/buckets/memory"
	"cellserver/internal/pace"
)

// The processor time that sweeping takes of each tick. While few of the keys that it looks at have expired, it takes half a
// percent of one processor, which is enough to look at ten million keys in about ten seconds; while many have, four percent.
const (
	sweepEvery  = sampleEvery
	sweepLittle = sweepEvery / 200
	sweepMuch   = sweepEvery / 25
)

// sampleEvery is how often a server is asked to take the samples that INFO computes rates from.
const sampleEvery = 100 * time.Millisecond

// A sweep pauses for sweepPause after sweepWork of work, so that requests go first: its steps are short, but many.
const (
	sweepWork  = 200 * time.Microsecond
	sweepPause = 50 * time.Microsecond
)

// sweeper forgets the expired keys of a store in the background, and returns the memory that they leave to the system.
type sweeper struct {
	store  *memory.Store
	now    func() int64 // the decision clock, in nanoseconds of Unix time
	sample func()       // is called at each tick
	memory memoryReturner

	quit, done chan struct{}
}

// startSweeper starts a sweeper, which runs until stop.
func startSweeper(store *memory.Store, now func() int64, sample func()) *sweeper {
	s := &sweeper{
		store: store, now: now, sample: sample, memory: memoryReturner{peak: store.Bytes()},
		quit: make(chan struct{}), done: make(chan struct{}),
	}
	go s.run()
	return s
}

// stop stops the sweeper and waits until it has ended.
func (s *sweeper) stop() {
	close(s.quit)
	<-s.done
}

func (s *sweeper) run() {
	defer close(s.done)
	tick := time.NewTicker(sweepEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			s.sweep()
			s.memory.check(s.store.Bytes())
			s.sample()
		case <-s.quit:
			return
		}
	}
}

// sweep takes steps until the time of one tick is used up or every shard has been visited.
func (s *sweeper) sweep() {
	pacer, worked := pace.Pacer{Work: sweepWork, Pause: sweepPause}, time.Duration(0)
	pacer.Resume()
	for budget := sweepLittle; worked+pacer.Elapsed() < budget; {
		did := s.store.Sweep(s.now())
		if did.Round {
			return
		}
		if 4*did.Expired > did.Looked {
			budget = sweepMuch
		}
		worked += pacer.YieldIfLong()
	}
}
