package main

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// saver is a server for measurements with many keys, and the commands that they use.
type saver struct {
	server string
	fill   []string // creates a key that lives for hours
	take   []string // the command of the load
	dying  []string // creates a key; one more argument is its lifetime in milliseconds
}

var savers = []saver{
	{nameCellserver, askFillOurs, askTouchOurs, askDyingOurs},
	{nameRedis, askFillRedis, askTouchRedis, askDyingRedis},
}

// measureSaves measures the latency of a full server, idle and while it writes a snapshot.
func measureSaves(ctx context.Context, c *comparer) (err error) {
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
	for _, one := range savers {
		if _, err := c.runLoad(ctx, all[one.server].s, "filling "+one.server, fillLoad(one.fill, 0, c.plan.saved)); err != nil {
			return err
		}
	}
	for round := range c.plan.rounds {
		for _, one := range rotated(savers, round, len(savers)) {
			c.progress.step("round %d of %d: %s", round+1, c.plan.rounds, one.server)
			r := all[one.server]
			idle, err := c.atRate(ctx, r, c.paced(r, one.take, c.plan.saved, most*half/100))
			if err != nil {
				return err
			}
			var took time.Duration
			during, err := c.beside(ctx, r, c.paced(r, one.take, c.plan.saved, most*half/100), func(ctx context.Context) (err error) {
				took, err = snapshots(ctx, r.control, c.plan.paced, c.plan.patience)
				return err
			})
			if err != nil {
				return fmt.Errorf("%s: %w", one.server, err)
			}
			c.found.addSave(one.server, idle, during, took)
		}
	}
	return nil
}

// beside runs a load with a fixed rate, warmed up as usual, for as long as work takes. If the load fails, beside cancels the
// context of work and closes the control connection of the rival, on which work may be waiting.
func (c *comparer) beside(ctx context.Context, r *rival, o *openLoop, work func(context.Context) error) (openResult, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	warmed, worked := make(chan struct{}), make(chan error, 1)
	o.length, o.warmed = 0, warmed
	go func() {
		select {
		case <-warmed:
			worked <- work(ctx)
		case <-ctx.Done():
			worked <- ctx.Err()
		}
		o.over.Store(true)
	}()
	result, err := c.atRate(ctx, r, o)
	if err != nil {
		cancel()
		r.control.close()
	}
	if failed := <-worked; err == nil || !errors.Is(failed, context.Canceled) {
		err = errors.Join(err, failed)
	}
	return result, err
}

// snapshots has a server write snapshots one after the other until they have taken a minimum time together, and returns the
// average duration of one.
func snapshots(ctx context.Context, control *conn, enough, patience time.Duration) (time.Duration, error) {
	var total time.Duration
	for n := time.Duration(1); ; n++ {
		took, err := snapshot(ctx, control, patience)
		if total += took; err != nil || total >= enough {
			return total / n, err
		}
	}
}

// snapshot has a server write a snapshot, and returns the duration.
func snapshot(ctx context.Context, control *conn, patience time.Duration) (time.Duration, error) {
	began := time.Now()
	if _, err := control.do("BGSAVE"); err != nil {
		return 0, err
	}
	for {
		if err := sleep(ctx, 5*time.Millisecond); err != nil {
			return 0, err
		}
		fields, err := control.info("persistence")
		took := time.Since(began)
		switch {
		case err != nil:
			return 0, err
		case fields["rdb_bgsave_in_progress"] == "1" && took > patience:
			return 0, fmt.Errorf("still saving after %s", took.Round(time.Second))
		case fields["rdb_bgsave_in_progress"] == "1":
		case fields["rdb_last_bgsave_status"] != "ok":
			return 0, fmt.Errorf("the snapshot failed: %s", fields["rdb_last_bgsave_status"])
		default:
			return took, nil
		}
	}
}
