package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"
)

// diskProbeRate is the rate of the probe during a snapshot, in commands per second.
const diskProbeRate = 1000

func aboutSave(p diskPlan) string {
	return fmt.Sprintf(`A server has %s keys of %d bytes, which live for hours, and is asked for BGSAVE. It is saved when INFO persistence says
so, which is asked every 10 ms. Redis has the same keys with a value of 19 digits and an expiry, as the module redis-cell
keeps them. A probe changes %d random keys a second, by CL.THROTTLE or by SET, before the BGSAVE and during it; latency
counts from when a command was due. The server, its background work, and with Redis the process that it forks, share one
core; both write with an fsync at the end.`,
		grouped(float64(p.keys)), keyBytes, diskProbeRate)
}

// measureSave measures BGSAVE.
func measureSave(ctx context.Context, d *diskLab, p diskPlan) (m measured, err error) {
	for _, c := range d.servers {
		if err := d.measureSaveOf(ctx, c, p, &m); err != nil {
			return m, fmt.Errorf("%s: %w", c.name, err)
		}
	}
	return m, nil
}

func (d *diskLab) measureSaveOf(ctx context.Context, c *contender, p diskPlan, m *measured) (err error) {
	s, end, err := d.openFull(ctx, c, p.keys)
	if err != nil {
		return err
	}
	defer end(&err)
	d.progress.step("probing %s", c.name)
	change := randomKeys(p.keys, c.probe...)
	idle, err := probeFor(s.addr, diskProbeRate, change, func() error { return sleep(ctx, p.quiet) })
	if err != nil {
		return err
	}
	before, err := s.cpuNow()
	if err != nil {
		return err
	}
	var took time.Duration
	var size int64
	during, err := probeFor(s.addr, diskProbeRate, change, func() (err error) {
		took, size, err = d.bgSave(ctx, c, s, p)
		return err
	})
	if err != nil {
		return err
	}
	after, err := s.cpuNow()
	if err != nil {
		return err
	}
	keys, err := s.control.size()
	if err != nil {
		return err
	}
	name := func(what string) string { return c.name + ": " + what }
	m.add(name("keys"), float64(keys), asCount)
	m.add(name("BGSAVE"), float64(took), asLatency)
	m.add(name("keys saved"), float64(keys)/took.Seconds(), perSecond)
	m.add(name("size of the file"), float64(size), inBytes)
	m.add(name("bytes per key in the file"), float64(size)/float64(keys), bytesEach)
	m.add(name(waitFigure+", during BGSAVE"), waitShare(before, after), inPercent)
	m.add(name("p99.9 of the probe, idle"), float64(idle.quantile(0.999)), asLatency)
	m.add(name("p99.9 of the probe, during BGSAVE"), float64(during.quantile(0.999)), asLatency)
	m.probes = append(m.probes,
		latencies{name("idle"), idle}, latencies{name("during BGSAVE"), during})
	return nil
}

// randomKeys returns a probe that sends a command for random keys.
func randomKeys(keys int64, args ...string) func([]byte, *rand.Rand) []byte {
	t := newTemplate(slices.Clone(args)...)
	return func(b []byte, r *rand.Rand) []byte { return t.appendTo(b, r.Int64N(keys)) }
}

func aboutLoad(p diskPlan) string {
	return fmt.Sprintf(`A server is started in a directory that has a snapshot of %s keys, as in the part save. It is ready when it answers
PING, which is tried every 10 ms: before, it does not listen, or says that it is loading. The file has just been written
or read, so it comes from memory and not from the disk. The server has one core.`, grouped(float64(p.keys)))
}

// measureLoad measures the time until a server with a snapshot answers.
func measureLoad(ctx context.Context, d *diskLab, p diskPlan) (m measured, err error) {
	for _, c := range d.servers {
		if err := d.measureLoadOf(ctx, c, p, &m); err != nil {
			return m, fmt.Errorf("%s: %w", c.name, err)
		}
	}
	return m, nil
}

func (d *diskLab) measureLoadOf(ctx context.Context, c *contender, p diskPlan, m *measured) (err error) {
	if c.dumped != p.keys {
		if err := d.dump(ctx, c, p); err != nil {
			return err
		}
	}
	d.progress.step("%s loads", c.name)
	began := time.Now()
	s, err := d.spawn(c)
	if err != nil {
		return err
	}
	defer s.stop()
	control, err := s.ready(ctx, p.patience)
	took := time.Since(began)
	if err != nil {
		return s.explain(err)
	}
	defer control.close()
	cpu, err := cpuTime(s.pid)
	if err != nil {
		return err
	}
	waited, err := waitTime(s.pid)
	if err != nil {
		return err
	}
	rss, _, err := resident(s.pid)
	if err != nil {
		return err
	}
	keys, err := control.size()
	if err != nil {
		return err
	}
	if keys != p.keys {
		return fmt.Errorf("%d of %d keys were loaded", keys, p.keys)
	}
	name := func(what string) string { return c.name + ": " + what }
	m.add(name("ready after"), float64(took), asLatency)
	m.add(name("keys loaded"), float64(keys)/took.Seconds(), perSecond)
	m.add(name("processor time per key"), cpu.Seconds()*1e6/float64(keys), inMicros)
	m.add(name(waitFigure), 100*waited.Seconds()/took.Seconds(), inPercent)
	m.add(name("RSS then"), float64(rss), inBytes)
	return nil
}
