package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"
	"time"
)

// logPeriods are the periods of the sliding windows, in seconds. The records of a short period may be smaller.
var logPeriods = []int{60, 86400}

func aboutLogs(p plan) string {
	return fmt.Sprintf(`%s keys of CL.ZSLIDE admit %s requests of one each, key after key in turn, with a limit of 1,000,000. Each period
has a server of its own. RSS is without what the server held when it had just started.`, grouped(float64(p.logs)), grouped(float64(p.logBurst)))
}

// measureLogs measures the bytes that an exact sliding window keeps for each admission.
func measureLogs(ctx context.Context, l *lab, p plan) (m measured, err error) {
	for _, period := range logPeriods {
		if err := l.measureLog(ctx, p, period, &m); err != nil {
			return m, err
		}
	}
	return m, nil
}

func (l *lab) measureLog(ctx context.Context, p plan, period int, m *measured) (err error) {
	s, end, err := l.openCellserver(ctx)
	if err != nil {
		return err
	}
	defer end(&err)
	t := newTemplate("CL.ZSLIDE", "KEY", "1000000", strconv.Itoa(period), "1")
	result, err := l.runLoad(ctx, s, fmt.Sprintf("writing logs of %d seconds", period), &load{
		conns: loadConns, depth: loadDepth, total: p.logs * p.logBurst,
		command: func(b []byte, i int64, _ *rand.Rand) []byte { return t.appendTo(b, i%p.logs) },
	})
	if err != nil {
		return err
	}
	r, err := s.read()
	if err != nil {
		return err
	}
	name := func(what string) string { return fmt.Sprintf("%s, period %d s", what, period) }
	m.add(name("admissions"), result.rate(), perSecond)
	m.add(name("used_memory_dataset per admission"), float64(r.used)/float64(result.commands), bytesEach)
	m.add(name("RSS per admission"), float64(r.rss-s.empty)/float64(result.commands), bytesEach)
	if result.wall > time.Duration(period)*time.Second {
		m.note("Writing the logs of %d seconds took %s: some records had left their window.", period, result.wall.Round(time.Second))
	}
	if result.limited > 0 {
		m.note("%d admissions of period %d s were refused.", result.limited, period)
	}
	return nil
}
