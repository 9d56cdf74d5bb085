package main

import (
	"context"
	"fmt"
	"os/exec"
	"strconv"
	"strings"
	"time"
)

func aboutGC(p plan) string {
	return fmt.Sprintf(`The server is filled with %s keys as above, and then asked for %s with CL.THROTTLE on random ones of them. It
runs with GODEBUG=gctrace=1, so that Go's runtime tells of each garbage collection how much processor time it took:
marking, the help that it asks of commands, what it does while nothing else wants the processor, and its two moments in
which the world stands still. The share is of all the processor time that the server could have had.`,
		grouped(float64(p.keys)), spoken(p.busy))
}

// measureGC measures the cost of garbage collection while keys are created and while they are used.
func measureGC(ctx context.Context, l *lab, p plan) (m measured, err error) {
	s, end, err := l.open(ctx, func(port string) *exec.Cmd {
		c := l.cellserver(port)
		c.Env = append(c.Env, "GODEBUG=gctrace=1")
		return c
	})
	if err != nil {
		return m, err
	}
	defer end(&err)

	mark := len(s.log.since(0))
	filled, err := l.runLoad(ctx, s, "filling", keyLoad(p.keys, longLived...))
	if err != nil {
		return m, err
	}
	filling := sumCollections(s.log.since(mark))

	began, err := s.cpuNow()
	if err != nil {
		return m, err
	}
	mark = len(s.log.since(0))
	used, err := l.runLoad(ctx, s, "asking for random keys", busyLoad(p.keys, p.busy))
	if err != nil {
		return m, err
	}
	ended, err := s.cpuNow()
	if err != nil {
		return m, err
	}
	using := sumCollections(s.log.since(mark))

	share := func(c collections, wall time.Duration) float64 {
		return 100 * c.cpu.Seconds() / (wall.Seconds() * float64(l.serverProcs()))
	}
	m.add("collections during the fill", float64(filling.n), asCount)
	m.add("their share of the processor time, during the fill", share(filling, filled.wall), inPercent)
	m.add("the longest, during the fill", float64(filling.longest), asLatency)
	m.add("commands on random keys", used.rate(), perSecond)
	m.add("server's processor time per command", (ended.cpu-began.cpu).Seconds()*1e6/float64(used.commands), inMicros)
	m.add(waitFigure, waitShare(began, ended), inPercent)
	m.add("collections meanwhile", float64(using.n), asCount)
	m.add("their share of the processor time, meanwhile", share(using, used.wall), inPercent)
	m.add("of that, in time that nothing else wanted", share(collections{cpu: using.idle}, used.wall), inPercent)
	m.add("the longest, meanwhile", float64(using.longest), asLatency)
	if used.limited > 0 {
		m.note("%d of %d commands on random keys were refused.", used.limited, used.commands)
	}
	return m, nil
}

// collections is the sum of several garbage collections.
type collections struct {
	n       int
	cpu     time.Duration // processor time of all
	idle    time.Duration // of that, what nothing else wanted
	longest time.Duration // wall time of the longest, most of which does not stop anybody
}

// sumCollections adds up the gctrace lines in lines and ignores the others.
func sumCollections(lines []string) (sum collections) {
	for _, line := range lines {
		if c, ok := parseCollection(line); ok {
			sum.n++
			sum.cpu += c.cpu
			sum.idle += c.idle
			sum.longest = max(sum.longest, c.longest)
		}
	}
	return sum
}

// parseCollection reads a line of gctrace, which the documentation of Go's package runtime describes:
//
//	gc # @#s #%: #+#+# ms clock, #+#/#/#+# ms cpu, #->#-># MB, ...
//
// The five times of the processor are: stopped for sweeping, assists, background, idle, and stopped for ending.
func parseCollection(line string) (c collections, ok bool) {
	head, rest, found := strings.Cut(line, " ms clock, ")
	cpu, _, complete := strings.Cut(rest, " ms cpu,")
	_, clock, timed := strings.Cut(head, "%: ")
	if !strings.HasPrefix(line, "gc ") || !found || !complete || !timed {
		return c, false
	}
	separate := func(r rune) bool { return r == '+' || r == '/' }
	for i, field := range strings.FieldsFunc(cpu, separate) {
		ms, err := strconv.ParseFloat(field, 64)
		if err != nil {
			return c, false
		}
		took := time.Duration(ms * float64(time.Millisecond))
		c.cpu += took
		if i == 3 {
			c.idle = took
		}
	}
	for _, field := range strings.FieldsFunc(clock, separate) {
		ms, err := strconv.ParseFloat(field, 64)
		if err != nil {
			return c, false
		}
		c.longest += time.Duration(ms * float64(time.Millisecond))
	}
	return c, true
}
